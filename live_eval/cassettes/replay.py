"""Replay recorded sessions offline: pass a cassette's messages to the same dialect at their original times.

The dialect's messages and events are compared with the cassette. Responses with all their timestamps,
transcripts, the failure and the latencies are compared with the stored turn. All times are equal to the
nanosecond unless the code of the dialect or of the turn has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from live_eval.audio.rtp import RtpPacket
from live_eval.cassettes import (
    Call,
    Cassette,
    Closed,
    Expected,
    Received,
    Sent,
    SessionReport,
    expected,
    read_cassette,
)
from live_eval.cassettes._differences import event_differences, failure_differences, short, turn_differences
from live_eval.cassettes.player import ACTIONS, ConformanceError, play_cassette
from live_eval.dialect import Dialect, Message, Output, Reconnect, Send
from live_eval.errors import DataError, FailureKind, StoreError
from live_eval.recording import WIRE_FOLDER, RunReader, TurnRecord, own_file
from live_eval.recording.record import finish
from live_eval.registry import client, load
from live_eval.session.event_loop import describe
from live_eval.session.limits import SessionLimits, connection_closed
from live_eval.session.playout_line import PlayoutLine
from live_eval.session.turn import Turn
from live_eval.session.verdict import is_over
from live_eval.timing import TIMING_VERSION, Latency
from live_eval.types import Case, Secret, SpeechKind, TurnMode, Variant

__all__ = ["Replayed", "replay_file", "replay_run"]

_NOWHERE = "ws://127.0.0.1"
_OF_THE_ENDPOINT = (
    "ready_ns",
    "speech_started_ns",
    "speech_stopped_ns",
    "committed_ns",
    "responses",
    "continuous",
)
_RECORDED = ("turn_id", "attempt", "endpoint", "limits", "origin_ns")


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of replaying one cassette.

    Args:
        kept: Whether the run kept this attempt instead of a later one. Only then are latencies compared.
        events: Number of events that the dialect reported.
        differences: One sentence for each difference.
        latencies_ns: Latencies by name, if the attempt was kept; None for a latency without a value.
    """

    turn_id: str
    attempt: int
    kept: bool
    events: int
    differences: tuple[str, ...]
    latencies_ns: Mapping[str, int | None] = field(default_factory=dict)


def replay_run(folder: Path, turn_id: str | None = None) -> Iterator[Replayed]:
    """Replay the cassettes of a run, or of one of its turns, in the order of their names.

    Raises:
        StoreError: The run has no cassettes, or no cassette of the turn.
        DataError: A cassette cannot be read.
    """
    found = 0
    with RunReader.open(folder) as run:
        for path in sorted((folder / WIRE_FOLDER).glob("*.jsonl")):
            cassette = _checked(path, read_cassette(own_file(folder, path), links=False))
            if turn_id in (None, cassette.recorded["turn_id"]):
                found += 1
                with _replaying(path):
                    outcome = _replay(cassette, run)
                yield outcome
    if not found:
        of = f" of turn {turn_id!r}" if turn_id is not None else ""
        raise StoreError(f"{folder}: no cassettes{of}: record the run with --record-wire")


def replay_file(path: Path, endpoint: str | None = None) -> Replayed:
    """Replay a cassette without its run, and compare messages and events.

    A golden session is replayed with the client `endpoint`; a recording specifies its client.

    Raises:
        DataError: The file is not a cassette, or is a golden session without `endpoint`.
    """
    cassette = read_cassette(path)
    if endpoint is None or cassette.recorded:
        with _replaying(path):
            return _replay(_checked(path, cassette), None)
    spec = client(endpoint)
    samples = spec.input_rate_hz * spec.frame_ms // 1000
    try:
        with _replaying(path):
            outputs = play_cassette(load(spec.dialect), cassette, frame_samples=samples)
    except ConformanceError as error:
        return Replayed(path.stem, 1, False, 0, (str(error),))
    events = [output for output in outputs if not isinstance(output, ACTIONS)]
    return Replayed(path.stem, 1, False, len(events), ())


@contextmanager
def _replaying(path: Path) -> Iterator[None]:
    """Add the cassette's name to errors that invalid steps cause."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise DataError(f"cannot replay {path}: {describe(error)}") from error


def _checked(path: Path, cassette: Cassette) -> Cassette:
    missing = [name for name in _RECORDED if name not in cassette.recorded]
    if missing:
        raise DataError(
            f"{path}, line 1: expected a recorded session, missing {', '.join(missing)}; replay "
            "a golden session with --endpoint"
        )
    return cassette


def _replay(cassette: Cassette, run: RunReader | None) -> Replayed:
    name, attempt = cassette.recorded["turn_id"], cassette.recorded["attempt"]
    player = _Replay(cassette)
    stored = run.turn(name) if run is not None and name in run else None
    if stored is not None:
        player.turn.user.expects_answer = stored.case.speech is SpeechKind.TURN
    player.play()
    differences = list(player.differences())
    kept = stored is not None and stored.attempt == attempt
    latencies: dict[str, int | None] = {}
    if run is None:
        pass
    elif stored is not None and kept:
        if stored.timing_version != TIMING_VERSION:
            stored = run.turn(name, retime=True)
        record = _record(player.turn, cassette, stored)
        differences += turn_differences(record, stored)
        timing = {one.name: getattr(record.timing, one.name) for one in fields(record.timing)}
        latencies = {key: value.ns for key, value in timing.items() if isinstance(value, Latency)}
    else:
        failures = [one for one in run.failures() if (one.turn_id, one.attempt) == (name, attempt)]
        if failures:
            now = _record(player.turn, cassette, None).failure
            differences += failure_differences(now, failures[-1].failure)
    return Replayed(name, attempt, kept, len(player.events), tuple(differences), latencies)


def _record(turn: Turn, cassette: Cassette, stored: TurnRecord | None) -> TurnRecord:
    """Return the turn as it would be stored, with the session's measurements from the stored turn."""
    manual = cassette.settings.get("turn_mode") == TurnMode.MANUAL.value
    capture = turn.captured(manual=manual)
    if stored is not None:
        now = {name: getattr(capture.trace, name) for name in _OF_THE_ENDPOINT}
        capture = replace(capture, trace=replace(stored.trace, **now))
    name = str(cassette.recorded["turn_id"])
    case = (
        stored.case
        if stored is not None
        else Case(case_id=name, script_id=name, variant=Variant.TARGET, audio_path=Path())
    )
    return finish(capture, case, None, repeat=0, attempt=int(cassette.recorded["attempt"]))


class _Replay:
    """Replay a cassette through a dialect, and pass the dialect's events to a turn."""

    def __init__(self, cassette: Cassette) -> None:
        recorded = cassette.recorded
        settings = cassette.endpoint_settings(_NOWHERE, Secret("***"))
        self._cassette = cassette
        self._origin_ns = int(recorded["origin_ns"])
        self._dialect: Dialect = load(client(str(recorded["endpoint"])).dialect)(settings)
        self.turn = Turn(
            SessionLimits(**recorded["limits"]),
            settings.modality,
            transcribes=settings.transcription_model is not None,
            track=self._dialect.dial().signalling is not None,
            continuous=self._dialect.continuous_media,
            begun_ns=self._origin_ns,
        )
        self._line = PlayoutLine()
        self.events: list[Expected] = []
        self._sends: list[Message] = []
        self._farewell: list[Message] = []  # final messages, which may be missing from the recording
        self._unsent: list[Message] = []
        self._raised: list[str] = []
        self._leaving = self._ended = False

    def play(self) -> None:
        """Replay all steps."""
        for step in self._cassette.steps:
            for audio, at_ns in self._line.played(step.at_ns + self._origin_ns):
                self.turn.on_event(audio, at_ns)
            match replace(step, at_ns=step.at_ns + self._origin_ns):  # cassette times start at 0
                case Received(at_ns=at_ns, message=message):
                    self._take("received", at_ns, message=message)
                case Sent(message=message):
                    self._sent(message)
                case RtpPacket() as packet:
                    self.turn.on_packet(packet)
                case Closed(at_ns=at_ns, code=code, reason=reason):
                    self._ended = True
                    self._take("closed", at_ns, code=code, reason=reason)
                    self.turn.close(connection_closed(code, reason), at_ns)
                case Call(at_ns=at_ns, name=name, arguments=arguments):
                    self._leaving = self._leaving or name == "finish"
                    self._take(name, at_ns, **arguments)
                case SessionReport() as report:
                    self._report(report)

    def differences(self) -> Iterator[str]:
        """Yield the differences in the dialect's behaviour."""
        reports = [step for step in self._cassette.steps if isinstance(step, SessionReport)]
        failed = any(report.name == "failed" for report in reports)
        if not failed:  # the failure already covers these events
            yield from (f"the dialect now raises {error}" for error in self._raised)
        yield from (f"the dialect no longer sends {short(message)}" for message in self._unsent)
        if not (failed or self._ended):  # after either, some messages may not have been sent
            yield from (f"the dialect now sends {short(message)}" for message in self._sends)
        before = [step for step in self._cassette.steps if isinstance(step, Expected)]
        yield from event_differences(self.events, before)

    def _report(self, step: SessionReport) -> None:
        match step.name:
            case "user_speaks":
                onset_ns, voice_end_ns = step.arguments["onset_ns"], step.arguments["voice_end_ns"]
                end_ns = step.at_ns + voice_end_ns if voice_end_ns >= 0 else None
                self.turn.user_speaks(step.at_ns + onset_ns, end_ns)
            case "user_done":
                self.turn.user_done(step.at_ns)
            case "over":
                is_over(self.turn, step.at_ns)
            case "failed":
                kind, message = FailureKind(step.arguments["kind"]), step.arguments["message"]
                self.turn.fail(kind, message, step.at_ns)

    def _take(self, call: str, at_ns: int, **arguments: Any) -> None:
        for output in self._outputs(getattr(self._dialect, call), at_ns=at_ns, **arguments):
            if isinstance(output, Send):
                if call != "frame":  # the cassette does not contain the messages of frames
                    (self._farewell if self._leaving else self._sends).append(output.message)
            elif isinstance(output, Reconnect):
                self._dialect.dial()
            elif not isinstance(output, ACTIONS) and not self._leaving:
                self.events.append(expected(at_ns - self._origin_ns, output))
                for event, event_ns in self._line.passed(output, at_ns):
                    self.turn.on_event(event, event_ns)

    def _outputs(self, call: Callable[..., Sequence[Output]], **arguments: Any) -> Sequence[Output]:
        try:
            return call(**arguments)
        except Exception as error:  # a bug, which the session reported as a failure
            self._raised.append(describe(error))
            return ()

    def _sent(self, message: Message) -> None:
        """Compare a recorded message with the messages that the dialect sends now."""
        for sends in (self._sends, self._farewell):
            if message in sends:
                sends.remove(message)
                return
        self._unsent.append(message)
