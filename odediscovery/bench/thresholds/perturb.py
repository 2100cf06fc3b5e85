"""Thresholds changed in place for a while, and a watch on which of them are read.

Thresholds are the fields of the instances of `Thresholds` that the modules of the package hold.
Whatever reads a field when it is called sees the change; what was bound before does not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from odediscovery.runtime.thresholds import Thresholds

HALF, TWICE = 0.5, 2.0
PACKAGE = Thresholds.__module__.partition(".")[0]
# Its caches hold systems, which stay what they are.
BENCH = f"{PACKAGE}.bench."


def _modules() -> list[Any]:
    """The modules of the package that are imported."""
    return [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == PACKAGE]


def instances() -> dict[str, list[Thresholds]]:
    """The thresholds that the modules of the package hold, by the name of their class."""
    found: dict[str, dict[int, Thresholds]] = {}
    for module in _modules():
        for value in vars(module).values():
            if isinstance(value, Thresholds):
                found.setdefault(type(value).__name__, {})[id(value)] = value
    return {name: list(found[name].values()) for name in sorted(found)}


def values() -> dict[str, Any]:
    """Value of every threshold that can be halved or doubled, by "Owner.field"."""
    every = {
        f"{owner}.{name}": value for owner, (first, *_) in instances().items() for name, value in vars(first).items()
    }
    return {name: value for name, value in every.items() if scaled(value, 2.0) is not None}


def scaled(value: Any, factor: float) -> Any:
    """A number or a tuple of numbers times a factor; None for anything else, and where nothing changes.

    Whole numbers stay whole and change by one at least.

    >>> scaled(6.0, 0.5), scaled(1, 2.0), scaled((3, 0.5), 0.5), scaled(True, 2.0)
    (3.0, 2, (2, 0.25), None)
    """
    if isinstance(value, tuple):
        parts = tuple(scaled(part, factor) for part in value)
        return parts if parts and None not in parts else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float):
        return value * factor if value * factor != value else None
    step = 1 if (factor > 1) == (value >= 0) else -1
    return round(value * factor) if round(value * factor) != value else value + step


@contextmanager
def changed(name: str, factor: float) -> Iterator[Any]:
    """One threshold times a factor within the block; gives the changed value."""
    owner, _, field = name.partition(".")
    held = [(instance, getattr(instance, field)) for instance in instances()[owner]]
    forget()
    try:
        for instance, value in held:
            object.__setattr__(instance, field, scaled(value, factor))
        yield scaled(held[0][1], factor)
    finally:
        for instance, value in held:
            object.__setattr__(instance, field, value)
        forget()


def forget() -> None:
    """Empty the engine's caches, which may hold what another value of a threshold decided."""
    for module in _modules():
        for value in vars(module).values():
            own = str(getattr(value, "__module__", ""))
            if own.startswith(PACKAGE) and not own.startswith(BENCH) and hasattr(value, "cache_clear"):
                value.cache_clear()


@contextmanager
def watched_reads() -> Iterator[set[str]]:
    """The attributes of thresholds, as "Owner.field", that are read within the block."""
    found: set[str] = set()

    def read(self: Thresholds, name: str) -> Any:
        found.add(f"{type(self).__name__}.{name}")
        return object.__getattribute__(self, name)

    Thresholds.__getattribute__ = read  # type: ignore[method-assign, assignment]
    try:
        yield found
    finally:
        del Thresholds.__getattribute__
