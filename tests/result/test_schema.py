"""`result.json` follows the schema that the package holds, whatever kind of result it is."""

from __future__ import annotations

import dataclasses
import json
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faces import awkward, discovery

from odediscovery import Equations, TimeSeries, discover, fit_constants, settings_for, simulate_system
from odediscovery.result.survival import Survival

jsonschema = pytest.importorskip("jsonschema")
SCHEMA = json.loads((resources.files("odediscovery.result") / "schema.json").read_text(encoding="utf-8"))
OLD = Path(__file__).parents[1] / "files" / "torricelli_0.1.0" / "result.json"


def check(document: dict[str, Any]) -> None:
    plain = json.loads(json.dumps(document, allow_nan=False))
    jsonschema.Draft202012Validator(SCHEMA).validate(plain)
    unknown = set(plain) - set(SCHEMA["properties"])
    assert not unknown, f"keys that the schema does not name: {unknown}"


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["required"]) <= set(SCHEMA["properties"])


def test_results_follow_it(tmp_path: Path) -> None:
    found = discovery(runs=2)
    check(found.as_dict())
    check(awkward().as_dict())
    survival = Survival("residuals", 9, np.ones((3, 3)), 0.5, (("S", "S^2", 0.1),))
    check(dataclasses.replace(found, survival=survival).as_dict())
    found.save(tmp_path)
    check(json.loads((tmp_path / "result.json").read_text(encoding="utf-8")))


def test_a_result_of_an_earlier_version_follows_it() -> None:
    check(json.loads(OLD.read_text(encoding="utf-8")))


@pytest.mark.slow
def test_fits_follow_it() -> None:
    series = simulate_system("logistic")
    check(discover(series, settings_for(members=0)).as_dict())
    check(fit_constants(series, "N' = r*N*(1 - N/K)").as_dict())
    check(fit_constants(series, Equations.parse(["N"], {"N": "0.4*N - 0.004*N**2"})).as_dict())
    dated = TimeSeries.from_arrays(np.arange(30) * np.timedelta64(1, "h"), np.exp(-0.1 * np.arange(30)), ["x"])
    check(fit_constants(dated, "x' = -k*x").as_dict())


@pytest.mark.parametrize(
    ("key", "value"), [("outcome", "good"), ("states", []), ("version", 2), ("equations", {"S": 1}), ("pareto", [])]
)
def test_other_documents_do_not(key: str, value: object) -> None:
    with pytest.raises(jsonschema.ValidationError):
        check({**discovery().as_dict(), key: value})
