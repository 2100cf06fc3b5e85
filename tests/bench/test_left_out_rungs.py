"""Rungs of the search left out: what is changed, what is fitted again, what a row tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from odediscovery.bench import rungs as of
from odediscovery.bench.rungs import WHOLE, left_out, markdown, run_rungs, rungs, watched_rungs
from odediscovery.bench.systems import SuiteSystem, load_suite
from odediscovery.errors import InputError
from odediscovery.search import strategies


def test_a_rung_is_left_out_for_a_while_and_every_one_of_its_name() -> None:
    before, every = strategies.STRATEGIES, rungs()
    assert "closing: few products" in every
    twice = "noisy: swapped monomials"
    assert [r.name for r in before[-1].rungs].count("swapped monomials") == 2
    with left_out(twice):
        assert list(rungs()) == [name for name in every if name != twice]
    with pytest.raises(ZeroDivisionError), left_out("closing: few products"):
        assert "few products" not in [r.name for r in strategies.CLOSING.rungs]
        raise ZeroDivisionError
    assert strategies.STRATEGIES is before and list(rungs()) == list(every)


def test_a_rung_is_noted_once_laws_are_asked_of_it() -> None:
    with watched_rungs() as climbed:
        watched = strategies.STRATEGIES[0].rungs[1]
        assert climbed == set()
        watched.proposes.laws(None)  # type: ignore[arg-type] (a generator: nobody reads the climb yet)
        assert climbed == {"clean: exact law"}
    strategies.STRATEGIES[0].rungs[1].proposes.laws(None)  # type: ignore[arg-type]
    assert climbed == {"clean: exact law"}


@pytest.mark.slow
def test_only_what_climbs_a_rung_is_fitted_without_it(
    here: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logistic growth is a textbook law; without its rung another one finds it."""

    def one_law(_seed: int, each: int) -> list[SuiteSystem]:
        return [load_suite("classics")["logistic"]][:each]

    monkeypatch.setattr(of, "random_systems", one_law)
    rows = run_rungs(tmp_path, sigma=0.01, each=1)
    clean, noisy = (row for row in rows if row["method"] == WHOLE)
    assert clean["exact"] and clean["climbed"] and noisy["climbed"]
    again = {(row["id"], row["method"]) for row in rows} - {(row["id"], WHOLE) for row in (clean, noisy)}
    assert again == {(row["id"], name) for row in (clean, noisy) for name in row["climbed"]}
    assert all(row["method"] not in row["climbed"] for row in rows)
    count, text = len(here), markdown(rows, "odediscovery bench rungs")
    assert text.startswith("# rungs") and f"| {clean['climbed'][0]} | " in text and "2 fits" in text
    # The same command goes on and has nothing left to do.
    assert run_rungs(tmp_path, sigma=0.01, each=1) == rows and len(here) == count
    with pytest.raises(InputError, match="unknown rung"):
        run_rungs(tmp_path, names=["clean: nothing"])
    with pytest.raises(InputError, match="--sigma"):
        run_rungs(tmp_path / "other", sigma=-1.0)
    assert not (tmp_path / "other").exists()
