"""The studio's Talk page in a real Chromium: the microphone is a recording, and the reply is transcribed."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import BrowserContext, Page, sync_playwright

from live_eval.audio import Audio
from live_eval.recording import RunReader, TurnRecord
from tests.e2e.conftest import Serving, Talk
from tests.e2e.helpers import LIVE_EVAL, PHONE, PHONE_REPLY, PHONE_SAYS, recognised, words

pytest.importorskip("faster_whisper")
pytest.importorskip("hibari")
pytestmark = [pytest.mark.local, pytest.mark.slow, pytest.mark.timeout(300)]

RATE_HZ = 48_000
LISTEN = """
const Peer = window.RTCPeerConnection;
window.heard = [];
window.RTCPeerConnection = class extends Peer {
  constructor(...given) {
    super(...given);
    this.addEventListener("track", ({ track }) => {
      const context = new AudioContext({ sampleRate: 48000 });
      const tap = context.createScriptProcessor(4096, 1, 1);
      tap.onaudioprocess = ({ inputBuffer }) => window.heard.push(inputBuffer.getChannelData(0).slice());
      context.createMediaStreamSource(new MediaStream([track])).connect(tap);
      tap.connect(context.destination);
    });
  }
};
"""
HEARD = """() => {
  const pcm = Int16Array.from(window.heard.flatMap((block) => Array.from(block, (sample) => 32767 * sample)));
  let bytes = "";
  for (const byte of new Uint8Array(pcm.buffer)) bytes += String.fromCharCode(byte);
  return btoa(bytes);
}"""


UNPLUG = """() => {
  const devices = navigator.mediaDevices;
  const open = devices.getUserMedia.bind(devices);
  window.plugIn = () => { devices.getUserMedia = open; };
  devices.getUserMedia = () => Promise.reject(new DOMException("none", "NotFoundError"));
  const [track] = window.microphone.getAudioTracks();
  track.stop();
  track.dispatchEvent(new Event("ended"));  // as when the device is lost; `stop` alone does not fire it
}"""
KEEP_MICROPHONE = """
const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
navigator.mediaDevices.getUserMedia = async (wanted) => (window.microphone = await ask(wanted));
"""


class Tabs:
    """Chromium and the studio's link.

    Args:
        context: Playwright's context of a browser.
        link: Link that the studio printed.
    """

    def __init__(self, context: BrowserContext, link: str) -> None:
        self._context = context
        self._link = link
        context.add_init_script(LISTEN)
        context.add_init_script(KEEP_MICROPHONE)
        context.set_default_timeout(60_000)

    def talk(self, mode: str | None = None, view: str = "talk") -> Page:
        """Open Talk, or Stage, in a new tab and start a conversation."""
        page = self.form(view)
        if mode is not None:
            page.get_by_label("Turns end by").select_option(mode)
        page.get_by_role("button", name="Start").click()
        return page

    def form(self, view: str) -> Page:
        """Open Talk, or Stage, in a new tab."""
        page = self._context.new_page()
        page.goto(self._link)
        page.goto(urlsplit(self._link)._replace(query="", fragment=f"/{view}").geturl())
        return page


@contextmanager
def tabs(browser: str, link: str, microphone: Path | None) -> Iterator[Tabs]:
    """Run Chromium with a recording as its microphone, or with microphone access denied if None."""
    arguments = ["--use-fake-device-for-media-stream", "--autoplay-policy=no-user-gesture-required"]
    if microphone is not None:
        file = f"--use-file-for-fake-audio-capture={microphone}%noloop"
        arguments += ["--use-fake-ui-for-media-stream", file]
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser, args=arguments)
        try:
            yield Tabs(chromium.new_context(ignore_https_errors=True), link)
        finally:
            chromium.close()


@pytest.fixture
def link(serving: Serving, reference: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The link of a studio that has its runs in the folder `runs` and talks to the reference endpoint.

    The fixture's parameters are additional flags of the command.
    """
    (tmp_path / "runs").mkdir()
    command = [*LIVE_EVAL, "studio", tmp_path / "runs", "--port", "0", "--no-browser"]
    command += ["--endpoint", f"reference=ws://{reference}/v1", *getattr(request, "param", ())]
    with serving(command, r"studio: (\S+)") as printed:
        yield printed


def replies_in(folder: Path) -> list[list[tuple[TurnRecord, Audio | None]]]:
    """Return the turns of each run in a folder with their reply audio."""
    found = []
    for run in sorted(folder.iterdir()):
        with RunReader.open(run) as reader:
            assert reader.ended
            found.append([(turn, reader.reply(turn)) for turn in reader.turns()])
    return found


def heard(page: Page) -> NDArray[np.int16]:
    return np.frombuffer(base64.b64decode(page.evaluate(HEARD)), "<i2").astype(np.int16)


def test_a_page_talks_and_plays_the_reply(browser: str, link: str, talk: Talk, tmp_path: Path) -> None:
    with tabs(browser, link, talk(RATE_HZ, 8.0, PHONE, 20.0)) as opened:
        page = opened.talk()
        page.wait_for_selector("[data-state=talking]")
        page.keyboard.press("Space")
        page.wait_for_selector("button[aria-pressed=true]:text('Mute')")
        page.keyboard.press("Space")
        page.wait_for_selector(".talk-turn")
        page.wait_for_timeout(500)  # the browser's jitter buffer
        pcm = heard(page)
        said = [words(line) for line in page.locator(".talk-log p span").all_inner_texts()]
        page.keyboard.press("Escape")
        page.locator(".talk-run a").first.click()
        page.locator("#turn-table a.name").click()
        page.get_by_role("button", name="Show the times of words").click()
        page.wait_for_selector(".word-times")
        times = [float(time) for time in page.locator(".transcript .reply .word small").all_inner_texts()]
        spoken = page.locator(".transcript .reply .word").all_inner_texts()
    assert words(recognised(pcm, RATE_HZ)) == words(PHONE_REPLY)
    assert said == [words(PHONE_SAYS), words(PHONE_REPLY)]
    assert words(" ".join(word.rpartition(" ")[0] for word in spoken)) == words(PHONE_REPLY)
    (((turn, reply),),) = replies_in(tmp_path / "runs")
    assert turn.failure is None
    assert reply is not None
    trace, heard_ns = turn.trace, turn.timing.voice_to_voice.ns
    assert trace.t0_ns is not None
    assert trace.voice_end_ns is not None
    assert heard_ns is not None
    assert times == sorted(times)
    assert times[0] >= (trace.voice_end_ns - trace.t0_ns + heard_ns) / 1e9 - 0.01
    assert words(recognised(reply.int16(), reply.rate_hz)) == words(PHONE_REPLY)


@pytest.mark.parametrize("link", [("--host", "0.0.0.0")], indirect=True)
def test_another_device_talks_over_an_encrypted_page(
    browser: str, link: str, talk: Talk, tmp_path: Path
) -> None:
    address = urlsplit(link)
    assert address.scheme == "https"
    assert address.hostname != "127.0.0.1", "this machine has no network"
    with tabs(browser, link, talk(RATE_HZ, 8.0, PHONE, 20.0)) as opened:
        page = opened.talk()
        page.wait_for_selector(".talk-turn")
        page.keyboard.press("Escape")
        page.wait_for_selector(".talk-run a")
    (((turn, reply),),) = replies_in(tmp_path / "runs")
    assert turn.failure is None
    assert reply is not None
    assert words(recognised(reply.int16(), reply.rate_hz)) == words(PHONE_REPLY)


def test_the_stage_shows_who_has_the_turn_and_the_latency(browser: str, link: str, talk: Talk) -> None:
    with tabs(browser, link, talk(RATE_HZ, 8.0, PHONE, 20.0)) as opened:
        page = opened.talk(view="stage")
        for state in ("listening", "thinking", "speaking", "listening"):
            page.wait_for_selector(f"[data-stage={state}]")
        page.wait_for_selector(".stage-figure:has-text('ms')")
        page.keyboard.press("Escape")
        summary = page.locator(".stage-summary")
        assert "1 turn" in summary.inner_text()
        assert "median" in page.locator(".stage-latency h2").inner_text()
        summary.get_by_role("link", name="Open the run").click()
        page.wait_for_selector("#turn-table")
        assert page.get_by_role("navigation").is_visible()


def test_a_conversation_continues_when_the_microphone_is_lost_and_found(
    browser: str, link: str, talk: Talk
) -> None:
    with tabs(browser, link, talk(RATE_HZ, 8.0, PHONE, 20.0)) as opened:
        page = opened.talk(view="stage")
        page.wait_for_selector("[data-stage=listening]")
        page.evaluate(UNPLUG)
        page.wait_for_selector(".talk-warnings .failure:has-text('microphone was disconnected')")
        page.wait_for_timeout(3_000)
        assert page.locator("[data-stage=listening]").is_visible(), "the endpoint hears silence"
        page.evaluate("window.plugIn()")
        page.wait_for_selector(".talk-warnings .failure", state="detached")
        page.wait_for_selector(".stage-figure:has-text('ms')")  # the recording begins again
        page.keyboard.press("Escape")
        assert "1 turn" in page.locator(".stage-summary").inner_text()


def test_two_endpoints_are_heard_compared_and_voted_on(
    browser: str, link: str, talk: Talk, tmp_path: Path
) -> None:
    with tabs(browser, link, talk(RATE_HZ, 10.0, PHONE, 30.0)) as opened:
        page = opened.form("stage")
        page.get_by_role("button", name="Add an endpoint").click()
        page.get_by_label("Hide the names until the end").check()
        page.get_by_role("button", name="Start").click()
        page.wait_for_selector("[data-stage=listening]")
        assert page.locator(".endpoint-card > header h2").all_inner_texts() == ["A", "B"]
        page.keyboard.press("2")
        page.wait_for_selector(".stage-endpoint:has-text('you hear B')")
        for place in (0, 1):
            page.wait_for_selector(f"[data-endpoint='{place}'] .stage-figure:has-text(' ms')")
        assert page.locator(".talk-log b").all_inner_texts()[0] == "you"
        page.keyboard.press("v")
        page.keyboard.press("1")
        page.wait_for_selector("[data-endpoint='0'][data-won]")
        page.keyboard.press("Escape")
        page.wait_for_selector(".stage-summary")
        names = page.locator(".endpoint-card h2 a").all_inner_texts()
        arena = page.locator(".stage-summary code").inner_text()
        page.get_by_role("link", name="Compare the replies").click()
        page.wait_for_selector(".answer")
    assert sorted(names) == ["reference", "reference 2"]
    (votes,) = (tmp_path / "runs").glob("*-votes.csv")
    assert str(votes) in arena
    votes.unlink()
    for ((turn, reply),) in replies_in(tmp_path / "runs"):
        assert turn.failure is None
        assert reply is not None
        assert words(recognised(reply.int16(), reply.rate_hz)) == words(PHONE_REPLY)


def test_enter_ends_a_manual_turn_and_settings_change_after_it(
    browser: str, link: str, talk: Talk, tmp_path: Path
) -> None:
    with tabs(browser, link, talk(RATE_HZ, 8.0, PHONE, 20.0)) as opened:
        page = opened.form("talk")
        page.get_by_label("Turns end by").select_option("manual")
        page.get_by_label("Mute during replies").check()
        page.get_by_role("button", name="Start").click()
        page.wait_for_selector("button[aria-pressed=true]:text('Mute during replies')")
        page.wait_for_selector("[data-speaks]")
        page.get_by_role("button", name="Change settings").click()
        page.wait_for_selector(".talk-level:has(meter[aria-label$=You]) :not([data-speaks])")
        page.keyboard.press("Enter")
        page.wait_for_selector(".talk-turn")
        page.wait_for_selector(".talk-run a")
        assert page.get_by_label("Turns end by").input_value() == "manual"
        assert page.get_by_role("button", name="Start").is_visible()
    (((turn, _),),) = replies_in(tmp_path / "runs")
    assert turn.failure is None


def test_a_second_tab_waits_until_the_first_is_closed(
    browser: str, link: str, talk: Talk, tmp_path: Path
) -> None:
    with tabs(browser, link, talk(RATE_HZ, 30.0)) as opened:
        first = opened.talk()
        first.wait_for_selector("[data-state=talking]")
        second = opened.talk()
        second.wait_for_selector("[role=alert]:has-text('another tab is connected')")
        first.close()
        start = second.get_by_role("button", name="Start")
        for _ in range(20):
            start.click()
            second.wait_for_selector("[data-state=talking], [role=alert]")
            if second.locator("[data-state=talking]").count():
                break
            second.wait_for_timeout(500)
        second.keyboard.press("Escape")
        second.wait_for_selector(".talk-run a")
    assert replies_in(tmp_path / "runs") == [[], []]


def test_without_permission_the_page_explains_what_to_do(browser: str, link: str) -> None:
    with tabs(browser, link, None) as opened:
        page = opened.talk()
        page.wait_for_selector("[role=alert]:has-text('Allow it in the site settings')")
        assert page.get_by_role("button", name="Start").is_enabled()
