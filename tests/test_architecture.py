"""The design, checked: who imports whom, nothing evaluated, everything documented, nothing loaded too early."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "odediscovery"

# The rooms from top to bottom: a module imports from its own room and from the rooms above it. The
# modules beside the rooms (errors, settings) are above them all, the command line's door below.
ROOMS = (
    "runtime",
    "data",
    "ivp",
    "families",
    "laws",
    "knowledge",
    "problem",
    "units",
    "units.logic",
    "networks",
    "solve",
    "fitting",
    "stages",
    "neural",
    "judge",
    "result",
    "textbook",
    "search",
    "search.flows",
    "search.published",
    "population",
    "discovery",
    "many",
    "uncertainty",
    "estimator",
    "plots",
    "report",
    "bench",
    "experiments",
    "experiments.studies",
    "command",
)
TOP = ("__init__", "__main__", "cli", "errors", "settings")

# Rooms side by side know nothing of each other.
STRANGERS = {
    "units": "data laws knowledge problem settings",
    "stages.prune": "stages.polish",
    "stages.polish": "stages.prune",
    "estimator": "plots report",
    "plots": "estimator",
}

# Heavy libraries and their doors: modules, or whole rooms.
DOORS = {
    "torchdiffeq": "solve",
    "scipy.integrate": "ivp bench.systems",
    "pandas": "data",
    "sklearn": "estimator bench.reliability experiments.studies.digits",
    "jinja2": "report",
    "matplotlib": "plots report experiments",
    "pysindy": "bench.peers",
    "pyoperon": "bench.peers",
    "distributed": "runtime.cluster",
    "dask": "",
    "pint": "knowledge.dimensions",
    "typer": "command",
    "rich": "command",
}

# The commands load what they need when they run, so that help is instant.
LAZY = "command"
# Elsewhere only what few fits need waits until it is asked for, behind these doors: torch and pint, which are
# slow to load, and rooms of many modules.
WAITING = {
    "discovery.conclude": "population.told",
    "discovery.discover": "search.published.recipes search.flows.contest",
    "discovery.task": "runtime.device",
    "knowledge.dimensions": "pint",
    "search.search": "neural.train",
}
STANDARD_ONLY = (
    "errors",
    "settings",
    "runtime.memory",
    "runtime.monitor",
    "runtime.files",
    "runtime.versions",
    "runtime.workers",
)

# What it compiles is arithmetic of its own making; its tests say that it refuses anything else.
COMPILES = "ivp.solvers"
EVALUATE = {"eval", "exec", "compile", "__import__", "sympify", "parse_expr", "literal_eval"}
UNSAFE_MODULES = {"pickle", "cPickle", "dill", "shelve", "marshal"}


@cache
def modules():
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found.append(name.removesuffix(".__init__"))
    return found


def file_of(module):
    path = PACKAGE.joinpath(*module.split("."))
    return path / "__init__.py" if (path / "__init__.py").is_file() else path.with_suffix(".py")


@cache
def nodes_in(path):
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def nodes_of(module):
    return nodes_in(file_of(module))


def tree_of(module):
    tree = nodes_of(module)[0]
    assert isinstance(tree, ast.Module)
    return tree


def imports(module):
    """Full names of what a module imports, with the line."""
    for node in nodes_of(module):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: relative import"
            yield node.module or "", node.lineno


def own_imports(module):
    names = {name for name, _ in imports(module) if name.partition(".")[0] == "odediscovery"}
    return {name.partition(".")[2] or "__init__" for name in names}


def room_of(module):
    """The room that a module is in, the innermost one; empty beside the rooms."""
    inside = [room for room in ROOMS if module == room or module.startswith(f"{room}.")]
    return max(inside, key=len, default="")


def within(module, places):
    return any(module == place or module.startswith(f"{place}.") for place in places.split())


def each_module(check):
    """A test of every module as one of every room: a thousand tests of a millisecond cost seconds."""

    @pytest.mark.parametrize("room", ["", *ROOMS])
    def test(room):
        for module in modules():
            if room_of(module) == room:
                check(module)

    test.__doc__ = check.__doc__
    return test


def test_every_folder_is_a_room_and_few_modules_stand_beside_them():
    folders = {path.parent.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")} - {Path()}
    assert {".".join(folder.parts) for folder in folders} == set(ROOMS)
    assert {name for name in modules() if not room_of(name)} == set(TOP)


@each_module
def test_imports_go_one_way(module):
    """By folder: a module that moves is a decision, one that is added is none."""
    own = room_of(module)
    for name in own_imports(module) if own else ():
        room = room_of(name)
        if room:
            assert ROOMS.index(room) <= ROOMS.index(own), f"{module} imports {name}, a room below"
        else:
            assert name in ("errors", "settings", "__init__"), f"{module} imports {name}"
        assert not within(name, STRANGERS.get(own, "")), f"{module} imports {name}, a stranger"


def test_modules_of_one_room_do_not_import_each_other_in_a_circle():
    waiting = {name: own_imports(name) - {name, "__init__"} for name in modules()}
    del waiting["__init__"]  # names them all, and imports none before it is used
    while free := [name for name, needs in waiting.items() if not needs & waiting.keys()]:
        for name in free:
            del waiting[name]
    assert not waiting


def test_the_package_itself_imports_nothing_when_imported():
    at_top = [n for n in tree_of("__init__").body if isinstance(n, ast.Import | ast.ImportFrom)]
    names = {n.module if isinstance(n, ast.ImportFrom) else n.names[0].name for n in at_top}
    assert names == {"__future__", "importlib", "typing"}


@each_module
def test_heavy_libraries_have_one_door(module):
    for name, line in imports(module):
        library = name.partition(".")[0]
        doors = DOORS.get(name, DOORS.get(library))
        assert doors is None or within(module, doors), f"{module}:{line} imports {library}"
        if module in STANDARD_ONLY:
            assert library in {*sys.stdlib_module_names, "odediscovery"}


@each_module
def test_no_import_hides_in_a_function(module):
    if within(module, LAZY):
        return
    for node in nodes_of(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for hidden in (n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom)):
                name = hidden.module if isinstance(hidden, ast.ImportFrom) else hidden.names[0].name
                assert (name or "").removeprefix("odediscovery.") in WAITING.get(module, "").split(), (
                    f"{module}:{hidden.lineno}"
                )


@each_module
def test_nothing_is_evaluated_or_unpickled(module):
    for node in nodes_of(module):
        where = f"{module}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Name):
            assert node.id not in EVALUATE or (module == COMPILES and node.id in ("exec", "compile")), where
        elif isinstance(node, ast.Attribute):
            assert node.attr not in EVALUATE - {"compile"}, where
            assert module == "__init__" or node.attr != "import_module", where
            torch_file = isinstance(node.value, ast.Name) and node.value.id == "torch"
            assert not (torch_file and node.attr in ("load", "save")), where
        elif isinstance(node, ast.alias):
            assert node.name.partition(".")[0] not in UNSAFE_MODULES, where
            assert node.name not in EVALUATE, where
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert isinstance(node.value, ast.Constant) and node.value.value is False, where
    own = {a.name for n in nodes_of(module) if isinstance(n, ast.ImportFrom) for a in n.names}
    uses_lambdify = "lambdify" in own or any(
        isinstance(n, ast.Attribute) and n.attr == "lambdify" for n in nodes_of(module)
    )
    assert not uses_lambdify or module == "laws.equations"


@cache
def documented_methods():
    """For every class its bases and the methods it documents."""
    found = {}
    for module in modules():
        for node in nodes_of(module):
            if isinstance(node, ast.ClassDef):
                bases = [ast.unparse(base) for base in node.bases]
                methods = {n.name for n in node.body if isinstance(n, ast.FunctionDef) and ast.get_docstring(n)}
                # Two classes of one name in different modules are read as one.
                before = found.get(node.name, ([], set()))
                found[node.name] = before[0] + bases, before[1] | methods
    return found


def inherits_docstring(owner, method):
    bases, methods = documented_methods().get(owner, ([], set()))
    return method in methods or any(inherits_docstring(base, method) for base in bases)


@each_module
def test_what_is_public_is_documented(module):
    tree = tree_of(module)
    if tree.body:
        assert ast.get_docstring(tree), f"{module} says nothing"
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        assert ast.get_docstring(node), f"{module}: {node.name} says nothing"
        for method in node.body if isinstance(node, ast.ClassDef) else ():
            if not isinstance(method, ast.FunctionDef) or method.name.startswith("_"):
                continue
            if ast.unparse(method.body[0]) != "...":  # of a protocol: a name that says it all
                assert inherits_docstring(node.name, method.name), f"{node.name}.{method.name}"


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"]])
def test_help_needs_no_heavy_library(arguments):
    command = [sys.executable, "-X", "importtime", "-m", "odediscovery", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert "odediscovery" in done.stdout
    loaded = {
        line.rpartition("|")[2].strip().partition(".")[0]
        for line in done.stderr.splitlines()
        if line.startswith("import time:")
    }
    assert "typer" in loaded
    heavy = {"torch", "torchdiffeq", "scipy", "pandas", "sympy", "numpy", "matplotlib", "sklearn", "jaxtyping"}
    assert not loaded & heavy


def test_the_documentation_names_files_that_exist():
    built = (ROOT / "docs" / "house.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:odediscovery|tests|docs|notebooks)/[\w./]*)`", built)
    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_no_two_test_files_have_one_name():
    """Without packages among the tests pytest tells files by their names."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert {name for name in names if names.count(name) > 1} == set()


# Seconds each, and nothing that a usual fit computes needs them.
WAITS = ("torch", "torchdiffeq", "scipy.signal", "scipy.stats", "pint", "sklearn", "matplotlib.pyplot")


def ran(code, *arguments):
    """The modules that are there after some code ran in a process of its own, and what that said on standard error."""
    told = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint('loaded', *sorted(sys.modules))", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert told.returncode == 0, told.stderr
    return set(told.stdout.splitlines()[-1].split()[1:]), told.stderr


def test_the_package_alone_loads_nothing():
    assert not ran("import odediscovery")[0] & {*WAITS, "numpy", "scipy", "sympy", "pandas", "matplotlib"}


def test_a_fit_that_trains_no_network_loads_no_torch(tmp_path):
    """From the table to the pictures and the page; where digits are few laws are pruned on the way."""
    rows = [f"{t:.4g},{np.exp(-0.5 * t):.4g}" for t in np.linspace(0.0, 10.0, 41)]
    (tmp_path / "exp.csv").write_text("\n".join(["t,x", *rows]), encoding="utf-8")
    run = "import sys\nfrom odediscovery.cli import main\nassert main(sys.argv[1:]) == 0\n"
    run += "import odediscovery.many.run, odediscovery.uncertainty.bootstrap"
    found, said = ran(run, "fit", str(tmp_path / "exp.csv"), "--out", str(tmp_path / "out"))
    assert "matplotlib.figure" in found and (tmp_path / "out" / "report.html").exists()
    assert " prune\n" in said
    assert not found & {*WAITS}
