"""What a person reads when a name does not exist."""

from __future__ import annotations

import pytest

from odediscovery.errors import unknown_name


@pytest.mark.parametrize(
    ("name", "known", "suggested"),
    [
        ("s", ["S", "I", "R"], "did you mean 'S'? Known: S, I, R"),
        ("FSIR", ["sir", "fsir"], "did you mean 'fsir'? Known: sir, fsir"),
        ("STRASSE", ["biomass", "Straße"], "did you mean 'Straße'? Known: biomass, Straße"),
        ("zzz", ["S", "I"], "Known: S, I"),
        ("S", [], "Known: none"),
    ],
)
def test_the_nearest_name_is_suggested_where_one_is_near(name: str, known: list[str], suggested: str) -> None:
    assert str(unknown_name("state", name, known)) == f"unknown state {name!r}: {suggested}"
