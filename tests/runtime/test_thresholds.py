"""Thresholds say what they are, and everyone in the package says so in full."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from dataclasses import dataclass

import odediscovery
from odediscovery.runtime.thresholds import Described, Thresholds, described, threshold


@dataclass(frozen=True)
class Braking(Thresholds):
    """Of a car."""

    distance: float = threshold(40.0, "from here on it brakes", unit="m", origin="physics of friction")
    pedals: int = threshold(2, "pressed at once", origin="count")


def test_thresholds_describe_themselves_in_order() -> None:
    assert list(described(Braking)) == [
        Described("Braking", "distance", 40.0, "from here on it brakes", "m", "physics of friction"),
        Described("Braking", "pedals", 2, "pressed at once", "", "count"),
    ]
    assert dataclasses.replace(Braking(), distance=80.0).distance == 80.0


def test_every_threshold_of_the_package_has_words_and_an_origin() -> None:
    for module in pkgutil.walk_packages(odediscovery.__path__, "odediscovery."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    owners = [owner for owner in Thresholds.__subclasses__() if owner.__module__.startswith("odediscovery.")]
    for owner in owners:
        assert owner.__dataclass_params__.frozen, owner
        for one in described(owner):
            assert one.says and one.origin, one
