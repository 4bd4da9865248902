"""Real runs by `w.run`, where this machine allows them."""

import fcntl
import glob
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import pytest
import takt_rt as takt
from takt_rt import _program

from conftest import Interrupt, after, children_of, needs_program

pytestmark = [needs_program, pytest.mark.usefixtures("alone")]

BURN = (
    "policy: edf\nrealtime: auto\ntasks:\n"
    "- {name: a, period: 50ms, runtime: 6ms, init: yes, cmd: exec takt burn --runtime 4ms}\n"
    "- {name: b, period: 100ms, runtime: 9ms, init: yes, cmd: exec takt burn --runtime 6ms}\n"
)
ENDLESS = "policy: edf\ntasks:\n- {name: a, period: 50ms, runtime: 5ms, cmd: sleep 987654, completion: none}\n"


def left() -> list[str]:
    """The processes and groups that a run has left behind."""
    found = glob.glob("/sys/fs/cgroup/**/takt*", recursive=True)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"987654" in words:
            found.append(process.name)
    return found


def test_a_run_ends_with_python(tmp_path: Path) -> None:
    before = left()
    script = tmp_path / "script.py"
    script.write_text(f"import takt_rt as takt\ntakt.loads({ENDLESS!r}).run('100s')\n")
    with subprocess.Popen([sys.executable, str(script)]) as python:
        until = time.monotonic() + 20
        # The program, its watcher, and the process of the task.
        while len(left()) == len(before) and time.monotonic() < until:
            time.sleep(0.05)
        assert len(left()) > len(before)
        (program,) = children_of(python.pid)
        python.kill()
    while (left() != before or Path(f"/proc/{program}").exists()) and time.monotonic() < until:
        time.sleep(0.05)
    assert left() == before
    assert not Path(f"/proc/{program}").exists()


def test_a_file_is_no_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("-w.yaml").write_text(BURN)
    assert takt.load("-w.yaml").run("100ms").ended == "duration"


def test_another_status_3_is_no_missing_capability(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with state.open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        with pytest.raises(takt.RunError, match="written by") as raised:
            takt.sweep.schedulability(points=[3.0], sets=10, tests="gfb", state=state)
    assert (type(raised.value), raised.value.status) == (takt.RunError, 3)


def test_a_run_has_the_counts_of_its_simulation() -> None:
    w = takt.loads(BURN)
    run, simulation = w.run("1s", trace=True), w.simulate("1s", trace=True)
    assert run.duration == simulation.duration == 1_000_000_000
    assert (run.ended, run.result["source"]) == ("duration", "run")
    columns = simulation.tasks.columns
    assert run.tasks.columns[: len(columns) - 2] == columns[:-2]
    for count in ("name", "released"):
        assert run.tasks[count] == simulation.tasks[count]
    # A loaded machine may finish a job late, and never loses one.
    decided = [met + missed for met, missed in zip(run.tasks["met"], run.tasks["missed"], strict=True)]
    assert decided == simulation.tasks["met"]
    assert run.jobs.columns == simulation.jobs.columns
    assert run.jobs["task"].count("a") == 20
    assert all(used >= 4_000_000 for used in run.tasks["cpu_ns"])
    assert run.trace.columns == simulation.trace.columns
    assert run.trace["type"].count("release") == 30
    assert run.gantt(end="200ms", title="a run").svg.startswith("<svg")
    assert repr(run).startswith("<Run of workload.yaml, 1 s: 30 jobs released")
    assert any("cpus" in note or "CPU" in note for note in run.notes)
    assert run.text.startswith("workload.yaml: policy edf (uniprocessor), CPU 0, mechanism ") and "\nscheduling latency (" in run.text
    assert re.search(r"^a +\S+ +20 ", run.text, re.MULTILINE), run.text


def test_a_run_without_a_trace_has_no_jobs() -> None:
    run = takt.loads(BURN).run("100ms")
    for call in (lambda: run.jobs, lambda: run.trace, run.gantt):
        with pytest.raises(ValueError, match="trace=True"):
            call()


def test_the_settings_of_a_load_count() -> None:
    w = takt.loads(BURN, policy="rm", seed=7)
    result = w.run("100ms").result
    assert (result["policy"], result["seed"]) == ("rm", 7)
    result = w.run(100_000_000, policy="fp", seed=8, mechanism="signal").result
    assert (result["policy"], result["seed"], result["mechanism"]) == ("fp", 8, "signal")


def test_a_file_runs_in_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = tmp_path / "below"
    below.mkdir()
    text = "policy: edf\ntasks:\n- {name: a, period: 50ms, runtime: 5ms, completion: none, cmd: pwd > where}\n"
    (below / "w.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    w = takt.load("below/w.yaml")
    assert w.run("1s").ended == "all exited"
    assert (below / "where").read_text().strip() == str(below)
    # Its name is no longer that of the same file.
    monkeypatch.chdir(below)
    (below / "where").unlink()
    w.run("1s")
    assert (below / "where").exists()
    (below / "w.yaml").write_text(text + "\n")
    with pytest.raises(ValueError, match="has changed.*\n.*load it again"):
        w.run("1s")
    # A text has no directory, so its processes have that of Python.
    takt.loads(text.replace("where", "here")).run("1s")
    assert (below / "here").exists()


def test_the_output_of_processes_is_kept() -> None:
    run = takt.loads(ENDLESS.replace("sleep 987654", "echo hello")).run("1s")
    assert "hello" in run.output
    assert run.ended == "all exited"


def test_a_fault_for_runs_alone_is_that_of_the_workload() -> None:
    # A simulation ignores processes, so a task without a command is no fault of the file.
    w = takt.loads(ENDLESS.replace("cmd: sleep 987654, completion: none", "steps: [run 5ms]"))
    assert w.simulate("1s").tasks["missed"] == [0]
    with pytest.raises(takt.WorkloadError) as raised:
        w.run("100ms")
    fault = raised.value.diagnostics[0]
    assert (fault.severity, fault.line) == ("error", 3)
    assert fault.message in str(raised.value) and "workload.yaml:3:" in str(raised.value)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"duration": -1}, "negative"),
    ({"duration": 0}, "above zero"),
    ({"duration": 0.5}, "float 0.5"),
    ({"duration": "10xs"}, "`xs` is not a unit"),
    ({"mechanism": "v3"}, "did you mean"),
    ({"scheduler_class": "fif"}, "did you mean `fifo`"),
    ({"policy": "efd"}, "did you mean `edf`"),
    ({"policy": lambda now, ready, cpus: ready}, "no function"),
]


@pytest.mark.parametrize(("arguments", "part"), WRONG)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], part: str) -> None:
    with pytest.raises(ValueError, match=part):
        takt.loads(BURN).run(**{"duration": "1s", **arguments})


def test_a_missing_capability_has_its_fix() -> None:
    text = BURN.replace("policy: edf", "policy: g-edf\ncpus: 0,999")
    with pytest.raises(takt.MissingCapability, match="fix: ") as raised:
        takt.loads(text).run("100ms")
    assert raised.value.status == 3


def test_a_failed_run_has_its_status() -> None:
    text = "policy: edf\ninit_timeout: 200ms\ntasks:\n- {name: a, period: 50ms, runtime: 5ms, init: yes, cmd: sleep 987654}\n"
    with pytest.raises(takt.RunError, match="a") as raised:
        takt.loads(text).run("1s")
    assert raised.value.status == 1
    assert left() == []


def test_an_interrupt_ends_the_run_and_leaves_nothing(interrupt: Interrupt) -> None:
    before, long_enough = left(), after(0.5)

    def works() -> bool:
        # The processes of the task.
        return any(name.isdigit() for name in left() if name not in before) and long_enough()

    interrupt("run", takt.loads(ENDLESS).run, works)
    assert left() == before


def test_a_program_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "takt"
    other.write_text("#!/bin/sh\necho takt 0.0.9\n")
    monkeypatch.setenv("TAKT", str(other))
    with pytest.raises(takt.ProgramError, match="is no program\nhint: .*TAKT"):
        takt.loads(BURN).run("1s")
    other.chmod(0o755)
    with pytest.raises(takt.ProgramError, match="0.0.9.*\nhint: .*TAKT"):
        takt.loads(BURN).run("1s")


@pytest.mark.skipif(not Path(_program._OWN).exists(), reason="the package has no program: `cargo xtask python` builds a wheel with it")
def test_the_wheel_has_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAKT", raising=False)
    monkeypatch.setenv("PATH", "/bin:/usr/bin")
    assert shutil.which("takt") is None
    assert _program.find() == _program._OWN
    # Programs of the workload call `takt burn`.
    run = takt.loads(BURN).run("500ms")
    assert (run.ended, run.tasks["completed"]) == ("duration", [10, 5])
    assert takt.sweep.schedulability(points=[3.0], sets=20, tests="gfb").table["sets"] == [20]
    done = subprocess.run([_program.find(), "check", "w.yaml"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "unrecognized subcommand 'check'" in done.stderr


def test_the_program_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _program.find()
    monkeypatch.delenv("TAKT", raising=False)
    monkeypatch.setattr(_program, "_OWN", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(takt.ProgramError, match="not found.*\nhint: "):
        takt.loads(BURN).run("100ms")
    path, scripts, own = (tmp_path / name for name in ("path", "scripts", "own"))
    for folder in (path, scripts, own):
        folder.mkdir()
        (folder / "takt").symlink_to(program)
    monkeypatch.setenv("PATH", f"{path}:/bin:/usr/bin")
    assert _program.find() == str(path / "takt")
    assert takt.loads(BURN).run("100ms").ended == "duration"
    # The environment of Python, the package, and the variable come before.
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(scripts))
    assert _program.find() == str(scripts / "takt")
    monkeypatch.setattr(_program, "_OWN", str(own / "takt"))
    assert _program.find() == str(own / "takt")
    monkeypatch.setenv("TAKT", program)
    assert _program.find() == program
