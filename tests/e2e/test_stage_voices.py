"""The levels, spectra and states that the stage derives from both voices, in a real Chromium."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, sync_playwright

import live_eval.studio
from live_eval.live.audible_voice import LEVEL_RULE

pytestmark = pytest.mark.timeout(60)

STATIC = Path(live_eval.studio.__file__).with_name("static")
RUN = """async ([source, rule, steps]) => {
  const { TurnTaking } = await import(source);
  const taking = new TurnTaking(rule);
  const changes = [];
  for (const { blocks = 0, user = -90, reply = -90, ...set } of steps) {
    if (set.confirm) taking.confirm();
    if (set.fail) taking.fail();
    if ("open" in set) taking.open = set.open;
    for (let block = 0; block < blocks; block += 1) {
      if (taking.hear(user, reply)) changes.push([taking.state, taking.at]);
    }
  }
  return changes;
}"""
ANALYSE = """async (source) => {
  let Levels;
  const reports = [];
  Object.assign(globalThis, {
    sampleRate: 48_000,
    AudioWorkletProcessor: class { port = { postMessage: (report) => reports.push(report) }; },
    registerProcessor: (_, made) => (Levels = made),
  });
  await import(source);
  const levels = new Levels();
  const sine = (hz, at) => 0.01 * Math.sin((2 * Math.PI * hz * at) / sampleRate);
  const tone = (hz, begin) => (at) => (at < begin ? 0 : sine(hz, at));
  const voices = [tone(984.375, 9_600), tone(3_000, 19_200)];
  for (let at = 0; at < 28_800; at += 128) {
    const samples = (voice) => [Float32Array.from({ length: 128 }, (_, index) => voice(at + index))];
    levels.process(voices.map(samples));
  }
  const loudest = (spectrum) => [spectrum.indexOf(Math.max(...spectrum)), Math.max(...spectrum)];
  return reports.map(({ peaks, spectra }) => [peaks, spectra?.map(loudest)]);
}"""
SPEECH = [{"blocks": 100}, {"blocks": 50, "user": -20}, {"confirm": True, "blocks": 50, "user": -20}]


@pytest.fixture(scope="module")
def page(browser: str) -> Iterator[Page]:
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser)
        yield chromium.new_page()
        chromium.close()


def states(page: Page, *steps: dict[str, Any]) -> list[list[Any]]:
    """Return the states, each with the index of the 10 ms block at which it began."""
    changes: list[list[Any]] = page.evaluate(RUN, [source("stage_voices.js"), asdict(LEVEL_RULE), steps])
    return changes


def source(module: str) -> str:
    return f"data:text/javascript;base64,{base64.b64encode((STATIC / module).read_bytes()).decode()}"


def test_a_played_reply_begins_and_ends_with_its_sound(page: Page) -> None:
    reply = {"blocks": 100, "reply": -20, "open": True}
    found = states(page, *SPEECH, {"blocks": 50}, reply, {"blocks": 50, "open": False})
    assert found == [["thinking", 206], ["speaking", 253], ["listening", 356]]


def test_a_reply_pauses_while_its_rest_is_to_come(page: Page) -> None:
    reply = {"blocks": 50, "reply": -20, "open": True}
    found = states(page, *SPEECH, {"blocks": 50}, reply, {"blocks": 40}, {"blocks": 1, "open": False})
    assert [state for state, _ in found] == ["thinking", "speaking", "listening"]
    assert found[-1][1] == 341


def test_a_reply_that_the_page_does_not_play_begins_and_ends_as_reported(page: Page) -> None:
    silent = {"reply": None}
    speech = [step | silent for step in SPEECH]
    rest = {"open": True, "blocks": 80, **silent}, {"open": False, "blocks": 20, **silent}
    found = states(page, *speech, {"blocks": 50, **silent}, *rest)
    assert found == [["thinking", 206], ["speaking", 251], ["listening", 331]]


def test_a_reply_continues_when_the_page_no_longer_plays_it(page: Page) -> None:
    begins = {"open": True, "blocks": 30, "reply": -20}
    found = states(
        page, *SPEECH, {"blocks": 50}, begins, {"blocks": 50, "reply": None}, {"blocks": 1, "open": False}
    )
    assert [state for state, _ in found] == ["thinking", "speaking", "listening"]
    assert found[-1][1] == 331


def test_a_noise_and_a_failed_turn_are_not_awaited(page: Page) -> None:
    noise = [{"blocks": 100}, {"blocks": 50, "user": -20}, {"blocks": 200}]
    assert states(page, *noise) == []
    failed = [*SPEECH, {"blocks": 50}, {"fail": True, "blocks": 1}]
    assert [state for state, _ in states(page, *failed)] == ["thinking", "listening"]


def test_the_waveform_and_the_spectrogram_of_a_voice_begin_together(page: Page) -> None:
    reports = page.evaluate(ANALYSE, source("stage_levels.js"))
    assert len(reports) == 60
    columns = [(before, *at_end) for (before, _), at_end in zip(reports[::2], reports[1::2], strict=True)]
    for voice, begin, tone_bin in ((0, 10, 21), (1, 20, 64)):
        for place, (before, after, spectra) in enumerate(columns):
            [loudest, level] = spectra[voice]
            peak = max(before[voice], after[voice])
            if place < begin:
                assert (peak, level) == (0, 0)
            else:
                assert peak == pytest.approx(0.01, abs=0.0001)
                assert loudest == tone_bin
                assert level == pytest.approx(255 * (85 - 53.6) / (85 - 45), abs=1)  # in a Blackman window
