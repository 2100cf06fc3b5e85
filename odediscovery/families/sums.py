"""Families with products over sums: rational laws, Hill functions, and with exp and log Ivlev's and Gompertz's."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from odediscovery.families.base import Family, Inner, Seen, Terms, powers_of, rows_of
from odediscovery.families.functions import ABS, EXP, EXP_INVERSE, LOG
from odediscovery.runtime.arrays import Array


def _inner(seen: Seen) -> list[Inner]:
    """The vocabularies, from simple to rich.

    Sums of states and squares; of higher powers and ratios; of exponentials; then beside inverse powers, logarithms and
    exp(-1/x); last, of powers that begin between whole numbers and are fitted. Cubes, and sizes of states that change
    sign (drag), may stand outside of the first sums. Each vocabulary has few products: more that are alike would hide
    those of the law.
    """
    states = np.flatnonzero(seen.changing).tolist()
    low, higher = (_powers(seen, exponents) for exponents in ((1.0, 2.0), (1.0, 2.0, 3.0, 4.0)))
    (cubes, products) = (
        _powers(seen, (3.0,)),
        [np.add(*pair) for pair in itertools.combinations(_powers(seen, (1.0,)), 2)],
    )
    ratios = [row for pair in itertools.permutations(states, 2) for row in rows_of(seen.size, pair, [(1.0,), (-1.0,)])]
    logarithms, exponentials = (
        _of_functions(seen, name, powers) for name, powers in ((LOG.name, (1.0,)), (EXP.name, (-3.0, -1.0, 1.0, 3.0)))
    )
    activated = [
        row
        for row in _of_functions(seen, EXP_INVERSE.name, (-30.0, -10.0, -3.0, -1.0))
        if _stays_away_from_zero(seen, row)
    ]
    gates = [row for row in exponentials if abs(row[seen.n_states :]).max() == 3.0 and not row[: seen.n_states].any()]

    def words(sums: Sequence[Array], factors: Sequence[Array] = (), *, poles: bool = False) -> Inner:
        return Inner(_positive(seen, sums), np.reshape(factors, (-1, seen.size)), poles)

    found = [
        words(low, [*cubes, *_of_functions(seen, ABS.name, (1.0,))]),
        words([*higher, *ratios, *products], cubes),
        words([*_powers(seen, (1.0,)), *gates], exponentials),
        # A pole at 0 of a state of which only a change was measured is one at any value.
        words(low, [*_powers(seen, (-1.0,)), *ratios], poles=True),
        words(low, logarithms),
    ]
    if activated:
        found.append(words(low, activated))
    real = np.flatnonzero(seen.changing & ~seen.integer).tolist()
    if real:  # Hill functions as they are measured
        found.append(words([row for k in real for row in rows_of(seen.size, [k], [(1.5, 2.5, 3.5)])]))
    return found


def _powers(seen: Seen, exponents: Sequence[float]) -> list[Array]:
    return [row for k in np.flatnonzero(seen.changing).tolist() for row in rows_of(seen.size, [k], [exponents])]


def _of_functions(seen: Seen, name: str, exponents: Sequence[float]) -> list[Array]:
    """Powers of a function of each state, alone and beside a state."""
    features = [k for k, f in enumerate(seen.functions, start=seen.n_states) if f.name == name]
    beside = [np.zeros(seen.size), *_powers(seen, (1.0,))]
    return [row + own for k in features for row in rows_of(seen.size, [k], [exponents]) for own in beside]


def _stays_away_from_zero(seen: Seen, row: Array) -> bool:
    """Whether the states of these functions do, as absolute temperatures: near zero exp(-1/x) is any threshold."""
    of = [seen.functions[k].state for k in np.flatnonzero(row[seen.n_states :])]
    values = seen.monomials(np.eye(seen.size)[of])
    return bool((values.min(axis=(0, 1)) > 0.1 * values.max(axis=(0, 1))).all())


def _positive(seen: Seen, rows: Sequence[Array]) -> Array:
    """The products that are positive along the path of the data."""
    every = np.reshape(rows, (len(rows), seen.size))
    return every[(seen.monomials(every) > 0).all(axis=(0, 1))]


def _whole_powers(seen: Seen) -> Terms:
    rows = powers_of(seen.integer, seen.changing)
    whole = np.all(rows == np.round(rows), axis=1)
    return Terms(np.pad(rows[whole], ((0, 0), (0, len(seen.functions)))), many=True)


SUMS = Family(
    name="sums",
    says="products of powers of states, sums of these, and exp, log and size of a state: rational laws, Ivlev, "
    "Gompertz, Arrhenius, drag",
    chain="Functions -> NPU -> NAU -> NPU -> NAU",
    richness=3,
    candidates=_whole_powers,
    inner=_inner,
    functions=(EXP, EXP_INVERSE, LOG, ABS),
)
