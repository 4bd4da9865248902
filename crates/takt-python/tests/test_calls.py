"""Calls, their results, and their failures."""

import gc
import threading
from pathlib import Path
from typing import Any

import nanoarrow
import pytest
import takt_rt as takt

TWO = "policy: edf\ntasks:\n- {name: a, period: 10ms, runtime: 6ms}\n- {name: b, period: 20ms, runtime: 8ms}\n"


def test_a_workload_is_checked_and_simulated() -> None:
    w = takt.loads(TWO)
    assert (w.name, w.cpus, w.tasks) == ("workload.yaml", 1, ["a", "b"])
    check = w.check()
    assert (check.verdict, check.schedulable) == ("yes", True)
    assert "schedulable" in check.text

    r = w.simulate("20ms", trace=True)
    assert r.duration == 20_000_000
    assert r.tasks["released"] == [2, 1]
    assert r.tasks["response_max_ns"] == [10_000_000, 14_000_000]
    assert [(job["task"], job["finish_ns"]) for job in r.jobs.rows()] == [
        ("a", 6_000_000),
        ("b", 14_000_000),
        ("a", 20_000_000),
    ]
    assert r.trace["type"].count("release") == 3
    assert w.simulate(20_000_000).result == w.simulate("20ms").result
    assert w.simulate("20ms", policy="rm").tasks["missed"] == [0, 0]


def test_settings_of_a_load_count() -> None:
    text = TWO.replace("edf", "g-edf")
    assert takt.loads(text, cpus=3).cpus == 3
    assert takt.loads(TWO, policy="rm").simulate("20ms").result != takt.loads(TWO).simulate("20ms").result
    assert len(takt.loads(TWO, copies={"a": 3}).tasks) == 4


def test_a_seed_decides_drawn_values() -> None:
    text = TWO.replace("runtime: 6ms", "runtime: 6ms, execution: {least: 1ms, most: 6ms}")
    w = takt.loads(text, seed=5)
    other = w.simulate("1s", seed=6).tasks["response_mean_ns"]
    assert w.simulate("1s").tasks["response_mean_ns"] != other
    assert takt.loads(text, seed=6).simulate("1s").tasks["response_mean_ns"] == other


def test_tasks_of_a_table_are_a_workload() -> None:
    w = takt.tasks({"C_us": [6000, 8000], "T_us": [10_000, 20_000]}, policy="edf")
    assert w.simulate("20ms").tasks["response_max_ns"] == [10_000_000, 14_000_000]


def test_tests_of_a_workload() -> None:
    analysis = takt.loads(TWO).analyze(["edf", "rm-rta"])
    row = analysis.verdicts.rows()[0]
    assert (row["edf"], row["rm-rta"]) == ("yes", "yes")
    assert "exact" in analysis.text


def test_a_table_is_drawn_and_exported() -> None:
    table = takt.generate(3, 10)
    assert table.columns == ["set_id", "task_id", "C_us", "D_us", "T_us"]
    assert len(table) == len(table.rows()) == len(table["C_us"])
    assert f"20 of {len(table)} rows" in repr(table)
    assert table._repr_html_().startswith("<table>")
    # A consumer takes the capsule; one that is not taken is freed.
    stream, schema = table.__arrow_c_stream__(), table.__arrow_c_schema__()
    assert "arrow_array_stream" in repr(stream) and "arrow_schema" in repr(schema)
    del stream, schema
    gc.collect()


def test_another_library_takes_a_table() -> None:
    table = takt.loads(TWO).simulate("40ms", trace=True).trace
    taken = nanoarrow.ArrayStream(table).read_all()
    assert list(taken.to_pylist()) == table.rows()
    assert [field.name for field in nanoarrow.Schema(table).fields] == table.columns


def test_faults_of_a_workload_have_places() -> None:
    with pytest.raises(takt.WorkloadError) as raised:
        takt.loads("policy: edf\ntasks:\n- {name: a, perid: 10ms}\n- {name: b, period: 10 parsec, runtime: 1ms}\n")
    error = raised.value
    assert isinstance(error, ValueError)
    found = {d.code: (d.line, d.column) for d in error.diagnostics}
    assert found["unknown-key"] == (3, 13)
    assert len(error.diagnostics) >= 2
    assert "^^^^^" in str(error) and "period" in str(error)


def test_hints_name_arguments_of_python() -> None:
    with pytest.raises(takt.WorkloadError) as raised:
        takt.loads(TWO, cpus=2).simulate()
    assert "`cpus=1`" in str(raised.value)
    with pytest.raises(takt.WorkloadError) as raised:
        takt.loads(TWO.replace("edf", "g-edf"), cpus=2).simulate(policy="edf")
    text = str(raised.value)
    assert "with `policy`" in text and "with `cpus`" in text and "--" not in text.replace("-->", "")


# Without a type, since the stubs refuse them.
FLOAT: Any = 1.5
WRONG: Any = "abrt"
NO_DURATIONS: list[Any] = [True, [], takt]


def sets(**columns: Any) -> Any:
    return takt.analyze({"C_us": [1, 1], "T_us": [2, 2]} | columns)


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda: takt.loads(TWO, policy="edff"), ["edff", "`edf`"]),
        (lambda: takt.loads(TWO, placement="fff"), ["fff", "`ff`"]),
        (lambda: takt.loads(TWO, cpus=0), ["`cpus` is 0"]),
        (lambda: takt.loads(TWO).simulate(FLOAT), ["`duration`", "1.5", "float"]),
        (lambda: takt.loads(TWO).simulate(-1), ["`duration`", "negative"]),
        (lambda: takt.loads(TWO).simulate(0), ["`duration`", "above zero"]),
        (lambda: takt.loads(TWO).simulate("10"), ["`10`", "`10ms`"]),
        (lambda: takt.loads(TWO).simulate("10 msec"), ["`msec`", "`ms`"]),
        (lambda: takt.loads(TWO).simulate("1s", late=WRONG), ["abrt", "`abort`"]),
        (lambda: takt.loads(TWO).simulate("1s").trace, ["`trace`", "trace=True"]),
        (lambda: takt.loads(TWO).analyze("gfbb"), ["gfbb", "`gfb`"]),
        (lambda: takt.loads(TWO).analyze([]), ["no test"]),
        (lambda: sets(C_us=[1]), ["`T_us`", "2 rows", "`C_us`", "1"]),
        (lambda: sets(C_us=[1, -2]), ["`C_us`", "row 1", "-2"]),
        (lambda: sets(C_us=[1, None]), ["`C_us`", "row 1", "missing"]),
        (lambda: sets(C_us=[float("nan"), 1]), ["`C_us`", "row 0", "missing"]),
        (lambda: sets(T_us=[2, 2.5]), ["`T_us`", "row 1", "2.5", "float"]),
        (lambda: sets(D_ms=[2, 2]), ["`D_ms`", "`D_us`"]),
        (lambda: takt.analyze({"C_us": [1]}), ["`T_us`"]),
        (lambda: takt.analyze("sets.yaml"), ["sets.yaml", ".csv"]),
        (lambda: takt.generate(-1), ["`utilisation`", "-1"]),
        (lambda: takt.generate(2, 0), ["`sets`"]),
        (lambda: takt.generate(2, tasks=10**12, generator="uunifast"), ["`tasks`", "1000000000000"]),
        (lambda: takt.generate(2, generator="uunifst"), ["uunifst", "`uunifast`"]),
        (lambda: takt.generate(2, periods="1ms"), ["`periods`", "uniform:1ms..100ms"]),
        (lambda: takt.policy(scope="globl")(lambda now, ready, cpus: ready), ["globl", "`global`"]),
    ],
)
def test_a_wrong_argument_is_named(call: Any, parts: list[str]) -> None:
    with pytest.raises(ValueError) as raised:
        call()
    for part in parts:
        assert part in str(raised.value)


def test_a_wrong_type_is_named() -> None:
    for wrong in NO_DURATIONS:
        with pytest.raises(TypeError, match="duration"):
            takt.loads(TWO).simulate(wrong)
    with pytest.raises(TypeError, match="task sets"):
        takt.analyze(NO_DURATIONS[0])


def test_an_unknown_column_is_named() -> None:
    with pytest.raises(KeyError, match="`released`"):
        takt.loads(TWO).simulate("1s").tasks["relased"]


def test_native_work_leaves_the_interpreter_free() -> None:
    w = takt.loads(TWO.replace("ms", "us"))
    ended = threading.Event()

    def simulate() -> None:
        w.simulate("3s")
        ended.set()

    thread = threading.Thread(target=simulate)
    thread.start()
    # Had the simulation the lock, this loop would turn only before it and after it.
    turns = 0
    while not ended.wait(0.001):
        turns += 1
    thread.join()
    assert turns > 10


def test_a_name_with_hyphens_stays_in_texts() -> None:
    named = takt.loads(TWO.replace("name: a,", "name: a--cpus,")).simulate("40ms")
    assert "a--cpus " in named.text
    with pytest.raises(takt.WorkloadError, match="foo--bar"):
        takt.loads(TWO.replace("name: a,", "name: a, foo--bar: 1,"))


def test_a_chart_is_drawn_in_a_notebook_and_saved(tmp_path: Path) -> None:
    r = takt.loads(TWO).simulate("40ms", trace=True)
    chart = r.gantt(start="10ms", end=30_000_000, width=800, title="two tasks")
    assert chart.svg == chart._repr_svg_()
    assert chart.svg.startswith("<svg") and "two tasks" in chart.svg and 'width="800"' in chart.svg
    assert chart.svg in chart._repr_html_()
    assert r.gantt().svg != chart.svg
    assert r.gantt(start=0, end="40ms").svg == r.gantt(start="0ns", end=40_000_000).svg
    chart.save(tmp_path / "chart.svg")
    assert (tmp_path / "chart.svg").read_text() == chart.svg
    with pytest.raises(ValueError, match="`end` is not after `start`"):
        r.gantt(start="30ms", end="30ms")
    with pytest.raises(ValueError, match="400"):
        r.gantt(width=399)
    with pytest.raises(ValueError, match="trace=True"):
        takt.loads(TWO).simulate("40ms").gantt()
