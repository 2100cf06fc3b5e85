"""How random laws are written down, and what each kind of them is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pytest

from odediscovery.bench.random_laws.builder import Builder, rounded
from odediscovery.bench.random_laws.draft import Draft
from odediscovery.bench.random_laws.positive import compartments, lotka_volterra, mass_action, power_sums
from odediscovery.bench.random_laws.saturating import saturating
from odediscovery.bench.random_laws.signed import oscillators, trigonometric

POSITIVE = (power_sums, mass_action, lotka_volterra, compartments, saturating)
SIGNED = (oscillators, trigonometric)
# The first letters of a hash of twenty drafts of a family: kept rows are of these laws, and a changed range, or
# another order of draws, makes others of the same names.
DRAWN = {
    "power_sums": "bbaecbac263c",
    "mass_action": "6ac04dffa8cb",
    "lotka_volterra": "05ef3485e3ba",
    "oscillators": "eccecc38dcdc",
    "saturating": "6a79550dda06",
    "trigonometric": "86b336710ba9",
    "compartments": "8beff9ca59a6",
}


@pytest.mark.parametrize("number", [0.0123456, -987.654, 4.0])
def test_numbers_have_three_digits(number: float) -> None:
    assert rounded(number) == pytest.approx(number, rel=5e-3)
    assert rounded(rounded(number)) == rounded(number)


def test_equal_terms_are_one() -> None:
    b = Builder(np.random.default_rng(0), 1, "none")
    b.add(0, 1.0, {0: 1})
    b.add(0, 2.0, {0: 1})
    draft = b.draft(b.positive_starts(), 1.0)
    assert [term.shape for term in draft.terms] == ["x0"]
    assert draft.terms[0].coefficient * b.time == pytest.approx(3.0, rel=0.01)


def test_constants_that_no_term_has_are_left_out() -> None:
    b = Builder(np.random.default_rng(0), 1)
    b.inner("unused", 1.5)
    b.add(0, -1.0, {0: b.inner("a", 0.5)})
    assert dict(b.draft(b.positive_starts(), 1.0).inner) == {"a": 0.5}


def test_units_change_no_course() -> None:
    # x' = 1 - x^0.5 y, y' = x^0.5 y - y in any units, on its own time.
    courses = []
    for seed in (1, 2):
        b = Builder(np.random.default_rng(seed), 2, "own")
        b.add(0, 1.0)
        b.add(0, -1.0, {0: 0.5, 1: 1})
        b.add(1, float(b.units[0] ** 0 * 1.0), {0: 0.5, 1: 1})
        b.add(1, -1.0, {1: 1})
        draft = b.draft(np.array([[1.0, 2.0]]), 3.0)
        course = draft.equations().simulate(draft.starts[0], np.linspace(0.0, 3.0 * b.time, 7))
        courses.append(course / b.units)
    assert courses[0] == pytest.approx(courses[1], rel=0.03)


@pytest.mark.parametrize("family", [*POSITIVE, *SIGNED], ids=lambda family: family.__name__)
def test_every_draft_is_a_law_of_its_family_again_from_the_same_stream(family: object) -> None:
    for seed in range(10):
        first, again = (family(np.random.default_rng(seed)) for _ in range(2))  # type: ignore[operator]
        assert first.terms == again.terms
        assert first.positive is (family in POSITIVE)
        assert all(0 <= term.state < first.states for term in first.terms)
        assert first.starts.shape[1] == first.states
        rates = first.equations().rhs(np.abs(first.starts) + 0.1)
        assert np.isfinite(rates).all()


def test_a_sum_of_powers_has_a_power_that_is_not_whole() -> None:
    drafts = [power_sums(np.random.default_rng(seed)) for seed in range(20)]
    assert all(any(a % 1.0 for a in draft.inner.values()) for draft in drafts)


def test_what_leaves_a_compartment_enters_another_or_nothing() -> None:
    # Of linear compartments the sum of all amounts changes only by what flows in or out.
    for seed in range(10):
        draft = compartments(np.random.default_rng(seed))
        assert all(term.coefficient > 0.0 for term in draft.terms if term.shape not in {f"x{term.state}"})


@pytest.mark.parametrize("family", [*POSITIVE, *SIGNED], ids=lambda family: family.__name__)
def test_laws_are_those_of_kept_rows(family: Callable[[np.random.Generator], Draft]) -> None:
    drawn = []
    for seed in range(20):
        draft = family(np.random.default_rng(seed))
        terms = [(term.state, term.coefficient, term.shape) for term in draft.terms]
        drawn.append((terms, dict(draft.inner), draft.starts.tolist(), draft.span, draft.samples))
    assert hashlib.sha256(repr(drawn).encode()).hexdigest()[:12] == DRAWN[family.__name__]
