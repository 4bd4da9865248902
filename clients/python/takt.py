"""The client library of Takt for Python: a wrapper of libtakt by ctypes.

A scheduled program learns about its jobs and makes requests of its scheduler. Times are nanoseconds; instants are those of
`time.monotonic_ns()`. A task is one thread, and the calls belong to that thread (`attach_thread`). `clients/c/takt.h` describes each call.

    import takt    # or, of the package takt-rt: from takt_rt import client as takt

    for job in takt.jobs():
        work(job)

Outside Takt each call raises `NotUnderTakt`, unless `TAKT_STANDALONE` has a period, such as 20ms: a job is then released at each period.

The library is searched in the file named by `TAKT_LIBRARY`, beside this file, and in the system's search path.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import os
from typing import Any, Iterator, NamedTuple

NEVER = 2**63 - 1


class Job(NamedTuple):
    """A job: its number within its task, from 0, its release and its absolute deadline (`NEVER` without one)."""

    number: int
    release: int
    deadline: int


class Statistics(NamedTuple):
    """Consumption and remaining budget of the present job, and the counts of the task. The utility is in millionths."""

    consumed: int
    budget: int
    released: int
    completed: int
    met: int
    missed: int
    aborted: int
    utility: int


class Error(Exception):
    """A call failed. `code` is the result of the C library."""

    def __init__(self, code: int) -> None:
        super().__init__(_library().takt_strerror(code).decode())
        self.code = code


class NotUnderTakt(Error):
    """`takt run` did not start this program."""


class Refused(Error):
    """The policy does not accept the request, or the task has no job."""


class Aborted(Error):
    """The job was aborted before the request was granted."""


_ERRORS: dict[int, type[Error]] = {-1: NotUnderTakt, -5: Refused, -6: Aborted}


class _Job(ctypes.Structure):
    number: int
    release: int
    deadline: int
    _fields_ = [("number", ctypes.c_uint64), ("release", ctypes.c_int64), ("deadline", ctypes.c_int64)]


class _Segment(ctypes.Structure):
    deadline: int
    runtime: int
    utility: int
    _fields_ = [("deadline", ctypes.c_int64), ("runtime", ctypes.c_int64), ("utility", ctypes.c_int64)]


_loaded: ctypes.CDLL | None = None


def _library() -> ctypes.CDLL:
    global _loaded
    if _loaded is None:
        here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libtakt.so.1")
        beside = here if os.path.exists(here) else None
        name = os.environ.get("TAKT_LIBRARY") or beside or ctypes.util.find_library("takt")
        if name is None:
            raise ImportError(
                "libtakt.so.1 was not found: TAKT_LIBRARY names none, it is not beside this file, and not installed\n"
                "hint: `make -C clients/c` in the source tree of Takt builds it; set TAKT_LIBRARY to its path"
            )
        library = ctypes.CDLL(name, use_errno=True)
        library.takt_strerror.restype = ctypes.c_char_p
        for call in ("takt_set_period", "takt_set_deadline", "takt_set_runtime"):
            getattr(library, call).argtypes = [ctypes.c_int64]
        library.takt_set_share.argtypes = [ctypes.c_int32, ctypes.c_uint32]
        library.takt_begin.argtypes = [ctypes.POINTER(_Segment), ctypes.POINTER(_Job)]
        library.takt_resource.argtypes = [ctypes.c_char_p]
        library.takt_attach_thread.argtypes = [ctypes.c_char_p]
        _loaded = library
    return _loaded


def _call(name: str, *arguments: Any) -> int:
    result: int = getattr(_library(), name)(*arguments)
    if result < 0:
        raise _ERRORS.get(result, Error)(result)
    return result


def _job(name: str) -> Job:
    job = _Job()
    _call(name, ctypes.byref(job))
    return Job(job.number, job.release, job.deadline)


def attach_thread(name: str) -> None:
    """Makes the calling thread the task of this name (`thread_of`), while the program initialises."""
    _call("takt_attach_thread", name.encode())


def ready() -> Job:
    """Reports the end of the initialisation and waits for the first job, which it returns."""
    return _job("takt_ready")


def next_job() -> Job:
    """Completes the present job, waits for the next one, and returns it."""
    return _job("takt_next_job")


def jobs() -> Iterator[Job]:
    """The jobs of this task, one after the other. The next iteration completes a job."""
    job = ready()
    while True:
        yield job
        job = next_job()


def aborted() -> bool:
    """Whether the present job was aborted."""
    return bool(_library().takt_aborted() != 0)


def begin(deadline: int = 0, runtime: int = 0, utility: int = -1) -> Job:
    """Begins a real-time segment, waits until it is dispatched, and returns its job. The defaults are the terms of the workload."""
    job = _Job()
    _call("takt_begin", ctypes.byref(_Segment(deadline, runtime, utility)), ctypes.byref(job))
    return Job(job.number, job.release, job.deadline)


def end() -> None:
    """Ends the real-time segment. After an abort it raises `Aborted`."""
    _call("takt_end")


@contextlib.contextmanager
def segment(deadline: int = 0, runtime: int = 0, utility: int = -1) -> Iterator[Job]:
    """A real-time segment. The body returns early once `aborted()`; then `Aborted` is raised at its end."""
    job = begin(deadline, runtime, utility)
    try:
        yield job
    finally:
        end()


def yield_cpu() -> None:
    """Yields the CPU to jobs of equal urgency. The rest of a window is given up by `next_job`."""
    _call("takt_yield")


def resource(name: str) -> int:
    """The number of a resource of the workload."""
    return _call("takt_resource", name.encode())


def lock(number: int) -> None:
    """Locks a resource, and waits while another job holds it."""
    _call("takt_lock", number)


def unlock(number: int) -> None:
    """Unlocks a resource."""
    _call("takt_unlock", number)


@contextlib.contextmanager
def locked(number: int) -> Iterator[None]:
    """A critical section of a resource."""
    lock(number)
    try:
        yield
    finally:
        unlock(number)


def set_period(ns: int) -> None:
    """Requests another period, from the next release on."""
    _call("takt_set_period", ns)


def set_deadline(ns: int) -> None:
    """Requests another relative deadline, from the next release on."""
    _call("takt_set_deadline", ns)


def set_runtime(ns: int) -> None:
    """Requests another execution time, from the next job on."""
    _call("takt_set_runtime", ns)


def set_share(millionths: int | None, importance: int = 1) -> None:
    """Sets the task's share of a CPU (None: no share) and the importance of that share under overload."""
    _call("takt_set_share", -1 if millionths is None else millionths, importance)


def statistics() -> Statistics:
    """Consumption and remaining budget of the present job, and the counts of the task."""
    # The C structure has these fields only, each a signed number of 64 bits.
    figures = (ctypes.c_int64 * len(Statistics._fields))()
    _call("takt_statistics", ctypes.byref(figures))
    return Statistics(*figures)
