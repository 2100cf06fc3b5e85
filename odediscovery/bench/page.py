"""Kept rows of suites as one page: conditions and methods side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from odediscovery.bench.rows import Row, commit_of
from odediscovery.bench.summary import (
    GOOD,
    NEAR_PERFECT,
    Cell,
    by,
    count,
    hits,
    in_percent,
    late_seconds,
    middle,
    number,
    table,
)
from odediscovery.errors import InputError

# What a suite is, in the order of the page: development, public and random ones never in one table.
KINDS = {
    "development": "Systems that the engine was developed on",
    "public": "Public systems: the half of ODEBench that the engine was developed on",
    "random-development": "Random laws, of seeds below 1000, which were developed on",
    "random": "Random laws, of seeds that nobody developed on",
}
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
    names, rows = [*sizes, "random"], list[Row]()
    for folder in folders_of_suites(folders, names):
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
            size = sizes.get(study["suite"], len(of_it))
            label = method if len(of_it) == size else f"{method}, {len(of_it)} of {size} systems"
            rows += [{"recon_front": None, **row, **about, "label": label} for row in of_it]
    rows.sort(key=lambda row: (row["place"], row["method"] != "ours"))
    parts = []
    for kind, title in KINDS.items():
        if own := [row for row in rows if row["kind"] == kind]:
            # Two folders of one condition, such as of two commits, have a line each.
            groups, columns = by(own, "condition", "label", "folder"), _columns(rows)
            lines = [(*name[:2], *(cell(group) for cell in columns.values())) for name, group in groups.items()]
            parts.append(f"## {title}\n\n{table(('condition', 'method', *columns), lines)}")
    return "\n\n".join([*parts, *_engines({row["commit"] for row in rows if row["method"] == "ours"})])


def _columns(rows: Sequence[Row]) -> dict[str, Cell]:
    """The columns of the page; rows from before something was measured would fill its column with dashes."""

    def first(key: str) -> Cell:
        return lambda own: str(own[0][key])

    columns: dict[str, Cell] = {
        "EXACT": hits("exact"),
        "RECON (R2 > 0.9)": number("recon", GOOD),
        "best of the front": _best_of_the_front,
        "RECON > 0.999": number("recon", NEAR_PERFECT),
        "GEN": number("gen", GOOD),
        "median s": middle("seconds"),
        "95 % s": late_seconds,
        "longest s": lambda own: f"{max(row['seconds'] for row in own):.1f}",
        "limit s": first("limit"),
        "machine ms": first("machine"),
        "commit": first("commit"),
    }
    newer = {"best of the front": _best_of_the_front(rows) != "-", "machine ms": any(r["machine"] != "-" for r in rows)}
    return {title: cell for title, cell in columns.items() if newer.get(title, True)}


def _best_of_the_front(rows: Sequence[Row]) -> str:
    offered = any(row["recon_front"] is not None for row in rows)
    return str(count(rows, "recon_front", GOOD)) if offered else "-"


def _machine(study: Mapping[str, Any]) -> str:
    """Milliseconds of the machine's reference, a dash where none was measured.

    >>> _machine({"machine": {"reference_seconds": 0.0071}}), _machine({"suite": "odebench"})
    ('7.1', '-')
    """
    machine = study.get("machine")
    taken = machine.get("reference_seconds") if isinstance(machine, dict) else None
    return f"{1000 * taken:.1f}" if isinstance(taken, int | float) else "-"


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
    made = [f"{study['digits']} digits"] if study.get("digits") else []
    made += [f"{in_percent(study['sigma'])} noise"] if study["sigma"] else []
    parts += made or ["clean"]
    if study["drop"]:
        share = "half" if study["drop"] == 0.5 else in_percent(1.0 - study["drop"])
        parts.append(f"{share} of the samples")
    n = study["trajectories"]
    parts.append("1 trajectory" if n == 1 else f"{n} trajectories")
    parts += [f"seed {study['seed']}"] if study["seed"] else []
    return ", ".join(parts)
