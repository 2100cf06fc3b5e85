"""Doses in the law: how much a state rises for each amount, and which constant stands at which term."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from odediscovery.population.doses import dose_rows, factor_names, first_factor, unknown_of_terms, with_doses
from odediscovery.population.model.measured import KNOWN, POSITIVE, SCALED, GroupModel, Measured, Start
from odediscovery.population.model.members import members_of
from odediscovery.population.model.mixed import MixedFit
from odediscovery.population.model.structures import Entry, Structure

# gut' = -ka gut, conc' = ka gut - ke conc
FLOWS = Structure(np.eye(2), (Entry(0, 0, 0, -1), Entry(1, 0, 0, 1), Entry(1, 1, 1, -1)))


@dataclass(frozen=True)
class OnlyModel:
    """What doses look at of a fit."""

    model: GroupModel


def fit(gut: str, dosed: tuple[tuple[int, str], ...]) -> MixedFit:
    t = np.array([0.0, 1.0, 2.0])
    data = members_of([(t, np.ones((3, 2)))], [np.ones((3, 2))])
    starts = (Start(gut, np.array([1.0])), Start(POSITIVE, np.array([1.0])))
    measured = Measured(data, starts, np.zeros(2, bool), ("a",), {}, dosed)
    return cast(MixedFit, OnlyModel(GroupModel(FLOWS, measured)))


def test_a_first_factor_is_the_median_rise_for_each_amount() -> None:
    t = np.arange(5.0)
    # Doses of 2 right after samples 0 and 2 lift the state by 1 and by 3; one of 4 by 8.
    values, amounts = np.array([0.0, 1.0, 0.5, 3.5, 11.5]), np.array([2.0, 0.0, 2.0, 4.0, 0.0])
    data = members_of([(t, values[:, None])], [amounts[:, None]])
    assert first_factor(data, 0) == 1.5
    falling = members_of([(t, -values[:, None])], [amounts[:, None]])
    assert first_factor(falling, 0) == 1.0


def test_a_dose_is_a_term_of_its_column_and_all_other_controls_have_none() -> None:
    one = fit(KNOWN, ((0, "oral"), (1, "drip")))
    law = with_doses(FLOWS.law(np.log([0.5, 0.2])), one, ("heat", "drip", "oral"), {None: 1.0})
    # Columns: gut, conc, heat, drip, oral; rates at gut 2, conc 1, drip 10 and oral 100.
    np.testing.assert_allclose(law.rhs(np.array([[2.0, 1.0, 7.0, 10.0, 100.0]])), [[99.0, 10.8, 0.0, 0.0, 0.0]])


def test_terms_know_the_unknown_of_their_constant() -> None:
    one = fit(SCALED, ((0, "oral"), (1, "drip")))
    # Unknowns: ka, ke, then the factor of gut and the start of conc.
    assert dose_rows(one) == [(0, "oral", 2), (1, "drip", None)]
    law = with_doses(FLOWS.law(np.log([0.5, 0.2])), one, ("oral", "drip"), {2: 0.1, None: 1.0})
    terms, unknowns = unknown_of_terms(one, law)
    assert dict(zip(terms, unknowns, strict=True)) == {(0, 0): 0, (1, 0): 0, (1, 1): 1, (0, 2): 2, (1, 3): None}
    assert law.coefficients[0, 2] == 0.1 and law.coefficients[1, 3] == 1.0


def test_factors_have_names_that_no_constant_has() -> None:
    one = fit(SCALED, ((0, "oral"),))
    assert factor_names(one, {}, {}) == {2: "f"}
    assert factor_names(one, {0: "F"}, {}) == {2: "F"}
    taken: dict[int, Any] = {0: "f", 1: "f_dose"}
    assert factor_names(one, {}, taken) == {2: "f_dose_dose"}
