"""The echo of replies in the user's frames."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.audio import Codec, CodecName
from live_eval.audio.codecs import OpusEncoder
from live_eval.session.echo import EchoMixer
from live_eval.session.playback import Playback, Utterance
from live_eval.session.responses import OpenResponse
from live_eval.session.surroundings import Surroundings
from live_eval.types import SpeechBoundaries

MS = 1_000_000
RATE_HZ = 24_000
FRAME = 480


def sweep(samples: int, rate_hz: int = RATE_HZ) -> NDArray[np.int16]:
    """Return a tone that rises from 200 Hz to 2 kHz, whose autocorrelation has a single peak."""
    at = np.arange(samples) / rate_hz
    length_s = samples / rate_hz
    hz = 200 + 900 * at / length_s
    return (8_000 * np.sin(2 * np.pi * hz * at)).astype("<i2")


def response(
    pcm: NDArray[np.int16], arrivals_ms: list[float], rate_hz: int = RATE_HZ, chunk: int = 0
) -> OpenResponse:
    made = OpenResponse("r", 0)
    codec = Codec(CodecName.PCM16, rate_hz)
    chunk = chunk or len(pcm) // len(arrivals_ms)
    for number, at_ms in enumerate(arrivals_ms):
        data = pcm[number * chunk : (number + 1) * chunk]
        made.hear(round(at_ms * MS), data.astype("<i2").tobytes(), codec, len(data))
    return made


def microphone(echo: EchoMixer, reply: OpenResponse, frames: int) -> NDArray[np.int16]:
    """Return the microphone's audio of a silent user, from time 0."""
    heard = []
    for number in range(frames):
        echo.listen([reply])
        heard.append(np.frombuffer(echo.mix(bytes(2 * FRAME), number * 20 * MS), "<i2"))
    return np.concatenate(heard)


def test_the_echo_is_exact_to_the_sample_and_in_level() -> None:
    pcm = sweep(4_800)
    heard = microphone(EchoMixer(-20, 100 * MS, RATE_HZ), response(pcm, [35.0]), 30)
    begin = (35 + 100) * 24
    assert not heard[:begin].any()
    assert np.abs(heard[begin : begin + 4_800] - 0.1 * pcm).max() <= 0.5
    assert not heard[begin + 4_800 :].any()


def test_early_chunks_are_heard_in_sequence() -> None:
    pcm = sweep(4_800)
    at_once = microphone(EchoMixer(-6, 60 * MS, RATE_HZ), response(pcm, [10.0] * 10), 30)
    paced = microphone(EchoMixer(-6, 60 * MS, RATE_HZ), response(pcm, [10.0 + 20 * n for n in range(10)]), 30)
    assert (at_once == paced).all()


def test_a_late_chunk_leaves_a_gap() -> None:
    pcm = sweep(960)
    heard = microphone(EchoMixer(0, 40 * MS, RATE_HZ), response(pcm, [0.0, 100.0]), 20)
    sounding = np.flatnonzero(np.abs(heard) > 50)
    gap = np.flatnonzero(np.diff(sounding) > 240)
    assert len(gap) == 1
    assert sounding[gap[0]] == pytest.approx((40 + 20) * 24, abs=12)
    assert sounding[gap[0] + 1] == pytest.approx((40 + 100) * 24, abs=12)


@pytest.mark.parametrize("rate_hz", [16_000, 48_000])
def test_another_rate_is_resampled_in_place(rate_hz: int) -> None:
    pcm, same = sweep(rate_hz // 5, rate_hz), sweep(RATE_HZ // 5)
    arrivals = [20.0 * n for n in range(10)]
    heard = microphone(EchoMixer(0, 80 * MS, RATE_HZ), response(pcm, arrivals, rate_hz), 20)
    part = heard[80 * 24 : 80 * 24 + len(same)].astype(np.float64)
    middle = slice(240, -240)
    error = np.sqrt(np.mean(np.square(part[middle] - same[middle])))
    assert error < 0.02 * np.sqrt(np.mean(np.square(same.astype(np.float64))))


def test_an_opus_track_is_decoded() -> None:
    encoder, made = OpusEncoder(48_000), OpenResponse("r", 0)
    pcm = sweep(48_000, 48_000)
    for number in range(50):
        for packet in encoder.encode(pcm[960 * number : 960 * (number + 1)].tobytes()):
            made.hear(20 * number * MS, packet, Codec(CodecName.OPUS, 48_000), 960)
    heard = microphone(EchoMixer(0, 40 * MS, RATE_HZ), made, 60).astype(np.float64)
    level = np.sqrt(np.mean(np.square(heard[4_800:20_000])))
    assert level == pytest.approx(8_000 / np.sqrt(2), rel=0.1)


def test_interrupted_audio_is_not_in_the_echo() -> None:
    pcm = sweep(48_000)
    reply = response(pcm, [0.0])
    echo = EchoMixer(0, 40 * MS, RATE_HZ)
    begin = microphone(echo, reply, 10)
    reply.interrupted_ns = 200 * MS
    rest = np.concatenate(
        [np.frombuffer(echo.mix(bytes(2 * FRAME), (200 + 20 * n) * MS), "<i2") for n in range(10)]
    )
    assert np.abs(begin[41 * 24 :]).max() > 7_000
    assert np.abs(rest[: 39 * 24]).max() > 7_000
    assert not rest[40 * 24 :].any()


def test_a_loud_echo_is_clipped_and_the_user_stays_audible() -> None:
    pcm = np.full(480, 30_000, "<i2")
    echo = EchoMixer(0, 40 * MS, RATE_HZ)
    echo.listen([response(pcm, [0.0])])
    user = np.full(480, 10_000, "<i2").tobytes()
    assert (np.frombuffer(echo.mix(user, 40 * MS), "<i2") == 32_767).all()
    assert echo.mix(user, 500 * MS) is user


def test_surroundings_mix_the_echo_into_speech_and_silence() -> None:
    utterance = Utterance(
        frames=[bytes(2 * FRAME)],
        frame_ns=20 * MS,
        boundaries=SpeechBoundaries(onset_ns=0, voice_end_ns=20 * MS),
    )
    speaker = Surroundings(Playback([utterance]), [utterance], EchoMixer(0, 40 * MS, RATE_HZ))
    speaker.overhear([response(np.full(960, 500, "<i2"), [0.0])])
    loud = [frame.pcm != bytes(2 * FRAME) for at in range(5) if (frame := speaker.frame(0, at * 20 * MS))]
    assert loud == [False, False, True, True, False]
