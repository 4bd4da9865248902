"""The native part of `takt_rt`."""

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias, final

from ._run import Run

__all__ = [
    "__version__",
    "NEVER",
    "Workload",
    "Check",
    "Simulation",
    "Gantt",
    "Analysis",
    "Policy",
    "Job",
    "Table",
    "load",
    "loads",
    "tasks",
    "analyze",
    "generate",
    "_Records",
    "_tasks_of_run",
    "_table_of_csv",
    "_duration",
    "_in_python",
]

__version__: str

NEVER: int
"""The deadline of a job that has none."""

_Duration: TypeAlias = str | int
"""A text with a unit such as "10ms", or whole nanoseconds; above zero."""

_Verdict: TypeAlias = Literal["yes", "no", "unknown"]

class _Columns(Protocol):
    """A table with named columns, such as a data frame."""

    @property
    def columns(self) -> Iterable[Any]: ...
    def __getitem__(self, name: Any, /) -> Any: ...

class _Pydict(Protocol):
    """A table of pyarrow."""

    def to_pydict(self) -> dict[str, list[Any]]: ...

_TaskSets: TypeAlias = _Columns | _Pydict | Mapping[str, Iterable[int]]
"""Task sets by columns: `set_id`, `task_id`, `C_us`, `D_us`, `T_us` (runtime, relative deadline, period in microseconds).

Without `set_id` it is one set, without `task_id` the rows are numbered, without `D_us` the deadline is the period.
"""

@final
class Table:
    """A table with columns of numbers and texts. pandas, polars and pyarrow take it by Arrow's C interface."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
    def __len__(self) -> int:
        """Number of rows."""
    def __getitem__(self, column: str, /) -> list[Any]:
        """The values of a column; `None` where a row has none."""
    def rows(self) -> list[dict[str, Any]]:
        """Each row as a dictionary."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...
    def __arrow_c_schema__(self) -> Any: ...
    def _repr_html_(self) -> str: ...

@final
class Check:
    """The verdict about a workload."""

    @property
    def verdict(self) -> _Verdict:
        """Whether every deadline is met."""
    @property
    def schedulable(self) -> bool | None:
        """The same; `None` if it is not known."""
    @property
    def text(self) -> str:
        """The text of `takt check`."""
    @property
    def result(self) -> dict[str, Any]:
        """The object of `takt check --json`."""

@final
class Analysis:
    """The verdicts of tests about task sets."""

    @property
    def verdicts(self) -> Table:
        """A row for each set, a column for each test with `yes`, `no` or `unknown`."""
    @property
    def notes(self) -> list[str]:
        """Notes about simulated policies."""
    @property
    def result(self) -> dict[str, Any]:
        """The object of `takt analyze --json`."""
    @property
    def text(self) -> str:
        """The table of one set with the reason of each verdict; CSV for several sets."""
    def __len__(self) -> int:
        """Number of sets."""

@final
class Gantt:
    """A chart of a schedule, drawn in notebooks."""

    @property
    def svg(self) -> str:
        """The chart as SVG."""
    def save(self, path: str | PathLike[str]) -> None:
        """Writes the SVG to a file."""
    def _repr_svg_(self) -> str: ...
    def _repr_html_(self) -> str: ...

@final
class Simulation:
    """A simulation that has ended. Tables are made at each access."""

    @property
    def tasks(self) -> Table:
        """A row for each task: counts, and times in nanoseconds."""
    @property
    def jobs(self) -> Table:
        """A row for each job, with `trace=True`."""
    @property
    def trace(self) -> Table:
        """A row for each record, with `trace=True`."""
    @property
    def text(self) -> str:
        """The text of `takt sim`."""
    @property
    def result(self) -> dict[str, Any]:
        """The object of `takt sim --json`."""
    @property
    def duration(self) -> int:
        """The simulated time in nanoseconds."""
    @property
    def notes(self) -> list[str]:
        """Notes about the simulated machine and assigned priorities."""
    def gantt(
        self,
        *,
        start: _Duration | None = None,
        end: _Duration | None = None,
        width: int = 1200,
        title: str | None = None,
    ) -> Gantt:
        """Draws the schedule, with `trace=True`. `width` is in pixels, at least 400."""

@final
class Job:
    """A ready job, as a policy sees it. Times are nanoseconds."""

    @property
    def task(self) -> str:
        """The name of its task."""
    @property
    def index(self) -> int:
        """The index of its task in the workload."""
    @property
    def number(self) -> int:
        """Its number within its task, from 0."""
    @property
    def release(self) -> int:
        """Its release time."""
    @property
    def deadline(self) -> int:
        """Its absolute deadline; `NEVER` without one."""
    @property
    def remaining(self) -> int | None:
        """The rest of its declared runtime; `None` without one."""
    @property
    def consumed(self) -> int:
        """The work that it has done."""
    @property
    def priority(self) -> int:
        """The priority of its task."""
    @property
    def running(self) -> bool:
        """Whether it runs at present."""

_Choose: TypeAlias = Callable[[int, list[Job], int], Iterable[Job]]
"""A policy: the instant, the ready jobs and the number of CPUs give the jobs that run from now on."""

@final
class Policy:
    """A function with the CPUs that it schedules."""

    def __new__(cls, function: _Choose, *, scope: str = "global") -> Policy: ...
    @property
    def scope(self) -> Literal["global", "uniprocessor"]: ...
    @property
    def function(self) -> _Choose: ...
    def __call__(self, now: int, ready: list[Job], cpus: int) -> Iterable[Job]: ...

@final
class Workload:
    """A workload that was read."""

    @property
    def name(self) -> str:
        """The name of its file."""
    @property
    def cpus(self) -> int:
        """The number of CPUs of its machine."""
    @property
    def tasks(self) -> list[str]:
        """The names of its tasks."""
    def check(self) -> Check:
        """Whether it is schedulable, and by which test."""
    def analyze(
        self,
        tests: str | Iterable[str] | None = None,
        *,
        duration: _Duration | None = None,
        sensitivity: bool = False,
    ) -> Analysis:
        """Asks tests about its tasks; by default all that are about its number of CPUs. `duration` is the time of simulated policies."""
    def simulate(
        self,
        duration: _Duration | None = None,
        *,
        policy: str | Policy | _Choose | None = None,
        seed: int | None = None,
        trace: bool = False,
        load: float | str | None = None,
        late: Literal["continue", "abort", "abort-at-event"] | None = None,
        decided: bool | None = None,
        allow_differences: bool = False,
    ) -> Simulation:
        """Simulates it.

        `duration` is by default that of the file, else two major frames, or one hyperperiod up to 10 s. `trace` keeps the records. `load` is a
        factor for runtimes. `decided` counts only the jobs whose deadline is not after the end. `allow_differences` simulates although a
        simulation ignores keys of the file that would change outcomes.
        """
    def run(
        self,
        duration: _Duration | None = None,
        *,
        policy: str | None = None,
        seed: int | None = None,
        trace: bool = False,
        mechanism: Literal["auto", "v2", "v1", "signal"] = "auto",
        scheduler_class: Literal["fifo", "deadline"] | None = None,
        share_cpus: bool = False,
        allow_differences: bool = False,
    ) -> Run:
        """Runs it over real processes, by the program `takt`.

        `duration` is by default that of the file, else the run lasts until all processes have ended. `trace` keeps the records. The other
        keywords are options of `takt run`.
        """

def load(
    path: str | PathLike[str],
    *,
    cpus: int | None = None,
    policy: str | None = None,
    seed: int | None = None,
    placement: str | None = None,
    priorities: str | None = None,
    copies: Mapping[str, int] | None = None,
) -> Workload:
    """Reads a workload file. The settings are the options of `takt sim` with the same names."""

def loads(
    text: str,
    *,
    name: str | None = None,
    cpus: int | None = None,
    policy: str | None = None,
    seed: int | None = None,
    placement: str | None = None,
    priorities: str | None = None,
    copies: Mapping[str, int] | None = None,
) -> Workload:
    """Reads the text of a workload. Messages call it `name`; a name that ends in `.csv` makes it a task set in CSV."""

def tasks(
    table: _TaskSets,
    *,
    cpus: int | None = None,
    policy: str | None = None,
    seed: int | None = None,
    placement: str | None = None,
    priorities: str | None = None,
) -> Workload:
    """A workload of the tasks in a table, which holds one set."""

def analyze(
    sets: str | PathLike[str] | _TaskSets,
    *,
    tests: str | Iterable[str] | None = None,
    cpus: int = 1,
    duration: _Duration | None = None,
    placement: str | None = None,
    priorities: str | None = None,
    seed: int = 0,
    sensitivity: bool = False,
) -> Analysis:
    """Asks tests about the task sets of a CSV file or of a table. `sim:POLICY` simulates a policy for `duration`, by default 60 s."""

def generate(
    utilisation: float | str,
    sets: int = 1,
    *,
    seed: int = 1,
    generator: str = "airs",
    tasks: int = 10,
    periods: str = "uniform:1ms..100ms",
    grid: _Duration | None = None,
    deadlines: str = "implicit",
) -> Table:
    """Draws random task sets, as `takt sweep generate` does: a row for each task."""

@final
class _Records:
    """The records of a trace that was written as JSON lines."""

    def __new__(cls, path: str | PathLike[str]) -> _Records: ...
    @property
    def jobs(self) -> Table: ...
    @property
    def trace(self) -> Table: ...
    def gantt(
        self, *, start: _Duration | None, end: _Duration | None, width: int, title: str | None
    ) -> Gantt: ...

def _tasks_of_run(json: str) -> Table: ...
def _table_of_csv(text: str) -> Table: ...
def _duration(name: str, given: _Duration) -> str: ...
def _in_python(text: str) -> str: ...
