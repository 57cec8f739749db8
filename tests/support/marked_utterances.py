"""Create speech over a reply, or with pauses, with known onsets and ends.

Each speech segment starts with the last sample of a frame and ends with the last sample of another frame, so
both samples arrive exactly when they are spoken. For a lossy codec, the segment starts with the first sample
of a frame, so its onset arrives one frame later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Audio
from live_eval.reference.engine.signals import MARK, calibration_speech

__all__ = ["MarkedUtterance", "SoundStretch", "marked_utterance"]

_LOUD = 0.2


class SoundStretch(NamedTuple):
    """A speech segment of an utterance.

    Args:
        onset_sample: First sample.
        end_sample: End of the frame that contains the last sample.
    """

    onset_sample: int
    end_sample: int


class MarkedUtterance(NamedTuple):
    """An utterance, and its speech segments between the pauses."""

    audio: Audio
    stretches: tuple[SoundStretch, ...]


def marked_utterance(
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
    """
    frame = rate_hz * frame_ms // 1000
    pieces: list[NDArray[np.float32]] = []
    stretches: list[SoundStretch] = []
    at = 0
    for number, (sound_ms, pause_ms) in enumerate(zip(sounds_ms, (0, *pauses_ms), strict=True)):
        # The first sample is in the last frame of the pause; prepend a frame for the first segment.
        pause = max(1, -(-pause_ms * rate_hz // 1000 // frame)) if number else 0 if lossy else 1
        silence = np.zeros(pause * frame, np.float32)
        sound = calibration_speech(sound_ms, rate_hz, frame_ms, lossy=lossy).audio.samples
        onset = at + len(silence)
        if not lossy:
            silence[-1], sound[-1], onset = _LOUD, _LOUD, onset - 1
        pieces += [silence, sound]
        at += len(silence) + len(sound)
        stretches.append(SoundStretch(onset, at))
    samples = np.concatenate(pieces)
    if not lossy:
        samples[-1] = MARK / 32_768
    return MarkedUtterance(Audio(samples, rate_hz), tuple(stretches))
