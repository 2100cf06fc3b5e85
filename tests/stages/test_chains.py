"""Rates that several states limit together, as people publish them, found on exact samples."""

import numpy as np
import pytest
from published import RATES, sampled

from odediscovery import Monitor, discover, settings_for
from odediscovery.families.sums import SUMS
from odediscovery.problem.problem import prepare
from odediscovery.stages import chains
from odediscovery.stages.chains import grow_chains


# No equation of the first is easy, so that it is not grown; see test_terms.py.
@pytest.mark.parametrize("name", [name for name in RATES if name != "two substrates"])
def test_published_rates_are_found_on_exact_samples(name):
    law, series = sampled(*RATES[name])
    p = prepare(series).without_noise(None)
    found = grow_chains(p, family=SUMS)[0].unscaled(p.scale.state, p.scale.time)
    x = np.concatenate([t.values for t in series.trajectories])
    rates = law.rhs(x)
    np.testing.assert_allclose(found.rhs(x), rates, atol=1e-4 * np.abs(rates).max())
    # As few terms as were written: one more may be another way to write a quotient.
    assert np.count_nonzero(found.coefficients) <= 1 + sum(
        side.count(" + ") + side.count(" - ") + 1 for side in RATES[name][0].values()
    )


def test_long_series_grow_on_a_part_of_their_intervals_and_are_fitted_to_all():
    law, series = sampled(*RATES["a chain of two enzymes"], samples=400)
    p = prepare(series).without_noise(None)
    found = grow_chains(p, family=SUMS)[0].unscaled(p.scale.state, p.scale.time)
    x = np.concatenate([t.values for t in series.trajectories])
    np.testing.assert_allclose(found.rhs(x), law.rhs(x), atol=1e-9)


def test_samples_too_coarse_to_look_exact_are_found_to_be_exact():
    law, series = sampled(*RATES["Gompertz and his predator"][:2], 40.0, samples=30)
    assert not prepare(series).clean
    found = discover(series, settings_for(members=0), Monitor()).equations
    x = np.concatenate([t.values for t in series.trajectories])
    np.testing.assert_allclose(found.rhs(x), law.rhs(x), rtol=1e-4, atol=1e-5)


def test_if_no_equation_is_easy_none_is_grown():
    _, series = sampled({"x": "-0.4*x**1.3*y**0.6", "y": "0.4*x**1.3*y**0.6 - y**0.7"}, [[2.0, 0.5], [1.0, 1.5]], 8.0)
    assert grow_chains(prepare(series).without_noise(None), family=SUMS) == ()


class Heard:
    """A vocabulary of an equation in which nothing is found."""

    fit, is_beyond_doubt = None, False

    def __init__(self, name, heard):
        self.name, self.heard = name, heard

    def combine(self, _fluxes):
        self.heard.append(self.name)


def test_an_equation_found_before_has_one_vocabulary_and_others_have_all(monkeypatch):
    monkeypatch.setattr(chains, "short_laws", lambda _: [])
    heard, found = [], {}
    growing = [[Heard("a", heard)], [Heard("b", heard), Heard("c", heard)], []]
    chains.FactorByFactor(lambda _: [])._take_easy(found, growing)
    assert (heard, found) == (["a", "b", "c"], {})


def test_regression_ends_with_its_part_of_the_time(monkeypatch):
    _, series = sampled(*RATES["two substrates"])

    def called(*_, **__):
        raise AssertionError("regression went on")

    monkeypatch.setattr(chains, "best_subsets", called)
    monitor = Monitor()
    monitor.spend(60.0)
    with monitor.part(0.0):
        assert not grow_chains(prepare(series).without_noise(None), family=SUMS, monitor=monitor)
