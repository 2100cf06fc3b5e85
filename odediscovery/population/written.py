r"""A law written by the user, as the structure of a mixed model.

    n' = r n - q n^p,    every term:  sign * product of constants * \prod_k x_k ** W[j, k]

The product of constants in a term is one constant of the model: for r n (1 - n/K) these are r and r/K. A named
exponent is fitted, with one value for all groups unless it is requested to vary.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import sympy

from odediscovery.errors import FitError, InputError
from odediscovery.laws.equations import Form
from odediscovery.population.choose import fit_apart, freed, with_noise_seen
from odediscovery.population.groups import ANY, Entry, GroupModel, Measured, Structure
from odediscovery.population.mixed import MixedFit, criterion, sound_model
from odediscovery.population.screen import first_constants
from odediscovery.runtime.arrays import Array


@dataclass(frozen=True, eq=False)
class WrittenLaw:
    """A structure with the names of its constants and exponents."""

    structure: Structure
    constants: tuple[sympy.Expr, ...]  # of the structure, as products of the written constants
    exponents: tuple[sympy.Expr, ...]  # the named ones, in the order of `structure.free`

    @property
    def names(self) -> dict[int, str]:
        """Names of the constants that are single names, by index."""
        return {k: str(one) for k, one in enumerate(self.constants) if one.is_Symbol}

    def places_of(self, vary: str) -> list[int] | None:
        """Indices of the unknowns in a list of names such as "r,p"; None if `vary` is not a list of names.

        Raises:
            InputError: a name is also part of a product that is not listed, and so would not be what varies.
        """
        names = [str(one) for one in (*self.constants, *self.exponents)]
        asked = [piece.strip() for piece in vary.split(",")]
        for one in self.constants:
            parts = {str(symbol) for symbol in one.free_symbols} & set(asked)
            if parts and str(one) not in asked:
                known = ", ".join(names)
                raise InputError(
                    f"--vary {vary}: products of constants are fitted, here {known}, and {one} would be the same "
                    f"in all groups though {min(parts)} varies; list it too, or give each its own constant"
                )
        return [names.index(one) for one in asked] if set(asked) <= set(names) else None


def written_law(form: Form) -> WrittenLaw:
    """The structure of a form, a sum of products of powers with one constant per product of constants.

    >>> from odediscovery.laws.equations import read_form
    >>> law = written_law(read_form("n' = r*n*(1 - n/K)", ["n"]))
    >>> [str(one) for one in law.constants], law.structure.exponents.ravel().tolist()
    (['r', 'r/K'], [1.0, 2.0])
    """
    open_form = form.open()
    acting = set(open_form.symbols[len(form.states) : len(form.states) + len(form.controls)])
    if any(side.free_symbols & acting for side in open_form.right_hand_sides):
        raise InputError("--vary: laws with inputs are not yet possible for groups with constants of their own")
    places = {symbol: k for k, symbol in enumerate(open_form.symbols[: len(form.states)])}
    rows, constants, entries = list[tuple[sympy.Expr, ...]](), list[sympy.Expr](), list[Entry]()
    for i, side in enumerate(open_form.right_hand_sides):
        for term in sympy.Add.make_args(sympy.expand(side, force=True)):
            if term == 0:
                continue
            sign, constant, row = _parts(term, places, form.states[i])
            for found, one in ((rows, row), (constants, constant)):
                if one not in found:
                    found.append(one)
            if any((e.state, e.monomial) == (i, rows.index(row)) for e in entries):
                raise InputError(f"--vary: the equation of {form.states[i]} has two terms alike; write them as one")
            entries.append(Entry(i, rows.index(row), constants.index(constant), sign))
    named = [(j, k) for j, row in enumerate(rows) for k, power in enumerate(row) if not power.is_number]
    exponents = tuple(rows[j][k] for j, k in named)
    if len(set(exponents)) < len(exponents) or len(exponents) > 2:
        raise InputError(
            f"--vary: expected at most 2 exponents with names, each in one term, got "
            f"{', '.join(map(str, exponents))}; write numbers for the others"
        )
    if len(constants) + len(exponents) != len(form.names):
        raise InputError(
            f"--vary: expected as many constants as terms have products of them, got {len(form.names)} constants in "
            f"{', '.join(map(str, (*constants, *exponents)))}; write one constant for each product"
        )
    values = [[float(power) if power.is_number else 1.0 for power in row] for row in rows]
    structure = Structure(np.array(values).reshape(len(rows), len(form.states)), tuple(entries), tuple(named))
    return WrittenLaw(structure, tuple(constants), exponents)


def _parts(
    term: sympy.Expr, places: Mapping[sympy.Symbol, int], state: str
) -> tuple[int, sympy.Expr, tuple[sympy.Expr, ...]]:
    """Sign, product of constants, and the exponent of every state of one term."""
    constant, powers = sympy.Integer(1), [sympy.Integer(0)] * len(places)
    for factor in sympy.Mul.make_args(term):
        base, power = factor.as_base_exp()
        if base in places and not power.free_symbols & set(places):
            powers[places[base]] += power
        elif not factor.free_symbols & set(places):
            constant *= factor
        else:
            raise InputError(
                f"--vary: expected sums of products of powers, got {factor} in the equation of {state}; fit groups of "
                "such a law together without --vary, or one by one"
            )
    sign = -1 if constant.could_extract_minus_sign() else 1
    if not constant.free_symbols:
        raise InputError(
            f"--vary: expected a constant in every term, got {term} in the equation of {state}; give it a name"
        )
    return sign, sign * constant, tuple(powers)


def fit_written(law: WrittenLaw, measured: Measured, starts: Mapping[str, float]) -> MixedFit:
    """The mixed model of a written law in which all constants vary, with the more likely kind of noise.

    `starts` has initial guesses of constants and exponents by name; others are estimated.
    """
    if law.exponents and any(start.kind == ANY for start in measured.starts):
        raise InputError("--vary: exponents of states that change their sign are whole numbers; write them")
    tried = [0.5, 1.0, 1.25, 1.5, 2.0, 3.0]
    grids = [[_value(one, starts)] if _is_given(one, starts) else tried for one in law.exponents]
    fits = []
    for exponents in itertools.product(*grids):
        held = replace(law.structure.with_exponents(exponents), free=())
        begin = np.vstack([_begin(law, held, measured, starts), measured.first_starts()])
        apart, _ = fit_apart(GroupModel(held, measured), begin)
        fits += sound_model(with_noise_seen(measured, [(held, apart)]), held, apart)
    best, free = sorted(fits, key=criterion)[:1], law.structure.free
    if found := freed(best[0], free) if best and free else best:
        return found[0]
    raise FitError(
        "the law could not be fitted to all groups: name where its constants begin, --start NAME=NUMBER, or write "
        "numbers for its exponents"
    )


def _begin(law: WrittenLaw, held: Structure, measured: Measured, starts: Mapping[str, float]) -> Array:
    """Initial guesses of the logarithms of the constants in every group [constants, groups]."""
    known = [k for k, one in enumerate(law.constants) if _is_given(one, starts)]
    seen = np.isfinite(measured.values).any(axis=(0, 2)).all()
    if not seen and len(known) < len(law.constants):
        raise InputError("--vary: where a state was not measured every constant needs a start, --start NAME=NUMBER")
    logs = first_constants(measured, held) if seen else np.zeros((len(law.constants), measured.n_groups))
    for k in known:
        logs[k] = np.log(abs(_value(law.constants[k], starts)))
    return logs


def _is_given(one: sympy.Expr, starts: Mapping[str, float]) -> bool:
    return {symbol.name for symbol in one.free_symbols} <= set(starts)


def _value(one: sympy.Expr, starts: Mapping[str, float]) -> float:
    value = float(one.subs({symbol: starts[symbol.name] for symbol in one.free_symbols}))
    if not np.isfinite(value) or value == 0.0:
        raise InputError(f"--start: {one} begins at {value:g}; expected a number other than 0")
    return value
