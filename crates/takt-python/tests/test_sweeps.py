"""Sweeps, and their parts."""

import inspect
import json
import os
import pickle
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nanoarrow
import pytest
import takt_rt as takt

from conftest import ROOT, Interrupt, Run, after, children_of, needs_program

pytestmark = needs_program

POINTS = [3.0, 3.6]
COMMAND = ["sweep", "schedulability", "--points", "3.0,3.6", "--sets", "60", "--test", "gfb,ff"]


def test_a_sweep_is_that_of_the_command(command: Run) -> None:
    curves = takt.sweep.schedulability(points=POINTS, sets=60, tests=["gfb", "ff"], runs=True)
    assert curves.text == command(*COMMAND).stdout
    assert curves.result == json.loads(command(*COMMAND, "--json").stdout)
    assert curves.table.columns == ["utilisation", "sets", "gfb", "ff"]
    assert curves.table["utilisation"] == POINTS
    assert curves.table["sets"] == [60, 60]
    assert all(isinstance(part, float) and 0 <= part <= 1 for part in curves.table["ff"])
    assert list(nanoarrow.ArrayStream(curves.table).read_all().to_pylist()) == curves.table.rows()
    assert curves.svg.startswith("<svg") and curves._repr_svg_() == curves.svg
    assert len(curves.runs) == 120
    assert curves.state is None
    with pytest.raises(ValueError, match="runs=True"):
        takt.sweep.schedulability(points=POINTS, sets=20, tests="gfb").runs


# Files of results that an object has in memory, and names that are other ones in Python.
LEFT_OUT = {"json", "svg", "html", "over-time", "help"}
RENAMED = {"tests": "test"}


@pytest.mark.parametrize("name", ["schedulability", "load", "copies", "merge"])
def test_the_keywords_are_the_options(name: str, command: Run) -> None:
    options = set(re.findall(r"^ +(?:-\w, )?--([a-z-]+)", command("sweep", name, "--help").stdout, re.MULTILINE))
    given = inspect.signature(getattr(takt.sweep, name)).parameters
    keywords = {RENAMED.get(key, key).replace("_", "-") for key in given if key not in ("file", "parts")}
    assert keywords == options - LEFT_OUT


def test_parts_give_the_whole(tmp_path: Path, command: Run) -> None:
    states = [tmp_path / "part-1", tmp_path / "part-2"]
    parts = [
        takt.sweep.schedulability(points=POINTS, sets=60, tests=["gfb", "ff"], shard=(number, 2), state=state)
        for number, state in enumerate(states, 1)
    ]
    assert [os.fspath(part) for part in parts] == [str(state) for state in states]
    assert "part 1/2" in parts[0].notes[0]
    with pytest.raises(ValueError, match="merge"):
        parts[0].table
    # A worker of another process gives it back.
    parts = [pickle.loads(pickle.dumps(part)) for part in parts]
    whole = takt.sweep.merge(parts, title="two parts")
    assert whole.text == command(*COMMAND).stdout
    assert "two parts" in whole.svg
    assert takt.sweep.merge(states, state=tmp_path / "whole").text == whole.text
    assert (tmp_path / "whole").exists()
    with pytest.raises(takt.RunError, match="part 1/2 is missing"):
        takt.sweep.merge(parts[1:])
    assert takt.sweep.merge(parts[1:], partial=True).table["sets"] != [60, 60]


def test_loads_have_confidence_intervals() -> None:
    curves = takt.sweep.load(
        policies=["g-edf", "g-rm"], loads="3..4:1", sets=5, duration=200_000_000, columns=["dsr", "missed"], size=(900, 500)
    )
    assert curves.table.columns == ["load", "utilisation", "policy", "runs", "dsr", "dsr_ci95", "missed", "missed_ci95"]
    assert curves.table["policy"] == ["g-edf", "g-rm"] * 2
    assert all(value >= 0 for value in curves.table["dsr_ci95"])
    assert 'width="900"' in curves.svg


def test_copies_of_a_task() -> None:
    file = ROOT / "workloads" / "movies-h264.yaml"
    curves = takt.sweep.copies(file, copies="player=1..2", policies=["g-cbs"], duration="4s", seeds=(1, 2))
    assert curves.table["copies"] == [1, 2]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"tests": ["gfbb"]}, "did you mean `gfb`"),
    ({"duration": 0.5}, "float 0.5"),
    ({"duration": "10xs"}, "`xs` is not a unit"),
    ({"grid": -1}, "negative"),
    ({"cpus": 0}, "`cpus`: 0 is not in"),
    ({"points": "3..2:0.1"}, "`points`"),
    ({"generator": "air"}, "`generator` has no value `air`: did you mean `airs`"),
    ({"shard": (1, 4)}, "`shard` needs `state`"),
    ({"shard": (5, 4), "state": "part"}, "`shard`"),
    ({"shard": (1, 2, 3), "state": "part"}, "pair"),
    ({"shard": "1/4", "state": "part", "title": "a"}, "`title`"),
]


@pytest.mark.parametrize(("arguments", "part"), WRONG)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], part: str) -> None:
    with pytest.raises(ValueError, match=part) as raised:
        takt.sweep.schedulability(**{"sets": 20, **arguments})
    assert "--" not in str(raised.value)
    assert not Path("part").exists()


def test_an_unknown_policy_has_the_nearest_name() -> None:
    with pytest.raises(ValueError, match="`gedf`: did you mean `g-edf`"):
        takt.sweep.load(policies=["gedf"], loads=[3])
    with pytest.raises(ValueError, match="empty"):
        takt.sweep.merge([])


@pytest.mark.parametrize(
    "text",
    [
        "policy: edf\ntasks:\n- {name: a, perid: 10ms}\n- {name: a, period: 10 ms, runtime: 20ms}\n",
        "policy: efd\n",
        "",
        "policy: edf\ntasks:\n- {name: a, period: 50ms, runtime: 11ms, steps: [5ms, lock x]}\n",
    ],
)
def test_faults_of_a_file_are_those_of_a_load(text: str, tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(text)
    with pytest.raises(takt.WorkloadError) as native:
        takt.load(file)
    with pytest.raises(takt.WorkloadError) as raised:
        takt.sweep.load(file, policies=["edf"], loads=[1])
    assert raised.value.diagnostics == native.value.diagnostics
    assert str(raised.value) == str(native.value)


def test_a_sweep_ends_with_python(tmp_path: Path) -> None:
    state, script = tmp_path / "state", tmp_path / "script.py"
    call = f"takt.sweep.schedulability(points=[3.4], sets=5_000_000, tests='gfb', state={os.fspath(state)!r})"
    script.write_text(f"import takt_rt as takt\n{call}\n")
    until = time.monotonic() + 60
    with subprocess.Popen([sys.executable, os.fspath(script)]) as python:
        while not has_results(state) and time.monotonic() < until:
            time.sleep(0.05)
        (program,) = children_of(python.pid)
        python.kill()
    while Path(f"/proc/{program}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{program}").exists()
    # Its state is complete, and no process holds it: another call continues it.
    assert 0 < takt.sweep.merge([state], partial=True).table["sets"][0] < 5_000_000


def has_results(state: Path) -> bool:
    """Whether an experiment has saved any. Its first state has none."""
    return state.exists() and '"done":[[' in state.read_text()


def test_an_interrupt_saves_the_state(tmp_path: Path, interrupt: Interrupt) -> None:
    state = tmp_path / "state"

    def sweep() -> object:
        state.unlink(missing_ok=True)
        return takt.sweep.schedulability(points=[3.4], sets=5_000_000, tests=["gfb"], state=state)

    interrupt("sweep", sweep, lambda: has_results(state))
    kept = takt.sweep.merge([state], partial=True).table["sets"][0]
    assert 0 < kept < 5_000_000


def test_an_interrupt_ends_a_sweep_without_a_state(interrupt: Interrupt) -> None:
    interrupt("sweep without a state", lambda: takt.sweep.load(policies=["g-edf"], loads="3..4:0.1", sets=500_000), after(0.5))
