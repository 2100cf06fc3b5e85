"""What each term of an equation contributes over time, and how the constants hang together."""

from __future__ import annotations

import numpy as np
import sympy
from matplotlib.axes import Axes

from odediscovery.laws.cost import count
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import equations_with
from odediscovery.laws.records import monomial_names
from odediscovery.plots.pieces import draw_zero
from odediscovery.plots.theme import COLOURS, INK, LETTERS, LINE, MUTED, PANEL_POINTS, SHADES
from odediscovery.plots.times import literal, set_times
from odediscovery.problem.impulses import dose_columns
from odediscovery.result.discovery import Discovery
from odediscovery.result.units import rate_label
from odediscovery.runtime.arrays import Array

# Terms with a curve of their own; the rest is one more curve.
MAX_TERMS = 6
# Letters of the name of a term, and constants in a picture of their correlations.
MAX_LETTERS, MAX_CONSTANTS = 34, 12
# Significant digits of the factor in the name of a term.
DIGITS = 3


def terms_over_time(found: Discovery, k: int, j: int = 0) -> tuple[Array, list[str], Array]:
    """The terms of equation k along the curve of trajectory j, but for doses, whose rates are those of a moment.

    Returns:
        Times [n], the terms as text, and their values [n, terms].
    """
    run, own = found.series.trajectories[j], found.equations_of(j)
    times = np.linspace(run.time[0], run.time[-1], PANEL_POINTS)
    curve = own.simulate(found.initial_values[j], times, controls=run.controls)
    x = curve if run.controls is None else np.hstack([curve, run.controls.at(times)])
    doses = {own.symbols[own.variables.index(name)] for name in dose_columns(found.settings) if name in own.variables}
    parts = [part for part in sympy.Add.make_args(own.right_hand_sides[k]) if part != 0]
    parts = [part for part in parts if not part.free_symbols or not part.free_symbols <= doses]
    n, names, columns = len(own.states), [], []
    for first in range(0, len(parts), n):
        few = parts[first : first + n]
        padded = (*few, *[sympy.Integer(0)] * (n - len(few)))
        each = Equations(own.states, padded, own.time_name, controls=own.controls)
        names += [_side(line) for line in each.pretty(DIGITS).splitlines()[: len(few)]]
        columns.append(each.rhs(x)[:, : len(few)])
    return times, names, np.hstack(columns) if columns else np.zeros((len(times), 0))


def _side(line: str) -> str:
    side = line.partition(" = ")[2]
    return side if len(side) <= MAX_LETTERS else f"{side[: MAX_LETTERS - 3]}..."


def draw_contributions(axes: Axes, found: Discovery, k: int, j: int = 0) -> list[str]:
    """The terms of equation k over time, and their sum, the rate between doses.

    Returns:
        The terms in the order of their colours; what is behind the last colour is "the rest".
    """
    times, names, values = terms_over_time(found, k, j)
    size = np.nanmean(np.abs(values), axis=0) if values.size else np.zeros(0)
    order = np.argsort(-np.nan_to_num(size), kind="stable")
    shown, rest = order[:MAX_TERMS], order[MAX_TERMS:]
    labels = [names[i] for i in shown.tolist()]
    for hue, i in zip(COLOURS, shown.tolist(), strict=False):
        axes.plot(times, values[:, i], color=hue, label=names[i])
    if rest.size:
        labels.append("the rest")
        axes.plot(times, values[:, rest].sum(axis=1), color=MUTED, ls=":", label="the rest", **LINE)
    axes.plot(times, values.sum(axis=1), color=INK, ls="--", label="sum, the rate", **LINE)
    draw_zero(axes)
    set_times(axes, found.series)
    axes.set_ylabel(literal(rate_label(found.series, found.series.states[k])))
    return labels


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
    known = found.estimates
    if known is None:
        return []
    terms = monomial_names(found.equations)
    variables = found.equations.variables
    if len(terms) != known.law.n_monomials:
        return []
    a, w, b, v = known.free
    of_rows = [", ".join(variables[k] for k in equations_with(known.law, i)) for i in range(len(a))]
    names = [f"{of_rows[i]}: {terms[j]}" for i, j in zip(*np.nonzero(a), strict=True)]
    for j, k in zip(*np.nonzero(w), strict=True):
        of = variables[k] if k < len(variables) else "function"
        names.append(f"exponent of {of} in {terms[j]}")
    names += [f"weight {u + 1}.{j + 1}" for u, j in zip(*np.nonzero(b), strict=True)]
    return names + [f"inner exponent {j + 1}.{k + 1}" for j, k in zip(*np.nonzero(v), strict=True)]


def draw_correlations(axes: Axes, names: list[str], r: Array) -> None:
    """The lower half of a matrix of correlations as coloured cells with their numbers."""
    n = len(names)
    letters = LETTERS.note if n <= MAX_CONSTANTS // 2 else LETTERS.small
    for i in range(1, n):
        for k in range(i):
            hue, shade = COLOURS[0 if r[i, k] > 0 else 1], SHADES.strong * abs(float(r[i, k]))
            axes.fill([k, k + 1, k + 1, k], [i, i, i + 1, i + 1], color=hue, alpha=shade, lw=0)
            text = f"{r[i, k]:.2f}".replace("-", "\N{MINUS SIGN}")
            axes.text(k + 0.5, i + 0.5, text, ha="center", va="center", fontsize=letters, color=INK)
    axes.set_xlim(0, n - 1)
    axes.set_ylim(n, 1)
    axes.set_xticks(np.arange(n - 1) + 0.5, [str(i + 1) for i in range(n - 1)])
    axes.set_yticks(np.arange(1, n) + 0.5, [str(i + 1) for i in range(1, n)])
    axes.set_aspect("equal", anchor="W")
    axes.grid(visible=False)
