"""The playout queue of a phone line plays bursts of audio in real time."""

from __future__ import annotations

from collections.abc import Iterable

from live_eval.audio import Codec, CodecName
from live_eval.dialect import QueuedAudio, StreamAudio, StreamInterrupted, StreamText
from live_eval.session.playout_line import Passed, PlayoutLine

MS = 1_000_000
PHONE = Codec(CodecName.PCMU, 8_000)


def sound(ms: int, codec: Codec = PHONE) -> QueuedAudio:
    width = 2 if codec.name is CodecName.PCM16 else 1
    return QueuedAudio(bytes(ms * codec.rate_hz // 1000 * width), codec)


def times(passed: Iterable[Passed]) -> list[tuple[int, int]]:
    """Return the time and the number of bytes of each piece of audio, in ms."""
    return [(at_ns // MS, len(event.data)) for event, at_ns in passed if isinstance(event, StreamAudio)]


def test_a_chunk_that_arrives_at_once_is_played_at_the_pace_of_speech() -> None:
    line = PlayoutLine()
    assert times(line.passed(sound(70), 100 * MS)) == [(100, 160)]
    assert times(line.played(119 * MS)) == []
    assert times(line.played(140 * MS)) == [(120, 160)]
    assert times(line.played(900 * MS)) == [(140, 160), (160, 80)]
    assert times(line.passed(sound(20), 1_000 * MS)) == [(1_000, 160)], "the queue ran empty"


def test_chunks_follow_each_other() -> None:
    line = PlayoutLine()
    list(line.passed(sound(30), 0))
    assert times(line.passed(sound(20), 10 * MS)) == []
    assert times(line.played(1_000 * MS)) == [(20, 80), (30, 160)]


def test_an_interruption_empties_the_queue() -> None:
    line = PlayoutLine()
    stop = StreamInterrupted()
    list(line.passed(sound(500), 0))
    passed = list(line.passed(stop, 50 * MS))
    assert times(passed) == [(20, 160), (40, 160)]
    assert passed[-1] == Passed(stop, 50 * MS)
    assert times(line.played(9_000 * MS)) == []
    assert times(line.passed(sound(20), 60 * MS)) == [(60, 160)]


def test_the_last_pieces_are_kept_back_until_a_late_interruption_cannot_concern_them() -> None:
    line = PlayoutLine()
    list(line.passed(sound(500), 0))
    assert times(line.played(60 * MS)) == [(20, 160), (40, 160)]
    assert times(line.passed(StreamInterrupted(), 50 * MS)) == []


def test_other_events_pass_after_the_audio_before_them() -> None:
    line = PlayoutLine()
    list(line.passed(sound(40), 0))
    text = StreamText("Yes.")
    assert list(line.passed(text, 30 * MS))[1:] == [Passed(text, 30 * MS)]


def test_16_bit_audio_stays_aligned() -> None:
    line = PlayoutLine()
    codec = Codec(CodecName.PCM16, 16_000)
    assert times(line.passed(sound(40, codec), 0)) == [(0, 640)]
    assert times(line.played(1_000 * MS)) == [(20, 640)]
