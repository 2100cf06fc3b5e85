"""Units of the constants that somebody named, from the form of the law.

    what is added has one unit;  what stands inside a function has none;  [f_i] = [x_i] / [t]

These conditions are linear in the powers of the words of the unknown units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import sympy

from odediscovery.errors import InputError
from odediscovery.knowledge.dimensions import Dimensions, Unit, joined, unit_text
from odediscovery.laws.equations import read_form
from odediscovery.runtime.arrays import Array

# A unit with the powers of unknown units that it contains; None where no condition says it.
_Open = tuple[Unit, Array] | None
_TOLERANCE = 1e-8


def units_of_names(
    lines: Sequence[str],
    names: Sequence[str],
    states: Sequence[str],
    time_name: str,
    units: Mapping[str, str],
    controls: Sequence[str] = (),
) -> list[str | None]:
    """The unit of every named constant, None where the form does not say.

    >>> units_of_names(["N' = r*N*(1 - N/K)"], ["r", "K"], ["N"], "t", {"N": "g/L", "t": "h"})
    ['1/h', 'g/L']
    """
    if not units:
        return [None] * len(names)
    try:
        form = read_form(list(lines), states, controls=controls, time_name=time_name)
    except InputError:
        return [None] * len(names)
    if set(form.names) != set(names):
        return [None] * len(names)
    opened = form.open()
    of = Dimensions((*states, *controls), time_name, units)
    places = {name: k for k, name in enumerate(names)}
    conditions = _Conditions(len(names))
    zero = np.zeros(len(names))
    for name, symbol in zip(opened.variables, opened.symbols, strict=True):
        own: Array = np.eye(len(names))[places[name]] if name in places else zero
        conditions.known[symbol] = ({} if name in places else of.by_name[name], own)
    for state, side in zip(states, opened.right_hand_sides, strict=True):
        conditions.same(conditions.unit_of(side), (of.rate(state), zero))
    return conditions.solved()


class _Conditions:
    """What is known of the units of so many constants."""

    def __init__(self, count: int) -> None:
        self.known: dict[sympy.Symbol, _Open] = {}
        self._zero = np.zeros(count)
        self._rows: list[Array] = []
        self._sides: list[Unit] = []

    def same(self, one: _Open, other: _Open) -> None:
        """Two units are one."""
        if one is not None and other is not None:
            self._rows.append(one[1] - other[1])
            self._sides.append(joined((other[0], 1.0), (one[0], -1.0)))

    def unit_of(self, expression: sympy.Expr) -> _Open:
        """The unit of an expression; what follows inside it is kept."""
        if expression in self.known:
            return self.known[expression]
        if expression.is_Number or expression.is_NumberSymbol:
            return {}, self._zero
        parts = [self.unit_of(part) for part in expression.args]
        if expression.is_Add:
            told = [part for part in parts if part is not None]
            for other in told[1:]:
                self.same(told[0], other)
            return told[0] if told else None
        if expression.is_Mul:
            whole = [part for part in parts if part is not None]
            if len(whole) < len(parts):
                return None
            return joined(*((unit, 1.0) for unit, _ in whole)), np.sum([row for _, row in whole], axis=0)
        if expression.is_Pow and expression.exp.is_Number:
            power = float(expression.exp)
            return None if parts[0] is None else (joined((parts[0][0], power)), parts[0][1] * power)
        # A power that is no number, and what stands in a function, have no unit.
        inside = parts[1:] if expression.is_Pow else parts
        for one in inside:
            self.same(one, ({}, self._zero))
        return None if expression.is_Pow else ({}, self._zero)

    def solved(self) -> list[str | None]:
        """The units that follow; none where the conditions contradict each other."""
        words = sorted({word for side in self._sides for word in side})
        count = len(self._zero)
        if not self._rows:
            return [None] * count
        a = np.array(self._rows)
        b = np.array([[side.get(word, 0.0) for word in words] for side in self._sides])
        x = np.linalg.lstsq(a, b, rcond=None)[0]
        if b.size and np.abs(a @ x - b).max() > _TOLERANCE:
            return [None] * count
        # What can be chosen freely: the part of each constant in the null space of the conditions.
        _, sizes, right = np.linalg.svd(a)
        free = right[int((sizes > _TOLERANCE).sum()) :]
        told: list[str | None] = []
        for k in range(count):
            if np.abs(free[:, k]).max(initial=0.0) > _TOLERANCE:
                told.append(None)
            else:
                powers = zip(words, np.round(x[k], 6).tolist(), strict=True)
                told.append(unit_text({word: power for word, power in powers if power}))
        return told
