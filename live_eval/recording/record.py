"""Create a turn's record from a session's capture.

`finish` decodes and times the reply, and aligns both sides on a common time axis. This is CPU-heavy and must
run outside the event loop. `RunWriter` writes the resulting `TurnRecord`; `RunReader` returns the same type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Audio, Codec, resample, resample_int16
from live_eval.audio.codecs import Decoder
from live_eval.errors import AudioError, FailureKind
from live_eval.session.capture import CapturedResponse, TurnCapture, no_packet
from live_eval.session.preroll import beginning
from live_eval.timing import (
    TIMING_VERSION,
    Latencies,
    ResponseRecord,
    TurnTrace,
    audible_stretches,
    is_paced,
    measure,
    play,
)
from live_eval.types import Case, Failure

__all__ = [
    "TurnRecord",
    "finish",
    "heard_pieces",
    "on_axis",
    "turn_id",
    "with_heard",
]

_AXIS_BOUND_S = 600
_MAX_AXIS_SAMPLES = 1 << 28  # three hours of one side at 24 kHz
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TurnRecord(TurnCapture):
    """A stored turn: a capture whose audio is decoded, timed and aligned.

    `RunWriter` writes `audio` and `both_sides` to files. `RunReader` leaves these fields empty; its methods
    read the files.

    Args:
        turn_id: ID of the case and repetition, unique in the run.
        case: The case; when read from disk, its paths are resolved.
        repeat: Repetition of the case, from 0.
        attempt: Number of the attempt, from 1.
        timing: Latencies as defined by `timing_version`.
        timing_version: `TIMING_VERSION` at the time of the run, or the current version after retiming.
        both_file: File in the run folder with the audio of both sides, or None.
        audio: Audio of each response as it arrived, int16 mono, shape (samples,).
        both_sides: int16, shape (samples, 2), at `both_rate_hz`, left: user, right: endpoint as
            heard; sample 0 is spoken at ``trace.t0_ns``. None if no frame was sent.
        envelope: Loudness of both sides for drawing, uint8, shape (n, 2), one pair per 20 ms: the square root
            of the peak sample, 255 at full scale. None without audio or before the turn is stored.
    """

    turn_id: str
    case: Case
    repeat: int
    attempt: int
    timing: Latencies
    timing_version: int = TIMING_VERSION
    both_file: Path | None = None
    audio: Sequence[NDArray[np.int16]] = field(default=(), repr=False)
    both_sides: NDArray[np.int16] | None = field(default=None, repr=False)
    both_rate_hz: int | None = None
    envelope: NDArray[np.uint8] | None = field(default=None, repr=False)

    @property
    def captured(self) -> bool:
        """Whether the turn ended normally with a reply."""
        return self.failure is None

    @property
    def speech_start_wall_ns(self) -> int | None:
        """Wall time at the recording's first sample, in ns since the Unix epoch; None if not sent."""
        trace = self.trace
        return None if trace.t0_ns is None else self.wall_ns + trace.t0_ns - trace.dial_ns

    @property
    def responses(self) -> tuple[ResponseRecord, ...]:
        """The responses in start order."""
        return self.trace.responses

    @property
    def headline(self) -> ResponseRecord | None:
        """The response that answers the turn; latencies and `reply` refer to it."""
        return None if self.timing.headline is None else self.responses[self.timing.headline]

    @property
    def reply_text(self) -> str | None:
        """The text of the headline response, or None."""
        return self.headline.text if self.headline is not None else None

    @property
    def reply(self) -> NDArray[np.int16] | None:
        """The headline response's audio, int16 mono, shape (samples,); None if missing or read from disk."""
        if self.timing.headline is None or not self.audio:
            return None
        reply = self.audio[self.timing.headline]
        return reply if len(reply) else None

    @property
    def reply_file(self) -> Path | None:
        """The file with the headline response's audio, or None."""
        return self.headline.audio_file if self.headline is not None else None

    @property
    def has_reply(self) -> bool:
        """Whether the headline response has audio."""
        return self.reply is not None or self.reply_file is not None

    @property
    def reply_rate_hz(self) -> int | None:
        """Sample rate of the headline response's audio; None if there is no audio."""
        return self.headline.rate_hz if self.headline is not None and self.has_reply else None


def turn_id(case: Case, repeat: int) -> str:
    """Return a turn's ID: the case ID, followed by the number of any repetition."""
    return case.case_id if repeat == 0 else f"{case.case_id}#{repeat + 1}"


def finish(capture: TurnCapture, case: Case, user: Audio | None, *, repeat: int, attempt: int) -> TurnRecord:
    """Decode, time and align a turn.

    Args:
        capture: The turn as the session captured it.
        user: The user's audio as streamed (at the wire's rate), or None without audio.
        repeat: Repetition of the case, from 0.
        attempt: Number of the attempt, from 1.

    Returns:
        The record. If decoding fails, the turn fails and keeps the audio up to the error. If a bug prevents
        timing, the turn fails as `INTERNAL` without replies; other turns are not affected.
    """
    try:
        return _finished(capture, case, user, repeat=repeat, attempt=attempt)
    except Exception as error:
        what = f"decoding and timing the turn: {type(error).__name__}: {error}"
        failure = capture.failure or Failure(FailureKind.INTERNAL, what)
        bare = replace(capture, wire=(), failure=failure)
        return _finished(bare, case, None, repeat=repeat, attempt=attempt)


def _finished(
    capture: TurnCapture, case: Case, user: Audio | None, *, repeat: int, attempt: int
) -> TurnRecord:
    failure = capture.failure
    responses: list[ResponseRecord] = []
    audio: list[NDArray[np.int16]] = []
    decoders: dict[Codec, Decoder] = {}  # the codec's state persists across responses
    for response in capture.wire:
        pcm, broken = _decode_chunks(response, decoders)
        failure = failure or broken
        record, rate_hz = response.record, response.codec.rate_hz if response.codec else None
        arrival_ns = record.chunk_arrival_ns[: len(pcm)]
        first, first_audio_ns = 0, record.first_audio_ns
        if response.preroll is not None and pcm and rate_hz:
            first, first_audio_ns = beginning(
                response.preroll, arrival_ns.tolist(), pcm, rate_hz, first_audio_ns, capture.trace.onset_ns
            )
        audio.append(np.concatenate(pcm[first:]) if pcm[first:] else np.empty(0, np.int16))
        responses.append(
            replace(
                record,
                chunk_arrival_ns=arrival_ns[first:],
                chunk_samples=np.asarray([len(chunk) for chunk in pcm[first:]], np.int64),
                rate_hz=rate_hz,
                first_audio_ns=first_audio_ns,
                fresh_chunks=tuple(at - first for at in record.fresh_chunks if at >= first),
            )
        )
    trace = with_heard(replace(capture.trace, responses=tuple(responses)), audio)
    timing = measure(trace, audio)
    if (
        timing.headline is not None
        and capture.wire[timing.headline].preroll
        and not len(audio[timing.headline])
    ):
        answer = responses[timing.headline]  # the answer excludes packets before its event
        failure = failure or Failure(FailureKind.NO_RTP, no_packet(answer.response_id), answer.done_ns)
    both, both_rate_hz = _both_sides(trace, audio, user)
    captured = {each.name: getattr(capture, each.name) for each in fields(TurnCapture)}
    return TurnRecord(
        **captured | {"trace": trace, "wire": (), "failure": failure},
        turn_id=turn_id(case, repeat),
        case=case,
        repeat=repeat,
        attempt=attempt,
        timing=timing,
        audio=audio,
        both_sides=both,
        both_rate_hz=both_rate_hz,
    )


def heard_pieces(
    marks: ResponseRecord, pcm: NDArray[np.int16], rate_hz: int, *, paced: bool = False
) -> Iterator[tuple[int, NDArray[np.int16]]]:
    """Yield the contiguous pieces of a response as heard, each with its start in monotonic nanoseconds.

    Args:
        pcm: Audio as it arrived, int16 mono, shape (samples,), at the response's rate.
        rate_hz: Sample rate of the pieces.
        paced: Whether the audio arrived on media at real-time pace (`live_eval.timing.is_paced`).
    """
    if not len(pcm) or marks.rate_hz is None:
        return
    # resample the whole response, since chunk boundaries would cause discontinuities
    spoken = resample_int16(pcm, marks.rate_hz, rate_hz)
    stretches = audible_stretches(pcm, marks.rate_hz) if paced else ()
    for run in play(marks, stretches=stretches).runs():
        begin, end = (
            round(sample * rate_hz / marks.rate_hz) for sample in (run.first, run.first + run.samples)
        )
        yield run.start_ns, spoken[begin:end]


def with_heard(trace: TurnTrace, reply: Sequence[NDArray[np.int16]]) -> TurnTrace:
    """Add the audible stretches as heard, and the length of discarded audio, to each response in a trace.

    Args:
        reply: Audio of each response in `trace.responses`, int16 mono, shape (samples,), as it arrived.
    """
    responses = (
        replace(
            marks,
            heard_ns=_heard_stretches(marks, pcm, paced=is_paced(trace, marks)),
            discarded_ns=_discarded_ns(marks, pcm),
        )
        for marks, pcm in zip(trace.responses, reply, strict=True)
    )
    return replace(trace, responses=tuple(responses))


def _heard_stretches(
    marks: ResponseRecord, pcm: NDArray[np.int16], *, paced: bool = False
) -> tuple[tuple[int, int], ...]:
    """Return the start and end of each audible stretch of a response as heard, in monotonic nanoseconds.

    Args:
        pcm: Audio as it arrived, int16 mono, shape (samples,).
        paced: See `heard_pieces`.
    """
    if not len(pcm) or marks.rate_hz is None:
        return ()
    rate_hz = marks.rate_hz
    pieces = list(heard_pieces(marks, pcm, rate_hz, paced=paced))
    if not pieces:
        return ()
    start_ns = pieces[0][0]
    placed = [(0, round((at_ns - start_ns) * rate_hz / _SECOND_NS), piece) for at_ns, piece in pieces]
    axis = on_axis(placed, 1)[:, 0]
    return tuple(
        (start_ns + begin * _SECOND_NS // rate_hz, start_ns + end * _SECOND_NS // rate_hz)
        for begin, end in audible_stretches(axis, rate_hz)
    )


def _discarded_ns(marks: ResponseRecord, pcm: NDArray[np.int16]) -> int:
    if marks.interrupted_ns is None or not len(pcm) or marks.rate_hz is None:
        return 0
    playout = play(marks)
    firsts = np.cumsum(playout.arrived) - playout.arrived
    unheard = [
        pcm[first + heard : first + arrived]
        for first, heard, arrived in zip(firsts, playout.samples, playout.arrived, strict=True)
    ]
    stretches = audible_stretches(np.concatenate(unheard), marks.rate_hz)
    return sum(end - begin for begin, end in stretches) * _SECOND_NS // marks.rate_hz


def _decode_chunks(
    response: CapturedResponse, decoders: dict[Codec, Decoder]
) -> tuple[list[NDArray[np.int16]], Failure | None]:
    pcm: list[NDArray[np.int16]] = []
    if response.codec is None:
        return pcm, None
    decoder = decoders.setdefault(response.codec, Decoder(response.codec))
    for index, data in enumerate(response.chunks):
        try:
            decoded = decoder.decode(data) if isinstance(data, bytes) else data
            if response.concealed and response.concealed[index]:
                decoded = np.concatenate((np.zeros(response.concealed[index], np.int16), decoded))
            pcm.append(decoded)
        except AudioError as error:
            where = f"audio chunk {index} of response {response.record.response_id}"
            at_ns = int(response.record.chunk_arrival_ns[index])
            return pcm, Failure(error.kind, f"{where}: {error.message}", at_ns)
    return pcm, None


def _both_sides(
    trace: TurnTrace, reply: Sequence[NDArray[np.int16]], user: Audio | None
) -> tuple[NDArray[np.int16] | None, int | None]:
    """Place the user's audio and every response, as heard, on the session's time axis."""
    if user is None or trace.t0_ns is None:
        return None, None
    rates = [marks.rate_hz for marks in trace.responses if marks.rate_hz]
    rate_hz = max([user.rate_hz, *rates])
    pieces: list[tuple[int, int, NDArray[np.int16]]] = [(0, 0, resample(user, rate_hz).int16())]
    for marks, pcm in zip(trace.responses, reply, strict=True):
        for at_ns, piece in heard_pieces(marks, pcm, rate_hz, paced=is_paced(trace, marks)):
            pieces.append((1, round((at_ns - trace.t0_ns) * rate_hz / 1e9), piece))
    return on_axis(pieces, 2, _AXIS_BOUND_S * rate_hz), rate_hz


def on_axis(
    pieces: Sequence[tuple[int, int, NDArray[np.int16]]], channels: int, bound: int | None = None
) -> NDArray[np.int16]:
    """Place pieces of audio on one time axis; return int16, shape (samples, channels).

    Args:
        pieces: The channel, first sample on the axis (negative parts are cut off), and samples of each piece.
        bound: Maximum number of samples per channel; later audio is cut off.

    Raises:
        ValueError: The axis is too long and `bound` is None: arrivals in a damaged run may be years apart.
    """
    length = max(at + len(pcm) for _, at, pcm in pieces)
    if bound is not None:
        length = min(length, bound)
    elif length * channels > _MAX_AXIS_SAMPLES:
        raise ValueError(f"expected audio of at most {_MAX_AXIS_SAMPLES} samples, got {length}")
    axis = np.zeros((length, channels), np.int16)
    for channel, at, pcm in pieces:
        first = max(at, 0)
        kept = pcm[first - at : first - at + max(0, length - first)]
        axis[first : first + len(kept), channel] = kept
    return axis
