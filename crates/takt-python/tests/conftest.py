"""Shared by the tests: the repository and its command `takt`."""

import fcntl
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from takt_rt import _program

ROOT = Path(__file__).resolve().parents[3]

Run = Callable[..., "subprocess.CompletedProcess[str]"]

PROGRAM = os.environ.get("TAKT")
"""The whole program `takt`, for comparisons. A wheel has its own one, which is under test."""

if Path(_program._OWN).exists():
    os.environ.pop("TAKT", None)

needs_program = pytest.mark.skipif(PROGRAM is None, reason="the variable TAKT names no program `takt`")


@pytest.fixture(scope="session")
def command() -> Run:
    """Runs `takt`, which the variable TAKT names, with these arguments in the repository."""
    if PROGRAM is None:
        pytest.skip("the variable TAKT names no program `takt` for the comparison")

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([PROGRAM, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="session")
def alone() -> Iterator[None]:
    """Waits for the other tests of this user that run workloads, and keeps them waiting."""
    with open(Path(tempfile.gettempdir()) / f"takt-tests-{os.getuid()}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def children_of(parent: int) -> list[int]:
    """The processes that a process has started and that live."""
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(word) for word in found.split()]


MOST = 0.2
"""The most seconds from Ctrl-C to its exception."""

Interrupt = Callable[[str, Callable[[], object], Callable[[], bool]], None]


def interrupted(call: Callable[[], object], works: Callable[[], bool]) -> float:
    """Interrupts the main thread when the call works, as Ctrl-C does. The seconds from the signal to the exception."""
    sent: list[float] = []

    def send() -> None:
        until = time.monotonic() + 60
        while not works() and time.monotonic() < until:
            time.sleep(0.02)
        sent.append(time.monotonic())
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        call()
    took = time.monotonic() - sent[0]
    thread.join()
    return took


@pytest.fixture
def interrupt(capsys: pytest.CaptureFixture[str]) -> Interrupt:
    """Ctrl-C ends a call in time. The best of three attempts counts, since a loaded machine takes longer."""

    def in_time(name: str, call: Callable[[], object], works: Callable[[], bool]) -> None:
        times: list[float] = []
        while not times or len(times) < 3 and times[-1] > MOST:
            times.append(interrupted(call, works))
        with capsys.disabled():
            print(f"\n{name}: KeyboardInterrupt after {min(times) * 1e3:.0f} ms", end="")
        assert min(times) <= MOST, times

    return in_time


def after(seconds: float) -> Callable[[], bool]:
    """Whether so long has passed since the first question; the next question after that is a first one again."""
    begin: list[float] = []

    def passed() -> bool:
        begin.append(time.monotonic())
        has = begin[-1] - begin[0] > seconds
        if has:
            begin.clear()
        return has

    return passed
