"""Our `pipecat-webrtc` endpoint against a bot that runs in pipecat itself, on its SmallWebRTC transport."""

from __future__ import annotations

import jiwer
import pytest
import soundfile

from live_eval.errors import FailureKind
from live_eval.store import StoredTurn
from live_eval.timeline import ResponseStatus
from tests.e2e.conftest import Bot, Run
from tests.e2e.helpers import PHONE_CASE, PHONE_SAYS, recognised, words

pytest.importorskip("faster_whisper")
pytestmark = [pytest.mark.local, pytest.mark.slow, pytest.mark.timeout(300)]

PIPECAT = ("--endpoint", "pipecat-webrtc", "--case", PHONE_CASE)
DELAY_MS = 4_000
FLOOR_MS = (80, 500)
SAME_MS = 60


def echo_ms(turn: StoredTurn) -> float:
    """Return how long after the user's first sound its echo was heard."""
    trace, latency = turn.trace, turn.timing.voice_to_voice
    assert latency.ns is not None
    assert trace.onset_ns is not None
    assert trace.voice_end_ns is not None
    return (latency.ns + trace.voice_end_ns - trace.onset_ns) / 1e6


def test_a_bot_that_says_what_it_hears(echo_bot: Bot, run_turn: Run) -> None:
    """We are a client that pipecat takes for its own: offer, candidates, RTVI's greeting, pings, Opus.

    The bot's delay is in its code, so two bots show our clock: their replies are as far apart as they should
    be. What remains is the floor of pipecat, the network and us. Strange in it: no event tells when the
    reply begins or ends, silence is sent without end, and an echo that comes at once speaks over the user.
    """
    with echo_bot(DELAY_MS) as url:
        late = run_turn(*PIPECAT, "--base-url", url, folder="late")
    with echo_bot(0) as url:
        at_once = run_turn(*PIPECAT, "--base-url", url, folder="at once")
    for turn in (late, at_once):
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
    floor_ms = echo_ms(at_once)
    assert FLOOR_MS[0] < floor_ms < FLOOR_MS[1]
    assert abs(echo_ms(late) - DELAY_MS - floor_ms) < SAME_MS
    assert at_once.timing.voice_to_voice.ns is not None
    assert at_once.timing.voice_to_voice.ns < 0, "it spoke before the user had ended: negative, and kept so"


def test_a_bot_that_never_answers(echo_bot: Bot, run_turn: Run) -> None:
    """Packets of silence for ever are no reply."""
    with echo_bot(600_000) as url:
        turn = run_turn(*PIPECAT, "--base-url", url, "--reply-timeout", "3")
    assert turn.failure is not None
    assert turn.failure.kind is FailureKind.NO_RESPONSE
    assert turn.media is not None
    assert turn.media.packets > 100
