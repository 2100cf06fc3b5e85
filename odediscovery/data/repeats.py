"""Trajectories within a table: times that restart begin a new one, and samples at one time are averaged."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from odediscovery.errors import InputError
from odediscovery.runtime.arrays import Array

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


def long_enough(labels: Collection[str], merged: Sequence[Merged]) -> tuple[list[tuple[str, Merged]], list[str]]:
    """Discard trajectories with fewer than two samples, with a message; keep all if none is long enough."""
    every = dict(zip(labels, merged, strict=True))
    kept = {label: one for label, one in every.items() if np.isfinite(one.values).any(axis=1).sum() >= 2}
    if not kept or len(kept) == len(every):
        return list(every.items()), []
    short = which_have([repr(label) for label in every if label not in kept])
    return list(kept.items()), [f"{short} fewer than 2 samples with a value; left out of {len(every)}."]


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
