"""The probability that the terms of a law are the true ones, for every row of the front.

    p = 1 / (1 + exp(-(w_0 + sum_k w_k f_k)))

Logistic regression on evidence f that every finished fit has, on the scales of `FEATURES`. The weights come from fits
of random laws of many kinds, exact, rounded and noisy, and of series that no law of the vocabulary explains:
`odediscovery bench reliability` makes these fits, reports how often laws of each predicted probability were right, and
prints weights refitted to its own fits.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import sympy

from odediscovery.data.series import pooled
from odediscovery.laws.equations import Equations
from odediscovery.problem.problem import Problem
from odediscovery.result.discovery import Discovery, doubts_of
from odediscovery.result.front import FrontRow
from odediscovery.runtime.arrays import Array


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known about one row of a front."""

    row: FrontRow
    found: Discovery
    accuracy: Array  # standard deviation of noise or rounding [states], in the user's units
    exact: bool  # whether the samples are taken as exact
    spent: bool  # whether time ran out before all kinds of laws were tried

    @property
    def left(self) -> Array:
        """Share of the variance of every state that the row leaves unexplained, at least 1e-16."""
        shares = self.row.state_r2
        left = np.array([1.0 - self.row.r2]) if shares is None else 1.0 - shares
        clipped: Array = np.clip(left[np.isfinite(left)], 1e-16, 1e3)
        return clipped

    @property
    def excess(self) -> float:
        """Residuals of the worst state beside its noise [ratio of mean squares]."""
        spread = np.nanvar(pooled(self.found.series), axis=0)[: self.found.series.n_states]
        shares = np.full(len(spread), self.row.r2) if self.row.state_r2 is None else self.row.state_r2
        with np.errstate(all="ignore"):
            ratio = (1.0 - shares) * spread / self.accuracy**2
        return float(np.max(ratio[np.isfinite(ratio)], initial=0.1))

    @property
    def lead(self) -> float:
        """Criterion of the best other row minus that of this one."""
        own = self.row.equations.short()
        others = [row.criterion for row in self.found.front if row is not self.row and row.equations.short() != own]
        return min(others, default=self.row.criterion + 100.0) - self.row.criterion

    @property
    def weakest(self) -> float:
        """Least ratio of a coefficient to its standard error; 100 where errors are unknown."""
        law, errors = self.row.equations.law, self.row.equations.standard_errors
        if law is None or errors is None:
            return 100.0
        fitted = (law.coefficients != 0.0) & (errors.coefficients > 0.0)
        return float(np.min(np.abs(law.coefficients[fitted]) / errors.coefficients[fitted], initial=1e4))

    @property
    def shape(self) -> Shape:
        """The size of the row's equations."""
        return shape_of(self.row.equations)


@dataclass(frozen=True)
class Shape:
    """The size of equations."""

    inner: int  # sums and functions of states
    fractions: int  # exponents that are not whole
    constants: int  # coefficients, constants inside sums and exponents that are not simple


def shape_of(equations: Equations) -> Shape:
    """Count what equations are made of.

    >>> shape_of(Equations.parse(["x"], {"x": "2*x**0.613 - 0.5*x"}))
    Shape(inner=0, fractions=1, constants=3)
    """
    law = equations.law
    if law is None:
        sides = equations.right_hand_sides
        numbers = [number for side in sides for number in side.atoms(sympy.Float)]
        inner = len({part for side in sides for part in side.atoms(sympy.Function, sympy.Pow) if part.args[0].args})
        return Shape(inner, 0, len(numbers))
    used, w = law.coefficients != 0.0, law.exponents[:, : law.n_states]
    real = int((np.abs(w * 12.0 - np.round(w * 12.0)) > 1e-6).sum())
    fractions = int((np.abs(law.exponents - np.round(law.exponents)) > 1e-6).sum())
    inside = 0 if law.features is None else int(np.count_nonzero(law.features.sums.weights))
    inner = int((law.exponents[:, law.n_states :] != 0.0).any(axis=0).sum())
    return Shape(inner, fractions, int(used.sum()) + inside + real)


@dataclass(frozen=True)
class Feature:
    """One number of the evidence."""

    says: str  # what it is, in words
    value: Callable[[Evidence], float]
    least: float  # smaller values count as this
    most: float  # larger values count as this
    weight: float  # of logistic regression

    def __call__(self, evidence: Evidence) -> float:
        """Its value, within its bounds."""
        return float(np.clip(self.value(evidence), self.least, self.most))


def _if_exact(value: Callable[[Evidence], float]) -> Callable[[Evidence], float]:
    return lambda e: value(e) if e.exact else 0.0


def _if_noisy(value: Callable[[Evidence], float]) -> Callable[[Evidence], float]:
    return lambda e: 0.0 if e.exact else value(e)


FEATURES = (
    Feature("samples are exact", lambda e: float(e.exact), 0.0, 1.0, 4.2),
    Feature(
        "exact samples: digits of the variance that are not explained beyond 12",
        _if_exact(lambda e: math.log10(e.left.max(initial=1e-16)) + 12.0),
        -2.0,
        10.0,
        -0.62,
    ),
    Feature("noise: digits of the residuals beyond it", _if_noisy(lambda e: math.log10(e.excess)), -0.3, 3.0, -1.69),
    Feature("lead of the criterion before other rows, in tens", lambda e: e.lead / 10.0, -1.0, 1.5, 0.77),
    Feature("constants an equation", lambda e: e.shape.constants / e.found.series.n_states, 1.0, 8.0, -0.42),
    Feature("sums and functions an equation", lambda e: e.shape.inner / e.found.series.n_states, 0.0, 2.0, -1.61),
    # Powers that are not whole stand for saturation more often than for themselves.
    Feature("fractional exponents an equation", lambda e: e.shape.fractions / e.found.series.n_states, 0.0, 3.0, -1.0),
    Feature(
        "digits of the least certain coefficient", _if_noisy(lambda e: math.log10(max(e.weakest, 1e-9))), 0.0, 3.0, 1.97
    ),
    Feature(
        "digits of samples a constant", lambda e: math.log10(_values(e) / max(e.shape.constants, 1)), 0.0, 3.0, 1.26
    ),
    Feature("time was spent", lambda e: float(e.spent or e.found.outcome == "stopped"), 0.0, 1.0, -1.67),
    Feature("no law is claimed", lambda e: float(e.found.outcome == "poor-fit"), 0.0, 1.0, -3.04),
    Feature("notes of doubt", lambda e: len(doubts_of(e.found.messages)), 0.0, 2.0, -2.23),
    Feature("it has a name", lambda e: float(bool(e.row.name)), 0.0, 1.0, 0.72),
    Feature("it was chosen", lambda e: float(e.row.selected), 0.0, 1.0, 1.54),
)
INTERCEPT = -4.58
# Event and key of the log that has the numbers for every row of the front.
EVIDENCE = "evidence"


def _values(e: Evidence) -> int:
    return int(np.isfinite(pooled(e.found.series)).sum())


def features_of(evidence: Evidence) -> list[float]:
    """The numbers of the evidence on one row, in the order of `FEATURES`."""
    return [feature(evidence) for feature in FEATURES]


def probability_of(features: Sequence[float]) -> float:
    """The probability of the true terms, given the numbers of the evidence."""
    score = INTERCEPT + sum(f.weight * value for f, value in zip(FEATURES, features, strict=True))
    return 1.0 / (1.0 + math.exp(-max(min(score, 50.0), -50.0)))


def evidence_on(found: Discovery, p: Problem, spent: bool) -> list[Evidence]:
    """The evidence on every row of a finished front, from the problem that its laws were judged on."""
    own = ~p.data.is_control
    accuracy = (p.sigma * p.scale.size)[own]
    exact = p.clean
    return [Evidence(row, found, accuracy, exact, spent) for row in found.front]


def with_probabilities(found: Discovery, p: Problem, spent: bool) -> Discovery:
    """The result with the probability of every row of its front."""
    known = [features_of(one) for one in evidence_on(found, p, spent)]
    rows = (
        dataclasses.replace(row, probability=round(probability_of(features), 3))
        for row, features in zip(found.front, known, strict=True)
    )
    return dataclasses.replace(found, front=tuple(rows), log=(*found.log, {"event": EVIDENCE, EVIDENCE: known}))
