"""Recorded sessions again: the cassette's messages through the same dialect, with their times, no network.

What comes out is held against what the run kept: the responses with every mark, the transcripts, the failure,
the latencies. They are equal to the nanosecond unless the dialect, the turn's state or the definitions of the
latencies have changed since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from live_eval.capture import TurnCapture, finish
from live_eval.cassettes import Call, Cassette, Closed, Packet, Received, Sent, Step, Turn, read_cassette
from live_eval.dialect import Close, Dialect, Output, Reconnect, Send, SetTimer
from live_eval.errors import FailureKind, StoreError
from live_eval.registry import client, load
from live_eval.store import WIRE_FOLDER, RunReader, StoredTurn
from live_eval.timeline import ResponseMarks
from live_eval.turn import TurnLimits, TurnState
from live_eval.types import Failure, Secret, TurnMode

__all__ = ["Replayed", "replay_run"]

_NOWHERE = "ws://127.0.0.1"
_ACTIONS = (Send, SetTimer, Close, Reconnect)
_MARKS = tuple(field.name for field in fields(ResponseMarks))


@dataclass(frozen=True, slots=True)
class Replayed:
    """One cassette, replayed.

    Args:
        turn_id: The turn.
        attempt: Which attempt it was.
        events: Events that the dialect told.
        differences: What is not as it was stored, one sentence each; None where the run kept another
            attempt of the turn, or none.
    """

    turn_id: str
    attempt: int
    events: int
    differences: tuple[str, ...] | None


def replay_run(folder: Path, turn_id: str | None = None) -> Iterator[Replayed]:
    """Replay the cassettes of a run.

    Args:
        folder: The run.
        turn_id: This turn alone.

    Yields:
        Each cassette's outcome, in the order of their names.

    Raises:
        StoreError: The run holds no cassettes, or none of that turn.
        DataError: A cassette cannot be read.
    """
    found = 0
    with RunReader.open(folder) as run:
        for path in sorted((folder / WIRE_FOLDER).glob("*.jsonl")):
            cassette = read_cassette(path)
            if turn_id in (None, cassette.recorded["turn_id"]):
                found += 1
                yield _replay(cassette, run)
    if not found:
        of = f" of turn {turn_id!r}" if turn_id is not None else ""
        raise StoreError(f"{folder}: no cassettes{of}; a run keeps them with --record-wire")


def _replay(cassette: Cassette, run: RunReader) -> Replayed:
    name, attempt = str(cassette.recorded["turn_id"]), int(cassette.recorded["attempt"])
    player = _Player(cassette)
    player.play()
    stored = run.turn(name) if name in run else None
    if stored is None or stored.attempt != attempt:
        return Replayed(name, attempt, player.events, None)
    return Replayed(
        name, attempt, player.events, (*player.differences, *_compare(player.state, stored, cassette))
    )


class _Player:
    """Plays a cassette to a dialect, and what the dialect tells to a turn's state."""

    def __init__(self, cassette: Cassette) -> None:
        recorded = cassette.recorded
        settings = cassette.endpoint_settings(_NOWHERE, Secret("***"))
        self._cassette = cassette
        self._dialect: Dialect = load(client(str(recorded["endpoint"])).dialect)(settings)
        self.state = TurnState(
            TurnLimits(**recorded["limits"]),
            settings.modality,
            transcribes=settings.transcription_model is not None,
            track=self._dialect.dial().signalling is not None,
            continuous=self._dialect.continuous_media,
        )
        self.events = 0
        self.differences: list[str] = []
        self._sends: list[Any] = []
        self._leaving = False

    def play(self) -> None:
        """Play all of it."""
        origin_ns = int(self._cassette.recorded["origin_ns"])
        for step in self._cassette.steps:
            match _moved(step, origin_ns):
                case Received(at_ns=at_ns, message=message):
                    self._take(self._dialect.received(message, at_ns), at_ns)
                case Sent(message=message):
                    self._sent(message)
                case Packet(packet=packet):
                    self.state.on_packet(packet)
                case Closed(at_ns=at_ns, code=code, reason=reason):
                    self._take(self._dialect.closed(code, reason, at_ns), at_ns)
                    said = f"the endpoint closed the connection: code {code}, reason {reason!r}"
                    self.state.closed(said, at_ns)
                case Call() as call:
                    self._call(call)
                case Turn() as word:
                    self._tell(word)

    def _call(self, step: Call) -> None:
        self._leaving = self._leaving or step.name == "finish"
        outputs = getattr(self._dialect, step.name)(**step.arguments, at_ns=step.at_ns)
        framing = step.name == "frame"  # its messages are not in the cassette
        self._take([output for output in outputs if not (framing and isinstance(output, Send))], step.at_ns)

    def _tell(self, step: Turn) -> None:
        match step.name:
            case "user_speaks":
                self.state.user_speaks(**step.arguments)
            case "user_done":
                self.state.user_done(step.at_ns)
            case "over":
                self.state.over(step.at_ns)
            case "failed":
                kind, message = FailureKind(step.arguments["kind"]), step.arguments["message"]
                self.state.fail(kind, message, step.at_ns)

    def _take(self, outputs: Iterable[Output], at_ns: int) -> None:
        for output in outputs:
            if isinstance(output, Send):
                self._sends.append(output.message)
            elif not isinstance(output, _ACTIONS) and not self._leaving:
                self.events += 1
                self.state.on_event(output, at_ns)

    def _sent(self, message: str | bytes) -> None:
        """Hold what was sent against what the dialect sends now."""
        if message in self._sends:
            self._sends.remove(message)
        else:
            self.differences.append(f"the dialect does not send {message[:200]!r}")


def _moved(step: Step, by_ns: int) -> Step:
    """Return a step at the time at which it happened: a cassette counts from its beginning."""
    if isinstance(step, Packet):
        return Packet(replace(step.packet, at_ns=step.at_ns + by_ns))
    return replace(step, at_ns=step.at_ns + by_ns)


def _compare(state: TurnState, stored: StoredTurn, cassette: Cassette) -> Iterator[str]:
    manual = cassette.settings.get("turn_mode") == TurnMode.MANUAL.value
    trace = replace(
        stored.trace,
        ready_ns=state.ready_ns,
        speech_stopped_ns=tuple(state.speech_stopped_ns),
        committed_ns=state.committed_ns if manual else None,
        responses=(),
    )
    capture = TurnCapture(
        trace=trace,
        responses=state.responses,
        heard_text=state.heard_text,
        session_id=state.session_id,
        model=state.model,
        wall_ns=stored.wall_ns,
        failure=state.failure,
        warnings=tuple(state.warnings),
    )
    record = finish(capture, stored.case, None, repeat=stored.repeat, attempt=stored.attempt)
    odd = (FailureKind.AUDIO_ODD,)  # of the recording, not of the session
    pairs: dict[str, tuple[Any, Any]] = {
        "failure": (_words(record.failure), _words(stored.failure)),
        "warnings": (
            [_words(warning) for warning in capture.warnings],
            [_words(warning) for warning in stored.warnings if warning.kind not in odd],
        ),
        "session_id": (capture.session_id, stored.session_id),
        "model": (capture.model, stored.model),
        "heard_text": (capture.heard_text, stored.heard_text),
        "reply_text": (record.reply_text, stored.reply_text),
        "ready_ns": (trace.ready_ns, stored.trace.ready_ns),
        "speech_stopped_ns": (trace.speech_stopped_ns, stored.trace.speech_stopped_ns),
        "committed_ns": (trace.committed_ns, stored.trace.committed_ns),
        "responses": (len(state.responses), len(stored.responses)),
    }
    for latency in fields(record.timing):
        pairs[latency.name] = (getattr(record.timing, latency.name), getattr(stored.timing, latency.name))
    for what, (now, then) in pairs.items():
        if now != then:
            yield f"{what} is {now!r}, and was {then!r}"
    yield from _compare_responses(record.capture, stored)


def _compare_responses(capture: TurnCapture, stored: StoredTurn) -> Iterator[str]:
    marked = zip(capture.trace.responses, stored.trace.responses, strict=False)
    for (marks, before), now, then in zip(marked, capture.responses, stored.responses, strict=False):
        values: Mapping[str, tuple[Any, Any]] = {
            **{name: (getattr(marks, name), getattr(before, name)) for name in _MARKS},
            "text": (now.text, then.text),
            "reason": (now.reason, then.reason),
        }
        for name, (value, was) in values.items():
            if not np.array_equal(value, was):
                yield f"{name} of response {marks.response_id} is {value!r}, and was {was!r}"


def _words(failure: Failure | None) -> tuple[str, str] | None:
    return None if failure is None else (failure.kind.value, failure.message)
