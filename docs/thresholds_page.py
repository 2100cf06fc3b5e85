"""Writes thresholds.md, every threshold of the engine with its unit, origin and sensitivity, and ranges.md, from
what the random laws of the benchmark are drawn.

The sources are read, not run, so no torch is needed. Sensitivities and decisions are those of the
kept studies, if there are any (`odediscovery bench thresholds --out data/results/bench/thresholds`, and with
`--decisions --out data/results/bench/threshold-decisions`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STUDY = ROOT / "data" / "results" / "bench" / "thresholds" / "summary.md"
DECISIONS = ROOT / "data" / "results" / "bench" / "threshold-decisions" / "summary.md"
# What `threshold` says where no origin is given.
CHOSEN = "chosen: no derivation is known"
HEADER = ("threshold", "value", "unit", "what it is", "origin", "at half", "at twice", "decided otherwise")
INTRODUCTION = """# Thresholds

Numbers that decide something in the engine. Each stands in a frozen dataclass beside the stage that
uses it, with its unit and where its value came from. Two columns say what changes at half and at twice
the value in a battery of benchmark systems: fits that are exact, fits whose equations change, and
processor time as a multiple of the usual one. The last column says, of another battery, which share of the
comparisons with the threshold would come out otherwise at half and at twice its value; in part: it has other
uses too, which could not be followed. A dash: no fit of the battery reads the threshold, it is compared with
nothing, or it was not measured.
"""

RANGES_HEADER = ("name", "value", "what it is")
RANGES_INTRODUCTION = """# Ranges of random laws

From what `odediscovery bench random` draws [its laws](unseen.md#random-laws), in units of order 1: a pair
is a least and a greatest value, sizes of coefficients and times even on the logarithm; a number by itself
is a chance unless it says otherwise, and chances of several cases stand in their order; of other lists one
is taken, all alike. A kind of law has what is said of the kind in brackets too, unless it says it itself.
Who changes one of these numbers draws other laws.
"""


def on_files(files: Any, config: Any) -> Any:
    """The files of the site and these pages (a hook of mkdocs)."""
    from mkdocs.structure.files import File  # noqa: PLC0415 (the text alone needs no mkdocs)

    files.append(File.generated(config, "thresholds.md", content=page()))
    files.append(File.generated(config, "ranges.md", content=ranges_page()))
    return files


def page() -> str:
    """The text of the page."""
    study, parts = measured(kept(STUDY)), [INTRODUCTION]
    about_decisions, otherwise = decided(kept(DECISIONS))
    parts += [f"{about}\n" for about in (study[0], about_decisions) if about]
    for module, owner in owners():
        lines = []
        for name, value, told in fields(owner):
            sides = study[1].get(f"{owner.name}.{name}", ("-", "-"))
            about = (f"`{name}`", value, told.get("unit") or "-", told["says"], told.get("origin", CHOSEN))
            lines.append((*about, *sides, otherwise.get(f"{owner.name}.{name}", "-")))
        parts.append(part(owner.name, f"`{module}`: {ast.get_docstring(owner) or ''}", HEADER, lines))
    return "\n".join(parts)


def ranges_page() -> str:
    """The text of the page of ranges."""
    parts = [RANGES_INTRODUCTION]
    for owner in ranges():
        lines = [(f"`{name}`", f"`{value}`", told["says"]) for name, value, told in fields(owner)]
        base = ", ".join(map(ast.unparse, owner.bases))
        parts.append(part(f"{owner.name} ({base})", ast.get_docstring(owner) or "", RANGES_HEADER, lines))
    return "\n".join(parts)


def part(title: str, about: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A class and the table of its numbers."""
    whole = [header, ["---"] * len(header), *lines]
    table = "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in whole)
    return f"## {title}\n\n{about}\n\n{table}\n"


def owners() -> Iterator[tuple[str, ast.ClassDef]]:
    """The classes of thresholds, each with the file that it stands in."""
    for path, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and "Thresholds" in map(ast.unparse, node.bases):
                yield path, node


def ranges() -> Iterator[ast.ClassDef]:
    """The classes of ranges, those first on which others rest."""
    nodes = [node for tree in trees().values() for node in tree.body if isinstance(node, ast.ClassDef)]
    found = [node for node in nodes if any(ast.unparse(base).endswith("Ranges") for base in node.bases)]
    yield from sorted(found, key=lambda node: "Ranges" not in map(ast.unparse, node.bases))


@cache
def trees() -> dict[str, ast.Module]:
    """The sources of the package, read."""
    paths = sorted((ROOT / "odediscovery").rglob("*.py"))
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


@cache
def named() -> dict[str, ast.expr]:
    """What stands behind the names of constants, which are the same in all modules."""
    nodes = [node for tree in trees().values() for node in tree.body if isinstance(node, ast.Assign)]
    return {ast.unparse(node.targets[0]): node.value for node in nodes if ast.unparse(node.targets[0]).isupper()}


def behind(node: ast.expr) -> ast.expr:
    """The value of a name, or what is no name itself."""
    return named().get(node.id, node) if isinstance(node, ast.Name) else node


def fields(owner: ast.ClassDef) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Name, value as it is written, and the texts of every threshold of a class."""
    for node in owner.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call):
            value, *rest = node.value.args
            texts = {word.arg: word.value for word in node.value.keywords} | dict(zip(("says",), rest, strict=False))
            told = {str(name): ast.literal_eval(behind(text)) for name, text in texts.items()}
            yield ast.unparse(node.target), ast.unparse(behind(value)), told


def kept(summary: Path) -> str:
    """The summary of a kept study; nothing where there is none."""
    return summary.read_text(encoding="utf-8") if summary.is_file() else ""


def measured(text: str) -> tuple[str, dict[str, tuple[str, str]]]:
    """Of a kept study: the line that describes it, and what half and twice change, by threshold."""
    return about_fits(text), {name: (cells[2], cells[3]) for name, *cells in rows(text)}


def decided(text: str) -> tuple[str, dict[str, str]]:
    """Of a kept study of decisions: the line that describes it, and shares at half and at twice, by threshold."""
    found = {}
    for name, _, _, half, twice, _, not_followed in rows(text):
        found[name] = f"{half}, {twice}{', in part' if not_followed else ''}" if half != "-" else "-"
    return about_fits(text), found


def about_fits(text: str) -> str:
    """The line of a summary that says what was fitted."""
    return next((line for line in text.splitlines() if " fits of " in line), "")


def rows(text: str) -> Iterator[list[str]]:
    """The lines of a summary's table that are about thresholds, in cells."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and "." in cells[0] and len(cells) > 5:
            yield cells
