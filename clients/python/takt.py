"""The client library of Takt for Python: a wrapper of libtakt by ctypes.

A scheduled program learns about its jobs and makes requests of its scheduler. Times are nanoseconds; instants are those of
`time.monotonic_ns()`. A task is one thread, and the calls belong to that thread (`attach_thread`). `clients/c/takt.h` describes each call.

    import takt

    for job in takt.jobs():
        work(job)

Outside Takt each call raises `NotUnderTakt`, unless `TAKT_STANDALONE` has a period, such as 20ms: a job is then released at each period.

The library is searched in the file named by `TAKT_LIBRARY`, beside this file, and in the system's search path.
"""

import contextlib
import ctypes
import ctypes.util
import os
from collections import namedtuple

NEVER = 2**63 - 1

Job = namedtuple("Job", "number release deadline")
Statistics = namedtuple("Statistics", "consumed budget released completed met missed aborted utility")


class Error(Exception):
    """A call failed. `code` is the result of the C library."""

    def __init__(self, code):
        super().__init__(_library().takt_strerror(code).decode())
        self.code = code


class NotUnderTakt(Error):
    """`takt run` did not start this program."""


class Refused(Error):
    """The policy does not accept the request, or the task has no job."""


class Aborted(Error):
    """The job was aborted before the request was granted."""


_ERRORS = {-1: NotUnderTakt, -5: Refused, -6: Aborted}


class _Job(ctypes.Structure):
    _fields_ = [("number", ctypes.c_uint64), ("release", ctypes.c_int64), ("deadline", ctypes.c_int64)]


class _Segment(ctypes.Structure):
    _fields_ = [("deadline", ctypes.c_int64), ("runtime", ctypes.c_int64), ("utility", ctypes.c_int64)]


class _Statistics(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in Statistics._fields]


_loaded = None


def _library():
    global _loaded
    if _loaded is None:
        here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libtakt.so.1")
        names = [os.environ.get("TAKT_LIBRARY"), here if os.path.exists(here) else None, ctypes.util.find_library("takt")]
        name = next((name for name in names if name), None)
        if name is None:
            raise ImportError("libtakt.so.1 is not installed; build it in clients/c, and set TAKT_LIBRARY to its path")
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


def _call(name, *arguments):
    result = getattr(_library(), name)(*arguments)
    if result < 0:
        raise _ERRORS.get(result, Error)(result)
    return result


def _job(name):
    job = _Job()
    _call(name, ctypes.byref(job))
    return Job(job.number, job.release, job.deadline)


def attach_thread(name):
    """Makes the calling thread the task of this name (`thread_of`), while the program initialises."""
    _call("takt_attach_thread", name.encode())


def ready():
    """Reports the end of the initialisation and waits for the first job, which it returns."""
    return _job("takt_ready")


def next_job():
    """Completes the present job, waits for the next one, and returns it."""
    return _job("takt_next_job")


def jobs():
    """The jobs of this task, one after the other. The next iteration completes a job."""
    job = ready()
    while True:
        yield job
        job = next_job()


def aborted():
    """Whether the present job was aborted."""
    return _library().takt_aborted() != 0


def begin(deadline=0, runtime=0, utility=-1):
    """Begins a real-time segment, waits until it is dispatched, and returns its job. The defaults are the terms of the workload."""
    job = _Job()
    _call("takt_begin", ctypes.byref(_Segment(deadline, runtime, utility)), ctypes.byref(job))
    return Job(job.number, job.release, job.deadline)


def end():
    """Ends the real-time segment. After an abort it raises `Aborted`."""
    _call("takt_end")


@contextlib.contextmanager
def segment(deadline=0, runtime=0, utility=-1):
    """A real-time segment. The body returns early once `aborted()`; then `Aborted` is raised at its end."""
    job = begin(deadline, runtime, utility)
    try:
        yield job
    finally:
        end()


def yield_cpu():
    """Yields the CPU to jobs of equal urgency. The rest of a window is given up by `next_job`."""
    _call("takt_yield")


def resource(name):
    """The number of a resource of the workload."""
    return _call("takt_resource", name.encode())


def lock(number):
    """Locks a resource, and waits while another job holds it."""
    _call("takt_lock", number)


def unlock(number):
    """Unlocks a resource."""
    _call("takt_unlock", number)


@contextlib.contextmanager
def locked(number):
    """A critical section of a resource."""
    lock(number)
    try:
        yield
    finally:
        unlock(number)


def set_period(ns):
    """Requests another period, from the next release on."""
    _call("takt_set_period", ns)


def set_deadline(ns):
    """Requests another relative deadline, from the next release on."""
    _call("takt_set_deadline", ns)


def set_runtime(ns):
    """Requests another execution time, from the next job on."""
    _call("takt_set_runtime", ns)


def set_share(millionths, importance=1):
    """Sets the task's share of a CPU (None: no share) and the importance of that share under overload."""
    _call("takt_set_share", -1 if millionths is None else millionths, importance)


def statistics():
    """Consumption and remaining budget of the present job, and the counts of the task."""
    figures = _Statistics()
    _call("takt_statistics", ctypes.byref(figures))
    return Statistics(*(getattr(figures, name) for name in Statistics._fields))
