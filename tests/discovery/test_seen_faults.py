"""Faults that were once seen on measured series, and textbook laws beside what a search finds."""

from functools import cache

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from odediscovery import Discovery, Equations, InputError, Monitor, TimeSeries, discover, settings_for
from odediscovery.result.discovery import headline


def made(sides, start, t, noise, seed, **more):
    """A system's course in noise, a share of the spread of each state, with more columns as they are."""
    x = Equations.parse(list(sides), dict(sides)).simulate(start, t)
    x = x + noise * np.std(x, axis=0) * np.random.default_rng(seed).standard_normal(x.shape)
    return TimeSeries.from_arrays(t, np.column_stack([x, *more.values()]), [*sides, *more])


def epidemic():
    """S, I, R, D of an outbreak, and beds that somebody opens and closes: nothing here explains them."""
    t = np.linspace(0.0, 60.0, 61)
    sides = {"S": "-0.0004*S*I", "I": "0.0004*S*I - 0.15*I", "R": "0.13*I", "D": "0.02*I"}
    whole = made(sides, [995.0, 5.0, 0.0, 0.0], t, 0.0, 0, beds=5.0 + 2.0 * np.sign(np.sin(1.3 * t)))
    values = whole.trajectories[0].values
    noise = 0.01 * np.std(values, axis=0) * np.random.default_rng(0).standard_normal(values.shape)
    return TimeSeries.from_arrays(t, values + noise, [*sides, "beds"])


def drug():
    """What is left of a dose that was swallowed: absorbed from a gut that nobody measured."""
    t = np.array([0.0, 0.25, 0.5, 1.0, 2.0, 3.5, 5.0, 7.0, 9.0, 12.0, 24.0])
    series = made({"gut": "-1.5*gut", "conc": "1.5*gut - 0.09*conc"}, [10.0, 0.02], t, 0.02, 4)
    return TimeSeries.from_arrays(t, series.trajectories[0].values[:, 1], ["conc"])


def solved():
    """An epidemic as `solve_ivp` returns it by default: its errors are smooth, and larger than noise looks."""
    law = Equations.parse(["S", "I", "R"], {"S": "-0.03*S*I", "I": "0.03*S*I - 0.01*I", "R": "0.01*I"})
    t = np.linspace(0.0, 897.0, 300)
    x = solve_ivp(lambda _, x: law.rhs(x), (0.0, 897.0), [0.9999, 1e-4, 0.0], t_eval=t).y.T
    return TimeSeries.from_arrays(t, x, ["S", "I", "R"])


CASES = {
    "solved": solved,
    "epidemic": epidemic,
    "drug": drug,
    "cup": lambda: made({"T": "-0.02*(T - 21)**1.25"}, [85.0], np.linspace(0.0, 60.0, 21), 0.006, 1),
    "eight": lambda: made(
        {"N": "0.12*N*(1 - N/120)"}, [8.0], np.array([0.0, 8.0, 15.0, 22.0, 28.0, 36.0, 49.0, 64.0]), 0.03, 7
    ),
}


@cache
def fit(name):
    return discover(CASES[name](), settings_for(), Monitor())


@pytest.mark.long
def test_a_state_of_five_that_nothing_explains_is_refused():
    found = fit("epidemic")
    assert found.r2 > 0.99 and found.outcome == "poor-fit"
    assert found.messages[0].startswith("beds is not explained (R2 = ")
    assert headline(found).startswith("no law found")


@pytest.mark.long
def test_a_drug_does_not_flow_in_from_nowhere():
    found = fit("drug")
    assert found.outcome == "poor-fit"
    assert any(note.startswith("conc both rises and falls, which no autonomous equation") for note in found.messages)
    assert not any(note.startswith("equilibrium at") for note in found.messages)


@pytest.mark.long
@pytest.mark.parametrize("name", ["eight", "drug"])
def test_no_simpler_row_beats_the_star_and_simple_laws_stand_beside_it(name):
    found = fit(name)
    chosen = next(row for row in found.front if row.selected)
    simpler = [row for row in found.front if row.complexity < chosen.complexity]
    beaten = [row for row in simpler if row.mse < chosen.mse]
    assert not beaten or any("are simpler and fit" in note for note in found.messages)
    assert found.outcome == "poor-fit" or sum(bool(row.name) for row in found.front) >= 2


@pytest.mark.long
def test_the_capacity_of_growth_seen_up_to_its_middle_lies_within_its_errors():
    off = []
    for seed in range(6):
        series = made({"N": "0.33*N*(1 - N/281)"}, [3.0], np.linspace(0.0, 14.0, 15), 0.02, seed)
        found = discover(series, settings_for(members=0, library=("textbook",)), Monitor())
        if found.name == "logistic growth" and found.textbook is not None:
            off.append((found.textbook.values[1] - 281.0) / found.textbook.errors[1])
    assert len(off) >= 3 and max(map(abs, off)) < 3.5


@pytest.mark.long
def test_growth_whose_rate_and_final_size_are_known_is_no_constant_rate():
    # Eight weights; the interval of r/K contains 0 although r and K are each told from nothing.
    t = np.array([14.0, 20.0, 27.0, 34.0, 41.0, 55.0, 69.0, 84.0])
    weight = np.array([0.047, 0.136, 0.273, 0.983, 1.797, 4.117, 11.037, 10.403])
    series = TimeSeries.from_arrays(t, weight[:, None], ["weight"])
    found = discover(series, settings_for(integer_exponents=True, members=0), Monitor())
    assert found.outcome == "converged"
    assert sorted(found.equations.power_sum.exponents.ravel().tolist()) == [1.0, 2.0]
    errors = found.equations.standard_errors.coefficients[0]
    values = found.equations.power_sum.coefficients[0]
    assert min(np.abs(values) / errors) < 2.57  # of five degrees of freedom


def noisy(sides, start, until, samples=40, noise=0.01):
    t = np.linspace(0.0, until, samples)
    x = Equations.parse(list(sides), sides).simulate(start, t)
    x = x + noise * np.std(x, axis=0) * np.random.default_rng(0).standard_normal(x.shape)
    return TimeSeries.from_arrays(t, x, list(sides))


def simple(**options):
    return settings_for(members=0, library=("textbook",), **options)


@pytest.fixture(scope="module")
def tank():
    return discover(noisy({"h": "-0.5*(h - 4)**0.5"}, [20.0], 12.0), simple())


def test_a_tank_with_its_outlet_above_the_zero(tank):
    assert tank.name == "outflow through an opening above the zero (Torricelli)"
    offset, error = tank.named.values[tank.named.names.index("x0")], tank.named.errors[tank.named.names.index("x0")]
    assert abs(offset - 4.0) < 3.0 * error < 1.0
    assert any(message.startswith("equilibrium at h = ") for message in tank.messages)
    assert headline(tank).startswith("law found")
    # The criterion of a form is on the scale of the other rows.
    chosen = next(row for row in tank.front if row.selected)
    assert chosen.criterion < min(row.criterion for row in tank.front) + 4.0


def test_names_are_kept(tank, tmp_path):
    tank.save(tmp_path / "r")
    back = Discovery.load(tmp_path / "r")
    assert back.name == tank.name == back.as_dict()["name"]
    assert [row.name for row in back.front] == [row.name for row in tank.front]


def test_a_law_that_was_tried_is_ranked_and_told():
    series = noisy({"N": "0.5*N*(1 - N/80)"}, [2.0], 20.0)
    found = discover(series, simple(tries=("N' = a*N*(1 - N/K)^b",), template=("gompertz",)))
    told = [message for message in found.messages if message.startswith("tried ")]
    assert len(told) == 2 and "N' = a*N*(1 - N/K)^b with a = 0.49" in " ".join(told)
    assert found.name == "logistic growth"


def test_what_cannot_be_tried():
    series = noisy({"T": "0.2*(20 - T)"}, [90.0], 15.0)
    with pytest.raises(InputError, match="'chain' is of 2 states"):
        discover(series, simple(template=("chain",)))
    with pytest.raises(InputError, match="equation of 'T' is missing"):
        discover(series, simple(tries=("",)))
    with pytest.raises(InputError, match="--recipe default"):
        settings_for("paper", sources=False)


@pytest.mark.long
def test_a_law_within_the_error_of_a_solver_is_named():
    """No found law leaves on whole trajectories as little as on pieces, but all leave as little as a solver does."""
    found = fit("solved")
    law = found.equations.power_sum
    assert law is not None and sorted(law.exponents.tolist()) == [[0.0, 1.0, 0.0], [1.0, 1.0, 0.0]]
