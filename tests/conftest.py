"""What holds for every test.

Shapes and types of arrays are checked while tests run: annotations such as
`Float[Tensor, "members windows states"]` say what every axis is, and one name has one size within a
call. An acceptance check is a slow test as well.
"""

from __future__ import annotations

import pytest
from jaxtyping import install_import_hook

CHECKED = ("odediscovery.ivp", "odediscovery.solve", "odediscovery.fitting", "odediscovery.stages")

# Before the first import of what it checks.
install_import_hook(CHECKED, "beartype.beartype")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let `-m "not slow"` leave the acceptance checks out."""
    for item in items:
        if item.get_closest_marker("accept"):
            item.add_marker(pytest.mark.slow)
