"""Log the true times of replies and user utterances for comparison with a client's measurements.

All times are on the monotonic clock, shared by all processes on a machine. The kernel timestamps arrivals
(`live_eval.sockets`); sends are timestamped right before the message is passed to the kernel. The network and
the client add further delays.

On a media track, packets are timestamped. The reply's onset is the first audible sample of the decoded
packets, played at their send times. Opus delays every sample by 6.5 ms. Both this log and the client include
this delay in `voice_to_voice`, since a listener hears it.
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

__all__ = ["TrueReply", "TrueUtterance", "Truth", "TruthFile", "TruthKeeper", "read_truth"]

_TRUTH_SCHEMA = 3
"""Schema version of the lines; `read_truth` rejects other versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueReply:
    """The true times of one response, in absolute monotonic nanoseconds.

    Args:
        session_id: The session's id, as sent to the client.
        label: The client's label for the session, from its URL; may be empty.
        turn: Number of the response in the session, from 0.
        voice_end_ns: Arrival of the message that contained the end of the user's speech; None without speech.
        voice_end_by: Method that found the end: ``mark``, ``energy``, ``silence``, ``detector`` or
            ``commit``.
        utterance: Number of the user's utterance that the response answers; None for no utterance.
        talks_over: Whether the response started during the user's speech, as configured.
        resumes: ID of the stopped response that this response continues; empty for none.
        created_ns: Time at which the response was announced.
        first_text_ns: Send time of the first text.
        chunk_sent_ns: Send time of each audio chunk or media track packet.
        chunk_samples: Number of samples in each chunk.
        rate_hz: Sample rate; None without audio.
        onset_sample: Index of the first audible sample, including lead silence; None for silence.
        onset_by: How the onset is known: ``constructed``, ``given`` or ``detector``.
        stopped_ns: Time at which the client was notified to drop unplayed audio, or None.
        heard_from_ns: Playback time of the first audible sample if chunks are played at their send times
            without buffering; None for silence.
        heard_until_ns: Playback time of the last audible sample, excluding audio that the client drops at
            `stopped_ns` (none on a track); None for silence.
        ended_ns: Time at which the end of the response was announced, or None.
        status: Final status.
        reason: Reason for an interruption or failure.
        first_byte_ns: Duration from `voice_end_ns` to the first chunk.
        voice_to_voice_ns: Duration from `voice_end_ns` to `heard_from_ns`.
        lag_ns: Maximum event-loop lag on the server, from 200 ms before the end of speech to the onset, which
            bounds the error of these times.
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
    """The true times of a user utterance, in absolute monotonic nanoseconds.

    Args:
        session_id: The session's id, as sent to the client.
        label: The client's label for the session, from its URL; may be empty.
        utterance: Number of the utterance in the session, from 0. If the endpoint ended the user's turn
            during a pause, the speech after the pause is a new utterance.
        onset_ns: Arrival of the message that contains its first sample.
        end_ns: Arrival of the message that contains its last sample; None if the session ended earlier.
        end_by: Method that found the end: ``mark``, ``energy``, ``silence``, ``detector`` or ``commit``.
        over: Response in progress at the onset, audible or not; empty for none.
        reaction: The endpoint's reaction, a value of `Reaction`; empty if no response was in progress or the
            session ended first.
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
    """The contents of a truth file, in order."""

    replies: list[TrueReply]
    utterances: list[TrueUtterance]


class TruthKeeper:
    """Collect the true times of one session from its events and their send times. Pure.

    Args:
        label: The client's label for the session.
        paced: Whether the session's audio is one continuous real-time stream.
    """

    def __init__(self, session_id: str, label: str = "", *, paced: bool = False) -> None:
        self._paced = paced
        self._session_id = session_id
        self._label = label
        self._replies = 0
        self._open: dict[str, _OpenReply] = {}

    def queued(self, piece: AudioPiece) -> None:
        """Record a piece that a track will send later; its reply is incomplete until then."""
        reply = self._open.get(piece.response.response_id)
        if reply is not None:
            reply.unplayed += 1
            reply.paced = True

    def played(self, piece: AudioPiece, at_ns: int) -> TrueReply | None:
        """Record that a queued piece is about to be sent; return the true times if its reply is then
        complete.
        """
        reply = self._open.get(piece.response.response_id)
        if reply is None:
            return None
        reply.add(piece, at_ns)
        reply.unplayed = max(0, reply.unplayed - 1)  # some pieces may have been dropped since
        return self._complete(reply)

    def dropped(self, response_id: str, notified_ns: int | None) -> TrueReply | None:
        """Record that a response's queued pieces were dropped; return the true times if its reply is
        complete.

        `notified_ns` is the time at which the client was notified, or None.
        """
        reply = self._open.get(response_id)
        if reply is None:
            return None
        reply.unplayed, reply.stopped_ns = 0, notified_ns
        return self._complete(reply)

    def sent(self, event: Event, at_ns: int, *, stops: bool = False) -> TrueReply | None:
        """Record that an event was sent; return the true times if its reply is then complete.

        Args:
            stops: Whether the client drops the unplayed audio of a cancelled response.
        """
        if not isinstance(event, AudioPiece | TextPiece | ResponseCreated | ResponseEnded):
            return None
        response = event.response
        if isinstance(event, ResponseCreated):
            self._open[response.response_id] = _OpenReply(self._replies, response, at_ns, paced=self._paced)
            self._replies += 1
        reply = self._open.get(response.response_id)
        if reply is None:
            return None
        match event:
            case AudioPiece():
                reply.add(event, at_ns)
            case TextPiece() if reply.first_text_ns is None:
                reply.first_text_ns = at_ns
            case ResponseEnded():
                reply.ended_ns = at_ns
                if stops and response.status is ResponseStatus.CANCELLED and reply.stopped_ns is None:
                    reply.stopped_ns = at_ns
                return self._complete(reply)
        return None

    def utterance(self, heard: UserUtterance) -> TrueUtterance:
        """Return the true times of an utterance."""
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

    def closed(self) -> list[TrueReply]:
        """Return the true times of unfinished replies when the connection ends."""
        rest = [self._truth(reply) for reply in self._open.values()]
        self._open.clear()
        return rest

    def _complete(self, reply: _OpenReply) -> TrueReply | None:
        if reply.ended_ns is None or reply.unplayed:
            return None
        del self._open[reply.response.response_id]
        return self._truth(reply)

    def _truth(self, reply: _OpenReply) -> TrueReply:
        response, heard_ns, last = reply.response, reply.onset_heard_ns(), reply.last
        voice_end_ns = response.voice_end.at_ns if response.voice_end is not None else None
        ended = reply.ended_ns is not None
        return TrueReply(
            session_id=self._session_id,
            label=self._label,
            response_id=response.response_id,
            turn=reply.number,
            voice_end_ns=voice_end_ns,
            voice_end_by=response.voice_end.by if response.voice_end is not None else "",
            utterance=response.utterance,
            talks_over=response.talks_over,
            resumes=response.resumes,
            created_ns=reply.created_ns,
            first_text_ns=reply.first_text_ns,
            chunk_sent_ns=tuple(reply.sent_ns),
            chunk_samples=tuple(reply.samples),
            rate_hz=last.rate_hz if last is not None else None,
            onset_sample=last.onset_sample if last is not None else None,
            onset_by=last.onset_by if last is not None else "",
            stopped_ns=reply.stopped_ns,
            heard_from_ns=heard_ns,
            heard_until_ns=reply.heard_until_ns(),
            ended_ns=reply.ended_ns,
            status=response.status.value if ended else ResponseStatus.OPEN.value,
            reason=(response.reason or response.error_code) if ended else "connection closed",
            first_byte_ns=_after(voice_end_ns, reply.sent_ns[0] if reply.sent_ns else None),
            voice_to_voice_ns=_after(voice_end_ns, heard_ns),
        )


def _after(begin_ns: int | None, end_ns: int | None) -> int | None:
    return None if begin_ns is None or end_ns is None else end_ns - begin_ns


@dataclass(slots=True)
class _OpenReply:
    number: int
    response: ServerResponse
    created_ns: int
    paced: bool
    first_text_ns: int | None = None
    sent_ns: list[int] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    last: AudioPiece | None = None
    stopped_ns: int | None = None
    unplayed: int = 0
    ended_ns: int | None = None

    def add(self, piece: AudioPiece, at_ns: int) -> None:
        self.sent_ns.append(at_ns)
        self.samples.append(piece.samples)
        self.last = piece

    def onset_heard_ns(self) -> int | None:
        onset = self.last.onset_sample if self.last is not None else None
        if onset is None or onset >= sum(self.samples):
            return None
        return self._playout(None, [(onset, onset + 1)]).heard_ns(onset)

    def heard_until_ns(self) -> int | None:
        if self.last is None or self.last.ends is None:
            return None
        # Every sent packet is played, including the last one before the stop.
        playout = self._playout(None if self.paced else self.stopped_ns)
        ends = np.flatnonzero(self.last.ends[: playout.end_sample])
        return playout.heard_ns(int(ends[-1])) if len(ends) else None

    def _playout(self, stopped_ns: int | None, stretches: Sequence[tuple[int, int]] = ()) -> Playout:
        assert self.last is not None
        marks = ResponseRecord(
            response_id="",
            interrupted_ns=stopped_ns,
            chunk_arrival_ns=np.asarray(self.sent_ns, np.int64),
            chunk_samples=np.asarray(self.samples, np.int64),
            rate_hz=self.last.rate_hz,
        )
        return play(marks, stretches=stretches if self.paced else ())


class TruthFile:
    """Write true times as JSON lines in a thread, to avoid blocking the event loop.

    Raises:
        DataError: The file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("wb")
        except OSError as error:
            raise DataError(f"cannot write the true times to {path}: {error}") from None
        self._lines: queue.SimpleQueue[TrueReply | TrueUtterance | None] = queue.SimpleQueue()
        self._failure: OSError | None = None
        self._thread = threading.Thread(target=self._write, name="truth", daemon=True)
        self._thread.start()

    def put(self, truth: TrueReply | TrueUtterance) -> None:
        """Queue a line without blocking."""
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
            raise DataError(f"incomplete true times: {self._failure}")

    def _write(self) -> None:
        while (truth := self._lines.get()) is not None:
            head = {"schema": _TRUTH_SCHEMA, "kind": _NAMES[type(truth)]}
            line = orjson.dumps({**head, **asdict(truth)}, option=orjson.OPT_APPEND_NEWLINE)
            try:
                self._file.write(line)
                self._file.flush()
            except OSError as error:
                self._failure = error


_KINDS: Mapping[str, type[TrueReply | TrueUtterance]] = {"turn": TrueReply, "utterance": TrueUtterance}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_FIELDS = {kind: {each.name for each in fields(kind)} for kind in _NAMES}


def read_truth(path: Path) -> Truth:
    """Read a truth file; skip an incomplete last line, because the file may still grow.

    Raises:
        DataError: The file cannot be read, or a line is invalid.
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
        if isinstance(record, TrueReply):
            truth.replies.append(record)
        else:
            truth.utterances.append(record)
    return truth


def _record(line: bytes, where: str) -> TrueReply | TrueUtterance:
    try:
        values: Any = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise DataError(f"{where}: expected a JSON object; {error}") from None
    if not isinstance(values, dict) or values.pop("schema", None) != _TRUTH_SCHEMA:
        raise DataError(f"{where}: expected true times with schema version {_TRUTH_SCHEMA}")
    kind = _KINDS.get(str(values.pop("kind", None)))
    if kind is None:
        raise DataError(f"{where}: expected one of the kinds {', '.join(_KINDS)}")
    if set(values) != _FIELDS[kind]:
        raise DataError(f"{where}: expected the keys {', '.join(sorted(_FIELDS[kind]))}")
    for name in ("chunk_sent_ns", "chunk_samples"):
        if name in values:
            values[name] = tuple(values[name])
    return kind(**values)
