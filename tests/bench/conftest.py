"""Tasks of measurements run in the process of the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from odediscovery.runtime.workers import Processes


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Tasks run in this process; which ones they were."""
    seen: list[Any] = []

    def one_by_one(
        _backend: Processes,
        function: Callable[[Any], Any],
        tasks: Sequence[Any],
        _limit: float,
        stopping: Callable[[], object],
    ) -> Iterator[tuple[int, Any]]:
        for number, task in enumerate(tasks):
            if stopping() is None:
                seen.append(task)
                yield number, function(task)

    monkeypatch.setattr(Processes, "results", one_by_one)
    return seen
