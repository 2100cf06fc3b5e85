"""The beam search finds the columns that the data were made of."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from odediscovery.runtime.arrays import Array
from odediscovery.stages.grow import subsets
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


def test_three_columns_that_explain_little_in_pairs_are_found_as_four_of_which_one_is_idle() -> None:
    # Powers of one state resemble each other, and these three nearly cancel.
    columns = np.linspace(0.2, 1.4, 60)[:, None] ** np.linspace(-4.0, 4.0, 33)
    columns /= np.linalg.norm(columns, axis=0)
    found = 0
    for seed in range(20):
        own = np.sort(np.random.default_rng(seed).choice(33, 3, replace=False))
        y = columns[:, own] @ np.array([1.0, -2.0, 1.0])
        found += tuple(own.tolist()) in best_subsets(columns, y, np.arange(33), 4, 5, alike=1.0, children=5)[2]
    assert found >= 17  # growing alone finds 13


def test_what_a_subset_leaves_without_a_column_is_that_of_least_squares() -> None:
    columns = library(30, 6, seed=3)
    y = columns @ np.arange(1.0, 7.0)
    subset = np.array([[0, 2, 5]])
    less = dict(subsets._without_one(columns.T @ columns, columns.T @ y, float(y @ y), subset))
    for pair, left in less.items():
        fitted = columns[:, pair] @ np.linalg.lstsq(columns[:, pair], y, rcond=None)[0]
        assert left == pytest.approx(float(np.sum((y - fitted) ** 2)), rel=1e-8)
    assert set(less) == {(0, 2), (0, 5), (2, 5)}


def test_few_subsets_of_one_kind_are_kept() -> None:
    columns = library(30, 40)
    levels = best_subsets(columns, columns[:, :3].sum(axis=1), np.zeros(40, dtype=np.int64), 2, 100)
    assert len(levels[0]) == 1 and len(levels[1]) == 3


def test_as_many_subsets_side_by_side_as_the_cache_holds_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    columns, kinds = np.abs(library(40, 150)), np.arange(150) // 3
    y = columns[:, :4] @ np.array([1.0, -1.0, 2.0, 0.3])
    together = best_subsets(columns, y, kinds, 4, 20)
    monkeypatch.setattr(subsets, "SUBSETS", dataclasses.replace(subsets.SUBSETS, side_by_side=1))
    assert best_subsets(columns, y, kinds, 4, 20) == together
    assert together[3][0] == (0, 1, 2, 3)


def test_a_library_may_be_empty() -> None:
    assert best_subsets(np.empty((5, 0)), np.ones(5), np.arange(0), 3, 5) == [[]]
