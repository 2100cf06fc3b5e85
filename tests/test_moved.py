"""Old names of modules: they import with a warning, and a name that never was is an ordinary error."""

from __future__ import annotations

import importlib
import sys
import warnings

import pytest

from odediscovery.moved import MOVED, keep_old_names


@pytest.mark.parametrize("old", MOVED)
def test_an_old_name_imports_with_a_warning(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = f"odediscovery.{old}", f"odediscovery.{MOVED[old]}"
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=f"^{old} is now {new}$"):
        module = importlib.import_module(old)
    monkeypatch.delitem(sys.modules, old)
    present = importlib.import_module(new)
    names = {name for name in vars(present) if not name.startswith("__")}
    assert names and all(getattr(module, name) is getattr(present, name) for name in names)
    assert module.__name__ == old


@pytest.mark.parametrize("name", ["odediscovery.no_such_module", "odediscovery.laws.equation", "no_such.equations"])
def test_an_unknown_name_is_an_ordinary_error(name: str) -> None:
    with warnings.catch_warnings(), pytest.raises(ModuleNotFoundError):
        warnings.simplefilter("error")
        importlib.import_module(name)


def test_old_names_are_kept_once() -> None:
    before = list(sys.meta_path)
    keep_old_names()
    assert sys.meta_path == before
