"""Renders the notebooks of the gallery as a page of the documentation: code, result and picture of each.

python .ci/gallery.py [NAME ...]        a few minutes; with names only the pictures of these are drawn anew

Reads notebooks/gallery/, runs each notebook in a kernel of its own, and writes docs/gallery.md and
docs/assets/gallery/NAME.png. What a notebook shows does not depend on the machine, unless a limit of time
ends its search.
"""

from __future__ import annotations

import base64
import io
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks" / "gallery"
PICTURES = ROOT / "docs" / "assets" / "gallery"

HEAD = """# Gallery

Measured series and classical systems: code, result (without notes and Pareto front) and picture. Each entry is a
notebook in `notebooks/gallery/`, rendered by `python .ci/gallery.py`; paths here begin at the clone.
"""
# Before the first cell, and in no page: pictures of a size that a page can show.
SETUP = "%config InlineBackend.print_figure_kwargs = {'dpi': 110, 'bbox_inches': None}"
SECONDS = 600  # that a cell may take


@dataclass(frozen=True)
class Entry:
    """One system.

    Args:
        path: of the notebook.
        text: its first cell, a title and what is seen.
        code: its cells of code, as one.
    """

    path: Path
    text: str
    code: str

    @property
    def name(self) -> str:
        """Of the picture, such as lynx-hare for 2_lynx_hare.ipynb."""
        return self.path.stem.partition("_")[2].replace("_", "-")


@dataclass(frozen=True)
class Shown:
    """What a notebook showed.

    Args:
        html: the result.
        picture: as PNG.
    """

    html: str
    picture: bytes


def entries() -> list[Entry]:
    """The notebooks, in the order of the page."""
    return [_entry(path) for path in sorted(NOTEBOOKS.glob("*.ipynb"))]


def _entry(path: Path) -> Entry:
    text, *cells = nbformat.read(path, as_version=4).cells
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    return Entry(path, text.source, code.replace("../../data/", "data/"))


def run(entry: Entry) -> Shown:
    """Run a notebook where it lies; the file stays as it is."""
    notebook = nbformat.read(entry.path, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(SETUP))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": str(NOTEBOOKS)}}).execute()
    shown: list[Any] = [out["data"] for cell in notebook.cells for out in cell.get("outputs", ()) if "data" in out]
    (html,) = (data["text/html"] for data in shown if "<math" in data.get("text/html", ""))
    (picture,) = (data["image/png"] for data in shown if "image/png" in data)
    return Shown(" ".join(html.split()), base64.b64decode(picture))


def section(entry: Entry, html: str) -> str:
    """An entry as Markdown."""
    title = entry.text.splitlines()[0].removeprefix("# ")
    picture = f"assets/gallery/{entry.name}.png"
    return (
        f"\n#{entry.text}\n\n<!-- accept -->\n```python\n{entry.code}\n```\n\n{html}\n\n"
        f'<div class="picture" markdown>\n\n[![Data and curves of the law found: {title}]({picture})]({picture})\n\n'
        "</div>\n"
    )


def brief(html: str) -> str:
    """A result without its notes and its folded Pareto front, which would be most of the page.

    >>> brief("<b>x</b><ul><li>a note</li></ul><details><summary>Pareto front</summary><p></p></details></div>")
    '<b>x</b></div>'
    """
    folded = r"<details><summary>(?:Pareto front|\d+ more notes?)</summary>.*?</details>"
    return re.sub(rf"{folded}|<ul>.*?</ul>", "", html)


def words(html: str) -> str:
    """What is read in a piece of HTML, one line each.

    >>> words("<div>x = 1</div><table><tr><td>a</td><td>b</td></tr></table>").split()
    ['x', '=', '1', 'a', 'b']
    """
    lines = re.sub(r"</(?:div|li|tr|summary)>|<br/>", "\n", html)
    return "\n".join(line.strip() for line in re.sub(r"<[^>]+>", " ", lines).splitlines() if line.strip())


def keep(picture: bytes, path: Path) -> None:
    """Write a picture in few colours, which makes small files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(48).save(path, optimize=True)


def main(names: list[str]) -> None:
    """Run the notebooks and write the page; of some entries only the pictures."""
    page = HEAD
    for entry in entries():
        if names and entry.name not in names:
            continue
        shown = run(entry)
        keep(shown.picture, PICTURES / f"{entry.name}.png")
        print(f"== {entry.name}\n{words(shown.html)}", flush=True)
        page += section(entry, brief(shown.html))
    if not names:
        (ROOT / "docs" / "gallery.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
