"""Simulate the telephone network's side of a call: playout queue, marks, DTMF keys and continuous audio."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pybase64

from live_eval.audio import Codec, CodecName
from live_eval.audio.codecs import samples_in
from live_eval.audio.pcm import encode
from live_eval.clients.toolkit._dialect import EventDialect, send_json
from live_eval.clients.toolkit._messages import Fields, MalformedError
from live_eval.clients.toolkit._settings import check_extra, refuse_settings, websocket_url, with_digits
from live_eval.dialect import (
    Close,
    Dial,
    EndpointProblem,
    EndpointSettings,
    Output,
    QueuedAudio,
    Send,
    SetTimer,
    StreamInterrupted,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.playout import PlayoutQueue

_MS_NS = 1_000_000
_MARK, _DIGIT = "mark", "digit"
_MOST_MARKS = 10_000
_STILL_PLAYING_NS = 100 * _MS_NS  # tolerated gap between chunks of a real-time sender
_DIGIT_NS, _PAUSE_NS = 250 * _MS_NS, 500 * _MS_NS
_DIGITS = re.compile(r"[0-9*#w]*", re.ASCII)


class PhoneLine(EventDialect):
    """Base class for dialects that replace a telephony provider and call the agent's WebSocket server.

    The line is ready as soon as it is connected, and always carries audio. The agent's audio enters a playout
    queue: `mark` echoes a mark when the audio before it has been played, and `clear` empties the queue. No
    event marks a reply, so replies are detected by their energy, as they are played. A subclass fills
    `handlers` and adds the messages.

    Args:
        settings: The session settings. ``extra`` may contain the `options`: ``from`` and ``to`` (numbers),
            ``parameters`` (the stream's custom parameters) and ``dtmf`` (keys to press after the call starts;
            ``w`` pauses for 0.5 s). The agent determines the model, instructions and voice.

    Raises:
        UsageError: A phone line does not support these settings, or the base URL is not a URL.
    """

    needs_continuous_input = True
    continuous_media = True
    type_field = "event"
    audio_fields = ("payload",)

    codec: ClassVar[Codec] = Codec(CodecName.PCMU, 8_000)
    """The encoding in both directions."""
    options: ClassVar[tuple[str, ...]] = ("dtmf", "from", "parameters", "to")
    stream_field: ClassVar[str]
    """The field that names the stream in each message."""
    number_field: ClassVar[str]
    """The field that numbers our messages."""

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        refuse_settings(
            settings,
            modality="a phone line carries audio only; text output is not supported",
            instructions="the agent sets its own instructions; remove this setting",
            voice="the agent sets its own voice; remove this setting",
            turn_detection="the agent detects turns; remove this setting",
            transcription_model="a phone line carries no transcripts; remove this setting",
            max_output_tokens="a phone line sets no reply length limit; remove this setting",
        )
        self.extra = _checked(settings.extra, self.options)
        self.caller = self.extra.get("from", "+15550100001")  # unassigned numbers
        self.called = self.extra.get("to", "+15550100002")
        self.parameters: Mapping[str, str] = self.extra.get("parameters", {})
        self.call_id = self.stream_id = ""
        self.sent = 0
        """Number of numbered messages that were sent."""
        self.frames = 0
        self._digits = list(self.extra.get("dtmf", ""))
        self._queue = PlayoutQueue()
        self._marks: list[tuple[int, str]] = []
        self._started_ns = 0

    # -- For subclasses ----------------------------------------------------------------------------------

    def begin(self, digest: str) -> None:
        """Set the IDs of the call and the stream; `digest` is 32 hexadecimal digits, unique to the call."""
        raise NotImplementedError

    def hello(self) -> Sequence[Send]:
        """Return the messages that start a stream."""
        raise NotImplementedError

    def media(self, payload: str, at_ms: int) -> Send:
        """Return the message for a frame: base64 audio, and its time since the start of the stream."""
        audio = {"chunk": str(self.frames), "timestamp": str(at_ms), "payload": payload}
        return self.numbered("media", media={"track": "inbound", **audio})

    def dtmf(self, digit: str, at_ms: int) -> Send:
        """Return the message for a key press by the caller."""
        return self.numbered("dtmf", dtmf={"track": "inbound", "digit": digit})

    def marked(self, name: str) -> Send:
        """Return the message that confirms a mark, whose preceding audio has been played."""
        return self.numbered("mark", mark={"name": name})

    def cleared(self, pending: Sequence[str]) -> Sequence[Send]:
        """Return the messages that confirm an emptied queue: by default, echoes of the pending marks."""
        return [self.marked(name) for name in pending]

    def goodbye(self) -> Sequence[Send]:
        """Return the messages that end a stream."""
        return ()

    def numbered(self, name: str, /, **fields: object) -> Send:
        """Return a message with the next sequence number and the stream ID."""
        self.sent += 1
        event = {"event": name, self.number_field: str(self.sent), self.stream_field: self.stream_id}
        return send_json(event | fields)

    def play(self, data: bytes, at_ns: int) -> list[Output]:
        """Add the agent's audio to the queue."""
        self._queue.push(at_ns, samples_in(data, self.codec), self.codec.rate_hz)
        return [QueuedAudio(data, self.codec)]

    def mark(self, name: str, at_ns: int) -> list[Output]:
        """Echo a mark once the audio before it has been played: immediately if the queue is empty."""
        self._marks.append((self._queue.due_ns, name))
        del self._marks[:-_MOST_MARKS]
        return self._played(at_ns)

    def clear(self, at_ns: int) -> list[Output]:
        """Empty the queue and confirm it (`cleared`); report an interruption only if audio was playing."""
        stops = at_ns < self._queue.due_ns + _STILL_PLAYING_NS
        self._queue.drop(at_ns)
        pending = [name for _, name in self._marks]
        self._marks.clear()
        stopped = [StreamInterrupted()] if stops else []
        return [*stopped, *self.cleared(pending), SetTimer(_MARK, None)]

    def check_stream(self, event: Fields) -> None:
        """Raise `MalformedError` for a message to another stream, which a provider would drop."""
        named = event.need_text(self.stream_field)
        if named != self.stream_id:
            raise MalformedError(
                f"expected {self.stream_field} {self.stream_id}, got {named!r}; providers drop the message"
            )

    # -- Handlers of messages in Twilio's form --------------------------------------------------------------

    def on_media(self, event: Fields, at_ns: int) -> list[Output]:
        """Play the agent's audio."""
        self.check_stream(event)
        return self.play(event.child("media").need_bytes("payload"), at_ns)

    def on_mark(self, event: Fields, at_ns: int) -> list[Output]:
        """Echo a mark once the audio before it has been played."""
        self.check_stream(event)
        return self.mark(event.child("mark").need_text("name"), at_ns)

    def on_clear(self, event: Fields, at_ns: int) -> list[Output]:
        """Empty the queue."""
        self.check_stream(event)
        return self.clear(at_ns)

    # -- The contract ------------------------------------------------------------------------------------

    def dial(self) -> Dial:
        """Return the address of the stream, as given."""
        return Dial(websocket_url(self.settings.base_url, "", {}))

    def opened(self, at_ns: int) -> Sequence[Output]:
        """Start the stream: agents send nothing before that, and many wait for the caller to speak."""
        self._started_ns = at_ns
        self.begin(hashlib.md5(str(at_ns).encode(), usedforsecurity=False).hexdigest())
        dtmf = [SetTimer(_DIGIT, at_ns + _DIGIT_NS)] if self._digits else []
        return *self.hello(), *self.become_ready(self.call_id), *dtmf

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        """Send a frame."""
        self.frames += 1
        data = encode(np.frombuffer(pcm, "<i2"), self.codec)
        return (self.media(pybase64.b64encode_as_string(data), self._ms(at_ns)),)

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        """Echo the marks that are due or press the next key."""
        if name == _MARK:
            return self._played(at_ns)
        if name != _DIGIT or not self._digits:
            return ()
        digit = self._digits.pop(0)
        next_ns = at_ns + (_PAUSE_NS if digit == "w" else _DIGIT_NS)
        pressed = [] if digit == "w" else [self.dtmf(digit, self._ms(at_ns))]
        return *pressed, *([SetTimer(_DIGIT, next_ns)] if self._digits else [])

    def finish(self, at_ns: int) -> Sequence[Output]:
        """Hang up."""
        was_open, self.over = self.ready and not self.over, True
        return *(self.goodbye() if was_open else ()), Close()

    def closing(self, code: int | None, reason: str, at_ns: int) -> EndpointProblem:
        """Report that the agent hung up; the session decides whether a reply was due."""
        return EndpointProblem(
            FailureKind.CLOSED, self.closed_text("during the call", code, reason), fatal=False
        )

    def _ms(self, at_ns: int) -> int:
        return max(0, at_ns - self._started_ns) // _MS_NS

    def _played(self, at_ns: int) -> list[Output]:
        """Echo the marks whose audio has been played, and set a timer for the next mark."""
        outputs: list[Output] = []
        while self._marks and self._marks[0][0] <= at_ns:
            outputs.append(self.marked(self._marks.pop(0)[1]))
        if self._marks:
            outputs.append(SetTimer(_MARK, self._marks[0][0]))
        return outputs


def _checked(extra: Mapping[str, Any], options: Sequence[str]) -> Mapping[str, Any]:
    """Return the options of a call; raise `UsageError` for an unknown or invalid one."""
    checked = dict(check_extra(extra, options, ("parameters",)))
    given = checked.get("parameters", {})
    if isinstance(given, Mapping):
        given = checked["parameters"] = with_digits(given)
    if not isinstance(given, Mapping) or not all(isinstance(value, str) for value in given.values()):
        raise UsageError(f"endpoint.extra.parameters: expected an object with text values, got {given!r}")
    if not _DIGITS.fullmatch(checked.get("dtmf", "")):
        raise UsageError(
            f"endpoint.extra.dtmf: expected keys (0-9, *, #) and w for a pause, got {checked['dtmf']!r}"
        )
    return checked
