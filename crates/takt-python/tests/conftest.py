"""Shared by the tests: the repository and its command `takt`."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def command() -> Run:
    """Runs `takt`, which the variable TAKT names, with these arguments in the repository."""
    program = os.environ.get("TAKT")
    if program is None:
        pytest.skip("the variable TAKT names no program `takt` for the comparison")

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)

    return run
