"""A fit in a real Jupyter server, driven by headless Chromium: pictures of its bar and of its result.

python .ci/notebook.py OUT [COMMAND]    COMMAND starts the server (default: jupyter lab; pip install jupyterlab)

The kernel is this Python. Writes bar.png, result.png and own.png (a law of one's own) into OUT, prints what the bar
said and when, and ends with 1 where a bar or a result was not to be seen.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
CELLS = (
    "from odediscovery import discover, fit_constants, load_csv, settings_for\n"
    "series = load_csv('lynx_hare_1900_1920.csv')",
    "found = discover(series, settings_for('default', seed=0))\nfound",
    "axes = found.plot()",
    "fit_constants(series, '''hare' = r*hare*(1 - hare/K) - a*hare*lynx\nlynx' = c*hare*lynx - d*lynx''')",
)
# Seconds that a server and a cell may take.
PATIENCE = 180.0


@contextlib.contextmanager
def served(command: list[str], folder: Path) -> Iterator[str]:
    """The address of a notebook server that ends with the block."""
    cells = [
        {"id": f"c{k}", "cell_type": "code", "source": text, "metadata": {}, "outputs": [], "execution_count": None}
        for k, text in enumerate(CELLS)
    ]
    spec = {"name": "here", "display_name": "here", "language": "python"}
    book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": spec}, "cells": cells}
    (folder / "first.ipynb").write_text(json.dumps(book), encoding="utf-8")
    shutil.copy(ROOT / "data" / "lynx_hare_1900_1920.csv", folder)
    kernel = folder / ".jupyter" / "kernels" / "here"
    kernel.mkdir(parents=True)
    start = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    own = {**spec, "argv": start, "env": {"PYTHONPATH": str(ROOT)}}
    (kernel / "kernel.json").write_text(json.dumps(own), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    hidden = {name: str(folder / ".jupyter") for name in ("JUPYTER_PATH", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR")}
    options = ["--no-browser", f"--port={port}", "--allow-root", "--IdentityProvider.token="]
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(
            [*command, *options], cwd=folder, env=os.environ | hidden, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait()


def run_cell(page: Page, k: int, out: Path) -> list[str]:
    """Run the cell that is next; what a bar below it said, which is kept as a picture."""
    cell, began, told = page.locator(".jp-Notebook .jp-Cell").nth(k), time.monotonic(), list[str]()
    page.keyboard.press("Shift+Enter")
    while time.monotonic() < began + PATIENCE:
        if cell.locator("progress").count():
            text = " ".join(cell.locator(".jp-OutputArea").inner_text().split())
            if text and (not told or told[-1] != text):
                told.append(text)
                print(f"   {time.monotonic() - began:5.1f} s  {text}", flush=True)
                if len(told) == 2:
                    cell.screenshot(path=out / "bar.png")
        if cell.locator(".jp-InputPrompt").first.inner_text() == f"[{k + 1}]:":
            return told
        page.wait_for_timeout(50)
    raise TimeoutError(f"cell {k + 1} did not end within {PATIENCE:.0f} s")


def main(out: Path, command: list[str]) -> int:
    """Run the notebook; 0 where all was seen."""
    out.mkdir(exist_ok=True, parents=True)
    with tempfile.TemporaryDirectory() as name, served(command, Path(name)) as address, sync_playwright() as started:
        for _ in range(int(PATIENCE)):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{address}/api")
                break
            time.sleep(1.0)
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1130, "height": 1600})
        page.goto(f"{address}/lab/tree/first.ipynb")
        page.locator(".jp-Notebook .jp-Cell .cm-content").first.click(timeout=1000 * PATIENCE)
        page.wait_for_timeout(3000)
        bars = [run_cell(page, k, out) for k in range(len(CELLS))]
        cells = page.locator(".jp-Notebook .jp-Cell")
        first, last = cells.nth(0).bounding_box(), cells.nth(2).bounding_box()
        assert first and last  # They were run.
        page.screenshot(path=out / "result.png", clip=first | {"height": last["y"] + last["height"] - first["y"]})
        cells.nth(3).screenshot(path=out / "own.png")
        seen = [cells.nth(k).inner_text() for k in range(len(CELLS))]
        pictures = cells.nth(2).locator("img").count()
        browser.close()
    print(seen[1], seen[3], sep="\n\n")
    wanted = {
        "a bar": bool(bars[1]) and "left" in bars[1][0],
        "no bar at the end": "left" not in seen[1],
        "the law": "law found: R2" in seen[1],
        "a law of one's own": "constants fitted: R2" in seen[3],
        "a picture": pictures == 1,
    }
    print(", ".join(f"{what}: {'seen' if yes else 'NOT SEEN'}" for what, yes in wanted.items()))
    return int(not all(wanted.values()))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:] or ["jupyter", "lab"]))
