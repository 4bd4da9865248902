"""Measures the package `takt-rt` against its limits: python bench.py [--quick] [--rounds N] [--strict]

It needs a wheel of the package, and `simso` for the comparison. Each figure is the median of several rounds, and both
sides of a ratio take turns. Prints one row for each figure, with its limit. With --strict, the status is 1 if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import takt_rt as takt
from takt_rt import _program

CPUS = 4
SETS = takt.generate(3.2, 1, generator="randfixedsum", tasks=16, periods="log-uniform:10ms..100ms", seed=1)
WORKLOAD = takt.tasks(SETS, policy="g-edf", cpus=CPUS)
SIMSO = Path(__file__).parents[1] / "takt-cli/src/commands/bench/with_simso.py"


def edf(now: int, ready: list[takt.Job], cpus: int) -> list[takt.Job]:
    """EDF in Python."""
    return sorted(ready, key=lambda job: job.deadline)[:cpus]


def seconds(work: Callable[[], object], clock: Callable[[], int] = time.perf_counter_ns) -> float:
    """The time that work takes."""
    start = clock()
    work()
    return (clock() - start) / 1e9


class Report:
    """The figures so far, and whether one exceeds its limit."""

    def __init__(self) -> None:
        self.exceeded = False

    def row(self, name: str, figures: list[float], unit: str, limit: float, *, at_least: bool = False) -> None:
        """Prints the median of some figures beside their limit."""
        figure = statistics.median(figures)
        kept = figure >= limit if at_least else figure < limit
        self.exceeded |= not kept
        bound = f"{'at least' if at_least else 'below'} {limit:g} {unit}".strip()
        spread = f"{min(figures):.3g} to {max(figures):.3g}"
        print(f"{name:<42} {figure:>9.3g} {unit:<3} ({spread})  {bound}: {'ok' if kept else 'over'}", flush=True)


def calls(report: Report, rounds: int, count: int) -> None:
    """A call that reads one number from the library, without the loop around it."""

    def loop() -> None:
        for _ in range(count):
            WORKLOAD.cpus

    def empty() -> None:
        for _ in range(count):
            pass

    report.row("empty call", [(seconds(loop) - seconds(empty)) / count * 1e6 for _ in range(rounds)], "us", 1)


def simulations(report: Report, rounds: int) -> None:
    """A simulation alone, with a policy in Python, and by SimSo in the same rounds."""
    request = {
        "cpus": CPUS,
        "duration_ms": 10_000,
        "tasks": list(zip(*(SETS[column] for column in ("C_us", "D_us", "T_us")), strict=True)),
    }
    has_simso = find_spec("simso") is not None
    native, own, decision, native_ratio, own_ratio = ([] for _ in range(5))
    for _ in range(rounds):
        # CPU time, as that of SimSo: other programs share the machine.
        one = min(seconds(lambda: WORKLOAD.simulate("10s"), time.process_time_ns) for _ in range(5))
        policy = min(seconds(lambda: WORKLOAD.simulate("10s", policy=edf), time.process_time_ns) for _ in range(3))
        native.append(one * 1e3)
        own.append(policy)
        decision.append((policy - one) / decisions() * 1e6)
        if has_simso:
            done = subprocess.run(
                [sys.executable, SIMSO, json.dumps(request)], check=True, stdout=subprocess.PIPE, text=True
            )
            peer = json.loads(done.stdout)["cpu_ns"] / 1e9
            native_ratio.append(peer / one)
            own_ratio.append(peer / policy)
    report.row("16 tasks, 4 CPUs, 10 s simulated", native, "ms", 10)
    report.row("a decision of a policy in Python", decision, "us", 5)
    if has_simso:
        report.row("times as fast as SimSo", native_ratio, "", 100, at_least=True)
        report.row("times as fast as SimSo, policy in Python", own_ratio, "", 20, at_least=True)
    else:
        print("SimSo is not installed: pip install simso==0.8.5")


def decisions() -> int:
    """How often the engine asks the policy."""
    asked = 0

    def counted(now: int, ready: list[takt.Job], cpus: int) -> list[takt.Job]:
        nonlocal asked
        asked += 1
        return edf(now, ready, cpus)

    WORKLOAD.simulate("10s", policy=counted)
    return asked


def simulated(times: int, begin: Any) -> None:
    """Simulates several times, from the instant at which the other worker is ready."""
    begin.wait()
    for _ in range(times):
        WORKLOAD.simulate("10s")


def threads(report: Report, rounds: int, times: int) -> None:
    """The work of two threads in a time, by that of two processes."""
    ratios = []
    context = multiprocessing.get_context("fork")
    for _ in range(rounds):
        begin = context.Barrier(3)
        processes = [context.Process(target=simulated, args=(times, begin)) for _ in range(2)]
        for process in processes:
            process.start()
        begin.wait()
        started = time.perf_counter()
        for process in processes:
            process.join()
        by_processes = time.perf_counter() - started
        start = threading.Barrier(3)
        with ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(simulated, times, start) for _ in range(2)]
            start.wait()
            by_threads = seconds(lambda: [future.result() for future in futures])
        ratios.append(by_processes / by_threads)
    report.row("work of two threads, by two processes", ratios, "", 0.95, at_least=True)


def executed(arguments: list[str]) -> tuple[float, float]:
    """Seconds and greatest memory, in MB, of the program `takt`."""
    start = time.perf_counter()
    process = subprocess.Popen([_program.find(), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"takt {' '.join(arguments)}: status {process.returncode}")
    return time.perf_counter() - start, usage.ru_maxrss * 1024 / 1e6


def sweeps(report: Report, rounds: int, parts: int, sets: int) -> None:
    """States: their size, the time of a save, and a merge of many parts."""
    with tempfile.TemporaryDirectory(prefix="takt-") as folder:
        # One test that is quick, so that the time is that of the states.
        one = ["sweep", "schedulability", "--cpus=1", "--test=ll", "--points=0.7,0.8", "--threads=1"]
        names = [f"{folder}/part-{number}" for number in range(1, parts + 1)]
        for number, name in enumerate(names, 1):
            executed([*one, "--sets=20000", f"--shard={number}/{parts}", f"--state={name}"])
        merges = [executed(["sweep", "merge", *names, f"--state={folder}/whole"]) for _ in range(rounds)]
        report.row(f"merge of {parts} parts", [took for took, _ in merges], "s", 1)
        report.row(f"merge of {parts} parts: memory", [memory for _, memory in merges], "MB", 100)

        state = f"{folder}/large"
        executed([*one, f"--sets={sets // 2}", f"--state={state}"])
        report.row(f"state of {sets:.0e} sets", [Path(state).stat().st_size / 1024], "KiB", 64)

        # The difference has opening, lock, reading and one save.
        saves = []
        for number in range(rounds):
            small = [*one, "--sets=20"]
            kept = min(executed([*small, f"--state={folder}/{number}-{turn}"])[0] for turn in range(5))
            saves.append((kept - min(executed(small)[0] for _ in range(5))) * 1e3)
        report.row("a state opened and saved", saves, "ms", 5)


def main() -> None:
    """Measures everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller rounds, whose figures have no meaning")
    parser.add_argument("--strict", action="store_true", help="status 1 if a limit is exceeded")
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    print(f"takt-rt {takt.__version__}, Python {sys.version.split()[0]}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    report = Report()
    calls(report, rounds, 10_000 if options.quick else 1_000_000)
    simulations(report, rounds)
    threads(report, rounds, 10 if options.quick else 200)
    try:
        _program.find()
    except takt.ProgramError as error:
        print(f"sweeps are not measured: {error}")
    else:
        sweeps(report, rounds, 20 if options.quick else 1000, 100_000 if options.quick else 10_000_000)
    sys.exit(options.strict and report.exceeded)


if __name__ == "__main__":
    main()
