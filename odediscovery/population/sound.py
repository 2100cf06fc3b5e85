"""Mixed models whose numbers are those of a law; what runs away or fits nothing is none.

Whatever is fitted passes here: a structure with its constants, the same solved with finer steps, and with the
spreads that the criterion wants.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from odediscovery.population.model.measured import GroupModel, Measured
from odediscovery.population.model.mixed import MixedFit, fit_mixed
from odediscovery.population.model.structures import Structure
from odediscovery.population.model.vary import choose_varying, criterion, may_vary
from odediscovery.runtime.arrays import ABOVE_ZERO, Array
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class SoundThresholds(Thresholds):
    """Which numbers are those of a law."""

    rounds: int = threshold(8, "straightenings of the curves for a structure among others", origin="cost")
    most_log: float = threshold(
        80.0, "largest logarithm of a constant", origin="e^80: no unit is as far from any scale"
    )
    largest: float = threshold(6.0, "largest exponent", origin="as elsewhere in the program: more is a step")
    apart: float = threshold(0.05, "exponents of one state no further apart than this make one term, not two")
    honest: float = threshold(
        4.0, "sigma squared may differ from the mean square of the residuals by this factor", unit="ratio"
    )
    exact: float = threshold(1e-6, "residuals below this are none, whatever sigma is", unit="spread of the state")
    refinings: int = threshold(3, "times that the steps are doubled, at most", origin="cost: each is twice the last")
    refined: float = threshold(0.1, "change of -2 log likelihood that is none")


SOUND = SoundThresholds()


def sound_model(measured: Measured, structure: Structure, begin: Array, rounds: int | None = None) -> list[MixedFit]:
    """The model in which all constants vary; none where the numbers do not allow it."""
    model = GroupModel(structure, measured)
    try:
        found = fit_mixed(model, begin, may_vary(model), rounds=SOUND.rounds if rounds is None else rounds)
    except np.linalg.LinAlgError:
        return []
    return [found] if is_sound(found) else []


def is_sound(fit: MixedFit) -> bool:
    """Whether the numbers are those of a law: finite, terms apart, sigma that of the residuals."""
    if not np.isfinite(criterion(fit)):
        return False
    k, structure = fit.model.n_constants, fit.model.structure
    values = fit.unknowns[k : k + fit.model.n_free].mean(axis=1)
    w = structure.with_exponents(values).exponents
    if np.any(w > SOUND.largest) or np.any(w < -SOUND.largest):
        return False
    for one, other in itertools.combinations(structure.entries, 2):
        if one.state == other.state and np.abs(w[one.monomial] - w[other.monomial]).max() < SOUND.apart:
            return False
    counts, sigma = fit.sums.counts, fit.estimate.sigma
    seen = counts > 0
    if np.abs(fit.unknowns[:k]).max() > SOUND.most_log:
        return False
    if np.any(fit.squares[seen] > counts[seen] * fit.model.measured.spread()[seen] ** 2):
        return False
    ratio = sigma[seen] ** 2 * counts[seen] / np.maximum(fit.squares[seen], ABOVE_ZERO)
    tiny = np.sqrt(fit.squares[seen] / counts[seen]) < SOUND.exact * fit.model.measured.spread()[seen]
    return bool(np.all(tiny | ((ratio > 1 / SOUND.honest) & (ratio < SOUND.honest))))


def with_spreads(row: MixedFit) -> MixedFit:
    """The model with the spreads that the criterion wants."""
    try:
        found = choose_varying(row)
    except np.linalg.LinAlgError:
        return row
    return found if is_sound(found) else row


def refined(fit: MixedFit) -> MixedFit:
    """The model solved with twice the steps until that changes nothing."""
    for _ in range(SOUND.refinings):
        measured = fit.model.measured
        finer = replace(measured, data=measured.data.refined())
        model = GroupModel(fit.model.structure, finer)
        try:
            again = fit_mixed(model, fit.unknowns, fit.random, fit.design, fit.estimate.deviations)
        except np.linalg.LinAlgError:
            return fit
        if not is_sound(again):
            return fit
        if abs(again.minus_2_log_likelihood - fit.minus_2_log_likelihood) < SOUND.refined:
            return again
        fit = again
    return fit
