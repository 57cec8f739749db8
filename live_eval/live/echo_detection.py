"""Detect an echo of the reply in the microphone audio by correlation. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import soxr
from numpy.typing import NDArray

from live_eval.live.updates import EchoDetected

__all__ = ["LONGEST_NS", "RATE_HZ", "WINDOW_NS", "EchoDetector", "find_echo"]

RATE_HZ = 8_000
"""Sample rate at which both sides are compared."""
WINDOW_NS = 2_000_000_000
"""Length of microphone audio to search."""
LONGEST_NS = 1_000_000_000
"""Longest detectable echo delay."""

_SECOND_NS = 1_000_000_000
_LOUD = 100.0  # RMS of int16 samples below which the echo of a reply is negligible
_HEARD = 20.0  # RMS below which microphone audio cannot interrupt a reply
_LEAST_CORRELATION = 0.1  # lower peaks can be caused by chance, another voice or a word at the window's edge
_LEAST_PEAK = 10.0  # minimum peak of the whitened correlation, in standard deviations
_AGREE_MS = 40.0  # maximum delay difference between two windows with the same echo


def find_echo(microphone: NDArray[np.float32], reply: NDArray[np.float32]) -> EchoDetected | None:
    """Return the echo of a reply in the microphone audio, or None.

    The correlation is whitened (GCC-PHAT: Knapp and Carter 1976) to keep its peak sharp in rooms and with
    narrow-band loudspeakers.

    Args:
        microphone: Latest microphone audio, shape (samples,), at `RATE_HZ`.
        reply: Reply audio from the same period and the preceding `LONGEST_NS`.
    """
    if len(reply) <= len(microphone) or _rms(reply) < _LOUD or _rms(microphone) < _HEARD:
        return None
    size = 1 << (len(reply) + len(microphone) - 1).bit_length()
    spectrum = np.fft.rfft(microphone, size) * np.conj(np.fft.rfft(reply, size))
    whitened = np.fft.irfft(spectrum / np.maximum(np.abs(spectrum), 1e-9), size)
    # At delay `lag`, the microphone audio corresponds to the reply audio from `longest - lag`.
    longest = len(reply) - len(microphone)
    peaks = whitened[-np.arange(longest, -1, -1)][::-1]
    lag = longest - int(np.argmax(peaks))
    if float(peaks.max()) < _LEAST_PEAK * float(whitened.std()):
        return None
    begin = longest - lag
    part = reply[begin : begin + len(microphone)]
    power = float(np.linalg.norm(part)) * float(np.linalg.norm(microphone))
    correlation = abs(float(part @ microphone)) / power if power else 0.0
    return EchoDetected(1e3 * lag / RATE_HZ, correlation) if correlation >= _LEAST_CORRELATION else None


def _rms(pcm: NDArray[np.float32]) -> float:
    return float(np.sqrt(np.mean(pcm**2))) if len(pcm) else 0.0


class EchoDetector:
    """Detect an echo that is confirmed by two consecutive windows."""

    def __init__(self) -> None:
        self._last: EchoDetected | None = None

    def search(
        self, blocks: Sequence[NDArray[np.int16]], rate_hz: int, reply: NDArray[np.float32]
    ) -> EchoDetected | None:
        """Return an echo once it is confirmed.

        Args:
            blocks: At least the last `WINDOW_NS` of microphone audio, at `rate_hz`.
            reply: See `find_echo`.
        """
        pcm = np.concatenate(blocks).astype(np.float32) if blocks else np.zeros(0, np.float32)
        microphone = soxr.resample(pcm, rate_hz, RATE_HZ)[-WINDOW_NS * RATE_HZ // _SECOND_NS :]
        before, self._last = self._last, find_echo(microphone, reply)
        if before is None or self._last is None:
            return None
        return self._last if abs(before.delay_ms - self._last.delay_ms) < _AGREE_MS else None
