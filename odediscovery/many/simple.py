r"""Every series its own law: thousands of short series of one state, explained by simple laws side by side.

All laws of `LAWS` are fitted to all series of a block as one batch (series times laws are its members), on
whole curves; the Bayesian criterion n log(squares / n) + p log n chooses for each series. Where the residuals
of the best law follow each other, an exponent is set free; where they still do, no simple law explains
the series, which is said.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from odediscovery.population.groups import (
    ANY,
    Entry,
    GroupModel,
    Measured,
    Members,
    SeparateFit,
    Start,
    Structure,
    fit_each,
    members_of,
)
from odediscovery.runtime.arrays import ABOVE_ZERO, Array
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class EachThresholds(Thresholds):
    """When a simple law explains a series."""

    steps: int = threshold(12, "Levenberg-Marquardt steps of a law", origin="cost")
    alike: float = threshold(
        2.5, "autocorrelation of the residuals from which a law does not explain them", unit="1 / root of the samples"
    )
    explained: float = threshold(0.5, "least share of the variance that a law explains", origin="as for other fits")
    exact: float = threshold(1e-4, "residuals below this are none", unit="spread", origin="accuracy of the solver")
    width: float = threshold(4.0, "how far constants are looked for from their first guess", unit="logarithm")
    noise: float = threshold(0.05, "noise of these fits", unit="size of the series")
    least: float = threshold(1e-3, "least value in a power", unit="size of the series")
    ridge: float = threshold(1e-9, "added to the normal equations of the first guess", origin="keeps them regular")
    unsigned: float = threshold(0.3, "first guess of a constant whose sign comes out wrong", unit="scaled")
    constants: tuple[float, float] = threshold((1e-2, 1e3), "ends of first guesses", unit="scaled")
    exponent: float = threshold(1.5, "price of an exponent that is fitted", unit="constants")
    samples: int = threshold(4, "samples that a law needs", origin="a start, two constants, and one to judge them")


EACH = EachThresholds()


@dataclass(frozen=True)
class SimpleLaw:
    """A law of one state: up to two terms.

    Args:
        name: what it is called.
        terms: sign and exponent of each.
        free: whether the last exponent is fitted.
    """

    name: str
    terms: tuple[tuple[int, float], ...]
    free: bool = False


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
    """The law of every series: label, law, equation, constants, start, R2, outcome, samples and seconds.

    Args:
        labels: of the series.
        runs: times and values [samples] of each, nan where nothing was measured.

    >>> t = np.linspace(0.0, 4.0, 20)
    >>> explain(["a"], [(t, 3.0 * np.exp(-0.5 * t))])[0]["law"]
    'exponential decay'
    """
    began = time.perf_counter()
    rows: list[Row] = [
        {"series": label, "samples": int(np.isfinite(x).sum())} for label, (_, x) in zip(labels, runs, strict=True)
    ]
    told = [_why_not(t, x) for t, x in runs]
    for row, reason in zip(rows, told, strict=True):
        if reason:
            row |= {"outcome": reason, "law": "", "equation": ""}
    fine = [k for k, reason in enumerate(told) if not reason]
    if fine:
        data = _normalised([runs[k] for k in fine])
        first = _best(data, LAWS)
        open_ = [g for g in range(len(fine)) if not first[g]["explained"]]
        if open_:
            for g, found in zip(open_, _best(data.taken(open_), RICHER), strict=True):
                if found["criterion"] < first[g]["criterion"]:
                    first[g] = found
        for g, k in enumerate(fine):
            rows[k] |= _in_units(first[g], runs[k])
    seconds = (time.perf_counter() - began) / max(len(rows), 1)
    return [row | {"seconds": round(seconds, 5)} for row in rows]


def _why_not(t: Array, x: Array) -> str:
    """Why a series cannot be fitted; nothing where it can."""
    seen = np.isfinite(x)
    if not seen.any():
        return "no values"
    if seen.sum() < EACH.samples:
        return f"only {int(seen.sum())} values, at least {EACH.samples} are needed"
    if not np.isfinite(t).all() or np.any(np.diff(t) <= 0):
        return "times do not increase"
    return "never changes" if np.nanmax(x) == np.nanmin(x) else ""


def _sizes(t: Array, x: Array) -> tuple[float, float, float]:
    """First time, span, and largest size of a series."""
    return float(t[0]), float(t[-1] - t[0]), float(np.nanmax(np.abs(x)))


def _normalised(runs: Sequence[tuple[Array, Array]]) -> Members:
    """Series whose span and largest size are 1, so that one batch holds any units."""
    found = []
    for t, x in runs:
        first, span, size = _sizes(t, x)
        found.append(((t - first) / span, (x / size)[:, None]))
    return members_of(found)


def _best(data: Members, laws: Sequence[SimpleLaw]) -> list[dict[str, Any]]:
    """The best of some laws for every series."""
    groups, size = data.n_groups, max(len(law.terms) for law in laws)
    many = len(laws)
    w, signs = np.zeros((size, 1, many * groups)), np.zeros((size, many * groups))
    for s, law in enumerate(laws):
        at = slice(s * groups, (s + 1) * groups)
        for q, (sign, power) in enumerate(law.terms):
            # The free exponent is the last one of the pattern.
            place = q if not laws[0].free else size - len(law.terms) + q
            w[place, 0, at], signs[place, at] = power, sign
    free = ((size - 1, 0),) if laws[0].free else ()
    pattern = Structure(np.ones((size, 1)), tuple(Entry(0, q, q, 1) for q in range(size)), free)
    wide = data.taken(np.tile(np.arange(groups), many))
    first = np.nan_to_num(wide.values[0, 0], nan=0.5)
    measured = Measured(wide, (Start(ANY, first),), np.zeros(1, bool), (), {})
    begin = np.vstack([_begin(wide, w, signs), *([w[-1]] if free else []), first[None]])
    model = GroupModel(pattern, measured, signs, w, scale=np.ones(1))
    width = np.array([EACH.width] * size + [1.0] * len(free) + [np.inf])
    fit = fit_each(model, begin, np.array([EACH.noise]), begin, width, EACH.steps)
    return _chosen(data, laws, model, fit)


def _begin(data: Members, w: Array, signs: Array) -> Array:
    """Logarithms of constants from the integral form of the samples [terms, members]."""
    x, t = data.values[:, 0], data.times
    filled = _filled(x)
    steps = np.diff(t, axis=0)
    integrals = []
    for q in range(len(w)):
        with np.errstate(all="ignore"):
            m = signs[q] * np.maximum(np.abs(filled), EACH.least) ** w[q, 0]
        integrals.append(np.vstack([np.zeros(m.shape[1]), np.cumsum(0.5 * (m[1:] + m[:-1]) * steps, axis=0)]))
    columns = np.stack([np.ones(x.shape), *integrals])
    gram = np.einsum("atg,btg->gab", columns, columns) + EACH.ridge * np.eye(len(columns))
    right = np.einsum("atg,tg->ga", columns, filled)
    a = np.linalg.solve(gram, right[:, :, None])[:, 1:, 0].T
    return np.asarray(np.log(np.clip(np.where(a > 0, a, EACH.unsigned), *EACH.constants)))


def _filled(x: Array) -> Array:
    """The values, the last one known where there is a gap [samples, members]."""
    found = x.copy()
    for k in range(1, len(x)):
        found[k] = np.where(np.isfinite(found[k]), found[k], found[k - 1])
    return np.nan_to_num(found, nan=0.5)


def _chosen(data: Members, laws: Sequence[SimpleLaw], model: GroupModel, fit: SeparateFit) -> list[dict[str, Any]]:
    groups, size = data.n_groups, model.n_constants
    x = data.values[:, 0]
    seen = np.isfinite(x)
    n = seen.sum(axis=0)
    squares = fit.squares[0].reshape(len(laws), groups)
    parameters = np.array([1 + len(law.terms) + EACH.exponent * law.free for law in laws])[:, None]
    spread = np.nanstd(x, axis=0)
    floor = n * (EACH.exact * spread) ** 2
    with np.errstate(divide="ignore"):
        score = n * np.log(np.maximum(squares, floor) / n) + parameters * np.log(n)
    best = np.argmin(np.where(np.isfinite(score), score, np.inf), axis=0)
    residual = model.curves(fit.unknowns, slopes=False).residual[:, 0]
    found = []
    for g in range(groups):
        at, law = int(best[g]) * groups + g, laws[int(best[g])]
        r = residual[:, at][seen[:, g]]
        total = float(r @ r)
        alike = float(r[1:] @ r[:-1]) / max(total, ABOVE_ZERO) * np.sqrt(len(r))
        r2 = 1.0 - total / max(float(n[g] * spread[g] ** 2), ABOVE_ZERO)
        exact = total <= 4 * floor[g]
        shift = 0 if not law.free else size - len(law.terms)
        logs = fit.unknowns[shift : shift + len(law.terms), at]
        power = float(fit.unknowns[size, at]) if law.free else None
        found.append(
            {
                "law": law,
                "logs": logs,
                "power": power,
                "start": float(fit.unknowns[-1, at]),
                "r2": r2,
                "criterion": float(score[best[g], g]),
                "explained": bool(exact or (alike < EACH.alike and r2 > EACH.explained)),
            }
        )
    return found


def _in_units(found: dict[str, Any], run: tuple[Array, Array]) -> Row:
    """The law of one series in its own units."""
    law: SimpleLaw = found["law"]
    _, span, size = _sizes(*run)
    text, constants = "", []
    for q, (sign, power) in enumerate(law.terms):
        p = found["power"] if law.free and q == len(law.terms) - 1 else power
        c = float(np.exp(found["logs"][q])) * size ** (1.0 - p) / span
        constants.append(c)
        product = "" if p == 0 else "*x" if p == 1 else f"*x^{p:.4g}"
        text += f" {'+' if sign > 0 else '-'} {c:.5g}{product}"
    text = text.removeprefix(" + ").removeprefix(" ")
    outcome = "explained" if found["explained"] else "no simple law"
    return {
        "law": law.name,
        "equation": f"x' = {text}",
        "constants": constants,
        "exponent": found["power"],
        "start": found["start"] * size,
        "r2": round(float(found["r2"]), 6),
        "outcome": outcome,
    }
