"""Tasks of measurements run in the process of the tests."""

import pytest

from odediscovery.runtime.workers import Processes


@pytest.fixture
def here(monkeypatch):
    """Tasks run in this process; which ones they were."""
    seen = []

    def one_by_one(_backend, function, tasks, _limit, stopping):
        for number, task in enumerate(tasks):
            if stopping() is None:
                seen.append(task)
                yield number, function(task)

    monkeypatch.setattr(Processes, "results", one_by_one)
    return seen
