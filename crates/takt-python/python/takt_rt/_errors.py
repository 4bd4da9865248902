"""Exceptions of `takt_rt`."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Diagnostic:
    """A fault of a workload, with its place and a hint."""

    message: str
    code: str
    severity: str
    line: int
    column: int
    label: str
    hint: str | None


class WorkloadError(ValueError):
    """A workload has faults. Its text draws each of them with its line of the file."""

    def __init__(self, text: str, diagnostics: list[Diagnostic]) -> None:
        super().__init__(text, diagnostics)
        self.text = text
        self.diagnostics = diagnostics

    def __str__(self) -> str:
        return self.text


class PolicyError(RuntimeError):
    """The answer of a policy is no schedule. `at_ns` is the instant, `answer` the answer as the policy gave it."""

    def __init__(self, message: str, at_ns: int, answer: Any = None) -> None:
        super().__init__(message, at_ns, answer)
        self.message = message
        self.at_ns = at_ns
        self.answer = answer

    def __str__(self) -> str:
        return self.message


class ProgramError(RuntimeError):
    """The program `takt`, which executes real runs and sweeps, was not found or has another version."""


class RunError(RuntimeError):
    """A real run or a sweep has failed. `status` is the exit status of the program `takt`, or a signal below zero."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text

    def __str__(self) -> str:
        return self.text


class MissingCapability(RunError):
    """This machine cannot do what the run needs. The text has the fix."""
