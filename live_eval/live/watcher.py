"""Report levels, lost samples, and echo of the reply in the microphone at regular intervals. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from live_eval.live.echo_detection import LONGEST_NS, RATE_HZ, WINDOW_NS, EchoDetector
from live_eval.live.microphone import Microphone, decibels
from live_eval.live.reply import HeardAudio
from live_eval.live.updates import EchoDetected, Levels, Xruns
from live_eval.live.voice_bands import voice_bands

__all__ = ["Watcher"]

_LEVELS_NS = 50_000_000
_LEVEL_HZ = 16_000
_SILENT_DBFS = -70.0  # no spectrum is shown below
_ECHO_NS = 1_000_000_000
_REMIND_NS = 60_000_000_000


class Watcher:
    """Watch the microphone and the reply as the user hears it.

    Args:
        spectra: Whether the levels include spectra.
    """

    def __init__(self, microphone: Microphone, *, spectra: bool = False) -> None:
        self.device_xruns = (0, 0)
        """Xruns of the input and output devices so far."""
        self._microphone = microphone
        self._spectra = spectra
        self._echo = EchoDetector()
        self._xruns = Xruns()
        self._levels_ns = self._echo_ns = 0  # when the next report is due
        self._voices = (False, False)  # whether the user and the reply were audible in the last report

    def levels(self, now_ns: int, heard: HeardAudio, *, replying: bool = False) -> Iterator[Levels | Xruns]:
        """Yield the levels every 50 ms and when a voice begins or ends, and the xruns when they change."""
        microphone = self._microphone
        voices = microphone.audible, replying
        if now_ns < self._levels_ns and voices == self._voices:
            return
        self._levels_ns, self._voices = now_ns + _LEVELS_NS, voices
        reply = heard.between(now_ns - _LEVELS_NS, now_ns, _LEVEL_HZ)
        user_peak, peak = microphone.level(), decibels(float(np.abs(reply).max(initial=0.0)))
        yield Levels(
            user_peak,
            peak,
            not microphone.is_open,
            replying,
            microphone.audible,
            microphone.bands() if self._spectra and user_peak > _SILENT_DBFS else (),
            voice_bands(reply.astype(np.int16), _LEVEL_HZ) if self._spectra and peak > _SILENT_DBFS else (),
        )
        xruns = Xruns(*self.device_xruns, microphone.underruns, microphone.overruns)
        if xruns != self._xruns:
            self._xruns = xruns
            yield xruns

    def echo_search(self, now_ns: int, heard: HeardAudio) -> Callable[[], EchoDetected | None] | None:
        """Return the due echo search as a function to call in a thread, or None if no search is due.

        A search is due every second, or a minute after an echo was found.
        """
        if now_ns < self._echo_ns:
            return None
        self._echo_ns = now_ns + _ECHO_NS
        blocks = self._microphone.recent()
        if not blocks or not self._microphone.is_open:
            return None
        end_ns = blocks[-1][0]
        reply = heard.between(end_ns - WINDOW_NS - LONGEST_NS, end_ns, RATE_HZ)
        if not reply.any():
            return None
        pcm = [block for _, block in blocks]

        def search() -> EchoDetected | None:
            echo = self._echo.search(pcm, self._microphone.device_hz, reply, now_ns)
            if echo is not None:
                self._echo_ns = now_ns + _REMIND_NS
            return echo

        return search
