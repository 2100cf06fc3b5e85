"""What the API reference lists says everything: arguments, shapes, errors, an example that runs.

Public is what stands in docs/api/. (That examples are true is tested by running them, `pytest
--doctest-modules`; that everything else is documented at all, in test_architecture.)
"""

import ast
import importlib
import inspect
import re
import textwrap
from pathlib import Path

import pytest

import odediscovery
from odediscovery.units import UNITS

PAGES = sorted((Path(__file__).parent.parent / "docs" / "api").glob("*.md"))
LISTED = [name for page in PAGES for name in re.findall(r"^::: (\S+)", page.read_text(), re.M)]
SHAPED = re.compile(r"\b(Array|ArrayLike|Tensor|Tensors|Arrays|NDArray)\b")


def named(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def methods(owner):
    """Public methods and properties that a class defines itself."""
    found = {}
    for name, value in vars(owner).items():
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if inspect.isfunction(function) and not name.startswith("_"):
            found[name] = function
    return found


def told(owner, method=""):
    """What a class, or one of its methods, and what it overrides say."""
    bases = [base for base in owner.__mro__ if base.__module__.startswith("odediscovery")]
    parts = [getattr(base, method, None) if method else base for base in bases]
    return "\n".join(inspect.getdoc(part) or "" for part in parts if part is not None)


def lacks(function, text):
    """What a docstring leaves out of a signature and a body."""
    found = []
    for name, parameter in inspect.signature(function).parameters.items():
        base = parameter.kind is parameter.VAR_KEYWORD and name == "base"
        if name not in ("self", "cls") and not base and not re.search(rf"\b{name}\b", text):
            found.append(f"argument {name}")
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            error = ast.unparse(node.exc.func)
            if error[0].isupper() and error not in text:
                found.append(f"raises {error}")
    annotations = [str(annotation) for annotation in function.__annotations__.values()]
    if any(SHAPED.search(annotation) for annotation in annotations) and "[" not in text:
        found.append("shapes")
    return found


def test_everything_public_is_in_the_reference():
    values = {named(name) for name in LISTED}
    public = {named(f"odediscovery.{name}") for name in odediscovery.__all__ if name != "SYSTEMS"}
    assert public <= values and set(UNITS.values()) <= values
    assert len(LISTED) == len(set(LISTED))


@pytest.mark.parametrize("name", LISTED)
def test_it_has_an_example(name):
    value = named(name)
    assert ">>> " in (value.__doc__ or "")
    assert not re.search(r"\+SKIP", value.__doc__)


@pytest.mark.parametrize("name", LISTED)
def test_it_says_what_goes_in_and_what_is_raised(name):
    value = named(name)
    if not inspect.isclass(value):
        assert lacks(value, inspect.getdoc(value) or "") == []
        return
    if not issubclass(value, Exception):
        fields = getattr(value, "__dataclass_fields__", None)
        if fields is None:
            assert lacks(value.__init__, told(value)) == []
        given = [field for field, of in (fields or {}).items() if of.init and field[0] != "_"]
        assert [f for f in given if not re.search(rf"^\s+{f}: ", told(value), re.M)] == []
    left_out = {method: lacks(function, told(value, method)) for method, function in methods(value).items()}
    assert {method: words for method, words in left_out.items() if words} == {}
