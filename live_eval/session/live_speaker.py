"""Stream audio from a microphone or a browser's track as it arrives. Pure.

Each session frame contains the audio that the device captured a fixed `delay_ns` earlier. As the two clocks
drift apart, single samples are repeated or dropped (five per second at 200 ppm and 24 kHz) where the signal
is flattest. This is cheaper than resampling and keeps the position of every sample known exactly.

An *underrun* occurs if audio arrives too late for its frame: silence is sent first, then the late audio. The
delay grows by the same amount, up to a limit, so that another arrival this late causes no underrun; audio
beyond the limit is dropped in the next pause. An *overrun* occurs if audio is not read within two seconds; it
is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import soxr
from numpy.typing import NDArray

from live_eval.session.device_clock import DeviceClock
from live_eval.session.speaker import Frame, Heard, UtteranceBegan, UtteranceEnded
from live_eval.session.speech_detector import METHOD, VERSION, Span, SpeechDetector
from live_eval.types import SpeechBoundaries

__all__ = ["Live", "LiveStats"]

_SECOND_NS = 1_000_000_000
_KEPT_S = 2
_LATE_NS = 10_000_000  # for larger deviations, shorten pauses instead of slipping samples
_MOST_DELAY_NS = 300_000_000


@dataclass(slots=True)
class LiveStats:
    """A device's sample counts, at the endpoint's rate.

    Args:
        repeated: Number of samples sent twice because the device is slow.
        omitted: Number of samples skipped because the device is fast.
        underruns: Number of frames whose audio arrived too late.
        overruns: Number of times that unread samples were dropped.
        dropped: Number of samples dropped in overruns, in pauses to reduce the delay, and before the first
            frame.
        drift_ppm: Deviation of the device clock from nominal, in parts per million; positive if fast.
    """

    captured: int = 0
    sent: int = 0
    repeated: int = 0
    omitted: int = 0
    underruns: int = 0
    overruns: int = 0
    dropped: int = 0
    drift_ppm: float = 0.0


class Live:
    """A `Speaker` that streams a device's audio.

    Args:
        device_hz: Nominal sample rate of the device.
        rate_hz: Input sample rate of the endpoint.
        delay_ns: Initial delay from a sample's capture to its time in the session: at least the sum of a
            frame, a device block, the block jitter and the resampler's delay. It is not part of the latency.
        detector: Utterance detector; None for one with default settings.
    """

    listens = False

    def __init__(
        self,
        *,
        device_hz: int,
        rate_hz: int,
        frame_ns: int,
        delay_ns: int = 60_000_000,
        detector: SpeechDetector | None = None,
    ) -> None:
        self.frame_ns = frame_ns
        self._rate_hz = rate_hz
        self._device_hz = device_hz
        self._delay_ns = delay_ns
        self._samples = rate_hz * frame_ns // _SECOND_NS
        self.stats = LiveStats()
        """The current sample counts."""
        self._clock = DeviceClock(device_hz)
        self._detector = detector or SpeechDetector(device_hz)
        self._resampler = (
            soxr.ResampleStream(device_hz, rate_hz, 1, dtype="int16") if device_hz != rate_hz else None
        )
        self._ring = np.zeros(_KEPT_S * rate_hz, np.int16)
        self._head = self._tail = 0  # the next sample to send, and the end of the samples that arrived
        self._captured = 0  # number of samples captured by the device
        self._started = self._stopped = False
        self._spans: list[Span] = []
        self._speaking = False  # the state last reported to the session
        self._began_ns = 0

    def push(self, pcm: NDArray[np.int16], at_ns: int) -> None:
        """Add a block from the device. Call on the event loop as soon as the block arrives."""
        self._captured += len(pcm)
        self._clock.observe(self._captured, at_ns)
        self._spans.extend(map(self._at_our_rate, self._detector.push(pcm)))
        if self._resampler is not None:
            pcm = self._resampler.resample_chunk(pcm)
        size = len(self._ring)
        at, room = self._tail % size, size - self._tail % size
        self._ring[at : at + len(pcm)] = pcm[:room]
        self._ring[: max(0, len(pcm) - room)] = pcm[room:]
        self._tail += len(pcm)
        self.stats.captured, self.stats.drift_ppm = self._tail, self._clock.drift_ppm
        if self._tail - self._head > size:
            self.stats.overruns += self._started  # before the first frame, a drop is not an overrun
            self.stats.dropped += self._tail - size - self._head
            self._head = self._tail - size

    def end_utterance(self) -> None:
        """End the utterance in progress, if any, at the audio captured so far."""
        span = self._detector.end()
        if span is not None:
            self._spans.append(self._at_our_rate(span))

    def stop(self) -> None:
        """End the session with the next frame."""
        self._stopped = True

    def hear(self, heard: Heard) -> None:
        """Do nothing, since a person hears the reply."""

    def frame(self, now_ns: int, start_ns: int) -> Frame | None:
        """Return the audio that the device captured `delay_ns` before the frame."""
        if self._stopped:
            return None
        if not self._captured:
            return Frame(bytes(2 * self._samples))
        due = self._clock.sample_at(start_ns - self._delay_ns) * self._rate_hz / self._device_hz
        bound = _LATE_NS * self._rate_hz // _SECOND_NS
        if not self._started:
            self._started, bound = True, 0
            self._skip(round(due))
        ahead = self._head - due
        if ahead < -bound and not self._speaks(self._head, self._head + self._samples - round(ahead)):
            self._skip(round(due))
            ahead = 0.0
        if ahead > bound:  # the audio does not exist yet, for example at the start of the session
            pcm = bytes(2 * min(self._samples, round(ahead)))
            pcm += self._taken(self._samples - len(pcm) // 2, 0)
        else:
            pcm = self._taken(self._samples, -1 if ahead > 0.5 else 1 if ahead < -0.5 else 0)
        began, ended = self._marks(start_ns + self.frame_ns)
        return Frame(pcm, self._speaking or ended is not None, began, ended)

    def _at_our_rate(self, span: Span) -> Span:
        scale = self._rate_hz / self._device_hz
        return Span(round(span.begin * scale), None if span.end is None else round(span.end * scale))

    def _skip(self, to: int) -> None:
        to = max(self._head, min(to, self._tail))
        self.stats.dropped += to - self._head
        self._head = to

    def _taken(self, samples: int, slip: int) -> bytes:
        """Return the next `samples` samples, made from `slip` extra input samples (fewer if negative)."""
        there = self._tail - self._head
        used = min(samples + slip, there)
        pcm = self._ring.take(np.arange(self._head, self._head + used), mode="wrap")
        self._head += used
        self.stats.sent += used
        if there < samples + slip:
            if there < samples:
                self.stats.underruns += 1
                missing_ns = (samples - there) * _SECOND_NS // self._rate_hz
                self._delay_ns = max(self._delay_ns, min(_MOST_DELAY_NS, self._delay_ns + missing_ns))
            return pcm[:samples].tobytes().ljust(2 * samples, b"\0")
        if slip:
            flattest = int(np.argmin(np.abs(np.diff(pcm.astype(np.int32)))))
            if slip > 0:
                pcm = np.delete(pcm, flattest)
                self.stats.omitted += 1
                self.stats.sent -= 1
            else:
                pcm = np.insert(pcm, flattest, pcm[flattest])
                self.stats.repeated += 1
        return pcm.tobytes()

    def _speaks(self, begin: int, end: int) -> bool:
        """Return whether speech was detected between two samples or is in progress."""
        return self._speaking or any(
            span.begin < end and (span.end is None or span.end > begin) for span in self._spans
        )

    def _marks(self, at_ns: int) -> tuple[UtteranceBegan | None, UtteranceEnded | None]:
        """Return the utterances that began and ended, if the next sample is spoken at `at_ns`."""
        if not self._spans:
            return None, None
        span = self._spans[0]
        if span.end is None and not self._speaking:
            if span.begin >= self._head:
                return None, None
            self._spans.pop(0)
            self._speaking = True
            self._began_ns = self._said_ns(span.begin, at_ns)
            return UtteranceBegan(self._began_ns, self._began_ns), None
        if span.end is None or span.end > self._head:
            return None, None
        self._spans.pop(0)
        self._speaking = False
        end_ns = self._said_ns(span.end, at_ns) - self._began_ns
        boundaries = SpeechBoundaries(onset_ns=0, voice_end_ns=end_ns, method=METHOD, version=VERSION)
        return None, UtteranceEnded(boundaries)

    def _said_ns(self, sample: int, at_ns: int) -> int:
        return at_ns + (sample - self._head) * _SECOND_NS // self._rate_hz
