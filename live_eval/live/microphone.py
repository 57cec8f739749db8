"""Process the user's microphone audio: muting, level and recent blocks. Pure."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from live_eval.live.audible_voice import AudibleVoice
from live_eval.live.voice_bands import WINDOW_NS, voice_bands
from live_eval.session.live_speaker import Live

__all__ = ["Microphone", "decibels"]

_KEPT_NS = 4_000_000_000
_SECOND_NS = 1_000_000_000


def decibels(peak: float) -> float:
    """Return the level of a peak int16 sample in dBFS, at least -90."""
    return max(-90.0, 20 * float(np.log10(max(peak, 1.0) / 32768)))


class Microphone:
    """Pass a device's blocks to the session's speaker.

    Args:
        device_hz: Nominal sample rate of the device.
        rate_hz: Sample rate that the endpoint expects.
        delay_ns: See `Live`.
    """

    def __init__(
        self, device_hz: int, *, rate_hz: int, frame_ns: int, delay_ns: int, half_duplex: bool
    ) -> None:
        self.muted = False
        """Whether the user has muted the microphone."""
        self.half_duplex = half_duplex
        """Whether the microphone is muted while a reply plays."""
        self.is_open = True
        """Whether the last block was passed on unmuted."""
        self.device_hz = device_hz
        """Nominal rate of the device."""
        self._voice = AudibleVoice()
        self._rate_hz = rate_hz
        self._frame_ns = frame_ns
        self._delay_ns = delay_ns
        self._live: Live | None = None
        self._underruns = self._overruns = 0
        self._peak = 0
        self._tail = np.empty(0, np.int16)  # of the measured audio, at `_tail_hz`
        self._tail_hz = device_hz
        self._recent: deque[tuple[int, NDArray[np.int16]]] = deque()

    def new_speaker(self) -> Live:
        """Return the speaker of a new session."""
        self.end_speaker()
        self._live = Live(
            device_hz=self.device_hz,
            rate_hz=self._rate_hz,
            frame_ns=self._frame_ns,
            delay_ns=self._delay_ns,
        )
        return self._live

    def end_speaker(self) -> None:
        """Drop the speaker of a session that has ended, which reads no more; its losses stay counted."""
        self._underruns, self._overruns = self.underruns, self.overruns
        self._live = None

    def push(self, pcm: NDArray[np.int16], at_ns: int, *, reply_plays: bool) -> None:
        """Accept a block that arrived at `at_ns`: int16 mono, shape (samples,), at the device's rate."""
        self._recent.append((at_ns, pcm))
        while self._recent[0][0] < at_ns - _KEPT_NS:
            self._recent.popleft()
        self.is_open = not (self.muted or (self.half_duplex and reply_plays))
        self.measure(pcm, self.device_hz)
        if self._live is not None:
            self._live.push(pcm if self.is_open else np.zeros_like(pcm), at_ns)

    def measure(self, pcm: NDArray[np.int16], rate_hz: int) -> None:
        """Accept audio at `rate_hz` only for measuring its level."""
        self._voice.push(pcm if self.is_open else np.zeros_like(pcm), rate_hz)
        self._peak = max(self._peak, int(np.abs(pcm.astype(np.int32)).max(initial=0)))
        self._tail = np.concatenate((self._tail, pcm))[-rate_hz * WINDOW_NS // _SECOND_NS :]
        self._tail_hz = rate_hz

    def end_utterance(self) -> None:
        """End the utterance in progress."""
        if self._live is not None:
            self._live.end_utterance()

    @property
    def audible(self) -> bool:
        """Whether the user's voice is audible to the endpoint."""
        return self._voice.audible

    def level(self) -> float:
        """Return the peak level since the last call, in dBFS."""
        peak, self._peak = self._peak, 0
        return decibels(peak)

    def bands(self) -> tuple[float, ...]:
        """Return the spectrum of the latest audio; see `voice_bands`."""
        return voice_bands(self._tail, self._tail_hz)

    @property
    def underruns(self) -> int:
        """Number of frames that were not available in time, over all sessions."""
        return self._underruns + (self._live.stats.underruns if self._live is not None else 0)

    @property
    def overruns(self) -> int:
        """Number of times that samples were dropped because a session was not reading."""
        return self._overruns + (self._live.stats.overruns if self._live is not None else 0)

    def recent(self) -> list[tuple[int, NDArray[np.int16]]]:
        """Return the blocks of the last seconds, muted or not, with their arrival times."""
        return list(self._recent)
