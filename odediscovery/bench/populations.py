"""Simulated populations with known answers: one law with constants that vary from group to group.

A file of designs specifies the law, the varying constants and their spreads, and the starts and measurements
of the groups. A draw is right if the structure is exact, exactly the varying constants are reported to vary,
and means and spreads lie within two standard errors (or 15 %).

Peers are scored by the same rules: pysindy on all groups, pysindy on each, and a simple law for each.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from odediscovery.bench.peers import group_law, group_library
from odediscovery.bench.rows import Row, Study, Task, timed
from odediscovery.bench.summary import Cell, by, count, grouped, middle
from odediscovery.bench.systems import DATA
from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.discovery.discover import discover
from odediscovery.errors import FitError, InputError
from odediscovery.ivp.solvers import solve_until_failure
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.records import plain
from odediscovery.many.simple import LAWS, RICHER, explain
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.settings import settings_for
from odediscovery.uncertainty.newcomer import meet

COLUMNS = (
    *("id", "method", "failed", "design", "draw", "exact", "varies", "seconds", "equations", "r2", "said"),
    *("figures_right", "figures_within", "figures", "error_mixed", "error_apart", "r2_heldout", "heldout_right"),
)
PEER_COLUMNS = (
    *("id", "method", "failed", "design", "draw", "exact", "groups_exact", "groups"),
    *("seconds", "r2", "r2_heldout"),
)
# The peers.
TOGETHER, APART, SIMPLE = PEERS = "pysindy, all groups", "pysindy, each group", "simple laws, each group"
# Relative error within which an estimate is right whatever its standard error.
FIGURE_TOLERANCE = 0.15
# Six designs and a control, made for this project, on which the search for groups was developed.
DESIGNS = DATA / "populations_dev.json"


def read_designs(path: Path) -> list[Mapping[str, Any]]:
    """Read designs and controls from a file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return [*document["designs"], *document.get("controls", [])]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: expected a file of population designs ({type(error).__name__})") from None


def study(
    path: Path, draws: int, designs: Sequence[str] = (), seed: int = 0, max_seconds: float = 180.0, peers: bool = False
) -> Study:
    """The study of draws of the designs in a file, fitted by ours or by every peer."""
    every = read_designs(path)
    chosen = [one for one in every if not designs or one["id"] in designs]
    if not chosen:
        raise InputError(f"no such design; there are {', '.join(str(one['id']) for one in every)}")
    name, columns = ("populations by peers", PEER_COLUMNS) if peers else ("populations", COLUMNS)
    methods = PEERS if peers else ("ours",)
    tasks = []
    for draw, design in itertools.product(range(seed, seed + draws), chosen):
        known = {"design": design["id"], "draw": draw, "exact": False}
        known |= {"groups_exact": 0, "groups": int(design["groups"])} if peers else {"varies": False}
        fill = partial(fit_peer, design) if peers else partial(fit, design, max_seconds)
        tasks += [Task(f"{design['id']}-{draw}", method, fill, known) for method in methods]
    shared = {"measure": name, "max_seconds": max_seconds, "designs": hashlib.sha256(path.read_bytes()).hexdigest()}

    def in_words(row: Row) -> str:
        ours = "exact" if row["exact"] else "another structure"
        return f"{row['groups_exact']} of {row['groups']} groups exact" if peers else ours

    # The limit of ours ends the search, not what follows.
    return Study(name, shared, columns, tasks, max_seconds * (1.0 if peers else 2.0), in_words)


# Simulation


def simulate(design: Mapping[str, Any], draw: int) -> tuple[TimeSeries, TimeSeries, dict[str, Array]]:
    """Simulate measured groups, further held-out ones, and the constants of the former [groups]."""
    rng = np.random.default_rng([int(design["seed"]), draw])
    seen, kept = int(design["groups"]), int(design["held_out"])
    constants = {}
    for name, about in design["constants"].items():
        z = rng.standard_normal(seen)
        z = np.append((z - z.mean()) / z.std(), rng.standard_normal(kept))
        constants[name] = about["mean"] * np.exp(about["sd_log"] * z)
    each = [{name: float(value[g]) for name, value in constants.items()} for g in range(seen + kept)]
    runs = [_run(design, g, own, rng) for g, own in enumerate(each)]
    spread = np.concatenate([x for _, x in runs[:seen]]).std(axis=0)
    noisy = [_noisy(design, x, spread, rng) for _, x in runs]
    times, labels = [t for t, _ in runs], [f"g{g}" for g in range(seen + kept)]
    first, later = (
        TimeSeries.from_arrays(times[part], noisy[part], design["states"], labels=labels[part])
        for part in (slice(seen), slice(seen, None))
    )
    return first, later, {name: value[:seen] for name, value in constants.items()}


def _run(
    design: Mapping[str, Any], g: int, constants: Mapping[str, float], rng: np.random.Generator
) -> tuple[Array, Array]:
    """Simulate times and values of one group without noise."""
    end, start = float(design["t_end"]), []
    for about in (design["initial"][state] for state in design["states"]):
        given = about.get("values")
        start.append(
            given[g % len(given)] if given else about["mean"] * np.exp(about["sd_log"] * rng.standard_normal())
        )
    n = int(rng.integers(design["samples"][0], design["samples"][1] + 1))
    t = np.linspace(0.0, end, n)
    if design["times"] != "even":
        inner = np.sort(rng.uniform(0.0, 1.0, n - 2)) ** float(design["early"]) * end
        t = np.unique(np.concatenate([[0.0], inner, [end]]))
    law = law_of(design, constants)
    return t, solve_until_failure(lambda _, x: law.rhs(x), np.array(start), t, rtol=1e-9, atol=1e-10)


def terms_of(design: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any], list[float]]]:
    """The terms of all equations: index of the state, term, and its powers of all states."""
    states = design["states"]
    return [
        (i, term, [float(term["powers"].get(name, 0.0)) for name in states])
        for i, state in enumerate(states)
        for term in design["terms"][state]
    ]


def law_of(design: Mapping[str, Any], constants: Mapping[str, float]) -> PowerSum:
    """The law of a design with these constants."""
    terms, unit = terms_of(design), np.eye(len(design["states"]))
    columns = [unit[i] * term["sign"] * constants[term["constant"]] for i, term, _ in terms]
    return PowerSum(np.array(columns).T, np.array([powers for *_, powers in terms])).merged()


def _noisy(design: Mapping[str, Any], x: Array, spread: Array, rng: np.random.Generator) -> Array:
    noise, e = design["noise"], rng.standard_normal(x.shape)
    y = x * np.exp(noise["sd"] * e) if noise["kind"] == "log" else x + noise["relative"] * spread * e
    for i, state in enumerate(design["states"]):
        if "values" in design["initial"][state]:
            y[0, i] = x[0, i]
    return np.asarray(y)


def places_of_terms(design: Mapping[str, Any], law: PowerSum) -> dict[str, int] | None:
    """The index of the term of every constant of a design; None for another structure."""
    true = law_of(design, {name: float(about["mean"]) for name, about in design["constants"].items()})
    terms = list(zip(*np.nonzero(law.coefficients), strict=True))
    wanted = terms_of(design)
    if len(terms) != len(wanted) or np.count_nonzero(true.coefficients) != len(wanted):
        return None
    places = {}
    for i, term, powers in wanted:
        at = [
            place
            for place, (state, j) in enumerate(terms)
            if state == i
            and np.abs(law.exponents[j][: len(powers)] - powers).max() <= 0.1
            and np.sign(law.coefficients[state, j]) == term["sign"]
        ]
        if len(at) != 1:
            return None
        (places[term["constant"]],) = at
    return places


# Ours


def fit(design: Mapping[str, Any], max_seconds: float, row: Row) -> None:
    """Fit one draw of a design, and compare it with the truth."""
    series, later, truth = simulate(design, row["draw"])
    exact = tuple(f"{s} = measured" for s in design["states"] if "values" in design["initial"][s])
    with timed(row):
        found = discover(series, settings_for(vary="auto", starts=exact), Monitor(max_seconds))
    row |= {"equations": found.equations_text().splitlines(), "r2": plain(found.r2)}
    law = found.equations.power_sum
    places = None if law is None or found.population is None else places_of_terms(design, law)
    if places is None:
        return
    row["exact"] = True
    held, expert = _held_out(design, found, later), design.get("expert", {}).get("heldout_r2", {}).get("mixed")
    near = None if expert is None else bool(1.0 - held <= 1.25 * (1.0 - expert) + 0.002)
    row |= _constants(design, found, places, truth) | {"r2_heldout": plain(held), "heldout_right": near}


def _constants(
    design: Mapping[str, Any], found: Discovery, places: Mapping[str, int], truth: Mapping[str, Array]
) -> Row:
    """Score the constants: which vary, means and spreads, and the errors of each group."""
    assert found.population is not None
    errors, apart, said, figures = [], [], [], list[tuple[bool, bool]]()

    def judge(off: float, error: float, tolerance: float, attainable: float) -> None:
        within = off <= 2.0 * (error if np.isfinite(error) else 0.0)
        figures.append((off <= max(tolerance, 2.0 * min(error, attainable)), within))

    for name, about in design["constants"].items():
        one = next(one for one in found.population.constants if places[name] in one.terms)
        sd = about["sd_log"]
        said.append((bool(sd > 0), one.varies))
        attainable = 2.0 * max(sd, 0.02) / np.sqrt(len(found.population.labels))
        judge(abs(np.log(one.mean / about["mean"])), one.mean_error / one.mean, FIGURE_TOLERANCE, attainable)
        if sd > 0:
            error = one.sd_log_error if np.isfinite(one.sd_log_error) else 0.0
            judge(abs(one.sd_log - sd), error, FIGURE_TOLERANCE * sd, attainable)
            errors.append(np.mean(np.log(one.values / truth[name]) ** 2))
            apart.append(np.mean(np.log(one.apart / truth[name]) ** 2))
    return {
        "varies": all(a == b for a, b in said),
        "said": said,
        "figures_right": sum(bool(right) for right, _ in figures),
        "figures_within": sum(bool(within) for _, within in figures),
        "figures": len(figures),
        "error_mixed": float(np.sqrt(np.mean(errors))) if errors else None,
        "error_apart": float(np.sqrt(np.mean(apart))) if apart else None,
    }


def _held_out(design: Mapping[str, Any], found: Discovery, later: TimeSeries) -> float:
    """R2 on new groups given two samples: the first, and one after two fifths."""
    law, population = found.equations.power_sum, found.population
    assert law is not None and population is not None
    squares, values = 0.0, []
    for run in later.trajectories:
        second = max(int(np.argmin(np.abs(run.time - 0.4 * float(design["t_end"])))), 1)
        known = {
            s: float(run.values[0, i]) for i, s in enumerate(design["states"]) if population.starts[s][0] == "known"
        }
        rest = ~np.isin(np.arange(len(run.time)), (0, second))
        few = replace(run, values=np.where(rest[:, None], np.nan, run.values))
        met = meet(law, population, replace(later, trajectories=(few,)), run.time, known)
        squares += float(np.sum((met.values - run.values)[rest] ** 2))
        values.append(run.values[rest])
    pooled = np.concatenate(values)
    return float(1.0 - squares / np.sum((pooled - pooled.mean(axis=0)) ** 2))


# Peers


def fit_peer(design: Mapping[str, Any], row: Row) -> None:
    """Fit one draw of a design by a peer: exact structures, and R2 of curves from the first samples."""
    series, later, _ = simulate(design, row["draw"])
    with timed(row):
        laws = _laws(design, series, row["method"])
    exact = [law is not None and places_of_terms(design, law) is not None for law in laws]
    row |= {"exact": all(exact), "groups_exact": sum(exact), "groups": len(exact), "r2": plain(_r2(series, laws))}
    if row["method"] == TOGETHER:
        row["r2_heldout"] = plain(_r2(later, laws[:1] * len(later.trajectories)))


def _laws(design: Mapping[str, Any], series: TimeSeries, method: str) -> list[PowerSum | None]:
    """Find the law of every group; None without a law."""
    groups = [(run.time, run.values) for run in series.trajectories]
    if method == SIMPLE:
        if series.n_states > 1:
            raise InputError("simple laws have one state")
        rows = explain(list(map(str, range(len(groups)))), [(t, x[:, 0]) for t, x in groups])
        return [_simple(row) if row["outcome"] == "explained" else None for row in rows]
    exponents = group_library(series.n_states, [powers for *_, powers in terms_of(design)])
    if method == TOGETHER:
        return [group_law(groups, exponents)] * len(groups)
    found: list[PowerSum | None] = []
    for group in groups:
        try:
            found.append(group_law([group], exponents))
        except (FitError, ValueError, np.linalg.LinAlgError):
            found.append(None)
    return found


def _simple(row: Mapping[str, Any]) -> PowerSum:
    """The law of a row of `explain`."""
    law = (LAWS | RICHER)[row["law"]]
    return law.with_exponents([row["exponent"]] * len(law.free)).law(np.log(row["constants"]))


def _r2(series: TimeSeries, laws: Sequence[PowerSum | None]) -> float:
    """R2 of all groups, each curve from the first sample of its group, which is constant without a law."""
    values = np.concatenate([run.values[1:] for run in series.trajectories])
    curves = np.concatenate([_curve(run, law)[1:] for run, law in zip(series.trajectories, laws, strict=True)])
    return float(1.0 - np.sum((values - curves) ** 2) / np.sum((values - values.mean(axis=0)) ** 2))


def _curve(run: Trajectory, law: PowerSum | None) -> Array:
    if law is None:
        return np.tile(run.values[0], (len(run.time), 1))
    most = 10.0 * np.abs(run.values).max()
    with np.errstate(all="ignore"):  # a wrong law may leave the domain of its powers
        found = solve_until_failure(lambda _, x: law.rhs(x), run.values[0], run.time, rtol=1e-7, atol=1e-9)
    return np.nan_to_num(np.clip(found, -most, most), nan=most)


# Tables


def part(key: str, of: str = "", *, exact: bool = True) -> Cell:
    """A cell such as "3/20": the sum of a column over that of another one, or over all rows."""

    def cell(rows: Sequence[Row]) -> str:
        own = [row for row in rows if row["exact"] or not exact]
        return f"{sum(row[key] for row in own)}/{sum(row[of] for row in own) if of else len(rows)}"

    return cell


def summary(rows: Sequence[Row]) -> str:
    """Write the table of a measurement in Markdown, and a summary of all draws."""
    columns = {
        "exact": part("exact"),
        "vary right": lambda own: f"{count(own, 'varies')}/{count(own, 'exact')}",
        "figures right": part("figures_right", "figures"),
        "within two errors": part("figures_within", "figures"),
        "nearer than apart": _nearer,
        "R2 held out": middle("r2_heldout", ".3f", ""),
        "seconds": middle("seconds"),
    }
    parts = [grouped("design", by(rows, "design") | {"all": rows}, columns)]
    said = np.array([pair for row in rows if row["exact"] for pair in row["said"]], dtype=bool).reshape(-1, 2)
    both, (true, claimed) = int(said.all(axis=1).sum()), np.maximum(said.sum(axis=0), 1)
    parts.append(f"Constants said to vary: precision {both / claimed:.3f}, recall {both / true:.3f}.")
    judged = [row["heldout_right"] for row in rows if row["heldout_right"] is not None]
    if judged:
        parts.append(
            f"New groups from two samples: {sum(judged)} of {len(judged)} draws leave at most 1.25 times what the "
            "mixed model of the true law leaves (+ 0.002)."
        )
    return "\n\n".join(parts) + "\n"


def _nearer(rows: Sequence[Row]) -> str:
    """Count constants that are more accurate than those of separate fits, with the median ratio of the errors."""
    pairs = [(row["error_mixed"], row["error_apart"]) for row in rows if row["error_mixed"]]
    ratio = f" ({np.median([a / b for a, b in pairs]):.3f})" if pairs else ""
    return f"{sum(a <= b for a, b in pairs)}/{len(pairs)}{ratio}"


def summary_of_peers(rows: Sequence[Row]) -> str:
    """Write the table of a comparison in Markdown."""
    columns = {
        "all exact": part("exact"),
        "groups exact": part("groups_exact", "groups", exact=False),
        "R2": middle("r2", ".3f", ""),
        "R2 held out": middle("r2_heldout", ".3f", ""),
        "seconds": middle("seconds", ".3f", ""),
    }
    return grouped(("design", "method"), by(rows, "design", "method"), columns) + "\n"
