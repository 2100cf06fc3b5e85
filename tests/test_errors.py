"""What a person reads when a name does not exist."""

from __future__ import annotations

import pytest

from odediscovery.errors import unknown_name


@pytest.mark.parametrize(
    ("name", "known", "suggested"),
    [("s", ["S", "I", "R"], "S"), ("FSIR", ["sir", "fsir"], "fsir"), ("STRASSE", ["biomass", "Straße"], "Straße")],
)
def test_the_nearest_name_is_suggested(name: str, known: list[str], suggested: str) -> None:
    message = str(unknown_name("state", name, known))
    assert message.startswith(f"unknown state {name!r}: did you mean {suggested!r}? Known: ")


def test_nothing_is_suggested_when_nothing_is_near() -> None:
    assert str(unknown_name("state", "zzz", ["S", "I"])) == "unknown state 'zzz': Known: S, I"
    assert str(unknown_name("state", "S", [])).endswith("Known: none")
