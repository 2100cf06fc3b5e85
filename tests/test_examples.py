"""README and documentation do what they show: every command and every line of Python is run.

A `console` block holds commands after "$ "; the lines below one have to appear in what it prints,
in that order. In a `python` block the comments behind a statement are what it prints. Numbers are
compared as measurements are, by their standard error where one is shown, else to 1 %. Blocks share
one folder and, within a document, one namespace; a command that several documents show is run once.

`<!-- accept -->` above a block leaves it to `make accept`; of a `<!-- long -->` one, of many
minutes, only the options are checked, as in commands within sentences.
The gallery's notebooks run, and its page shows what they show.
"""

import ast
import contextlib
import importlib.util
import io
import itertools
import json
import math
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from markdown_it import MarkdownIt
from matplotlib.image import imread

from odediscovery import Equations, Signal
from odediscovery.command.cli import main

ROOT = Path(__file__).resolve().parent.parent


def chemostat(path):
    """Substrate and cells in a stirred vessel: warm spells, and a feed that somebody changes."""
    t = np.linspace(0.0, 10.0, 101)
    temperature = 30.0 + 6.0 * np.sin(0.4 * np.pi * t)
    feed = np.repeat([0.9, 0.6, 0.6, 0.3, 0.3, 0.1, 0.1, 0.1, 0.1, 0.9, 0.6], 10)[:101]
    inputs = np.column_stack([temperature, feed])
    law = Equations.parse(
        ["S", "X"], {"S": "10*feed - 0.3*S*X - S*feed", "X": "0.0075*S*X*T - X*feed"}, controls=["T", "feed"]
    )
    values = law.simulate([5.0, 1.0], t, controls=Signal(t, inputs, np.array([False, True])))
    table = pd.DataFrame(np.column_stack([t, values, inputs]))
    table.to_csv(path, index=False, header=["t", "S", "X", "T", "feed rate"])


def drop(path):
    """The first drop of the tennis ball, from its release on, without its irregular end."""
    balls = pd.read_csv(ROOT / "data" / "ball_drops.csv")
    balls = balls[(balls["ball"] == "tennis_ball") & (balls["drop"] == 1)]
    falls = balls[balls["velocity"] < 0].iloc[:-4]
    falls[["t", "height", "velocity"]].to_csv(path, index=False)


def growth(path):
    """Logistic growth; every second sample has ten times the noise of the others."""
    t = np.linspace(0.0, 10.0, 40)
    sigma = np.where(np.arange(40) % 2, 0.5, 0.05)
    exact = 10.0 / (1.0 + 19.0 * np.exp(-0.8 * t))
    seen = exact + sigma * np.random.default_rng(0).standard_normal(40)
    pd.DataFrame({"t": t, "N": seen, "N_sd": sigma}).to_csv(path, index=False)


def richards(path):
    """Richards growth."""
    path.write_text("od' = r*od - q*od^p\n", encoding="utf-8")


FILES = {"chemostat.csv": chemostat, "drop.csv": drop, "richards.txt": richards, "growth.csv": growth}


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LANGUAGES = ("console", "python", "text", "json")
NUMBER = re.compile(r"(?<![\w.])(-?\d+(?:\.\d+)?)(?:\((\d+)\))?(e[-+]?\d+)?")
CLOSE, ERRORS_ALIKE = 0.01, 3.0


@dataclass(frozen=True)
class Example:
    """A block of a document, and where it stands."""

    document: Path
    line: int
    language: str
    text: str
    mark: str

    def __str__(self):
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def examples(document):
    found, mark = [], ""
    for token in MarkdownIt().parse(document.read_text(encoding="utf-8")):
        if token.type == "fence":
            found.append(Example(document, token.map[0] + 1, token.info, token.content, mark))
        marked = re.fullmatch(r"<!-- (accept|long) -->\s*", token.content)
        mark = marked[1] if token.type == "html_block" and marked else ""
    return found


ALL = [example for document in DOCUMENTS for example in examples(document)]
LONG = [example for example in ALL if example.mark == "accept"]


def size(match):
    """Value and standard error of a printed number."""
    digits, error, power = match.groups()
    unit = 10.0 ** int((power or "e0")[1:])
    decimals = len(digits.partition(".")[2])
    return float(digits) * unit, None if error is None else int(error) * unit / 10.0**decimals


def alike(shown, came):
    """Whether two lines are the same but for the last digits of numbers."""
    if NUMBER.sub("#", shown).split() != NUMBER.sub("#", came).split():
        return False
    pairs = zip(NUMBER.finditer(shown), NUMBER.finditer(came), strict=True)
    for (a, error), (b, other) in ((size(x), size(y)) for x, y in pairs):
        if (error is None) != (other is None):
            return False
        if not math.isclose(a, b, rel_tol=CLOSE, abs_tol=error or 0.0):
            return False
        if error and other and not 1 / ERRORS_ALIKE <= other / error <= ERRORS_ALIKE:
            return False
    return True


def missing(shown, came):
    """The first shown line that does not come, after those before it."""
    rest = iter(came)
    return next((s for s in shown if not any(alike(s, line) for line in rest)), None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where examples run: the measured series, and the tables that they speak of."""
    path = tmp_path_factory.mktemp("examples")
    (path / "data").symlink_to(ROOT / "data")
    for name, write in FILES.items():
        write(path / name)
    return path


@pytest.fixture(scope="module")
def printed():
    """What commands printed that were run before."""
    return {}


@pytest.fixture
def run(folder, printed, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")

    def of(command):
        if command not in printed:
            program, *arguments = shlex.split(command, comments=True)
            if Path(program).name == "odediscovery" and "measurements.csv" not in arguments:
                capsys.readouterr()
                code = main(arguments)
                told = capsys.readouterr()
                assert code == 0, f"{command}\n{told.err}"
                printed[command] = told.out
            else:
                check(command)
                printed[command] = ""
        return printed[command]

    return of


def check(command):
    """Whether a command that is not run here exists, with these options."""
    program, *arguments = shlex.split(command, comments=True)
    if program == "make":
        dry = subprocess.run(["make", "-n", *arguments], cwd=ROOT, capture_output=True)
        assert dry.returncode == 0, command
    elif program == "pip":
        extras = re.findall(r"\[(\w+)\]", command)
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert arguments[0] == "install" and set(extras) <= set(project["optional-dependencies"])
    else:
        assert Path(program).name == "odediscovery", f"cannot check {command!r}"
        # All options are read before help is given, and unknown ones are refused.
        with contextlib.redirect_stdout(io.StringIO()):
            assert main([*arguments, "--help"]) == 0, command


def console(text):
    """Commands, and the lines shown below them."""
    lines = [line for line in text.splitlines() if line.strip()]
    assert lines[0].startswith("$ "), "a console block begins with a command"
    for i in (i for i, line in enumerate(lines) if line.startswith("$ ")):
        shown = itertools.takewhile(lambda line: not line.startswith("$ "), lines[i + 1 :])
        yield lines[i].removeprefix("$ ").split(" && "), list(shown)


def statements(text):
    """Statements, and the comments behind each up to an empty line."""
    lines, body = text.splitlines(), ast.parse(text).body
    for node in body:
        assert node.end_lineno is not None and node.end_col_offset is not None
        last = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode()
        below = itertools.takewhile(lambda line: line.startswith("#"), lines[node.end_lineno :])
        comments = [line.strip().removeprefix("#").strip() for line in (last, *below)]
        yield node, [comment for comment in comments if comment]


def do(example, run, names):
    """Run a block and compare what it prints."""
    if example.language == "console":
        for commands, shown in console(example.text):
            if example.mark == "long":
                assert not shown, f"{example}: output of what is not run"
                for command in commands:
                    check(command)
                continue
            came = [run(command) for command in commands][-1].splitlines()
            lost = missing(shown, came)
            assert lost is None, f"{example}: {lost!r} is not in\n" + "\n".join(came)
    elif example.language == "python":
        for node, comments in statements(example.text):
            told = io.StringIO()
            with contextlib.redirect_stdout(told):
                code = compile(ast.Module([node], []), str(example), "exec")
                exec(code, names)
            came = told.getvalue().splitlines()
            if came:
                same = len(came) == len(comments) and all(map(alike, comments, came))
                assert same, f"{example}: {ast.unparse(node)} printed\n" + "\n".join(came)


# Pages whose fits take longer than CI can wait for, and that read no folder that another page wrote.
LONG_PAGES = ("README", "neural", "recorded", "knowledge", "hidden-states", "noise")
PAGES = [pytest.param(page, marks=pytest.mark.long if page.stem in LONG_PAGES else ()) for page in DOCUMENTS]


def test_commands_of_readme(run):
    """Other pages read what they write; networks are trained in `make long`."""
    for example in examples(ROOT / "README.md"):
        if example.language == "console":
            do(example, run, {})


@pytest.mark.parametrize("document", PAGES, ids=lambda path: path.stem)
def test_examples(document, run):
    names = {}
    for example in examples(document):
        if example.mark != "accept":
            do(example, run, names)


@pytest.mark.accept
@pytest.mark.parametrize("example", LONG, ids=str)
def test_long_examples(example, run):
    do(example, run, {})


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_no_block_is_overlooked(document):
    found = examples(document)
    assert {example.language for example in found} <= set(LANGUAGES)
    text = document.read_text(encoding="utf-8")
    assert len(re.findall(r"^\s*(```|~~~)", text, re.MULTILINE)) == 2 * len(found)
    marks = re.findall(r"^<!-- (accept|long) -->$", text, re.MULTILINE)
    assert marks == [example.mark for example in found if example.mark]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_commands_within_sentences_exist(document):
    for token in MarkdownIt().enable("table").parse(document.read_text(encoding="utf-8")):
        for child in token.children or ():
            command = child.content
            ours = child.type == "code_inline" and command.startswith("odediscovery ")
            # A name in capitals, or a choice, stands for something else.
            if ours and not re.search(r"[|\[]|\b[A-Z]{3,}\b|\.\.\.", command):
                check(command)


PAGE = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
NOTEBOOKS = sorted((ROOT / "notebooks" / "gallery").glob("*.ipynb"))


@pytest.fixture(scope="module")
def gallery():
    """`.ci/gallery.py`, which renders the notebooks."""
    spec = importlib.util.spec_from_file_location("gallery", ROOT / ".ci" / "gallery.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gallery"] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_has_text_code_and_picture_of_every_notebook(gallery):
    for entry, path in zip(gallery.entries(), NOTEBOOKS, strict=True):
        before, _, after = gallery.section(entry, "HTML").partition("HTML")
        assert before in PAGE and after in PAGE, path.name
        height, width = imread(ROOT / "docs" / "assets" / "gallery" / f"{entry.name}.png").shape[:2]
        assert width > 400 and height > 200
        assert all(not cell.get("outputs") for cell in json.loads(path.read_text(encoding="utf-8"))["cells"])


@pytest.mark.accept
@pytest.mark.parametrize("k", range(len(NOTEBOOKS)), ids=[path.stem for path in NOTEBOOKS])
def test_notebooks_show_what_stands_on_the_page(gallery, k):
    section = "<div class=" + PAGE.split('<div class="odediscovery">')[k + 1].partition("\n")[0]
    shown = gallery.run(gallery.entries()[k])
    told = gallery.words(section).splitlines()[1:]
    assert missing(told, gallery.words(shown.html).splitlines()) is None
