"""The blocks of `docs/python.md` print what the page shows. With UPDATE=1, an output of `?` is written. Those of `docs/clusters.md` work, too."""

import contextlib
import doctest
import io
import os
import re
from pathlib import Path

import pytest
import takt_rt as takt
from dask.distributed import Client, LocalCluster

from conftest import ROOT, needs_program

PAGE = ROOT / "docs" / "python.md"
OPTIONS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL


@needs_program
@pytest.mark.usefixtures("alone")
def test_the_page_is_true() -> None:
    text = PAGE.read_text()
    blocks = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    test = doctest.DocTestParser().get_doctest(blocks, {}, PAGE.name, str(PAGE), 0)
    assert len(test.examples) > 8
    if "UPDATE" in os.environ:
        names: dict[str, object] = {}
        for example in test.examples:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                try:
                    exec(compile(example.source, PAGE.name, "single"), names)
                except ValueError as error:
                    out.write(f"Traceback (most recent call last):\nValueError: {error}\n")
            if example.want == "?\n":
                text = text.replace("\n?\n", "\n" + out.getvalue(), 1)
        PAGE.write_text(text)
        return
    shown: list[str] = []
    result = doctest.DocTestRunner(verbose=False, optionflags=OPTIONS).run(test, out=shown.append)
    assert result.failed == 0, "".join(shown)


@needs_program
def test_workers_of_dask_give_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "clusters.md").read_text(), re.DOTALL)
    small = "sets=20, points='3.0,3.6', tests='gfb,ff'"
    for shown, tested in [("sets=100_000", small), ('"SCHEDULER:8786"', "cluster"), ("40", "4"), ("41", "5")]:
        assert shown in block
        block = block.replace(shown, tested)
    block, _, last = block.rstrip().rpartition("\n")
    assert last.endswith(".table")
    monkeypatch.chdir(tmp_path)
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        names: dict[str, object] = {"__name__": "__main__", "cluster": cluster}
        exec(compile(block, "clusters.md", "exec"), names)
        client = names["client"]
        assert isinstance(client, Client)
        with client:
            merged = eval(last.removesuffix(".table"), names)
    assert merged.text == takt.sweep.schedulability(sets=20, points="3.0,3.6", tests="gfb,ff").text
    assert sorted(path.name for path in tmp_path.glob("part-*")) == [f"part-{n}" for n in range(1, 5)]
