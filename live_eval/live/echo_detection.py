"""Detect an echo of the reply in the microphone by correlation. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import soxr
from numpy.typing import NDArray

__all__ = ["LONGEST_NS", "RATE_HZ", "WINDOW_NS", "Echo", "EchoDetector", "find_echo"]

RATE_HZ = 8_000
"""Rate at which both sides are compared."""
WINDOW_NS = 2_000_000_000
"""Length of the microphone's audio that is searched."""
LONGEST_NS = 1_000_000_000
"""Longest delay of an echo that is found."""

_SECOND_NS = 1_000_000_000
_LOUD = 100.0  # RMS of int16 samples below which a reply leaves no echo worth finding
_HEARD = 20.0  # RMS below which the microphone hears nothing that could interrupt a reply
_LEAST_CORRELATION = 0.1  # below, the peak is chance: another voice, or a word cut by the window
_LEAST_PEAK = 10.0  # of the whitened correlation, in its standard deviations
_AGREE_NS = 40_000_000  # delays of two windows that belong to one echo


@dataclass(frozen=True, slots=True)
class Echo:
    """An echo of the reply in the microphone.

    Args:
        delay_ns: From the reply, as heard without device delay, to the microphone's audio.
        correlation: Correlation of both at that delay, 0 to 1.
    """

    delay_ns: int
    correlation: float


def find_echo(microphone: NDArray[np.float32], reply: NDArray[np.float32]) -> Echo | None:
    """Return the echo of a reply, or None.

    The correlation is whitened (GCC-PHAT: Knapp and Carter 1976), so that the peak stays sharp in rooms and
    with narrow-band loudspeakers.

    Args:
        microphone: Its last audio, shape (samples,), at `RATE_HZ`.
        reply: The reply over the same time and `LONGEST_NS` before it.
    """
    if len(reply) <= len(microphone) or _rms(reply) < _LOUD or _rms(microphone) < _HEARD:
        return None
    size = 1 << (len(reply) + len(microphone) - 1).bit_length()
    spectrum = np.fft.rfft(microphone, size) * np.conj(np.fft.rfft(reply, size))
    whitened = np.fft.irfft(spectrum / np.maximum(np.abs(spectrum), 1e-9), size)
    # A microphone that is `lag` late follows the reply from `longest - lag` on.
    longest = len(reply) - len(microphone)
    peaks = whitened[-np.arange(longest, -1, -1)][::-1]
    lag = longest - int(np.argmax(peaks))
    if float(peaks.max()) < _LEAST_PEAK * float(whitened.std()):
        return None
    begin = longest - lag
    part = reply[begin : begin + len(microphone)]
    power = float(np.linalg.norm(part)) * float(np.linalg.norm(microphone))
    correlation = abs(float(part @ microphone)) / power if power else 0.0
    return Echo(lag * _SECOND_NS // RATE_HZ, correlation) if correlation >= _LEAST_CORRELATION else None


def _rms(pcm: NDArray[np.float32]) -> float:
    return float(np.sqrt(np.mean(pcm**2))) if len(pcm) else 0.0


class EchoDetector:
    """Detects an echo on which two consecutive windows agree."""

    def __init__(self) -> None:
        self._last: Echo | None = None

    def search(
        self, blocks: Sequence[NDArray[np.int16]], rate_hz: int, reply: NDArray[np.float32]
    ) -> Echo | None:
        """Return an echo once it is certain.

        Args:
            blocks: At least the last `WINDOW_NS` of the microphone, at `rate_hz`.
            rate_hz: Their rate.
            reply: As for `find_echo`.
        """
        pcm = np.concatenate(blocks).astype(np.float32) if blocks else np.zeros(0, np.float32)
        microphone = soxr.resample(pcm, rate_hz, RATE_HZ)[-WINDOW_NS * RATE_HZ // _SECOND_NS :]
        before, self._last = self._last, find_echo(microphone, reply)
        if before is None or self._last is None:
            return None
        return self._last if abs(before.delay_ns - self._last.delay_ns) < _AGREE_NS else None
