"""Create synthetic signals with known onsets and ends, for calibration. Uses no models.

The user's speech ends with a *mark*, a sample with the maximum positive value. It is the last sample of its
20 ms frame, so the frame is sent exactly when the mark is spoken, and its arrival is the end of speech for
the endpoint. The reply is a tone that is audible from its first sample.

A lossy codec does not preserve single samples. For such a codec, the speech is loud in every frame, and
silent for the last `LOSSY_TAIL_MS` of its last frame. Opus delays audio by 6.5 ms (encoder look-ahead, RFC
6716, 2.1.2), so the last loud samples stay in that frame's packet, and the next packet is silent. For the
endpoint, the speech ends with the arrival of the last audible packet, once a silent packet has followed.

`calibration_utterance` creates speech over a reply, or with pauses. Each speech segment starts with the last
sample of a frame and ends with the last sample of another frame, so both samples arrive exactly when they are
spoken. For a lossy codec, the segment starts with the first sample of a frame, so its onset arrives one frame
later.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Audio

__all__ = [
    "LOSSY_TAIL_MS",
    "MARK",
    "MarkedSpeech",
    "MarkedUtterance",
    "SoundStretch",
    "calibration_reply",
    "calibration_speech",
    "calibration_utterance",
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
# The constructed speech is at −23 to −29 dBFS in every 20 ms packet; the packet after it is at most at −55
# dBFS, including codec smearing.
_SOUNDS_DBFS = -40.0
_SOUNDS_MS = 10


class MarkedSpeech(NamedTuple):
    """Calibration speech; `voice_end_sample` is the index after its last frame."""

    audio: Audio
    voice_end_sample: int


def calibration_speech(
    duration_ms: int, rate_hz: int = 24_000, frame_ms: int = 20, *, lossy: bool = False
) -> MarkedSpeech:
    """Create the user's speech in a turn, of `duration_ms` rounded up to whole frames.

    The signal is a buzz with a syllable rhythm. It is audible from its first sample and ends with the mark,
    or with a short silence if the codec on the wire is `lossy`. Send it as 16-bit PCM at its own sample rate
    in frames of `frame_ms`, followed by silence: any other encoding loses the mark.
    """
    frame = rate_hz * frame_ms // 1000
    length = _frames(duration_ms, rate_hz, frame) * frame
    samples = _buzz(length, rate_hz)
    if lossy:
        samples[-(LOSSY_TAIL_MS * rate_hz // 1000) :] = 0
    else:
        samples[-1] = MARK / 32_768
    return MarkedSpeech(Audio(samples, rate_hz), length)


class SoundStretch(NamedTuple):
    """A speech segment of an utterance.

    Args:
        onset_sample: First sample.
        end_sample: End of the frame that contains the last sample.
    """

    onset_sample: int
    end_sample: int


class MarkedUtterance(NamedTuple):
    """A calibration utterance, and its speech segments between the pauses."""

    audio: Audio
    stretches: tuple[SoundStretch, ...]


def calibration_utterance(
    sounds_ms: Sequence[int],
    pauses_ms: Sequence[int] = (),
    rate_hz: int = 24_000,
    frame_ms: int = 20,
    *,
    lossy: bool = False,
) -> MarkedUtterance:
    """Create an utterance with known onsets and ends; see `calibration_speech` for the signal.

    Args:
        sounds_ms: Length of each speech segment, rounded up to whole frames. Unless `lossy`, one additional
            sample precedes the segment, at the end of the previous frame.
        pauses_ms: Length of each pause between segments, rounded up to whole frames.
        rate_hz: Sample rate.
        frame_ms: The sender's frame length.
        lossy: Whether the codec on the wire is lossy.

    Raises:
        ValueError: There is no segment, or the number of pauses is wrong.
    """
    if not sounds_ms or len(pauses_ms) != len(sounds_ms) - 1:
        raise ValueError(f"expected speech segments with pauses between them, got {sounds_ms}, {pauses_ms}")
    frame = rate_hz * frame_ms // 1000
    pieces: list[NDArray[np.float32]] = []
    stretches: list[SoundStretch] = []
    at = 0
    for number, sound_ms in enumerate(sounds_ms):
        # The first sample is in the last frame of the pause; prepend a frame for the first segment.
        pause = _frames(pauses_ms[number - 1], rate_hz, frame) if number else 0 if lossy else 1
        silence = np.zeros(pause * frame, np.float32)
        sound = _buzz(_frames(sound_ms, rate_hz, frame) * frame, rate_hz)
        onset = at + len(silence)
        if lossy:
            sound[-(LOSSY_TAIL_MS * rate_hz // 1000) :] = 0
        else:
            silence[-1], onset = _SPEECH_PEAK, onset - 1
        pieces += [silence, sound]
        at += len(silence) + len(sound)
        stretches.append(SoundStretch(onset, at))
    samples = np.concatenate(pieces)
    if not lossy:
        samples[-1] = MARK / 32_768
    return MarkedUtterance(Audio(samples, rate_hz), tuple(stretches))


def _frames(duration_ms: int, rate_hz: int, frame: int) -> int:
    return max(1, -(-duration_ms * rate_hz // 1000 // frame))


def _buzz(length: int, rate_hz: int) -> NDArray[np.float32]:
    return _buzz_of(length, rate_hz).copy()


@functools.lru_cache(maxsize=64)  # calibration measures time
def _buzz_of(length: int, rate_hz: int) -> NDArray[np.float32]:
    time_s = np.arange(length) / rate_hz
    buzz = 1 - 2 * np.mod(time_s * _SPEECH_HZ, 1.0)
    envelope = 0.65 + 0.35 * np.cos(2 * np.pi * _SYLLABLE_HZ * time_s)
    samples: NDArray[np.float32] = (_SPEECH_PEAK * envelope * buzz).astype(np.float32)
    return samples


def calibration_reply(duration_ms: int, rate_hz: int = 24_000, *, pause_ms: int = 0) -> Audio:
    """Create the endpoint's reply: a tone, audible from its first sample, with a pause in the middle."""
    length = max(1, duration_ms * rate_hz // 1000)
    samples = _REPLY_PEAK * np.cos(2 * np.pi * _REPLY_HZ / rate_hz * np.arange(length))
    samples = np.insert(samples, length // 2, np.zeros(pause_ms * rate_hz // 1000))
    return Audio(samples.astype(np.float32), rate_hz)


def find_mark(pcm: bytes) -> int | None:
    """Return the index of the first marked sample of int16 little-endian mono PCM, or None."""
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
