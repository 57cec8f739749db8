"""The turns of a live conversation become records of its run: a case for each utterance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Audio, int16_to_float, write_flac
from live_eval.errors import StoreError
from live_eval.files import private_folder
from live_eval.live.said import SaidAudio
from live_eval.recording import RunWriter
from live_eval.recording.record import LoggedMessage, TurnCapture, TurnRecord, finish
from live_eval.recording.schema import USER_FOLDER
from live_eval.run.plan import Job
from live_eval.timing import play
from live_eval.types import Case, Variant

__all__ = ["LiveTurn", "TurnStore", "said_in"]

_SECOND_NS = 1_000_000_000
_TAIL_NS = 300_000_000  # recorded after the utterance
_MOST_TRACE_NS = 600 * _SECOND_NS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LiveTurn:
    """A turn of a live conversation, and what the user said in it.

    Args:
        capture: What the session captured.
        number: Its number in the run, from 1.
        session: The number of its session, from 1.
        index: Its number in the session, from 0.
        user: Everything that the microphone gave from `capture.trace.t0_ns` to the end of the turn, int16
            mono, shape (samples,), at `rate_hz`.
        rate_hz: Rate of `user`.
        job: The case that was played; None for a person, whose utterance becomes a case.
    """

    capture: TurnCapture
    number: int
    session: int
    index: int
    user: NDArray[np.int16]
    rate_hz: int
    job: Job | None = None

    @property
    def utterance(self) -> NDArray[np.int16]:
        """What the user said, up to shortly after the end of their speech."""
        boundaries = self.capture.trace.boundaries
        if boundaries is None:
            return self.user
        return self.user[: (boundaries.voice_end_ns + _TAIL_NS) * self.rate_hz // _SECOND_NS]


def said_in(capture: TurnCapture, said: SaidAudio, until_ns: int) -> NDArray[np.int16]:
    """Return what the user's microphone gave in a turn: until the reply has been heard, and a little more.

    Args:
        capture: The turn; the user has spoken in it.
        said: What the user said.
        until_ns: The end at the latest: the next turn's beginning, or the present.
    """
    trace = capture.trace
    assert trace.t0_ns is not None
    ends = [trace.voice_end_ns or until_ns]
    for response in capture.wire:
        if len(response.record.chunk_samples) and response.record.rate_hz:
            heard = play(response.record)
            if heard.heard_samples:
                ends.append(heard.heard_ns(heard.heard_samples - 1))
    end_ns = min(until_ns, max(ends) + _TAIL_NS, trace.t0_ns + _MOST_TRACE_NS)
    return said.between(trace.t0_ns, end_ns)


class TurnStore:
    """Makes records of live turns and writes them. Synchronous: call it in the run's writer thread.

    Args:
        writer: The run's store.
        instructions: The system prompt of a session with a person.
        device_spread_ns: How far the devices' delay varied when it was measured.
    """

    def __init__(self, writer: RunWriter, *, instructions: str = "", device_spread_ns: int = 0) -> None:
        self._writer = writer
        self._instructions = instructions
        self._spread_ns = device_spread_ns
        self._kept: dict[int, tuple[object, ...]] = {}

    def record(self, turn: LiveTurn, log: Sequence[LoggedMessage]) -> TurnRecord:
        """Return the record of a turn, timed and aligned, with its messages."""
        user = Audio(int16_to_float(turn.user), turn.rate_hz)
        capture = replace(turn.capture, log=log)
        if turn.job is not None:
            return finish(capture, turn.job.case, user, repeat=turn.job.repeat, attempt=1)
        trace = replace(capture.trace, device_spread_ns=self._spread_ns)
        return finish(replace(capture, trace=trace), self._case(turn), user, repeat=0, attempt=1)

    def _case(self, turn: LiveTurn) -> Case:
        case_id = f"turn-{turn.number:04d}"
        return Case(
            case_id=case_id,
            script_id=case_id,
            variant=Variant.TARGET,
            audio_path=self._path(case_id),
            boundaries=turn.capture.trace.boundaries,
            source="live",
            instructions=self._instructions,
            dialogue_id=f"session-{turn.session}",
            turn_index=turn.index,
        )

    def keep(self, turn: LiveTurn, record: TurnRecord) -> bool:
        """Write a turn, or write it again where something has come late; return whether it was written.

        Raises:
            StoreError: It cannot be written.
        """
        seen = _seen(record)
        if self._kept.get(turn.number) == seen:
            return False
        if turn.job is None:
            self._write_user(record.case.audio_path, turn)
        self._writer.commit(record)
        self._kept[turn.number] = seen
        return True

    def _write_user(self, path: Path, turn: LiveTurn) -> None:
        try:
            private_folder(path.parent)
            write_flac(path, turn.utterance, turn.rate_hz)
        except OSError as error:
            raise StoreError(f"{path}: cannot be written: {error.strerror}") from error

    def _path(self, case_id: str) -> Path:
        return self._writer.path / USER_FOLDER / f"{case_id}.flac"


def _seen(record: TurnRecord) -> tuple[object, ...]:
    """Return what tells two records of a turn apart."""
    responses = tuple(
        (each.status, each.text, each.interrupted_ns, int(each.chunk_samples.sum()))
        for each in record.responses
    )
    return record.failure, record.heard_text, record.trace.barge_in_ns, responses
