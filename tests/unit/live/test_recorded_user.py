"""Recordings that speak in the user's place."""

from __future__ import annotations

from live_eval.audio import Audio
from live_eval.live.recorded_user import RecordedUser
from live_eval.run.recordings import PlayableCase
from live_eval.session.speaker import GreetingBegan, GreetingEnded
from tests.support.records import tone
from tests.unit.session.toy import MS, TURN

PAUSE_NS = 600 * MS


def recorded_user() -> RecordedUser:
    audio: Audio = tone(1_000)
    case = PlayableCase(utterance=TURN, audio=audio, warnings=())
    return RecordedUser(jobs=(), cases=[case], pause_ns=PAUSE_NS)


def test_recordings_can_wait_for_a_greeting() -> None:
    frame = recorded_user().speaker().frame(0, 0)
    assert frame is not None
    assert frame.began is not None
    speaker = recorded_user().speaker(3_000 * MS)
    for report, at_ns, speaks in (
        (None, 0, False),
        (GreetingBegan(2_000 * MS), 2_000 * MS, False),
        (None, 4_000 * MS, False),
        (GreetingEnded(5_000 * MS), 5_000 * MS, False),
        (None, 5_000 * MS + PAUSE_NS, True),
    ):
        if report is not None:
            speaker.hear(report)
        frame = speaker.frame(at_ns, at_ns)
        assert frame is not None
        assert (frame.began is not None) == speaks
        assert len(frame.pcm) == len(TURN.frames[0])
