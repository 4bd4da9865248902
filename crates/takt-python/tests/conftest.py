"""Shared by the tests: the repository and its command `takt`."""

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

Run = Callable[..., "subprocess.CompletedProcess[str]"]

needs_program = pytest.mark.skipif("TAKT" not in os.environ, reason="the variable TAKT names no program `takt`")


@pytest.fixture(scope="session")
def command() -> Run:
    """Runs `takt`, which the variable TAKT names, with these arguments in the repository."""
    program = os.environ.get("TAKT")
    if program is None:
        pytest.skip("the variable TAKT names no program `takt` for the comparison")

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)

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
