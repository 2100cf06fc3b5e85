"""Rows of a suite as tables in Markdown, and as lines for a person who watches."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from odediscovery.bench.rows import Row, commit_of
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations

# Most letters of the equations in a table.
LONGEST = 240
# R2 above which a system counts in the literature, and above which nothing is to be seen any more.
GOOD, NEAR_PERFECT = 0.9, 0.999

_ABOUT = {
    "RECON": "R2 of the found equations from the training start, against the clean whole "
    "trajectory (the worst of several)",
    "GEN": "the same from a start that was not trained on",
    "EXACT": "the true terms and no others; exponents and inner constants within 0.02 on clean and 0.1 on noisy data",
    "COEF": "exact, and all coefficients within 5 %",
    "nodes": "median of the nodes of the expression trees",
    "failed": "no equations, counted as a miss everywhere",
}


def markdown(study: Mapping[str, Any], rows: Sequence[Row], systems: int) -> str:
    """The tables of one study: by method, by representation, and by system.

    Args:
        study: what the rows share.
        rows: in the order of the suite.
        systems: how many the whole suite has.
    """
    options = options_of(study)
    methods = list(dict.fromkeys(row["method"] for row in rows))
    parts = [f"# {study['suite']}\n\n`odediscovery bench {study['suite']} {options}`"]
    parts.append(_totals([(m, [r for r in rows if r["method"] == m]) for m in methods], "method", systems))
    forms = list(dict.fromkeys(row["representation"] for row in rows))
    if len(forms) > 1:
        # Which laws are within reach of a method is seen by what it takes to write them.
        groups = [
            (f"{method}, {form}", [r for r in rows if (r["method"], r["representation"]) == (method, form)])
            for method in methods
            for form in forms
        ]
        parts.append(_totals([g for g in groups if g[1]], "method, representation"))
    parts.append("\n".join(f"- {name}: {text}." for name, text in _ABOUT.items()))
    parts.append(_systems(rows))
    return "\n\n".join(parts) + "\n"


def options_of(study: Mapping[str, Any]) -> str:
    """What all rows of a study share, as options of the command.

    >>> options_of({"suite": "odebench", "sigma": 0.05, "digits": None, "max_seconds": 60.0})
    '--sigma 0.05 --max-seconds 60'
    """
    told = {name.replace("_", "-"): value for name, value in study.items() if name != "suite" and value is not None}
    return " ".join(f"--{name} {v if isinstance(v, str) else format(v, 'g')}" for name, v in told.items())


def _totals(groups: Sequence[tuple[str, Sequence[Row]]], title: str, of: int | None = None) -> str:
    header = (
        title,
        "systems",
        "RECON > 0.9",
        "RECON > 0.999",
        "GEN > 0.9",
        "GEN > 0.999",
        "EXACT",
        "COEF",
        "failed",
        "nodes",
        "median s",
        "total s",
    )
    lines = []
    for name, rows in groups:
        n = len(rows)
        seconds = [row["seconds"] for row in rows]
        nodes = [row["complexity"] for row in rows if row["complexity"] is not None]
        lines.append(
            (
                name,
                str(n) if of in (None, n) else f"{n} of {of}",
                *(_share(count_above(rows, k, bound), n) for k in ("recon", "gen") for bound in (GOOD, NEAR_PERFECT)),
                *(_share(sum(row[key] for row in rows), n) for key in ("exact", "coef")),
                str(sum(bool(row["failed"]) for row in rows)),
                f"{np.median(nodes):g}" if nodes else "-",
                median_seconds(rows),
                f"{sum(seconds):.0f}",
            )
        )
    return table(header, lines)


def hits_of(rows: Sequence[Row], key: str) -> str:
    """In how many rows something is so, such as "3 of 20"."""
    return f"{sum(bool(row[key]) for row in rows)} of {len(rows)}"


def count_above(rows: Sequence[Row], key: str, bound: float) -> int:
    """In how many rows a score is there and above a bound."""
    return sum(row[key] is not None and row[key] > bound for row in rows)


def _share(hits: int, of: int) -> str:
    return f"{hits} ({hits / of:.0%})"


def _systems(rows: Sequence[Row]) -> str:
    header = ("system", "method", "RECON", "GEN", "EXACT", "COEF", "nodes", "s", "ended", "equations")
    lines = []
    for row in rows:
        told = row["failed"] or _short(row["equations"])
        lines.append(
            (
                row["id"],
                row["method"],
                figure(row["recon"]),
                figure(row["gen"]),
                "yes" if row["exact"] else "no",
                "yes" if row["coef"] else "no",
                "-" if row["complexity"] is None else str(row["complexity"]),
                f"{row['seconds']:.1f}",
                "failed" if row["failed"] else row["outcome"],
                told.replace("|", "\\|"),
            )
        )
    return table(header, lines)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of text as a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# What a suite is, in the order of the page: development, public and random ones never in one table.
KINDS = {
    "development": "Systems that the engine was developed on",
    "public": "Public systems: the half of ODEBench that the engine was developed on",
    "random-development": "Random laws, of seeds below 1000, which were developed on",
    "random": "Random laws, of seeds that nobody developed on",
}
# The title of what an oracle would choose.
FRONT = "best of the front"
# The title of the time that the machine takes for `rows.reference_seconds`.
MACHINE = "machine ms"
# The titles of the columns of `side_by_side`.
HEADER = (
    "condition",
    "method",
    "EXACT",
    "RECON (R2 > 0.9)",
    FRONT,
    "RECON > 0.999",
    "GEN",
    "median s",
    "95 % s",
    "longest s",
    "limit s",
    MACHINE,
    "commit",
)
# Seeds of random laws below this one were developed on.
FIRST_UNSEEN_SEED = 1000


def kind_of(study: Mapping[str, Any]) -> str:
    """Which table of the page a study belongs to.

    >>> kind_of({"suite": "random", "seed": 1003}), kind_of({"suite": "odebench", "seed": 0})
    ('random', 'public')
    """
    if study["suite"] == "random":
        return "random" if study["seed"] >= FIRST_UNSEEN_SEED else "random-development"
    return "public" if study["suite"] == "odebench" else "development"


def side_by_side(folders: Sequence[Path], sizes: Mapping[str, int]) -> str:
    """Several kept folders as tables, one a kind of suite, conditions with all their methods side by side.

    "Best of the front" counts the systems of which some row of the front reconstructs the trajectory: so
    do published studies choose, by the clean trajectory that no user has. "Machine ms" is what the machine takes
    for a fixed piece of work, by which seconds of two machines roughly compare.

    Args:
        folders: of suites, each with study.json and rows.jsonl, or folders of such folders.
        sizes: how many systems every suite has; random laws have as many as were drawn.

    Raises:
        InputError: a folder holds no rows of a suite.
    """
    tables: dict[str, list[tuple[Any, Sequence[str]]]] = {kind: [] for kind in KINDS}
    names, engines = [*sizes, "random"], set()
    for folder in folders_of_suites(folders, names):
        study, rows = _kept(folder, names)
        commit = str(study.get("commit") or commit_of(folder / "rows.jsonl") or "unknown")
        limit = f"{study['max_seconds']:g}" if "max_seconds" in study else "-"
        engines |= {commit for row in rows if row["method"] == "ours"}
        for method in dict.fromkeys(row["method"] for row in rows):
            of_it = [row for row in rows if row["method"] == method]
            size = sizes.get(study["suite"], len(of_it))
            line = (_condition(study), *_figures(of_it, size), limit, _machine(study), commit)
            tables[kind_of(study)].append((_place(study, names, method), line))
    cells = [line for lines in tables.values() for _, line in lines]
    # Rows from before they were measured would fill a column with dashes.
    newer = {FRONT, MACHINE}
    shown = [k for k, title in enumerate(HEADER) if title not in newer or any(line[k] != "-" for line in cells)]
    parts = []
    for kind, lines in tables.items():
        ordered = [[line[k] for k in shown] for _, line in sorted(lines, key=lambda pair: pair[0])]
        parts += [f"## {KINDS[kind]}\n\n{table([HEADER[k] for k in shown], ordered)}"] if lines else []
    return "\n\n".join([*parts, *_engines(engines)])


def _machine(study: Mapping[str, Any]) -> str:
    """Milliseconds of the machine's reference, a dash where none was measured.

    >>> _machine({"machine": {"reference_seconds": 0.0071}}), _machine({"suite": "odebench"})
    ('7.1', '-')
    """
    machine = study.get("machine")
    taken = machine.get("reference_seconds") if isinstance(machine, dict) else None
    return f"{1000 * taken:.1f}" if isinstance(taken, int | float) else "-"


def _place(study: Mapping[str, Any], names: Sequence[str], method: str) -> tuple[Any, ...]:
    """Where the line of a method stands in its table: by suite and condition, ours in front."""
    condition = (study["sigma"], study["drop"], study["trajectories"], study["seed"])
    return (names.index(study["suite"]), *condition, method != "ours")


def _engines(commits: set[str]) -> list[str]:
    """Whether all rows of ours are of one engine, in a sentence.

    >>> _engines({"abc1234"}), _engines(set())
    (['All rows of ours are of commit abc1234.'], [])
    """
    if len(commits) == 1:
        return [f"All rows of ours are of commit {min(commits)}."]
    told = f"Rows of ours are of {len(commits)} commits; study.json of each folder says which."
    return [told] if commits else []


def folders_of_suites(folders: Sequence[Path], names: Sequence[str]) -> list[Path]:
    """The folders themselves, and of a folder that holds no rows those within it that are of a suite."""
    found: list[Path] = []
    for folder in folders:
        below = [] if (folder / "rows.jsonl").is_file() else sorted(folder.glob("*/rows.jsonl"))
        of_suites = [path.parent for path in below if _study(path.parent).get("suite") in names]
        found += of_suites or [folder]
    return found


def _study(folder: Path) -> dict[str, Any]:
    """What study.json says, nothing where there is none."""
    try:
        study = json.loads((folder / "study.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return study if isinstance(study, dict) else {}


def _kept(folder: Path, names: Sequence[str]) -> tuple[dict[str, Any], list[Row]]:
    """The study of a folder and its rows."""
    study = _study(folder)
    try:
        lines = (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
    except OSError as error:
        raise InputError(
            f"{folder}: expected a folder of `bench SUITE`, or of such folders, got {error.strerror or error} for "
            f"{folder / 'rows.jsonl'}"
        ) from None
    except ValueError:
        raise InputError(f"{folder / 'rows.jsonl'}: holds a line that is no row; measure it again") from None
    if study.get("suite") not in names or not rows:
        raise InputError(f"{folder}: holds no rows of a suite ({', '.join(names)})")
    return study, rows


def _condition(study: Mapping[str, Any]) -> str:
    """What the training data of a study were, in words.

    >>> _condition({"suite": "random", "sigma": 0.0, "digits": 4, "drop": 0.0, "trajectories": 2, "seed": 2002})
    '`random`, 4 digits, 2 trajectories, seed 2002'
    """
    parts = [f"`{study['suite']}`"]
    digits, solver = study.get("digits"), study.get("solver")
    made = [f"{digits} digits"] if digits else []
    made += [f"{solver} at {study['tolerance']:g}"] if solver else []
    made += [f"{in_percent(study['sigma'])} noise"] if study["sigma"] else []
    parts += made or ["clean"]
    if study["drop"]:
        share = "half" if study["drop"] == 0.5 else in_percent(1.0 - study["drop"])
        parts.append(f"{share} of the samples")
    n = study["trajectories"]
    parts.append("1 trajectory" if n == 1 else f"{n} trajectories")
    parts += [f"seed {study['seed']}"] if study["seed"] else []
    return ", ".join(parts)


def _figures(rows: Sequence[Row], size: int) -> tuple[str, ...]:
    """The cells of one method under one condition."""
    n = len(rows)
    above: list[int | str] = [
        count_above(rows, *asked) for asked in (("recon", GOOD), ("recon", NEAR_PERFECT), ("gen", GOOD))
    ]
    offered = any(row.get("recon_front") is not None for row in rows)
    above.insert(1, count_above(rows, "recon_front", GOOD) if offered else "-")
    times = (median_of(rows), late_seconds(rows), max(row["seconds"] for row in rows))
    method = rows[0]["method"] if n == size else f"{rows[0]['method']}, {n} of {size} systems"
    return (method, hits_of(rows, "exact"), *map(str, above), *(f"{t:.1f}" for t in times))


def _short(texts: Mapping[str, str]) -> str:
    """Equations that fit into one cell; rows.jsonl has all of them, with all digits."""
    try:
        text = in_short(texts)
    except InputError:
        text = "; ".join(texts.values())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def in_a_line(row: Row) -> str:
    """What became of one system, for a person who watches."""
    head = f"{row['method']} {row['id']}"
    if row["failed"]:
        return f"{head}: failed after {row['seconds']:.1f} s, {row['failed']}"
    exact = "exact" if row["exact"] else "not exact"
    r2 = f"RECON {figure(row['recon'])}, GEN {figure(row['gen'])}"
    return f"{head}: {exact}, {r2}, {row['seconds']:.1f} s"


def in_short(texts: Mapping[str, str], digits: int = 4) -> str:
    """Equations in one line."""
    return "; ".join(Equations.parse(list(texts), texts).pretty(digits).splitlines())


def median_seconds(rows: Sequence[Row]) -> str:
    """The median time of a row, as text."""
    return f"{median_of(rows):.1f}"


def median_of(rows: Sequence[Row]) -> float:
    """The median time of a row."""
    return float(np.median([row["seconds"] for row in rows]))


def late_seconds(rows: Sequence[Row]) -> float:
    """The time below which 95 % of the rows lie."""
    return float(np.percentile([row["seconds"] for row in rows], 95))


def in_percent(share: float) -> str:
    """A share as people write it, with as many digits as it has.

    >>> in_percent(0.001)
    '0.1 %'
    """
    return f"{100 * share:g} %"


def figure(r2: float | None) -> str:
    """An R2 in a table; a dash where there are no equations or they cannot be integrated."""
    if r2 is None:
        return "-"
    return f"{r2:.4f}" if r2 > -100 else f"{r2:.1e}"
