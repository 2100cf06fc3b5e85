r"""Simple laws for thousands of short series of one state, all fitted in parallel.

All laws of `LAWS` are fitted to all series of a block as one batch (series times laws are its members), on
whole curves; the Bayesian criterion n log(squares / n) + p log n selects the law of each series. If residuals
of the best law are autocorrelated, or it explains at most half of the variance, laws with a fitted exponent
are tried; if the same holds for these, the outcome is that no simple law explains the series.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from odediscovery.population.groups import (
    ANY,
    GroupModel,
    Measured,
    Start,
    Structure,
    fit_each,
    padded,
    side_by_side,
    structure_of,
)
from odediscovery.runtime.arrays import ABOVE_ZERO, Array


def _law(*terms: tuple[int, float], free: bool = False) -> Structure:
    """The law of one state with these terms, (sign, exponent), of which the last exponent may be fitted."""
    law = structure_of([[(sign, [power]) for sign, power in terms]])
    return replace(law, free=((len(terms) - 1, 0),)) if free else law


LAWS = {
    "constant rise": _law((1, 0.0)),
    "constant fall": _law((-1, 0.0)),
    "exponential growth": _law((1, 1.0)),
    "exponential decay": _law((-1, 1.0)),
    "approach to a level": _law((1, 0.0), (-1, 1.0)),
    "logistic growth": _law((1, 1.0), (-1, 2.0)),
    "Bertalanffy growth": _law((1, 2.0 / 3.0), (-1, 1.0)),
    "square root decay": _law((-1, 0.5)),
    "second order decay": _law((-1, 2.0)),
}
RICHER = {
    "Richards growth": _law((1, 1.0), (-1, 1.6), free=True),
    "power decay": _law((-1, 1.4), free=True),
    "power growth": _law((1, 0.6), free=True),
}
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
        data = padded([((t - t[0]) / span, (x / size)[:, None]) for _, t, x, span, size in fine])
        first = np.nan_to_num(data[1][0, 0], nan=0.5)
        names = tuple(str(row["series"]) for row, *_ in fine)
        measured = Measured(*data, (Start(ANY, first),), np.zeros(1, bool), names)
        found = _best(measured, LAWS)
        if left := [g for g, one in enumerate(found) if not one.explained]:
            for g, one in zip(left, _best(measured.taken(left), RICHER), strict=True):
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

    name: str
    law: Structure
    unknowns: Array  # logarithms of the constants, the exponent if it is fitted, and the start
    r2: float
    criterion: float  # lower is better
    explained: bool  # whether residuals are not autocorrelated and R2 is above 0.5, or within the solver's accuracy

    def in_units(self, span: float, size: float) -> Row:
        *logs, start = self.unknowns.tolist()
        exponent = logs.pop() if self.law.free else None
        powers = self.law.with_exponents([] if exponent is None else [exponent]).exponents[:, 0].tolist()
        text, constants = "", list[float]()
        for entry, p, own in zip(self.law.entries, powers, np.exp(logs).tolist(), strict=True):
            constants.append(own * size ** (1.0 - p) / span)
            product = "" if p == 0 else "*x" if p == 1 else f"*x^{p:.4g}"
            text += f" {'+' if entry.sign > 0 else '-'} {constants[-1]:.5g}{product}"
        return {
            "law": self.name,
            "equation": f"x' = {text.removeprefix(' + ').removeprefix(' ')}",
            "constants": constants,
            "exponent": exponent,
            "start": start * size,
            "r2": round(self.r2, 6),
            "outcome": "explained" if self.explained else "no simple law",
        }


def _best(measured: Measured, laws: Mapping[str, Structure]) -> list[_Found]:
    """The law with the lowest criterion for every series."""
    groups, many, names = measured.n_groups, len(laws), list(laws)
    model, places = side_by_side([*laws.values()], measured)
    size, free = model.n_constants, model.n_free
    begin = np.vstack([_begin(model), model.exponents[size - free :, 0], model.measured.first_starts()])
    width = np.array([4.0] * size + [1.0] * free + [np.inf])
    fitted, left = fit_each(model, begin, np.array([0.05]), begin, width, steps=12)
    x, squares = measured.values[:, 0], left[0].reshape(many, groups)
    seen, spread = np.isfinite(x), np.nanstd(x, axis=0)
    n = seen.sum(axis=0)
    # A fitted exponent costs 1.5 constants.
    parameters = np.array([[1 + law.n_constants + 1.5 * len(law.free)] for law in laws.values()])
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
        own = unknowns[[*places[s], *range(size, len(unknowns))]]
        found.append(_Found(names[s], laws[names[s]], own, r2, float(score[s, g]), explained))
    return found


def _begin(model: GroupModel) -> Array:
    """Initial guesses of the logarithms of the constants, from the integral form [terms, members]."""
    x, steps = model.measured.values[:, 0], np.diff(model.measured.times, axis=0)
    # Fill gaps with the last known value.
    last = np.maximum.accumulate(np.where(np.isfinite(x), np.arange(len(x))[:, None], 0))
    filled = np.nan_to_num(np.take_along_axis(x, last, axis=0), nan=0.5)
    m = model.signs[:, None] * np.maximum(np.abs(filled), 1e-3) ** model.exponents
    sums = np.cumsum(0.5 * (m[:, 1:] + m[:, :-1]) * steps, axis=1)
    every = np.concatenate([np.ones((1, *x.shape)), np.pad(sums, ((0, 0), (1, 0), (0, 0)))])
    gram = np.einsum("atg,btg->gab", every, every) + 1e-9 * np.eye(len(every))
    right = np.einsum("atg,tg->ga", every, filled)
    a = np.linalg.solve(gram, right[:, :, None])[:, 1:, 0].T
    return np.asarray(np.log(np.clip(np.where(a > 0, a, 0.3), 1e-2, 1e3)))
