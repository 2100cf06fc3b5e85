"""Prints the rooms of the package with their lines and purposes, as docs/house.md shows them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from test_architecture import ROOMS  # noqa: E402 (the order in which rooms may import)


def tree(package: Path) -> Iterator[str]:
    """One line a room: name, lines of its own files, purpose."""
    for room in ROOMS:
        folder = package.joinpath(*room.split("."))
        lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in folder.glob("*.py"))
        purpose = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
        name = "  " * room.count(".") + room.rpartition(".")[2] + "/"
        yield f"{name:<14}{lines:>5}  {purpose.splitlines()[0]}".replace("`", "")


if __name__ == "__main__":
    print("\n".join(tree(ROOT / "odediscovery")))
