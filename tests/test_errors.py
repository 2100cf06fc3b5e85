"""What a person reads when a name does not exist."""

from __future__ import annotations

import pytest

from odediscovery.errors import FitError, InputError, OdeDiscoveryError, unknown_name


@pytest.mark.parametrize(
    ("name", "known", "suggested"),
    [
        ("s", ["S", "I", "R"], "S"),
        ("r", ["S", "I", "R"], "R"),
        ("FSIR", ["sir", "fsir"], "fsir"),
        ("STRASSE", ["biomass", "Straße"], "Straße"),
        ("Infectd", ["Susceptible", "Infected"], "Infected"),
    ],
)
def test_the_nearest_name_is_suggested(name: str, known: list[str], suggested: str) -> None:
    message = str(unknown_name("state", name, known))
    assert message.startswith(f"unknown state {name!r}: did you mean {suggested!r}? Known: ")


def test_nothing_is_suggested_when_nothing_is_near() -> None:
    assert str(unknown_name("state", "zzz", ["S", "I"])) == "unknown state 'zzz': Known: S, I"
    assert str(unknown_name("state", "S", [])).endswith("Known: none")


def test_the_family() -> None:
    assert issubclass(InputError, OdeDiscoveryError) and issubclass(InputError, ValueError)
    assert issubclass(FitError, OdeDiscoveryError) and issubclass(FitError, RuntimeError)
