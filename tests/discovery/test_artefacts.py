"""Numbers that are next to nothing: those that a solver's error explains go, those that exact values tell stay."""

import numpy as np
import pytest
from problems import logistic, series_of

from odediscovery import TimeSeries
from odediscovery.discovery.refine import drop_artefacts
from odediscovery.judge.criterion import judge_on
from odediscovery.judge.verdict import Verdict
from odediscovery.laws.cost import all_free
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.refinement import refined, sigma_of
from odediscovery.stages.values import Origin

TIMES = np.linspace(0.0, 8.0, 161)
STEPS = 5


def euler(r: float, c: float, start: float) -> Array:
    """What Euler's method makes of N' = r N - c N^2, its error made a thousand times smaller, [times]."""
    x, values, length = start, [start], TIMES[1] / STEPS
    for _ in TIMES[1:]:
        for _ in range(STEPS):
            x += length * (r * x - c * x**2)
        values.append(x)
    true = logistic(TIMES, r, c, start)
    return true + 1e-3 * (np.array(values) - true)


def by_euler() -> TimeSeries:
    """Two trajectories of logistic growth with the error of Euler's steps."""
    values = [euler(1.68, 1.25, start)[:, None] for start in (0.1, 0.4)]
    return TimeSeries.from_arrays([TIMES, TIMES], values, ["x"])


def verdict_on(series: TimeSeries, *laws: PowerSum) -> Verdict:
    """Laws in the user's units judged on a series that is taken for exact."""
    p = prepare(series).without_noise(None)
    scaled = [law.rescaled(p.scale.state, p.scale.time) for law in laws]
    found = [refined(p, law, all_free(law), p.initial, sigma_of(p)) for law in scaled]
    return Verdict.of(p, [judge_on(p, one, Origin(0, "growing")) for one in found])


def exponents_of(verdict: Verdict) -> list[list[float]]:
    """Exponents of the claimed law."""
    return sorted(verdict.best.polished.law.exponents.tolist())


def test_a_term_that_a_solvers_error_explains_goes() -> None:
    with_constant = PowerSum(np.array([[1.68, -1.25, -4e-6]]), np.array([[1.0], [2.0], [0.0]]))
    before = verdict_on(by_euler(), with_constant)
    after = drop_artefacts(before, Monitor())
    assert len(exponents_of(before)) == 3 and exponents_of(after) == [[1.0], [2.0]]
    # What the law leaves has a memory, so that few samples count; the law with the constant stays for the front.
    assert after.p.independent is not None and (after.p.independent < 0.5).all()
    assert len(after.rows) == 2


@pytest.mark.parametrize("damping", [1e-2, 1e-4])
def test_a_small_term_stays_that_exact_values_tell(damping: float) -> None:
    law = PowerSum(np.array([[0.0, 1.0], [-1.0, -damping]]), np.eye(2))
    times = np.linspace(0.0, 30.0, 150)
    verdict = verdict_on(series_of(law, np.array([[1.0, 0.0], [2.0, 0.0]]), [times, times]), law)
    assert drop_artefacts(verdict, Monitor()) is verdict
