"""What --library says: families by name, and by what is left out."""

import pytest

from odediscovery.errors import InputError
from odediscovery.families import FAMILIES
from odediscovery.search.vocabulary import vocabulary


def names(*given):
    return [family.name for family in vocabulary(given).families]


def test_nothing_said_is_everything():
    assert vocabulary([]).families == FAMILIES and vocabulary([]).textbook


def test_families_by_name_and_by_what_is_left_out():
    assert names("powers,sums") == names("sums", "powers") == ["powers", "sums"]
    left = names("no-functions, no-sums")
    assert {"powers", "trigonometric", "hill functions"} <= set(left)
    assert left == [family.name for family in FAMILIES if family.name not in ("functions", "sums")]
    assert names("sums-of-exponentials") == ["sums of exponentials"]
    assert vocabulary(["no-textbook"]).textbook is False
    assert vocabulary(["powers"]).functions == frozenset() and not vocabulary(["powers"]).has_sums


def test_unknown_and_empty_vocabularies():
    with pytest.raises(InputError, match="powers"):
        vocabulary(["power"])
    with pytest.raises(InputError, match="nothing to try"):
        vocabulary(["textbook,no-textbook"])
