"""The beam search finds the columns that the data were made of."""

from __future__ import annotations

import numpy as np

from odediscovery.runtime.arrays import Array
from odediscovery.stages.grow.subsets import best_subsets


def library(samples: int, columns: int, seed: int = 0) -> Array:
    """Random columns of norm 1."""
    found = np.random.default_rng(seed).standard_normal((samples, columns))
    result: Array = found / np.linalg.norm(found, axis=0)
    return result


def test_the_columns_behind_the_data_are_found_among_many() -> None:
    columns = library(60, 300)
    y = 2.0 * columns[:, 7] - 1.0 * columns[:, 120] + 0.5 * columns[:, 251]
    levels = best_subsets(columns, y, np.arange(300), 4, 3)
    assert [len(level[0]) for level in levels] == [1, 2, 3, 4]
    assert levels[0][0] == (7,) and levels[1][0] == (7, 120) and levels[2][0] == (7, 120, 251)
    assert all(len(level) <= 3 for level in levels)


def test_a_pair_that_explains_nothing_alone_is_found_when_pairs_are_asked_for() -> None:
    columns = library(40, 200, seed=1)
    # Both columns are almost orthogonal to their difference.
    columns[:, 151] = columns[:, 150] + 0.05 * columns[:, 0]
    columns[:, 151] /= np.linalg.norm(columns[:, 151])
    y = columns[:, 151] - columns[:, 150]
    columns[:, 0] = library(40, 1, seed=2)[:, 0]
    found = best_subsets(columns, y, np.arange(200), 2, 1, pairs=True)
    assert found[1][0] == (150, 151)


def test_a_library_may_be_empty() -> None:
    assert best_subsets(np.empty((5, 0)), np.ones(5), np.arange(0), 3, 5) == [[]]
