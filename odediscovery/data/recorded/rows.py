"""Rows whose times restart or repeat: trials one below the other, and samples taken more than once at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from odediscovery.runtime.arrays import Array

# When times that go back begin a new trajectory, and repeats tell the noise.
LEAST_ROWS = 3  # rows of every trajectory that a restart ends or begins: fewer are as likely a slip
BACK = 0.5  # a restart goes back to before this share of the time that it ends: a swapped row does not
DEGREES = 6  # repeats beyond the first of their time that tell the noise, within a third
SAMPLES = 2  # samples with a value of a trajectory: one alone shows no change
NAMED = 5  # trajectories left out that a message names: a line of text


def restarts(times: Array) -> list[int]:
    """Rows at which a new trajectory begins, the first one included; only the first where times just go back.

    >>> restarts(np.array([0.0, 1.0, 2.0, 0.0, 1.0, 2.0])), restarts(np.array([0.0, 1.0, 3.0, 2.0, 4.0, 5.0]))
    ([0, 3], [0])
    """
    begins = [0, *(np.flatnonzero(np.diff(times) < 0.0) + 1).tolist()]
    if min(np.diff([*begins, len(times)])) < LEAST_ROWS:
        return [0]
    for before, begin in itertools.pairwise(begins):
        first, last = times[before], times[begin - 1]
        if not times[begin] <= first + BACK * (last - first):
            return [0]
    return begins


def trials(times: Array) -> dict[str, list[int]]:
    """Rows of every trajectory of a table without a group column, by labels 1, 2, ...; one without a label."""
    ends = itertools.pairwise([*restarts(times), len(times)])
    runs = {str(k): list(range(a, b)) for k, (a, b) in enumerate(ends, start=1)}
    return runs if len(runs) > 1 else {"": runs["1"]}


def restarted(runs: Mapping[str, list[int]], lines: Sequence[int], time_name: str) -> list[str]:
    """What the reader should know of a table that was read as several trajectories."""
    if len(runs) < 2:
        return []
    where = ", ".join(str(lines[rows[0]]) for rows in list(runs.values())[1:6]) + ", ..." * (len(runs) > 6)
    return [
        f"The time {time_name!r} restarts at line {where}: each restart begins a new trajectory, {len(runs)} in all; "
        "they are fitted side by side, never joined. A column that tells them apart can be named with --group."
    ]


class Merged(NamedTuple):
    """Samples of one trajectory, of which those at one time are one.

    `rows` are those of the table, the first of each time [n]; the time is without repeats [n], values are means and
    sigma their standard deviations [n, states], nan where unknown.
    """

    rows: list[int]
    time: Array
    values: Array
    sigma: Array


def long_enough(labels: Iterable[str], merged: Sequence[Merged]) -> tuple[list[tuple[str, Merged]], list[str]]:
    """Trajectories that say anything of a law, each with its label, and which ones were left out.

    One with fewer than two samples shows no change. Where no other is left all are kept, to be refused by name.
    """
    pairs = list(zip(labels, merged, strict=True))
    kept = [(label, one) for label, one in pairs if np.isfinite(one.values).any(axis=1).sum() >= SAMPLES]
    if len(kept) in (0, len(pairs)):
        return pairs, []
    long = {label for label, _ in kept}
    short = which_have([repr(label) for label, _ in pairs if label not in long])
    return kept, [f"{short} fewer than {SAMPLES} samples with a value; left out of {len(pairs)}."]


def which_have(named: Sequence[str]) -> str:
    """How a sentence of some trajectories begins, the first of them by name.

    >>> which_have(["'a'"]), which_have(["'a'", "'b'"])
    ("Trajectory 'a' has", "Trajectories 'a', 'b' have")
    """
    if len(named) == 1:
        return f"Trajectory {named[0]} has"
    more = f" and {len(named) - NAMED} more" if named[NAMED:] else ""
    return f"Trajectories {', '.join(named[:NAMED])}{more} have"


def without_repeats(
    runs: Sequence[list[int]], times: Array, values: Array, sigma: Array, names: Sequence[str]
) -> tuple[list[Merged], list[str]]:
    """Trajectories with the mean of the samples at each time, and what the reader should know of it.

        sigma of a mean = s / sqrt(n),  or  sqrt(sum sigma_k^2) / n  where sigma is known

    s is how far repeats lie off their mean, absolute or as a share of it, whichever makes them likelier.
    """
    if not any((np.diff(times[rows]) == 0.0).any() for rows in runs):
        return [Merged(rows, times[rows], values[rows], sigma[rows]) for rows in runs], []
    # Rows of each time of a trajectory.
    blocks = [[list(same) for _, same in itertools.groupby(rows, key=times.__getitem__)] for rows in runs]
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


def _merged(blocks: Sequence[list[int]], times: Array, values: Array, sigma: Array, noise: Array) -> Merged:
    means, errors = np.full((2, len(blocks), values.shape[1]), np.nan)
    for k, block in enumerate(blocks):
        seen = np.isfinite(values[block])
        n = seen.sum(axis=0)
        some = n > 0
        means[k, some] = np.where(seen, values[block], 0.0).sum(axis=0)[some] / n[some]
        given = np.sqrt((np.where(seen, sigma[block], 0.0) ** 2).sum(axis=0))
        single = np.where(noise > 0.0, noise, np.abs(noise * means[k]))
        with np.errstate(invalid="ignore", divide="ignore"):
            errors[k] = np.where(np.isfinite(given), given / n, single / np.sqrt(n))
        errors[k, ~some] = np.nan
    first = [block[0] for block in blocks]
    return Merged(first, times[first], means, errors)


def repeat_noise(blocks: Sequence[Array]) -> Array:
    """How far repeats lie off the mean of their time [states]: absolute, or minus a share of the mean.

    Of samples at one time [rows, states] each. The one under which the repeats are likelier; nan where there are fewer
    than `DEGREES` of them.
    """
    found = []
    for i in range(blocks[0].shape[1]):
        seen = [block[np.isfinite(block[:, i]), i] for block in blocks]
        rows = [(float(np.sum((x - x.mean()) ** 2)), len(x) - 1, float(x.mean())) for x in seen if len(x) > 1]
        found.append(_spread(rows))
    return np.array(found)


def _spread(rows: Sequence[tuple[float, int, float]]) -> float:
    """The likelier of s and -c for noise s, or c times the mean."""
    degrees = sum(n for _, n, _ in rows)
    absolute = sum(ss for ss, _, _ in rows) / max(degrees, 1)
    if degrees < DEGREES or absolute <= 0.0:
        return float("nan")
    if any(mean <= 0.0 for _, _, mean in rows):
        return float(np.sqrt(absolute))
    relative = sum(ss / mean**2 for ss, _, mean in rows) / degrees
    shift = 2.0 * sum(n * np.log(mean) for _, n, mean in rows)
    grows = degrees * np.log(relative) + shift < degrees * np.log(absolute)
    return float(-np.sqrt(relative) if grows else np.sqrt(absolute))
