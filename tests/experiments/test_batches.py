"""What the studies run, without running it."""

from __future__ import annotations

import pytest
import sympy

from odediscovery.experiments.base import Plan
from odediscovery.experiments.studies.identity import Extrapolation
from odediscovery.experiments.studies.networks import Networks
from odediscovery.experiments.studies.registers import Comparisons, as_typed

FULL = Plan(full=True)


@pytest.mark.parametrize("study", [Comparisons(), Extrapolation(), Networks()], ids=lambda study: study.name)
def test_batches_are_told_apart_and_the_quick_look_has_fewer(study: Comparisons | Extrapolation | Networks) -> None:
    whole = [tuple(batch.items()) for batch in study.batches(FULL)]
    assert len(set(whole)) == len(whole)
    assert 0 < len(study.batches(Plan())) <= len(whole)


def test_complex_exponents_are_trained_on_fsir_without_noise_alone() -> None:
    # Their gradients have no closed form: elsewhere they would take hours.
    batches = [batch for batch in Networks().batches(FULL) if batch["method"] == "neural, NPU"]
    assert batches == [{"system": "fsir", "noise": "0", "method": "neural, NPU"}]


def test_relations_are_printed_as_they_are_typed() -> None:
    x, y = sympy.symbols("x1 x2", real=True)
    printed = [as_typed(r) for r in (sympy.Eq(x, y), sympy.Ne(x, y), x < y)]
    assert printed == ["x1 = x2", "x1 != x2", "x1 < x2"]
