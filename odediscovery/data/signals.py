"""One run of an experiment: samples of its states, its controls u(t), their rounding, and checks of both.

    u(t) = u_j + (t - t_j) * slope_j,    t_j <= t < t_{j+1}

slope_j = (u_{j+1} - u_j) / (t_{j+1} - t_j), or 0 for a control that is held; the last value is kept.

Values have a fixed number of decimal places (3.25, 0.07) or significant digits (97.47, 0.01234):

    y = x + e,    e uniform within half a unit of the last digit:    sigma = unit / sqrt(12)

m equal neighbouring values share one rounding error: each counts as 1 / m of a sample, sigma sqrt(m). Even times that
were rounded lie on a grid, |t_k - t_0 - m_k h| < last digit / 2, for some t_0 and h and whole numbers m_k.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog
from scipy.sparse import issparse

from odediscovery.data.recorded import Recorded, spread_columns
from odediscovery.errors import InputError, InputTypeError, unknown_name
from odediscovery.runtime.arrays import Array, Mask

# Duration of an impulse: changes within it are below the noise [shortest sample interval].
MOMENT = 1e-6
# Least values of a state: fewer determine no law, not even a straight line with a check.
LEAST_VALUES = 4


@dataclass(frozen=True, eq=False)
class Signal:
    """Controls of one run of an experiment.

    Args:
        times: increasing [n].
        values: at these times [n, controls], without gaps.
        held: bool [controls], True for controls that keep each value until the next time.

    >>> feed = Signal(np.array([0.0, 2.0, 4.0]), np.array([[0.0], [1.0], [3.0]]), np.array([True]))
    >>> feed.at([1.0, 2.0, 9.0]).ravel().tolist()
    [0.0, 1.0, 3.0]
    """

    times: Array
    values: Array
    held: Mask

    @property
    def slopes(self) -> Array:
        """Slopes between neighbouring times, [n - 1, controls]."""
        rise = np.diff(self.values, axis=0) / np.diff(self.times)[:, None]
        return np.where(self.held, 0.0, rise)

    @property
    def chord_errors(self) -> Array:
        """Means over an interval of a smooth control less its chord, u'' h^2 / 12, at inner times [n - 2, controls].

        >>> times = np.linspace(0.0, 1.0, 101)
        >>> wave = Signal(times, np.sin(10.0 * times)[:, None], np.array([False]))
        >>> bool(np.allclose(wave.chord_errors, -100.0 * wave.values[1:-1] * 0.01**2 / 12.0, rtol=2e-3))
        True
        """
        h = np.diff(self.times)[:, None]
        return np.asarray(np.diff(self.slopes, axis=0) * h[1:] * h[:-1] / (h[1:] + h[:-1]) / 6.0)

    def at(self, times: ArrayLike) -> Array:
        """Controls at times [...] as [..., controls]; outside the known times the nearest value."""
        t = np.clip(times, self.times[0], self.times[-1])
        j = np.searchsorted(self.times, t, side="right") - 1
        slopes = np.vstack([self.slopes, np.zeros(len(self.held))])
        value: Array = self.values[j] + (t - self.times[j])[..., None] * slopes[j]
        return value

    def straight_pieces(self) -> list[tuple[int, int]]:
        """First and last sample of each piece in which every control is one straight line."""
        slopes = self.slopes
        # Allow for rounding errors.
        size = 1e-12 * np.abs(self.values).max(axis=0, initial=0.0)
        ends = self.values[:-1] + slopes * np.diff(self.times)[:, None]
        jumps = (np.abs(ends - self.values[1:]) > size).any(axis=1)
        found, first = [], 0
        for j in range(1, len(self.times)):
            last = j == len(self.times) - 1
            if not last and not jumps[j - 1]:
                on = self.values[first] + slopes[first] * (self.times[j + 1] - self.times[first])
                to = self.values[j] + slopes[j] * (self.times[j + 1] - self.times[j])
                if (np.abs(on - to) <= size).all():
                    continue
            found.append((first, j))
            first = j
        return found

    def until(self, end: float, time: Mask) -> Signal:
        """Extend the signal to a later end by its last values; controls that are `time` itself increase [controls]."""
        if end <= self.times[-1]:
            return self
        values = np.vstack([self.values, np.where(time, end, self.values[-1])])
        return Signal(np.append(self.times, end), values, self.held)

    def part(self, samples: slice | NDArray[Any]) -> Signal:
        """Select samples, by a slice, indices or a mask [samples]."""
        return Signal(self.times[samples], self.values[samples], self.held)

    def joined(self, later: Signal) -> Signal:
        """Append a later signal."""
        return Signal(np.concatenate([self.times, later.times]), np.vstack([self.values, later.values]), self.held)

    def scaled(self, size: Array, time: float) -> Signal:
        """Rescale to u' = u / size [controls] and t' = t / time."""
        return Signal(self.times / time, self.values / size, self.held)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One run of an experiment.

    Args:
        time: sample times [n], strictly increasing.
        values: states at these times [n, states], nan where missing.
        label: distinguishes it from the others; empty if there are no others.
        sigma: standard deviations of the values [n, states], nan where unknown or missing; None
            if all are unknown.
        controls: the controls at the same times, if any.
        recorded: how its samples arose, if they are more than values with noise.

    >>> run = Trajectory(np.array([0.0, 1.0]), np.array([[2.0], [np.nan]]), "first")
    >>> run.values.shape
    (2, 1)
    """

    time: Array
    values: Array
    label: str = ""
    sigma: Array | None = None
    controls: Signal | None = None
    recorded: Recorded | None = None

    def part(self, samples: slice | NDArray[Any]) -> Trajectory:
        """Select samples, by a slice, indices or a mask [samples], keeping the label."""
        sigma = None if self.sigma is None else self.sigma[samples]
        controls = self.controls and self.controls.part(samples)
        recorded = self.recorded and self.recorded.part(samples)
        return Trajectory(self.time[samples], self.values[samples], self.label, sigma, controls, recorded)

    def spread(self, places: Sequence[int], n: int) -> Trajectory:
        """Put the states at these places [states] among n columns, with the others unknown."""
        return self._by_column(lambda values, nothing: spread_columns(values, places, n, nothing))

    def select(self, columns: Any) -> Trajectory:
        """Select states by their columns [kept]."""
        return self._by_column(lambda values, _: values[..., columns])

    def _by_column(self, change: Callable[[NDArray[Any], float], NDArray[Any]]) -> Trajectory:
        sigma = None if self.sigma is None else change(self.sigma, np.nan)
        recorded = self.recorded and self.recorded.by_column(change)
        return replace(self, values=change(self.values, np.nan), sigma=sigma, recorded=recorded)

    def left(self, curve: Array) -> Array:
        """Residuals, curve - samples [samples, states], of increments for counts, with limits for censored values."""
        if self.recorded is None:
            return curve - self.values
        return np.asarray(self.recorded.observed(curve) - self.recorded.observed(self.values))

    def plain(self, left: Array) -> Array:
        """Curve - samples [samples, states] from the output of `left`, increments summed."""
        return left if self.recorded is None else self.recorded.summed(left)

    @property
    def known_start(self) -> Array:
        """Known first values [states], nan where unknown."""
        return np.full(self.values.shape[1], np.nan) if self.recorded is None else self.recorded.start

    @property
    def told(self) -> Mask:
        """Which values were measured, not only bounded [samples, states]."""
        seen = np.isfinite(self.values)
        return seen if self.recorded is None else seen & ~self.recorded.censored


def solve_piecewise(
    solve: Callable[..., Array],
    rates: Callable[[Array], Array],
    start: Array,
    times: Array,
    controls: Signal,
    time: Mask,
) -> Array:
    """Solve under controls [n, states] by solve(rates(t, x), start, times), without steps across kinks or jumps."""
    result = np.full((len(times), len(start)), np.nan)
    if not len(times) or not np.isfinite(times).all():
        return result
    result[times == times[0]] = x = start
    u = controls.until(float(times[-1]), time)
    slopes = u.slopes
    for first, last in u.straight_pieces():
        begin, end = max(u.times[first], times[0]), min(u.times[last], times[-1])
        if begin >= end:
            continue

        def along(t: float, x: Array, j: int = first, still: bool = not slopes[first].any()) -> Array:
            return rates(np.concatenate([x, u.values[j] if still else u.values[j] + (t - u.times[j]) * slopes[j]]))

        inside = (times > begin) & (times <= end)
        asked = np.unique([begin, *times[inside], end])
        part = solve(along, x, asked)
        result[inside], x = part[1 : 1 + inside.sum()], part[-1]
    return result


def with_moments(run: Trajectory, impulses: Mask) -> Trajectory:
    """Turn impulses [controls], amounts at samples, into rates over a short time after them."""
    u = run.controls
    if u is None or not impulses.any():
        return run
    given = np.flatnonzero((u.values[:-1, impulses] != 0.0).any(axis=1))
    width = MOMENT * float(np.diff(run.time).min())
    rates = u.values.copy()
    rates[:, impulses] /= width
    rates[-1, impulses] = 0.0
    ends = run.time[given] + width
    after = u.at(ends)
    after[:, impulses] = 0.0
    order = np.argsort(np.append(run.time, ends), kind="stable")
    nothing = np.full((len(given), run.values.shape[1]), np.nan)
    sigma = None if run.sigma is None else np.vstack([run.sigma, nothing])[order]
    times, values = np.append(run.time, ends)[order], np.vstack([run.values, nothing])[order]
    return Trajectory(times, values, run.label, sigma, Signal(times, np.vstack([rates, after])[order], u.held))


def fill_gaps(times: Array, values: Array, held: bool) -> Array:
    """Fill gaps in the values [n] of one control, the first of which is known, by interpolating or holding."""
    seen = np.flatnonzero(np.isfinite(values))
    if held:
        latest = np.searchsorted(seen, np.arange(len(values)), side="right") - 1
        return values[seen[latest]]
    return np.interp(times, times[seen], values[seen])


def control_slopes(runs: Sequence[Trajectory]) -> Array:
    """Slopes of all variables in every interval of all runs [intervals, states]: 0 except for controls, the last."""
    rows = [np.zeros((len(t.time) - 1, t.values.shape[1])) for t in runs]
    for row, t in zip(rows, runs, strict=True):
        if t.controls is not None:
            row[:, row.shape[1] - len(t.controls.held) :] = t.controls.slopes
    return np.concatenate(rows)


# Descriptions of arrays of other kinds; scikit-learn checks some of the words.
_OTHER = {"c": "complex numbers: Complex data not supported", "U": "text", "S": "text"}


def float_arrays(time: ArrayLike, values: ArrayLike) -> tuple[Array, Array]:
    """Convert times to [n] and values to [n, states]."""
    t, v = real_numbers(time, "times").copy(), real_numbers(values, "values").copy()
    if v.ndim == 1:
        v = v[:, None]
    if t.ndim != 1 or v.ndim != 2 or len(t) != len(v) or v.shape[1] == 0:
        raise InputError(f"expected times [n] and values [n, states], got shapes {t.shape} and {v.shape}")
    return t, v


def real_numbers(x: Any, name: str) -> Array:
    """Convert real numbers to an array of floats, missing and masked ones to nan."""
    if issparse(x):
        raise InputError(f"{name}: expected a dense array, got a sparse one; use {name}.toarray()")
    if hasattr(x, "detach"):  # a tensor, perhaps with gradients or on another device
        x = x.detach().cpu()
    try:
        held = np.ma.asarray(x) if isinstance(x, np.ma.MaskedArray) else np.asarray(x)
        if held.dtype.kind in "biufO":
            return np.ma.filled(held.astype(np.float64, copy=False), np.nan)
        reason, wrong = _OTHER.get(held.dtype.kind, str(held.dtype)), InputError
    except (TypeError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())
        wrong = InputTypeError if isinstance(error, TypeError) else InputError
    raise wrong(f"{name}: expected an array of real numbers, got {reason}; convert it")


def checked_trajectories(
    runs: Sequence[tuple[str, Array, Array, tuple[str, Sequence[int]]]],
    states: Sequence[str],
    time_name: str,
    hint: str = "",
) -> list[Trajectory]:
    """Build trajectories after checking that times increase and that every state has enough values for a fit."""
    for label, time, values, (called, numbers) in runs:
        for k in map(int, np.flatnonzero(~np.isfinite(time))):
            raise InputError(f"{called} {numbers[k]}: the time {time_name!r} is missing or infinite")
        for k in map(int, np.flatnonzero(np.diff(time) <= 0)):
            how = "repeats" if time[k + 1] == time[k] else "goes back:"
            after = f"{time[k + 1]:.10g} after {time[k]:.10g} in {called} {numbers[k]}"
            where = f" of trajectory {label!r}" if label else ""
            raise InputError(f"{called} {numbers[k + 1]}{where}: the time {time_name!r} {how} {after}{hint}")
        samples = int(np.isfinite(values).any(axis=1).sum())
        if samples < 2:
            name = f"trajectory {label!r}" if label else "the series"
            raise InputError(f"{name} has {samples} sample{'s'[: samples != 1]} with a value; at least 2 are needed")
    for name, count in zip(states, sum(np.isfinite(values).sum(axis=0) for _, _, values, _ in runs), strict=True):
        if count < LEAST_VALUES:
            raise InputError(f"state {name!r} has {count} values in all; at least {LEAST_VALUES} are needed to fit it")
    return [Trajectory(time, values, label) for label, time, values, _ in runs]


# Periods of angles, in degrees and radians, with the words for them.
TURNS = ((2.0 * np.pi, "2*pi"), (360.0, "360"))


def without_turns(runs: Sequence[Trajectory], names: Sequence[str]) -> tuple[list[Trajectory], list[str]]:
    """Join states that jump by a full turn, as angles within -pi and pi or 0 and 360 do, with messages.

    A jump is more than 3/4 of a turn between neighbours; without the turn, the state must go on as smoothly as
    elsewhere: its second differences there are no larger than others.
    """
    left, messages = [run.values.copy() for run in runs], list[str]()
    for i, name in enumerate(names):
        seen = [np.flatnonzero(np.isfinite(values[:, i])) for values in left]
        pieces = [values[rows, i] for values, rows in zip(left, seen, strict=True)]
        whole = np.concatenate(pieces)
        for turn, words in TURNS:
            size = np.abs(whole).max(initial=0.0)
            if not 0.375 * turn < size < 1.05 * turn:
                continue
            digit = resolution(whole)
            within = size <= 0.5 * turn + digit or (whole.min(initial=0.0) >= -digit and size <= turn + digit)
            joined = [np.unwrap(piece, discont=0.75 * turn, period=turn) for piece in pieces]
            count = sum(int((np.abs(np.diff(piece)) > 0.75 * turn).sum()) for piece in pieces)
            if within and count and _goes_on(pieces, joined, 0.75 * turn, 4.0 * digit):
                for values, rows, piece in zip(left, seen, joined, strict=True):
                    values[rows, i] = piece
                messages.append(
                    f"{name} jumps by {words} at {count} sample{'s' * (count > 1)}, as an angle does that "
                    "is kept within a turn: it is fitted without the jumps."
                )
    return [replace(run, values=values) for run, values in zip(runs, left, strict=True)], messages


def _goes_on(pieces: Sequence[Array], joined: Sequence[Array], jump: float, digit: float) -> bool:
    """Whether the joined pieces bend no more at the jumps than elsewhere, and move there."""
    at, elsewhere = list[float](), list[float]()
    for piece, whole in zip(pieces, joined, strict=True):
        jumps, bends = np.abs(np.diff(piece)) > jump, np.abs(np.diff(whole, n=2))
        beside = jumps[1:] | jumps[:-1]
        at += bends[beside].tolist()
        elsewhere += bends[~beside].tolist()
        if (np.diff(whole)[jumps] == 0.0).any():
            return False
    return len(elsewhere) > len(at) and max(at, default=np.inf) <= max(elsewhere) + digit


def with_sigma(
    runs: Sequence[Trajectory], names: Sequence[str], sigma: Sequence[Array], noise: Mapping[str, float] | None
) -> tuple[Trajectory, ...]:
    """Add standard deviations to trajectories [samples, states], None where all are unknown."""
    for name, level in (noise or {}).items():
        if name not in names:
            raise unknown_name("state with a noise level", name, names)
        if not isinstance(level, Real) or not 0.0 < float(level) < np.inf:
            raise InputError(
                f"noise level of {name!r}: expected a positive number in its unit, got {level!r}; "
                "give its standard deviation"
            )
        i = list(names).index(name)
        if any(np.isfinite(block[:, i]).any() for block in sigma):
            raise InputError(f"state {name!r} has both standard deviations and a noise level; give one of them")
        for run, block in zip(runs, sigma, strict=True):
            block[np.isfinite(run.values[:, i]), i] = float(level)
    return tuple(
        replace(run, sigma=None if np.isnan(block).all() else block) for run, block in zip(runs, sigma, strict=True)
    )


def check_deviations(sigma: Array, values: Array, places: Sequence[str], state: str) -> Array:
    """Check standard deviations of a state [samples], and set them to nan without a value; `places` names samples."""
    seen = np.isfinite(values)
    for k in map(int, np.flatnonzero(seen & ~((sigma > 0) & np.isfinite(sigma)))):
        got = "none" if np.isnan(sigma[k]) else f"{sigma[k]:.10g}"
        raise InputError(
            f"{places[k]}: expected a positive standard deviation of the {state!r} measured there, "
            f"got {got}; give one, or leave that value of {state!r} out"
        )
    return np.asarray(np.where(seen, sigma, np.nan))


def array_deviations(given: Sequence[Any], runs: Sequence[Trajectory], names: Sequence[str]) -> list[Array]:
    """Check standard deviations given as arrays or None; [samples, states] per trajectory, nan where unknown."""
    if len(given) != len(runs):
        raise InputError(
            f"{len(runs)} trajectories, but {len(given)} arrays of standard "
            "deviations: give one a trajectory, None where unknown"
        )
    blocks = []
    for sigma, shape in zip(given, [run.values.shape for run in runs], strict=True):
        try:
            # Copy, since values are set to nan below.
            block = np.array(np.full(shape, np.nan) if sigma is None else sigma, dtype=float)
        except (TypeError, ValueError) as error:
            raise InputError(f"sigma should be arrays of numbers: {error}") from None
        block = block[:, None] if block.ndim == 1 else block
        if block.shape != shape:
            raise InputError(
                f"sigma: expected arrays shaped like the values {shape}, got {block.shape}; "
                "give nan for a state whose noise is unknown"
            )
        blocks.append(block)
    for i in map(int, np.flatnonzero(~np.isnan(np.concatenate(blocks)).all(axis=0))):
        for run, block in zip(runs, blocks, strict=True):
            where = f" of trajectory {run.label!r}" if run.label else ""
            places = [f"sample {k}{where}, state {names[i]!r}" for k in range(len(block))]
            block[:, i] = check_deviations(block[:, i], run.values[:, i], places, names[i])
    return blocks


# Tolerance for equality with a rounded value [largest value].
SAME_DIGIT = 1e-14


def resolution(values: Array) -> float:
    """Unit of the last decimal place: 0.01 for 3.25 and 4.1; 0 without rounding."""
    seen = values[np.isfinite(values)]
    largest = np.max(np.abs(seen), initial=0.0)
    for digits in range(-6, 16):
        if np.all(np.abs(np.round(seen, digits) - seen) <= SAME_DIGIT * largest):
            return float(10.0**-digits)
    return 0.0


def significant_digits(values: Array) -> int | None:
    """Number of significant digits, 4 for 97.47 and 0.01234; None without rounding."""
    seen = values[np.isfinite(values) & (values != 0)]
    place = np.floor(np.log10(np.abs(seen)))
    for digits in range(1, 13):
        unit = 10.0 ** (place + 1 - digits)
        if np.all(np.abs(np.round(seen / unit) * unit - seen) <= SAME_DIGIT * np.abs(seen)):
            return digits
    return None


def rounding_step(values: Array) -> Array:
    """Unit of the last written digit of every value; 0 without rounding.

    The likelier of decimal places and significant digits is chosen: a number ends by chance in a zero
    with a probability of one in ten.

    >>> rounding_step(np.array([97.47, 9.013, 0.5012])).round(6).tolist()
    [0.01, 0.001, 0.0001]
    >>> rounding_step(np.array([97.47, 9.01, 0.5])).tolist()
    [0.01, 0.01, 0.01]
    """
    unit, digits = resolution(values), significant_digits(values)
    step = np.full(values.shape, unit)
    if digits is not None:
        size = np.where(np.isfinite(values), np.abs(values), 0.0)
        least = np.min(size, initial=np.inf, where=size > 0)
        of_digits = 10.0 ** (np.floor(np.log10(np.maximum(size, least))) + 1 - digits)
        finer = np.log10(of_digits[size > 0] / unit) if unit else np.ones(1)
        step = of_digits if finer.sum() > 0 else step
    return step


def rounding_sigma(values: Array) -> Array:
    """Standard deviation of the rounding error of every value; 0 without rounding."""
    return np.asarray(rounding_step(values) / np.sqrt(12.0))


def lengths_of_runs(values: Array) -> Array:
    """Length of the run of equal neighbouring values around every value; 1 for missing values."""
    # nan differs from itself.
    run = np.cumsum(np.append(True, values[1:] != values[:-1])) - 1
    return np.asarray(np.bincount(run)[run].astype(float))


def even_times(times: Sequence[Array]) -> tuple[list[Array], float] | None:
    """Move times to an even grid, if rounding explains their deviations, and return its step; else None."""
    longest = max(times, key=len)
    # Fewer times do not determine a step.
    if len(longest) < 8:
        return None
    pooled = np.concatenate(list(times))
    step, digit = float(longest[-1] - longest[0]) / (len(longest) - 1), rounding_step(pooled)
    if not (digit > 0.0).all() or step < 10.0 * digit.max():
        return None
    anchored = (float(longest[0]), step)
    place = np.round((pooled - longest[0]) / step)

    def off(first: float, step: float) -> Array:
        """Deviations of the times from a grid, in units of the last digit."""
        return np.asarray(np.abs(pooled - first - step * place) / digit)

    nearest = _nearest_grid(place, pooled, digit)
    already = off(*anchored) * digit <= SAME_DIGIT * np.abs(pooled).max()
    # A deviation of a full half does not come from rounding.
    if already.all() or off(*nearest).max() > 0.499:
        return None
    # The first and the last time are usually exact, so prefer their grid; the margin allows for float errors.
    first, step = anchored if off(*anchored).max() <= 0.5001 else nearest
    ends = np.cumsum([len(t) for t in times])[:-1]
    return np.split(first + step * place, ends), step


def _nearest_grid(place: Array, times: Array, digit: Array) -> tuple[float, float]:
    """First time and step of the grid with the least maximum error in units of the last digit."""
    some = np.unique(np.linspace(0, len(times) - 1, min(len(times), 2000)).astype(int))
    rows = np.column_stack([np.ones(len(some)), place[some]]) / digit[some, None]
    y, one = times[some] / digit[some], np.ones((len(some), 1))
    found = linprog(
        [0.0, 0.0, 1.0],
        A_ub=np.vstack([np.hstack([rows, -one]), np.hstack([-rows, -one])]),
        b_ub=np.concatenate([y, -y]),
        bounds=[(None, None), (None, None), (0.0, None)],
    )
    # An infinite start leaves the times unchanged.
    return (float(found.x[0]), float(found.x[1])) if found.success else (float("inf"), 0.0)
