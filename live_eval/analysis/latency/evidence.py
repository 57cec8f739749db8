"""Read the input to published latency definitions: timeline, audio and words of stored turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Audio, read_audio
from live_eval.errors import AudioError, StoreError
from live_eval.recording import RunReader
from live_eval.recording.record import TurnRecord
from live_eval.session.capture import LoggedMessage
from live_eval.speech.recognition import Word

__all__ = ["NO_RECOGNISER", "Evidence", "read_evidence"]

NO_RECOGNISER = "no words: the offline recogniser was not run"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """The data of one turn that published definitions require.

    Args:
        log: All messages with timestamps, in order.
        both_sides: Audio, int16, shape (samples, 2), with the user on the left and the endpoint as heard on
            the right. Sample 0 is at ``turn.trace.t0_ns``. None if there is no audio.
        both_rate_hz: Sample rate of `both_sides`.
        user_audio_ns: Length of the user's recording, including trailing silence, or None.
        words: Words of the reply, timed from its first sample; None if not recognised.
        no_words: Reason for missing words; empty if they were recognised.
    """

    turn: TurnRecord
    log: Sequence[LoggedMessage] = field(default=(), repr=False)
    both_sides: NDArray[np.int16] | None = field(default=None, repr=False)
    both_rate_hz: int | None = None
    user_audio_ns: int | None = None
    words: tuple[Word, ...] | None = None
    no_words: str = NO_RECOGNISER


def read_evidence(
    run: RunReader,
    turns: Sequence[TurnRecord],
    recognise: Callable[[TurnRecord, Audio], tuple[Word, ...]] | None = None,
    *,
    no_words: str = NO_RECOGNISER,
) -> list[Evidence]:
    """Read the data of a run's captured turns.

    Args:
        run: Run that contains the turns.
        recognise: Function that transcribes a turn's reply; None if there is no recogniser.
        no_words: Reason why there is no recogniser.
    """
    return [_evidence(run, turn, recognise, no_words) for turn in turns if turn.captured]


def _evidence(
    run: RunReader,
    turn: TurnRecord,
    recognise: Callable[[TurnRecord, Audio], tuple[Word, ...]] | None,
    no_words: str,
) -> Evidence:
    words: tuple[Word, ...] | None = None
    sides: tuple[NDArray[np.int16], int] | None = None
    try:
        sides = run.both_sides(turn.turn_id)
        reply = run.reply(turn) if recognise is not None else None
        if recognise is not None and reply is not None:
            words = recognise(turn, reply)
        elif recognise is not None:
            no_words = "no words: the reply has no audio"
    except StoreError as error:
        no_words = f"no words: {error}"
    return Evidence(
        turn=turn,
        log=run.log(turn.turn_id),
        both_sides=sides[0] if sides is not None else None,
        both_rate_hz=sides[1] if sides is not None else None,
        user_audio_ns=_length_ns(turn),
        words=words,
        no_words="" if words is not None else no_words,
    )


def _length_ns(turn: TurnRecord) -> int | None:
    try:
        return read_audio(turn.case.audio_path).audio.duration_ns
    except AudioError:
        return None
