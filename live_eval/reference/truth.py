"""The true times of replies and of the user's utterances, logged by the endpoint, to compare a client's
measurements with.

Everything is on the machine's monotonic clock, which all processes of a machine share. Arrivals are stamped
by the kernel (`live_eval.sockets`), sends right before the message is handed to it. What lies between is the
network and the client.

On a media track, packets are stamped. The reply's onset is the first audible sample of the decoded packets,
played from their send times. Opus delays every sample by 6.5 ms, which a listener hears too, so those 6.5 ms
are part of `voice_to_voice`, here and at the client.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from live_eval.errors import DataError
from live_eval.reference.engine.events import (
    AudioPiece,
    Event,
    ResponseCreated,
    ResponseEnded,
    ServerResponse,
    TextPiece,
    UserUtterance,
)
from live_eval.timing import Playout, ResponseRecord, ResponseStatus, play

__all__ = ["TRUTH_SCHEMA", "TrueTurn", "TrueUtterance", "Truth", "TruthFile", "TruthKeeper", "read_truth"]

TRUTH_SCHEMA = 3
"""Schema version of the lines; `read_truth` refuses others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueTurn:
    """The true times of one response. Times are absolute monotonic nanoseconds.

    Args:
        session_id: The session's id, as sent to the client.
        label: The client's label for it, from its URL; empty if it gave none.
        response_id: The response.
        turn: Its number in the session, from 0.
        voice_end_ns: Arrival of the message that contained the end of the user's speech; None where nothing
            was spoken.
        voice_end_by: How that end is known: ``mark``, ``energy``, ``silence``, ``detector`` or ``commit``.
        utterance: Number in the session of the user's utterance that it answers; None where it answers none.
        talks_over: Whether it began while the user was still speaking, on purpose.
        resumes: Id of the stopped response whose rest it says; empty for none.
        created_ns: The response was announced.
        first_text_ns: Its first words were sent.
        chunk_sent_ns: Each chunk of audio was sent; on a media track each packet.
        chunk_samples: Samples in each chunk.
        rate_hz: Rate of the samples; None if there were none.
        onset_sample: Index of the first audible sample, including lead silence; None for silence.
        onset_by: How that is known: ``constructed``, ``given`` or ``detector``.
        stopped_ns: When the client was asked to drop what it had not played; None if it was not.
        heard_from_ns: The first audible sample as heard: playout of the chunks at their send times with a
            buffer of zero depth; None for silence.
        heard_until_ns: The last audible sample as heard: of what was sent, less what the client dropped at
            `stopped_ns` unless it is a track; None for silence.
        ended_ns: The end of the response was announced; None if it never was.
        status: How it ended.
        reason: Why it was cut off or failed.
        first_byte_ns: Duration from `voice_end_ns` to the first chunk.
        voice_to_voice_ns: Duration from `voice_end_ns` to `heard_from_ns`.
        lag_ns: Largest lateness of the server's event loop, from 200 ms before the end of speech to the
            onset: the error bar of these times.
    """

    session_id: str
    label: str = ""
    response_id: str
    turn: int
    voice_end_ns: int | None = None
    voice_end_by: str = ""
    utterance: int | None = None
    talks_over: bool = False
    resumes: str = ""
    created_ns: int | None = None
    first_text_ns: int | None = None
    chunk_sent_ns: tuple[int, ...] = field(default=(), repr=False)
    chunk_samples: tuple[int, ...] = field(default=(), repr=False)
    rate_hz: int | None = None
    onset_sample: int | None = None
    onset_by: str = ""
    stopped_ns: int | None = None
    heard_from_ns: int | None = None
    heard_until_ns: int | None = None
    ended_ns: int | None = None
    status: str = ResponseStatus.OPEN.value
    reason: str = ""
    first_byte_ns: int | None = None
    voice_to_voice_ns: int | None = None
    lag_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueUtterance:
    """An utterance of the user as the endpoint heard it. Times are absolute monotonic nanoseconds.

    Args:
        session_id: The session's id, as sent to the client.
        label: The client's label for it, from its URL; empty if it gave none.
        utterance: Its number in the session, from 0; where the endpoint ends the user's turn in a pause, the
            words after it are another utterance.
        onset_ns: Arrival of the message that contains its first sample.
        end_ns: Arrival of the message that contains its last sample; None if the session ended before.
        end_by: How that end is known: ``mark``, ``energy``, ``silence``, ``detector`` or ``commit``.
        over: The response that was under way at its onset, whether audible yet or not; empty for none.
        reaction: What the endpoint did about it, a value of `Reaction`; empty where nothing was under way,
            or where the session ended before.
    """

    session_id: str
    label: str = ""
    utterance: int
    onset_ns: int
    end_ns: int | None = None
    end_by: str = ""
    over: str = ""
    reaction: str = ""


class Truth(NamedTuple):
    """What a truth file says, in the order in which it became known.

    Args:
        turns: The replies.
        utterances: What the user said.
    """

    turns: list[TrueTurn]
    utterances: list[TrueUtterance]


@dataclass(slots=True)
class _OpenTurn:
    turn: int
    response: ServerResponse
    created_ns: int
    first_text_ns: int | None = None
    sent_ns: list[int] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    rate_hz: int | None = None
    onset_sample: int | None = None
    onset_by: str = ""
    ends: NDArray[np.bool_] | None = None
    stopped_ns: int | None = None
    unplayed: int = 0
    ended_ns: int | None = None
    status: ResponseStatus = ResponseStatus.OPEN
    reason: str = "connection closed"
    paced: bool = False


class TruthKeeper:
    """Collects the true times of one session from its events and their send times. Pure.

    Args:
        session_id: The session.
        label: The client's label for it.
        paced: Whether its audio is one continuous stream, at the pace of speech.
    """

    def __init__(self, session_id: str, label: str = "", *, paced: bool = False) -> None:
        self._paced = paced
        self._session_id = session_id
        self._label = label
        self._turns = 0
        self._open: dict[str, _OpenTurn] = {}

    def queued(self, piece: AudioPiece) -> None:
        """Note a piece that will be sent later than its event; the turn is complete only after that."""
        turn = self._open.get(piece.response.response_id)
        if turn is not None:
            turn.unplayed += 1
            turn.paced = True  # by the track's packets

    def played(self, piece: AudioPiece, at_ns: int) -> TrueTurn | None:
        """Note that a queued piece is about to be sent; return the turn's truth if this completes it."""
        turn = self._open.get(piece.response.response_id)
        if turn is None:
            return None
        _heard(turn, piece, at_ns)
        turn.unplayed = max(0, turn.unplayed - 1)  # the rest may have been dropped while this one was sent
        return self._complete(piece.response.response_id, turn)

    def dropped(self, response_id: str, told_ns: int | None) -> TrueTurn | None:
        """Note that the queued pieces of a response were dropped; return its truth if this completes it.

        `told_ns` is when the client was told so, or None if it was not.
        """
        turn = self._open.get(response_id)
        if turn is None:
            return None
        turn.unplayed, turn.stopped_ns = 0, told_ns
        return self._complete(response_id, turn)

    def sent(self, event: Event, at_ns: int, *, stops: bool = False) -> TrueTurn | None:
        """Note that an event was sent; return the turn's truth if this completes it.

        `stops` says whether the client drops what it has not played of a response that is cancelled.
        """
        match event:
            case AudioPiece(response=response):
                turn = self._open.get(response.response_id)
                if turn is not None:
                    _heard(turn, event, at_ns)
            case TextPiece(response=response):
                turn = self._open.get(response.response_id)
                if turn is not None and turn.first_text_ns is None:
                    turn.first_text_ns = at_ns
            case ResponseCreated(response=response):
                self._open[response.response_id] = _OpenTurn(self._turns, response, at_ns, paced=self._paced)
                self._turns += 1
            case ResponseEnded(response=response):
                turn = self._open.get(response.response_id)
                if turn is not None:
                    turn.ended_ns, turn.status = at_ns, response.status
                    turn.reason = response.reason or response.error_code
                    if stops and response.status is ResponseStatus.CANCELLED and turn.stopped_ns is None:
                        turn.stopped_ns = at_ns
                    return self._complete(response.response_id, turn)
            case _:
                pass
        return None

    def utterance(self, heard: UserUtterance) -> TrueUtterance:
        """Return the truth of an utterance."""
        return TrueUtterance(
            session_id=self._session_id,
            label=self._label,
            utterance=heard.number,
            onset_ns=heard.onset_ns,
            end_ns=heard.end.at_ns if heard.end is not None else None,
            end_by=heard.end.by if heard.end is not None else "",
            over=heard.over,
            reaction=heard.reaction.value if heard.reaction is not None else "",
        )

    def closed(self) -> list[TrueTurn]:
        """Note the end of the connection; return the truth of unfinished turns."""
        rest = [self._truth(response_id, turn) for response_id, turn in self._open.items()]
        self._open.clear()
        return rest

    def _complete(self, response_id: str, turn: _OpenTurn) -> TrueTurn | None:
        if turn.ended_ns is None or turn.unplayed:
            return None
        del self._open[response_id]
        return self._truth(response_id, turn)

    def _truth(self, response_id: str, turn: _OpenTurn) -> TrueTurn:
        response, heard_ns = turn.response, _onset_heard_ns(turn)
        voice_end_ns = response.voice_end.at_ns if response.voice_end is not None else None
        return TrueTurn(
            session_id=self._session_id,
            label=self._label,
            response_id=response_id,
            turn=turn.turn,
            voice_end_ns=voice_end_ns,
            voice_end_by=response.voice_end.by if response.voice_end is not None else "",
            utterance=response.utterance,
            talks_over=response.talks_over,
            resumes=response.resumes,
            created_ns=turn.created_ns,
            first_text_ns=turn.first_text_ns,
            chunk_sent_ns=tuple(turn.sent_ns),
            chunk_samples=tuple(turn.samples),
            rate_hz=turn.rate_hz,
            onset_sample=turn.onset_sample,
            onset_by=turn.onset_by,
            stopped_ns=turn.stopped_ns,
            heard_from_ns=heard_ns,
            heard_until_ns=_heard_until_ns(turn),
            ended_ns=turn.ended_ns,
            status=turn.status.value,
            reason=turn.reason,
            first_byte_ns=_after(voice_end_ns, turn.sent_ns[0] if turn.sent_ns else None),
            voice_to_voice_ns=_after(voice_end_ns, heard_ns),
        )


def _after(begin_ns: int | None, end_ns: int | None) -> int | None:
    return None if begin_ns is None or end_ns is None else end_ns - begin_ns


def _heard(turn: _OpenTurn, piece: AudioPiece, at_ns: int) -> None:
    turn.sent_ns.append(at_ns)
    turn.samples.append(piece.samples)
    turn.rate_hz = piece.rate_hz
    turn.onset_sample, turn.onset_by, turn.ends = piece.onset_sample, piece.onset_by, piece.ends


def _onset_heard_ns(turn: _OpenTurn) -> int | None:
    if turn.onset_sample is None or turn.onset_sample >= sum(turn.samples):
        return None
    return _played(turn, None, [(turn.onset_sample, turn.onset_sample + 1)]).heard_ns(turn.onset_sample)


def _heard_until_ns(turn: _OpenTurn) -> int | None:
    if turn.ends is None or not turn.samples:
        return None
    # On a track nothing that was sent waits to be played: the packet before the stop is heard.
    playout = _played(turn, None if turn.paced else turn.stopped_ns)
    ends = np.flatnonzero(turn.ends[: playout.end_sample])
    return playout.heard_ns(int(ends[-1])) if len(ends) else None


def _played(turn: _OpenTurn, stopped_ns: int | None, stretches: Sequence[tuple[int, int]] = ()) -> Playout:
    marks = ResponseRecord(
        response_id="",
        interrupted_ns=stopped_ns,
        chunk_arrival_ns=np.asarray(turn.sent_ns, np.int64),
        chunk_samples=np.asarray(turn.samples, np.int64),
        rate_hz=turn.rate_hz,
    )
    return play(marks, stretches=stretches if turn.paced else ())


class TruthFile:
    """Writes true times as JSON lines in a thread, so that the event loop never waits.

    Args:
        path: The file; overwritten.

    Raises:
        DataError: It cannot be written.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("wb")
        except OSError as error:
            raise DataError(f"cannot write the true times to {path}: {error}") from None
        self._lines: queue.SimpleQueue[TrueTurn | TrueUtterance | None] = queue.SimpleQueue()
        self._failure: OSError | None = None
        self._thread = threading.Thread(target=self._write, name="truth", daemon=True)
        self._thread.start()

    def put(self, truth: TrueTurn | TrueUtterance) -> None:
        """Queue a line; return at once."""
        self._lines.put(truth)

    def close(self) -> None:
        """Write queued lines and close the file.

        Raises:
            DataError: A line could not be written.
        """
        self._lines.put(None)
        self._thread.join()
        self._file.close()
        if self._failure is not None:
            raise DataError(f"the true times are incomplete: {self._failure}")

    def _write(self) -> None:
        while (truth := self._lines.get()) is not None:
            head = {"schema": TRUTH_SCHEMA, "kind": _NAMES[type(truth)]}
            line = orjson.dumps({**head, **asdict(truth)}, option=orjson.OPT_APPEND_NEWLINE)
            try:
                self._file.write(line)
                self._file.flush()
            except OSError as error:
                self._failure = error


_KINDS: Mapping[str, type[TrueTurn | TrueUtterance]] = {"turn": TrueTurn, "utterance": TrueUtterance}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_FIELDS = {kind: {each.name for each in fields(kind)} for kind in _NAMES}


def read_truth(path: Path) -> Truth:
    """Read a truth file; skip an incomplete last line.

    Args:
        path: What `TruthFile` wrote; it may still be growing.

    Raises:
        DataError: The file cannot be read, or a line is invalid; the message names it.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read the true times: {error}") from None
    truth = Truth([], [])
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            break
        record = _record(line, f"{path}, line {number}")
        if isinstance(record, TrueTurn):
            truth.turns.append(record)
        else:
            truth.utterances.append(record)
    return truth


def _record(line: bytes, where: str) -> TrueTurn | TrueUtterance:
    try:
        values: Any = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise DataError(f"{where}: expected a JSON object; {error}") from None
    if not isinstance(values, dict) or values.pop("schema", None) != TRUTH_SCHEMA:
        raise DataError(f"{where}: expected true times of schema {TRUTH_SCHEMA}")
    kind = _KINDS.get(str(values.pop("kind", None)))
    if kind is None:
        raise DataError(f"{where}: expected a kind of {', '.join(_KINDS)}")
    if set(values) != _FIELDS[kind]:
        raise DataError(f"{where}: expected the keys {', '.join(sorted(_FIELDS[kind]))}")
    for name in ("chunk_sent_ns", "chunk_samples"):
        if name in values:
            values[name] = tuple(values[name])
    return kind(**values)
