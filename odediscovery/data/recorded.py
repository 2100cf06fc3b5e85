"""How samples were recorded, if they are more than values with noise, and the formulas of computed columns.

    O(x)_j = max(x_j, L_j)             for a value that is known to lie below L_j
    O(x)_j = x_j - x_(j-1)             for a cumulative count, whose increments have independent noise

The residuals of a law are O(curve) - O(data). Formulas of computed columns are parsed by a grammar, never executed as
code. Rows with restarting times are successive trials, and rows at the same time are repeats of one value.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from odediscovery.errors import InputError, unknown_name
from odediscovery.runtime.arrays import Array, Mask


def spread_columns(values: NDArray[Any], places: Sequence[int], n: int, fill: float = np.nan) -> NDArray[Any]:
    """Spread values [..., k] over n columns, with `fill` in the others."""
    wide = np.full((*values.shape[:-1], n), fill, dtype=np.result_type(values, type(fill)))
    wide[..., list(places)] = values
    return wide


@dataclass(frozen=True, eq=False)
class Recorded:
    """How the samples of one trajectory were recorded, if they are more than values with noise."""

    start: Array  # known first values [states], nan where unknown
    limit: Array  # detection limits of censored values [samples, states], nan elsewhere
    seen: Mask  # which values exist [samples, states]
    counted: Mask  # which states are cumulative counts [states]
    given: Array | None = None  # cumulative doses up to each sample [samples, states]; None without doses

    @property
    def censored(self) -> Mask:
        """Which values lie below a limit [samples, states]."""
        return np.isfinite(self.limit)

    def part(self, samples: Any) -> Recorded:
        """Select samples; the start remains known only if the first sample is among them."""
        first = np.arange(len(self.seen))[samples][:1]
        start = self.start if len(first) and first[0] == 0 else np.full_like(self.start, np.nan)
        given = None if self.given is None else self.given[samples]
        return Recorded(start, self.limit[samples], self.seen[samples], self.counted, given)

    def scaled(self, size: Array) -> Recorded:
        """Rescale to x' = x / size [states]."""
        given = None if self.given is None else self.given / size
        return Recorded(self.start / size, self.limit / size, self.seen, self.counted, given)

    def by_column(self, change: Callable[[NDArray[Any], float], NDArray[Any]]) -> Recorded:
        """Apply a change of columns to every array, given its neutral value."""
        start, limit = change(self.start, np.nan), change(self.limit, np.nan)
        given = None if self.given is None else change(self.given, 0.0)
        return Recorded(start, limit, change(self.seen, False), change(self.counted, False), given)

    def observed(self, x: Array) -> Array:
        """Compute O(x) of curves or data [samples, states, ...]."""
        if self.censored.any():
            limit = self.limit.reshape(*self.limit.shape, *[1] * (x.ndim - 2))
            x = np.where(np.isfinite(limit), np.fmax(x, limit), x)
        return self._increments(x)

    def linearised(self, slopes: Array, x: Array) -> Array:
        """Derivatives of O(x) [samples, states, unknowns] from those of x along a curve [samples, states]."""
        return self._increments(np.where((self.censored & ~(x > self.limit))[..., None], 0.0, slopes))

    def _increments(self, x: Array) -> Array:
        found = x.copy() if self.counted.any() else x
        for i, rows in self._counts():
            found[rows[1:], i] = x[rows[1:], i] - x[rows[:-1], i]
        return found

    def summed(self, left: Array) -> Array:
        """Curve - data [samples, states] from residuals of the increments."""
        found = left.copy() if self.counted.any() else left
        for i, rows in self._counts():
            found[rows, i] = np.cumsum(left[rows, i])
        return found

    def _counts(self) -> list[tuple[int, Any]]:
        """Cumulative counts and the rows of their samples."""
        return [(int(i), np.flatnonzero(self.seen[:, i])) for i in np.flatnonzero(self.counted)]

    def filled(self, values: Array) -> Array:
        """Values for smoothing: half the limit for censored values, doses subtracted."""
        filled: Array = np.where(self.censored, 0.5 * np.nan_to_num(self.limit), values)
        return filled if self.given is None else filled - self.given


_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
EXAMPLE = 'write --column "R=recovered+deaths"'


def split_name(text: str) -> tuple[str, str]:
    """Split a computed column into its name and its formula."""
    name, formula = _sides(text)
    if not name or not formula:
        raise InputError(f"--column expects NAME=SUM OF COLUMNS, got {text!r}; {EXAMPLE}")
    return name, formula


_OPERATIONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": lambda left, right: np.where(right == 0.0, np.inf, left / right),
}


class Arithmetic:
    """Parser of arithmetic with the columns of a table, whose names are used unquoted.

    sum     := product (("+" | "-") product)*
    product := factor (("*" | "/") factor)*
    factor  := ("+" | "-") factor | "(" sum ")" | number | name of a column
    """

    def __init__(self, text: str, columns: Sequence[str], numbers: Callable[[str], Array]) -> None:
        if len(text) > 1000:
            raise InputError(f"--column: expected at most 1000 characters, got {len(text)}")
        self.text, self.columns, self.numbers = text, list(columns), numbers
        # The longest first: a column may be named "a-b".
        names = "|".join(re.escape(name) for name in sorted(columns, key=len, reverse=True))
        self._names = re.compile(rf"({names})(?!\w)") if names else None
        self.at, self.depth = 0, 0
        self.used: list[str] = []

    def value(self) -> Array:
        """Compute the new column [rows], nan where an operand has no value, infinite after division by 0."""
        found = self._sum()
        if self._peek():
            raise self._error("expected +, -, * or /")
        if not self.used:
            raise InputError(f"--column: {self.text!r} names no column; expected a sum of columns, {EXAMPLE}")
        return np.asarray(found, dtype=np.float64)

    def _error(self, reason: str) -> InputError:
        return InputError(f"--column: cannot read {self.text!r} at character {self.at + 1}: {reason}; {EXAMPLE}")

    def _peek(self) -> str:
        """Return the next character that is not blank; "" at the end."""
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def _taken(self, signs: str) -> str:
        """Consume and return the next character if it is one of these, else return ""."""
        found = self._peek()
        if not found or found not in signs:
            return ""
        self.at += 1
        return found

    def _sum(self, level: int = 0) -> Array:
        """Parse a sum (level 0) or a product."""
        below: Callable[[], Array] = self._factor if level else partial(self._sum, 1)
        found = below()
        while sign := self._taken("*/" if level else "+-"):
            with np.errstate(divide="ignore", invalid="ignore"):
                found = _OPERATIONS[sign](found, below())
        return found

    def _factor(self) -> Array:
        self.depth += 1
        if self.depth > 50:
            raise self._error("too many signs and brackets within each other")
        if sign := self._taken("+-"):
            found = self._factor() * (-1.0 if sign == "-" else 1.0)
        elif self._taken("("):
            found = self._sum()
            if not self._taken(")"):
                raise self._error("expected )")
        else:
            found = self._atom()
        self.depth -= 1
        return found

    def _atom(self) -> Array:
        if self._names and (named := self._names.match(self.text, self.at)):
            self.at = named.end()
            if named[1] not in self.used:
                self.used.append(named[1])
            return self.numbers(named[1])
        if number := _NUMBER.match(self.text, self.at):
            self.at = number.end()
            return np.asarray(float(number[0]))
        if word := re.compile(r"[^\W\d]\w*").match(self.text, self.at):
            raise InputError(f"--column: {unknown_name('column', word[0], self.columns)}")
        raise self._error("expected a column or a number")


# Keywords for a start equal to its sample, and for breaks to be found.
OF_SAMPLE, FOUND = "measured", "found"


def known_start(text: str) -> tuple[str, str | float]:
    """Parse state and start of "conc = 0", "gut = dose" (a column) or "gut = measured"."""
    state, value = _sides(text)
    if not state or not value:
        raise InputError(f"--starts expects STATE = NUMBER, COLUMN or {OF_SAMPLE}, got {text!r}")
    number = _number(value)
    return state, value if number is None else number


def detection_limit(text: str) -> tuple[str, float]:
    """Parse state and detection limit of "virus = 50"."""
    state, value = _sides(text)
    limit = _number(value)
    if not state or limit is None or not limit > 0.0:
        raise InputError(f'--censored expects STATE = LIMIT above 0, such as "virus = 50", got {text!r}')
    return state, limit


def dose_column(text: str) -> tuple[str, str]:
    """Parse state and column of "gut = dose" or "conc = f*dose"."""
    state, amount = _sides(text)
    factor, times, column = (part.strip() for part in amount.rpartition("*"))
    if not state or not column or (times and not factor.isidentifier()):
        raise InputError(
            f'--doses expects STATE = COLUMN of amounts, such as "gut = dose", or with a factor that is fitted, '
            f'"conc = f*dose", got {text!r}'
        )
    return state, column


def dose_factor(text: str) -> str:
    """Parse the factor f of "conc = f*dose", which converts amounts to the unit of the state; "" without one."""
    return _sides(text)[1].rpartition("*")[0].strip()


def break_times(text: str, time_name: str) -> list[float]:
    """Parse the times in "t = 23, 41", in increasing order."""
    name, rest = _sides(text)
    times = [_number(part) for part in rest.split(",")]
    if name != time_name or None in times:
        raise InputError(f'--breaks expects times, such as "{time_name}=23,41", or "{FOUND}", got {text!r}')
    return sorted({time for time in times if time is not None})


def _sides(text: str) -> tuple[str, str]:
    """Split a text at its first equals sign; the right side is "" without one."""
    left, _, right = text.partition("=")
    return left.strip(), right.strip()


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


# Largest number of trajectories that a message names.
NAMED = 5


def restarts(times: Array) -> list[int]:
    """Rows at which a trajectory begins, including the first; only the first if decreasing times are not restarts."""
    begins = [0, *(np.flatnonzero(np.diff(times) < 0.0) + 1).tolist()]
    # Fewer than three rows are as likely an error in the times.
    long = min(np.diff([*begins, len(times)])) >= 3
    # A restart goes back beyond the middle of the preceding trajectory, a swapped row does not.
    back = (
        times[begin] <= times[before] + 0.5 * (times[begin - 1] - times[before])
        for before, begin in itertools.pairwise(begins)
    )
    return begins if long and all(back) else [0]


def trials(times: Array) -> dict[str, list[int]]:
    """Rows of every trajectory of a table without a group column, by labels 1, 2, ...; "" for a single one."""
    ends = itertools.pairwise([*restarts(times), len(times)])
    runs = {str(k): list(range(a, b)) for k, (a, b) in enumerate(ends, start=1)}
    return runs if len(runs) > 1 else {"": runs["1"]}


def restarted(runs: Mapping[str, list[int]], lines: Sequence[int], time_name: str) -> list[str]:
    """Message about a table that was split into several trajectories."""
    if len(runs) < 2:
        return []
    where = ", ".join(str(lines[rows[0]]) for rows in list(runs.values())[1:6]) + ", ..." * (len(runs) > 6)
    return [
        f"The time {time_name!r} restarts at line {where}: each restart begins a new trajectory, {len(runs)} in all; "
        "they are fitted side by side, never joined. A column that tells them apart can be named with --group."
    ]


class Merged(NamedTuple):
    """Samples of one trajectory, with repeats averaged."""

    rows: list[int]  # first row in the table at each time [n]
    time: Array  # without repeats [n]
    values: Array  # means [n, states]
    sigma: Array  # their standard deviations [n, states], nan where unknown


def long_enough(labels: Iterable[str], merged: Sequence[Merged]) -> tuple[list[tuple[str, Merged]], list[str]]:
    """Discard trajectories with fewer than two samples, with a message; keep all if none is long enough."""
    pairs = list(zip(labels, merged, strict=True))
    is_long = [np.isfinite(one.values).any(axis=1).sum() >= 2 for _, one in pairs]
    if all(is_long) or not any(is_long):
        return pairs, []
    short = which_have([repr(label) for (label, _), long in zip(pairs, is_long, strict=True) if not long])
    kept = [pair for pair, long in zip(pairs, is_long, strict=True) if long]
    return kept, [f"{short} fewer than 2 samples with a value; left out of {len(pairs)}."]


def which_have(named: Sequence[str]) -> str:
    """Begin a sentence about some trajectories, naming the first of them."""
    if len(named) == 1:
        return f"Trajectory {named[0]} has"
    more = f" and {len(named) - NAMED} more" if named[NAMED:] else ""
    return f"Trajectories {', '.join(named[:NAMED])}{more} have"


def without_repeats(
    runs: Sequence[list[int]], times: Array, values: Array, sigma: Array, names: Sequence[str]
) -> tuple[list[Merged], list[str]]:
    """Average the samples of each trajectory at the same time, with messages.

        sigma of a mean = s / sqrt(n),  or  sqrt(sum sigma_k^2) / n  where sigma is known

    s is the standard deviation of repeats, absolute or relative to their mean, whichever is likelier.
    """
    blocks = _rows_of_times(runs, times)
    if not blocks:
        return [Merged(rows, times[rows], values[rows], sigma[rows]) for rows in runs], []
    every = [block for one in blocks for block in one]
    noise = repeat_noise([values[block] for block in every])
    merged = [_merged(one, times, values, sigma, noise) for one in blocks]
    known = [
        f"{name} {abs(s):.2g}" if s > 0 else f"{name} {abs(100 * s):.2g} %"
        for name, s in zip(names, noise, strict=True)
        if np.isfinite(s)
    ]
    told = f"; how far they lie apart tells the noise of one sample: {', '.join(known)}" if known else ""
    count = sum(len(block) > 1 for block in every)
    return merged, [
        f"{count} of {len(every)} times were measured more than once: their means are fitted{told}. If the samples are "
        "of different trajectories, name the column that tells them apart with --group."
    ]


def _rows_of_times(runs: Sequence[list[int]], times: Array) -> list[list[list[int]]]:
    """Rows of each time of each trajectory; none at all if no time repeats."""
    if not any((np.diff(times[rows]) == 0.0).any() for rows in runs):
        return []
    return [[list(same) for _, same in itertools.groupby(rows, key=times.__getitem__)] for rows in runs]


def check_repeats(
    runs: Sequence[list[int]],
    times: Array,
    values: Array,
    names: Sequence[str],
    labels: Callable[[], Mapping[str, list[str]]],
) -> None:
    """Refuse rows of one time that differ in a label and, by it, so much in a state that they are no repeats.

    The states of two labels must come in the same order at every common time, three or more, and lie apart by half of
    what is usual for the state.
    """
    blocks = [block for one in _rows_of_times(runs, times) for block in one if len(block) > 1]
    for column, cells in (labels() if blocks else {}).items():
        for state, found in zip(names, values.T, strict=True):
            # Halves of gaps and of what is usual, which do not overflow.
            half, apart = float(np.nanmedian(0.5 * np.abs(found))), dict[tuple[str, str], list[float]]()
            for block in blocks:
                of = {label: [found[k] for k in block if cells[k] == label] for label in {cells[k] for k in block}}
                means = {label: sum(x / len(of[label]) for x in of[label]) for label in sorted(of) if label}
                for one, other in itertools.combinations(means, 2):
                    apart.setdefault((one, other), []).append(0.5 * means[one] - 0.5 * means[other])
            for (one, other), each in apart.items():
                gaps = np.array(each)[np.isfinite(each)]
                ordered = len(gaps) >= 3 and (np.sign(gaps) == np.sign(gaps[0])).all()
                if not ordered or np.median(np.abs(gaps)) <= 0.5 * half:
                    continue
                # What a label alone decides, such as an amount, is no state of its own.
                if any(np.ptp(found[[cell == label for cell in cells]]) != 0.0 for label in (one, other)):
                    raise InputError(
                        f"rows of one time differ in {column!r}, {one!r} and {other!r}, and by it in {state!r}: they "
                        f"are no repeats; give two quantities a column each, or name {column!r} with --group if it "
                        "tells trajectories apart"
                    )


def _merged(blocks: Sequence[list[int]], times: Array, values: Array, sigma: Array, noise: Array) -> Merged:
    means, errors = np.full((2, len(blocks), values.shape[1]), np.nan)
    for k, block in enumerate(blocks):
        seen = np.isfinite(values[block])
        n = seen.sum(axis=0)
        given = np.sqrt((np.where(seen, sigma[block], 0.0) ** 2).sum(axis=0))
        with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 without samples
            means[k] = np.where(n > 0, (np.where(seen, values[block], 0.0) / n).sum(axis=0), np.nan)
            single = np.where(noise > 0.0, noise, np.abs(noise * means[k]))
            single = np.where(single > 0.0, single, np.nan)  # noise in proportion to nothing is unknown
            errors[k] = np.where(np.isfinite(given), given / n, single / np.sqrt(n))
    first = [block[0] for block in blocks]
    return Merged(first, times[first], means, errors)


def repeat_noise(blocks: Sequence[Array]) -> Array:
    """Standard deviation of repeats [rows, states] by state [states]; minus that of repeats / mean if likelier."""
    found = []
    for column in range(blocks[0].shape[1]):
        rows = []
        for block in blocks:
            seen = block[np.isfinite(block[:, column]), column]
            if len(seen) > 1:
                mean = float((seen / len(seen)).sum())
                with np.errstate(over="ignore"):  # an infinite spread is an unknown one
                    rows.append((float(np.sum((seen - mean) ** 2)), len(seen) - 1, mean))
        found.append(_spread(rows))
    return np.array(found)


def _spread(rows: Sequence[tuple[float, int, float]]) -> float:
    """The likelier of s, for noise s, and -c, for noise c times the mean."""
    degrees = sum(n for _, n, _ in rows)
    absolute = sum(ss for ss, _, _ in rows) / max(degrees, 1)
    # Six degrees of freedom determine the noise within a third.
    if degrees < 6 or not 0.0 < absolute < np.inf:
        return float("nan")
    if any(mean <= 0.0 for _, _, mean in rows):
        return float(np.sqrt(absolute))
    shares = [math.sqrt(ss) / mean for ss, _, mean in rows]
    relative = sum(share * share for share in shares) / degrees
    shift = 2.0 * sum(n * np.log(mean) for _, n, mean in rows)
    grows = degrees * np.log(relative) + shift < degrees * np.log(absolute)
    return float(-np.sqrt(relative) if grows else np.sqrt(absolute))
