"""Diagnostic pictures: terms over time, rates, residuals, correlations of constants, groups side by side.

autocorrelation at lag l:  r_l = sum_n e_n e_{n+l} / sum_n e_n^2,   95 % of noise within 1.96 / sqrt(N)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple, TypeAlias

import numpy as np
import sympy
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy.special import ndtri

import odediscovery.plots.axes as style
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import count, equations_with
from odediscovery.laws.records import LEVEL, Estimates, monomial_names
from odediscovery.plots.axes import ends_of, set_times, with_unit
from odediscovery.problem.problem import dose_columns
from odediscovery.result.discovery import Discovery, curve_of, cut
from odediscovery.result.named import rate_label
from odediscovery.result.population import GroupConstant
from odediscovery.runtime.arrays import Array

# Least number of residuals that can show a pattern.
MIN_RESIDUALS = 8
# Largest number of rings in one picture.
MAX_POINTS = 300
# From the index of a trajectory to times and the solution with inputs.
Solved: TypeAlias = Callable[[int], tuple[Array, Array]]
# Largest number of constants in a picture of correlations.
MAX_CONSTANTS = 12
# Half width of intervals [standard error].
REACH = float(ndtri(0.5 + LEVEL / 2.0))


def checks_of(found: Discovery) -> dict[str, dict[str, Callable[[Axes], bool]]]:
    """The first four states with titles and drawing functions of their pictures; these return False without data."""
    residuals, solved = residuals_of(found), cache(partial(solution_of, found))
    return {
        state: {
            "terms over time": partial(draw_contributions, found=found, k=k, solved=solved),
            "rate against state": partial(draw_rates, found=found, k=k, solved=solved),
            "autocorrelation of the residuals": partial(draw_autocorrelation, runs=[one[:, k] for one in residuals]),
            "normal plot of the residuals": partial(draw_normal, runs=[one[:, k] for one in residuals]),
        }
        for k, state in enumerate(found.equations.states[:4])
    }


def residuals_of(found: Discovery, most: int | None = 30) -> list[Array]:
    """Data - curve of the first `most` trajectories, [n, states] each, nan without data."""
    return [run.values - curve_of(found, j) for j, run in enumerate(found.series.trajectories[:most])]


def solution_of(found: Discovery, j: int) -> tuple[Array, Array]:
    """Solution of trajectory j for a small panel: times, and states with inputs."""
    run = found.series.trajectories[j]
    times = np.linspace(run.time[0], run.time[-1], style.PANEL_POINTS)
    curve = curve_of(found, j, times)
    return times, curve if run.controls is None else np.hstack([curve, run.controls.at(times)])


def autocorrelation(runs: Sequence[Array]) -> tuple[Array, int]:
    """Autocorrelation at each lag of residuals [n] per trajectory, and the number of residuals."""
    known = [np.where(np.isfinite(e), e, 0.0) for e in runs]
    size = int(sum(np.isfinite(e).sum() for e in runs))
    whole = sum(float(e @ e) for e in known)
    lags = min(20, max((len(e) for e in known), default=0) // 2)
    if not whole > 0 or not lags:
        return np.zeros(0), size
    products = [sum(float(e[lag:] @ e[:-lag]) for e in known if len(e) > lag) for lag in range(1, lags + 1)]
    return np.array(products) / whole, size


def draw_autocorrelation(axes: Axes, runs: Sequence[Array]) -> bool:
    """Draw the autocorrelation, and the band that contains 95 % of it if the residuals are white noise."""
    found, size = autocorrelation(runs)
    if size < MIN_RESIDUALS or not found.size:
        return False
    lags, bound = np.arange(1, len(found) + 1), REACH / np.sqrt(size)
    axes.axhspan(-bound, bound, color=style.COLOURS[0], **style.LIGHT)
    axes.vlines(lags, 0.0, found, color=style.INK, **style.LINE)
    axes.plot(lags, found, "o", color=style.INK, ms=style.SMALL_MARK)
    axes.axhline(0.0, **style.HAIR)
    axes.set(xlabel="samples later", ylabel="autocorrelation", ylim=(min(-0.56, float(found.min()) - 0.06), 1.06))
    axes.xaxis.set_major_locator(MaxNLocator(style.MAX_TICKS, integer=True))
    return True


def draw_normal(axes: Axes, runs: Sequence[Array]) -> bool:
    """Draw a normal plot: ordered residuals against normal quantiles, with normal noise on the line."""
    left = np.concatenate([e[np.isfinite(e)] for e in runs] or [np.zeros(0)])
    spread = float(left.std()) if left.size else 0.0
    if left.size < MIN_RESIDUALS or not spread > 0:
        return False
    ordered = np.sort(left - left.mean()) / spread
    expected = ndtri((np.arange(len(ordered)) + 0.5) / len(ordered))
    ends = np.array([min(expected[0], ordered[0]), max(expected[-1], ordered[-1])])
    axes.plot(ends, ends, color=style.COLOURS[0], **style.LINE)
    step = max(len(ordered) // MAX_POINTS, 1)
    axes.plot(expected[::step], ordered[::step], color=style.INK, **style.SMALL_RINGS)
    axes.set(xlabel="normal quantile", ylabel="residual / spread")
    return True


def draw_rates(axes: Axes, found: Discovery, k: int, solved: Solved) -> bool:
    """Draw slopes between neighbouring samples of state k, and the rate by the equation along the curve."""
    state, drawn = found.series.states[k], False
    runs = found.series.trajectories[: len(style.COLOURS)]
    for j, run in enumerate(runs):
        seen = np.isfinite(run.values[:, k])
        time, x = run.time[seen], run.values[seen, k]
        if len(x) < 3:
            continue
        step = max(len(x) // MAX_POINTS, 1)
        middle, slopes = ((x[1:] + x[:-1]) / 2)[::step], (np.diff(x) / np.diff(time))[::step]
        axes.plot(middle, slopes, color=style.INK if len(runs) == 1 else style.COLOURS[j], **style.SMALL_RINGS)
        variables = solved(j)[1]
        if variables.shape[1] == 1:
            # The rate of a single state is known beyond the curve.
            low, high = ends_of(np.append(variables, x))
            variables = np.linspace(low, high, style.PANEL_POINTS)[:, None]
        axes.plot(variables[:, k], found.equations_of(j).rhs(variables)[:, k], color=style.COLOURS[j])
        drawn = True
    axes.axhline(0.0, **style.HAIR)
    axes.set(xlabel=with_unit(state, found.series.units), ylabel=rate_label(found.series, state))
    return drawn


def terms_along(found: Discovery, k: int, x: Array) -> tuple[list[str], Array]:
    """The terms of equation k as text, and their values along the first curve x [n, terms], without terms of doses,
    which act only for a moment.
    """
    own = found.equations_of(0)
    doses = {own.symbols[own.variables.index(name)] for name in dose_columns(found.settings) if name in own.variables}
    names, columns = [], [np.zeros((len(x), 0))]
    for part in sympy.Add.make_args(own.right_hand_sides[k]):
        if part != 0 and not (part.free_symbols and part.free_symbols <= doses):
            sides = (part, *[sympy.Integer(0)] * (len(own.states) - 1))
            alone = Equations(own.states, sides, own.time_name, controls=own.controls)
            names.append(cut(alone.pretty(3).split("\n")[0].partition(" = ")[2], 34))
            columns.append(alone.rhs(x)[:, :1])
    return names, np.hstack(columns)


def draw_contributions(axes: Axes, found: Discovery, k: int, solved: Solved) -> bool:
    """Draw the terms of equation k over time, labelled by name, and their sum, the rate between doses."""
    times, x = solved(0)
    names, values = terms_along(found, k, x)
    size = np.nanmean(np.abs(values), axis=0) if values.size else np.zeros(0)
    order = np.argsort(-np.nan_to_num(size), kind="stable")
    shown, rest = order[:6], order[6:]  # six colours besides that of the sum
    for hue, i in zip(style.COLOURS, shown.tolist(), strict=False):
        axes.plot(times, values[:, i], color=hue, label=names[i])
    if rest.size:
        axes.plot(times, values[:, rest].sum(axis=1), color=style.MUTED, ls=":", label="the rest", **style.LINE)
    axes.plot(times, values.sum(axis=1), color=style.INK, ls="--", label="sum, the rate", **style.LINE)
    axes.axhline(0.0, **style.HAIR)
    set_times(axes, found.series)
    axes.set_ylabel(rate_label(found.series, found.series.states[k]))
    return True


def correlations(found: Discovery) -> tuple[list[str], Array] | None:
    """The fitted constants and their correlations, if known; of many constants the most correlated ones."""
    known = found.estimates
    if known is None:
        return None
    size = count(known.free)
    names, matrix = _names_of_free(found.equations, known), known.covariance.matrix[:size, :size]
    deviations = np.sqrt(np.diag(matrix))
    if size != len(names) or size < 2 or not np.all(np.isfinite(deviations) & (deviations > 0)):
        return None
    r = np.clip(matrix / np.outer(deviations, deviations), -1.0, 1.0)
    most = np.abs(r - np.eye(size)).max(axis=1)
    kept = np.sort(np.argsort(-most, kind="stable")[:MAX_CONSTANTS])
    return [names[i] for i in kept.tolist()], r[np.ix_(kept, kept)]


def _names_of_free(equations: Equations, known: Estimates) -> list[str]:
    """Names of the free constants, in the order of the covariance."""
    terms, variables = monomial_names(equations), equations.variables
    if len(terms) != known.law.n_monomials:
        return []
    a, w, b, v = known.free
    of_rows = [", ".join(variables[k] for k in equations_with(known.law, i)) for i in range(len(a))]
    names = [f"{of_rows[i]}: {terms[j]}" for i, j in zip(*np.nonzero(a), strict=True)]
    of_powers = [*variables, *["function"] * (w.shape[1] - len(variables))]
    names += [f"exponent of {of_powers[k]} in {terms[j]}" for j, k in zip(*np.nonzero(w), strict=True)]
    names += [f"weight {u + 1}.{j + 1}" for u, j in zip(*np.nonzero(b), strict=True)]
    return names + [f"inner exponent {j + 1}.{k + 1}" for j, k in zip(*np.nonzero(v), strict=True)]


def draw_correlations(axes: Axes, r: Array) -> None:
    """Draw the lower half of a correlation matrix as coloured cells with numbers."""
    n = len(r)
    letters = style.NOTE_TEXT if n <= MAX_CONSTANTS // 2 else style.SMALL_TEXT
    for i in range(1, n):
        for k in range(i):
            hue, shade = style.COLOURS[0 if r[i, k] > 0 else 1], style.STRONG * abs(float(r[i, k]))
            axes.fill([k, k + 1, k + 1, k], [i, i, i + 1, i + 1], color=hue, alpha=shade, lw=0)
            text = f"{r[i, k]:.2f}".replace("-", "\N{MINUS SIGN}")
            axes.text(k + 0.5, i + 0.5, text, ha="center", va="center", fontsize=letters, color=style.INK)
    axes.set(xlim=(0, n - 1), ylim=(n, 1))
    axes.set_xticks(np.arange(n - 1) + 0.5, [str(i + 1) for i in range(n - 1)])
    axes.set_yticks(np.arange(1, n) + 0.5, [str(i + 1) for i in range(1, n)])
    axes.set_aspect("equal", anchor="W")
    axes.grid(visible=False)


# Largest number of varying constants with a forest plot.
MAX_FORESTS = 6


class GroupFit(NamedTuple):
    """Fit of the common law to one group, with the share of variance that its own curve explains (nan: unknown)."""

    label: str
    r2: float
    follows: bool


def group_fits(found: Discovery) -> list[GroupFit]:
    """Assess the fit of the common law to each group, in order."""
    assert found.population is not None  # callers check
    size = found.noise if np.all(np.isfinite(found.noise) & (found.noise > 0)) else np.ones(found.series.n_states)
    known = [(left / size)[np.isfinite(left)] for left in residuals_of(found, None)]
    spread = [float(np.sqrt(np.mean(left**2))) if left.size else np.nan for left in known]
    shares = np.full(len(spread), np.nan) if found.population.r2 is None else found.population.r2
    typical = float(np.nanmedian(spread)) if np.isfinite(spread).any() else 1.0
    # A group does not follow the law if its residuals are three times those of the typical group, or its curve is worse
    # than the mean of its own data.
    return [
        GroupFit(label, r2, not (one > 3.0 * (typical or 1.0) or r2 < 0.0))
        for label, one, r2 in zip(found.population.labels, spread, shares.tolist(), strict=True)
    ]


def drawn_groups(fits: list[GroupFit]) -> list[int]:
    """At most sixty groups to draw: first those that do not follow the law, then the others in order."""
    return sorted(sorted(range(len(fits)), key=lambda g: fits[g].follows)[:60])


def draw_forest(axes: Axes, labels: Sequence[str], one: GroupConstant) -> None:
    """Draw a constant of every group with its 95 % interval, and the mean with its interval as a band."""
    places = np.arange(len(labels), dtype=float)
    ends = np.array([[np.nan if end is None else end for end in one.interval(g)] for g in range(len(labels))])
    axes.hlines(places, ends[:, 0], ends[:, 1], color=style.INK, **style.LINE)
    axes.plot(one.values, places, "o", color=style.INK, ms=style.SAMPLE)
    if one.apart.size == len(labels) and np.isfinite(one.apart).any():
        axes.plot(one.apart, places, "x", color=style.COLOURS[1], ms=style.SAMPLE, label="each group alone")
    axes.axvline(one.mean, color=style.COLOURS[0], **style.LINE)
    if np.isfinite(one.mean_error) and one.mean_error > 0 and one.mean > 0:
        ratio = np.exp(REACH * one.mean_error / one.mean)
        axes.axvspan(one.mean / ratio, one.mean * ratio, color=style.COLOURS[0], **style.LIGHT)
    known = np.concatenate([one.values, ends[np.isfinite(ends)], one.apart[np.isfinite(one.apart)]])
    low, high = ends_of(known)
    # A group with a very uncertain constant must not compress the others.
    reach = 3.0 * (float(np.nanmax(one.values) - np.nanmin(one.values)) or abs(float(np.nanmax(known))) or 1.0)
    middle = float(np.nanmedian(one.values))
    # More than 36 labels would overlap.
    step = -(-len(labels) // 36)
    axes.set_yticks(places[::step], [label[:14] for label in labels[::step]], fontsize=style.SMALL_TEXT)
    ends_x = max(low, middle - reach), min(high, middle + reach)
    axes.set(xlabel=one.name, xlim=ends_x, ylim=(len(labels) - 0.5, -0.5))


def draw_group(axes: Axes, found: Discovery, g: int, k: int, fit: GroupFit) -> None:
    """Draw data and curve of state k of one group, in another colour if it does not follow the law."""
    run = found.series.trajectories[g]
    times, curve = solution_of(found, g)
    axes.plot(times, curve[:, k], color=style.COLOURS[0 if fit.follows else 1])
    axes.plot(run.time, run.values[:, k], color=style.INK, **style.SMALL_RINGS)
