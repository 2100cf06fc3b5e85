"""What the reader should know of many groups: who does not follow the law, what is unsure, where they come to rest."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.laws.printing import constant
from odediscovery.population.model.measured import SCALED
from odediscovery.population.model.mixed import MixedFit
from odediscovery.population.resting import resting_point
from odediscovery.population.strangers import STRANGERS, odd_groups
from odediscovery.result.population import Population
from odediscovery.runtime.arrays import ABOVE_ZERO, Mask
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class NoteThresholds(Thresholds):
    """When residuals are said to follow each other."""

    followed: float = threshold(
        0.3, "autocorrelation of neighbours that is told", origin="errors are larger by a third: (1 + r) / (1 - r)"
    )
    apart: float = threshold(1e-2, "least distance from 1 with which such an autocorrelation counts")
    far: float = threshold(
        50.0,
        "a group with values so many times as large or small may be in another unit",
        origin="units differ by more",
    )
    usual: float = threshold(20.0, "if those of the others differ by no more", origin="one size")
    most_correlated: float = threshold(0.9999, "largest correlation", origin="that of 1 is infinitely far from none")
    surely: float = threshold(4.0, "and how far it is from none", unit="1 / root of the pairs", origin="beyond chance")


NOTES = NoteThresholds()


def notes(fit: MixedFit, series: TimeSeries, population: Population, exponents: Sequence[object] = ()) -> list[str]:
    """What the reader should know of the groups, one sentence each.

    Args:
        exponents: names of the fitted ones, where they have names.
    """
    told, m = [], fit.model.measured
    for i, start in enumerate(m.starts):
        if start.kind == SCALED and not m.seen[:, i].any():
            row = fit.model.n_constants + fit.model.n_free + m.open_starts.index(i)
            factor, sd = float(np.exp(fit.estimate.beta[row])), float(fit.estimate.deviations[row])
            dosed = i in dict(m.dosed)
            what = "starts at" if start.value.any() else "is given"
            of = "every dose" if dosed and not start.value.any() else "what is known of it" + ", and of doses" * dosed
            told.append(
                f"{series.states[i]} was not measured: it is in units of the state that it flows into and {what} "
                f"{factor:.4g} times {of} (sd_log {sd:.2g} over groups)"
            )
    if m.logarithmic.any():
        names = ", ".join(series.states[i] for i in np.flatnonzero(m.logarithmic))
        told.append(f"the noise of {names} grows with its size: logarithms were compared, residual_sd is theirs")
    rest = None if m.dosed else resting_point(fit)
    told += [rest.sentence(series.states[0])] if rest else []
    told += [*_own_exponents(fit, exponents), *_together(population)]
    return [*told, *_followed(fit, series), *_odd_groups(fit)]


def _followed(fit: MixedFit, series: TimeSeries) -> list[str]:
    """States whose residuals follow each other, r = sum e_t e_(t+1) / sum e_t^2 over all groups."""
    told, seen = [], fit.model.seen
    left = fit.model.curves(fit.unknowns, slopes=False).residual
    for i, state in enumerate(series.states):
        both = seen[1:, i] & seen[:-1, i]
        squares = float(np.sum(left[:, i] ** 2))
        r = float(np.sum((left[1:, i] * left[:-1, i])[both])) / max(squares, ABOVE_ZERO)
        larger = np.sqrt((1 + r) / max(1 - r, NOTES.apart))
        if r > NOTES.followed and r * np.sqrt(both.sum()) > NOTES.surely:
            told.append(
                f"residuals of {state} follow each other (autocorrelation {r:.2f}): the law lacks something, its terms "
                f"are less sure than they look, and errors are about {larger:.1f} times "
                "as large as said"
            )
    return told


def strange_groups(series: TimeSeries, strange: Mask) -> list[str]:
    """Groups that are left out, and groups whose values are far larger or smaller than those of the others."""
    labels = [run.label for run in series.trajectories]
    out = [repr(labels[g]) for g in np.flatnonzero(strange)]
    which = f"group {out[0]} follows" if len(out) == 1 else f"groups {', '.join(out[:5])} follow"
    rest = len(labels) - len(out)
    told = [f"{which} another law: left out, the law is that of the other {rest}; fit them alone"] if out else []
    for i, state in enumerate(series.states):
        sizes = [np.nanmax(np.abs(run.values[:, i]), initial=0.0) for run in series.trajectories]
        if not np.median(sizes):
            continue  # absent in most groups
        ratio = np.array(sizes) / float(np.median(sizes))
        far = np.flatnonzero((ratio > NOTES.far) | ((ratio < 1.0 / NOTES.far) & (ratio > 0.0)))
        usual = np.delete(ratio, far)
        if len(far) and len(far) <= STRANGERS.share * len(ratio) and usual.max() < NOTES.usual * usual[usual > 0].min():
            names = ", ".join(repr(labels[g]) for g in far[:5])
            told.append(
                f"{state} of group {names} is about {ratio[far[0]]:.2g} times that of the others: another unit?"
            )
    return told


def _odd_groups(fit: MixedFit) -> list[str]:
    """Groups that the law follows much worse than the others."""
    m = fit.model.measured
    count, odd = m.seen.sum(axis=(0, 1)), [m.labels[g] for g in np.flatnonzero(odd_groups(fit))]
    told = [
        f"group {name} does not follow the law as the others do: its residuals are over three times as large"
        for name in odd[:5]
    ]
    few = [m.labels[g] for g in np.flatnonzero(count <= fit.model.n_constants)]
    if few:
        told.append(
            f"{len(few)} groups have no more samples than the law has constants ({', '.join(few[:5])}): "
            "their own constants lean on those of the others"
        )
    return told


def _own_exponents(fit: MixedFit, names: Sequence[object]) -> list[str]:
    """Fitted exponents that have names, with their errors."""
    k, errors = fit.model.n_constants, np.sqrt(np.maximum(np.diag(fit.estimate.covariance), 0.0))
    values = zip(names, fit.estimate.beta[k:], errors[k:], fit.estimate.deviations[k:], strict=False)
    return [
        f"the exponent {name} = {constant(float(value), float(error))} is one for all groups"
        for name, value, error, spread in values
        if not spread
    ]


def _together(population: Population) -> list[str]:
    """Constants that go together over groups, beyond chance."""
    if population.correlation is None:
        return []
    names = [one.name for one in population.constants if one.varies]
    groups = len(population.labels)
    most = NOTES.most_correlated
    # Fisher's transformation: its error is one over the root of the number of groups less 3.
    far = np.arctanh(np.clip(population.correlation, -most, most)) * max(groups - 3, 0) ** 0.5
    told = [
        f"{names[a]} and {names[b]} {population.correlation[a, b]:.2f}"
        for a, b in itertools.combinations(range(len(names)), 2)
        if abs(far[a, b]) > NOTES.surely
    ]
    pairs = ", ".join(told)
    return [f"constants that go together over groups (correlation of their logarithms): {pairs}"] if told else []
