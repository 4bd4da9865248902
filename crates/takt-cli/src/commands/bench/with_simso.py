"""Simulates a task set with SimSo, for `takt bench simulate`.

The only argument is a JSON object: the number of CPUs, the simulated time in milliseconds, and the tasks as runtime, deadline
and period in microseconds. Prints one JSON object: completed and missed jobs, and the CPU time of the simulation in nanoseconds.
"""

import contextlib
import json
import os
import sys
import time
from importlib.metadata import version

from simso.configuration import Configuration
from simso.core import Model

CYCLES_PER_MS = 1000  # One cycle is a microsecond, in which the sets are given.


def configure(request):
    configuration = Configuration()
    configuration.cycles_per_ms = CYCLES_PER_MS
    configuration.duration = request["duration_ms"] * CYCLES_PER_MS
    for number, (runtime, deadline, period) in enumerate(request["tasks"], 1):
        configuration.add_task(
            name=f"T{number}",
            identifier=number,
            abort_on_miss=False,
            period=period / 1000,
            wcet=runtime / 1000,
            deadline=deadline / 1000,
        )
    for number in range(1, request["cpus"] + 1):
        configuration.add_processor(name=f"CPU {number}", identifier=number)
    # The one for a single CPU is the faster one there.
    name = "EDF_mono" if request["cpus"] == 1 else "EDF2"
    configuration.scheduler_info.clas = f"simso.schedulers.{name}"
    configuration.check_all()
    return configuration


def main():
    model = Model(configure(json.loads(sys.argv[1])))
    # Some schedulers of SimSo print every decision.
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        start = time.process_time_ns()
        model.run_model()
        spent = time.process_time_ns() - start
    jobs = [job for task in model.results.tasks.values() for job in task.jobs]
    missed = [j for j in jobs if (j.end_date or model.duration + 1) > j.absolute_deadline <= model.duration]
    print(json.dumps({
        "version": version("simso"),
        "completed": sum(job.end_date is not None for job in jobs),
        "missed": len(missed),
        "cpu_ns": spent,
    }))


if __name__ == "__main__":
    main()
