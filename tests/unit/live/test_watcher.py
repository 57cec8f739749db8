"""Levels, lost samples and echo."""

import numpy as np
import pytest

from live_eval.live.echo_detection import RATE_HZ
from live_eval.live.microphone import Microphone
from live_eval.live.reply import HeardAudio
from live_eval.live.updates import EchoDetected, Levels, Xruns
from live_eval.live.watcher import Watcher

MS = 1_000_000
START_NS = 100_000 * MS


@pytest.fixture
def microphone() -> Microphone:
    return Microphone(RATE_HZ, rate_hz=RATE_HZ, frame_ns=20 * MS, delay_ns=0, half_duplex=True)


def test_levels_are_due_every_50_ms(microphone: Microphone) -> None:
    heard = HeardAudio()
    heard.push(np.full(RATE_HZ, 3_277, np.int16), RATE_HZ, START_NS)
    watcher = Watcher(microphone)
    microphone.push(np.full(80, -32_768, np.int16), START_NS, reply_plays=True)
    [levels] = watcher.levels(START_NS + 50 * MS, heard)
    assert isinstance(levels, Levels)
    assert (levels.user, round(levels.reply), levels.muted) == (0.0, -20, True)
    assert list(watcher.levels(START_NS + 99 * MS, heard)) == []
    assert list(watcher.levels(START_NS + 2_000 * MS, heard)) == [Levels(-90.0, -90.0, True)]


def test_levels_are_due_when_a_voice_begins_or_ends(microphone: Microphone) -> None:
    watcher, heard, at_ns = Watcher(microphone), HeardAudio(), START_NS
    [first] = watcher.levels(at_ns, heard)
    microphone.push(np.full(240, 3_277, np.int16), at_ns, reply_plays=False)
    [voice] = watcher.levels(at_ns + 20 * MS, heard)
    [reply] = watcher.levels(at_ns + 40 * MS, heard, replying=True)
    assert [(each.audible, each.replying) for each in (first, voice, reply) if isinstance(each, Levels)] == [
        (False, False),
        (True, False),
        (True, True),
    ]
    assert list(watcher.levels(at_ns + 60 * MS, heard, replying=True)) == []


def test_lost_samples_are_reported_once(microphone: Microphone) -> None:
    watcher = Watcher(microphone)
    watcher.device_xruns = (3, 1)
    reported = [
        update for at_ms in (50, 100) for update in watcher.levels(START_NS + at_ms * MS, HeardAudio())
    ]
    assert [update for update in reported if isinstance(update, Xruns)] == [Xruns(input=3, output=1)]


def test_an_echo_is_searched_every_second_and_reported_again_after_a_minute(microphone: Microphone) -> None:
    heard = HeardAudio()
    reply = np.random.default_rng(1).normal(0, 3_000, 5 * RATE_HZ).astype(np.int16)
    heard.push(reply, RATE_HZ, START_NS)
    block = RATE_HZ // 100
    for start in range(0, 3 * RATE_HZ, block):  # the microphone is 100 ms late, and half as loud
        at_ns = START_NS + (1_100 + (start + block) * 1_000 // RATE_HZ) * MS
        microphone.push(reply[RATE_HZ + start :][:block] // 2, at_ns, reply_plays=False)
    watcher = Watcher(microphone)
    now_ns = START_NS + 4_100 * MS
    for _ in range(2):
        search = watcher.echo_search(now_ns, heard)
        assert search is not None
        assert search() is None, "three windows have to agree"
        assert watcher.echo_search(now_ns + 999 * MS, heard) is None
        now_ns += 2_000 * MS
    search = watcher.echo_search(now_ns, heard)
    assert search is not None
    echo = search()
    assert isinstance(echo, EchoDetected)
    assert echo.delay_ms == pytest.approx(100, abs=1)
    assert watcher.echo_search(now_ns + 59_999 * MS, heard) is None
    assert watcher.echo_search(now_ns + 60_000 * MS, heard) is not None


def test_a_muted_microphone_or_a_silent_reply_has_no_echo(microphone: Microphone) -> None:
    heard = HeardAudio()
    watcher = Watcher(microphone)
    microphone.push(np.full(80, 900, np.int16), START_NS, reply_plays=False)
    assert watcher.echo_search(START_NS, heard) is None
    heard.push(np.full(RATE_HZ, 900, np.int16), RATE_HZ, START_NS - 1_000 * MS)
    microphone.muted = True
    microphone.push(np.full(80, 900, np.int16), START_NS, reply_plays=False)
    assert watcher.echo_search(START_NS + 1_000 * MS, heard) is None
