"""Options: defaults, recipes, every value out of range named, and the nearest name where one does not exist."""

import dataclasses
import json
import math

import pytest

from odediscovery import InputError, Settings, settings_for
from odediscovery.errors import unknown_name
from odediscovery.settings import LIMITS, RECIPES


def test_defaults_are_in_range():
    for recipe in RECIPES:
        assert settings_for(recipe).recipe == recipe
    assert settings_for() == Settings()


def test_given_options_replace_those_of_the_recipe_and_none_does_not():
    paper = settings_for("paper", members=7, adam_steps=None)
    assert (paper.members, paper.adam_steps, paper.grow) == (7, 3000, False)


def test_what_a_file_holds_makes_the_same_settings_again():
    texts = {one.name: ("a", "b") for one in dataclasses.fields(Settings) if str(one.type) == "tuple[str, ...]"}
    for chosen in (Settings(**texts), settings_for("as-run", seed=4, unit="NPU", max_seconds=3.5)):
        assert Settings(**json.loads(json.dumps(chosen.as_dict()))) == chosen
    assert len(texts) > 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tries": (1,)}, "--try must be a list of texts"),
        ({"members": -1}, "--members must be at least 0, got -1"),
        ({"members": 0, "recipe": "paper"}, "--members 0 leaves nothing to start from"),
        ({"members": 0, "grow": False}, "it needs --grow and --recipe default"),
        ({"hidden": 0}, "--hidden must be at least 1, got 0"),
        ({"seed": -1}, "--seed must be at least 0, got -1"),
        ({"l1": -0.1}, "--l1 must be at least 0.0, got -0.1"),
        ({"learning_rate": 0.0}, "--learning-rate must be positive and finite, got 0.0"),
        ({"members": 2.5}, "--members must be a whole number, got 2.5"),
        ({"seed": "7"}, "--seed must be a whole number, got '7'"),
        ({"threads": 10**8}, "--threads must be at least 1 and at most 1024, got 100000000"),
        ({"max_seconds": math.nan}, "--max-seconds must be positive and finite, got nan"),
        ({"unit": "realnpu"}, "did you mean 'RealNPU'"),
        ({"unit": "Dense"}, "--unit Dense needs --recipe paper or as-run"),
        ({"recipe": "neural", "unit": "Dense"}, "recipe neural reads its equations from power units, RealNPU or NPU"),
        ({"recipe": "neural", "grow": True}, "--grow needs --recipe default; recipe neural uses no regression"),
        ({"gradients": "odeint_adjoint"}, "did you mean 'odeint-adjoint'"),
        ({"recipe": "paper", "gradients": "closed-form"}, "--gradients closed-form needs --recipe default or neural"),
        ({"memmbers": 3}, "unknown option 'memmbers': did you mean 'members'"),
        ({"recipe": "Paper"}, "unknown recipe 'Paper': did you mean 'paper'"),
    ],
)
def test_values_out_of_range_are_named(options, message):
    recipe = options.pop("recipe", "default")
    with pytest.raises(InputError) as caught:
        settings_for(recipe, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", LIMITS)
def test_the_limits_themselves_are_allowed(name):
    for value in LIMITS[name]:
        assert getattr(settings_for(**{name: value}), name) == value


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
def test_the_nearest_name_is_suggested_where_one_is_near(name, known, suggested):
    assert str(unknown_name("state", name, known)) == f"unknown state {name!r}: {suggested}"
