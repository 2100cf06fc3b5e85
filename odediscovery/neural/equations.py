"""Reading a field as differential equations in sympy."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import sympy
from torch import nn

from odediscovery.errors import InputError
from odediscovery.neural.field import Field, units_of
from odediscovery.units.base import exact


def equations(
    field: nn.Module,
    states: Sequence[str | sympy.Symbol],
    *,
    snapped: bool = False,
    digits: int | None = None,
    member: int = 0,
) -> dict[str, sympy.Expr]:
    """Read a field as right-hand sides, sympy expressions in its states.

    Args:
        field: a chain of arithmetic units, trained or not.
        states: names, or symbols, of the states in the order of its inputs.
        snapped: the readable limit instead of the exact formula: gates and weights at 0 or 1 where the unit tends to
            these, no epsilon, no imaginary exponents, and states assumed positive (negative if their scale is).
            Warnings report what this rounds or omits.
        digits: significant digits to which numbers are rounded; None for all digits of the weights.
        member: index of the network among those side by side, 0 being the best from `train`.

    Returns:
        dx/dt by the name of each state, exact for the weights unless `snapped` or rounded.

    Raises:
        InputError: not a chain of arithmetic units, wrong states or digits, weights that are not finite, or no such
            member.

    >>> from odediscovery.units import NAU, RealNPU
    >>> chain = nn.Sequential(
    ...     RealNPU(2, 1, init_re=0.5, init_gate=1.0), NAU(1, 2, init_weight=-0.06)
    ... )
    >>> equations(chain, ["S", "I"], snapped=True, digits=3)["S"]
    -0.06*I**0.5*S**0.5
    """
    units = units_of(field)
    names = [str(state) for state in states]
    if not len(names) == units[0].n_in == units[-1].n_out or len(set(names)) < len(names):
        raise InputError(
            f"a field of {units[0].n_in} inputs and {units[-1].n_out} outputs has as many states, each with a name "
            f"of its own, got {', '.join(names)}"
        )
    if digits is not None and (not isinstance(digits, int) or digits < 1):
        raise InputError(f"digits must be a whole number of at least 1, got {digits!r}")
    members = units[0].members or 1
    if not 0 <= member < members:
        raise InputError(f"a member from 0 to {members - 1} is expected, got {member}")
    plain = [state if isinstance(state, sympy.Symbol) else sympy.Symbol(str(state)) for state in states]
    scale = rate = [1.0] * len(names)
    if isinstance(field, Field):
        scale, rate = field.state.tolist(), (field.state / field.time).tolist()
    # Sympy splits powers of products only if it knows the signs.
    signs = [{"positive": True} if s > 0 else {"negative": True} for s in scale]
    signed = [sympy.Dummy(name, **sign) for name, sign in zip(names, signs, strict=True)] if snapped else plain
    x: list[sympy.Expr] = [z / exact(s) if s != 1.0 else z for z, s in zip(signed, scale, strict=True)]
    for unit in units:
        values = unit.arrays(member)
        if not all(np.isfinite(value).all() for value in values.values()):
            raise InputError(f"{unit!r} has weights that are no finite numbers: train it anew")
        if snapped:
            for note in unit.liberties(values):
                warnings.warn(f"{unit!r}: {note}", stacklevel=2)
        # A true formula counts 1 in the sums that follow.
        x = [sympy.Piecewise((1, e), (0, True)) if not isinstance(e, sympy.Expr) else e for e in x]
        x = list(unit.snapped(values, x) if snapped else unit.symbolic(values, x))
    found = [exact(r) * e if r != 1.0 else e for e, r in zip(x, rate, strict=True)]
    if snapped:
        found = [sympy.expand(e).xreplace(dict(zip(signed, plain, strict=True))) for e in found]
    return {name: e if digits is None else _rounded(e, digits) for name, e in zip(names, found, strict=True)}


def _rounded(expression: sympy.Expr, digits: int) -> sympy.Expr:
    """Round an expression to significant digits, with whole numbers as integers."""

    def near(number: sympy.Float) -> sympy.Number:
        told = float(f"{float(number):.{digits}g}")
        return sympy.Integer(int(told)) if told == int(told) else sympy.Float(told, digits)

    return expression.xreplace({number: near(number) for number in expression.atoms(sympy.Float)})
