"""How often laws with a probability are right, and the weights of that probability.

Random laws of all families and of published mechanisms, exact, rounded and noisy, short tables of each, and series that
no law explains are fitted, and every row of every front is compared with the truth. A row of the study has the evidence
on each row of the front (`discovery.reliability.FEATURES`), so the weights can be fitted to it:

    maximise  sum_r u_r (y_r ln p_r + (1 - y_r) ln(1 - p_r)) - |w|^2 / 2        y_r = 1 if row r is right

for numbers of unit spread; u_r = 1 for printed laws, and the other rows of a front together count as one.

    expected calibration error = sum over ten bins of (fits in the bin / fits) |mean probability - share of right laws|

Source of the error: Naeini, Cooper and Hauskrecht, AAAI 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from odediscovery.bench.draws import KINDS, Lawless
from odediscovery.bench.random_laws import FAMILIES, MECHANISMS, random_system, random_systems
from odediscovery.bench.rows import Row, Study, Task, fit_into
from odediscovery.bench.scores import exact_and_coef, same_law
from odediscovery.bench.summary import table
from odediscovery.bench.systems import Protocol, SuiteSystem, training_data, true_trajectory
from odediscovery.data.series import TimeSeries
from odediscovery.discovery.reliability import EVIDENCE, FEATURES, probability_of
from odediscovery.laws.equations import Equations
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.settings import settings_for

# Noise and digits of random laws, and of mechanisms, of which there are as many as of all families together.
LEVELS: tuple[tuple[float, int | None], ...] = ((0.0, None), (0.0, 4), (0.001, None), (0.01, None), (0.05, None))
LEVELS_OF_MECHANISMS: tuple[tuple[float, int | None], ...] = ((0.0, None), (0.0, 4), (0.01, None))
# Samples and noise of the single trajectory of a short table, as many published ones are.
SHORT, SHORT_NOISE = 12, 0.02
BINS = 10


def study(each: int, seed: int, max_seconds: float) -> Study:
    """The study of `each` random laws of a family at each level."""
    tasks = [Task(id, "ours", fill) for id, fill in _fits(each, seed, max_seconds)]
    shared = {"measure": "reliability", "each": each, "seed": seed, "max_seconds": max_seconds}
    columns = ("id", "method", "failed", "outcome", "seconds", "rows", "equations")
    return Study("reliability", shared, columns, tasks, max_seconds, lambda row: "right" if is_right(row) else "wrong")


def _fits(each: int, seed: int, max_seconds: float) -> Iterator[tuple[str, Any]]:
    families = random_systems(seed, list(FAMILIES), each)
    mechanisms = random_systems(seed, [MECHANISMS], each * len(FAMILIES))
    for systems, levels in (families, LEVELS), (mechanisms, LEVELS_OF_MECHANISMS):
        for sigma, digits in levels:
            protocol = Protocol(sigma, digits=digits, trajectories=2, seed=seed)
            level = f"{digits} digits" if digits else f"{sigma:g}"
            for system in systems:
                yield f"{system.id}, {level}", partial(fit_law, system, protocol, max_seconds)
    protocol = Protocol(SHORT_NOISE, seed=seed)
    for system in (random_system(seed, family, i, SHORT) for family in FAMILIES for i in range(each)):
        yield f"{system.id}, {SHORT} samples", partial(fit_law, system, protocol, max_seconds)
    for kind in KINDS:
        for draw in range(seed, seed + 2 * each):
            yield f"{kind}-{draw}", partial(fit_lawless, kind, draw, max_seconds)


def fit_law(system: SuiteSystem, protocol: Protocol, max_seconds: float, row: Row) -> None:
    """Fit a random law, and say which rows of the front are the truth."""
    clean = np.concatenate([true_trajectory(system, k) for k in range(len(system.starts))])

    def is_truth(law: Equations) -> bool:
        return exact_and_coef(same_law(law, system.equations, clean, system.apart), protocol.is_clean)[0]

    _fit(row, training_data(system, protocol), protocol.seed, max_seconds, is_truth)


def fit_lawless(kind: str, draw: int, max_seconds: float, row: Row) -> None:
    """Fit a series that no law explains."""
    _fit(row, Lawless(kind=kind).data(draw), draw, max_seconds, lambda _: False)


def _fit(row: Row, series: TimeSeries, seed: int, max_seconds: float, is_truth: Callable[[Equations], bool]) -> None:
    found = fit_into(row, series, settings_for(seed=seed, max_seconds=max_seconds))
    known = next(line[EVIDENCE] for line in found.log if line.get("event") == EVIDENCE)
    row["rows"] = [
        {"features": [round(value, 4) for value in features], "right": is_truth(one.equations), "chosen": one.selected}
        for one, features in zip(found.front, known, strict=True)
    ]


def is_right(row: Row) -> bool:
    """Whether the printed law is the truth."""
    return any(one["right"] and one["chosen"] for one in row["rows"])


def printed_laws(rows: Sequence[Row]) -> tuple[Array, Mask]:
    """The probabilities of the printed laws by the weights of today, and whether they are right [fits]."""
    chosen = [next(one for one in row["rows"] if one["chosen"]) for row in rows if row["rows"]]
    p, right = [probability_of(one["features"]) for one in chosen], [one["right"] for one in chosen]
    return np.array(p), np.array(right, dtype=bool)


def bins_of(p: Array, right: Mask) -> list[tuple[int, float, float]]:
    """Number of fits, mean probability and share of right laws of every bin that is not empty.

    >>> bins_of(np.array([0.05, 0.92, 0.98]), np.array([False, True, True]))
    [(1, 0.05, 0.0), (2, 0.95, 1.0)]
    """
    place = np.minimum((p * BINS).astype(int), BINS - 1)
    of = [place == k for k in range(BINS)]
    return [(int(m.sum()), float(p[m].mean()), float(right[m].mean())) for m in of if m.any()]


def calibration_error(p: Array, right: Mask) -> float:
    """The expected calibration error."""
    return sum(n * abs(mean - share) for n, mean, share in bins_of(p, right)) / len(p)


def fit_weights(rows: Sequence[Row]) -> tuple[float, Array]:
    """The intercept and the weights that these rows would give."""
    every = [(one, 1.0 if one["chosen"] else 1.0 / (len(row["rows"]) - 1)) for row in rows for one in row["rows"] or ()]
    f = np.array([one["features"] for one, _ in every])
    y, u = np.array([one["right"] for one, _ in every]), np.array([weight for _, weight in every])
    mean, spread = f.mean(axis=0), np.maximum(f.std(axis=0), 1e-6)
    fitted = LogisticRegression(tol=1e-8).fit((f - mean) / spread, y, u)
    weights: Array = fitted.coef_[0] / spread
    return float(fitted.intercept_[0] - weights @ mean), weights


def markdown(rows: Sequence[Row], command: str) -> str:
    """The table of bins, claims with much or little probability, and the weights that these rows would give."""
    done = [row for row in rows if row["rows"]]
    p, right = printed_laws(done)
    lines = [(str(n), f"{mean:.2f}", f"{share:.2f}") for n, mean, share in bins_of(p, right)]
    sure = p >= 0.9
    intercept, weights = fit_weights(done)
    fitted = [("(intercept)", f"{intercept:.2f}")]
    fitted += [(f.says, f"{w:.2f}") for f, w in zip(FEATURES, weights, strict=True)]
    return (
        f"# reliability\n\n`{command}`\n\n{len(done)} fits, {int(right.sum())} printed laws right. Expected "
        f"calibration error {calibration_error(p, right):.3f}. Of {int(sure.sum())} laws with a probability of 0.9 or "
        f"more, {int(right[sure].sum())} are right; of {int((~right).sum())} wrong laws, "
        f"{int((~right & (p > 0.5)).sum())} have more than 0.5.\n\n"
        f"{table(('fits', 'mean probability', 'share right'), lines)}\n\n"
        f"Weights that these rows would give:\n\n{table(('evidence', 'weight'), fitted)}\n"
    )
