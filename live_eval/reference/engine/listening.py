"""Process the user's audio and find where the user's speech starts and ends."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from live_eval.audio import Codec
from live_eval.reference.engine.conversation_items import Item, Part, Role, sample_bytes
from live_eval.reference.engine.endpointer import (
    Detection,
    Endpointer,
    SpeechChange,
    SpeechChangeKind,
)
from live_eval.reference.engine.events import (
    DetectSpeech,
    Problem,
    RecogniseSpeech,
    UserSpeechStarted,
    UserSpeechStopped,
    VoiceEnd,
)
from live_eval.reference.engine.signals import find_mark
from live_eval.reference.engine.signals import sounds as audible

__all__ = ["Heard", "Listening", "SpeechCommitted"]

_MIN_COMMIT_MS = 100
"""Minimum audio for a commit; OpenAI's limit."""

_MAX_UTTERANCE_MS = 600_000
"""Maximum audio per turn."""

_ONSET_NOTICED_MS = 500
# Three 20 ms frames; the network may cause shorter gaps.
_PAUSE_NS = 60_000_000


@dataclass(frozen=True, slots=True)
class SpeechCommitted:
    """The user's turn ended and its speech became an item.

    Args:
        item: The speech as received, including prefix padding and final silence.
        speech_ms: End of the speech on the session's input timeline.
        voice_end: Arrival time and detection method of this end.
        detected: Whether the endpointer, rather than the client, ended the turn.
    """

    item: Item
    speech_ms: int
    voice_end: VoiceEnd
    detected: bool


Heard: TypeAlias = (
    DetectSpeech | RecogniseSpeech | Problem | UserSpeechStarted | UserSpeechStopped | SpeechCommitted
)


@dataclass(frozen=True, slots=True)
class _Utterance:
    item_id: str
    begin: int


class _InputBuffer:
    """Store the user's audio and its arrival times on a common sample axis.

    `origin_ms` is the duration of the session's earlier audio, which had a different encoding.
    """

    def __init__(self, codec: Codec, origin_ms: int = 0) -> None:
        self.codec = codec
        self.begin = self.end = 0  # indices of the oldest sample and past the newest sample
        self._width = sample_bytes(codec)
        self._origin_ms = origin_ms
        self._data = bytearray()
        self._arrivals: deque[tuple[int, int]] = deque()

    def append(self, data: bytes, at_ns: int) -> None:
        self._data += data
        self.end += len(data) // self._width
        self._arrivals.append((self.end, at_ns))

    def slice(self, begin: int, end: int) -> bytes:
        first, last = max(begin, self.begin) - self.begin, min(end, self.end) - self.begin
        return bytes(self._data[first * self._width : last * self._width])

    def forget(self, before: int) -> None:
        drop = min(before, self.end) - self.begin
        if drop <= 0:
            return
        del self._data[: drop * self._width]
        self.begin += drop
        while self._arrivals and self._arrivals[0][0] <= self.begin:
            self._arrivals.popleft()

    def arrival_ns(self, sample: int) -> int | None:
        """Return a sample's arrival time, or None if it was dropped or has not arrived."""
        if not self.begin <= sample < self.end:
            return None
        return self._arrivals[bisect_right(self._arrivals, sample, key=lambda entry: entry[0])][1]

    def ms(self, sample: int) -> int:
        """Return a sample's position on the session's input timeline, in milliseconds."""
        return self._origin_ms + sample * 1000 // self.codec.rate_hz

    def sample(self, ms: int) -> int:
        """Return the index of the sample at `ms` on the session's input timeline."""
        return (ms - self._origin_ms) * self.codec.rate_hz // 1000


class Listening:
    """Process a session's input audio until it becomes part of an item.

    Args:
        codec: Encoding of the audio.
        detection: Turn detection; None if the client commits turns.
        calibrate: Whether to treat any non-zero sample as speech and a marked sample as its end. If `lossy`,
            any audible packet is speech, and speech ends with the last packet before a silent one.
        guesses: Whether to start recognition at a pause, before the turn has ended.
        session_id: Session ID, included in item IDs.
        lossy: Whether the audio was decoded from a lossy codec, packet by packet.
        end_silence_ms: Silence that ends the user's turn; None to use the mark, a silent packet or the
            silence set in `detection`. Without an endpointer, `expire` applies this silence.
    """

    def __init__(
        self,
        codec: Codec,
        detection: Detection | None,
        *,
        calibrate: bool,
        guesses: bool,
        session_id: str,
        lossy: bool = False,
        end_silence_ms: int | None = None,
    ) -> None:
        self._calibrate = calibrate
        self._lossy = lossy
        self._guesses = guesses
        self._session_id = session_id
        self._named = 0
        self._buffer = _InputBuffer(codec)
        self._end_silence_ms = end_silence_ms
        self._detection = self._with_end_silence(detection)
        self._epoch = 0
        self._sounded_ns = 0
        self._known_end: VoiceEnd | None = None
        self._restart()

    @property
    def hears_speech(self) -> bool:
        """Whether user speech is being detected."""
        return self._utterance is not None

    @property
    def expires_ns(self) -> int | None:
        """When to call `expire` next, unless speech arrives earlier; None if silence is not measured."""
        if not self._calibrate or self._end_silence_ms is None or self._utterance is None:
            return None
        return self._sounded_ns + self._end_silence_ms * 1_000_000

    def pauses(self, at_ns: int) -> bool:
        """Return whether the user is silent or pausing."""
        if self._utterance is None:
            return True
        if not self._calibrate and self._detector is not None:
            return self._detector.silent
        return at_ns - self._sounded_ns > _PAUSE_NS

    def expire(self, at_ns: int) -> list[Heard]:
        """End the user's turn if the silence has lasted long enough."""
        expires_ns, utterance = self.expires_ns, self._utterance
        if expires_ns is None or expires_ns > at_ns or utterance is None:
            return []
        voice_end, self._known_end = self._known_end or VoiceEnd(self._sounded_ns, "silence"), None
        end = self._buffer.end
        return self._stopped(utterance, end, end, voice_end)

    def configure(self, codec: Codec, detection: Detection | None) -> None:
        """Change the encoding, which drops uncommitted audio, or the detection, which resets its state."""
        detection = self._with_end_silence(detection)
        if codec == self._buffer.codec and detection == self._detection:
            return
        if codec != self._buffer.codec:
            self._buffer = _InputBuffer(codec, self._buffer.ms(self._buffer.end))
        self._detection = detection
        self._restart()

    def audio(self, data: bytes, at_ns: int) -> list[Heard]:
        """Process whole samples of the user's audio."""
        buffer = self._buffer
        begin = buffer.end
        if buffer.ms(begin) - buffer.ms(buffer.begin) > _MAX_UTTERANCE_MS:
            message = (
                f"expected a commit or a clear within {_MAX_UTTERANCE_MS // 1000} s of audio; "
                "the audio appended now is dropped"
            )
            return [Problem("input_audio_buffer_full", message)]
        buffer.append(data, at_ns)
        if self._calibrate:
            calibrated = self._lossy_audio if self._lossy else self._marked_audio
            return calibrated(data, begin, at_ns)
        if self._detector is None:
            return []
        return [DetectSpeech(self._epoch, data, buffer.codec)]

    def heard(self, epoch: int, probabilities: Sequence[float], at_ns: int) -> list[Heard]:
        """Process the voice detector's results for the next windows of the stream `epoch`."""
        if epoch != self._epoch or self._detector is None:
            return []
        out: list[Heard] = []
        for probability in probabilities:
            change = self._detector.feed(probability)
            if change is not None:
                out += self._speech_change(change, at_ns)
        if self._utterance is None:
            self._forget(self._buffer.sample(self._origin_ms + self._detector.heard_ms))
        return out

    def commit(self, at_ns: int) -> SpeechCommitted | Problem:
        """End the user's turn at the client's request."""
        buffer = self._buffer
        begin = self._utterance.begin if self._utterance is not None else buffer.begin
        length_ms = buffer.ms(buffer.end) - buffer.ms(begin)
        if length_ms < _MIN_COMMIT_MS:
            return Problem(
                "input_audio_buffer_commit_empty",
                f"Error committing input audio buffer: buffer too small. Expected at least "
                f"{_MIN_COMMIT_MS}ms of audio, but buffer only has {length_ms}ms of audio.",
            )
        known_end, self._known_end = self._known_end, None
        voice_end = known_end or VoiceEnd(at_ns, "commit")
        turn = self._take(begin, buffer.end, buffer.end, voice_end, detected=False)
        self._restart()
        return turn

    def clear(self) -> None:
        """Drop uncommitted audio."""
        self._buffer.forget(self._buffer.end)
        self._known_end = None
        self._restart()

    def _with_end_silence(self, detection: Detection | None) -> Detection | None:
        if detection is None or self._end_silence_ms is None:
            return detection
        return replace(detection, silence_ms=self._end_silence_ms)

    def _restart(self) -> None:
        self._epoch += 1
        self._utterance: _Utterance | None = None
        self._detector = Endpointer(self._detection) if self._detection is not None else None
        self._origin_ms = self._buffer.ms(self._buffer.end)

    def _marked_audio(self, data: bytes, begin: int, at_ns: int) -> list[Heard]:
        mark, sounds = find_mark(data), data.count(0) != len(data)
        if mark is not None:
            self._known_end = VoiceEnd(at_ns, "mark")
        if self._detector is None:
            return []
        buffer = self._buffer
        out: list[Heard] = []
        if sounds:
            self._sounded_ns = at_ns
            if mark is None:
                self._known_end = None
        if self._utterance is None and sounds:
            out.append(self._started(begin, at_ns))
        if self._utterance is None:
            self._forget(buffer.end)
        elif mark is not None and self._end_silence_ms is None:
            self._known_end = None
            out += self._stopped(self._utterance, buffer.end, buffer.end, VoiceEnd(at_ns, "mark"))
        return out

    def _lossy_audio(self, data: bytes, begin: int, at_ns: int) -> list[Heard]:
        buffer = self._buffer
        loud = audible(np.frombuffer(data, "<i2"), buffer.codec.rate_hz)
        if loud:
            self._known_end, self._sounded_ns = VoiceEnd(at_ns, "energy"), at_ns
        if self._detector is None:
            return []
        if loud:
            return [self._started(begin, at_ns)] if self._utterance is None else []
        if self._utterance is None or self._known_end is None:
            self._forget(buffer.end)
            return []
        if self._end_silence_ms is not None:
            return []
        voice_end, self._known_end = self._known_end, None
        return self._stopped(self._utterance, begin, buffer.end, voice_end)

    def _speech_change(self, change: SpeechChange, at_ns: int) -> list[Heard]:
        buffer, utterance = self._buffer, self._utterance
        speech = buffer.sample(self._origin_ms + change.speech_ms)
        if change.kind is SpeechChangeKind.STARTED:
            arrived_ns = buffer.arrival_ns(speech)
            return [self._started(speech, at_ns if arrived_ns is None else arrived_ns)]
        if utterance is None:
            return []
        if change.kind is SpeechChangeKind.PAUSED:
            data = buffer.slice(utterance.begin, speech)
            guess = RecogniseSpeech(utterance.item_id, 0, buffer.ms(speech), data, buffer.codec, final=False)
            return [guess] if self._guesses else []
        arrived_ns = buffer.arrival_ns(speech - 1)
        voice_end = VoiceEnd(at_ns if arrived_ns is None else arrived_ns, "detector")
        heard = buffer.sample(self._origin_ms + change.heard_ms)
        return self._stopped(utterance, speech, heard, voice_end)

    def _started(self, onset: int, onset_ns: int) -> UserSpeechStarted:
        begin = max(onset - self._padding(), self._buffer.begin)
        self._named += 1
        self._utterance = _Utterance(f"item_{self._session_id[-12:]}u{self._named:03d}", begin)
        return UserSpeechStarted(self._utterance.item_id, self._buffer.ms(begin), onset_ns)

    def _stopped(self, utterance: _Utterance, speech: int, heard: int, voice_end: VoiceEnd) -> list[Heard]:
        stopped = UserSpeechStopped(utterance.item_id, self._buffer.ms(heard))
        return [stopped, self._take(utterance.begin, heard, speech, voice_end, detected=True)]

    def _take(
        self, begin: int, end: int, speech: int, voice_end: VoiceEnd, *, detected: bool
    ) -> SpeechCommitted:
        buffer = self._buffer
        if self._utterance is None:
            self._started(begin, voice_end.at_ns)
        assert self._utterance is not None
        item_id, self._utterance = self._utterance.item_id, None
        item = Item(item_id, Role.USER, [Part.speech(buffer.slice(begin, end), buffer.codec)])
        buffer.forget(end)
        return SpeechCommitted(item, buffer.ms(speech), voice_end, detected)

    def _forget(self, heard: int) -> None:
        """Drop audio that no turn needs while the user is silent, except for the latest, since onsets are
        detected late.
        """
        kept = self._padding() + _ONSET_NOTICED_MS * self._buffer.codec.rate_hz // 1000
        self._buffer.forget(heard - kept)

    def _padding(self) -> int:
        detection = self._detection
        return 0 if detection is None else detection.prefix_padding_ms * self._buffer.codec.rate_hz // 1000
