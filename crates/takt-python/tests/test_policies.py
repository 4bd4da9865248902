"""Policies in Python."""

import random
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import takt_rt as takt

from conftest import ROOT, Interrupt, after

EIGHT = "policy: g-edf\ntasks:\n" + "".join(
    f"- {{name: t{i}, period: {7 + 3 * i}ms, runtime: {2 + i % 3}ms}}\n" for i in range(8)
)


@takt.policy(scope="global")
def by_deadline(now: int, ready: list[takt.Job], cpus: int) -> list[takt.Job]:
    return sorted(ready, key=lambda job: (job.deadline, job.release, job.index))[:cpus]


@pytest.mark.parametrize("cpus", [1, 2, 3])
def test_a_policy_schedules_as_its_native_twin(cpus: int) -> None:
    w = takt.loads(EIGHT, cpus=cpus)
    own, native = w.simulate("5s", policy=by_deadline, trace=True), w.simulate("5s", trace=True)
    assert own.tasks.rows() == native.tasks.rows()
    assert own.jobs.rows() == native.jobs.rows()


def test_a_policy_sees_the_jobs() -> None:
    text = "policy: fp\ntasks:\n- {name: a, period: 10ms, runtime: 4ms, deadline: 8ms, priority: 3}\n- {name: b, period: 20ms, runtime: 6ms, priority: 2}\n"
    seen: list[tuple[int, list[tuple[Any, ...]]]] = []

    def look(now: int, ready: list[takt.Job], cpus: int) -> list[takt.Job]:
        assert cpus == 1
        seen.append((now, [(j.task, j.index, j.number, j.release, j.deadline, j.remaining, j.running) for j in ready]))
        return ready[:1]

    takt.loads(text).simulate("20ms", policy=look)
    ms = 1_000_000
    assert seen[0] == (0, [("a", 0, 0, 0, 8 * ms, 4 * ms, False), ("b", 1, 0, 0, 20 * ms, 6 * ms, False)])
    assert (4 * ms, [("b", 1, 0, 0, 20 * ms, 6 * ms, False)]) in seen


def test_a_traceback_passes_through() -> None:
    def fails(now: int, ready: list[takt.Job], cpus: int) -> list[takt.Job]:
        raise LookupError("this policy knows no answer")

    with pytest.raises(LookupError, match="knows no answer") as raised:
        takt.loads(EIGHT).simulate("1s", policy=fails)
    assert "fails" in [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda ready, cpus: None, "NoneType"),
        (lambda ready, cpus: 7, "int"),
        (lambda ready, cpus: [0], "int"),
        (lambda ready, cpus: ["t0"], "str"),
        (lambda ready, cpus: ready[:1] * 2, "twice"),
        (lambda ready, cpus: ready[: cpus + 1], "more than 2"),
    ],
)
def test_a_wrong_answer_has_instant_and_answer(answer: Callable[..., Any], why: str) -> None:
    given: list[tuple[int, Any]] = []

    def wrong(now: int, ready: list[takt.Job], cpus: int) -> Any:
        given.append((now, answer(ready, cpus) if now >= 14_000_000 else ready[:cpus]))
        return given[-1][1]

    with pytest.raises(takt.PolicyError, match=why) as raised:
        takt.loads(EIGHT, cpus=2).simulate("1s", policy=wrong)
    assert raised.value.at_ns == given[-1][0] >= 14_000_000
    assert raised.value.answer is given[-1][1]


def test_a_job_of_the_past_is_a_wrong_answer() -> None:
    kept: list[takt.Job] = []

    def late(now: int, ready: list[takt.Job], cpus: int) -> list[takt.Job]:
        kept.extend(ready)
        return ready[:1] if now < 100_000_000 else [kept[0]]

    with pytest.raises(takt.PolicyError, match="job 0 of task `t0` is not ready"):
        takt.loads(EIGHT).simulate("1s", policy=late)


def test_an_endless_answer_is_a_wrong_answer() -> None:
    def endless(now: int, ready: list[takt.Job], cpus: int) -> Any:
        while True:
            yield from ready

    with pytest.raises(takt.PolicyError):
        takt.loads(EIGHT, cpus=2).simulate("1s", policy=endless)


def test_a_policy_for_one_cpu_schedules_one() -> None:
    @takt.policy(scope="uniprocessor")
    def first(now: int, ready: list[takt.Job], cpus: int) -> list[takt.Job]:
        return ready[:1]

    assert (first.scope, by_deadline.scope) == ("uniprocessor", "global")
    assert takt.loads(EIGHT, policy="edf", cpus=1).simulate("1s", policy=first).tasks["released"][0] > 100
    with pytest.raises(ValueError, match="one CPU.*2"):
        takt.loads(EIGHT, cpus=2).simulate("1s", policy=first)


@pytest.mark.parametrize("policy", ["g-edf", by_deadline])
@pytest.mark.parametrize("file", ["hello.yaml", "overload-domains.yaml"])
def test_a_policy_replaces_no_windows_or_domains(file: str, policy: Any) -> None:
    with pytest.raises(ValueError, match="windows or domains"):
        takt.load(ROOT / "workloads" / file).simulate("1s", policy=policy)


def test_a_policy_may_simulate() -> None:
    inner = takt.loads(EIGHT, cpus=2)
    results = []

    def outer(now: int, ready: list[takt.Job], cpus: int) -> list[takt.Job]:
        if now == 0:
            results.append(inner.simulate("100ms", policy=by_deadline).tasks.rows())
        return ready[:cpus]

    takt.loads(EIGHT, cpus=2).simulate("1s", policy=outer)
    assert results[0] == inner.simulate("100ms").tasks.rows()


def test_random_policies_end_in_a_result_or_an_exception() -> None:
    """A thousand policies that answer at random, wrongly and by exceptions."""
    draw = random.Random(20)
    w = takt.loads(EIGHT, cpus=3)
    kept: list[Any] = []

    def answer(ready: list[takt.Job], cpus: int, wild: float) -> Any:
        if draw.random() >= wild:
            return draw.sample(ready, min(len(ready), draw.randint(0, cpus)))
        kept.extend(ready[:1])
        wrong: list[Callable[[], Any]] = [
            lambda: None,
            lambda: object(),
            lambda: ready + ready,
            lambda: [draw.choice(kept)],
            lambda: [*ready[:1], 2**70],
            lambda: "jobs",
            lambda: (job for job in ready[:cpus]),
            lambda: {job.task: job for job in ready},
            lambda: [ready.pop() for _ in list(ready)],
            lambda: iter(int, 1),
            lambda: 1 // 0,
            lambda: (1 // 0 for _ in ready),
            lambda: [][0],
            lambda: w.simulate("10ms", policy=by_deadline),
            lambda: (_ for _ in ()).throw(SystemExit(3)),
        ]
        return draw.choice(wrong)()

    outcomes = {"result": 0, "PolicyError": 0, "other": 0}
    for number in range(1000):
        wild = number % 4 / 50
        try:
            r = w.simulate("300ms", policy=lambda now, ready, cpus: answer(ready, cpus, wild))
            assert sum(r.tasks["released"]) > 100
            outcomes["result"] += 1
        except takt.PolicyError as error:
            assert 0 <= error.at_ns < 300_000_000
            outcomes["PolicyError"] += 1
        except (ZeroDivisionError, IndexError, SystemExit):
            outcomes["other"] += 1
    assert min(outcomes.values()) > 50, outcomes


HEAVY = takt.generate(3.5, 2000, seed=1)
FAST = takt.loads(EIGHT.replace("ms", "us"), cpus=2)
CALLS: dict[str, Callable[[], object]] = {
    "simulate": lambda: FAST.simulate("1h"),
    "simulate with records": lambda: FAST.simulate("20s", trace=True),
    "simulate with a policy": lambda: FAST.simulate("1h", policy=by_deadline),
    "analyze": lambda: takt.analyze(HEAVY, tests=["sim:g-edf"], cpus=4, duration="1h"),
    "generate": lambda: takt.generate(3.5, 10_000_000),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_ends_the_call(name: str, interrupt: Interrupt) -> None:
    interrupt(name, CALLS[name], after(0.3))
