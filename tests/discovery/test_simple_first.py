"""Textbook laws beside what a search finds: names, fronts, what users ask for, and time."""

import numpy as np
import pytest

from odediscovery.data.series import TimeSeries
from odediscovery.discovery.discover import discover
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.result.discovery import Discovery
from odediscovery.result.shown import headline
from odediscovery.settings import settings_for


def made(sides, start, until, samples=40, noise=0.01):
    t = np.linspace(0.0, until, samples)
    x = Equations.parse(list(sides), sides).simulate(start, t)
    x = x + noise * np.std(x, axis=0) * np.random.default_rng(0).standard_normal(x.shape)
    return TimeSeries.from_arrays(t, x, list(sides))


def simple(**options):
    return settings_for(members=0, library=("textbook",), **options)


@pytest.fixture(scope="module")
def tank():
    return discover(made({"h": "-0.5*(h - 4)**0.5"}, [20.0], 12.0), simple())


@pytest.mark.slow
def test_a_tank_with_its_outlet_above_the_zero(tank):
    assert tank.name == "outflow through an opening above the zero (Torricelli)"
    offset, error = tank.named.values[tank.named.names.index("x0")], tank.named.errors[tank.named.names.index("x0")]
    assert abs(offset - 4.0) < 3.0 * error < 1.0
    assert any(message.startswith("comes to rest at h = ") for message in tank.messages)
    assert headline(tank).startswith("law found")
    # The criterion of a form is on the scale of the other rows.
    chosen = next(row for row in tank.front if row.selected)
    assert chosen.criterion < min(row.criterion for row in tank.front) + 4.0


@pytest.mark.slow
def test_names_are_kept(tank, tmp_path):
    tank.save(tmp_path / "r")
    back = Discovery.load(tmp_path / "r")
    assert back.name == tank.name == back.as_dict()["name"]
    assert [row.name for row in back.front] == [row.name for row in tank.front]


@pytest.mark.slow
def test_a_law_that_was_tried_is_ranked_and_told():
    series = made({"N": "0.5*N*(1 - N/80)"}, [2.0], 20.0)
    found = discover(series, simple(tries=("N' = a*N*(1 - N/K)^b",), template=("gompertz",)))
    told = [message for message in found.messages if message.startswith("tried ")]
    assert len(told) == 2 and "N' = a*N*(1 - N/K)^b with a = 0.49" in " ".join(told)
    assert found.name == "logistic growth"


def test_what_cannot_be_tried():
    series = made({"T": "0.2*(20 - T)"}, [90.0], 15.0)
    with pytest.raises(InputError, match="'chain' is of 2 states"):
        discover(series, simple(template=("chain",)))
    with pytest.raises(InputError, match="equation of 'T' is missing"):
        discover(series, simple(tries=("",)))
    with pytest.raises(InputError, match="--recipe default"):
        settings_for("paper", sources=False)


@pytest.mark.slow
def test_noise_alone_ends_with_the_simplest_law():
    t = np.arange(40.0)
    noise = TimeSeries.from_arrays(t, 3 + np.random.default_rng(0).normal(size=(40, 1)), ["x"])
    found = discover(noise, settings_for(library=["textbook"]))
    assert found.outcome == "poor-fit"
    assert found.front[0].name == "a constant rate"
