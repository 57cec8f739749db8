"""Create synthetic signals with known onsets and ends for calibration, without models.

The user's speech ends with a *mark*: a sample with the maximum positive value. The mark is the last sample of
its 20 ms frame, so the frame is sent when the mark is spoken, and the endpoint takes its arrival as the end
of speech. The reply is a tone that is audible from its first sample.

A lossy codec does not preserve single samples. With such a codec, speech is loud in every frame except for
the last `LOSSY_TAIL_MS` of the last frame, which are silent. Opus delays audio by 6.5 ms (encoder look-ahead,
RFC 6716, 2.1.2), so the last loud samples stay in that frame's packet, and the next packet is silent. The
endpoint takes the arrival of the last audible packet as the end of speech, once a silent packet follows.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Audio

__all__ = [
    "LOSSY_TAIL_MS",
    "MARK",
    "MarkedSpeech",
    "calibration_reply",
    "calibration_speech",
    "find_mark",
    "sounds",
]

MARK = 32_767
"""The mark's value as int16. All other samples of the speech are much smaller."""

LOSSY_TAIL_MS = 10
"""Silence at the end of the last frame of speech, for lossy codecs."""

_MARK_BYTES = MARK.to_bytes(2, "little")
_SPEECH_PEAK = 0.2
_SPEECH_HZ = 150.0
_SYLLABLE_HZ = 4.0
_REPLY_PEAK = 0.25
_REPLY_HZ = 440.0
# Every 20 ms packet of the constructed speech is at −23 to −29 dBFS; the packet after it is at most at −55
# dBFS, including codec smearing.
_SOUNDS_DBFS = -40.0
_SOUNDS_MS = 10


class MarkedSpeech(NamedTuple):
    """Calibration speech; `voice_end_sample` is the index past its last frame."""

    audio: Audio
    voice_end_sample: int


def calibration_speech(
    duration_ms: int, rate_hz: int = 24_000, frame_ms: int = 20, *, lossy: bool = False
) -> MarkedSpeech:
    """Create the user's speech for a turn, with `duration_ms` rounded up to whole frames.

    The signal is a buzz with a syllable rhythm. It is audible from its first sample and ends with the mark
    or, if the wire codec is `lossy`, with a short silence. Send it as 16-bit PCM at its own sample rate, in
    frames of `frame_ms`, followed by silence; other encodings lose the mark.
    """
    frame = rate_hz * frame_ms // 1000
    length = _frames(duration_ms, rate_hz, frame) * frame
    samples = _buzz(length, rate_hz)
    if lossy:
        samples[-(LOSSY_TAIL_MS * rate_hz // 1000) :] = 0
    else:
        samples[-1] = MARK / 32_768
    return MarkedSpeech(Audio(samples, rate_hz), length)


def _frames(duration_ms: int, rate_hz: int, frame: int) -> int:
    return max(1, -(-duration_ms * rate_hz // 1000 // frame))


def _buzz(length: int, rate_hz: int) -> NDArray[np.float32]:
    return _buzz_of(length, rate_hz).copy()


@functools.lru_cache(maxsize=64)  # cached because calibration is timing-critical
def _buzz_of(length: int, rate_hz: int) -> NDArray[np.float32]:
    time_s = np.arange(length) / rate_hz
    buzz = 1 - 2 * np.mod(time_s * _SPEECH_HZ, 1.0)
    envelope = 0.65 + 0.35 * np.cos(2 * np.pi * _SYLLABLE_HZ * time_s)
    samples: NDArray[np.float32] = (_SPEECH_PEAK * envelope * buzz).astype(np.float32)
    return samples


def calibration_reply(duration_ms: int, rate_hz: int = 24_000, *, pause_ms: int = 0) -> Audio:
    """Create the endpoint's reply: a tone that is audible from its first sample and pauses in the middle."""
    length = max(1, duration_ms * rate_hz // 1000)
    samples = _REPLY_PEAK * np.cos(2 * np.pi * _REPLY_HZ / rate_hz * np.arange(length))
    samples = np.insert(samples, length // 2, np.zeros(pause_ms * rate_hz // 1000))
    return Audio(samples.astype(np.float32), rate_hz)


def find_mark(pcm: bytes) -> int | None:
    """Return the index of the first marked sample in int16 little-endian mono PCM, or None."""
    at = pcm.find(_MARK_BYTES)
    while at % 2 == 1 and at != -1:
        at = pcm.find(_MARK_BYTES, at + 1)
    return None if at == -1 else at // 2


def sounds(pcm: NDArray[np.int16], rate_hz: int) -> bool:
    """Return whether any 10 ms of decoded int16 mono audio contains speech from `calibration_speech`."""
    window = rate_hz * _SOUNDS_MS // 1000
    whole = pcm[: len(pcm) // window * window].reshape(-1, window).astype(np.float64)
    power = np.einsum("ij,ij->i", whole, whole) / window
    return bool((power > (32_768 * 10 ** (_SOUNDS_DBFS / 20)) ** 2).any())
