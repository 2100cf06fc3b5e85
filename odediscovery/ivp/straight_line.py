"""Straight-line code: arithmetic on a few plain numbers, written out and compiled once.

Of a few numbers a call of numpy takes a hundred times as long as the arithmetic, and a loop over places about ten
times. What is written holds names and places alone, and never anything that people or files say: all numbers come as
arguments. Whatever is no arithmetic is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache
from typing import Any

# Texts whose function is kept, about 3 kB each.
REMEMBERED = 1024
# No attributes, no imports, no strings, no deletions: with no built-in names nothing else can be reached.
ARITHMETIC = (
    *(ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Expr, ast.Yield),
    *(ast.For, ast.If, ast.IfExp, ast.Compare, ast.Lt),
    *(ast.Assign, ast.Tuple, ast.Name, ast.Load, ast.Store, ast.Call, ast.Constant),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow),
)


@lru_cache(maxsize=REMEMBERED)
def compiled(text: str) -> Callable[..., Any]:
    """The one function that a text defines; it sees its arguments and nothing else.

    Raises:
        ValueError: the text is no arithmetic, or not one function.

    >>> compiled("def twice(x):\\n    return x + x\\n")(3.0)
    6.0
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if not isinstance(node, ARITHMETIC) or (isinstance(node, ast.Constant) and type(node.value) is not float):
            raise ValueError(f"expected arithmetic, got {type(node).__name__}: {ast.unparse(node)}")
        if isinstance(node, ast.FunctionDef) and (node.decorator_list or node.args.defaults):
            raise ValueError(f"expected a function with plain arguments, got: {ast.unparse(node)}")
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise ValueError(f"expected one function, got: {text}")
    names: dict[str, Any] = {}
    exec(compile(tree, "<straight line>", "exec"), {"__builtins__": {}}, names)
    function: Callable[..., Any] = names[tree.body[0].name]
    return function
