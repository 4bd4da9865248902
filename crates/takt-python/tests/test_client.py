"""The client library in programs of a run."""

import ctypes.util
import subprocess
import sys
from pathlib import Path

import pytest
import takt_rt as takt
from takt_rt import client

from conftest import ROOT, needs_program

LIBRARY = Path(client.__file__).with_name("libtakt.so.1")


def test_the_client_is_that_of_the_source_tree() -> None:
    assert Path(client.__file__).read_bytes() == (ROOT / "clients" / "python" / "takt.py").read_bytes()


def test_a_program_outside_of_a_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAKT_STANDALONE", raising=False)
    with pytest.raises(client.NotUnderTakt) as raised:
        client.ready()
    assert raised.value.code == -1


def test_a_missing_library_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_loaded", None)
    monkeypatch.setattr(client, "__file__", "/nowhere/client.py")
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    with pytest.raises(ImportError, match="libtakt.so.1 was not found.*\nhint: .*TAKT_LIBRARY"):
        client.aborted()
    monkeypatch.setenv("TAKT_LIBRARY", str(LIBRARY))
    assert client.aborted() is False


def test_a_program_has_jobs_of_its_own_period() -> None:
    program = (
        "from takt_rt import client as takt\n"
        "for job in takt.jobs():\n"
        "    print(job.number, job.deadline - job.release)\n"
        "    if job.number == 2: break\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={"TAKT_STANDALONE": "20ms"}, capture_output=True, text=True, check=True
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["0", "1", "2"]


@needs_program
@pytest.mark.usefixtures("alone")
def test_a_program_signals_its_jobs_in_a_run(tmp_path: Path) -> None:
    (tmp_path / "planner.py").write_text(
        "from takt_rt import client as takt\n"
        "shared = takt.resource('map')\n"
        "for job in takt.jobs():\n"
        "    with takt.locked(shared):\n"
        "        sum(range(5_000))\n"
        "    print(job.number, job.deadline - job.release, takt.statistics().completed, flush=True)\n"
    )
    (tmp_path / "w.yaml").write_text(
        "policy: edf\nresources: [map]\ntasks:\n- {name: planner, period: 50ms, runtime: 20ms, deadline: 40ms, init: yes,"
        f" cmd: exec {sys.executable} -B planner.py}}\n"
    )
    run = takt.load(tmp_path / "w.yaml").run("1s", trace=True)
    assert run.ended == "duration", run.output
    assert run.tasks["released"] == [20]
    lines = [line.split() for line in run.output.splitlines() if line[:1].isdigit()]
    assert [line[0] for line in lines[:3]] == ["0", "1", "2"], run.output
    assert {line[1] for line in lines} == {"40000000"}
    assert run.tasks["completed"] == [len(lines)]
    assert [line[2] for line in lines[:3]] == ["0", "1", "2"], "the completed jobs of `statistics`"
    assert "request" in run.trace["type"], "the lock"
