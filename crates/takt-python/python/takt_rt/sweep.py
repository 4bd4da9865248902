"""Experiments over many task sets and loads, by the program `takt`.

    import takt_rt as takt

    curves = takt.sweep.schedulability(cpus=4, sets=1000)
    curves.table, curves.svg

    part = takt.sweep.schedulability(cpus=4, sets=1000, shard=(1, 4), state="part-1")
    takt.sweep.merge(["part-1", "part-2", "part-3", "part-4"]).table

The keywords are the options of `takt sweep`, without those for files of results; their defaults are those of the command.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

from ._native import Table, _duration, _in_python, _table_of_csv
from ._program import Finished, carry_out, failure, path_of

if TYPE_CHECKING:
    from ._native import _Duration

__all__ = ["Sweep", "copies", "load", "merge", "schedulability"]

_ENDS = [(signal.SIGTERM, 10.0)]
"""It saves the state."""

_File: TypeAlias = str | PathLike[str]
_Names: TypeAlias = str | Iterable[str]
"""Names in a list, or in a text with commas between."""
_Points: TypeAlias = str | float | Iterable[float | str]
"""Numbers, or a text such as `2.0..4.0:0.2`."""
_Range: TypeAlias = str | int | tuple[int, int]
"""A number, or the first and the last one, as a pair or as the text `1..5`."""
_Size: TypeAlias = str | tuple[int, int]
"""Width and height in pixels."""
_Shard: TypeAlias = str | tuple[int, int]
"""A part from 1 and the number of parts, as in `(1, 4)`."""


@final
class Sweep:
    """The results of an experiment, or a part of one that was computed with `shard`, for `merge`."""

    def __init__(self, notes: list[str], state: str | None, found: _Found | None) -> None:
        self._notes = notes
        self._state = state
        self._found = found

    @property
    def table(self) -> Table:
        """The curves: the CSV that the command prints."""
        return _table_of_csv(self.text)

    @property
    def text(self) -> str:
        """The CSV, byte for byte."""
        return self._whole().text

    @property
    def result(self) -> dict[str, Any]:
        """The object that the command prints with `--json`."""
        return self._whole().result

    @property
    def svg(self) -> str:
        """The curves as SVG."""
        return self._whole().svg

    @property
    def runs(self) -> Table:
        """A row for each run, or for each set of `schedulability`, with `runs=True`."""
        runs = self._whole().runs
        if runs is None:
            raise ValueError("`runs` needs the results of single runs\nhint: write runs=True")
        return runs

    @property
    def notes(self) -> list[str]:
        """Notes and warnings; for a part, the number of its sets."""
        return self._notes

    @property
    def state(self) -> str | None:
        """The file with the results, as it was given."""
        return self._state

    def _whole(self) -> _Found:
        if self._found is None:
            raise ValueError("this is a part of an experiment\nhint: `takt_rt.sweep.merge` takes all parts")
        return self._found

    def __fspath__(self) -> str:
        if self._state is None:
            raise TypeError("this experiment has no file of its state")
        return self._state

    def _repr_svg_(self) -> str | None:
        return None if self._found is None else self._found.svg

    def __repr__(self) -> str:
        return f"<Sweep: part in {self._state}>" if self._found is None else repr(self.table)


class _Found(NamedTuple):
    """What the program printed."""

    text: str
    result: dict[str, Any]
    svg: str
    runs: Table | None


def _texts(value: Any) -> str:
    """Several values with commas between; a text is as it is."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        return str(value)
    return ",".join(str(one) for one in value)


def _pair(name: str, value: str | int | tuple[int, int], between: str) -> str:
    if isinstance(value, tuple):
        if len(value) != 2:
            raise ValueError(f"`{name}` is a pair of numbers, not {value!r}")
        return between.join(str(one) for one in value)
    return str(value)


def _options(given: Mapping[str, Any]) -> list[str]:
    """Keywords as options of the command line."""
    pairs = {"size": "x", "shard": "/", "seeds": ".."}
    options = []
    for name, value in given.items():
        if value is None or value is False:
            continue
        option = "--test" if name == "tests" else "--" + name.replace("_", "-")
        if value is True:
            options.append(option)
            continue
        if name in ("duration", "grid"):
            text = _duration(name, value)
        elif name in pairs:
            text = _pair(name, value, pairs[name])
        else:
            text = _texts(value)
        options.append(f"{option}={text}")
    return options


def _notes(finished: Finished) -> list[str]:
    return [line.removeprefix("note: ") for line in _in_python(finished.err).splitlines() if line]


def _done(arguments: Sequence[str]) -> Finished:
    finished = carry_out(["sweep", *arguments], _ENDS)
    if finished.status != 0:
        raise failure(finished)
    return finished


def _results(arguments: Sequence[str], drawn: Sequence[str], *, state: _File | None, runs: bool) -> Sweep:
    """Prints an experiment, and then the same one from its state, as an object."""
    with tempfile.TemporaryDirectory(prefix="takt-") as folder:
        svg, rows = Path(folder) / "curves.svg", Path(folder) / "runs.csv"
        of_runs = [f"--runs={rows}"] if runs else []
        kept = [f"--state={os.fspath(state or Path(folder) / 'state')}"]
        # A merge reads its parts again, and writes a state only where one is wanted.
        is_merge = arguments[0] == "merge"
        first_kept, second_kept = (kept if state else [], []) if is_merge else (kept, kept)
        first = _done([*arguments, *first_kept, *drawn, f"--svg={svg}", *of_runs])
        second = _done([*arguments, *second_kept, "--json"])
        table = _table_of_csv(rows.read_text("utf-8")) if runs else None
        found = _Found(first.out, json.loads(second.out), svg.read_text("utf-8"), table)
        return Sweep(_notes(first), None if state is None else os.fspath(state), found)


def _experiment(command: str, file: _File | None, given: dict[str, Any]) -> Sweep:
    state, shard, runs = given.pop("state"), given.pop("shard"), given.pop("runs")
    drawn = _options({name: given.pop(name) for name in ("title", "size")})
    arguments = [command, *([] if file is None else [path_of(file)]), *_options(given)]
    if shard is None:
        return _results(arguments, drawn, state=state, runs=runs)
    if state is None:
        raise ValueError('`shard` needs `state`, the file of the part\nhint: write state="part-1"')
    if runs or drawn:
        raise ValueError("a part has no picture and no runs\nhint: give `title`, `size` and `runs` to `merge`")
    finished = _done([*arguments, f"--state={os.fspath(state)}", *_options({"shard": shard})])
    return Sweep(_notes(finished), os.fspath(state), None)


def schedulability(
    file: _File | None = None,
    *,
    cpus: int | None = None,
    points: _Points | None = None,
    sets: int | None = None,
    tests: _Names | None = None,
    placement: str | None = None,
    duration: _Duration | None = None,
    priorities: str | None = None,
    keep_sets: bool = False,
    generator: str | None = None,
    tasks: int | None = None,
    periods: str | None = None,
    grid: _Duration | None = None,
    deadlines: str | None = None,
    seed: int | None = None,
    threads: int | None = None,
    state: _File | None = None,
    shard: _Shard | None = None,
    runs: bool = False,
    title: str | None = None,
    size: _Size | None = None,
) -> Sweep:
    """The part of task sets that each test accepts, over the total utilisation: `takt sweep schedulability`.

    With `shard`, only that part is computed, into the file `state`, which `merge` reads.
    """
    given = {name: value for name, value in locals().items() if name != "file"}
    return _experiment("schedulability", file, given)


def load(
    file: _File | None = None,
    *,
    policies: _Names,
    loads: _Points,
    cpus: int | None = None,
    duration: _Duration | None = None,
    seeds: _Range | None = None,
    sets: int | None = None,
    utilities: str | None = None,
    late: str | None = None,
    placement: str | None = None,
    priorities: str | None = None,
    costs: str | None = None,
    columns: _Names | None = None,
    against: str | None = None,
    keep_runs: bool = False,
    generator: str | None = None,
    tasks: int | None = None,
    periods: str | None = None,
    grid: _Duration | None = None,
    deadlines: str | None = None,
    seed: int | None = None,
    threads: int | None = None,
    state: _File | None = None,
    shard: _Shard | None = None,
    runs: bool = False,
    title: str | None = None,
    size: _Size | None = None,
) -> Sweep:
    """Policies on the same jobs as the load rises, with confidence intervals: `takt sweep load`.

    The jobs are those of a workload's file, or of random task sets. With `shard`, only that part is computed, into the file `state`.
    """
    given = {name: value for name, value in locals().items() if name != "file"}
    return _experiment("load", file, given)


def copies(
    file: _File,
    *,
    copies: str,
    policies: _Names,
    cpus: int | None = None,
    duration: _Duration | None = None,
    seeds: _Range | None = None,
    placement: str | None = None,
    threads: int | None = None,
    state: _File | None = None,
    shard: _Shard | None = None,
    runs: bool = False,
    title: str | None = None,
    size: _Size | None = None,
) -> Sweep:
    """Policies as the number of instances of one program rises, as in `copies="player=1..7"`: `takt sweep copies`.

    With `shard`, only that part is computed, into the file `state`.
    """
    given = {name: value for name, value in locals().items() if name != "file"}
    return _experiment("copies", file, given)


def merge(
    parts: Iterable[_File],
    *,
    state: _File | None = None,
    partial: bool = False,
    runs: bool = False,
    title: str | None = None,
    size: _Size | None = None,
) -> Sweep:
    """The experiment whose parts were computed with `shard`: `takt sweep merge`.

    `state` is a file for the whole experiment, and `partial` takes the sets that are there.
    """
    files = [path_of(part) for part in parts]
    if not files:
        raise ValueError("`parts` is empty: it has the states of the parts")
    arguments = ["merge", *files, *_options({"partial": partial})]
    return _results(arguments, _options({"title": title, "size": size}), state=state, runs=runs)
