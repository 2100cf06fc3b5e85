"""Public names that had another name: the old one still works, with a warning."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T", bound=Callable[..., Any])


def with_old_names(**names: str) -> Callable[[_T], _T]:
    """Decorates a function, or a dataclass with its attributes, some of whose arguments were renamed.

    Args:
        names: the new name of every argument, by the old one.

    >>> @with_old_names(inputs="controls")
    ... def count(controls): return len(controls)
    >>> count(controls="uv")
    2
    """

    def decorate(target: _T) -> _T:
        function = vars(target)["__init__"] if isinstance(target, type) else target

        @functools.wraps(function)
        def renamed(*args: Any, **kwargs: Any) -> Any:
            for old in names.keys() & kwargs.keys():
                _warn(old, names[old])
                kwargs[names[old]] = kwargs.pop(old)
            return function(*args, **kwargs)

        if not isinstance(target, type):
            return renamed  # type: ignore[return-value]
        type.__setattr__(target, "__init__", renamed)
        for old, new in names.items():
            type.__setattr__(target, old, _old_attribute(old, new))
        return target

    return decorate


def old_name(old: str, function: _T) -> _T:
    """A function under its old name."""

    @functools.wraps(function)
    def renamed(*args: Any, **kwargs: Any) -> Any:
        _warn(old, function.__name__)
        return function(*args, **kwargs)

    return renamed  # type: ignore[return-value]


def _old_attribute(old: str, new: str) -> property:
    def get(self: object) -> Any:
        _warn(old, new)
        return getattr(self, new)

    return property(get)


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old!r} is now called {new!r}", DeprecationWarning, stacklevel=3)
