"""Detect an echo of the reply in the microphone audio by correlation. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import soxr
from numpy.typing import NDArray

from live_eval.live.updates import EchoDetected

__all__ = ["LONGEST_NS", "RATE_HZ", "WINDOW_NS", "EchoDetector", "find_echo", "is_echo"]

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
_SURE_CORRELATION = 0.3  # of an utterance that needs no second window
_AGREE_MS = 25.0  # maximum delay difference between windows with the same echo
_AGREE = 3  # number of windows that must agree
_CONFIRM_NS = 30_000_000_000  # maximum time between the first and the last of them
_BLOCK = RATE_HZ // 10
# A block below this share of the expected level has no echo; an echo has at most this share of such blocks.
_MISSING = 0.25


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
    if correlation < _LEAST_CORRELATION or not _follows(microphone, part):
        return None
    return EchoDetected(1e3 * lag / RATE_HZ, correlation)


def is_echo(utterance: NDArray[np.int16], rate_hz: int, heard: NDArray[np.float32]) -> bool:
    """Return whether an utterance consists of an echo of a reply.

    Args:
        utterance: The last part of the utterance, int16 mono, shape (samples,), at `rate_hz`.
        heard: Reply audio, at `RATE_HZ`, from `LONGEST_NS` before that part to its end.
    """
    samples = len(heard) - LONGEST_NS * RATE_HZ // _SECOND_NS
    microphone = soxr.resample(utterance.astype(np.float32), rate_hz, RATE_HZ)[: max(0, samples)]
    echo = find_echo(microphone, heard)
    return echo is not None and echo.correlation >= _SURE_CORRELATION


def _follows(microphone: NDArray[np.float32], part: NDArray[np.float32]) -> bool:
    """Return whether the microphone is loud enough for an echo wherever the reply is loud.

    A user who speaks at the same time with a similar voice (for example a file of synthetic speech) may
    correlate with the reply, but pauses at other times.
    """
    gain = abs(float(part @ microphone)) / float(part @ part)
    blocks = len(part) // _BLOCK
    replied, heard = (
        np.sqrt(np.mean(each[: blocks * _BLOCK].reshape(blocks, _BLOCK) ** 2, axis=1))
        for each in (part, microphone)
    )
    loud = replied >= _LOUD
    missing = heard[loud] < _MISSING * gain * replied[loud]
    return bool(missing.mean() <= _MISSING) if len(missing) else False


def _rms(pcm: NDArray[np.float32]) -> float:
    return float(np.sqrt(np.mean(pcm**2))) if len(pcm) else 0.0


class EchoDetector:
    """Detect an echo that is confirmed by three windows without common audio.

    With two, similar voices without an echo cause false alarms; a third delays the detection by 2 to 3 s.
    """

    def __init__(self) -> None:
        self._found: list[tuple[int, EchoDetected]] = []

    def search(
        self, blocks: Sequence[NDArray[np.int16]], rate_hz: int, reply: NDArray[np.float32], at_ns: int
    ) -> EchoDetected | None:
        """Return an echo once it is confirmed, otherwise None.

        Args:
            blocks: At least the last `WINDOW_NS` of microphone audio, at `rate_hz`.
            reply: See `find_echo`.
            at_ns: The time of the search.
        """
        pcm = np.concatenate(blocks).astype(np.float32) if blocks else np.zeros(0, np.float32)
        microphone = soxr.resample(pcm, rate_hz, RATE_HZ)[-WINDOW_NS * RATE_HZ // _SECOND_NS :]
        echo = find_echo(microphone, reply)
        if echo is None:
            return None
        self._found = [each for each in self._found if at_ns - each[0] <= _CONFIRM_NS]
        agreeing, next_ns = 1, at_ns
        for before_ns, before in reversed(self._found):
            if next_ns - before_ns >= WINDOW_NS and abs(before.delay_ms - echo.delay_ms) < _AGREE_MS:
                agreeing, next_ns = agreeing + 1, before_ns
        self._found.append((at_ns, echo))
        return echo if agreeing >= _AGREE else None
