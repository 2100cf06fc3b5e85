"""The usual real-valued logics: norms, their duals, and residua by their definition."""

from __future__ import annotations

import pytest
import torch

from odediscovery.units.connectives import And, Implies, Or
from odediscovery.units.logic.norms import LOGICS

GRID = torch.linspace(0.0, 1.0, 9, dtype=torch.float64)
A, B = (part.flatten() for part in torch.meshgrid(GRID, GRID, indexing="ij"))


@pytest.mark.parametrize("name", LOGICS)
def test_a_norm_is_one_and_its_residuum_is_the_largest_that_fits(name: str) -> None:
    logic = LOGICS[name]
    one = torch.ones_like(A)
    torch.testing.assert_close(logic.conjunction(A, one), A)
    torch.testing.assert_close(logic.conjunction(A, B), logic.conjunction(B, A))
    torch.testing.assert_close(logic.disjunction(A, B), 1.0 - logic.conjunction(1.0 - A, 1.0 - B))
    residuum = logic.implication(A, B)
    assert (logic.conjunction(A, residuum) <= B + 1e-12).all()
    more = (residuum + 1e-6).clamp_max(1.0)
    larger = more > residuum
    assert larger.any() and (logic.conjunction(A, more)[larger] > B[larger]).all()


@pytest.mark.parametrize("name", LOGICS)
def test_all_are_classical_for_true_and_false(name: str) -> None:
    logic, a, b = LOGICS[name], torch.tensor([0.0, 0, 1, 1]), torch.tensor([0.0, 1, 0, 1])
    assert logic.conjunction(a, b).tolist() == [0, 0, 0, 1]
    assert logic.disjunction(a, b).tolist() == [0, 1, 1, 1]
    assert logic.implication(a, b).tolist() == [1, 1, 0, 1]


def test_the_units_with_weights_of_1_are_the_third() -> None:
    logic, x = LOGICS["Lukasiewicz"], torch.stack([A, B], dim=1)[None]
    pairs = ((And, logic.conjunction), (Or, logic.disjunction), (Implies, logic.implication))
    for kind, function in pairs:
        unit = kind(2, 1, dtype=torch.float64)
        unit.weight.data.fill_(1.0)
        torch.testing.assert_close(unit(x)[0, :, 0].detach(), function(A, B))
