"""What holds for every test.

With `--shapes` the shapes and types of arrays are checked while tests run: annotations such as
`Float[Tensor, "members windows states"]` say what every axis is, and one name has one size within a
call. That makes a fit ten times as long, so `make test` does it in a run of its own, over the quick tests
of the rooms that are checked, and `make long` over whole fits as well. Long tests and acceptance checks
are slow tests, too.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from jaxtyping import install_import_hook

CHECKED = ("odediscovery.ivp", "odediscovery.solve", "odediscovery.fitting", "odediscovery.stages")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option `--shapes`."""
    parser.addoption("--shapes", action="store_true", help="check shapes and types of arrays at every call")


def pytest_configure(config: pytest.Config) -> None:
    """Check shapes, where asked, before the first import of what is checked."""
    if config.getoption("--shapes"):
        install_import_hook(CHECKED, "beartype.beartype")


# Files that take longest, longest first: two processes that share the files end together.
LONGEST = (
    "test_examples",
    "test_reproduce",
    "test_bench_speed",
    "test_report",
    "test_discover",
    "test_bench_peers",
    "test_cli",
    "test_main_line",
    "test_residual_tests",
    "test_device",
    "test_bench_draws",
    "test_cluster",
    "test_estimator",
    "test_families",
    "test_flows",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let `-m "not slow"` leave out what takes longer still, and long files begin early."""
    for item in items:
        if item.get_closest_marker("accept") or item.get_closest_marker("long"):
            item.add_marker(pytest.mark.slow)
    place = {name: k for k, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONGEST)))


def pytest_collection_finish() -> None:
    """Leave modules and tests alone when garbage is collected: they are a million objects that stay."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def double_precision() -> Iterator[None]:
    """Units are float64 where a test does not say otherwise: it compares them with formulas to the last digits."""
    import torch  # noqa: PLC0415 (tests of what is light must not load it)

    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
