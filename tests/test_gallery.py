"""The gallery: notebooks that run, and a page that shows what they show."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from matplotlib.image import imread
from test_examples import missing

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
NOTEBOOKS = sorted((ROOT / "notebooks" / "gallery").glob("*.ipynb"))


@pytest.fixture(scope="module")
def gallery() -> ModuleType:
    """`.ci/gallery.py`, which renders the notebooks."""
    spec = importlib.util.spec_from_file_location("gallery", ROOT / ".ci" / "gallery.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gallery"] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_has_text_code_and_picture_of_every_notebook(gallery: ModuleType) -> None:
    for entry, path in zip(gallery.entries(), NOTEBOOKS, strict=True):
        before, _, after = gallery.section(entry, "HTML").partition("HTML")
        assert before in PAGE and after in PAGE, path.name
        height, width = imread(ROOT / "docs" / "assets" / "gallery" / f"{entry.name}.png").shape[:2]
        assert width > 400 and height > 200
        assert all(not cell.get("outputs") for cell in json.loads(path.read_text(encoding="utf-8"))["cells"])


@pytest.mark.accept
@pytest.mark.parametrize("k", range(len(NOTEBOOKS)), ids=[path.stem for path in NOTEBOOKS])
def test_notebooks_show_what_stands_on_the_page(gallery: ModuleType, k: int) -> None:
    section = "<div class=" + PAGE.split('<div class="odediscovery">')[k + 1].partition("\n")[0]
    shown = gallery.run(gallery.entries()[k])
    told = gallery.words(section).splitlines()[1:]
    assert missing(told, gallery.words(shown.html).splitlines()) is None
