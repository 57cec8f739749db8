"""Turns are reviewed in the studio by keyboard, in a real Chromium."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from playwright.sync_api import Page, Route, expect, sync_playwright

from tests.e2e.conftest import Serving
from tests.e2e.helpers import LIVE_EVAL
from tests.support.visited import HOSTILE, write_visited

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the runs of `write_visited`."""
    folder = tmp_path_factory.mktemp("recordings")
    with write_visited(folder):
        yield folder


@pytest.fixture
def page(browser: str, serving: Serving, recordings: Path) -> Iterator[Page]:
    """The studio's list of runs; the test fails if the page reports an error."""
    errors: list[str] = []
    command = [*LIVE_EVAL, "studio", recordings, "--port", "0", "--no-browser"]
    with serving(command, r"studio: (http\S+)") as link, sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=browser, args=["--autoplay-policy=no-user-gesture-required", "--no-sandbox"]
        )
        opened = chromium.new_context(
            viewport={"width": 1440, "height": 900}, accept_downloads=True
        ).new_page()
        opened.on("pageerror", lambda error: errors.append(str(error)))
        opened.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        opened.goto(link)
        yield opened
        chromium.close()
    assert errors == []


def open_turn(page: Page, query: str, name: str) -> None:
    """Open a turn from the list of the run *amber*."""
    page.get_by_role("link", name="amber", exact=True).click()
    page.wait_for_url("**/#/runs/*")
    page.evaluate(f"location.hash = `${{location.hash}}?{query}`")
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    expect(page.get_by_role("link", name="Next turn")).to_be_visible()


def audio(page: Page) -> dict[str, Any]:
    """The state of the page's player."""
    script = "({ at: audio.currentTime, paused: audio.paused, speed: audio.playbackRate, src: audio.src })"
    state: dict[str, Any] = page.evaluate(
        f"(() => {{ const audio = document.querySelector('audio'); return {script} }})()"
    )
    return state


def test_turns_are_played_and_walked_through_by_keyboard(page: Page) -> None:
    open_turn(page, "sort=voice_to_voice&descending=1&where=voice_to_voice+>+600", "id_120/target")
    title = page.get_by_role("heading", level=1)
    expect(page.locator(".ways")).to_contain_text("9 of 99 turns")

    page.keyboard.press("j")
    expect(title).to_have_text("id_118/target")  # id_119 failed
    page.get_by_label("Speed").select_option("1.5")
    page.reload()
    expect(page.locator("audio")).to_have_js_property("playbackRate", 1.5)
    page.keyboard.press("<")
    page.keyboard.press("<")
    expect(page.get_by_role("link", name="Next turn")).to_be_visible()
    page.keyboard.press("j")
    expect(title).to_have_text("id_117/target")
    page.keyboard.press("k")
    expect(title).to_have_text("id_118/target")
    expect(page.get_by_role("link", name="Next turn")).to_be_visible()

    page.get_by_role("link", name="The run").focus()
    scrolled = page.evaluate("scrollY")
    page.keyboard.press("Space")
    expect(page.locator("audio")).to_have_js_property("paused", False)
    assert page.evaluate("scrollY") == scrolled
    page.get_by_role("button", name="Zoom in").focus()
    page.keyboard.press("Space")  # stops, and does not press the button
    expect(page.locator("audio")).to_have_js_property("paused", True)
    buttons = [page.get_by_role("button", name=name, exact=True) for name in ("Play", "Pause")]
    speed = page.get_by_label("Speed")
    for place, paused in zip([speed, speed, *buttons], [False, True] * 2, strict=True):  # one press only
        place.focus()
        page.keyboard.press("Space")
        expect(page.locator("audio")).to_have_js_property("paused", paused)

    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert audio(page)["at"] == 0
    page.keyboard.press(">")
    assert audio(page)["speed"] == 1.25
    page.keyboard.press("r")
    assert audio(page)["src"].endswith("/audio/reply")
    page.keyboard.press("l")
    expect(page.get_by_role("button", name="Loop")).to_have_attribute("aria-pressed", "true")

    page.keyboard.press("j")  # the choices are kept
    expect(title).to_have_text("id_117/target")
    expect(page.get_by_role("button", name="Loop")).to_have_attribute("aria-pressed", "true")
    assert audio(page)["speed"] == 1.25
    assert audio(page)["src"].endswith("/audio/reply")
    page.keyboard.press("Space")
    page.wait_for_timeout(3_500)  # longer than the recording
    assert not audio(page)["paused"]

    page.get_by_text("Keys (wherever the focus is)").click()
    page.get_by_role("button", name="Turn these keys off").click()
    page.keyboard.press("k")
    page.keyboard.press("r")
    expect(title).to_have_text("id_117/target")


@pytest.mark.slow
def test_turns_are_labelled_and_noted_by_keyboard(page: Page, recordings: Path) -> None:
    held: list[Route] = []
    drawn = re.compile(r"/waveform\?.*start_s=")
    page.route(drawn, lambda route: held.append(route))
    open_turn(page, "status=captured", "id_000/target")
    page.keyboard.press("t")
    page.keyboard.type("<b>co")
    assert held
    for route in held:
        route.continue_()
    expect(page).to_have_title(re.compile("id_000"))  # a page that is complete takes no focus
    page.keyboard.type("ld</b>")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="<b>cold</b>")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    page.keyboard.type("A sigh is ignored; j k")
    page.keyboard.press("Escape")
    expect(page.get_by_text("Saved.")).to_be_visible()
    page.keyboard.press("j")
    expect(page.get_by_role("heading", level=1)).to_have_text("id_001/target")
    known = page.get_by_role("button", name="<b>cold</b>")
    expect(known).to_have_attribute("aria-pressed", "false")
    page.get_by_role("link", name="The run").click()
    page.get_by_label("Where").fill('label == "<b>cold</b>"')
    expect(page.locator(".filters output")).to_have_text("1 of 130 turns")
    expect(page.locator("#turn-table tbody")).to_contain_text("Note: A sigh is ignored; j k")
    assert page.locator("#turn-table tbody b").count() == 0
    (recordings / "amber" / "reviews.json").unlink()


@pytest.mark.slow
def test_an_expression_filters_turns_and_its_errors_are_explained(page: Page) -> None:
    page.get_by_role("link", name="amber", exact=True).click()
    where = page.get_by_label("Where")
    where.fill("taste >= 4 and cue == sigh")
    expect(page.locator(".filters output")).to_have_text("1 of 130 turns")
    assert "where=taste" in page.url
    where.fill("tast >= 4")  # the fixture rejects errors on the console
    expect(page.get_by_role("alert")).to_contain_text("unknown name 'tast' (did you mean taste?) at 1")
    page.keyboard.press("Space")  # in a text field, a space
    assert where.input_value() == "tast >= 4 "


@pytest.mark.slow
def test_columns_are_chosen_and_files_saved(page: Page) -> None:
    page.get_by_role("link", name="amber", exact=True).click()
    heads = page.locator("#turn-table thead th")
    expect(heads).to_have_count(6)
    page.get_by_text("Columns", exact=True).click()
    page.get_by_role("checkbox", name="connect").check()
    page.get_by_role("checkbox", name="first byte").uncheck()
    chosen = ["turn", "connect", "voice to voice", "voice to voice from last sound", "taste"]
    expect(heads.locator("button:not(.about)")).to_have_text(chosen)
    page.reload()
    expect(heads.locator("button:not(.about)")).to_have_text(chosen)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save CSV").click()
    assert saved.value.suggested_filename == "amber-turns.csv"
    assert len(saved.value.path().read_text().splitlines()) == 131

    page.get_by_role("link", name="id_000/target", exact=True).click()
    page.get_by_role("button", name="user", exact=True).click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save WAV").click()
    assert saved.value.suggested_filename.endswith(".user.wav")
    assert saved.value.path().read_bytes()[:4] == b"RIFF"


@pytest.mark.slow
def test_a_turn_is_saved_as_a_video(page: Page) -> None:
    page.get_by_role("link", name="amber", exact=True).click()
    page.get_by_role("link", name="id_000/target", exact=True).click()
    page.get_by_role("button", name="Save video").click()
    page.get_by_role("button", name="Stop video").click()  # stops it, and saves nothing
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save video").click()
    assert re.fullmatch(r"id_000-target\.(mp4|webm)", saved.value.suggested_filename)
    with av.open(saved.value.path()) as video:
        picture, sound = video.streams.video[0], video.streams.audio[0]
        assert (picture.width, picture.height) == (1280, 720)
        frames = list(video.decode(picture, sound))
    pcm = np.concatenate([each.to_ndarray().mean(0) for each in frames if isinstance(each, av.AudioFrame)])
    pictures = [each.to_ndarray(format="rgb24") for each in frames if isinstance(each, av.VideoFrame)]
    assert (
        np.abs(pictures[0][60:90, 60:360].astype(int) - pictures[-1][60:90, 60:360]).max() > 100
    )  # the state
    loud = np.flatnonzero(np.abs(pcm) > 0.05)  # float samples
    [silence] = [gap for gap in np.diff(loud) / sound.rate if gap > 0.1]
    assert silence == pytest.approx(0.58, abs=0.06)  # voice to voice, within a codec's delay


@pytest.mark.slow
def test_texts_of_a_video_are_cut_to_its_lines(page: Page) -> None:
    cut = """async ([text, most]) => {
      const { wrapped } = await import("/static/turn_video.js");
      return wrapped(text, most, (line) => line.length <= 9);
    }"""
    assert page.evaluate(cut, ["one two three", 2]) == ["one two", "three"]
    assert page.evaluate(cut, ["one two three four five", 2]) == ["one two", "three …"]
    assert page.evaluate(cut, ["immeasurable  words", 2]) == ["immeasurable", "words"]
    assert page.evaluate(cut, ["", 2]) == []


@pytest.mark.slow
def test_long_series_of_messages_fold(page: Page) -> None:
    page.route("**/turns/id_000*target", fold_events)
    open_turn(page, "", "id_000/target")
    events = page.locator("ol.events").first
    expect(events.locator("> li")).to_have_count(3)
    expect(events.locator("> .series > details > summary")).to_have_text(
        "30 × ← response.audio.delta, 10 × ← response.text.delta, 0.100 to 4.000 s"
    )
    expect(page.get_by_text("42 messages")).to_be_visible()
    events.locator("> .series > details > summary").click()
    expect(events.locator("> .series li")).to_have_count(40)


def fold_events(route: Route) -> None:
    """Answer with a turn that has a long series of messages."""
    turn = route.fetch().json()
    kinds = [
        "session.created",
        *(["response.audio.delta"] * 3 + ["response.text.delta"]) * 10,
        "response.done",
    ]
    rows = [
        {"at_s": place / 10, "direction": "in", "type": kind, "body": {}} for place, kind in enumerate(kinds)
    ]
    route.fulfill(json={**turn, "events": {"total": len(rows), "offset": 0, "rows": rows}})


def test_runs_are_compared_by_ear(page: Page) -> None:
    for name in ("amber", "birch"):
        page.get_by_role("checkbox", name=f"Select {name}").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("#cases tbody tr")).to_have_count(20)
    expect(page.locator(".answer")).to_contain_text("compared with")
    page.get_by_label("Where").fill("taste != none or turn == id_001/target")
    expect(page.locator("#cases tbody tr")).to_have_count(2)
    page.get_by_label("Difference in").select_option("first_byte")
    expect(page.locator("#cases tbody tr").first).to_contain_text("200 ms")

    page.locator("#cases .name").first.click()
    expect(page.locator("audio")).to_have_js_property("paused", False)  # from the end of speech
    assert page.locator("audio").evaluate("audio => audio.currentTime") > 0.2
    marks = page.locator(".mark-list li")
    expect(marks).to_have_text(
        [re.compile(text) for text in ("α birch end of", "β amber end of", "γ onset of the replies")]
    )
    page.keyboard.press("Space")
    page.locator(".lanes").click(position={"x": 600, "y": 20})
    page.keyboard.press("Space")
    at = page.locator("audio").evaluate("audio => audio.currentTime")
    page.keyboard.press("x")  # birch replies 0.2 s later, so the same position is later in its file
    later = page.locator("audio").evaluate("audio => audio.currentTime")
    assert later - at == pytest.approx(0.2, abs=0.02)
    page.keyboard.press("x")
    page.get_by_label("Aligned at").select_option("speech")
    expect(page.get_by_label("Aligned at")).to_be_focused()
    expect(marks).to_have_text(
        [re.compile(text) for text in ("α end of", "β amber audible", "γ birch audible")]
    )
    expect(marks.locator(".c-endpoint, .c-c2")).to_have_count(2)  # the colours of the runs
    page.evaluate("location.hash += '&cue=sigh'")
    expect(page.locator("#means tbody tr").first).to_contain_text("200 ms")
    page.get_by_label("Cue").select_option("")
    page.reload()
    expect(page.locator("#cases tbody tr")).to_have_count(2)
    panel = page.locator(".open-case")
    expect(panel.get_by_role("heading")).to_contain_text("id_000/target")  # the address has the open case
    page.get_by_role("heading", name="By ear").click()  # a list takes letters
    expect(panel.locator("canvas")).to_have_count(3)  # the user, and a reply of each run
    audio = page.locator("audio")
    expect(audio).to_have_count(1)
    page.keyboard.press("l")
    page.keyboard.press("Space")
    expect(audio).to_have_js_property("paused", False)
    first = audio.get_attribute("src")
    before = audio.evaluate("audio => audio.currentTime")
    page.keyboard.press("x")
    page.wait_for_timeout(100)
    assert audio.get_attribute("src") != first
    expect(audio).to_have_js_property("paused", False)
    assert audio.evaluate("audio => audio.currentTime") >= before
    page.keyboard.press("1")
    assert audio.get_attribute("src") == first

    page.keyboard.press("j")
    expect(panel.get_by_role("heading")).to_contain_text("id_001/target")
    expect(panel.locator(".replies")).to_contain_text(HOSTILE)
    assert page.locator("main img").count() == 0
    page.reload()
    expect(page.locator("#cases tbody tr")).to_have_count(2)


def test_the_list_has_values_notes_and_folded_campaigns(page: Page, recordings: Path) -> None:
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="amber", exact=True))
    expect(row).to_contain_text("644 ms")
    failed = row.get_by_role("link", name="13 failed: show the turns of amber")
    assert (failed.get_attribute("href") or "").endswith("?status=failed")
    expect(page.get_by_role("link", name="c1", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Show 1 run").click()
    expect(page.get_by_role("link", name="c1", exact=True)).to_be_visible()
    assert page.evaluate("document.activeElement.innerText") == "Hide 1 run"
    page.get_by_role("button", name="Hide 1 run").click()
    page.get_by_label("Search").fill("c1")  # a search finds runs of campaigns
    expect(page.get_by_role("link", name="c1", exact=True)).to_be_visible()
    page.get_by_label("Search").fill("")

    page.get_by_role("button", name="voice to voice").click()
    expect(row).to_have_count(1)
    page.get_by_role("link", name="amber", exact=True).click()
    page.get_by_label("Note").fill("<b>Loud</b> room")
    page.get_by_role("heading", level=1).click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    page.get_by_role("link", name="Runs", exact=True).first.click()
    expect(row).to_contain_text("Note: <b>Loud</b> room")
    (recordings / "amber" / "reviews.json").unlink()


def test_a_row_is_reached_with_a_few_keys(page: Page) -> None:
    focused = page.locator(":focus")
    page.get_by_role("link", name="amber", exact=True).wait_for()
    for key in ("Tab", "Tab", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("tbody tr").first.locator(":focus")).to_have_count(1)
    page.keyboard.press("j")
    expect(page.locator("tbody tr").nth(1).locator(":focus")).to_have_count(1)
    page.keyboard.press("k")
    page.keyboard.press("/")
    expect(focused).to_have_attribute("name", "filter")
    page.keyboard.type("birch")
    expect(page.locator("tbody tr")).to_have_count(1)
    for _ in range(2):  # to the first row, and open it
        page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("birch")


@pytest.mark.slow
def test_lists_are_short_on_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.reload()
    page.get_by_role("link", name="amber", exact=True).click()
    cards = page.locator("#turn-table tbody tr")
    expect(cards).to_have_count(25)
    expect(page.get_by_text("Comparing the cues")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollHeight") < 8_000
    page.get_by_label("Sort by").select_option("voice to voice ▼")
    expect(cards.first).to_contain_text("id_128/target")
    page.get_by_role("button", name="Turns", exact=True).click()
    expect(page.get_by_role("heading", name="Turns")).to_be_in_viewport()
