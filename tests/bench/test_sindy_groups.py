"""pysindy on many groups."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.bench.peers import sindy_groups
from odediscovery.bench.peers.sindy_groups import library, sparse_law
from odediscovery.errors import FitError


def decay(start: float) -> tuple[np.ndarray, np.ndarray]:
    t = np.linspace(0.0, 4.0, 80)
    return t, start * np.exp(-0.5 * t)[:, None]


def test_the_library_has_polynomials_of_degree_two_and_the_given_powers_once() -> None:
    assert library(2, [[0.5, 1.0], [1.0, 1.0]]).tolist() == [
        [0.0, 0.0], [0.0, 1.0], [0.0, 2.0], [0.5, 1.0], [1.0, 0.0], [1.0, 1.0], [2.0, 0.0],
    ]  # fmt: skip


def test_runs_from_several_starts_give_one_law() -> None:
    pytest.importorskip("pysindy")
    law = sparse_law([decay(1.0), decay(3.0)], library(1, [[0.5]]))
    x = np.linspace(0.5, 2.5, 9)[:, None]
    assert law.rhs(x) == pytest.approx(-0.5 * x, rel=0.01)


def test_without_the_package_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sindy_groups, "pysindy", None)
    with pytest.raises(FitError, match=r"pip install odediscovery\[bench\]"):
        sparse_law([decay(1.0)], library(1, []))
