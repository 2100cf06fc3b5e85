"""Textbook laws as rows of the front."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sympy

from odediscovery.data.samples import pooled
from odediscovery.data.series import TimeSeries
from odediscovery.judge.claim import shares_explained
from odediscovery.judge.criterion import CRITERION
from odediscovery.problem.problem import Problem
from odediscovery.result.front import FrontRow
from odediscovery.textbook.fit import FittedForm
from odediscovery.textbook.judged import criterion_of, has_terms_of
from odediscovery.textbook.registry import TEXTBOOK


@dataclass(frozen=True)
class NamedRowThresholds:
    """Which laws stand on the front beside the claimed one."""

    # A law with a name stands for one of its complexity that is nearer by no more [ratio of mean squares]
    name: float = 2.0


NAMED_ROWS = NamedRowThresholds()


def row_of(p: Problem, fitted: FittedForm, series: TimeSeries) -> FrontRow:
    """A textbook law as a row of the front."""
    equations = dataclasses.replace(fitted.equations, standard_errors=None, snapped=None)
    values, squares = pooled(series), fitted.squares
    spread = float(np.nansum((values - np.nanmean(values, axis=0)) ** 2))
    r2 = 1.0 - float(squares.sum()) / spread if spread > 0 else 1.0
    return FrontRow(
        equations,
        complexity_of(fitted),
        float(squares.sum() / fitted.counts.sum()),
        r2,
        criterion_of(p, fitted),
        False,
        fitted.starts,
        fitted.says,
        state_r2=shares_explained(series, squares),
    )


def complexity_of(fitted: FittedForm) -> int:
    """Constants, factors that are states, functions, and states used; at least that of a sum of monomials."""
    opened = fitted.form.open()
    states = set(opened.symbols[: len(opened.states)])
    sides = opened.right_hand_sides
    factors = sum(int(side.count(symbol)) for side in sides for symbol in states)
    functions = sum(len(side.atoms(sympy.Function)) for side in sides)
    counted = len(fitted.constants) + len(states) + factors + functions
    equations = fitted.equations
    return counted if equations.power_sum is None else max(counted, equations.complexity)


def _place(row: FrontRow) -> tuple[int, float]:
    """Simple rows first; of one complexity a law with a name where another one is not far nearer to the data."""
    return row.complexity, row.mse / (NAMED_ROWS.name if row.name else 1.0)


def merged(front: Sequence[FrontRow], rows: Sequence[FrontRow]) -> tuple[FrontRow, ...]:
    """A front with more rows, one a complexity: those better than every simpler one, with or without a name.

    Textbook laws stand on it where they beat simpler textbook laws; a row that is one of them takes its name.
    """
    named: list[FrontRow] = []
    front, least = list(front), np.inf
    for row in _known_first(rows):
        same = next((i for i, one in enumerate(front) if has_terms_of(one.equations, row.equations)), None)
        if same is not None:
            front[same] = dataclasses.replace(front[same], name=front[same].name or row.name)
            least = min(least, front[same].mse)
        elif row.mse < least and row.complexity not in {one.complexity for one in named}:
            named.append(row)
            least = row.mse
    kept: dict[int, FrontRow] = {row.complexity: row for row in front if row.selected}
    for row in sorted([*named, *front], key=_place):
        # What is not shown itself hides nothing.
        simpler = [one for one in kept.values() if one.complexity < row.complexity]
        if row.complexity not in kept and (row.name or all(row.mse < one.mse for one in simpler)):
            kept[row.complexity] = row
    return tuple(kept[size] for size in sorted(kept))


def _known_first(rows: Sequence[FrontRow]) -> list[FrontRow]:
    """Simple rows first; of one complexity the law that a textbook names first, of those about as good."""
    order = {name: place for place, law in enumerate(TEXTBOOK) for name in (law.says, law.backwards)}
    least: dict[int, float] = {}
    for row in rows:
        least[row.complexity] = min(row.criterion, least.get(row.complexity, np.inf))

    def place(row: FrontRow) -> tuple[int, bool, int, float]:
        worse = row.criterion > least[row.complexity] + CRITERION.no_evidence
        return row.complexity, worse, order.get(row.name, len(order)), row.mse

    return sorted(rows, key=place)
