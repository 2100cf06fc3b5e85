"""Writes the gallery of the documentation: each entry is run as it stands there, with its output and picture.

python .ci/gallery.py [NAME ...]        a few minutes; with names only the pictures of these are drawn anew

The pages are docs/gallery.md and docs/assets/gallery/NAME.png. What an entry prints does not depend on
the machine, unless a limit of time ends its search.
"""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "assets" / "gallery"

HEAD = """# Gallery

Measured series and classical systems, each with the exact code, what it prints and what it draws. The page and its
pictures are written by `python .ci/gallery.py`, which runs the code as it stands here; `make accept` runs it again.
"""


@dataclass(frozen=True)
class Entry:
    """One system.

    Args:
        name: of the picture.
        title: of the section.
        text: what is seen.
        code: that makes `found`.
    """

    name: str
    title: str
    text: str
    code: str


ENTRIES = (
    Entry(
        "yeast",
        "Yeast in a vessel (Carlson 1913)",
        "Growth that slows down as the vessel fills: the logistic law, with names for its constants.",
        'series = load_csv("data/yeast_carlson_1913.csv", units="t=h,biomass=g/L")\n'
        "found = discover(series, settings_for(seed=0))",
    ),
    Entry(
        "lynx-hare",
        "Hares and lynxes (Hudson's Bay Company, 1900 to 1920)",
        "Predator and prey by Lotka and Volterra, from 21 numbers of pelts.",
        'series = load_csv("data/lynx_hare_1900_1920.csv")\nfound = discover(series, settings_for(seed=0))',
    ),
    Entry(
        "flu",
        "Influenza in a boarding school (1978)",
        "Only the boys in bed were counted. That there were 763 in all is enough to find the others.",
        'series = load_csv("data/flu_boarding_school_1978.csv", states=["in_bed"])\n'
        'knowledge = {"hidden_states": ("S", "R"), "conserve": ("S + in_bed + R = 763",)}\n'
        "found = discover(series, settings_for(seed=0, **knowledge))",
    ),
    Entry(
        "trees",
        "Five orange trees",
        "One law for all trees, with a constant of each tree's own: `auto` finds which constants differ.",
        'series = load_csv("data/orange_trees.csv", group="tree")\n'
        'found = discover(series, settings_for(seed=0, vary="auto"))',
    ),
    Entry(
        "torricelli",
        "A tank that runs empty (Torricelli)",
        "A square root comes out by itself: exponents are fitted, not chosen from a list.",
        'series = simulate_system("torricelli")\nfound = discover(series, settings_for(seed=0))',
    ),
    Entry(
        "van-der-pol",
        "Van der Pol's oscillator",
        "The vacuum tube that began the theory of limit cycles.",
        'series = simulate_system("van-der-pol", noise=0.01)\nfound = discover(series, settings_for(seed=0))',
    ),
    Entry(
        "pendulum",
        "A pendulum",
        "A sine inside the law: functions are tried after powers.",
        'series = simulate_system("pendulum", noise=0.01)\nfound = discover(series, settings_for(seed=0))',
    ),
    Entry(
        "lorenz",
        "Lorenz's convection",
        "Chaos: the seven terms of the law, from a course that no prediction follows for long.",
        'series = simulate_system("lorenz")\nfound = discover(series, settings_for(seed=0))',
    ),
    Entry(
        "brusselator",
        "The Brusselator",
        "An oscillating reaction, with an autocatalytic term of third order.",
        'series = simulate_system("brusselator", noise=0.01)\nfound = discover(series, settings_for(seed=0))',
    ),
)


def whole(entry: Entry) -> str:
    """The code of an entry with its imports."""
    source = "load_csv, settings_for" if "load_csv" in entry.code else "settings_for, simulate_system"
    return f"from odediscovery import discover, {source}\n\n{entry.code}\nprint(found.equations_text())"


def run(entry: Entry, namespace: dict[str, Any]) -> str:
    """What the code of an entry prints; its picture is drawn."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        exec(compile(whole(entry), entry.name, "exec"), namespace)
    axes = namespace["found"].plot()
    figure: Figure = axes[0].figure
    PICTURES.mkdir(parents=True, exist_ok=True)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=110, metadata={"Software": None})
    plt.close(figure)
    # Few colours make small files.
    Image.open(drawn).convert("RGB").quantize(48).save(PICTURES / f"{entry.name}.png", optimize=True)
    return told.getvalue()


def section(entry: Entry, printed: str) -> str:
    """An entry as Markdown."""
    output = "\n".join(f"# {line}" for line in printed.splitlines())
    return (
        f"\n## {entry.title}\n\n{entry.text}\n\n<!-- accept -->\n```python\n{whole(entry)}\n"
        f"{output}\naxes = found.plot()\n```\n\n"
        f"[![Data and curves of the law found: {entry.title}](assets/gallery/{entry.name}.png)]"
        f"(assets/gallery/{entry.name}.png)\n"
    )


def main(names: list[str]) -> None:
    """Run the entries and write the page; of some entries only the pictures."""
    namespace: dict[str, Any] = {}
    page = HEAD
    for entry in ENTRIES:
        if names and entry.name not in names:
            continue
        printed = run(entry, namespace)
        print(f"{entry.name}: {namespace['found'].seconds:.0f} s\n{printed}", flush=True)
        page += section(entry, printed)
    if not names:
        (ROOT / "docs" / "gallery.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
