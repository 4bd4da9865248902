"""The program `takt`, which executes real runs and sweeps in a process of its own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ._errors import Diagnostic, MissingCapability, ProgramError, RunError, WorkloadError
from ._native import __version__, _in_python

_REMEDY = """hint: a wheel of `cargo xtask python --out DIR` has it; `cargo install --path crates/takt-cli` installs it; the variable TAKT \
names another file"""

_OWN = os.path.join(os.path.dirname(__file__), "bin", "takt")
"""The program in a wheel. A package that was built from the source tree has none."""

_known: dict[tuple[str, int], str] = {}
"""Versions, by path and time of change."""


class Finished(NamedTuple):
    """A program that has ended: its exit status, or a signal below zero, and its outputs."""

    status: int
    out: str
    err: str


def _candidates() -> list[tuple[str | None, str]]:
    """Places of the program and their names, in the order in which they are tried."""
    variable = os.environ.get("TAKT")
    if variable:
        return [(shutil.which(variable), f"TAKT names `{variable}`, which is no program")]
    scripts = sysconfig.get_path("scripts")
    return [
        (shutil.which(_OWN), ""),
        # A kernel of a notebook may have an environment that is not in its search path.
        (shutil.which("takt", path=scripts), ""),
        (shutil.which("takt"), "the program `takt` was not found, which executes real runs and sweeps"),
    ]


def find() -> str:
    """The path of the program: that of the variable TAKT, of this package, of the environment of Python, or of the search path.

    It must have the version of the package.
    """
    for path, missing in _candidates():
        if path is not None:
            version = _version(path)
            if version != __version__:
                message = f"`{path}` has the version {version}, and this package has {__version__}"
                raise ProgramError(f"{message}\n{_REMEDY}")
            return path
    raise ProgramError(f"{missing}\n{_REMEDY}")


def _version(path: str) -> str:
    key = (path, os.stat(path).st_mtime_ns)
    if key not in _known:
        quiet = subprocess.DEVNULL
        try:
            done = subprocess.run(
                [path, "--version"], stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, timeout=10, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ProgramError(f"`{path}` cannot be asked for its version: {error}\n{_REMEDY}") from error
        shown = done.stdout.decode(errors="replace")
        words = shown.split()
        if len(words) < 2 or words[0] != "takt":
            raise ProgramError(f"`{path}` is another program: `--version` prints {shown!r}\n{_REMEDY}")
        _known[key] = words[1]
    return _known[key]


def carry_out(
    arguments: Sequence[str], ends: Sequence[tuple[signal.Signals, float]], text: str | None = None
) -> Finished:
    """Runs the program to its end. `text` is its standard input.

    An exception in the meantime, such as that of Ctrl-C, sends the signals `ends`, each with the seconds that it has to take effect. The
    exception passes on when the program has ended.
    """
    # The program stays in the process group of Python, so that a terminal and a server of notebooks end both.
    # A notebook asks programs for colours, which are no part of a message.
    environment = {name: value for name, value in os.environ.items() if name != "CLICOLOR_FORCE"}
    program = find()
    # The program ends when nobody holds the writing end: if Python is killed, too.
    life, held = os.pipe()
    process: subprocess.Popen[bytes] | None = None
    try:
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as err:
            given.write((text or "").encode())
            given.seek(0)
            process = subprocess.Popen(
                [program, "__until", str(life), *arguments],
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=err,
                env=environment,
                pass_fds=[life],
            )
            assert process.stdout is not None
            out = process.stdout.read()
            status = process.wait()
            err.seek(0)
            return Finished(status, out.decode(errors="replace"), err.read().decode(errors="replace"))
    finally:
        # A program that ends must not wait for a reader of its results.
        if process is not None and process.stdout is not None:
            process.stdout.close()
        if process is not None and process.returncode is None:
            _end(process, ends)
        os.close(held)
        os.close(life)


def _end(process: subprocess.Popen[bytes], ends: Sequence[tuple[signal.Signals, float]]) -> None:
    """Ends the program, and waits until it has ended."""
    for number, patience in ends:
        try:
            process.send_signal(number)
            until = time.monotonic() + patience
            while time.monotonic() < until:
                if _has_ended(process):
                    # The kernel may still close its descriptors.
                    threading.Thread(target=process.wait, daemon=True).start()
                    return
                time.sleep(0.005)
        except KeyboardInterrupt:
            continue
    process.kill()
    process.wait()


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the main thread of the program has ended. The tracepoints of a run, which another thread closes, take some 100 ms more (proc_pid_stat(5))."""
    if process.poll() is not None:
        return True
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2].startswith("Z")


_HEAD = re.compile(r"^(error|warning)\[([a-z-]+)\]: ", re.MULTILINE)
"""The begin of a fault, as the program draws it."""


def _faults(text: str) -> list[Diagnostic]:
    """The faults of a workload that the program has drawn: each a message, a place, marked lines and a hint."""
    faults, heads = [], list(_HEAD.finditer(text))
    for head, after in zip(heads, [*(head.start() for head in heads[1:]), len(text)], strict=True):
        drawn = text[head.end() : after]
        message, _, drawn = drawn.partition("\n")
        place = re.search(r"^ *--> .*?(?::(\d+):(\d+))?$", drawn, re.MULTILINE)
        if place is None:
            continue
        label = re.search(r"^ *\| .*?\^+(?: (.*))?$", drawn, re.MULTILINE)
        hint = re.search(r"^hint: (.*)$", drawn, re.MULTILINE)
        faults.append(
            Diagnostic(
                message=message,
                code=head[2],
                severity=head[1],
                line=int(place[1] or 1),
                column=int(place[2] or 1),
                label=label[1] or "" if label else "",
                hint=hint[1] if hint else None,
            )
        )
    return faults


_ARGUMENT = re.compile(r"error: invalid value '(?P<value>.*?)' for '--(?P<name>[a-z-]+)[^']*'(?:: (?P<why>.*)|(?P<known>\n[\s\S]*))")
"""A wrong value of an option."""


def path_of(file: str | os.PathLike[str]) -> str:
    """A path that is no option of the command line."""
    path = os.fspath(file)
    return f"./{path}" if path.startswith("-") else path


def _wrong_argument(found: re.Match[str]) -> ValueError:
    name = "tests" if found["name"] == "test" else found["name"].replace("-", "_")
    if found["why"] is not None:
        return ValueError(_in_python(f"`{name}`: {found['why']}"))
    # A value that is none of a list.
    known, near = re.search(r"possible values: (.*?)\]", found["known"]), re.search(r"exists: '(.*)'", found["known"])
    message = f"`{name}` has no value `{found['value']}`" + (f": did you mean `{near[1]}`?" if near else "")
    return ValueError(message + (f"\nhint: its values are {known[1]}" if known else ""))


def failure(finished: Finished, name: str | None = None) -> Exception:
    """The exception of a program that has failed. `name` is what messages call its standard input."""
    text = finished.err.replace("\n\nFor more information, try '--help'.", "").strip()
    if name is not None:
        text = re.sub(r"^( *--> )-(?=:|$)", lambda found: found[1] + name, text, flags=re.MULTILINE)
    if finished.status == 2:
        argument = _ARGUMENT.match(text)
        if argument:
            return _wrong_argument(argument)
        text = _in_python(text.removeprefix("error: "))
        faults = _faults(text)
        if any(fault.severity == "error" for fault in faults):
            return WorkloadError(text, faults)
        return ValueError(text)
    if finished.status == 3 and text.startswith(("error[missing-capability]", "error[missing-cpu]")):
        return MissingCapability(3, text)
    return RunError(finished.status, text or f"the program `takt` has ended with status {finished.status}")
