"""The front-end kit in a real Chromium: its modules, and the pages into which they are bundled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, sync_playwright

from live_eval.campaigns.duplex.summary import duplex_summary, read_duplex
from live_eval.report import write_report
from live_eval.report.duplex import write_duplex_page
from live_eval.web import KIT
from tests.support.duplex_campaigns import barge_in, pause, write_duplex_campaign
from tests.support.visited import HOSTILE, write_visited

pytestmark = pytest.mark.timeout(120)

ORIGIN = "http://kit.test"
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; media-src blob:"
BLANK = """<!DOCTYPE html><title>kit</title>
<link rel="stylesheet" href="/theme.css"><link rel="stylesheet" href="/kit.css">"""
SCENES = Path(__file__).with_name("web_scenes.js")
TYPES = {".js": "text/javascript", ".css": "text/css"}


@pytest.fixture(scope="module")
def chromium(browser: str) -> Iterator[Browser]:
    with sync_playwright() as driver:
        opened = driver.chromium.launch(
            executable_path=browser, args=["--autoplay-policy=no-user-gesture-required"]
        )
        yield opened
        opened.close()


@pytest.fixture
def errors() -> list[str]:
    """A page's exceptions and console messages, such as violations of its content security policy."""
    return []


@pytest.fixture
def page(chromium: Browser, errors: list[str]) -> Iterator[Page]:
    """A page; the test fails if it reports an error."""
    context = chromium.new_context(viewport={"width": 1000, "height": 800}, reduced_motion="reduce")
    opened = context.new_page()
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    yield opened
    context.close()
    assert errors == []


@pytest.fixture
def kit(page: Page) -> Page:
    """A blank page that can import the kit's modules."""

    def answer(route: Route) -> None:
        name = route.request.url.removeprefix(f"{ORIGIN}/")
        file = SCENES if name == SCENES.name else KIT / name
        if file.suffix in TYPES:
            route.fulfill(body=file.read_text("utf-8"), content_type=TYPES[file.suffix])
        else:
            route.fulfill(body=BLANK, content_type="text/html", headers={"Content-Security-Policy": POLICY})

    page.route(f"{ORIGIN}/**", answer)
    page.goto(f"{ORIGIN}/")
    return page


def scene(page: Page, name: str, given: Any = None) -> Any:
    """Run a function of `web_scenes.js`."""
    run = f"async (given) => (await import('/{SCENES.name}')).{name}(given)"
    return page.evaluate(run, given)


def test_texts_are_inserted_as_text(kit: Page) -> None:
    """Every element helper shows markup as plain text."""
    assert scene(kit, "texts", HOSTILE)
    assert kit.locator("img").count() == 0
    assert kit.locator("b").all_inner_texts() == [HOSTILE, HOSTILE]  # a kind, a definition
    assert kit.title() == "kit"


def test_a_heat_map_shades_what_can_be_compared_and_defines_its_scores(kit: Page) -> None:
    scene(kit, "heat")
    assert kit.locator("tbody th a").all_inner_texts() == ["sigh", "shout", "whisper"]
    assert kit.locator("tbody th a").first.get_attribute("href") == "#task=conversation&cue=sigh"
    assert kit.locator("tbody th").last.inner_text().startswith("b / gasp")  # ambiguous in lists: no link
    shades = kit.locator("tbody td").evaluate_all("cells => cells.map((cell) => cell.style.cssText)")
    # Latency: lower is better. The third cue has too few scripts, and the fourth is from the last sound.
    shares = ["1.000", "0.000", "0.000", "1.000", None, None, None, "0.500", "0.500", "0.500"]
    assert shades == [f"--share: {share};" if share else "" for share in shares]
    assert kit.locator("tbody td.thin").all_inner_texts() == ["400\nn 9", "5.00\nn 9"]
    assert kit.locator("tbody th").nth(2).inner_text() == "whisper\n9 turns, 3 scripts"
    assert "fewer than 8 scripts" in kit.locator(".note").inner_text()

    definition = kit.get_by_text("Whether the reply fits the cue.")
    assert not definition.is_visible()
    kit.get_by_role("button", name="About C4").focus()
    kit.keyboard.press("Enter")
    assert definition.is_visible()
    kit.keyboard.press("Escape")
    assert not definition.is_visible()


def until(page: Page, expression: str) -> None:
    """Wait until an expression is true; Playwright's method needs `eval`, which the page's policy forbids."""
    for _ in range(500):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(20)
    pytest.fail(f"never true: {expression}")


def names(page: Page) -> list[str]:
    return page.locator("button.name").all_inner_texts()


def test_rows_are_sorted_filtered_paged_and_opened(kit: Page) -> None:
    scene(kit, "rows", 230)
    output = kit.locator("output")
    assert output.inner_text() == "230 of 230 turns"
    assert names(kit)[:2] == ["turn 0", "turn 1"]
    assert len(names(kit)) == 100

    kit.get_by_role("button", name="Next").click()
    assert kit.locator(".pages span").inner_text() == "turns 101 to 200"
    assert kit.evaluate("document.activeElement.innerText") == "turn 100"
    kit.get_by_role("button", name="Show all").click()
    assert len(names(kit)) == 230

    head = kit.get_by_role("button", name="ms")
    head.click()
    assert names(kit)[0] == "turn 229"  # numbers are sorted in descending order first
    assert names(kit)[-1] == "turn 224"  # missing ones are last, in both directions
    assert kit.get_by_role("columnheader", name="ms").get_attribute("aria-sort") == "descending"
    head.click()
    assert names(kit)[0] == "turn 1"
    assert names(kit)[-1] == "turn 224"
    assert kit.evaluate("document.activeElement.innerText") == "ms"

    kit.locator("select[name=cue]").select_option("sigh")
    assert output.inner_text() == "115 of 230 turns"
    kit.locator("input").fill("WORDS turn 22")
    kit.locator("output", has_text="5 of 230 turns").wait_for()

    kit.get_by_role("button", name="turn 221").click()
    assert kit.locator("tr.detail .opened").inner_text() == "details of turn 221"
    kit.get_by_role("button", name="turn 221").click()
    assert kit.locator("tr.detail").count() == 0
    assert kit.evaluate("left") == [221]


def test_a_link_opens_a_row_on_its_page_or_filters(kit: Page) -> None:
    scene(kit, "rows", 230)
    kit.evaluate("location.hash = '#turn=turn%20150'")
    kit.locator(".opened").wait_for()
    assert kit.locator(".pages span").inner_text() == "turns 101 to 200"
    assert kit.locator(".opened").inner_text() == "details of turn 150"
    kit.evaluate("location.hash = '#cue=laugh'")
    kit.locator("output", has_text="115 of 230 turns").wait_for()
    kit.evaluate("location.hash = '#t3'")
    kit.locator(".opened", has_text="details of turn 3").wait_for()


def test_the_latest_response_wins_and_a_failure_is_shown(kit: Page) -> None:
    assert scene(kit, "answers") == ["quick", "<b>no</b>", "1 of 2 turns"]


MARKS = [
    {"kind": "end", "title": HOSTILE, "at_s": 0.5},
    {"kind": "audible", "title": "first audible sample", "at_s": 1.0},
    {"kind": "done", "title": "response done", "at_s": 1.95},
]


def at(page: Page) -> float:
    return float(page.get_by_role("slider").get_attribute("aria-valuenow") or -1)


def test_a_recording_is_drawn_played_and_seekable_by_keyboard(kit: Page) -> None:
    scene(kit, "recorded", {"sounds": ["both", "user"], "marks": MARKS})
    assert kit.locator("img").count() == 0
    assert HOSTILE in kit.locator(".flags").inner_text()
    pixels = "one.getContext('2d').getImageData(0, 0, one.width, one.height).data.buffer"
    drawn = kit.locator("canvas").evaluate_all(
        f"(all) => all.map((one) => new Set(new Uint32Array({pixels})).size)"
    )
    assert len(drawn) == 2
    assert min(drawn) > 1
    gap = kit.locator(".gap").evaluate("(one) => [parseFloat(one.style.left), parseFloat(one.style.width)]")
    assert gap == pytest.approx([25, 25])

    slider = kit.get_by_role("slider")
    slider.focus()
    for key in ("ArrowRight", "PageUp", "ArrowLeft"):
        kit.keyboard.press(key)
    assert at(kit) == pytest.approx(1.0)
    assert slider.get_attribute("aria-valuetext") == "1.00 s, after first audible sample"
    assert kit.locator("#word").get_attribute("class") == "heard"
    help_text = kit.locator(f"#{slider.get_attribute('aria-describedby')}").text_content()
    assert (help_text or "").endswith("In words.")

    kit.keyboard.press("+")
    assert kit.evaluate("document.querySelector('.gap').style.width") == "50%"
    kit.get_by_role("button", name="Handover").click()
    kit.get_by_role("button", name="Whole").click()
    kit.get_by_role("button", name="user", exact=True).click()
    assert kit.locator("audio").evaluate("(one) => one.currentTime") == pytest.approx(1.0)
    kit.get_by_role("button", name="3 response done").click()  # plays from there to the end
    until(kit, "document.querySelector('audio').ended")
    assert at(kit) == pytest.approx(2.0, abs=0.05)
    kit.evaluate("leaving.abort()")
    assert kit.locator("audio").get_attribute("src") is None


def test_playback_stops_at_the_end_of_an_interval_and_continues_from_there(kit: Page) -> None:
    scene(kit, "recorded", {"sounds": ["both"], "marks": []})
    kit.evaluate("view.hear([0.3, 0.4], 'words')")
    until(kit, "!document.querySelector('audio').paused")
    until(kit, "document.querySelector('audio').paused")
    assert 0.65 <= at(kit) < 0.9
    assert kit.locator(".selection").is_visible()
    assert kit.locator("#announcer").text_content() == "Playing words, 0.30 s to 0.40 s."
    kit.evaluate("document.querySelector('audio').play()")
    until(kit, "document.querySelector('audio').currentTime > 1")


def test_a_silent_recording_has_no_player(kit: Page) -> None:
    scene(kit, "recorded", {"sounds": [], "marks": MARKS})
    assert kit.locator("audio").count() == 0
    assert kit.locator(".mark-list button").count() == 0
    slider = kit.get_by_role("slider")
    box = slider.bounding_box()
    assert box is not None
    kit.mouse.click(box["x"] + box["width"] / 4, box["y"] + 10)
    assert at(kit) == pytest.approx(0.5, abs=0.02)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    recordings = tmp_path_factory.mktemp("recordings")
    with write_visited(recordings):
        write_report([recordings / "amber"], recordings / "report.html")
    return recordings / "report.html"


def test_a_report_opens_its_turns_without_a_server(page: Page, report: Path) -> None:
    page.goto(f"{report.as_uri()}#turn=id_101%2Ftarget")
    panel = page.locator(".panel")
    panel.wait_for()
    assert page.locator(".pages span").inner_text() == "turns 101 to 130"
    assert "voice to voice" in panel.inner_text()
    panel.get_by_role("button", name="first audible sample").click()
    until(page, "document.querySelector('audio').currentTime > 0.7")

    page.keyboard.press("j")
    assert page.locator(".panel").count() == 1
    assert page.evaluate("document.activeElement.innerText") == "id_102/target"
    page.keyboard.press("Space")  # plays instead of closing the row
    until(page, "document.querySelector('audio').currentTime > 0.1")
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.innerText") == "id_101/target"

    page.get_by_role("searchbox").fill("id_001")
    page.locator("output", has_text="1 of 130 turns").wait_for()
    page.get_by_role("button", name="id_001/target").click()
    assert HOSTILE in page.locator(".panel .texts").first.inner_text()
    assert page.locator("img").count() == 0
    assert page.title() == "amber · live-eval"


CUT = "tables => tables.filter((table) => table.getBoundingClientRect().right > innerWidth + 1).length"


@pytest.mark.parametrize(("columns", "width"), [(5, 702), (12, 702), (16, 1046), (21, 1046)])
def test_no_column_is_cut_on_paper(page: Page, columns: int, width: int) -> None:
    """The widths are those of A4 without margins, in portrait and, for many columns, in landscape."""
    heads = "".join(f"<th class=figure>normalised word error rate {n} ↓" for n in range(columns - 1))
    cells = "<td class=figure>3.03<small> [2.91, 3.15]</small>" * (columns - 1)
    row = f"<tr><th scope=row class=turn>id_00001/alternative<span class=said>I missed it.</span>{cells}"
    table = f"<div class=scroll><table><thead><tr><th>turn{heads}<tbody>{row * 3}</table></div>"
    styles = "".join((KIT / name).read_text("utf-8") for name in ("theme.css", "kit.css", "print.css"))
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(media="print")
    page.set_content(f"<style>{styles}</style><nav>hidden</nav><section>{table}</section>")
    assert not page.locator("nav").is_visible()
    assert page.locator("table").evaluate_all(CUT) == 0
    turned = page.locator("section").evaluate("section => getComputedStyle(section).page")
    assert turned == ("wide" if width > 1000 else "auto")


def test_a_report_on_paper_shows_what_is_folded_and_no_controls(page: Page, report: Path) -> None:
    page.set_viewport_size({"width": 702, "height": 1000})
    page.emulate_media(media="print")
    page.goto(report.as_uri())
    assert page.locator("table").evaluate_all(CUT) == 0
    assert not page.locator(".filters").is_visible()
    assert not page.locator("nav").is_visible()


@pytest.fixture(scope="module")
def duplex(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trials = [
        ("barge-in", "900 ms", barge_in("b-1", stop_ms=200, text=HOSTILE)),
        ("pause", "400 ms", pause("p-1", 400, waits=True)),
    ]
    folder = write_duplex_campaign(tmp_path_factory.mktemp("duplex") / "campaign", {"clean": trials})
    return write_duplex_page(duplex_summary(read_duplex(folder)))


@pytest.mark.slow
def test_a_duplex_page_opens_its_trials_without_a_server(page: Page, duplex: Path) -> None:
    page.goto(f"{duplex.as_uri()}#trial=b-1")
    panel = page.locator(".panel")
    panel.wait_for()
    assert HOSTILE in panel.locator(".texts").first.inner_text()
    assert page.locator("img").count() == 0
    assert panel.locator(".user-sound").count() == 2
    assert panel.locator(".texts a").first.get_attribute("href") == "clean/report.html#turn=b-1%2F1"
    panel.get_by_role("button", name="endpoint", exact=True).click()
    panel.locator(".mark-list button").first.click()
    until(page, "document.querySelector('audio').currentTime > 0")
