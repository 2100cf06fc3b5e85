"""What holds for every test.

With `--shapes` the shapes and types of arrays are checked while tests run: annotations such as
`Float[Tensor, "members windows states"]` say what every axis is, and one name has one size within a
call. That makes a fit ten times as long, so `make test` does it in a run of its own, over the quick tests
of the rooms that are checked, and `make long` over whole fits as well.

Slow are long tests, acceptance checks and what `seconds.txt` says to take long: it has the seconds of the processor of
a test with all its parameters, where these are many. `make seconds` measures them anew.
"""

import gc
import os
from collections import Counter
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

CHECKED = ("odediscovery.ivp", "odediscovery.solve", "odediscovery.fitting", "odediscovery.stages")
TABLE = Path(__file__).parent / "files" / "seconds.txt"
SECONDS = {name: float(told) for told, name in (line.split(maxsplit=1) for line in TABLE.read_text().splitlines())}
SLOW = 0.2
# Times as long as a fit takes at most where nobody sets a limit.
LEISURE = 20.0
TOOK = Counter()


def pytest_addoption(parser):
    """The options `--shapes` and `--seconds`."""
    parser.addoption("--shapes", action="store_true", help="check shapes and types of arrays at every call")
    parser.addoption("--seconds", action="store_true", help="write down which tests take long")


def pytest_configure(config):
    """Check shapes, where asked, before the first import of what is checked."""
    if config.getoption("--shapes"):
        install_import_hook(CHECKED, "beartype.beartype")


def name_of(item):
    """File and function, whatever the parameters are."""
    return f"{item.path.name}::{getattr(item, 'originalname', item.name)}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Let `-m "not slow"` leave out what takes longer, and long files begin early: two processes end together."""
    of_file = Counter()
    for name, seconds in SECONDS.items():
        of_file[name.partition("::")[0]] += seconds
    for item in items:
        marked = item.get_closest_marker("accept") or item.get_closest_marker("long")
        if marked or SECONDS.get(name_of(item), 0.0) >= SLOW:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: -of_file[item.path.name])


@pytest.fixture(scope="session", autouse=True)
def leisure():
    """How many times longer a fit may take: what it finds must not depend on the machine, or on lines being counted."""
    from odediscovery.discovery import task  # noqa: PLC0415 (after the hook that checks shapes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task, "SECONDS", LEISURE * task.SECONDS)
        yield LEISURE


def pytest_collection_finish():
    """Leave modules and tests alone when garbage is collected: they are a million objects that stay."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Measure the processor's seconds of a test and of the processes that it starts."""
    began = sum(os.times()[:4])
    result = yield
    TOOK[name_of(item)] += sum(os.times()[:4]) - began
    return result


def pytest_sessionfinish(session):
    """Write down what took long, where asked."""
    if session.config.getoption("--seconds"):
        TABLE.write_text("".join(f"{took:.1f} {name}\n" for name, took in TOOK.most_common() if took >= SLOW))


@pytest.fixture
def double_precision():
    """Units are float64 where a test does not say otherwise: it compares them with formulas to the last digits."""
    import torch  # noqa: PLC0415 (tests of what is light must not load it)

    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
