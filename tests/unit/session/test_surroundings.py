"""Background noise while the user is silent."""

from __future__ import annotations

import numpy as np

from live_eval.session.playback import Playback, Utterance
from live_eval.session.speaker import Frame, ReplyEnded, UtteranceAnswered
from live_eval.session.surroundings import Surroundings
from live_eval.types import SpeechBoundaries

FRAME_NS = 20_000_000
SAMPLES = 480


def frame(value: int, silent_from: int = SAMPLES) -> bytes:
    samples = np.full(SAMPLES, value, "<i2")
    samples[silent_from:] = 0
    return samples.tobytes()


def utterance(value: int, behind: tuple[int, ...]) -> Utterance:
    return Utterance(
        frames=[frame(value), frame(value), frame(value, 100)],
        frame_ns=FRAME_NS,
        boundaries=SpeechBoundaries(onset_ns=0, voice_end_ns=42_000_000),
        background=[frame(each) for each in behind],
    )


def said(speaker: Surroundings, number: int) -> list[int]:
    """Return the first sample of each of the next frames."""
    frames = [speaker.frame(0, 0) for _ in range(number)]
    return [int(np.frombuffer(each.pcm, "<i2")[0]) for each in frames if isinstance(each, Frame)]


def test_background_continues_between_recordings_from_the_previous_one() -> None:
    utterances = [utterance(100, (1, 2)), utterance(200, (7,))]
    speaker = Surroundings(Playback(utterances, 0), utterances)
    assert said(speaker, 3 + 3) == [100, 100, 100, 2, 1, 2]  # 1 continues
    for heard in (UtteranceAnswered(0), ReplyEnded(0)):
        speaker.hear(heard)
    assert said(speaker, 3 + 2) == [200, 200, 200, 7, 7]


def test_background_fills_a_frame_in_which_a_recording_ends() -> None:
    utterances = [utterance(100, (9,))]
    speaker = Surroundings(Playback(utterances), utterances)
    *_, last = (speaker.frame(0, 0) for _ in range(3))
    assert last is not None
    assert last.ended is not None
    assert (np.frombuffer(last.pcm, "<i2") == [100] * 100 + [9] * 380).all()


def test_without_a_background_nothing_changes() -> None:
    utterances = [utterance(100, ())]
    plain, around = Playback(utterances), Surroundings(Playback(utterances), utterances)
    assert [around.frame(0, 0) for _ in range(5)] == [plain.frame(0, 0) for _ in range(5)]
    assert (around.frame_ns, around.listens) == (plain.frame_ns, plain.listens)
