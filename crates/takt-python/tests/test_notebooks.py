"""The notebooks in `examples/notebooks` run, and their assertions hold."""

from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest
from takt_rt import _program

from conftest import ROOT, needs_program

FOLDER = ROOT / "examples" / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))

pytestmark = [needs_program, pytest.mark.usefixtures("alone")]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the files of kernels out of the user's home."""
    for variable in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))


def read(name: str) -> Any:
    return nbformat.read(FOLDER / name, as_version=4)  # type: ignore[no-untyped-call]


def executed(name: str, folder: Path) -> str:
    """The outputs of a notebook as text. A cell that raises is an error of the test."""
    notebook = read(name)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return "\n".join(str(output.get("text") or output.get("data")) for output in outputs)


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS == ["policy.ipynb", "run.ipynb", "sweep.ipynb"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name: str, tmp_path: Path) -> None:
    outputs = executed(name, tmp_path)
    assert "image/svg+xml" in outputs or "<svg" in outputs
    if name == "run.ipynb" and "no real run on this machine" in outputs:
        pytest.skip(outputs.partition("no real run on this machine: ")[2].splitlines()[0])


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_has_no_outputs(name: str) -> None:
    notebook = read(name)
    nbformat.validate(notebook)
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in notebook.cells)


def test_a_machine_without_real_runs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = tmp_path / "takt"
    refusing.write_text(f"""#!/bin/sh
case $3 in run) echo 'error[missing-capability]: no CPU here
fix: take another machine' >&2; exit 3;; esac
exec {_program.find()} "$@"
""")
    refusing.chmod(0o755)
    monkeypatch.setenv("TAKT", str(refusing))
    outputs = executed("run.ipynb", tmp_path)
    assert "no real run on this machine: error[missing-capability]: no CPU here" in outputs
