"""Our `pipecat-webrtc` and `fastrtc-webrtc` endpoints against bots that run in these frameworks."""

from __future__ import annotations

import jiwer
import pytest
import soundfile

from live_eval.errors import FailureKind
from live_eval.recording import TurnRecord
from live_eval.timing import ResponseStatus
from tests.e2e.conftest import Bot, Run, Runs
from tests.e2e.helpers import PHONE_CASE, PHONE_SAYS, recognised, words

pytest.importorskip("faster_whisper")
pytestmark = [pytest.mark.local, pytest.mark.slow, pytest.mark.timeout(300)]

KINDS = ("pipecat", "fastrtc")
DELAY_MS = 4_000
FLOOR_MS = (80, 500)
SAME_MS = 60
SESSIONS = 3


def echo_ms(turn: TurnRecord) -> float:
    """Return the time from the user's first audible sample to its echo."""
    trace, latency = turn.trace, turn.timing.voice_to_voice
    assert latency.ns is not None
    assert trace.onset_ns is not None
    assert trace.voice_end_ns is not None
    return (latency.ns + trace.voice_end_ns - trace.onset_ns) / 1e6


@pytest.mark.parametrize("kind", KINDS)
def test_a_bot_that_echoes_the_user(echo_bot: Bot, run_turns: Runs, kind: str) -> None:
    """Both frameworks accept us as a client: offer, candidates, greeting, pings, Opus.

    Two bots with different delays check our clock: the difference between their replies must equal the
    difference of the delays. Their peculiarities: no event marks the start or end of a reply; pipecat greets
    over RTVI and streams silence continuously, fastrtc sends nothing before its first reply; and an
    immediate echo overlaps the user.
    """
    flags = ("--endpoint", f"{kind}-webrtc", "--case", PHONE_CASE)
    with echo_bot(kind, DELAY_MS) as url:
        late = run_turns(*flags, "--base-url", url, times=SESSIONS, folder="late")
    with echo_bot(kind, 0) as url:
        at_once = run_turns(*flags, "--base-url", url, times=SESSIONS, folder="at once")
    for turn in (*late, *at_once):
        assert turn.failure is None, turn.failure
        assert turn.warnings == ()
        assert [response.status for response in turn.responses] == [ResponseStatus.COMPLETED]
        assert turn.media is not None
        assert turn.media.packets > 100
        assert (turn.media.lost, turn.media.sent_lost) == (0, 0)
        assert {"offer", "answer", "ice", "dtls", "first_rtp"} <= set(turn.trace.setup_ns)
        assert turn.reply_file is not None
        heard = recognised(*soundfile.read(turn.reply_file, dtype="int16"))
        assert jiwer.wer(words(PHONE_SAYS), words(heard)) <= 0.2
    for turn in at_once:
        assert turn.timing.voice_to_voice.ns is not None
        assert turn.timing.voice_to_voice.ns < 0, "it spoke before the user had ended: negative, and kept so"
    floor_ms = min(map(echo_ms, at_once))
    assert FLOOR_MS[0] < floor_ms < FLOOR_MS[1]
    assert abs(min(map(echo_ms, late)) - DELAY_MS - floor_ms) < SAME_MS


NEVER = {"pipecat": FailureKind.NO_RESPONSE, "fastrtc": FailureKind.NO_RTP}


@pytest.mark.parametrize("kind", KINDS)
def test_a_bot_that_never_answers(echo_bot: Bot, run_turn: Run, kind: str) -> None:
    """A stream of silence is not a reply; a track without packets is a different failure."""
    flags = ("--endpoint", f"{kind}-webrtc", "--case", PHONE_CASE, "--reply-timeout", "3")
    with echo_bot(kind, 600_000) as url:
        turn = run_turn(*flags, "--base-url", url)
    assert turn.failure is not None
    assert turn.failure.kind is NEVER[kind], turn.failure
    assert turn.media is not None
    assert (turn.media.packets > 0) == (kind == "pipecat")


def test_a_bot_at_its_session_limit(echo_bot: Bot, run_turns: Runs) -> None:
    """fastrtc refuses a session over its limit with status 200 and no description; the run retries."""
    flags = ("--endpoint", "fastrtc-webrtc", "--case", PHONE_CASE)
    with echo_bot("fastrtc", 0) as url:
        turns = run_turns(*flags, "--base-url", url, times=SESSIONS + 1)
    assert all(turn.failure is None for turn in turns)
