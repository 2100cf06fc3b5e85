"""The page in a real browser: nothing complains, clicking swaps rows, nothing is cut off.

Chromium is Debian's (`apt-get install chromium`) or any other on the PATH; without one these tests
are skipped, and the page is still checked as text by `test_report`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import PAGES
from playwright.sync_api import Browser, Page, sync_playwright

from odediscovery.report import report_html

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--no-first-run"]
FLAGS += [f"--disable-{what}" for what in ("gpu", "quic", "background-networking", "component-update", "sync")]
WIDTHS = (360, 1280)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the PATH: apt-get install chromium runs these tests"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages that are opened, as files."""
    made = tmp_path_factory.mktemp("pages")
    for kind in ("fsir", "hostile", "fitted", "functions", "dense"):
        (made / f"{kind}.html").write_text(report_html(PAGES[kind]()), encoding="utf-8")
    return made


def opened(browser: Browser, path: Path, width: int = 1280, scheme: str = "light") -> Page:
    """A page that fails the test as soon as it complains or asks for anything but itself."""
    context = browser.new_context(viewport={"width": width, "height": 850}, color_scheme=scheme)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda asked: complaints.append(asked.url) if asked.url != path.as_uri() else None)
    page.goto(path.as_uri(), wait_until="load")
    assert complaints == []
    page.complaints = complaints  # type: ignore[attr-defined]
    return page


def shown(page: Page, selector: str) -> list[str]:
    """Which of a front's rows are seen."""
    # A curve that does not change has no height, and yet it is seen.
    rows: list[str] = page.locator(selector).evaluate_all(
        """(parts) => parts.filter((part) => getComputedStyle(part).visibility === "visible")
        .map((part) => part.dataset.row)"""
    )
    return rows


@pytest.mark.parametrize("way", ["point", "button", "keyboard"])
def test_clicking_a_point_swaps_equations_and_curves(browser: Browser, folder: Path, way: str) -> None:
    page = opened(browser, folder / "fsir.html")
    rows, curves = ".row-equations", "#front .drawings g.row"
    assert shown(page, rows) == ["1"] and shown(page, curves) == ["1", "1", "1"]
    before = page.locator(f"{rows}.on").inner_text()
    if way == "point":
        page.locator('.front .point[data-row="0"]').click()
    elif way == "button":
        page.locator('button.show[data-row="0"]').click()
    else:
        page.locator('.front .point[data-row="0"]').focus()
        page.keyboard.press("Enter")
    assert shown(page, rows) == ["0"] and shown(page, curves) == ["0", "0", "0"]
    assert page.locator(f"{rows}.on").inner_text() != before
    assert page.locator('button.show[aria-pressed="true"]').get_attribute("data-row") == "0"
    assert shown(page, ".front .mark") == ["0"]
    page.locator('.front .point[data-row="1"]').click()
    assert page.locator(f"{rows}.on").inner_text() == before
    assert page.complaints == []  # type: ignore[attr-defined]
    page.context.close()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ["fsir", "hostile", "fitted", "functions", "dense"])
def test_nothing_hangs_over_the_edge(browser: Browser, folder: Path, kind: str, width: int) -> None:
    page = opened(browser, folder / f"{kind}.html", width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    beyond = page.evaluate(
        """(width) => [...document.querySelectorAll("body *")]
        .filter((part) => !part.parentElement.closest(".scroll, .formula, svg, math"))
        .filter((part) => part.getBoundingClientRect().right > width + 0.5)
        .map((part) => part.outerHTML.slice(0, 80))""",
        width,
    )
    assert beyond == []
    page.context.close()


def test_tables_of_constants_are_seen_whole_on_a_phone(browser: Browser, folder: Path) -> None:
    page = opened(browser, folder / "fitted.html", WIDTHS[0])
    hidden = page.evaluate(
        """() => [...document.querySelectorAll(".scroll:has(.stacked)")]
        .map((part) => part.scrollWidth - part.clientWidth)"""
    )
    assert hidden == [0, 0]
    page.context.close()


def test_letters_of_drawings_stay_legible_on_a_phone(browser: Browser, folder: Path) -> None:
    page = opened(browser, folder / "fsir.html", WIDTHS[0])
    sizes = page.evaluate(
        """() => [...document.querySelectorAll("svg.drawing text")].map((text) =>
        parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a)
        .filter((size) => size > 0)"""
    )
    assert len(sizes) > 50 and min(sizes) >= 8.0
    page.context.close()


def test_dark_and_print_have_their_own_colours(browser: Browser, folder: Path) -> None:
    page = opened(browser, folder / "fsir.html", scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    curve = "getComputedStyle(document.querySelector('#fit path[style*=\"--c0\"]')).stroke"
    assert page.evaluate(background) == "rgb(21, 24, 27)"
    dark = page.evaluate(curve)
    page.emulate_media(media="print")
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    assert page.evaluate(curve) != dark
    assert not page.locator("button.show").first.is_visible()
    page.context.close()


def test_hostile_names_run_nothing(browser: Browser, folder: Path) -> None:
    page = opened(browser, folder / "hostile.html")
    assert page.locator("script").count() == 1
    assert "<script>alert(1)</script>" in page.locator("h1").inner_text()
    page.context.close()


@pytest.mark.parametrize("width", [900, 1000, 1280])
def test_the_table_of_the_front_is_seen_whole_beside_its_drawing(browser: Browser, folder: Path, width: int) -> None:
    page = opened(browser, folder / "fitted.html", width)
    hidden = page.locator("#front .split .scroll").evaluate("(box) => box.scrollWidth - box.clientWidth")
    assert hidden <= 0
