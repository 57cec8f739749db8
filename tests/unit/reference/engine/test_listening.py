"""The end of speech over Opus, detected after encoding and decoding."""

import numpy as np
import pytest

from live_eval.audio import Audio, Codec, CodecName, frames_of
from live_eval.audio.codecs import OPUS_RATE_HZ, Decoder, OpusEncoder
from live_eval.reference.engine.endpointer import Detection
from live_eval.reference.engine.events import UserSpeechStarted, UserSpeechStopped
from live_eval.reference.engine.listening import Heard, Listening, SpeechCommitted
from live_eval.reference.engine.signals import LOSSY_TAIL_MS, MARK, calibration_speech, sounds

PCM_48K = Codec(CodecName.PCM16, OPUS_RATE_HZ)
OPUS = Codec(CodecName.OPUS, OPUS_RATE_HZ)
FRAME_NS = 20_000_000


def listening(detection: Detection | None) -> Listening:
    return Listening(PCM_48K, detection, calibrate=True, guesses=False, session_id="sess_1", lossy=True)


def packets(audio: Audio, bit_rate: int, frame_ms: int = 20, silence: int = 6) -> list[list[bytes]]:
    """Return the speech and the following silence as decoded Opus packets."""
    encoder = OpusEncoder(audio.rate_hz, bit_rate)
    frames = frames_of(audio.int16(), audio.rate_hz * frame_ms // 1000)
    piece = audio.rate_hz // 50 * 2
    return [
        [packet for at in range(0, len(frame), piece) for packet in encoder.encode(frame[at : at + piece])]
        for frame in [*frames, *[bytes(len(frames[0]))] * silence]
    ]


def decoded(sent: list[list[bytes]]) -> list[bytes]:
    decoder = Decoder(OPUS)
    return [b"".join(decoder.decode(packet).tobytes() for packet in frame) for frame in sent]


def test_lossy_speech_ends_with_silence_and_has_no_mark() -> None:
    speech, voice_end_sample = calibration_speech(333, 48_000, 20, lossy=True)
    pcm, tail = speech.int16(), LOSSY_TAIL_MS * 48
    assert voice_end_sample == len(pcm) == 17 * 960
    assert not pcm[-tail:].any()
    assert pcm[-tail - 48 : -tail].any()
    assert np.abs(pcm.astype(int)).max() < MARK // 4


@pytest.mark.parametrize("bit_rate", [24_000, 48_000, 96_000])
@pytest.mark.parametrize("rate_hz", [16_000, 24_000, 48_000])
@pytest.mark.parametrize("frame_ms", [20, 80])
def test_only_packets_of_speech_are_audible(bit_rate: int, rate_hz: int, frame_ms: int) -> None:
    speech, voice_end_sample = calibration_speech(700, rate_hz, frame_ms, lossy=True)
    frames = voice_end_sample // (rate_hz * frame_ms // 1000)
    heard = [
        sounds(np.frombuffer(pcm, "<i2"), OPUS_RATE_HZ)
        for pcm in decoded(packets(speech, bit_rate, frame_ms))
    ]
    assert heard == [True] * frames + [False] * 6


def test_speech_ends_with_the_arrival_of_the_last_audible_packet() -> None:
    speech, _ = calibration_speech(400, 48_000, lossy=True)
    ear = listening(Detection())
    out: list[Heard] = []
    told_ns: list[int] = []
    for number, pcm in enumerate(decoded(packets(speech, 48_000))):
        found = ear.audio(pcm, number * FRAME_NS)
        out += found
        told_ns += [number * FRAME_NS] * len(found)
    started, stopped, turn = out
    assert isinstance(started, UserSpeechStarted)
    assert isinstance(stopped, UserSpeechStopped)
    assert isinstance(turn, SpeechCommitted)
    assert told_ns == [0, 20 * FRAME_NS, 20 * FRAME_NS]
    assert (turn.voice_end.at_ns, turn.voice_end.by) == (19 * FRAME_NS, "energy")
    assert (turn.speech_ms, stopped.audio_ms, turn.detected) == (400, 420, True)


def test_the_speech_of_a_commit_ends_with_the_last_audible_packet() -> None:
    speech, _ = calibration_speech(400, 48_000, lossy=True)
    ear = listening(None)
    for number, pcm in enumerate(decoded(packets(speech, 48_000, silence=3))):
        assert ear.audio(pcm, number * FRAME_NS) == []
    turn = ear.commit(30 * FRAME_NS)
    assert isinstance(turn, SpeechCommitted)
    assert (turn.voice_end.at_ns, turn.voice_end.by) == (19 * FRAME_NS, "energy")
    ear.audio(bytes(20 * 1920), 31 * FRAME_NS)
    second = ear.commit(40 * FRAME_NS)
    assert isinstance(second, SpeechCommitted)
    assert (second.voice_end.at_ns, second.voice_end.by) == (40 * FRAME_NS, "commit")


def test_silence_starts_no_utterance() -> None:
    ear = listening(Detection())
    assert [ear.audio(bytes(1920), number * FRAME_NS) for number in range(100)] == [[]] * 100
