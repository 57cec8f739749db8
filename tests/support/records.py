"""Create turn records without a session, to test stores, judges and reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Audio, Codec, CodecName, resample
from live_eval.recording.record import TurnRecord, finish
from live_eval.session.capture import CapturedResponse, LoggedMessage, TurnCapture
from live_eval.timing import ResponseRecord, ResponseStatus, TurnTrace
from live_eval.types import Case, Failure, SpeechBoundaries, Usage

__all__ = ["TurnPlan", "spoken_turn", "tone"]

_FRAME_NS = 20_000_000
_SILENCE_AFTER_NS = 400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """The timing of a synthetic turn, in milliseconds after the end of the user's speech.

    Args:
        endpointing_ms: Time at which the endpoint reports the end of speech; None for never.
        first_byte_ms: Arrival time of the first reply audio; None for never.
        lead_silence_ms: Silence at the start of the reply audio.
        reply_ms: Length of the audible reply, unless a recording is given.
        text_ms: Arrival time of the first reply text; None for never.
        chunk_ms: Chunk length; chunks arrive in a burst.
        frame_late_ns: Lateness of each frame of the user's audio.
        uncertain: Whether the end of the user's speech is uncertain.
        boundaries: Boundaries of the user's speech to store with the turn, or None.
        cut_off: Number of earlier responses cancelled because the utterance continued.
        failure: Reason why the turn failed, or None.
        warnings: Warnings for the turn.
        reply_text: The endpoint's transcript of its reply, or None.
        heard_text: The endpoint's transcript of the user, or None.
    """

    endpointing_ms: float | None = 300.0
    first_byte_ms: float | None = 500.0
    lead_silence_ms: float = 80.0
    reply_ms: float = 1000.0
    text_ms: float | None = 480.0
    chunk_ms: float = 100.0
    frame_late_ns: int = 300_000
    uncertain: bool = False
    boundaries: SpeechBoundaries | None = None
    cut_off: int = 0
    failure: Failure | None = None
    warnings: tuple[Failure, ...] = ()
    reply_text: str | None = "I hear you."
    heard_text: str | None = "hello there"


def tone(length_ms: float, *, hz: float = 220.0, level: float = 0.3, rate_hz: int = 24_000) -> Audio:
    """Return a tone; float32 mono, shape (samples,)."""
    at = np.arange(round(length_ms * rate_hz / 1000), dtype=np.float32) / rate_hz
    return Audio((level * np.sin(2 * np.pi * hz * at)).astype(np.float32), rate_hz)


def spoken_turn(
    case: Case,
    plan: TurnPlan | None = None,
    *,
    user: Audio | None = None,
    reply: Audio | None = None,
    rate_hz: int = 24_000,
    repeat: int = 0,
    attempt: int = 1,
) -> TurnRecord:
    """Create a turn record: the user speaks throughout `user`, and the endpoint follows the plan.

    Args:
        case: The case.
        plan: The endpoint's timing.
        user: The user's audio; an 800 ms tone if None.
        reply: The endpoint's audio, without lead silence; a tone if None.
        rate_hz: Sample rate on the wire.
        repeat: Repetition number, from 0.
        attempt: Attempt number, from 1.
    """
    plan = plan or TurnPlan()
    spoken = resample(user, rate_hz) if user is not None else tone(800, rate_hz=rate_hz)
    dial_ns = 1_000_000_000
    t0_ns = dial_ns + 150_000_000
    voice_end_ns = t0_ns + spoken.duration_ns
    frames = -(-(spoken.duration_ns + _SILENCE_AFTER_NS) // _FRAME_NS)
    deadlines = t0_ns + _FRAME_NS * np.arange(1, frames + 1, dtype=np.int64)

    def after(ms: float) -> int:
        return voice_end_ns + round(ms * 1e6)

    responses = [_cut_off(index, after(-400 + 20 * index), rate_hz) for index in range(plan.cut_off)]
    if plan.first_byte_ms is not None:
        voice = (
            resample(reply, rate_hz) if reply is not None else tone(plan.reply_ms, hz=330, rate_hz=rate_hz)
        )
        silence = np.zeros(round(plan.lead_silence_ms * rate_hz / 1000), np.int16)
        pcm = np.concatenate([silence, resample(voice, rate_hz).int16()])
        responses.append(_reply(plan, pcm, rate_hz, after))
    trace = TurnTrace(
        dial_ns=dial_ns,
        ready_ns=dial_ns + 90_000_000,
        t0_ns=t0_ns,
        onset_ns=t0_ns,
        voice_end_ns=voice_end_ns,
        boundaries_uncertain=plan.uncertain,
        boundaries=plan.boundaries,
        frame_deadline_ns=deadlines,
        frame_sent_ns=deadlines + plan.frame_late_ns,
        speech_stopped_ns=() if plan.endpointing_ms is None else (after(plan.endpointing_ms),),
        probe_at_ns=np.asarray([t0_ns], np.int64),
        probe_lag_ns=np.asarray([100_000], np.int64),
    )
    capture = TurnCapture(
        trace=trace,
        wire=responses,
        log=[
            LoggedMessage(dial_ns + 80_000_000, "out", {"type": "session.update"}),
            LoggedMessage(dial_ns + 90_000_000, "in", {"type": "session.updated"}),
        ],
        heard_text=plan.heard_text,
        session_id=f"sess_{case.case_id}",
        model="made-up",
        wall_ns=1_750_000_000_000_000_000 + dial_ns,
        failure=plan.failure,
        warnings=plan.warnings,
    )
    return finish(capture, case, spoken, repeat=repeat, attempt=attempt)


def _reply(
    plan: TurnPlan, pcm: NDArray[np.int16], rate_hz: int, after: Callable[[float], int]
) -> CapturedResponse:
    assert plan.first_byte_ms is not None
    step = max(1, round(plan.chunk_ms * rate_hz / 1000))
    chunks = [pcm[start : start + step].astype("<i2").tobytes() for start in range(0, len(pcm), step)]
    begins_ns = after(plan.first_byte_ms)
    arrivals = [begins_ns + 1_000_000 * index for index in range(len(chunks))]
    return CapturedResponse(
        record=ResponseRecord(
            response_id="resp_1",
            created_ns=begins_ns - 10_000_000,
            first_text_ns=None if plan.text_ms is None else after(plan.text_ms),
            done_ns=arrivals[-1] + 2_000_000,
            status=ResponseStatus.COMPLETED,
            chunk_arrival_ns=np.asarray(arrivals, np.int64),
            text=plan.reply_text,
            usage=Usage(input_tokens=100, output_tokens=50),
        ),
        chunks=chunks,
        codec=Codec(CodecName.PCM16, rate_hz),
    )


def _cut_off(index: int, at_ns: int, rate_hz: int) -> CapturedResponse:
    pcm = tone(60, hz=500, rate_hz=rate_hz).int16()
    return CapturedResponse(
        record=ResponseRecord(
            response_id=f"resp_early_{index + 1}",
            created_ns=at_ns,
            interrupted_ns=at_ns + 30_000_000,
            status=ResponseStatus.CANCELLED,
            chunk_arrival_ns=np.asarray([at_ns + 5_000_000], np.int64),
            reason="turn_detected",
        ),
        chunks=[pcm.astype("<i2").tobytes()],
        codec=Codec(CodecName.PCM16, rate_hz),
    )
