"""The page in a real browser: nothing complains, clicking swaps rows, nothing is cut off.

Chromium is Debian's (`apt-get install chromium`) or any other on the PATH; without one these tests
are skipped, and the page is still checked as text by `test_report`.
"""

import shutil

import pytest
from pages import PAGES
from playwright.sync_api import sync_playwright

from odediscovery.report import report_html

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--no-first-run"]
FLAGS += [f"--disable-{what}" for what in ("gpu", "quic", "background-networking", "component-update", "sync")]
WIDTHS = (360, 1280)

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the PATH: apt-get install chromium runs these tests"),
]


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The pages that are opened, as files."""
    made = tmp_path_factory.mktemp("pages")
    for kind in ("fsir", "hostile", "fitted", "functions", "dense"):
        (made / f"{kind}.html").write_text(report_html(PAGES[kind]()), encoding="utf-8")
    return made


def opened(browser, path, width=1280, scheme="light"):
    """A page that fails the test as soon as it complains or asks for anything but itself."""
    context = browser.new_context(viewport={"width": width, "height": 850}, color_scheme=scheme)
    page = context.new_page()
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda asked: complaints.append(asked.url) if asked.url != path.as_uri() else None)
    page.goto(path.as_uri(), wait_until="load")
    assert complaints == []
    page.complaints = complaints
    return page


def shown(page, selector):
    """Which of a front's rows are seen."""
    # A curve that does not change has no height, and yet it is seen.
    rows = page.locator(selector).evaluate_all(
        """(parts) => parts.filter((part) => getComputedStyle(part).visibility === "visible")
        .map((part) => part.dataset.row)"""
    )
    return rows


@pytest.mark.parametrize("way", ["point", "button", "keyboard"])
def test_clicking_a_point_swaps_equations_and_curves(browser, folder, way):
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
    assert page.complaints == []
    page.context.close()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ["fsir", "hostile", "fitted", "functions", "dense"])
def test_nothing_hangs_over_the_edge(browser, folder, kind, width):
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


def test_dark_and_print_have_their_own_colours(browser, folder):
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


def test_hostile_names_run_nothing(browser, folder):
    page = opened(browser, folder / "hostile.html")
    assert page.locator("script").count() == 1
    assert "<script>alert(1)</script>" in page.locator("h1").inner_text()
    page.context.close()


@pytest.mark.parametrize("width", [900, 1000, 1280])
def test_the_table_of_the_front_is_seen_whole_beside_its_drawing(browser, folder, width):
    page = opened(browser, folder / "fitted.html", width)
    hidden = page.locator("#front .split .scroll").evaluate("(box) => box.scrollWidth - box.clientWidth")
    assert hidden <= 0
