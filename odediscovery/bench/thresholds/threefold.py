"""Numbers that know what they would be if a threshold were half or twice of what it is.

    Threefold v with h, t        and then                      becomes
    + - * / ** abs round ...     v + x                         Threefold v + x with h + x, t + x
    < <= == if ...               v < x, True or False          True or False, that of v
    np.maximum, minimum, clip    maximum(v, x), an array       the array, that of v

The lower two are decisions: a tally counts them, how they came out, and which would have come out
otherwise at half or at twice. So whatever is computed is what the number alone would have given. A
number may depend on several thresholds; each of them is followed with the others as they are.

Anything else is given the number v alone: `float`, `math.log`, an index, `range`, a text, an array that is
written into. The tally counts these uses as lost, since nobody sees what comes of them. None is missed: a
Threefold says that its class is float, int or array, but is none of them, so whoever wants its value asks.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np

from odediscovery.bench.thresholds.tally import Tallies

NUMBERS, TRUTHS = (int, float, np.number, np.bool_), (bool, np.bool_)
NO_OPTIONS: Mapping[str, Any] = {}
# What takes one of its operands, element by element: which one is a decision.
SELECTING = frozenset({"maximum", "minimum", "fmax", "fmin", "clip"})
# Functions of numpy, beside its ufuncs, that are followed; others may write into what they are given.
COMPUTING = frozenset({np.where, np.clip, np.isclose, np.allclose})
ABOUT_SHAPE = frozenset({"shape", "ndim", "size", "dtype"})


class Threefold:
    """A number with what it would be at half and at twice each of some thresholds.

    Args:
        value: the number, or an array of numbers.
        others: the number at half and at twice, by threshold.
        tallies: where its use is counted, by threshold.
    """

    __slots__ = ("_others", "_tallies", "_value")

    def __init__(self, value: Any, others: Mapping[str, Sequence[Any]], tallies: Tallies) -> None:
        self._value, self._others, self._tallies = value, others, tallies

    # What `isinstance` asks for, so that the engine takes no other turn.
    @property  # type: ignore[misc]
    def __class__(self) -> type[Any]:
        return type(self._value)

    @classmethod
    def of(cls, value: Any, others: Mapping[str, Sequence[Any]], tallies: Tallies) -> Threefold:
        """The number or array with its others."""
        return (_ThreefoldArray if isinstance(value, np.ndarray) else cls)(value, others, tallies)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._value, name)
        if name not in ABOUT_SHAPE:
            _lose([self])
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        _lose([self])
        return np.array(self._value, dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "__call__" and ufunc.__name__ in SELECTING and tuple(options) == ("out",):
            # Counted before the operands are written over.
            _followed(ufunc, inputs)
            _lose(_inside(options["out"]))
            return _made(ufunc, inputs, options)
        if method != "__call__" or options or ufunc.nout != 1:
            return _asked(getattr(ufunc, method), inputs, options)
        if ufunc is np.power:
            # The engine's operators come here too, and for arrays they square and take roots, which rounds otherwise.
            return _followed(operator.pow, inputs)
        return _followed(ufunc, inputs)

    def __array_function__(self, function: Any, _types: Any, given: Any, options: Any) -> Any:
        if function in COMPUTING and "out" not in options and len(given) < 4:
            return _followed(function, given, options)
        return _asked(function, given, options)

    @classmethod
    def __torch_function__(cls, function: Any, _types: Any, given: Any = (), options: Any = None) -> Any:
        return _asked(function, given, options or {})

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        _lose([self])
        return self._value.__reduce_ex__(protocol)


class _ThreefoldArray(Threefold):
    """An array of such numbers; what is written into it is written into the array itself."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(self._value)

    def __iter__(self) -> Iterator[Any]:
        return (_followed(operator.getitem, (self, place)) for place in range(len(self)))

    def __setitem__(self, place: Any, value: Any) -> None:
        _lose(_inside((self, place, value)))
        self._value[_at(place)] = _at(value)


def _followed(function: Callable[..., Any], given: Sequence[Any], options: Mapping[str, Any] = NO_OPTIONS) -> Any:
    """What a function makes of the numbers, with its others; a decision is counted, and comes out as it does."""
    found, inside = _made(function, given, options), list(_inside((*given, *options.values())))
    several, tallies, others = isinstance(found, np.ndarray), inside[0]._tallies, {}
    selects = function.__name__ in SELECTING
    outcome = _is_taken(found, inside) if selects else found
    decides = selects or (found.dtype.kind == "b" if several else isinstance(found, TRUTHS))
    is_number = found.dtype.kind in "biuf" if several else isinstance(found, NUMBERS)
    for name in inside[0]._others if len(inside) == 1 else {name: None for each in inside for name in each._others}:
        sides = _made_aside(function, given, options, name) if is_number else None
        if sides is None or (several and any(side.shape != found.shape for side in sides)):
            tallies[name].lost += 1
            continue
        otherwise = [_differ(found, side) for side in sides]
        if decides:
            tallies[name].decided(outcome, otherwise)
        elif otherwise[0] or otherwise[1]:
            others[name] = sides
    return Threefold.of(found, others, tallies) if others else found


def _asked(function: Callable[..., Any], given: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """What a function makes of the numbers, lost where it takes any that is followed."""
    _lose(_inside((*given, *options.values())))
    return _made(function, given, options)


def _made(
    function: Callable[..., Any],
    given: Sequence[Any],
    options: Mapping[str, Any],
    name: str | None = None,
    side: int = 0,
) -> Any:
    """What a function makes of the numbers, or of those on a side of one threshold."""
    numbers = [_at(one, name, side) for one in given]
    if options:
        return function(*numbers, **{key: _at(one, name, side) for key, one in options.items()})
    return function(*numbers)


def _made_aside(
    function: Callable[..., Any], given: Sequence[Any], options: Mapping[str, Any], name: str
) -> list[Any] | None:
    """What a function makes at half and at twice; None where it cannot."""
    try:
        with np.errstate(all="ignore"):
            return [_made(function, given, options, name, 0), _made(function, given, options, name, 1)]
    except Exception:
        return None


def _at(one: Any, name: str | None = None, side: int = 0) -> Any:
    """A number itself, or what it would be on a side of one threshold; within lists and tuples too."""
    kind = type(one)
    if kind is Threefold or kind is _ThreefoldArray:
        return one._value if name not in one._others else one._others[name][side]
    if kind is tuple or kind is list:
        return kind(_at(each, name, side) for each in one)
    return one


def _inside(one: Any) -> Iterator[Threefold]:
    """The numbers that are followed, within tuples and lists."""
    kind = type(one)
    if kind is Threefold or kind is _ThreefoldArray:
        yield one
    elif kind is tuple or kind is list:
        for each in one:
            yield from _inside(each)


def _lose(numbers: Any) -> None:
    for number in numbers:
        for name in number._others:
            number._tallies[name].lost += 1


def _is_taken(found: Any, inside: Sequence[Threefold]) -> Any:
    """Where a selection took what is followed."""
    return np.any([np.equal(found, each._value) for each in inside], axis=0)


def _differ(a: Any, b: Any) -> bool:
    """Whether two results differ; those that are no numbers are alike."""
    if not isinstance(a, np.ndarray):
        return bool(a != b and (a == a or b == b))
    return bool(((a != b) & ((a == a) | (b == b))).any())


def _as_followed(function: Callable[..., Any], turned: bool = False) -> Callable[..., Any]:
    """A method of numbers whose result is followed."""
    if turned:
        return lambda self, other: _followed(function, (other, self))
    return lambda self, *given: _followed(function, (self, *given))


def _as_asked(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method that gives what a function makes of the number, lost where it would be something else."""

    def asked(self: Threefold, *given: Any) -> Any:
        found = function(self._value, *given)
        for name in self._others:
            sides = _made_aside(function, (self, *given), NO_OPTIONS, name)
            self._tallies[name].lost += sides is None or any(side != found for side in sides)
        return found

    return asked


def _written(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method that writes into an array, which is followed no further."""

    def written(self: Threefold, other: Any) -> Any:
        _lose(_inside((self, other)))
        return function(self._value, _at(other))

    return written


_OF_TWO = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift", "and", "or", "xor")
_COMPARISONS, _OF_ONE = ("lt", "le", "gt", "ge", "eq", "ne"), ("neg", "pos", "abs", "invert")
_ROUNDING: dict[str, Callable[..., Any]] = {"round": round, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc}
_DIVIDING: dict[str, Callable[..., Any]] = {"divmod": divmod}
_TRUTH: dict[str, Callable[..., Any]] = {"bool": bool}
_ASKING: dict[str, Callable[..., Any]] = {"float": float, "int": int, "index": operator.index, "complex": complex}
_WRITING: dict[str, Callable[..., Any]] = {"str": str, "repr": repr, "format": format, "hash": hash}


def _named(names: Sequence[str]) -> dict[str, Callable[..., Any]]:
    """Operators by the names of their methods."""
    return {name: getattr(operator, f"__{name}__") for name in names}


for _name, _function in (_named((*_OF_TWO, *_COMPARISONS, *_OF_ONE)) | _ROUNDING | _DIVIDING | _TRUTH).items():
    setattr(Threefold, f"__{_name}__", _as_followed(_function))
for _name, _function in (_named(_OF_TWO) | _DIVIDING).items():
    setattr(Threefold, f"__r{_name}__", _as_followed(_function, turned=True))
for _name, _function in (_ASKING | _WRITING).items():
    setattr(Threefold, f"__{_name}__", _as_asked(_function))
for _name, _function in _named(("getitem", "contains")).items():
    setattr(_ThreefoldArray, f"__{_name}__", _as_followed(_function))
for _name, _function in _named([f"i{name}" for name in _OF_TWO]).items():
    setattr(_ThreefoldArray, f"__{_name}__", _written(_function))
