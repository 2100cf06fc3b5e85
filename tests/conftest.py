"""What holds for every test.

Shapes and types of arrays are checked while tests run: annotations such as
`Float[Tensor, "members windows states"]` say what every axis is, and one name has one size within a
call. `-m "not slow"` leaves that out. An acceptance check is a slow test as well.
"""

from __future__ import annotations

import pytest
from jaxtyping import install_import_hook

CHECKED = ("odediscovery.ivp", "odediscovery.solve", "odediscovery.fitting", "odediscovery.stages")


def pytest_configure(config: pytest.Config) -> None:
    """Check shapes, before the first import of what is checked; the fast tests do without."""
    if "not slow" not in str(config.getoption("markexpr", "")):
        install_import_hook(CHECKED, "beartype.beartype")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let `-m "not slow"` leave the acceptance checks out."""
    for item in items:
        if item.get_closest_marker("accept"):
            item.add_marker(pytest.mark.slow)
