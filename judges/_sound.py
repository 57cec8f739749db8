"""Share helpers among audio judges."""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

import numpy as np

from live_eval.audio import Audio
from live_eval.judging import Failed, JudgedTurn, Unscored
from live_eval.timing import AUDIBLE_DBFS, audible_onset

SHORTEST_S = 0.5
"""Shorter replies are not rated. Networks with longer windows fill them: DNSMOS would rate a buzz of at least
18 repetitions, and Whisper hallucinates sentences."""

_MOST_THREADS = 16
_T = TypeVar("_T")


def thread_count() -> int:
    """Return a judge's number of threads: one per core, at most 16 and at most ``OMP_NUM_THREADS``."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    chosen = os.environ.get("OMP_NUM_THREADS", "")
    return min(_MOST_THREADS, cores, int(chosen) if chosen.isdecimal() and int(chosen) else cores)


def recording_detail(turn: JudgedTurn) -> dict[str, float]:
    """Return the details that quality judges store with the score of a rateable reply.

    Returns:
        ``rate_hz``: the reply's original sample rate (8 000 for telephony), and ``full_scale_share``: the
            share of samples at full scale, 0 to 1, which is near 0 unless the reply is clipped.
    """
    assert turn.reply is not None  # turns without a reply are unrateable
    full_scale = np.abs(turn.reply.samples) >= 32767 / 32768
    return {"rate_hz": turn.reply.rate_hz, "full_scale_share": float(full_scale.mean())}


def unrateable(turn: JudgedTurn) -> Unscored | Failed | None:
    """Return why an audio judge cannot rate the reply, or None if it can."""
    return unusable(turn.reply, "reply", "the reply")


def unusable(audio: Audio | None, kind: str, name: str) -> Unscored | Failed | None:
    """Return why a recording cannot be rated, or None if it can.

    Args:
        audio: The recording, or None.
        kind: Kind of recording, used in the reason for a missing recording ("no reply audio").
        name: Name of the recording, used in all other reasons ("the reply").
    """
    if audio is None or len(audio.samples) == 0:
        return Unscored(f"no {kind} audio")
    if not np.isfinite(audio.samples).all():
        return Failed(f"{name} has samples that are not finite")
    if len(audio.samples) < SHORTEST_S * audio.rate_hz:
        return Unscored(f"{name} is shorter than {SHORTEST_S} s")
    moving = Audio(audio.samples - audio.samples.mean(), audio.rate_hz)  # a constant offset is inaudible
    if audible_onset(moving.int16(), audio.rate_hz) is None:
        return Unscored(f"{name} is silent: nothing above {AUDIBLE_DBFS:.0f} dBFS")
    return None


class RecordingCache(Generic[_T]):
    """A thread-safe LRU cache for values of the `most` last used recordings, which turns may share."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[bytes, _T] = OrderedDict()
        self._lock = Lock()

    def get(self, audio: Audio, compute: Callable[[], _T]) -> _T:
        """Return the value for a recording, computing it if it is not cached."""
        content, salt = np.ascontiguousarray(audio.samples), audio.rate_hz.to_bytes(8, "big")
        key = hashlib.blake2b(content.data, digest_size=16, salt=salt).digest()
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = compute()
        with self._lock:
            self._values[key] = value
            if len(self._values) > self._most:
                self._values.popitem(last=False)
        return value
