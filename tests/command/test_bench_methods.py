"""Which methods a benchmark runs."""

from __future__ import annotations

import pytest

from odediscovery.bench.suites import ours
from odediscovery.command.bench import methods_named
from odediscovery.errors import InputError


def test_ours_needs_nothing_else_and_an_unknown_one_is_refused() -> None:
    assert methods_named("ours") == {"ours": ours}
    with pytest.raises(InputError, match="ours, pysindy"):
        methods_named("ousr")


def test_all_are_ours_and_the_peers_that_are_installed() -> None:
    pytest.importorskip("pysindy")
    pytest.importorskip("pyoperon")
    assert list(methods_named("all")) == ["ours", "pysindy", "pyoperon"]
