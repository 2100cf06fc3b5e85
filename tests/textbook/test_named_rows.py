"""Textbook laws as rows of the front."""

from __future__ import annotations

import numpy as np

from odediscovery.laws.equations import Equations
from odediscovery.result.front import FrontRow
from odediscovery.textbook.fit import merged


def row(
    side: str, complexity: int, mse: float, criterion: float, name: str = "", *, selected: bool = False
) -> FrontRow:
    equations = Equations.parse(["x"], {"x": side})
    return FrontRow(equations, complexity, mse, 0.9, criterion, selected, np.ones((1, 1)), name)


CHOSEN = row("0.08", 1, 46.4, -30.8, "a constant rate", selected=True)
BERTALANFFY = row("0.02*x**(2/3) - 0.004*x", 5, 25.1, -23.85, "von Bertalanffy growth")
LOGISTIC = row("0.003*x - 0.00002*x**2", 5, 25.3, -23.79, "logistic growth")


def test_of_laws_about_as_good_the_one_that_everybody_compares_with_is_shown() -> None:
    assert [one.name for one in merged([CHOSEN], [BERTALANFFY, LOGISTIC])] == ["a constant rate", "logistic growth"]


def test_one_that_is_clearly_better_is_shown_instead() -> None:
    better = row("0.02*x**(2/3) - 0.004*x", 5, 12.0, -35.0, "von Bertalanffy growth")
    assert [one.name for one in merged([CHOSEN], [better, LOGISTIC])] == ["a constant rate", "von Bertalanffy growth"]


def test_a_law_that_a_simpler_one_beats_is_not_shown() -> None:
    worse = row("0.001*x**3", 7, 30.0, -20.0, "a power law")
    assert [one.complexity for one in merged([CHOSEN], [LOGISTIC, worse])] == [1, 5]


def test_a_row_that_is_a_textbook_law_takes_its_name() -> None:
    found = row("0.0031*x - 0.000021*x**2", 5, 25.2, -24.0)
    assert [one.name for one in merged([CHOSEN, found], [LOGISTIC])] == ["a constant rate", "logistic growth"]
