"""Rows whose times restart or repeat: trials one below the other, and samples taken more than once at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.runtime.arrays import Array
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class RowThresholds(Thresholds):
    """When times that go back begin a new trajectory, and repeats tell the noise."""

    least_rows: int = threshold(
        3, "rows of every trajectory that a restart ends or begins", origin="fewer are as likely a slip"
    )
    back: float = threshold(
        0.5, "a restart goes back to before this share of the time that it ends", origin="a swapped row does not"
    )
    degrees: int = threshold(
        6,
        "repeats beyond the first of their time from which on they tell the noise",
        origin="a standard deviation of six is known within a third",
    )
    samples: int = threshold(2, "samples with a value of a trajectory", origin="one alone shows no change")
    named: int = threshold(5, "trajectories left out that a message names", origin="a line of text")


ROWS = RowThresholds()


def restarts(times: Array) -> list[int]:
    """Rows at which a new trajectory begins, the first one included; only the first where times just go back.

    >>> restarts(np.array([0.0, 1.0, 2.0, 0.0, 1.0, 2.0])), restarts(np.array([0.0, 1.0, 3.0, 2.0, 4.0, 5.0]))
    ([0, 3], [0])
    """
    begins = [0, *(np.flatnonzero(np.diff(times) < 0.0) + 1).tolist()]
    ends = [*begins[1:], len(times)]
    if min(end - begin for begin, end in zip(begins, ends, strict=True)) < ROWS.least_rows:
        return [0]
    for before, begin in itertools.pairwise(begins):
        first, last = times[before], times[begin - 1]
        if not times[begin] <= first + ROWS.back * (last - first):
            return [0]
    return begins


def trials(times: Array) -> dict[str, list[int]]:
    """Rows of every trajectory of a table without a group column, by labels 1, 2, ...; one without a label."""
    begins = restarts(times)
    ends = [*begins[1:], len(times)]
    labels = [""] if len(begins) == 1 else [str(k + 1) for k in range(len(begins))]
    return {label: list(range(a, b)) for label, a, b in zip(labels, begins, ends, strict=True)}


def restarted(runs: Mapping[str, list[int]], lines: Sequence[int], time_name: str) -> list[str]:
    """What the reader should know of a table that was read as several trajectories."""
    if len(runs) < 2:
        return []
    where = ", ".join(str(lines[rows[0]]) for rows in list(runs.values())[1:6]) + ", ..." * (len(runs) > 6)
    return [
        f"The time {time_name!r} restarts at line {where}: each restart begins a new trajectory, {len(runs)} in all; "
        "they are fitted side by side, never joined. A column that tells them apart can be named with --group."
    ]


@dataclass(frozen=True, eq=False)
class Merged:
    """Samples of one trajectory, of which those at one time are one.

    Args:
        rows: of the table, the first of each time [n].
        time: without repeats [n].
        values: means [n, states], nan where nothing was measured.
        sigma: standard deviations of the means [n, states], nan where unknown.
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
    samples = [int(np.isfinite(one.values).any(axis=1).sum()) for one in merged]
    short = [repr(label) for (label, _), count in zip(pairs, samples, strict=True) if count < ROWS.samples]
    if not short or len(short) == len(pairs):
        return pairs, []
    kept = [pair for pair, count in zip(pairs, samples, strict=True) if count >= ROWS.samples]
    return kept, [f"{which_have(short)} fewer than {ROWS.samples} samples with a value; left out of {len(pairs)}."]


def which_have(named: Sequence[str]) -> str:
    """How a sentence of some trajectories begins, the first of them by name.

    >>> which_have(["'a'"]), which_have(["'a'", "'b'"])
    ("Trajectory 'a' has", "Trajectories 'a', 'b' have")
    """
    if len(named) == 1:
        return f"Trajectory {named[0]} has"
    more = f" and {len(named) - ROWS.named} more" if named[ROWS.named :] else ""
    return f"Trajectories {', '.join(named[: ROWS.named])}{more} have"


def without_repeats(
    runs: Sequence[list[int]], times: Array, values: Array, sigma: Array, names: Sequence[str]
) -> tuple[list[Merged], list[str]]:
    """Trajectories with the mean of the samples at each time, and what the reader should know of it.

        sigma of a mean = s / sqrt(n),  or  sqrt(sum sigma_k^2) / n  where sigma is known

    s is how far repeats lie off their mean, absolute or as a share of it, whichever makes them likelier.
    """
    if not any((np.diff(times[rows]) == 0.0).any() for rows in runs):
        return [Merged(rows, times[rows], values[rows], sigma[rows]) for rows in runs], []
    blocks = [_blocks(rows, times) for rows in runs]
    count = sum(len(block) > 1 for one in blocks for block in one)
    noise = repeat_noise([values[block] for one in blocks for block in one])
    merged = [_merged(one, times, values, sigma, noise) for one in blocks]
    known = [
        f"{name} {abs(s):.2g}" if s > 0 else f"{name} {abs(100 * s):.2g} %"
        for name, s in zip(names, noise, strict=True)
        if np.isfinite(s)
    ]
    told = f"; how far they lie apart tells the noise of one sample: {', '.join(known)}" if known else ""
    total = sum(map(len, blocks))
    return merged, [
        f"{count} of {total} times were measured more than once: their means are fitted{told}. If the samples are of "
        "different trajectories, name the column that tells them apart with --group."
    ]


def _blocks(rows: list[int], times: Array) -> list[list[int]]:
    """Rows of each time of a trajectory."""
    found: list[list[int]] = []
    for k in rows:
        if found and times[found[-1][0]] == times[k]:
            found[-1].append(k)
        else:
            found.append([k])
    return found


def _merged(blocks: Sequence[list[int]], times: Array, values: Array, sigma: Array, noise: Array) -> Merged:
    means, errors = (np.full((len(blocks), values.shape[1]), np.nan) for _ in range(2))
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

    The one under which the repeats are likelier; nan where there are fewer than `ROWS.degrees` of them.

    Args:
        blocks: samples at one time [rows, states].
    """
    found = []
    for i in range(blocks[0].shape[1]):
        rows = []
        for block in blocks:
            x = block[np.isfinite(block[:, i]), i]
            if len(x) > 1:
                rows.append((float(np.sum((x - x.mean()) ** 2)), len(x) - 1, float(x.mean())))
        found.append(_spread(rows))
    return np.array(found)


def _spread(rows: Sequence[tuple[float, int, float]]) -> float:
    """The likelier of s and -c for noise s, or c times the mean."""
    degrees = sum(n for _, n, _ in rows)
    absolute = sum(ss for ss, _, _ in rows) / max(degrees, 1)
    if degrees < ROWS.degrees or absolute <= 0.0:
        return float("nan")
    if any(mean <= 0.0 for _, _, mean in rows):
        return float(np.sqrt(absolute))
    relative = sum(ss / mean**2 for ss, _, mean in rows) / degrees
    shift = 2.0 * sum(n * np.log(mean) for _, n, mean in rows)
    grows = degrees * np.log(relative) + shift < degrees * np.log(absolute)
    return float(-np.sqrt(relative) if grows else np.sqrt(absolute))
