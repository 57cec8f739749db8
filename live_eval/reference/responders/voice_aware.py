"""Comment on the user's delivery, to test whether metrics detect such comments.

Pace, level and pitch are measured in the received audio; only the word count comes from the text. The
thresholds are deliberately coarse and suit an ordinary voice close to a microphone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Audio, decode, int16_to_float, resample
from live_eval.reference.engine.conversation_items import ItemContent
from live_eval.reference.responders.responder import Replier, ReplyLine, choose_option, says_back, unanswered

__all__ = ["Delivery", "NoticingReplier", "measure_delivery", "remark"]

_RATE_HZ = 16_000
_FRAME = _RATE_HZ // 50
_ACTIVE_DB = 25.0
"""Frames within this range of the loudest frame count as speech."""
_SHORTEST_S = 0.3
_CONFIDENT = 0.9
_LOWEST_HZ, _HIGHEST_HZ = 65.0, 500.0

_QUIET_DBFS, _LOUD_DBFS = -32.0, -16.0
_SLOW_WORDS_S, _FAST_WORDS_S = 3.4, 6.3
_LOW_HZ, _HIGH_HZ = 140.0, 230.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """The delivery of an utterance.

    Args:
        level_dbfs: Mean level of speech.
        words_per_s: Words per second, excluding pauses; None without words.
        pitch_hz: Median pitch; None for unvoiced speech.
    """

    level_dbfs: float
    words_per_s: float | None
    pitch_hz: float | None


def measure_delivery(audio: Audio, words: int) -> Delivery | None:
    """Measure how `words` words were delivered; return None if the audio is too short or silent."""
    samples = resample(audio, _RATE_HZ).samples
    frames = samples[: len(samples) // _FRAME * _FRAME].reshape(-1, _FRAME)
    if not len(frames):
        return None
    power = np.square(frames, dtype=np.float64).mean(axis=1)
    loudest = power.max()
    if loudest <= 1e-9:
        return None
    active = power >= loudest * 10 ** (-_ACTIVE_DB / 10)
    seconds = float(active.sum()) * _FRAME / _RATE_HZ
    if seconds < _SHORTEST_S:
        return None
    return Delivery(
        level_dbfs=float(10 * np.log10(power[active].mean())),
        words_per_s=words / seconds if words else None,
        pitch_hz=_pitch_hz(samples),
    )


def _pitch_hz(samples: NDArray[np.float32]) -> float | None:
    from swift_f0 import SwiftF0

    peak = float(np.abs(samples).max())
    found = SwiftF0(threads=1, spin=False).detect(
        samples / peak * 0.5, _RATE_HZ, fmin=_LOWEST_HZ, fmax=_HIGHEST_HZ
    )
    voiced = found.pitch_hz[found.confidence >= _CONFIDENT]
    return float(np.median(voiced)) if len(voiced) else None


def remark(delivery: Delivery) -> str:
    """Return a remark on the delivery; empty if it is normal.

    >>> remark(Delivery(level_dbfs=-40.0, words_per_s=2.8, pitch_hz=180.0))
    'You speak so quietly and so slowly.'
    >>> remark(Delivery(level_dbfs=-24.0, words_per_s=5.0, pitch_hz=180.0))
    ''
    """
    noticed: list[str] = []
    if delivery.level_dbfs < _QUIET_DBFS:
        noticed.append("so quietly")
    elif delivery.level_dbfs > _LOUD_DBFS:
        noticed.append("so loudly")
    if delivery.words_per_s is not None and delivery.words_per_s < _SLOW_WORDS_S:
        noticed.append("so slowly")
    elif delivery.words_per_s is not None and delivery.words_per_s > _FAST_WORDS_S:
        noticed.append("so fast")
    if delivery.pitch_hz is not None and delivery.pitch_hz < _LOW_HZ:
        noticed.append("in such a low voice")
    elif delivery.pitch_hz is not None and delivery.pitch_hz > _HIGH_HZ:
        noticed.append("in such a high voice")
    return f"You speak {' and '.join(noticed)}." if noticed else ""


class NoticingReplier:
    """Add a comment on the user's delivery before another replier's reply.

    No comment is added if the instructions ask to repeat the user's words or choose an option.
    """

    def __init__(self, replier: Replier) -> None:
        self._replier = replier

    async def reply(self, said: Sequence[ItemContent], instructions: str) -> ReplyLine:
        """Return the reply, with a comment if the delivery is unusual."""
        line = await self._replier.reply(said, instructions)
        if says_back(instructions) or choose_option(instructions, "") is not None:
            return line
        noticed = await asyncio.to_thread(_remark, said)
        return replace(line, reply=f"{noticed} {line.reply}", spoken=None) if noticed else line

    async def close(self) -> None:
        """Close the wrapped replier."""
        await self._replier.close()


def _remark(said: Sequence[ItemContent]) -> str:
    utterances = unanswered(said)
    speech = [piece for utterance in utterances for piece in utterance.speech]
    if not speech:
        return ""
    words = sum(len((utterance.text or "").split()) for utterance in utterances)
    pcm = np.concatenate([decode(data, codec) for data, codec in speech])
    delivery = measure_delivery(Audio(int16_to_float(pcm), speech[0][1].rate_hz), words)
    return remark(delivery) if delivery is not None else ""
