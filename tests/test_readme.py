"""README: short, with pictures, every link leads somewhere, and what it claims is what the kept rows say."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from matplotlib.image import imread

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"(?<!`)!?\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
MADE = {"search.md", "notes.md"}  # by `make docs`


def test_the_pictures_are_small_and_made_by_make_demo():
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    made = (ROOT / ".ci" / "picture.py").read_text(encoding="utf-8")
    assert "python .ci/picture.py" in (ROOT / "Makefile").read_text(encoding="utf-8") and len(pictures) == 2
    for path in (ROOT / picture for picture in pictures):
        assert path.stat().st_size < 100_000
        height, width = imread(path).shape[:2]
        assert 300 < height < width < 1200
        assert f'"{path.stem}"' in made


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in LINK.findall(text):
        if "://" not in target and Path(target).name not in MADE:
            assert (page.parent / target).exists(), target


def test_the_recipe_of_conda_asks_for_what_the_package_asks_for():
    package = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    run = page.partition("  run:\n")[2].partition("\n\n")[0].splitlines()
    renamed = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
    asked = [re.fullmatch(r"([a-z0-9-]+)(>=.*)", each) for each in package["dependencies"]]
    expected = [f"    - {renamed.get(each[1], each[1])} {each[2]}" for each in asked if each]
    assert run == [f"    - python {package['requires-python']}", *expected] and len(expected) == len(asked)


KEPT = ROOT / "data" / "results" / "bench"
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
# Folder of ours, of pysindy and of pyoperon, and how the tables call the condition.
CONDITIONS = {"odebench-clean": "none, none", "odebench-noise": "5 %, none", "odebench-noise-drop": "5 %, half"}
METHODS = {"ours": "", "pysindy": "-peers", "pyoperon": "-pyoperon"}


def rows(folder, method):
    lines = (KEPT / folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["method"] == method]


def per_cent(hits, of):
    return f"{100 * hits / of:.0f}"


def shares(condition, method):
    """Per cent of the systems that are reconstructed, and that have exactly the true terms."""
    found = rows(condition + METHODS[method], method)
    good = sum(row["recon"] is not None and row["recon"] > 0.9 for row in found)
    return per_cent(good, len(found)), per_cent(sum(row["exact"] for row in found), len(found))


def cells(text, start):
    """The cells of the table row that starts so."""
    (line,) = re.findall(rf"^\| {re.escape(start)} \|(.*)\|$", text, re.MULTILINE)
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_all_methods_were_given_the_same_systems(condition):
    ids = [sorted(row["id"] for row in rows(condition + folder, method)) for method, folder in METHODS.items()]
    assert len(ids[0]) == 34 and ids[0] == ids[1] == ids[2]


@pytest.mark.parametrize(("condition", "name"), CONDITIONS.items())
def test_the_table_of_readme_is_that_of_the_kept_rows(condition, name):
    expected = [r" \| ".join(shares(condition, method)) for method in METHODS]
    assert cells(README, name)[:3] == expected


@pytest.mark.parametrize(("condition", "name"), CONDITIONS.items())
def test_the_published_figures_stand_beside_the_same(condition, name):
    start = {"none, none": "0, 0", "5 %, none": "5 %, 0", "5 %, half": "5 %, half"}[name]
    _, _, _, _, pysr, sindy, _ = told = cells(BENCHMARKS, start)
    assert told[:3] == [shares(condition, method)[0] for method in METHODS]
    assert cells(README, name)[3:] == [f"{float(pysr):.0f}", f"{float(sindy) + 1e-9:.0f}"]


def test_the_sentences_of_readme_are_those_of_the_kept_rows():
    exact = {
        (folder, method): sum(row["exact"] for row in rows(folder, method))
        for folder, method in (
            ("fractional-clean-2", "ours"),
            ("fractional-noise-2", "ours"),
            ("fractional-clean-2-peers", "pysindy"),
            ("fractional-noise-2-peers", "pysindy"),
            ("random-unseen-clean", "ours"),
            ("random-unseen-clean-peers", "pysindy"),
            ("random-54301-noise-1", "ours"),
        )
    }
    clean, noisy, theirs, theirs_noisy, unseen, unseen_theirs, unseen_noisy = exact.values()
    assert f"true terms of {clean} (clean) and {noisy} (2 % noise)" in README
    assert f"where pysindy finds {theirs} and {theirs_noisy}." in README
    assert f"true terms of {unseen} (pysindy of {unseen_theirs})" in README
    assert f"in 1 % noise those of {unseen_noisy} of 140 others" in README
