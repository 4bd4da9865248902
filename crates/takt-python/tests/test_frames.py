"""Data frames of pandas, polars and pyarrow: tables become theirs without a copy, and theirs become task sets."""

from typing import Any

import pandas
import polars
import pyarrow
import pytest
import takt_rt as takt

THREE = """policy: g-edf
tasks:
- {name: camera, period: 10ms, runtime: 6ms}
- {name: radar, period: 20ms, runtime: 8ms}
- {name: fusion, period: 20ms, runtime: 12ms}
"""
COLUMNS = {"C_us": [6000, 8000, 12_000], "D_us": [10_000, 18_000, 20_000], "T_us": [10_000, 20_000, 20_000]}


def tables() -> dict[str, takt.Table]:
    r = takt.loads(THREE, cpus=2).simulate("1s", trace=True)
    curve = takt.generate(3.4, 20, seed=1)
    return {"tasks": r.tasks, "jobs": r.jobs, "trace": r.trace, "sets": curve}


@pytest.fixture(params=["tasks", "jobs", "trace", "sets"])
def table(request: pytest.FixtureRequest) -> takt.Table:
    return tables()[request.param]


def addresses(table: Any) -> list[list[int]]:
    """The buffers of each column; pyarrow takes a capsule as it is."""
    taken = pyarrow.table(table)
    return [[part.address for part in column.chunk(0).buffers() if part] for column in taken.columns]


def test_pyarrow_takes_a_table_without_a_copy(table: takt.Table) -> None:
    taken = pyarrow.table(table)
    assert taken.to_pylist() == table.rows()
    assert {str(kind) for kind in taken.schema.types} <= {"int64", "double", "large_string"}
    # Each export is of the same memory, so nothing was copied on the way.
    assert addresses(table) == addresses(table)
    assert [column.num_chunks for column in taken.columns] == [1] * len(table.columns)


def test_polars_takes_a_table_without_a_copy(table: takt.Table) -> None:
    taken = polars.DataFrame(table)
    assert taken.to_dicts() == table.rows()
    for name, buffers in zip(table.columns, addresses(table), strict=True):
        # Numbers; texts of polars have another form than those of Arrow.
        if taken[name].dtype.is_numeric():
            assert taken[name].to_arrow().buffers()[-1].address == buffers[-1], name


def test_pandas_takes_a_table(table: takt.Table) -> None:
    taken = pandas.DataFrame.from_arrow(table)
    assert list(taken.columns) == table.columns and len(taken) == len(table)
    for name in table.columns:
        assert [None if pandas.isna(value) else value for value in taken[name].tolist()] == table[name], name


def test_pandas_takes_a_table_without_a_copy(table: takt.Table) -> None:
    # Its own types are arrays of numpy, which join several columns.
    taken = pyarrow.table(table).to_pandas(types_mapper=pandas.ArrowDtype)
    for name, buffers in zip(table.columns, addresses(table), strict=True):
        (part,) = pyarrow.chunked_array(taken[name]).chunks
        assert [buffer.address for buffer in part.buffers() if buffer] == buffers, name


@pytest.mark.parametrize("frame", [pandas.DataFrame, polars.DataFrame, pyarrow.table, dict])
def test_a_frame_is_tasks_and_sets(frame: Any) -> None:
    w = takt.tasks(frame(COLUMNS), policy="g-edf", cpus=2)
    assert len(w.tasks) == 3
    assert w.simulate("1s").tasks["response_max_ns"] == takt.loads(THREE, cpus=2).simulate("1s").tasks["response_max_ns"]
    assert takt.analyze(frame(COLUMNS), tests=["gfb", "ff"], cpus=2).result == takt.analyze(COLUMNS, tests=["gfb", "ff"], cpus=2).result


@pytest.mark.parametrize("frame", [pandas.DataFrame, polars.DataFrame, pyarrow.table])
def test_drawn_sets_return_as_a_frame(frame: Any) -> None:
    sets = takt.generate(3.4, 20, seed=1)
    taken = pandas.DataFrame.from_arrow(sets) if frame is pandas.DataFrame else frame(sets)
    assert takt.analyze(taken, tests=["ff"], cpus=4).result == takt.analyze(sets, tests=["ff"], cpus=4).result


@pytest.mark.parametrize("frame", [pandas.DataFrame, polars.DataFrame, pyarrow.table])
@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"C_us": [6000, None, 12_000]}, "column `C_us`, row 1: the value is missing"),
        ({"C_us": [6000.0, 0.5, 1.0]}, "column `C_us`, row 0: 6000.0 is a float"),
        ({"T_us": [10_000, -1, 20_000]}, "column `T_us`, row 1: -1"),
        ({"D_ms": [1, 2, 3]}, "did you mean `D_us`"),
    ],
)
def test_a_faulty_frame_is_named(frame: Any, change: dict[str, list[Any]], part: str) -> None:
    with pytest.raises(ValueError, match=part):
        takt.tasks(frame({**COLUMNS, **change}), policy="g-edf", cpus=2)
