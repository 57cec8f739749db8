"""The turns of a live conversation become records of its run: a case for each utterance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from live_eval.audio import Audio, int16_to_float, write_flac
from live_eval.errors import StoreError
from live_eval.files import private_folder
from live_eval.live.spoken_turns import LiveTurn
from live_eval.recording import RunWriter
from live_eval.recording.record import LoggedMessage, TurnRecord, finish
from live_eval.recording.schema import USER_FOLDER
from live_eval.types import Case, Variant

__all__ = ["TurnStore"]


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

    def keep_unplayed(self, record: TurnRecord) -> None:
        """Write the record of a recording that was never played.

        Raises:
            StoreError: It cannot be written.
        """
        self._writer.commit(record)

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
