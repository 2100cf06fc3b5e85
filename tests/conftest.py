"""What holds for every test: an acceptance check is a slow test as well."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let `-m "not slow"` leave the acceptance checks out."""
    for item in items:
        if item.get_closest_marker("accept"):
            item.add_marker(pytest.mark.slow)
