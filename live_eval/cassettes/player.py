"""Replay cassettes through a dialect, and check its outputs against the contract and a golden session."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

import orjson

from live_eval.cassettes import Call, Cassette, Closed, Expected, Received, Sent, Step, expected
from live_eval.cassettes._outputs import OF_A_RESPONSE, OUTPUTS, misfit, out_of_place
from live_eval.dialect import (
    Close,
    Dialect,
    EndpointProblem,
    EndpointSettings,
    Message,
    Output,
    QueuedAudio,
    RateLimits,
    Reconnect,
    ReplyAudio,
    ResponseDone,
    ResponseStarted,
    Send,
    SessionReady,
    SetTimer,
    StreamAudio,
    UnknownEvent,
)
from live_eval.types import Secret

__all__ = [
    "ACTIONS",
    "BASE_URL",
    "KEY",
    "ConformanceError",
    "DialectFactory",
    "Player",
    "frame_pcm",
    "play_cassette",
]

ACTIONS = (Send, SetTimer, Close, Reconnect)
_AUDIO = (QueuedAudio, ReplyAudio, StreamAudio)
BASE_URL = "ws://127.0.0.1:9/v1"
KEY = "sk-conformance-0b5e7f6a"
DialectFactory: TypeAlias = Callable[[EndpointSettings], Dialect]

_BEFORE_READY = (EndpointProblem, UnknownEvent, RateLimits)
_FRAME_SAMPLES = 480
_LEAST_AUDIO_BYTES = 16


class ConformanceError(AssertionError):
    """A dialect violates the contract. The message contains the cassette, the step and the rule."""


class Player:
    """Replay steps through a dialect, and check every output against the contract.

    Args:
        reads_log: Whether to check the logged form of each message, which is the slowest check.
    """

    def __init__(
        self,
        factory: DialectFactory,
        cassette: Cassette,
        *,
        reads_log: bool = True,
        frame_samples: int = _FRAME_SAMPLES,
    ) -> None:
        self.cassette = cassette
        self._reads_log = reads_log
        self._frame_samples = frame_samples
        self.step = "before the first step"
        self.repeats = False
        """Whether the outputs were checked in an earlier replay, so that only their order is checked now."""
        self.now_ns = 0
        self.timers: dict[str, int] = {}
        self.outputs: list[Output] = []
        """The dialect's outputs so far."""
        self._ready = False
        self._ended: dict[str, bool] = {}
        self.dialect = factory(cassette.endpoint_settings(BASE_URL, Secret(KEY)))
        signalling = self.dialect.dial().signalling
        self._track = signalling is not None
        self._mute = signalling is not None and signalling.channel is None
        self.opening = self.take(self.dialect.opened(0))
        """The dialect's outputs after the connection opened."""

    def fail(self, rule: str) -> ConformanceError:
        """Return an error with the violated rule and the step."""
        return ConformanceError(f"{self.cassette.name}, {self.step}: {rule}")

    def play(self, number: int, step: Step) -> Sequence[Output]:
        """Replay a step; skip steps that are outputs of the dialect."""
        self.step = f"step {number + 1} ({type(step).__name__})"
        self.now_ns = step.at_ns
        outputs = [output for name in self.due() for output in self.fire(name)]
        match step:
            case Received():
                outputs.extend(self.receive(step.message))
            case Call():
                outputs.extend(self.call(step.name, **step.arguments))
            case Closed():
                outputs.extend(self.close(step.code, step.reason))
        return outputs

    def receive(self, message: Message) -> Sequence[Output]:
        """Deliver a message from the endpoint."""
        try:
            outputs = self.dialect.received(message, self.now_ns)
        except Exception as error:
            raise self.fail(f"received({message[:200]!r}) raised {error!r}") from error
        self._check_log(message, [out.data for out in outputs if isinstance(out, _AUDIO)])
        return self.take(outputs)

    def call(self, method: str, /, **arguments: Any) -> Sequence[Output]:
        """Call a method of the dialect."""
        try:
            if method == "frame":
                return self._frames(arguments.get("count", 1))
            return self.take(getattr(self.dialect, method)(**arguments, at_ns=self.now_ns))
        except ConformanceError:
            raise
        except Exception as error:
            raise self.fail(f"{method}({arguments}) raised {error!r}") from error

    @property
    def responses(self) -> list[str]:
        """The responses that have begun so far."""
        return list(self._ended)

    def close(self, code: int | None, reason: str) -> Sequence[Output]:
        """End the connection."""
        outputs = self.call("closed", code=code, reason=reason)
        for output in outputs:
            if isinstance(output, ACTIONS):
                raise self.fail(f"expected no action after the end of the connection, got {output}")
        return outputs

    def due(self) -> list[str]:
        """Return the timers that are due."""
        return [name for name, at_ns in self.timers.items() if at_ns <= self.now_ns]

    def fire(self, name: str) -> Sequence[Output]:
        """Fire a timer."""
        self.timers.pop(name, None)
        return self.call("timer", name=name)

    def take(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """Check and store outputs; reconnect if the dialect requests a new connection."""
        taken: list[Output] = []
        for output in outputs:
            if not isinstance(output, OUTPUTS):
                raise self.fail(f"expected actions and events of live_eval.dialect, got {output!r}")
            if isinstance(output, Send):
                if not isinstance(output.message, str | bytes):
                    raise self.fail(f"expected Send with str or bytes, got {output!r}")
                if self._mute:
                    raise self.fail(f"the dialect sent {output}, although its signalling opens no channel")
                self._check_log(output.message, [])
            elif isinstance(output, SetTimer):
                self._check_timer(output)
            elif not isinstance(output, ACTIONS):
                self._check_event(output)
            self.outputs.append(output)
            taken.append(output)
            if isinstance(output, Reconnect):
                self.dialect.dial()
                taken.extend(self.take(self.dialect.opened(self.now_ns)))
        return taken

    def _frames(self, count: int) -> Sequence[Output]:
        """Send frames unless the audio travels on a track."""
        outputs: list[Output] = []
        if self._track:
            return outputs
        for number in range(count):
            outputs.extend(self.dialect.frame(frame_pcm(number, self._frame_samples), self.now_ns))
        return self.take(outputs)

    def _check_timer(self, timer: SetTimer) -> None:
        if timer.at_ns is None:
            self.timers.pop(timer.name, None)
        elif timer.at_ns < self.now_ns:
            raise self.fail(f"timer {timer.name!r} is set in the past")
        else:
            self.timers[timer.name] = timer.at_ns

    def _check_event(self, event: Output) -> None:
        if not self.repeats:
            self._check_form(event)
        if isinstance(event, SessionReady):
            if self._ready:
                raise self.fail("the session became ready twice")
            self._ready = True
        elif not self._ready and not isinstance(event, _BEFORE_READY):
            raise self.fail(f"{event} before SessionReady")
        if isinstance(event, ResponseStarted):
            if event.response_id in self._ended or not event.response_id:
                raise self.fail(f"response {event.response_id!r} began twice or has no ID")
            self._ended[event.response_id] = False
        elif isinstance(event, OF_A_RESPONSE):
            if event.response_id not in self._ended:
                raise self.fail(f"{event} refers to a response that has not begun")
            if isinstance(event, ResponseDone):
                if self._ended[event.response_id]:
                    raise self.fail(f"response {event.response_id!r} ended twice")
                self._ended[event.response_id] = True

    def _check_form(self, event: Output) -> None:
        if KEY in repr(event):
            raise self.fail(f"{type(event).__name__} contains the key")
        continuous = self.dialect.continuous_media
        wrong = misfit(event) or out_of_place(event, continuous=continuous, track=self._track)
        if wrong is not None:
            raise self.fail(wrong)

    def _check_log(self, message: Message, audio: Sequence[bytes]) -> None:
        if not self._reads_log:
            return
        try:
            body = self.dialect.redact(message)
            logged = json.dumps(body, allow_nan=False)
            orjson.dumps(body)
        except Exception as error:
            raise self.fail(f"redact({message[:200]!r}) cannot be logged as JSON: {error!r}") from error
        if KEY in logged:
            raise self.fail("redact leaves the key in the log")
        for data in audio:
            text = base64.b64encode(data).decode()[:-4]
            stray = isinstance(message, str) and message.count(text) > 1  # fuzzing repeats frames
            if len(data) >= _LEAST_AUDIO_BYTES and text in logged and not stray:
                raise self.fail("redact leaves audio in the log")


@cache
def frame_pcm(number: int, samples: int = _FRAME_SAMPLES) -> bytes:
    """Return a frame that contains all byte values."""
    return bytes((number + index) * 7 % 256 for index in range(2 * samples))


def play_cassette(factory: DialectFactory, cassette: Cassette, *, frame_samples: int = 480) -> list[Output]:
    """Replay a cassette through a dialect and return the dialect's outputs.

    Raises:
        ConformanceError: The dialect's outputs differ from the cassette, or violate the contract.
    """
    player = Player(factory, cassette, frame_samples=frame_samples)
    checks_sent = any(isinstance(step, Sent) for step in cassette.steps)
    checks_events = any(isinstance(step, Expected) for step in cassette.steps)
    sends = [output.message for output in player.opening if isinstance(output, Send)]
    events = [output for output in player.opening if not isinstance(output, ACTIONS)]

    def none_left() -> None:
        if checks_sent and sends:
            raise player.fail(f"the dialect sent a message that is not in the cassette: {sends[0]!r}")
        if checks_events and events:
            raise player.fail(f"the dialect reported an event that is not in the cassette: {events[0]!r}")

    for number, step in enumerate(cassette.steps):
        if isinstance(step, Sent):
            player.step = f"step {number + 1} (Sent)"
            if not sends or _value(sends[0]) != _value(step.message):
                raise player.fail(f"expected the message {step.message!r}, got {sends[:1]}")
            sends.pop(0)
        elif isinstance(step, Expected):
            player.step = f"step {number + 1} (Expected)"
            if not events or not _matches(events[0], step):
                raise player.fail(f"expected {step.name} {dict(step.fields)}, got {events[:1]}")
            events.pop(0)
        else:
            none_left()
            outputs = player.play(number, step)
            framing = isinstance(step, Call) and step.name == "frame"
            if not framing:
                sends = [output.message for output in outputs if isinstance(output, Send)]
            events = [output for output in outputs if not isinstance(output, ACTIONS)]
    none_left()
    return player.outputs


def _value(message: Message) -> object:
    """Return a message in comparable form: JSON is parsed."""
    try:
        return orjson.loads(message)
    except orjson.JSONDecodeError:
        return message


def _matches(event: Output, wanted: Expected) -> bool:
    if isinstance(event, ACTIONS):
        return False
    step = expected(wanted.at_ns, event)
    return step.name == wanted.name and wanted.fields.items() <= step.fields.items()
