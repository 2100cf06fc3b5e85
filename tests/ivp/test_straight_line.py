"""Text that was written is compiled once and sees nothing but its arguments."""

from __future__ import annotations

import pytest

from odediscovery.ivp.solvers import compiled

TWICE = "def twice(x):\n    return x + x\n"


def test_a_text_is_compiled_once() -> None:
    assert compiled(TWICE) is compiled(TWICE)


@pytest.mark.parametrize("body", ["x.__class__", "'text'", "[x for x in x]", "lambda: x", "x[0]", "None"])
def test_what_is_no_arithmetic_is_refused(body: str) -> None:
    with pytest.raises(ValueError, match="expected arithmetic"):
        compiled(f"def of(x):\n    return {body}\n")


@pytest.mark.parametrize("text", ["x = 1.0\n", TWICE + TWICE, "@twice\n" + TWICE, "def of(x=1.0):\n    return x\n"])
def test_what_is_not_one_plain_function_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        compiled(text)


def test_it_sees_no_built_in_names() -> None:
    with pytest.raises(NameError):
        compiled("def of(x):\n    return open(x)\n")("file")
