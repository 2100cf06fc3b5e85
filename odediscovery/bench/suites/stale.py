"""Kept rows that an older engine wrote, and the command that measures each of them again.

    stale = commits between that of the rows and the present one that changed the engine > 0

The engine is every room that decides what a fit prints; pictures, pages, commands and the
measurements themselves are not. Rows of other packages never become stale by our changes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odediscovery.bench.rows import GIT_SECONDS, Row, commit_of
from odediscovery.bench.suites.ablation import SUITE as ABLATED
from odediscovery.bench.suites.ablation import VARIANTS
from odediscovery.errors import FitError, InputError

PACKAGE = Path(__file__).parents[2]
# Rooms whose changes change no law.
SHOWING = ("bench", "command", "estimator", "experiments", "many", "plots", "report")
OURS, PEERS = "ours", {"pysindy", "pyoperon"}
# What a study says that is no option of its command.
_NOT_OPTIONS = {"suite", "measure", "system", "commit", "machine", "versions", "peers", "solver", "tolerance", "axes"}
# Measures whose rows are draws, and how many there are is an option.
_DRAWN = ("coverage", "lawless", "fsir-noise", "fsir-gaps", "textbook")
# The designs of populations that the package has; of others nobody knows where they lie.
DESIGNS = PACKAGE / "bench" / "data" / "populations_dev.json"
# Measures of populations, and what their command is told.
_POPULATIONS = {"populations": (), "populations by peers": ("--peers",)}
# Measures of a battery of systems: the words of their command, and the options that choose by a rule.
_BATTERIES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "thresholds": (("thresholds",), ("every", "quick")),
    "decisions": (("thresholds", "--decisions"), ("every", "quick")),
    "rungs": (("rungs",), ()),
}
_SUITES = ("fractional", "odebench", "classics", "random")
_KNOWN = (*_SUITES, *_DRAWN, "series", "speed", "growth")


@dataclass(frozen=True)
class Kept:
    """A folder of rows.

    Args:
        folder: with study.json and rows.jsonl.
        commit: the engine that wrote the rows, "" where nobody knows.
        behind: commits of the engine since then; None where that cannot be counted.
        command: what measures it again, after `odediscovery bench`; none where that is not known.
        ours: whether rows of ours are among them.
    """

    folder: Path
    commit: str
    behind: int | None
    command: tuple[str, ...]
    ours: bool

    @property
    def measured(self) -> Path:
        """The folder that the command writes: that above both conditions where it is an ablation."""
        return self.folder.parent if self.command[:1] == ("ablation",) else self.folder

    @property
    def is_stale(self) -> bool:
        """Whether the present engine may find something else; an unknown engine counts as another."""
        return self.ours and self.behind != 0

    def cells(self) -> tuple[str, ...]:
        """Folder, commit, state and command, for a table."""
        if not self.ours:
            state = "peers"
        elif self.behind is None:
            state = "unknown"
        else:
            state = f"{self.behind} behind" if self.behind else "fresh"
        command = f"odediscovery bench {' '.join(self.command)}" if self.command else "(no command is known)"
        return str(self.folder), self.commit or "-", state, command


def folders_of_rows(folders: Sequence[Path]) -> list[Path]:
    """The folders that hold rows, themselves or, as a folder of results does, one or two floors below."""
    found = []
    for folder in folders:
        below = [path.parent for floor in ("*", "*/*") for path in sorted(folder.glob(f"{floor}/rows.jsonl"))]
        found += below if below and not (folder / "rows.jsonl").is_file() else [folder]
    return sorted(found)


def kept_in(folder: Path) -> Kept:
    """What a folder of rows holds.

    Raises:
        InputError: it holds no rows.
    """
    try:
        about = folder / "study.json"
        study = json.loads(about.read_text(encoding="utf-8")) if about.is_file() else {}
        rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise InputError(
            f"{folder}: expected a folder of `bench` with rows.jsonl, got {type(error).__name__}"
        ) from None
    commit = str(study.get("commit") or commit_of(folder / "rows.jsonl"))
    ours = any(row.get("method", OURS) not in PEERS for row in rows)
    return Kept(folder, commit, commits_since(commit), command_of(study, rows), ours)


def command_of(study: dict[str, Any], rows: Sequence[Row]) -> tuple[str, ...]:
    """The arguments of `odediscovery bench` that measure a study again.

    >>> command_of({"measure": "coverage", "system": "fsir", "sigma": 0.02, "seed": 0}, [{"id": 1}] * 20)
    ('coverage', 'fsir', '--sigma', '0.02', '--seed', '0', '--draws', '20')
    """
    name = study.get("suite") or study.get("measure")
    methods = {str(row.get("method", OURS)) for row in rows}
    if name in _POPULATIONS:
        of_the_package = study.get("designs") == hashlib.sha256(DESIGNS.read_bytes()).hexdigest()
        draws = 1 + max((int(row["draw"]) for row in rows), default=-1)
        return ("populations", "--draws", str(draws), *_POPULATIONS[name]) if of_the_package else ()
    if name in _BATTERIES:
        command, by_rule = _BATTERIES[name]
        return (*command, *_battery_options(study, by_rule))
    if name == ABLATED and methods <= set(VARIANTS):
        return ("ablation", "--seed", str(study["seed"]), "--max-seconds", format(study["max_seconds"], "g"))
    if name not in _KNOWN or (name in _SUITES and methods - {OURS, *PEERS}):
        return ()
    words = [name] + ([study["system"]] if "system" in study else [])
    for key, value in study.items():
        # Samples are left out of the systems of suites only.
        if key in _NOT_OPTIONS or value is None or value is False or (key, name) == ("drop", "random"):
            continue
        words.append(f"--{key.replace('_', '-')}")
        if value is not True:
            words.append(value if isinstance(value, str) else format(value, "g"))
    if name in _DRAWN:
        words += ["--draws", str(len(rows))]
    if name == "random":
        words += ["--ids", ",".join(dict.fromkeys(str(row["id"]) for row in rows))]
    if name in _SUITES and methods & PEERS:
        words += ["--method", methods.pop() if len(methods) == 1 else "all"]
    return tuple(words)


def _battery_options(study: Mapping[str, Any], by_rule: Sequence[str]) -> Iterator[str]:
    """The options that choose the battery of a study of thresholds or rungs."""
    chosen = {"ids": ",".join(study["ids"])} if study["ids"] else {key: study[key] for key in by_rule}
    more = {"each": study["each"]} if study["each"] else {}
    fixed = {key: study[key] for key in ("sigma", "seed", "max_seconds")}
    for key, value in (fixed | chosen | more).items():
        yield f"--{key.replace('_', '-')}"
        yield value if isinstance(value, str) else format(value, "g")


def commits_since(commit: str) -> int | None:
    """How many commits changed the engine after this one; None outside a checkout."""
    if not commit:
        return None
    out = [f":(exclude){name}" for name in SHOWING]
    command = ["git", "-C", str(PACKAGE), "rev-list", "--count", f"{commit}..HEAD", "--", ".", *out]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip().isdigit() else None


def measure_again(kept: Kept) -> None:
    """Measure a folder anew beside it, and take its place when all is done; an interrupted run goes on.

    Raises:
        FitError: the measurement could not be done; the folder is as it was.
    """
    folder = kept.measured
    fresh = folder.with_name(f".{folder.name}.again")
    if fresh.exists() and any(kept_commit(each) != commit_of(PACKAGE) for each in folders_of_rows([fresh])):
        # Rows of two engines are never mixed.
        shutil.rmtree(fresh)
    call = [sys.executable, "-m", "odediscovery", "bench", *kept.command, "--out", str(fresh)]
    code = subprocess.run(call, check=False).returncode
    if code != 0 or not (fresh / "summary.md").is_file():
        raise FitError(f"{folder}: measuring it again ended with code {code}; its rows are as they were")
    before = folder.with_name(f".{folder.name}.before")
    folder.rename(before)
    fresh.rename(folder)
    shutil.rmtree(before)


def kept_commit(folder: Path) -> str:
    """The commit in a study.json, "" where there is none."""
    try:
        return str(json.loads((folder / "study.json").read_text(encoding="utf-8")).get("commit", ""))
    except (OSError, ValueError, AttributeError):
        return ""
