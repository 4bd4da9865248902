"""Takt in Python: real-time schedules that are checked, analyzed, simulated, run and drawn.

    import takt_rt as takt

    w = takt.load("tasks.yaml")
    print(w.check().text)
    r = w.simulate("10s", trace=True)
    r.tasks, r.jobs, r.trace    # tables for pandas, polars and pyarrow
    r.gantt()                   # drawn in a notebook
    w.run("10s").tasks          # real processes, where the machine allows

Times are whole nanoseconds. Durations are such numbers, or texts with a unit such as "10ms".
"""

from collections.abc import Callable as _Callable
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import sweep
from ._errors import Diagnostic, MissingCapability, PolicyError, ProgramError, RunError, WorkloadError
from ._native import (
    NEVER,
    Analysis,
    Check,
    Gantt,
    Job,
    Policy,
    Simulation,
    Table,
    Workload,
    __version__,
    analyze,
    generate,
    load,
    loads,
    tasks,
)
from ._run import Run

__all__ = [
    "NEVER",
    "Analysis",
    "Check",
    "Diagnostic",
    "Gantt",
    "Job",
    "MissingCapability",
    "Policy",
    "PolicyError",
    "ProgramError",
    "Run",
    "RunError",
    "Simulation",
    "Table",
    "Workload",
    "WorkloadError",
    "__version__",
    "analyze",
    "generate",
    "load",
    "loads",
    "policy",
    "sweep",
    "tasks",
]

if _TYPE_CHECKING:
    from ._native import _Choose


def policy(*, scope: str = "global") -> "_Callable[[_Choose], Policy]":
    """Makes a function a policy. `scope` is `global` (all CPUs of the machine) or `uniprocessor`.

    The function receives the instant, the ready jobs and the number of CPUs. It returns the jobs that run from now on, at most one a CPU,
    the most urgent first.
    """

    def decorate(function: "_Choose") -> Policy:
        return Policy(function, scope=scope)

    return decorate
