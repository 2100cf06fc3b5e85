"""Constants of chaos become better on longer pieces."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from problems import PREY, STARTS, series_of

from odediscovery.laws.estimates import Covariance
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.systems import get_system, simulate_system
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import Problem
from odediscovery.stages.polish.polish import polish
from odediscovery.stages.polish.shooting import join_pieces
from odediscovery.stages.values import Polished


def refit(p: Problem, found: Polished) -> Polished:
    return polish(
        found.law,
        p.data,
        found.initial,
        np.maximum(p.noise, p.floor),
        floor=p.floor,
        nonnegative=p.nonnegative,
        free=found.free,
        relative_sigma=p.relative_sigma,
    )


def on_pieces(whole: Problem, law: PowerSum, length: int) -> tuple[Problem, Polished]:
    pieces = whole.pieces(length)
    scaled = law.rescaled(whole.scale.state, whole.scale.time)
    start = Polished(
        scaled,
        scaled,
        pieces.initial,
        Covariance.nothing_known(0),
        tuple(c != 0 for c in scaled.constants),
        np.ones(1),
        np.ones(1),
        True,
        np.ones(1),
    )
    start = dataclasses.replace(
        start, free=(scaled.coefficients != 0, *(np.zeros_like(c, dtype=bool) for c in scaled.constants[1:]))
    )
    return pieces, refit(pieces, start)


@pytest.fixture(scope="module")
def lorenz() -> tuple[Problem, Problem, Polished]:
    law = get_system("lorenz").equations().power_sum
    assert law is not None
    whole = prepare(simulate_system("lorenz", samples=300, until=12.0, noise=0.02, seed=3))
    return whole, *on_pieces(whole, law, 20)


@pytest.mark.slow
def test_longer_pieces_tell_constants_better(lorenz: tuple[Problem, Problem, Polished]) -> None:
    whole, pieces, found = lorenz
    longest = join_pieces(whole, pieces, found, refit)
    assert len(longest.initial) < len(found.initial) / 4
    free = found.free[0]
    ratio = longest.errors.coefficients[free] / found.errors.coefficients[free]
    assert np.median(ratio) < 0.7
    # And they are right within what they claim.
    truth = get_system("lorenz").equations().power_sum
    assert truth is not None
    scaled = truth.rescaled(whole.scale.state, whole.scale.time)
    off = (longest.law.coefficients - scaled.coefficients)[free]
    assert np.abs(off / longest.errors.coefficients[free]).max() < 4.0


@pytest.mark.slow
def test_another_law_is_not_forced_onto_longer_pieces(lorenz: tuple[Problem, Problem, Polished]) -> None:
    whole, _, found = lorenz
    wrong = dataclasses.replace(found.law, coefficients=found.law.coefficients * 1.3)
    law = wrong.unscaled(whole.scale.state, whole.scale.time)
    pieces, start = on_pieces(whole, law, 3)
    held = dataclasses.replace(start, free=tuple(np.zeros_like(f) for f in start.free), law=wrong)
    assert join_pieces(whole, pieces, held, refit) is held


@pytest.mark.slow
def test_trajectories_are_never_joined_with_each_other() -> None:
    series = series_of(PREY, STARTS, [np.linspace(0.0, 20.0, 41)] * 2, noise=0.02)
    whole = prepare(series)
    pieces, found = on_pieces(whole, PREY, 10)
    longest = join_pieces(whole, pieces, found, refit)
    assert len(pieces.data.trajectories) == 8 and longest.initial.shape == (2, 2)
