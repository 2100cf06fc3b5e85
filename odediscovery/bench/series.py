"""Measured series by `discover`, compared with the models in use for them.

Both are fitted, with start values, to the same samples, with the same last share held out.
A refusal (`poor-fit`) is a result, with its reasons.

    R2 = 1 - sum (x - x_sim)^2 / sum (x - mean x)^2,    off^2 = <(x - x_sim)^2> / <(x - mean x)^2>

over all states, R2 about the means of the scored samples; `off` is the error of held-out samples over
the spread of fitted ones, since a tail that hardly changes has almost no spread. The series are also
written as tables that `odediscovery fit` reads.

A found law is compared with the experts' law by a rule that was fixed before its use. With the sum of
squared residuals S_i of state i over n_i samples, and k constants without start values,

    B = sum_i n_i ln(S_i / n_i) + k ln(sum_i n_i)

of both laws on the same fitted samples:

1. failed             no equations, or an error
2. refused            the outcome is poor-fit; honest if the experts' law too fails to explain over 5 % of a state
3. right              the experts' terms: the same monomials with the same signs in every equation
4. as good            B at most 6 above the experts' with at most 1.5 times their constants
5. too complex        B at most 6 above the experts' with more constants than that
6. wrong, stopped     B more than 6 above the experts', and the time was up
7. wrong but confident  the same, claimed as a law
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from odediscovery.bench.rows import Row, Study, Task, claim_folder, timed
from odediscovery.bench.scores import same_terms
from odediscovery.bench.series_cases import CASES, STARTS, Case, NamedLaw, least_squares_fit
from odediscovery.bench.summary import Cell, Told, by, grouped, listed, longest, middle, size, text_of
from odediscovery.bench.systems import check_names
from odediscovery.data.series import TimeSeries, Trajectory, pooled, write_csv
from odediscovery.discovery.discover import discover
from odediscovery.discovery.task import r2_of, relative_error, split
from odediscovery.laws.equations import Equations
from odediscovery.laws.records import plain
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.arrays import Array
from odediscovery.settings import settings_for

VERDICTS = (
    "right",
    "as good",
    "too complex",
    "wrong, stopped",
    "wrong but confident",
    "honest refusal",
    "refused, the experts' law fits",
    "failed",
)


def verdict(ours: Row, expert: Row, same_terms: bool) -> str:
    """Apply the rule above to the rows of two laws."""
    if ours["failed"] is not None:
        return "failed"
    if ours["outcome"] == "poor-fit":
        fits = all(r2 is not None and r2 >= 0.95 for r2 in expert["fitted_each"].values())
        return "refused, the experts' law fits" if fits else "honest refusal"
    if same_terms:
        return "right"

    def criterion(row: Row) -> float:
        if row["constants"] is None or row["misfit"] is None:
            return math.inf
        return float(row["misfit"] + row["constants"] * math.log(max(row["samples"], 2)))

    if criterion(ours) > criterion(expert) + 6.0:
        return "wrong, stopped" if ours["outcome"] == "stopped" else "wrong but confident"
    few = ours["constants"] is not None and ours["constants"] <= 1.5 * max(expert["constants"] or 1, 1)
    return "as good" if few else "too complex"


def has_terms_of(model: NamedLaw, ours: Equations) -> bool:
    """Whether equations have the terms of a named law, for any values of its positive constants."""
    if set(model.sides) != set(ours.states):
        return False
    # Use unrelated values, so that no two terms cancel.
    values = {name: 0.7 + 0.1234567 * k for k, name in enumerate(model.ranges)}
    a, b = Equations.parse(ours.states, model.sides, constants=values).power_sum, ours.power_sum
    return a is not None and b is not None and same_terms(b, a)


# The naive method: the last fitted value persists.
LAST = "last value"
# Ours with expert knowledge.
INFORMED = "informed"
OURS = ("ours", INFORMED)
# The columns of a row: `constants` without start values, R2 of the samples that were fitted and of
# held-out ones (`each`: by state), `fitted_each`, `misfit` and `samples` of the fitted ones (see `verdict`),
# `notes` the notes of the fit.
COLUMNS = (
    *("id", "method", "failed", "outcome", "constants", "r2", "r2_heldout", "off", "each", "fitted_each"),
    *("misfit", "samples", "seconds", "equations", "notes"),
)

# Fitted samples, and held-out ones.
Sides: TypeAlias = tuple[TimeSeries, TimeSeries | None]


def fit(series: TimeSeries, seed: int, max_seconds: float, row: Row) -> None:
    """Fit one case by one method, `ours` or the name of a model."""
    case, method = CASES[row["id"]], row["method"]
    sides = split(series, case.options.get("holdout", 0.0))
    with timed(row):
        if method in OURS:
            told = {**case.options, **(case.informed or {} if method == INFORMED else {})}
            found = discover(series, settings_for(seed=seed, max_seconds=max_seconds or None, **told))
            row |= _ours(sides, found)
        elif method == LAST:
            row |= scored(sides, lambda run, times: np.tile(run.values[-1], (len(times), 1)))
            row |= {"outcome": "-", "constants": 0}
        else:
            row |= _named(sides, case.models[method], seed)


def run_cases(
    folder: Path, ids: Sequence[str] | None, data: Path, *, seed: int = 0, max_seconds: float = 0.0, **where: Any
) -> list[Row]:
    """Fit the cases that are not yet in `folder` by all their methods, and return all rows."""
    chosen = list(CASES) if ids is None else list(ids)
    check_names("series", chosen, CASES)
    tables = {id: CASES[id].load(data) for id in chosen}
    shared = {"measure": "series", "seed": seed, "max_seconds": max_seconds}
    tasks = [
        Task(id, method, partial(fit, series, seed, max_seconds), {"each": {}, "fitted_each": {}, "notes": []})
        for id, series in tables.items()
        for method in methods(CASES[id])
    ]
    # A fit without a limit takes at most a minute of processor time, including its evaluation.
    study = Study("series", shared, COLUMNS, tasks, max_seconds or 60.0, lambda row: f"R2 {_figure(row['r2'])}")
    claim_folder(folder, shared)
    for id, series in tables.items():
        write_csv(series, folder / f"{id}.csv")
    return study.run(folder, **where)


def methods(case: Case) -> tuple[str, ...]:
    """Ours, the named models, and, if samples are held out, the persistence of the last value."""
    informed = () if case.informed is None else (INFORMED,)
    return ("ours", *informed, *case.models, *([LAST] if case.options.get("holdout") else []))


def _ours(sides: Sides, found: Discovery) -> Row:
    law, own = found.equations, [found.equations.states.index(state) for state in sides[0].states]
    starts = {run.label: x0 for run, x0 in zip(found.series.trajectories, found.initial_values, strict=True)}
    scores = scored(sides, lambda run, times: law.simulate(starts[run.label], times)[:, own])
    told = {"outcome": found.outcome, "constants": fitted_numbers(found), "equations": law.texts()}
    return scores | told | {"notes": list(found.messages)}


def _named(sides: Sides, model: NamedLaw, seed: int) -> Row:
    constants, found, ended = least_squares_fit(model, sides[0], seed)
    starts = {run.label: x0 for run, x0 in zip(sides[0].trajectories, found, strict=True)}
    seen = len(sides[0].states)
    scores = scored(sides, lambda run, times: model.simulate(constants, starts[run.label], times)[:, :seen])
    values = ", ".join(f"{name} = {c:.5g}" for name, c in zip(model.ranges, constants, strict=True))
    told = {"outcome": f"{ended} of {STARTS} starts", "constants": len(constants)}
    return scores | told | {"notes": [f"{model.text} with {values}"]}


def scored(sides: Sides, solution: Callable[[Trajectory, Array], Array]) -> Row:
    """R2 of fitted and held-out samples for a `solution`, the error of the latter, and what `verdict` needs."""
    earlier, later = sides

    def paths(scored: TimeSeries) -> list[Array]:
        pairs = zip(earlier.trajectories, scored.trajectories, strict=True)
        return [solution(run, np.union1d(run.time[:1], at.time))[-len(at.time) :] for run, at in pairs]

    def by_state(each: Array) -> dict[str, float | None]:
        return {s: plain(r2) for s, r2 in zip(earlier.states, each, strict=True)}

    curves, values = paths(earlier), pooled(earlier)
    whole, each = r2_of(earlier, curves)
    left, n = values - np.concatenate(curves), np.isfinite(values).sum(axis=0)
    squares = np.where(np.isfinite(left).sum(axis=0) == n, np.nansum(left**2, axis=0), np.inf)
    # Limit the accuracy to the digits of written values.
    floor = (1e-9 * np.nanmax(np.abs(values), axis=0)) ** 2
    misfit = plain(float(np.sum(n * np.log(squares / n + floor))))
    told: Row = {"r2": plain(whole), "misfit": misfit, "samples": int(n.sum()), "fitted_each": by_state(each)}
    if later is not None:
        ends = paths(later)
        whole, each = r2_of(later, ends)
        told |= {"r2_heldout": plain(whole), "off": plain(relative_error(earlier, later, ends))}
    return told | {"each": by_state(each)}


def fitted_numbers(found: Discovery) -> int | None:
    """Number of fitted constants without start values; None if they cannot be counted."""
    return numbers_of(found.equations) if found.named is None else len(found.named.names)


def numbers_of(found: Equations) -> int | None:
    """Number of fitted coefficients and exponents; None for laws that are not sums of products. If the equations add
    up to zero, as those of S, I and R, each follows from the others."""
    law, errors = found.power_sum, found.standard_errors
    if law is None:
        return None if found.law is None or errors is None else int(sum((e > 0).sum() for e in errors.constants))
    a, w = law.coefficients, law.exponents
    sizes = np.abs(a).sum(axis=0)
    closed = len(a) > 1 and bool((np.abs(a.sum(axis=0)) <= 1e-9 * sizes).all())
    free = (a != 0).sum(axis=0) - closed
    exponents = (w != np.round(w)) if errors is None else (np.nan_to_num(errors.exponents) > 0)
    return int(free.sum() + exponents.sum())


def judged(rows: Sequence[Row]) -> list[Row]:
    """Add the verdict relative to the experts' first model to rows (see `verdict`), a dash without one."""
    known = {(row["id"], row["method"]): row for row in rows}
    told = []
    for row in rows:
        name, model = next(iter(CASES[row["id"]].models.items()))
        expert = known.get((row["id"], name), {"failed": True})
        compared = row["method"] in OURS and expert["failed"] is None
        same = compared and bool(row["equations"]) and has_terms_of(model, _equations(row))
        told.append(row | {"verdict": verdict(row, expert, same) if compared else "-"})
    return told


_LINES: Mapping[str, Told] = {
    "series": text_of("id"),
    "method": text_of("method"),
    "constants": lambda row: "-" if row["constants"] is None else str(row["constants"]),
    "R2": lambda row: _figure(row["r2"]),
    "R2 held out": lambda row: _figure(row["r2_heldout"]),
    "off": lambda row: "-" if row["off"] is None else f"{row['off']:.1%}",
    "R2 of each state": lambda row: ", ".join(f"{s} {_figure(r2)}" for s, r2 in row["each"].items()) or "-",
    "outcome": lambda row: row["failed"] or row["outcome"],
    "verdict": text_of("verdict"),
    "s": lambda row: f"{row['seconds']:.0f}",
}


def markdown(rows: Sequence[Row], seed: int, max_seconds: float) -> str:
    """Write the counts of verdicts, a line for each series and method, then the found laws."""
    rows = judged(rows)
    counts = {"series": size, **counts_of_verdicts(), "median s": middle("seconds"), "longest s": longest}
    parts = [
        "# series",
        f"`odediscovery bench series --seed {seed} --max-seconds {max_seconds:g}`",
        grouped("method", by([row for row in rows if row["verdict"] != "-"], "method"), counts),
        listed(_LINES, rows),
        "R2 of each state is that of the samples kept back, where there are any; `off` is "
        "their error over the spread of those fitted; `s` processor seconds.",
    ]
    for row in (row for row in rows if row["equations"] or row["notes"]):
        lines = [f"## {row['id']}, {row['method']}", ""]
        if row["equations"]:
            lines += [*(f"    {line}" for line in _equations(row).pretty(4).splitlines()), ""]
        parts.append("\n".join([*lines, *(f"- {note}" for note in row["notes"])]))
    return "\n\n".join(parts) + "\n"


def _equations(row: Row) -> Equations:
    return Equations.parse(list(row["equations"]), row["equations"])


def counts_of_verdicts() -> dict[str, Cell]:
    """A column for each verdict, with its count."""

    def count_of(word: str, rows: Sequence[Row]) -> str:
        return str(sum(row["verdict"] == word for row in rows))

    return {word: partial(count_of, word) for word in VERDICTS}


def _figure(r2: float | None) -> str:
    return "-" if r2 is None else f"{r2:.3f}" if abs(r2) < 100 else f"{r2:.2g}"
