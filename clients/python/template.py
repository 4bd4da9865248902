"""A periodic program with a resource and an abort check."""

import sys

import takt


def work(rounds):
    """Computes, and checks for an abort from time to time."""
    for n in range(rounds):
        if n % 1000 == 0 and takt.aborted():
            return False
    return True


def main():
    table = takt.resource("map")
    for job in takt.jobs():
        if not work(10_000_000 if job.number % 4 == 3 else 20_000):
            print("aborted", flush=True)
            continue
        with takt.locked(table):
            work(1_000)


try:
    main()
except takt.Error as error:
    sys.exit(f"template: {error}")
