"""What a critical reader asks for: each term over time, rates, residuals, how the constants hang together.

autocorrelation at lag l:  r_l = sum_n e_n e_{n+l} / sum_n e_n^2,   95 % of noise within 1.96 / sqrt(N)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import sympy
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy.special import ndtri

from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import count, equations_with
from odediscovery.laws.records import LEVEL, monomial_names
from odediscovery.plots.axes import draw_zero, ends_of, set_times, with_unit
from odediscovery.plots.theme import (
    COLOURS,
    INK,
    LIGHT,
    LINE,
    MAX_TICKS,
    MUTED,
    NOTE_TEXT,
    PANEL_POINTS,
    SMALL_MARK,
    SMALL_RINGS,
    SMALL_TEXT,
    STRONG,
)
from odediscovery.problem.prepare import dose_columns
from odediscovery.result.discovery import Discovery
from odediscovery.result.units import rate_label
from odediscovery.runtime.arrays import Array

MAX_LAGS = 20
# Fewer residuals than this show no pattern.
MIN_RESIDUALS = 8
# Trajectories that are integrated for these pictures, and rings in one of them.
MAX_RUNS, MAX_POINTS = 30, 300
# Terms with a curve of their own; letters of their names; constants in a picture of their correlations.
MAX_TERMS, MAX_LETTERS, MAX_CONSTANTS = 6, 34, 12
# Intervals reach so many standard errors to each side.
REACH = float(ndtri(0.5 + LEVEL / 2.0))


def checks_of(found: Discovery, k: int, residuals: Sequence[Array]) -> dict[str, Callable[[Axes], bool]]:
    """The pictures of state k: titles, and what draws each, if there is enough to be drawn.

    Args:
        residuals: of `residuals_of`.
    """
    own = [one[:, k] for one in residuals]
    return {
        "terms over time": lambda axes: draw_contributions(axes, found, k),
        "rate against state": lambda axes: draw_rates(axes, found, k),
        "autocorrelation of the residuals": lambda axes: draw_autocorrelation(axes, own),
        "normal plot of the residuals": lambda axes: draw_normal(axes, own),
    }


def residuals_of(found: Discovery) -> list[Array]:
    """Data - curve of the first trajectories, [n, states] each, nan where nothing was measured."""
    runs = found.series.trajectories[:MAX_RUNS]
    return [run.values - curve_of(found, j, run.time) for j, run in enumerate(runs)]


def curve_of(found: Discovery, j: int, times: Array) -> Array:
    """States of trajectory j by its own equations, [times, states]."""
    controls = found.series.trajectories[j].controls
    return found.equations_of(j).simulate(found.initial_values[j], times, controls=controls)


def solution_of(found: Discovery, j: int) -> tuple[Array, Array]:
    """Times of trajectory j for a small panel, and states with inputs at them."""
    run = found.series.trajectories[j]
    times = np.linspace(run.time[0], run.time[-1], PANEL_POINTS)
    curve = curve_of(found, j, times)
    return times, curve if run.controls is None else np.hstack([curve, run.controls.at(times)])


def autocorrelation(runs: Sequence[Array]) -> tuple[Array, int]:
    """Correlation of residuals [n] a trajectory with those some samples later, and their number.

    >>> autocorrelation([np.tile([1.0, -1.0], 8)])[0][:2].round(2).tolist()
    [-0.94, 0.88]
    """
    known = [np.where(np.isfinite(e), e, 0.0) for e in runs]
    size = int(sum(np.isfinite(e).sum() for e in runs))
    whole = sum(float(e @ e) for e in known)
    lags = min(MAX_LAGS, max((len(e) for e in known), default=0) // 2)
    if not whole > 0 or not lags:
        return np.zeros(0), size
    products = [sum(float(e[lag:] @ e[:-lag]) for e in known if len(e) > lag) for lag in range(1, lags + 1)]
    return np.array(products) / whole, size


def draw_autocorrelation(axes: Axes, runs: Sequence[Array]) -> bool:
    """Bars of the autocorrelation, and the band in which 95 % of them lie if the residuals are noise."""
    found, size = autocorrelation(runs)
    if size < MIN_RESIDUALS or not found.size:
        return False
    lags, bound = np.arange(1, len(found) + 1), REACH / np.sqrt(size)
    axes.axhspan(-bound, bound, color=COLOURS[0], **LIGHT)
    axes.vlines(lags, 0.0, found, color=INK, **LINE)
    axes.plot(lags, found, "o", color=INK, ms=SMALL_MARK)
    draw_zero(axes)
    axes.set_ylim(min(-0.56, float(found.min()) - 0.06), 1.06)
    axes.xaxis.set_major_locator(MaxNLocator(MAX_TICKS, integer=True))
    axes.set_xlabel("samples later")
    axes.set_ylabel("autocorrelation")
    return True


def draw_normal(axes: Axes, runs: Sequence[Array]) -> bool:
    """Residuals in order against those of a normal distribution: noise lies on the line."""
    left = np.concatenate([e[np.isfinite(e)] for e in runs] or [np.zeros(0)])
    spread = float(left.std()) if left.size else 0.0
    if left.size < MIN_RESIDUALS or not spread > 0:
        return False
    ordered = np.sort(left - left.mean()) / spread
    expected = ndtri((np.arange(len(ordered)) + 0.5) / len(ordered))
    ends = np.array([min(expected[0], ordered[0]), max(expected[-1], ordered[-1])])
    axes.plot(ends, ends, color=COLOURS[0], **LINE)
    step = max(len(ordered) // MAX_POINTS, 1)
    axes.plot(expected[::step], ordered[::step], color=INK, **SMALL_RINGS)
    axes.set_xlabel("normal quantile")
    axes.set_ylabel("residual / spread")
    return True


def draw_rates(axes: Axes, found: Discovery, k: int) -> bool:
    """Slopes between neighbouring samples of state k, and the rate by the equation along the curve."""
    drawn = False
    runs = found.series.trajectories[: len(COLOURS)]
    for j, run in enumerate(runs):
        seen = np.isfinite(run.values[:, k])
        time, x = run.time[seen], run.values[seen, k]
        if len(x) < 3:
            continue
        step = max(len(x) // MAX_POINTS, 1)
        middle, slopes = ((x[1:] + x[:-1]) / 2)[::step], (np.diff(x) / np.diff(time))[::step]
        axes.plot(middle, slopes, color=INK if len(runs) == 1 else COLOURS[j], **SMALL_RINGS)
        variables = solution_of(found, j)[1]
        if variables.shape[1] == 1:
            # Of a single state the rate is known beyond the curve.
            variables = np.linspace(*ends_of(np.append(variables[np.isfinite(variables)], x)), PANEL_POINTS)[:, None]
        axes.plot(variables[:, k], found.equations_of(j).rhs(variables)[:, k], color=COLOURS[j])
        drawn = True
    draw_zero(axes)
    axes.set_xlabel(with_unit(found.series.states[k], found.series.units))
    axes.set_ylabel(rate_label(found.series, found.series.states[k]))
    return drawn


def terms_over_time(found: Discovery, k: int, j: int = 0) -> tuple[Array, list[str], Array]:
    """The terms of equation k along the curve of trajectory j, but for doses, whose rates are those of a moment.

    Returns:
        Times [n], the terms as text, and their values [n, terms].
    """
    own, (times, x) = found.equations_of(j), solution_of(found, j)
    doses = {own.symbols[own.variables.index(name)] for name in dose_columns(found.settings) if name in own.variables}
    parts = [part for part in sympy.Add.make_args(own.right_hand_sides[k]) if part != 0]
    parts = [part for part in parts if not part.free_symbols or not part.free_symbols <= doses]
    n, names, columns = len(own.states), [], []
    for first in range(0, len(parts), n):
        few = parts[first : first + n]
        padded = (*few, *[sympy.Integer(0)] * (n - len(few)))
        each = Equations(own.states, padded, own.time_name, controls=own.controls)
        sides = [line.partition(" = ")[2] for line in each.pretty(3).splitlines()[: len(few)]]
        names += [side if len(side) <= MAX_LETTERS else f"{side[: MAX_LETTERS - 3]}..." for side in sides]
        columns.append(each.rhs(x)[:, : len(few)])
    return times, names, np.hstack(columns) if columns else np.zeros((len(times), 0))


def draw_contributions(axes: Axes, found: Discovery, k: int, j: int = 0) -> bool:
    """The terms of equation k over time, and their sum, the rate between doses; their names are labels."""
    times, names, values = terms_over_time(found, k, j)
    size = np.nanmean(np.abs(values), axis=0) if values.size else np.zeros(0)
    order = np.argsort(-np.nan_to_num(size), kind="stable")
    shown, rest = order[:MAX_TERMS], order[MAX_TERMS:]
    for hue, i in zip(COLOURS, shown.tolist(), strict=False):
        axes.plot(times, values[:, i], color=hue, label=names[i])
    if rest.size:
        axes.plot(times, values[:, rest].sum(axis=1), color=MUTED, ls=":", label="the rest", **LINE)
    axes.plot(times, values.sum(axis=1), color=INK, ls="--", label="sum, the rate", **LINE)
    draw_zero(axes)
    set_times(axes, found.series)
    axes.set_ylabel(rate_label(found.series, found.series.states[k]))
    return True


def correlations(found: Discovery) -> tuple[list[str], Array] | None:
    """The fitted constants of the law and their correlations, None where these are not known.

    Of many constants those that are most correlated with another one.
    """
    known = found.estimates
    if known is None:
        return None
    size = count(known.free)
    names, matrix = _names(found), known.covariance.matrix[:size, :size]
    deviations = np.sqrt(np.diag(matrix))
    if size != len(names) or size < 2 or not np.all(np.isfinite(deviations) & (deviations > 0)):
        return None
    r = np.clip(matrix / np.outer(deviations, deviations), -1.0, 1.0)
    most = np.abs(r - np.eye(size)).max(axis=1)
    kept = np.sort(np.argsort(-most, kind="stable")[:MAX_CONSTANTS])
    return [names[i] for i in kept.tolist()], r[np.ix_(kept, kept)]


def _names(found: Discovery) -> list[str]:
    """What the free constants are called, in the order of the covariance."""
    known, terms, variables = found.estimates, monomial_names(found.equations), found.equations.variables
    if known is None or len(terms) != known.law.n_monomials:
        return []
    a, w, b, v = known.free
    of_rows = [", ".join(variables[k] for k in equations_with(known.law, i)) for i in range(len(a))]
    names = [f"{of_rows[i]}: {terms[j]}" for i, j in zip(*np.nonzero(a), strict=True)]
    for j, k in zip(*np.nonzero(w), strict=True):
        of = variables[k] if k < len(variables) else "function"
        names.append(f"exponent of {of} in {terms[j]}")
    names += [f"weight {u + 1}.{j + 1}" for u, j in zip(*np.nonzero(b), strict=True)]
    return names + [f"inner exponent {j + 1}.{k + 1}" for j, k in zip(*np.nonzero(v), strict=True)]


def draw_correlations(axes: Axes, r: Array) -> None:
    """The lower half of a matrix of correlations as coloured cells with their numbers."""
    n = len(r)
    letters = NOTE_TEXT if n <= MAX_CONSTANTS // 2 else SMALL_TEXT
    for i in range(1, n):
        for k in range(i):
            hue, shade = COLOURS[0 if r[i, k] > 0 else 1], STRONG * abs(float(r[i, k]))
            axes.fill([k, k + 1, k + 1, k], [i, i, i + 1, i + 1], color=hue, alpha=shade, lw=0)
            text = f"{r[i, k]:.2f}".replace("-", "\N{MINUS SIGN}")
            axes.text(k + 0.5, i + 0.5, text, ha="center", va="center", fontsize=letters, color=INK)
    axes.set_xlim(0, n - 1)
    axes.set_ylim(n, 1)
    axes.set_xticks(np.arange(n - 1) + 0.5, [str(i + 1) for i in range(n - 1)])
    axes.set_yticks(np.arange(1, n) + 0.5, [str(i + 1) for i in range(1, n)])
    axes.set_aspect("equal", anchor="W")
    axes.grid(visible=False)
