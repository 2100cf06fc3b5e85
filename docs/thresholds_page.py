"""Writes thresholds.md: every threshold of the engine with its unit, origin and sensitivity.

The sources are read, not run, so no torch is needed. Sensitivities are those of the kept study, if
there is one (`odediscovery bench thresholds --out data/results/bench/thresholds`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STUDY = ROOT / "data" / "results" / "bench" / "thresholds" / "summary.md"
# What `threshold` says where no origin is given.
CHOSEN = "chosen: no derivation is known"
HEADER = ("threshold", "value", "unit", "what it is", "origin", "at half", "at twice")
INTRODUCTION = """# Thresholds

Numbers that decide something in the engine. Each stands in a frozen dataclass beside the stage that
uses it, with its unit and where its value came from. The last two columns say what changes at half and
at twice the value in a battery of benchmark systems: fits that are exact, fits whose equations change,
and processor time as a multiple of the usual one. A dash: no fit of the battery reads the threshold, or
it was not measured.
"""


def on_files(files: Any, config: Any) -> Any:
    """The files of the site and this page (a hook of mkdocs)."""
    from mkdocs.structure.files import File  # noqa: PLC0415 (the text alone needs no mkdocs)

    files.append(File.generated(config, "thresholds.md", content=page()))
    return files


def page() -> str:
    """The text of the page."""
    study, parts = measured(STUDY.read_text(encoding="utf-8")) if STUDY.is_file() else ("", {}), [INTRODUCTION]
    if study[0]:
        parts.append(f"{study[0]}\n")
    for module, owner in owners():
        lines = [HEADER, ["---"] * len(HEADER)]
        for name, value, told in fields(owner):
            sides = study[1].get(f"{owner.name}.{name}", ("-", "-"))
            lines.append(
                (f"`{name}`", value, told.get("unit") or "-", told["says"], told.get("origin", CHOSEN), *sides)
            )
        table = "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)
        parts.append(f"## {owner.name}\n\n`{module}`: {ast.get_docstring(owner) or ''}\n\n{table}\n")
    return "\n".join(parts)


def owners() -> Iterator[tuple[str, ast.ClassDef]]:
    """The classes of thresholds, each with the file that it stands in."""
    for path, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and "Thresholds" in map(ast.unparse, node.bases):
                yield path, node


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


def measured(text: str) -> tuple[str, dict[str, tuple[str, str]]]:
    """Of a kept study: the line that describes it, and what half and twice change, by threshold."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if line.startswith("| ") and "." in cells[0] and len(cells) > len(HEADER) - 2:
            found[cells[0]] = cells[3], cells[4]
    return next((line for line in text.splitlines() if " fits of " in line), ""), found
