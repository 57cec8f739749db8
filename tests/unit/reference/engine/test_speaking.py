"""Replies in a continuous stream: its pace, its silence, and its start and stop with the user's audio."""

from typing import Any

from live_eval.audio import Codec, CodecName
from live_eval.reference.engine.engine import Engine, EngineConfig
from live_eval.reference.engine.events import (
    AudioPiece,
    DropUnplayed,
    FindReply,
    Output,
    ResponseEnded,
    Silence,
    UserSpeechStarted,
)
from live_eval.reference.engine.reply_plan import GeneratedReply, ReplyPacker, WireReply
from live_eval.reference.engine.signals import calibration_reply, calibration_speech
from live_eval.reference.settings import Cadence, ReferenceSettings

MS = 1_000_000
FRAME_MS = 80
FRAME_SAMPLES = 1_920
PCM_24K = Codec(CodecName.PCM16, 24_000)


def engine(**settings: Any) -> Engine:
    return Engine(
        "sess_0123456789abcdef",
        ReferenceSettings(calibrate=True, **settings),
        EngineConfig(frame_ms=FRAME_MS),
        waits_for_words=False,
    )


def reply(lead_silence_ms: int = 0, duration_ms: int = 300) -> WireReply:
    return ReplyPacker(
        codec=PCM_24K,
        lead_silence_ms=lead_silence_ms,
        chunk_ms=FRAME_MS,
        encode=bytes,
        decoder_delay_samples=156,
        whole=True,
    ).pack(GeneratedReply("A tone.", calibration_reply(duration_ms), 0))


def sounds(outputs: list[Output]) -> list[AudioPiece | Silence]:
    return [output for output in outputs if isinstance(output, AudioPiece | Silence)]


def test_the_stream_starts_with_the_users_audio() -> None:
    session = engine()
    assert session.wake_ns is None
    assert session.due(10**9) == []


def test_a_frame_is_due_at_every_tick_including_missed_ones() -> None:
    session = engine()
    session.audio(bytes(960), 1_000 * MS)
    ticks = []
    for _ in range(3):
        assert session.wake_ns is not None
        ticks.append(session.wake_ns // MS)
        assert session.due(session.wake_ns) == [Silence(FRAME_SAMPLES)]
    assert ticks == [1_000, 1_080, 1_160]
    session.audio(bytes(960), 1_200 * MS)
    late_ns = 1_420 * MS
    made_up = [session.due(late_ns) for _ in range(4)]
    assert made_up == [[Silence(FRAME_SAMPLES)]] * 3 + [[]]
    assert session.wake_ns is None  # the next tick is beyond the received audio


def test_the_stream_stops_and_restarts_with_the_users_audio() -> None:
    session = engine()
    session.audio(bytes(960), 0)
    while session.wake_ns is not None:
        last_ns = session.wake_ns
        session.due(last_ns)
    assert last_ns == 240 * MS
    session.audio(bytes(960), 5_000 * MS)
    assert session.wake_ns == 5_000 * MS


def test_a_short_gap_in_the_audio_keeps_the_grid() -> None:
    session = engine()
    session.audio(bytes(960), 0)
    for at_ms in range(20, 2_000, 20):
        session.audio(bytes(960), at_ms * MS)
        if session.wake_ns is not None and session.wake_ns <= at_ms * MS:
            assert session.wake_ns % (FRAME_MS * MS) == 0
            session.due(at_ms * MS)


def speak(session: Engine, at_ms: int) -> tuple[list[Output], int]:
    """Send marked speech frame by frame; return the outputs and the end of speech."""
    outputs: list[Output] = []
    speech = calibration_speech(200).audio.int16()
    for begin in range(0, len(speech), 480):
        at_ms += 20
        outputs += session.audio(speech[begin : begin + 480].astype("<i2").tobytes(), at_ms * MS)
        outputs += take_due(session, at_ms)
    return outputs, at_ms


def take_due(session: Engine, at_ms: int) -> list[Output]:
    outputs: list[Output] = []
    while session.wake_ns is not None and session.wake_ns <= at_ms * MS:
        outputs += session.due(at_ms * MS)
    return outputs


def listen(session: Engine, at_ms: int, for_ms: int) -> list[Output]:
    outputs: list[Output] = []
    for now_ms in range(at_ms + 20, at_ms + for_ms + 20, 20):
        outputs += session.audio(bytes(960), now_ms * MS)
        outputs += take_due(session, now_ms)
    return outputs


def test_a_reply_replaces_silence_frame_by_frame_at_any_cadence() -> None:
    for cadence in Cadence:
        session = engine(delay_ms=100, cadence=cadence)
        said, at_ms = speak(session, 0)
        (answer,) = (output for output in said if isinstance(output, FindReply))
        session.reply(answer.response_id, reply(), at_ms * MS)
        heard = sounds(listen(session, at_ms, 1_000))
        pieces = [number for number, output in enumerate(heard) if isinstance(output, AudioPiece)]
        # 300 ms are four frames, the last one padded; they begin at the first tick after the delay.
        assert pieces == [1, 2, 3, 4]
        assert {output.samples for output in heard} == {FRAME_SAMPLES}
        assert session.active is None


def test_silence_continues_after_an_interruption() -> None:
    session = engine()
    said, at_ms = speak(session, 0)
    (answer,) = (output for output in said if isinstance(output, FindReply))
    session.reply(answer.response_id, reply(duration_ms=5_000), at_ms * MS)
    before = listen(session, at_ms, 400)
    assert isinstance(before[-1], AudioPiece)
    said, at_ms = speak(session, at_ms + 400)
    began = next(number for number, output in enumerate(said) if isinstance(output, UserSpeechStarted))
    assert isinstance(said[began + 1], DropUnplayed)
    assert isinstance(said[began + 2], ResponseEnded)
    assert all(isinstance(output, Silence) for output in sounds(said[began:]))


def test_packing_for_a_stream_makes_whole_frames() -> None:
    packed = reply(lead_silence_ms=30)
    assert [chunk.samples for chunk in packed.chunks] == [FRAME_SAMPLES] * 5
    assert packed.onset_sample == 30 * 24 + 156
