r"""Simple laws for thousands of short series of one state, all fitted in parallel.

All laws of `LAWS` are fitted to all series of a block as one batch (series times laws are its members), on
whole curves; the Bayesian criterion n log(squares / n) + p log n selects the law of each series. If residuals
of the best law are autocorrelated, or it explains at most half of the variance, laws with a fitted exponent
are tried; if the same holds for these, the outcome is that no simple law explains the series.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from odediscovery.population.groups import (
    ANY,
    Entry,
    GroupModel,
    Measured,
    Members,
    Start,
    Structure,
    fit_each,
    members_of,
)
from odediscovery.runtime.arrays import ABOVE_ZERO, Array


@dataclass(frozen=True)
class SimpleLaw:
    """A law of one state with at most two terms."""

    name: str
    terms: tuple[tuple[int, float], ...]  # sign and exponent of each
    free: bool = False  # whether the last exponent is fitted


LAWS = (
    SimpleLaw("constant rise", ((1, 0.0),)),
    SimpleLaw("constant fall", ((-1, 0.0),)),
    SimpleLaw("exponential growth", ((1, 1.0),)),
    SimpleLaw("exponential decay", ((-1, 1.0),)),
    SimpleLaw("approach to a level", ((1, 0.0), (-1, 1.0))),
    SimpleLaw("logistic growth", ((1, 1.0), (-1, 2.0))),
    SimpleLaw("Bertalanffy growth", ((1, 2.0 / 3.0), (-1, 1.0))),
    SimpleLaw("square root decay", ((-1, 0.5),)),
    SimpleLaw("second order decay", ((-1, 2.0),)),
)
RICHER = (
    SimpleLaw("Richards growth", ((1, 1.0), (-1, 1.6)), free=True),
    SimpleLaw("power decay", ((-1, 1.4),), free=True),
    SimpleLaw("power growth", ((1, 0.6),), free=True),
)
Row = dict[str, Any]


def explain(labels: Sequence[str], runs: Sequence[tuple[Array, Array]]) -> list[Row]:
    """Rows with label, law, equation, constants, start, R2, outcome, samples and seconds of every series.

    `runs` has the times and values [samples] of each, nan where nothing was measured.

    >>> t = np.linspace(0.0, 4.0, 20)
    >>> explain(["a"], [(t, 3.0 * np.exp(-0.5 * t))])[0]["law"]
    'exponential decay'
    """
    began = time.perf_counter()
    rows, fine = list[Row](), []
    for label, (t, x) in zip(labels, runs, strict=True):
        rows.append(row := {"series": label, "samples": int(np.isfinite(x).sum())})
        if reason := _why_not(t, x):
            row |= {"outcome": reason, "law": "", "equation": ""}
        else:
            # Scaled to span and largest size 1, so that a batch may contain any units.
            fine.append((row, t, x, float(t[-1] - t[0]), float(np.nanmax(np.abs(x)))))
    if fine:
        data = members_of([((t - t[0]) / span, (x / size)[:, None]) for _, t, x, span, size in fine])
        found = _best(data, LAWS)
        if left := [g for g, one in enumerate(found) if not one.explained]:
            for g, one in zip(left, _best(data.taken(left), RICHER), strict=True):
                found[g] = min(found[g], one, key=lambda one: one.criterion)
        for (row, *_, span, size), one in zip(fine, found, strict=True):
            row |= one.in_units(span, size)
    seconds = (time.perf_counter() - began) / max(len(rows), 1)
    return [row | {"seconds": round(seconds, 5)} for row in rows]


def _why_not(t: Array, x: Array) -> str:
    """The reason why a series cannot be fitted; "" if it can."""
    seen = int(np.isfinite(x).sum())
    if not seen:
        return "no values"
    if seen < 4:  # for a start value, two constants, and one degree of freedom
        return f"only {seen} values, at least 4 are needed"
    if not np.isfinite(t).all() or np.any(np.diff(t) <= 0):
        return "times do not increase"
    return "never changes" if np.nanmax(x) == np.nanmin(x) else ""


class _Found(NamedTuple):
    """A law of one series whose span and largest size are 1."""

    law: SimpleLaw
    sizes: Array  # of its constants
    exponent: float | None  # if fitted
    start: float
    r2: float
    criterion: float  # lower is better
    explained: bool  # whether residuals are not autocorrelated and R2 is above 0.5, or within the solver's accuracy

    def in_units(self, span: float, size: float) -> Row:
        """The law in the units of the series."""
        text, constants, powers = "", list[float](), [power for _, power in self.law.terms]
        if self.exponent is not None:
            powers[-1] = self.exponent
        for (sign, _), p, own in zip(self.law.terms, powers, self.sizes, strict=True):
            constants.append(float(own) * size ** (1.0 - p) / span)
            product = "" if p == 0 else "*x" if p == 1 else f"*x^{p:.4g}"
            text += f" {'+' if sign > 0 else '-'} {constants[-1]:.5g}{product}"
        return {
            "law": self.law.name,
            "equation": f"x' = {text.removeprefix(' + ').removeprefix(' ')}",
            "constants": constants,
            "exponent": self.exponent,
            "start": self.start * size,
            "r2": round(self.r2, 6),
            "outcome": "explained" if self.explained else "no simple law",
        }


def _best(data: Members, laws: Sequence[SimpleLaw]) -> list[_Found]:
    """The law with the lowest criterion for every series."""
    groups, many, size = data.n_groups, len(laws), max(len(law.terms) for law in laws)
    w, signs = np.zeros((size, 1, many * groups)), np.zeros((size, many * groups))
    for s, law in enumerate(laws):
        # The free exponent is the last one of the pattern.
        for q, (sign, power) in enumerate(law.terms, start=size - len(law.terms)):
            w[q, 0, s * groups : (s + 1) * groups], signs[q, s * groups : (s + 1) * groups] = power, sign
    free = ((size - 1, 0),) if laws[0].free else ()
    pattern = Structure(np.ones((size, 1)), tuple(Entry(0, q, q, 1) for q in range(size)), free)
    wide = data.taken(np.tile(np.arange(groups), many))
    first = np.nan_to_num(wide.values[0, 0], nan=0.5)
    measured = Measured(wide, (Start(ANY, first),), np.zeros(1, bool), (), {})
    begin = np.vstack([_begin(wide, w, signs), *([w[-1]] if free else []), first[None]])
    model = GroupModel(pattern, measured, signs, w)
    width = np.array([4.0] * size + [1.0] * len(free) + [np.inf])
    fitted, left = fit_each(model, begin, np.array([0.05]), begin, width, steps=12)
    x, squares = data.values[:, 0], left[0].reshape(many, groups)
    seen, spread = np.isfinite(x), np.nanstd(x, axis=0)
    n = seen.sum(axis=0)
    # A fitted exponent costs 1.5 constants.
    parameters = np.array([[1 + len(law.terms) + 1.5 * law.free] for law in laws])
    floor = n * (1e-4 * spread) ** 2  # the accuracy of the solver
    with np.errstate(divide="ignore"):
        score = n * np.log(np.maximum(squares, floor) / n) + parameters * np.log(n)
    residual, found = model.residual(fitted)[:, 0], []
    for g, s in enumerate(np.argmin(np.where(np.isfinite(score), score, np.inf), axis=0).tolist()):
        unknowns, r = fitted[:, s * groups + g], residual[seen[:, g], s * groups + g]
        total = float(r @ r)
        # Lag-1 autocorrelation in units of its standard error for white noise.
        alike = float(r[1:] @ r[:-1]) / max(total, ABOVE_ZERO) * np.sqrt(len(r))
        r2 = 1.0 - total / max(float(n[g] * spread[g] ** 2), ABOVE_ZERO)
        explained = bool(total <= 4 * floor[g] or (alike < 2.5 and r2 > 0.5))
        sizes, exponent = np.exp(unknowns[size - len(laws[s].terms) : size]), float(unknowns[size]) if free else None
        found.append(_Found(laws[s], sizes, exponent, float(unknowns[-1]), r2, float(score[s, g]), explained))
    return found


def _begin(data: Members, w: Array, signs: Array) -> Array:
    """Initial guesses of the logarithms of the constants, from the integral form [terms, members]."""
    x, steps = data.values[:, 0], np.diff(data.times, axis=0)
    # Fill gaps with the last known value.
    last = np.maximum.accumulate(np.where(np.isfinite(x), np.arange(len(x))[:, None], 0))
    filled = np.nan_to_num(np.take_along_axis(x, last, axis=0), nan=0.5)
    columns = [np.ones(filled.shape)]
    for sign, power in zip(signs, w[:, 0], strict=True):
        with np.errstate(all="ignore"):
            m = sign * np.maximum(np.abs(filled), 1e-3) ** power
        columns.append(np.vstack([np.zeros((1, m.shape[1])), np.cumsum(0.5 * (m[1:] + m[:-1]) * steps, axis=0)]))
    every = np.stack(columns)
    gram = np.einsum("atg,btg->gab", every, every) + 1e-9 * np.eye(len(every))
    right = np.einsum("atg,tg->ga", every, filled)
    a = np.linalg.solve(gram, right[:, :, None])[:, 1:, 0].T
    return np.asarray(np.log(np.clip(np.where(a > 0, a, 0.3), 1e-2, 1e3)))
