"""Mechanisms: every published rate law is drawn, identified and scored in the units of its states."""

import numpy as np
import pytest

from odediscovery import Equations
from odediscovery.bench.mechanisms import DRAWS, FEEDING, food_chain, turn_of
from odediscovery.bench.random_families import DECADES_APART, Draft, Term
from odediscovery.bench.random_laws import FAMILIES, MECHANISMS, is_identifiable, random_system, random_systems
from odediscovery.bench.scores import box_of, exact_and_coef, same_law, trajectory_r2
from odediscovery.bench.systems import rounded

# A seed for each rate law, the first draft of which is accepted.
ACCEPTED = {
    "mass action": 151,
    "Michaelis-Menten": 0,
    "two substrates": 44,
    "reversible Michaelis-Menten": 70,
    "competitive inhibition": 70,
    "uncompetitive inhibition": 70,
    "substrate inhibition": 39,
    "Hill": 12,
    "tanh gate": 2,
    "outflow of a tank": 25,
    "Holling I": 94,
    "Holling II": 19,
    "Holling III": 1,
    "Holling IV": 173,
    "ratio dependence": 1,
    "Beddington-DeAngelis": 11,
    "Ivlev": 19,
    "Gompertz": 26,
    "Allee": 59,
    "Droop": 123,
    "Arrhenius": 53,
    "radiation": 23,
    "quadratic drag": 1,
    "drag along the path": 5,
    "dry friction": 3,
    "diode": 11,
    "Butler-Volmer": 15,
}
RATE_LAWS = dict(DRAWS)


def law(text, states="x y"):
    names = states.split()
    return Equations.parse(names, dict(zip(names, text.split("; "), strict=True)))


def verdict(found, truth, box):
    return exact_and_coef(same_law(found, truth, box.T, apart=True), is_clean=True)


QUICK = ("mass action", "Michaelis-Menten", "Hill", "tanh gate", "Droop", "Ivlev", "dry friction", "Butler-Volmer")


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.long) for n in RATE_LAWS])
def test_every_rate_law_is_drawn_accepted_and_gets_full_marks(name):
    draft = RATE_LAWS[name](np.random.default_rng(ACCEPTED[name]))
    assert draft.apart and is_identifiable(draft)
    truth, texts = draft.equations(), draft.equations().texts()
    box = box_of(np.concatenate(draft.simulate(draft.starts, np.tile(draft.constants, (3, 1)))))
    assert verdict(truth, truth, box) == (True, True)
    faster = Equations.parse(list(texts), {state: f"1.3*({text})" for state, text in texts.items()})
    assert verdict(faster, truth, box) == (True, False)
    # A further term of 0.3 % of the largest rate.
    rates = 0.003 * np.abs(truth.rhs(box.T)).max(axis=0)
    more = {
        s: f"{texts[s]} + {rate!r}*({s}/{top!r})**5"
        for s, rate, (_, top) in zip(texts, rates.tolist(), box.tolist(), strict=True)
    }
    assert verdict(Equations.parse(list(texts), more), truth, box) == (False, False)


def test_rate_laws_take_turns_and_a_system_depends_on_its_seed_and_number_alone():
    turns = [turn_of(8, i)[0] for i in range(2 * len(DRAWS))]
    assert turns[: len(DRAWS)] == turns[len(DRAWS) :] and set(turns) == set(RATE_LAWS)
    assert turns != [turn_of(9, i)[0] for i in range(2 * len(DRAWS))]
    number = turns.index("quadratic drag")
    one = random_system(8, MECHANISMS, number)
    random_system.cache_clear()
    (again,) = random_systems(8, ids=[f"mechanisms-{number}"])
    assert again is not one and again.equations.texts() == one.equations.texts()
    assert again.starts.tolist() == one.starts.tolist() and "Abs(" in str(again.equations.texts())


def test_mechanisms_are_drawn_only_if_asked_for(monkeypatch):
    drawn = []
    monkeypatch.setattr("odediscovery.bench.random_laws.random_system", lambda *about: drawn.append(about))
    random_systems(3, each=1)
    assert [family for _, family, _ in drawn] == list(FAMILIES) and MECHANISMS not in FAMILIES
    drawn.clear()
    random_systems(3, [MECHANISMS], each=2)
    assert drawn == [(3, MECHANISMS, 0), (3, MECHANISMS, 1)]


@pytest.mark.parametrize("eaten", FEEDING, ids=lambda one: one.name)
def test_a_flux_has_one_shape_in_the_state_that_it_leaves_and_the_one_that_it_enters(eaten):
    seen = 0
    for seed in range(12):
        draft = food_chain(eaten, np.random.default_rng(seed))
        for eater in range(1, draft.states):
            (gain,) = (term for term in draft.terms if term.state == eater and term.coefficient > 0)
            (loss,) = (term for term in draft.terms if term.shape == gain.shape and term.state != eater)
            assert loss.coefficient < 0
            seen += 1
    assert seen


def test_units_are_those_of_measurements_and_constants_have_three_digits():
    sizes, states, samples = [], [], []
    for seed in range(8):
        for draw in RATE_LAWS.values():
            draft = draw(np.random.default_rng(seed))
            assert all(rounded(term.coefficient, 3) == term.coefficient for term in draft.terms)
            assert all(rounded(value, 3) == value for value in draft.inner.values())
            sizes.append(np.log10(np.abs(draft.starts).max(axis=0)))
            states.append(draft.states)
            samples.append(draft.samples)
    every = np.concatenate(sizes)
    low, high = DECADES_APART
    assert every.min() < low + 1 and every.max() > high - 1
    assert {1, 2, 3, 4, 5} == set(states) and np.mean(np.array(states) <= 3) > 0.8
    assert (min(samples), max(samples)) == (30, 300)


def test_each_state_has_bounds_of_its_own():
    # The first state grows a hundredfold, which is little beside the second one.
    terms = Term(0, 1.0, "x0"), Term(1, -1.0, "x1")
    starts = np.array([[1e-6, 1e6]] * 3)
    draft = Draft(2, terms, {}, starts, 4.6, 40, apart=True)
    every = np.tile(draft.constants, (3, 1))
    assert np.isfinite(draft.simulate(starts, every, 30.0 * np.abs(starts).max())).all()
    assert not np.isfinite(draft.simulate(starts, every, 30.0 * np.abs(starts).max(axis=0))).all()


# x in units of 1e-5, y in units of 1e5.
BOX = np.array([[2e-6, 5e-5], [3e4, 6e5]])
MONOD = "3e-5*x*y/((2e-5 + x)*(1.5e5 + y)) - 0.2*x; -0.1*y"
INTERFERENCE = "-4e-11*x*y/(2e-5 + x + 1e-10*y); 0.5*x*y/(2e-5 + x + 1e-10*y) - 0.3*y"
GATE = "-0.5*x*(1 + tanh(1e-5*y - 2)); 2e9*x*(1 + tanh(1e-5*y - 2)) - 0.3*y"


@pytest.mark.parametrize(
    ("found", "truth", "expected"),
    [
        # Denominators multiplied out, all over one denominator, factors pulled out, other functions.
        ("3e-5*x*y/(3 + 2e-5*y + 1.5e5*x + x*y) - 0.2*x; -0.1*y", MONOD, True),
        ("x*(3e-5*y - 0.2*(2e-5 + x)*(1.5e5 + y))/((2e-5 + x)*(1.5e5 + y)); -0.1*y", MONOD, True),
        ("-2e-6*x*y/(1 + 5e4*x + 5e-6*y); y*(x/(4e-5 + 2*x + 2e-10*y) - 0.3)", INTERFERENCE, True),
        ("-x/(1 + exp(4 - 2e-5*y)); 4e9*x/(1 + exp(4 - 2e-5*y)) - 0.3*y", GATE, True),
        # Another half-saturation, another form, no interference.
        ("3e-5*x*y/((2.6e-5 + x)*(1.5e5 + y)) - 0.2*x; -0.1*y", MONOD, False),
        ("3e-5*x*y/(4 + 2e-5*y + 1.5e5*x + 3*x*y) - 0.2*x; -0.1*y", MONOD, False),
        ("-4e-11*x*y/(2e-5 + x); 0.5*x*y/(2e-5 + x) - 0.3*y", INTERFERENCE, False),
    ],
)
def test_laws_equal_up_to_algebra_are_exact_in_any_units(found, truth, expected):
    assert verdict(law(found), law(truth), BOX) == (expected, expected)


def test_small_states_count_as_much_as_large_ones():
    times, start = np.linspace(0.0, 2.0, 30), np.array([1e-5, 1e5])
    clean = law("-x; -y").simulate(start, times)
    wrong = law("x; -y")
    assert trajectory_r2(wrong, start, times, clean) > 0.999
    assert trajectory_r2(wrong, start, times, clean, apart=True) < 0.0
    assert trajectory_r2(law("-x; -y"), start, times, clean, apart=True) == pytest.approx(1.0)
