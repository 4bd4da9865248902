"""Python and the command line give the same results."""

import csv
import json
import re
from pathlib import Path

import pytest
import takt_rt as takt

from conftest import ROOT, Run

WORKLOADS = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "workloads").rglob("*")
    if path.suffix in (".yaml", ".ts") and path.is_file()
)


def test_there_are_workloads() -> None:
    assert len(WORKLOADS) > 80


@pytest.mark.parametrize("file", WORKLOADS)
def test_a_workload_has_equal_results(file: str, command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    # Task sets of ChronOS name no policy.
    policy = "g-edf" if file.endswith(".ts") else None
    trace = tmp_path / "trace.csv"
    option = ["--policy", policy] if policy else []
    expected = command("sim", file, "--json", "--trace", str(trace), *option)
    if expected.returncode == 2:
        codes = re.findall(r"^error\[([a-z-]+)\]", expected.stderr, re.MULTILINE)
        assert codes
        with pytest.raises(takt.WorkloadError) as raised:
            takt.load(file, policy=policy).simulate()
        assert [d.code for d in raised.value.diagnostics if d.severity == "error"] == codes
        return
    assert expected.returncode == 0, expected.stderr
    result = json.loads(expected.stdout)

    simulation = takt.load(file, policy=policy).simulate(trace=True)
    assert simulation.result == result

    tasks = simulation.tasks
    assert tasks["name"] == [task["name"] for task in result["tasks"]]
    for count in ("released", "completed", "met", "missed", "aborted", "preemptions", "migrations"):
        assert tasks[count] == [task[count] for task in result["tasks"]], count
    for figure in ("min", "mean", "p99", "max"):
        times = [(task["response_ns"] or {}).get(figure) for task in result["tasks"]]
        assert tasks[f"response_{figure}_ns"] == times, figure

    with trace.open(newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["type"] not in ("meta", "end")]
    records = simulation.trace
    assert len(records) == len(rows) > 0
    for name in records.columns:
        column = ["" if value is None else str(value) for value in records[name]]
        assert column == [row[name] for row in rows], name


def test_a_check_has_equal_results(command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    file = "workloads/hello.yaml"
    check = takt.load(file).check()
    assert check.result == json.loads(command("check", file, "--machine", "none", "--json").stdout)
    assert check.text == command("check", file, "--machine", "none").stdout


def test_drawn_sets_and_verdicts_are_equal(command: Run, tmp_path: Path) -> None:
    drawn = command("sweep", "generate", "--utilisation", "3.4", "--sets", "50", "--seed", "7").stdout
    sets = takt.generate(3.4, 50, seed=7)
    rows = [row for row in csv.DictReader(drawn.splitlines())]
    assert [{key: str(value) for key, value in row.items()} for row in sets.rows()] == rows

    file = tmp_path / "sets.csv"
    file.write_text(drawn)
    expected = command("analyze", str(file), "--cpus", "4", "--test", "gfb,ff", "--json")
    for given in (file, str(file), sets, {name: sets[name] for name in sets.columns}):
        analysis = takt.analyze(given, tests=["gfb", "ff"], cpus=4)
        assert analysis.result == json.loads(expected.stdout)
    verdicts = analysis.verdicts
    assert len(verdicts) == 50
    assert set(verdicts["ff"]) == {"yes", "unknown"}
