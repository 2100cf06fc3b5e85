"""How mkdocstrings (by griffe) reads our sources, where it would read them otherwise."""

from __future__ import annotations

import ast
import re
from typing import Any

from griffe import Attribute, Docstring, ExprCall, Extension, Object

# A doctest: from a first ">>>" to an empty line or the end.
BLOCK = re.compile(r"^>>> .*?(?=^\s*$|\Z)", re.MULTILINE | re.DOTALL)


def _under_heading(match: re.Match[str]) -> str:
    return "Examples:\n" + "".join(f"    {line}\n" for line in match[0].splitlines())


class AsWritten(Extension):
    """Doctests, which stand bare in our docstrings, are code; `_option(5, "help")` is 5, and "help" what it means."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        if isinstance(obj.docstring, Docstring):
            obj.docstring.value = BLOCK.sub(_under_heading, obj.docstring.value)

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        if isinstance(attr.value, ExprCall) and str(attr.value.function) == "_option":
            attr.docstring = Docstring(ast.literal_eval(str(attr.value.arguments[1])))
            attr.value = attr.value.arguments[0]
