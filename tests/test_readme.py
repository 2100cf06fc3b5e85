"""README is one screen or two: short, with a picture, and every link leads somewhere."""

from __future__ import annotations

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


def test_the_pictures_are_small_and_made_by_make_demo() -> None:
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    made = (ROOT / ".ci" / "picture.py").read_text(encoding="utf-8")
    assert "python .ci/picture.py" in (ROOT / "Makefile").read_text(encoding="utf-8") and len(pictures) == 2
    for path in (ROOT / picture for picture in pictures):
        assert path.stat().st_size < 100_000
        height, width = imread(path).shape[:2]
        assert 300 < height < width < 1200
        assert f'"{path.stem}"' in made


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in LINK.findall(text):
        if "://" not in target and Path(target).name not in MADE:
            assert (page.parent / target).exists(), target


def test_the_recipe_of_conda_asks_for_what_the_package_asks_for() -> None:
    package = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    run = page.partition("  run:\n")[2].partition("\n\n")[0].splitlines()
    renamed = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
    asked = [re.fullmatch(r"([a-z0-9-]+)(>=.*)", each) for each in package["dependencies"]]
    expected = [f"    - {renamed.get(each[1], each[1])} {each[2]}" for each in asked if each]
    assert run == [f"    - python {package['requires-python']}", *expected] and len(expected) == len(asked)


def test_every_page_stands_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in PAGES[1:]:
        assert f"- {page.relative_to(ROOT / 'docs')}\n" in menu, page
