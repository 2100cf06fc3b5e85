"""The design, checked: who imports whom, budgets, nothing evaluated, everything documented."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "odediscovery"

# The experiments of the papers, one file each.
STUDIES = (
    "fsir", "fsir_study", "gradient_surface", "simple_arithmetic", "large_arithmetic",
    "static_arithmetic", "division", "extrapolation", "operands", "comparisons", "digits",
)  # fmt: skip

# One file a unit, which knows what a unit is and nothing else.
UNITS = {f"units.{path.stem}": "units.base" for path in sorted(PACKAGE.glob("units/[!_]*.py"))}

# From the bottom up. A module imports from the layers below its own, and of its own layer what
# stands behind it.
LAYERS: tuple[dict[str, str], ...] = (
    {
        "errors": "", "memory": "", "monitor": "", "mirror": "", "powersum": "mirror",
        "pointwise": "powersum",
        "settings": "errors", "files": "errors", "signals": "powersum", "versions": "",
        "starts": "powersum", "workers": "errors", "cluster": "errors versions workers",
        "archives": "errors", "device": "errors settings",
    },
    {
        "table": "", "sheets": "table", "series": "sheets table",
        "expressions": "", "printing": "expressions", "monomials": "",
        "equations": "expressions monomials printing", "terms": "equations printing series",
        "cost": "", "covariance": "", "survival": "", "estimates": "cost covariance series",
        "systems": "equations series", "network": "series", "times": "series",
        "result": "equations estimates expressions hidden inputs network prepare series survival "
                  "terms",
        "smoothing": "series", "statements": "equations expressions",
        "knowledge": "equations expressions statements",
        "prepare": "knowledge series smoothing", "agreement": "cost prepare",
        "beyond": "equations prepare series",
        "hidden": "knowledge prepare series statements table", "holdout": "result series",
        "inputs": "knowledge series sheets table", "thinning": "prepare series smoothing",
    },
    {
        **UNITS, "units.base": "", "units.nalu": "units.base units.nac", "units": " ".join(UNITS),
    },
    {
        "field": "", "solve": "field", "windows": "adjoint field optimise solve",
        "trajectories": "adjoint field solve", "adjoint": "field solve",
        "optimise": "", "hager_zhang": "optimise",
        "integral": "", "projection": "integral", "candidates": "integral", "subsets": "",
        "shrink": "projection", "drawn": "windows", "solutions": "", "flows": "",
        "variational": "solutions",
        "compartments": "flows",
    },
    # Stages: none calls another. The judge and snapping read what polish returned, its value.
    {
        "fit": "", "grow": "", "polynomials": "", "prune": "", "extract": "", "polish": "",
        "judge": "polish", "snap": "judge polish", "honesty": "", "stability": "polish",
        "shooting": "polish", "balance": "polish",
    },
    {
        "ladder": "", "exchange": "", "training": "", "pruning": "ladder training",
        "linearised": "", "along": "ladder linearised pruning refinement",
        "search": "along exchange ladder pruning training",
        "published": "",
        "unmeasured": "", "undetermined": "unmeasured",
        "conclusion": "", "openness": "conclusion", "refinement": "",
        "discovery": "conclusion ladder openness pruning published refinement search "
                     "undetermined unmeasured",
        "uncertainty": "", "bootstrap": "conclusion discovery pruning uncertainty",
        "profile": "conclusion discovery uncertainty",
        "constants": "conclusion discovery openness", "resume": "discovery published",
    },
    {"heatmaps": "", "plots": "heatmaps", "fronts": "plots", "progress": "", "blocks": "",
     "estimator": "blocks",
     "report.parts": "", "report.mathml": "report.parts", "report.words": "",
     "report.readings": "report.mathml report.parts",
     "report.tables": "report.mathml report.parts", "report.drawing": "plots",
     "report.curves": "plots report.drawing", "report.chain": "plots report.drawing",
     "report.portraits": "plots report.curves report.drawing",
     "report.front": "plots report.curves report.drawing",
     "report.forecast": "plots report.curves report.drawing report.tables",
     "report": "report.chain report.curves report.forecast report.front report.mathml "
               "report.parts report.portraits report.readings report.tables report.words"},
    {
        "experiments": "", "experiments.base": "", "experiments.regression": "experiments.base",
        "experiments.study": "experiments.base",
        "experiments.refit": "experiments.regression",
        **dict.fromkeys(
            (f"experiments.{name}" for name in STUDIES),
            "experiments.base experiments.regression experiments.refit experiments.fsir "
            "bench.success",
        ),
        "experiments.registry": " ".join(f"experiments.{n}" for n in ("base", *STUDIES)),
        "bench": "", "bench.scoring": "bench.family", "bench.suites": "", "bench.family": "",
        "bench.rows": "", "bench.libraries": "",
        "bench.peers": "bench.libraries",
        "bench.protocol": "bench.suites",
        "bench.scores": "bench.family bench.protocol bench.scoring bench.suites",
        "bench.summary": "bench.rows",
        "bench.run": "bench.protocol bench.rows bench.scores bench.suites bench.summary",
        "bench.ablation": "bench.protocol bench.rows bench.run bench.summary",
        "bench.draws": "bench.rows",
        "bench.noise": "bench.draws bench.rows bench.scores bench.summary",
        "bench.gaps": "bench.draws bench.noise bench.rows bench.scoring bench.summary",
        "bench.coverage": "bench.draws bench.noise bench.rows bench.summary",
        "bench.lawless": "bench.draws bench.rows bench.summary",
        "bench.measured": "",
        "bench.series_study": "bench.measured bench.rows bench.summary",
        "bench.success": "bench.scoring", "bench.networks": "", "bench.timing": "",
        "bench.plain_loop": "", "bench.diffrax_peer": "", "bench.sindy_peer": "",
        "bench.gradients": "bench bench.diffrax_peer bench.plain_loop bench.rows bench.timing",
        "bench.races": "bench bench.diffrax_peer bench.peers bench.plain_loop bench.rows "
                       "bench.scoring bench.sindy_peer bench.timing",
        "bench.task": "bench.rows",
        "bench.sizes": "bench.networks bench.rows bench.scoring bench.task bench.timing",
        "bench.pace": "bench bench.diffrax_peer bench.gradients bench.races bench.rows "
                      "bench.sindy_peer bench.sizes bench.task",
        "bench.speed": "bench.pace bench.plain_loop bench.races bench.rows bench.summary "
                       "bench.task",
        "bench.growth": "bench.pace bench.rows bench.summary bench.task",
    },
    {
        "bench.flags": "console", "bench.draw_commands": "bench.flags console",
        "bench.speed_commands": "bench.flags",
        "bench.command": "bench.draw_commands bench.flags bench.speed_commands console",
        "experiments.command": "bench.flags console",
        "console": "", "fit_command": "console",
        "cli": "bench.command console experiments.command fit_command",
        "__main__": "cli", "__init__": "",
    },
)  # fmt: skip

# Modules that may know no more than this, whatever lies below them.
ONLY = {
    "table": "errors", "sheets": "errors table", "series": "errors files sheets signals table",
    "expressions": "errors",
    "cost": "powersum", "covariance": "powersum", "survival": "powersum",
    "estimates": "archives cost covariance powersum series", "smoothing": "powersum series",
    "knowledge": "equations errors expressions mirror powersum statements",
    "prepare": "errors knowledge powersum series smoothing",
    **UNITS, "units.base": "", "units.nalu": "units.base units.nac",
    "field": "units", "solve": "field", "optimise": "monitor",
    "windows": "adjoint field optimise powersum series solve",
    "integral": "powersum series smoothing",
    "flows": "powersum", "compartments": "flows monitor powersum prepare starts",
    "bench.family": "powersum",
    "bench.rows": "errors files versions",
    "bench.libraries": "equations expressions powersum series",
    "bench.peers": "bench.libraries equations errors expressions powersum series",
    "heatmaps": "network", "plots": "errors files heatmaps result series uncertainty",
    "fronts": "plots powersum series", "progress": "monitor",
    "estimator": "blocks discovery errors result series settings", "blocks": "errors powersum",
}  # fmt: skip

# Heavy libraries and their doors.
DOORS = {
    "torchdiffeq": "solve bench.plain_loop", "jax": "bench.diffrax_peer",
    "diffrax": "bench.diffrax_peer", "pandas": "sheets series",
    "sklearn": "estimator experiments.digits", "joblib": "",
    "jinja2": "report",
    "matplotlib": " ".join(("plots heatmaps fronts experiments.base bench.growth report.chain "
                            "report.curves "
                            "report.drawing report.forecast report.front report.portraits",
                            *(f"experiments.{name}" for name in STUDIES))),
    "pysindy": "bench.peers bench.sindy_peer", "pyoperon": "bench.peers",
    "distributed": "cluster", "dask": "",
    "typer": "cli console bench.command bench.draw_commands bench.flags bench.speed_commands "
             "experiments.command",
    "rich": "console bench.speed_commands progress",
}  # fmt: skip

# The commands load what they need when they run, so that help is instant.
LAZY = {
    "cli",
    "console",
    "fit_command",
    "bench.command",
    "bench.draw_commands",
    "bench.flags",
    "bench.speed_commands",
    "experiments.command",
}
STANDARD_ONLY = {"errors", "memory", "monitor", "settings", "files", "versions", "workers"}

EVALUATE = {"eval", "exec", "compile", "__import__", "sympify", "parse_expr", "literal_eval"}
UNSAFE_MODULES = {"pickle", "cPickle", "dill", "shelve", "marshal"}


def modules() -> list[str]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found.append(name.removesuffix(".__init__"))
    return found


@cache
def tree_of(module: str) -> ast.Module:
    path = PACKAGE.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(module: str) -> Iterator[tuple[str, int]]:
    """Full names of what a module imports, with the line."""
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: relative import"
            yield node.module or "", node.lineno


def own_imports(module: str) -> set[str]:
    names = {name for name, _ in imports(module) if name.partition(".")[0] == "odediscovery"}
    return {name.partition(".")[2] or "__init__" for name in names}


def layer_of(module: str) -> int:
    found = [i for i, layer in enumerate(LAYERS) if module in layer]
    assert len(found) == 1, f"give {module} a place in the table of layers"
    return found[0]


def test_every_module_has_a_place_and_every_place_a_module() -> None:
    assert sorted(name for layer in LAYERS for name in layer) == sorted(modules())


@pytest.mark.parametrize("module", modules())
def test_imports_go_one_way(module: str) -> None:
    layer = layer_of(module)
    below = {name for i in range(layer) for name in LAYERS[i]}
    allowed = below | set(LAYERS[layer][module].split())
    if module in ONLY:
        allowed &= set(ONLY[module].split())
    if module == "versions":
        allowed.add("__init__")  # __version__, which imports nothing
    if module == "__init__":
        allowed = set(modules())
    assert own_imports(module) <= allowed


def test_the_package_itself_imports_nothing_when_imported() -> None:
    at_top = [n for n in tree_of("__init__").body if isinstance(n, ast.Import | ast.ImportFrom)]
    names = {n.module if isinstance(n, ast.ImportFrom) else n.names[0].name for n in at_top}
    assert names == {"__future__", "importlib", "typing"}
    taken = [n for n in ast.walk(tree_of("versions"))
             if isinstance(n, ast.ImportFrom) and n.module == "odediscovery"]  # fmt: skip
    assert [alias.name for n in taken for alias in n.names] == ["__version__"]


@pytest.mark.parametrize("module", modules())
def test_heavy_libraries_have_one_door(module: str) -> None:
    for name, line in imports(module):
        library = name.partition(".")[0]
        doors = DOORS.get(library, module).split()
        assert module in doors, f"{module}:{line} imports {library}, whose door is {doors}"
        if module in STANDARD_ONLY:
            assert library in {*sys.stdlib_module_names, "odediscovery"}


@pytest.mark.parametrize("module", modules())
def test_no_import_hides_in_a_function(module: str) -> None:
    if module in LAZY:
        return
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            hidden = [n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom)]
            assert not hidden, f"{module}:{hidden[0].lineno}"


@pytest.mark.parametrize("module", modules())
def test_nothing_is_evaluated_or_unpickled(module: str) -> None:
    for node in ast.walk(tree_of(module)):
        where = f"{module}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Name):
            assert node.id not in EVALUATE, where
        elif isinstance(node, ast.Attribute):
            assert node.attr not in EVALUATE - {"compile"}, where
            assert (module == "__init__") or node.attr != "import_module", where
            torch_file = isinstance(node.value, ast.Name) and node.value.id == "torch"
            assert not (torch_file and node.attr in ("load", "save")), where
        elif isinstance(node, ast.alias):
            assert node.name.partition(".")[0] not in UNSAFE_MODULES, where
            assert node.name not in EVALUATE, where
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert isinstance(node.value, ast.Constant) and node.value.value is False, where
    own = {a.name for n in ast.walk(tree_of(module)) if isinstance(n, ast.ImportFrom)
           for a in n.names}  # fmt: skip
    uses_lambdify = "lambdify" in own or any(
        isinstance(n, ast.Attribute) and n.attr == "lambdify" for n in ast.walk(tree_of(module))
    )
    assert not uses_lambdify or module == "equations"


def test_numpy_files_are_read_without_pickle() -> None:
    loads = [
        node for module in modules() for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("np.load", "numpy.load")
    ]  # fmt: skip
    assert loads
    assert all("allow_pickle" in {k.arg for k in node.keywords} for node in loads)


def sources() -> list[Path]:
    return [*sorted(PACKAGE.rglob("*.py")), *sorted((ROOT / "tests").rglob("*.py"))]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", sources(), ids=name_of)
def test_budgets(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    assert path.stem not in ("utils", "helpers", "misc", "core")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node) is not None:
                doc = node.body[0]
                assert doc.end_lineno is not None
                length -= doc.end_lineno - doc.lineno + 1
            assert length <= 50, f"{node.name} has {length} lines"
        elif isinstance(node, ast.ClassDef):
            public = [n.name for n in node.body
                      if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")]  # fmt: skip
            assert len(public) <= 12, f"{node.name} has {len(public)} public methods"


Classes = dict[str, tuple[list[str], set[str]]]


@cache
def documented_methods() -> Classes:
    """For every class its bases and the methods it documents."""
    found: Classes = {}
    for module in modules():
        for node in ast.walk(tree_of(module)):
            if isinstance(node, ast.ClassDef):
                bases = [ast.unparse(base) for base in node.bases]
                methods = {n.name for n in node.body
                           if isinstance(n, ast.FunctionDef) and ast.get_docstring(n)}  # fmt: skip
                # Two classes of one name in different modules are read as one.
                before = found.get(node.name, ([], set()))
                found[node.name] = before[0] + bases, before[1] | methods
    return found


def inherits_docstring(owner: str, method: str) -> bool:
    bases, methods = documented_methods().get(owner, ([], set()))
    return method in methods or any(inherits_docstring(base, method) for base in bases)


@pytest.mark.parametrize("module", modules())
def test_what_is_public_is_documented(module: str) -> None:
    tree = tree_of(module)
    if tree.body:
        assert ast.get_docstring(tree), "the module says nothing"
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        assert ast.get_docstring(node), f"{node.name} says nothing"
        for method in node.body if isinstance(node, ast.ClassDef) else ():
            if not isinstance(method, ast.FunctionDef) or method.name.startswith("_"):
                continue
            if ast.unparse(method.body[0]) != "...":  # of a protocol: a name that says it all
                assert inherits_docstring(node.name, method.name), f"{node.name}.{method.name}"


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["simulate", "--help"]])
def test_help_needs_no_heavy_library(arguments: list[str]) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "odediscovery", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert "odediscovery" in done.stdout
    loaded = {line.rpartition("|")[2].strip().partition(".")[0]
              for line in done.stderr.splitlines() if line.startswith("import time:")}  # fmt: skip
    assert "typer" in loaded
    heavy = {"torch", "torchdiffeq", "scipy", "pandas", "sympy", "numpy", "matplotlib", "sklearn"}
    assert not loaded & heavy
