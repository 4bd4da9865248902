"""The bench of the package works."""

import subprocess
import sys

from conftest import ROOT, needs_program


@needs_program
def test_the_bench_has_each_figure() -> None:
    script = ROOT / "crates" / "takt-python" / "bench.py"
    done = subprocess.run([sys.executable, script, "--quick"], check=True, capture_output=True, text=True)
    rows = [line for line in done.stdout.splitlines() if line.endswith((": ok", ": over"))]
    for name in ("empty call", "16 tasks", "a decision", "work of two", "merge of 20", "state of 1e+05", "a state opened"):
        assert any(row.startswith(name) for row in rows), done.stdout
