"""What a reader of the package has to bear, counted: `python .ci/counts.py [folder of a checkout]`.

bare numbers        number literals inside functions, but for 0, 1, 2, 1/2 and indices
named constants     numbers under a name in capitals on the level of a module
long functions      of more than 40 lines, docstrings left out
untested modules    that no file of the tests imports, itself or by a name that its package hands on
lines               physical ones; logical ones (statements), whatever the formatter does
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PLAIN = {0, 1, 2, 0.5}
# Rooms that measure or draw.
STUDIES = {"bench", "experiments", "plots", "report"}


def numbers(node: ast.AST) -> Iterator[ast.Constant]:
    """Number literals below a node, indices and slices left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Constant):
            if isinstance(child.value, int | float | complex) and not isinstance(child.value, bool):
                yield child
        elif isinstance(node, ast.Subscript) and child is node.slice:
            continue
        else:
            yield from numbers(child)


def bare_numbers(tree: ast.Module) -> int:
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    inner = {id(m) for f in functions for n in ast.walk(f) if n is not f for m in [n] if isinstance(n, ast.FunctionDef)}
    found = [n for f in functions if id(f) not in inner for part in f.body for n in numbers(part)]
    return sum(abs(n.value) not in PLAIN for n in found)


def named_constants(tree: ast.Module) -> int:
    count = 0
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [e.id for t in targets for e in ast.walk(t) if isinstance(e, ast.Name)]
        if all(name.isupper() for name in names) and list(numbers(node)):
            count += len(names)
    return count


def long_functions(tree: ast.Module) -> int:
    count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.end_lineno:
            doc = node.body[0] if ast.get_docstring(node) is not None else None
            taken = doc.end_lineno - doc.lineno + 1 if doc and doc.end_lineno else 0
            count += node.end_lineno - node.lineno + 1 - taken > 40
    return count


def statements(tree: ast.Module) -> int:
    return sum(isinstance(n, ast.stmt) for n in ast.walk(tree))


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def handed_on(root: Path) -> dict[str, str]:
    """Where a name that a package's `__init__` imports comes from: "package.name" -> module."""
    found = {}
    for path in (root / "odediscovery").rglob("__init__.py"):
        package = ".".join(path.parent.relative_to(root).parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {f"{package}.{a.asname or a.name}": node.module for a in node.names}
    return found


def main(root: Path) -> None:
    files = sorted((root / "odediscovery").rglob("*.py"))
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
    seen = set[str]().union(*(imported(path) for path in (root / "tests").rglob("*.py")))
    seen |= {module for name, module in handed_on(root).items() if name in seen}
    modules = [".".join(p.relative_to(root).with_suffix("").parts) for p in files if p.stem != "__init__"]
    untested = [name for name in modules if name not in seen]
    print("bare numbers", sum(map(bare_numbers, trees)))
    engine = [tree for path, tree in zip(files, trees, strict=True) if not STUDIES & set(path.parts)]
    print(
        "named constants", sum(map(named_constants, trees)), "of these in the engine", sum(map(named_constants, engine))
    )
    print("fmt: skip", sum(path.read_text(encoding="utf-8").count("# fmt: skip") for path in files))
    print("functions over 40 lines", sum(map(long_functions, trees)))
    print("modules", len(files), "lines", sum(len(p.read_text(encoding="utf-8").splitlines()) for p in files))
    print("logical lines", sum(map(statements, trees)))
    print("modules that no test imports", len(untested), *untested)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
