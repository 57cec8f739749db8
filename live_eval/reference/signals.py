"""Sounds whose truth is their construction, for calibrating clocks. No models.

The user's side carries a *mark*: one sample of the largest positive value. It is the last sample of its
20 ms frame, so that the frame that holds it leaves exactly when the mark is spoken, and its arrival is the
end of speech as the endpoint sees it. The reply is digital silence, then a tone whose first sample is
audible at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from live_eval.audio import Audio

__all__ = ["MARK", "KnownReply", "MarkedSpeech", "calibration_reply", "calibration_speech", "find_mark"]

MARK = 32_767
"""The mark's value as int16. No other sample of the constructed speech comes near it."""

_MARK_BYTES = MARK.to_bytes(2, "little")
_SPEECH_PEAK = 0.2
_SPEECH_HZ = 150.0
_SYLLABLE_HZ = 4.0
_REPLY_PEAK = 0.25
_REPLY_HZ = 440.0


class MarkedSpeech(NamedTuple):
    """Speech for calibration.

    Args:
        audio: The sound; its last sample is the mark.
        voice_end_sample: Just past the mark: the end of the user's speech.
    """

    audio: Audio
    voice_end_sample: int


class KnownReply(NamedTuple):
    """A reply for calibration.

    Args:
        audio: The sound.
        onset_sample: Index of its first audible sample; those before it are zero.
    """

    audio: Audio
    onset_sample: int


def calibration_speech(duration_ms: int, rate_hz: int = 24_000, frame_ms: int = 20) -> MarkedSpeech:
    """Construct the user's side of a turn.

    A buzz with the rhythm of syllables, audible from its first sample, that ends with the mark. Send it as
    16-bit PCM at its own rate in frames of `frame_ms`, then silence; any other coding loses the mark.

    Args:
        duration_ms: Length; rounded up to whole frames.
        rate_hz: Samples per second.
        frame_ms: The sender's frame length.

    Returns:
        The sound, and where the speech ends.
    """
    frame = rate_hz * frame_ms // 1000
    length = max(1, -(-duration_ms * rate_hz // 1000 // frame)) * frame
    time_s = np.arange(length) / rate_hz
    buzz = 1 - 2 * np.mod(time_s * _SPEECH_HZ, 1.0)
    envelope = 0.65 + 0.35 * np.cos(2 * np.pi * _SYLLABLE_HZ * time_s)
    samples = (_SPEECH_PEAK * envelope * buzz).astype(np.float32)
    samples[-1] = MARK / 32_768
    return MarkedSpeech(Audio(samples, rate_hz), length)


def calibration_reply(lead_silence_ms: int, duration_ms: int, rate_hz: int = 24_000) -> KnownReply:
    """Construct the endpoint's side of a turn.

    Args:
        lead_silence_ms: Exact zeros before the tone.
        duration_ms: Length of the tone.
        rate_hz: Samples per second.

    Returns:
        The sound, and the index of its first audible sample.
    """
    onset = lead_silence_ms * rate_hz // 1000
    length = max(1, duration_ms * rate_hz // 1000)
    samples = np.zeros(onset + length, np.float32)
    samples[onset:] = _REPLY_PEAK * np.cos(2 * np.pi * _REPLY_HZ / rate_hz * np.arange(length))
    return KnownReply(Audio(samples, rate_hz), onset)


def find_mark(pcm: bytes) -> int | None:
    """Return the index of the first marked sample of int16 little-endian mono PCM, or None."""
    at = pcm.find(_MARK_BYTES)
    while at % 2 == 1 and at != -1:
        at = pcm.find(_MARK_BYTES, at + 1)
    return None if at == -1 else at // 2
