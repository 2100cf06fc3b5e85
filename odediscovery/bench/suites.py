"""A suite run by one or more methods: one row for each system, kept as soon as it is done, and its tables.

    training data -> method -> equations -> scores -> row

A method is a function of the noisy training series only; the truth is used only afterwards.
Failures are rows with their reasons, since a benchmark without failures is meaningless. Saved rows
of several folders can be shown on one page, conditions and methods side by side.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from odediscovery.bench import summary
from odediscovery.bench.rows import Row, Study, Task, commit_of, exact_or_not, read_rows, read_study, timed
from odediscovery.bench.scores import best_recon, score
from odediscovery.bench.summary import (
    GOOD,
    MEDIAN_AND_LATE,
    NEAR_PERFECT,
    Cell,
    by,
    figure,
    grouped,
    recon_and_gen,
    table,
)
from odediscovery.bench.systems import Protocol, SuiteSystem, choose, load_suite, training_data
from odediscovery.data.series import TimeSeries
from odediscovery.discovery.discover import discover
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.laws.records import plain
from odediscovery.settings import settings_for

# Equations over the states of the series, how the search ended, and, of a method that offers several laws,
# all of them.
Answer: TypeAlias = tuple[Equations, str] | tuple[Equations, str, Sequence[Equations]]
# (series, seconds it may take, seed) -> answer.
Method: TypeAlias = Callable[[TimeSeries, float, int], Answer]

# `outcome` is how the search ended, `recon` and `gen` are None where the equations cannot be integrated,
# `recon_front` is the best `recon` of all laws that the method offers, None where it offers one;
# `complexity` counts nodes of the expression trees, `seconds` are the processor's in the method.
COLUMNS = (
    *("id", "method", "states", "representation", "failed", "outcome", "recon", "recon_front", "gen"),
    *("exact", "coef", "complexity", "seconds", "equations"),
)


def ours(series: TimeSeries, max_seconds: float, seed: int, **options: Any) -> Answer:
    """Run `discover` with its default recipe; the answer includes all laws of its front."""
    found = discover(series, settings_for("default", seed=seed, max_seconds=max_seconds, **options))
    return found.equations, found.outcome, [row.equations for row in found.front]


def untrained(series: TimeSeries, max_seconds: float, seed: int) -> Answer:
    """Run `discover` without networks, to measure the contribution of trained members."""
    return ours(series, max_seconds, seed, members=0)


def fit(system: SuiteSystem, protocol: Protocol, max_seconds: float, solve: Method, row: Row) -> None:
    """Fill the row of one system for one method."""
    series = training_data(system, protocol)
    with timed(row):
        equations, outcome, *offered = solve(series, max_seconds, protocol.seed)
    row |= {"outcome": outcome, "equations": equations.texts()}
    scores = score(equations, system, protocol)
    row |= asdict(scores) | {"recon": plain(scores.recon), "gen": plain(scores.gen)}
    if offered:
        row["recon_front"] = plain(max(best_recon(offered[0], system, protocol), scores.recon))


def study_of(
    suite: str,
    protocol: Protocol,
    max_seconds: float,
    methods: Mapping[str, Method],
    *,
    ids: Sequence[str] | None = None,
    systems: Sequence[SuiteSystem] | None = None,
) -> Study:
    """The study of a suite by some methods: of all its systems, those with some ids, or other `systems`."""
    every, asked = systems or list(load_suite(suite).values()), systems or choose(suite, ids)
    most = min(system.trainable for system in every)
    if protocol.trajectories > most:
        raise InputError(f"--trajectories {protocol.trajectories}: systems of {suite} have at most {most} to train on")
    tasks = []
    for (name, solve), system in itertools.product(methods.items(), asked):
        known = {"states": len(system.states), "representation": system.representation, "exact": False, "coef": False}
        tasks.append(Task(system.id, name, partial(fit, system, protocol, max_seconds, solve), known))
    shared = {"suite": suite, **asdict(protocol), "max_seconds": max_seconds}

    def in_words(row: Row) -> str:
        return f"{exact_or_not(row)}, {recon_and_gen(row)}"

    return Study(suite, shared, COLUMNS, tasks, max_seconds, in_words, [system.id for system in every])


# Tables of one suite

_ABOUT = """\
- RECON: R2 of the found equations from the training start, against the clean whole trajectory (the worst of several).
- GEN: the same from a start that was not trained on.
- EXACT: the true terms and no others; exponents and inner constants within 0.02 on clean and 0.1 on noisy data.
- COEF: exact, and all coefficients within 5 %.
- nodes: median of the nodes of the expression trees.
- failed: no equations, counted as a miss everywhere."""
# The columns of the table of systems.
_SYSTEM: Mapping[str, summary.Told] = {
    "system": summary.text_of("id"),
    "method": summary.text_of("method"),
    "RECON": lambda row: figure(row["recon"]),
    "GEN": lambda row: figure(row["gen"]),
    "EXACT": summary.yes_if("exact"),
    "COEF": summary.yes_if("coef"),
    "nodes": lambda row: "-" if row["complexity"] is None else str(row["complexity"]),
    "s": lambda row: f"{row['seconds']:.1f}",
    "ended": lambda row: "failed" if row["failed"] else row["outcome"],
    "equations": summary.printed,
}


def markdown(study: Mapping[str, Any], rows: Sequence[Row], systems: int) -> str:
    """Write the tables of one suite: by method, by representation, and by system."""
    columns: dict[str, Cell] = {
        "systems": lambda own: summary.size(own) if len(own) == systems else f"{len(own)} of {systems}",
        **{
            f"{key.upper()} > {bound:g}": summary.number_and_share(key, bound)
            for key in ("recon", "gen")
            for bound in (GOOD, NEAR_PERFECT)
        },
        "EXACT": summary.number_and_share("exact"),
        "COEF": summary.number_and_share("coef"),
        "failed": summary.number("failed"),
        "nodes": summary.middle("complexity", "g"),
        "median s": summary.middle("seconds"),
        "total s": summary.total_seconds,
    }
    parts = [f"# {study['suite']}\n\n`odediscovery bench {study['suite']} {summary.options_of(study)}`"]
    parts.append(grouped("method", by(rows, "method"), columns))
    if len(by(rows, "representation")) > 1:
        # The representation shows which laws a method can find.
        groups = by(rows, "method", "representation")
        parts.append(grouped(("method", "representation"), groups, columns | {"systems": summary.size}))
    parts += [_ABOUT, summary.listed(_SYSTEM, rows)]
    return "\n\n".join(parts) + "\n"


# Kept rows of suites as one page

# Kinds of suites in the order of the page, in separate tables.
KINDS = {
    "development": "Systems that the engine was developed on",
    "public": "Public systems: the half of ODEBench that the engine was developed on",
    "random-development": "Random laws, of seeds below 1000, which were developed on",
    "random": "Random laws, of seeds that nobody developed on",
}


def kind_of(study: Mapping[str, Any]) -> str:
    """The table of the page to which a study belongs."""
    if study["suite"] == "random":
        return "random" if study["seed"] >= 1000 else "random-development"
    return "public" if study["suite"] == "odebench" else "development"


def side_by_side(folders: Sequence[Path], sizes: Mapping[str, int]) -> str:
    """Write saved folders as tables, one per kind of suite, with the methods of a condition side by side."""
    names, rows = [*sizes, "random"], list[Row]()
    for folder in _folders_of_suites(folders, names):
        study, own = _kept(folder, names)
        about = {
            "kind": kind_of(study),
            "folder": folder,
            "place": (names.index(study["suite"]), *(study[key] for key in ("sigma", "drop", "trajectories", "seed"))),
            "condition": _condition(study),
            "limit": f"{study['max_seconds']:g}" if "max_seconds" in study else "-",
            "machine": _machine(study),
            "commit": str(study.get("commit") or commit_of(folder / "rows.jsonl") or "unknown"),
        }
        for method, of_it in by(own, "method").items():
            whole = sizes.get(study["suite"], len(of_it))
            label = method if len(of_it) == whole else f"{method}, {len(of_it)} of {whole} systems"
            rows += [{"recon_front": None, **row, **about, "label": label} for row in of_it]
    rows.sort(key=lambda row: (row["place"], row["method"] != "ours"))
    # Columns that old rows would fill with dashes are left out.
    columns = {t: c for t, c in _PAGE.items() if t not in _NEWER or any(c([row]) != "-" for row in rows)}
    kinds, parts = by(rows, "kind"), []
    for kind in (kind for kind in KINDS if kind in kinds):
        # Two folders of one condition, such as of two commits, have separate lines.
        groups = by(kinds[kind], "condition", "label", "folder")
        lines = [(*name[:2], *(cell(group) for cell in columns.values())) for name, group in groups.items()]
        parts.append(f"## {KINDS[kind]}\n\n{table(('condition', 'method', *columns), lines)}")
    commits = {row["commit"] for row in rows if row["method"] == "ours"}
    if commits:
        many = f"Rows of ours are of {len(commits)} commits; study.json of each folder says which."
        parts.append(many if len(commits) > 1 else f"All rows of ours are of commit {min(commits)}.")
    return "\n\n".join(parts)


def _best_of_the_front(rows: Sequence[Row]) -> str:
    offered = any(row["recon_front"] is not None for row in rows)
    return str(summary.count(rows, "recon_front", GOOD)) if offered else "-"


_PAGE: Mapping[str, Cell] = {
    "EXACT": summary.hits("exact"),
    "RECON (R2 > 0.9)": summary.number("recon", GOOD),
    "best of the front": _best_of_the_front,
    "RECON > 0.999": summary.number("recon", NEAR_PERFECT),
    "GEN": summary.number("gen", GOOD),
    **MEDIAN_AND_LATE,
    "longest s": summary.longest,
    "limit s": lambda own: own[0]["limit"],
    "machine ms": lambda own: own[0]["machine"],
    "commit": lambda own: own[0]["commit"],
}
_NEWER = ("best of the front", "machine ms")


def _machine(study: Mapping[str, Any]) -> str:
    """Milliseconds of the machine's reference, a dash if not measured."""
    machine = study.get("machine")
    taken = machine.get("reference_seconds") if isinstance(machine, dict) else None
    return f"{1000 * taken:.1f}" if isinstance(taken, int | float) else "-"


def _folders_of_suites(folders: Sequence[Path], names: Sequence[str]) -> list[Path]:
    """The folders with rows, and in other folders those within that are of a suite."""
    found: list[Path] = []
    for folder in folders:
        below = [] if (folder / "rows.jsonl").is_file() else sorted(folder.glob("*/rows.jsonl"))
        of_suites = [path.parent for path in below if (read_study(path.parent) or {}).get("suite") in names]
        found += of_suites or [folder]
    return found


def _kept(folder: Path, names: Sequence[str]) -> tuple[dict[str, Any], list[Row]]:
    """Read the study of a folder and its rows."""
    study = read_study(folder) or {}
    try:
        rows, whole = read_rows(folder)
    except OSError as error:
        got = f"{error.strerror or error} for {folder / 'rows.jsonl'}"
        raise InputError(f"{folder}: expected a folder of `bench SUITE`, or of such folders, got {got}") from None
    if not whole:
        raise InputError(f"{folder / 'rows.jsonl'}: holds a line that is no row; measure it again")
    if study.get("suite") not in names or not rows:
        raise InputError(f"{folder}: holds no rows of a suite ({', '.join(names)})")
    return study, rows


def _condition(study: Mapping[str, Any]) -> str:
    """Describe the training data of a study."""
    made = [f"{study['digits']} digits"] if study.get("digits") else []
    made += [f"{summary.in_percent(study['sigma'])} noise"] if study["sigma"] else []
    parts = [f"`{study['suite']}`", *(made or ["clean"])]
    if study["drop"]:
        parts.append(f"{'half' if study['drop'] == 0.5 else summary.in_percent(1.0 - study['drop'])} of the samples")
    n = study["trajectories"]
    parts.append("1 trajectory" if n == 1 else f"{n} trajectories")
    parts += [f"seed {study['seed']}"] if study["seed"] else []
    return ", ".join(parts)
