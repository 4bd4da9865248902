"""The blocks of `docs/python.md` print what the page shows. With UPDATE=1, an output of `?` is written."""

import contextlib
import doctest
import io
import os
import re

import pytest

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
