"""Where the solutions of a law come to rest, with error bars: what the measured system ends at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.judge.notes.law import comes_to_rest
from odediscovery.judge.notes.note import Note
from odediscovery.laws.printing import constant
from odediscovery.runtime.arrays import ABOVE_ZERO, Array


@dataclass(frozen=True)
class RestingThresholds:
    """When a solution has come to rest."""

    longer: float = 30.0  # a solution is followed for so much longer than it was measured [times]
    still: float = 1e-5  # change over the last half of that time below which it rests [range of the data]
    beyond: float = 3.0  # resting points farther beyond the data are not told [range of the data]
    step: float = 0.1  # step of a derivative by a constant [its standard error]
    nothing: float = 1e-3  # a state that rests below this rests at 0 [largest value in the data]
    shift: float = 1e-5  # step of a derivative by a state [range of the data]
    bent: float = 1e-2  # curvature over that step up to which there is a tangent [its slope]
    regular: float = 1e6  # condition of the Jacobian up to which it tells how the point moves


RESTING = RestingThresholds()

# Constants and times to the states at these times [times, states], nan from where the solution ends.
Solve = Callable[[Array, Array], Array]
# Constants and states to the rates of change [states].
Rates = Callable[[Array, Array], Array]


def resting_point(
    solve: Solve, rates: Rates, constants: Array, covariance: Array, span: tuple[float, float], low: Array, high: Array
) -> tuple[Array, Array] | None:
    """The point at which the solution comes to rest, and its standard errors [states]; None where it does not.

        cov(x) = (dx/dc) cov(c) (dx/dc)^T,    df/dx dx/dc = -df/dc

    where the rates f have a regular Jacobian there; else dx/dc is that of solutions.

    Args:
        solve: the law's solution from its fitted start.
        rates: the law, f.
        constants: fitted [constants].
        covariance: of them [constants, constants], nan where the data do not tell.
        span: first and last measured time.
        low: least measured value of each state [states].
        high: greatest.

    >>> solve = lambda c, t: c[0] + np.exp(-np.asarray(t))[:, None]
    >>> rates = lambda c, x: c[0] - x
    >>> low, high = np.array([4.0]), np.array([5.0])
    >>> value, error = resting_point(solve, rates, low, np.array([[0.01]]), (0, 3), low, high)
    >>> value.round(6).tolist(), error.round(6).tolist()
    ([4.0], [0.1])
    """
    wide = np.maximum(high - low, ABOVE_ZERO)
    times = span[0] + (span[1] - span[0]) * np.array([0.0, 0.5, 1.0]) * RESTING.longer

    def end(c: Array) -> Array | None:
        middle, last = solve(c, times)[1:]
        rests = np.isfinite(last).all() and (np.abs(last - middle) < RESTING.still * wide).all()
        return last if rests else None

    here = end(constants)
    if here is None or (np.maximum(here - high, low - here) > RESTING.beyond * wide).any():
        return None
    size = np.maximum(np.abs(low), np.abs(high))
    here = np.where(np.abs(here) < RESTING.nothing * size, 0.0, here)
    steps = RESTING.step * np.sqrt(np.diag(covariance))
    if not here.any():
        return None
    if not len(steps):
        # Constants are held, all of them; without any nothing moves, and so nothing comes to rest.
        moves = (np.abs(here - solve(constants, times[:1])[0]) > RESTING.still * wide).any()
        return (here, np.zeros_like(here)) if moves else None
    if not (np.isfinite(steps) & (steps > 0.0)).all():
        return here, np.full_like(here, np.nan)
    gradient = _moves(rates, constants, steps, here, RESTING.shift * wide)
    if gradient is None:
        slopes = []
        for row, step in zip(np.diag(steps), steps, strict=True):
            above, below = end(constants + row), end(constants - row)
            if above is None or below is None:
                return here, np.full_like(here, np.nan)
            slopes.append((above - below) / (2.0 * step))
        gradient = np.array(slopes).T
    errors: Array = np.sqrt(np.maximum(np.diag(gradient @ covariance @ gradient.T), 0.0))
    return here, np.where(here == 0.0, 0.0, errors)


def _moves(rates: Rates, constants: Array, steps: Array, at: Array, shifts: Array) -> Array | None:
    """How an attracting point moves with the constants [states, constants]; None where its Jacobian does not tell."""
    by_state = np.array([(rates(constants, at + e), rates(constants, at - e)) for e in np.diag(shifts)])
    by_constant = np.array([(rates(constants + e, at), rates(constants - e, at)) for e in np.diag(steps)])
    jacobian, slopes = (np.diff(ends[:, ::-1], axis=1)[:, 0].T / 2.0 for ends in (by_state, by_constant))
    slopes = slopes / steps
    # At a root's end there is no tangent.
    bent = np.abs(by_state.mean(axis=1).T - rates(constants, at)[:, None])
    smooth = bent.max() <= RESTING.bent * np.abs(jacobian).max()
    if not (smooth and np.isfinite(jacobian).all() and np.isfinite(slopes).all()):
        return None
    # In units of the shifts; eigenvalues are not changed by them.
    attracts = (np.linalg.eigvals(jacobian / shifts).real < 0.0).all()
    if not attracts or np.linalg.cond(jacobian / shifts[:, None]) > RESTING.regular:
        return None
    moved: Array = -shifts[:, None] * np.linalg.solve(jacobian, slopes)
    return moved


def resting_note(states: Sequence[str], values: Array, errors: Array) -> Note:
    """The point in words.

    >>> resting_note(["h"], np.array([4.18]), np.array([0.05])).split(":")[0]
    'comes to rest at h = 4.180(50)'
    """
    # What no constant moves, such as a state without terms, stays where it starts: its error is not known here.
    known = np.where((errors == 0.0) & (values != 0.0), np.nan, errors)
    # Where constants are short decimals it is as exact as they are.
    digits = 3 if errors.any() else 6
    told = [f"{x} = {constant(float(v), float(e), digits)}" for x, v, e in zip(states, values, known, strict=True)]
    return comes_to_rest(", ".join(told), known=bool(errors.any()))
