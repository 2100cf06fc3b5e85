"""The fit drawn into axes of one's own."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from faces import discovery

from odediscovery.errors import InputError
from odediscovery.laws.power_sum import PowerSum
from odediscovery.plots.show import plot_fit, plot_laws

PAIR = PowerSum(np.array([[-0.3, 0.0], [0.3, -0.1]]), np.eye(2))
FOUND = discovery(PAIR, ("Rabbits", "Grass"), until=10.0, initial=(3.0, 1.0))


def test_given_axes_are_drawn_in_and_get_no_legend_below_their_figure() -> None:
    figure, axes = plt.subplots(1, 2)
    own = plot_fit(FOUND, axes)
    assert own[0] is axes[0] and own[1] is axes[1]
    assert [ax.get_title(loc="left") for ax in axes] == ["Rabbits", "Grass"]
    assert figure.legends == []
    with pytest.raises(InputError, match="axes: expected 2, one a state, got 1"):
        plot_fit(FOUND, axes[0])
    plt.close(figure)


def test_every_law_has_a_curve_and_a_place_in_the_legend() -> None:
    axes = plot_laws([FOUND, FOUND], ["mine", "yours"])
    (legend,) = axes[0].figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["data", "mine", "yours"]
    assert [len(ax.lines) for ax in axes] == [3, 3]
    plt.close(axes[0].figure)
