"""Runs over real processes, by the program `takt`."""

from __future__ import annotations

import json
import signal
import tempfile
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from ._errors import RunError
from ._native import Gantt, Table, _in_python, _Records, _tasks_of_run
from ._program import carry_out, failure, path_of

if TYPE_CHECKING:
    from ._native import _Duration

_ENDS = [(signal.SIGINT, 1.0), (signal.SIGTERM, 3.0), (signal.SIGTERM, 3.0)]
"""The first one ends a run at once. If it is ignored, the others do, with a grace of 2 s."""


@final
class Run:
    """A real run that has ended."""

    def __init__(self, name: str, json_text: str, text: str, output: str, records: _Records | None) -> None:
        self._name = name
        self._text = text
        self._json = json_text
        self._result: dict[str, Any] = json.loads(json_text)
        self._output = output
        self._records = records

    @property
    def tasks(self) -> Table:
        """A row for each task: the columns of a simulation, and measured times in nanoseconds."""
        return _tasks_of_run(self._json)

    @property
    def jobs(self) -> Table:
        """A row for each job, with `trace=True`."""
        return self._traced("jobs").jobs

    @property
    def trace(self) -> Table:
        """A row for each record, with `trace=True`."""
        return self._traced("trace").trace

    @property
    def result(self) -> dict[str, Any]:
        """The object of `takt run --json`."""
        return self._result

    @property
    def text(self) -> str:
        """The text of `takt run`."""
        return self._text

    @property
    def duration(self) -> int:
        """The length of the run in nanoseconds."""
        return int(self._result["duration_ns"])

    @property
    def ended(self) -> str:
        """The reason for the end: `duration`, `all exited`, `signal`, `command`, `exit`, `miss`, `overrun` or `output`."""
        return str(self._result["ended"])

    @property
    def notes(self) -> list[str]:
        """Notes and warnings about the run and this machine."""
        return list(self._result["notes"])

    @property
    def output(self) -> str:
        """The output of the processes, with warnings about the workload."""
        return self._output

    def gantt(
        self,
        *,
        start: _Duration | None = None,
        end: _Duration | None = None,
        width: int = 1200,
        title: str | None = None,
    ) -> Gantt:
        """Draws the schedule, with `trace=True`. `width` is in pixels, at least 400."""
        return self._traced("gantt").gantt(start=start, end=end, width=width, title=title)

    def _traced(self, what: str) -> _Records:
        if self._records is None:
            raise ValueError(f"`{what}` needs the records of the run\nhint: write run(…, trace=True)")
        return self._records

    def __repr__(self) -> str:
        jobs, seconds = self._result["jobs"], self.duration / 1e9
        counts = {name: "-" if jobs[name] is None else jobs[name] for name in ("released", "missed")}
        return f"<Run of {self._name}, {seconds:g} s: {counts['released']} jobs released, {counts['missed']} missed>"


def run(name: str, path: str | PathLike[str] | None, text: str, options: Sequence[str], trace: bool) -> Run:
    """Runs the workload of a file, or of a text without one. `options` are those of the command line."""
    with tempfile.TemporaryDirectory(prefix="takt-") as folder:
        records, shown = Path(folder) / "run.jsonl", Path(folder) / "run.txt"
        traced = [f"--trace={records}"] if trace else []
        arguments = ["run", "--json", f"--text={shown}", *options, *traced, "-" if path is None else path_of(path)]
        finished = carry_out(arguments, _ENDS, None if path is not None else text)
        # A run that ends early has a result, too.
        if finished.status not in (0, 1) or not finished.out.startswith("{"):
            raise failure(finished, name if path is None else None)
        text = _in_python(shown.read_text("utf-8"))
        if path is None:
            text = name + text.removeprefix("-")
        if not trace:
            return Run(name, finished.out, text, finished.err, None)
        try:
            return Run(name, finished.out, text, finished.err, _Records(records))
        except RuntimeError as error:
            # A full disk, for instance, which the program has told.
            raise RunError(finished.status, f"{error}\n{finished.err}".strip()) from error
