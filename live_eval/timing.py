"""Compute latencies as pure functions of recorded timestamps, so that runs can be retimed later.

`TIMING_VERSION` identifies these definitions:

* Sample n of the user's audio is spoken at ``t0 + n/rate``.
* The playout buffer has zero depth: ``heard(n) = max(arrival(n), heard(n−1) + 1/rate)``.
* *Audible* audio begins at the first sample above −50 dBFS in audio that stays above that level for 30 ms.
* The answer is the first response that ended after the user began to speak, and that was not cut off because
  the utterance continued; a greeting is never the answer.
* Negative latencies are kept.
* A report that speech stopped counts if it precedes the answer: its event or first audio or, on continuous
  media, its first audible sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from live_eval.audio.audible import (
    AUDIBLE_DBFS,
    AUDIBLE_WINDOWS,
    WINDOWS_PER_S,
    audible_begins,
    audible_end,
    audible_onset,
    audible_stretches,
    loud_windows,
)
from live_eval.playout import Playout, ResponseRecord, ResponseStatus, Run, play
from live_eval.types import SpeechBoundaries, StampKind

__all__ = [
    "AUDIBLE_DBFS",
    "AUDIBLE_WINDOWS",
    "LAG_BOUND_NS",
    "SPEECH_TAIL_NS",
    "TIMING_VERSION",
    "WINDOWS_PER_S",
    "Latencies",
    "Latency",
    "Playout",
    "ResponseRecord",
    "ResponseStatus",
    "Run",
    "TurnTrace",
    "audible_begins",
    "audible_end",
    "audible_onset",
    "audible_stretches",
    "began_before",
    "greets",
    "headline_response",
    "is_cut_off",
    "is_greeting",
    "is_paced",
    "loud_windows",
    "measure",
    "play",
]

TIMING_VERSION = 9
LAG_BOUND_NS = 20_000_000
_STALL_BUFFER_NS = 60_000_000
"""Jitter-buffer depth for counting underruns; without a buffer, every network delay would count."""
SPEECH_TAIL_NS = 200_000_000
"""Time before the end of speech in which a late frame may still delay the endpoint's answer."""
_YIELDS_WITHIN_NS = 2_000_000_000  # the definition of a stopped reply in tau2-bench


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTrace:
    """All of a turn's timestamps in both directions, absolute on the session's monotonic clock.

    Args:
        dial_ns: Start of dialling; for a later turn of a dialogue, start of the turn.
        intended_ns: Scheduled session start in an open loop; None in a closed loop, and for later turns.
        ready_ns: Time at which the endpoint's session was ready, or None.
        t0_ns: Time at which sample 0 of the user's audio is spoken, or None if no frame was due.
        onset_ns: `t0_ns` plus the onset of the speaker's audio.
        voice_end_ns: `t0_ns` plus the end of the speaker's audio.
        user_done_ns: Deadline of the utterance's last frame, after which a manual turn is committed. None if
            the frame was not sent, and in older runs.
        boundaries_uncertain: Whether the end of the speaker's audio is uncertain.
        boundaries: Speech boundaries of the recording; None without a recording, and in older runs.
        frame_deadline_ns: Deadline of each frame, int64, shape (frames,).
        frame_sent_ns: Time at which each frame was passed to the transport, int64, shape (frames,).
        speech_started_ns: Arrivals of the endpoint's speech-start reports, in order; empty in older runs.
        speech_stopped_ns: Arrivals of the endpoint's speech-stop reports, in order.
        committed_ns: Time at which the endpoint accepted the commit (manual turns), or None.
        responses: Responses, in the order in which they began.
        barge_in_ns: Time at which the user began to speak over the reply, or None.
        backchannel: Whether the user's words over the reply expect no answer, so that it need not stop.
        probe_at_ns: Times of the event-loop probes, int64, shape (probes,).
        probe_lag_ns: Event-loop lag at each probe, int64, shape (probes,).
        continuous: Whether media have no start event, so that `first_byte` is undefined.
        setup_ns: Duration of each connection setup step, by name.
        stamps: Source of arrival timestamps; ``user`` if this process stamped any of them.
        stamp_error_ns: Maximum error of the kernel's timestamps, which are mapped from the wall clock to the
            monotonic clock.
        clock_steps: How often the wall clock was set during the session; each time, this process stamped the
            next arrival.
        device_spread_ns: Variation in the user's device delay; 0 without devices.
        node: Cluster node that ran the session and whose clock the times refer to; None for the machine that
            recorded the run.
    """

    dial_ns: int
    intended_ns: int | None = None
    ready_ns: int | None = None
    t0_ns: int | None = None
    onset_ns: int | None = None
    voice_end_ns: int | None = None
    user_done_ns: int | None = None
    boundaries_uncertain: bool = False
    boundaries: SpeechBoundaries | None = None
    frame_deadline_ns: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    frame_sent_ns: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    speech_started_ns: tuple[int, ...] = ()
    speech_stopped_ns: tuple[int, ...] = ()
    committed_ns: int | None = None
    responses: tuple[ResponseRecord, ...] = ()
    barge_in_ns: int | None = None
    backchannel: bool = False
    probe_at_ns: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    probe_lag_ns: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    continuous: bool = False
    setup_ns: Mapping[str, int] = field(default_factory=dict)
    stamps: StampKind = StampKind.USER
    stamp_error_ns: int = 0
    clock_steps: int = 0
    device_spread_ns: int = 0
    node: str | None = None


@dataclass(frozen=True, slots=True)
class Latency:
    """A duration in nanoseconds (possibly negative), or None with a reason."""

    ns: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """A turn's latencies as defined in docs/reference/latencies.md. Each has a value or a reason.

    Args:
        connect: Dialling to session ready.
        endpointing: End of the user's speech to the endpoint's speech-stop report or its acceptance of the
            commit.
        first_byte: End of the user's speech to the first audio of the reply.
        voice_to_voice: End of the user's speech to the first audible sample as heard.
        lead_silence: `first_byte` to `voice_to_voice`.
        transcript: End of the user's speech to the first text of the reply.
        barge_in_stop: Start of the user's speech over the reply to the last audible sample heard.
        stalls: Number of playout underruns of the headline response with a jitter buffer of 60 ms.
        stalled_ns: Total length of the underruns.
        lag_ns: Lag of sender and receiver: the error bar of the other values.
        flagged: Whether `lag_ns` exceeds the limit of 20 ms.
        uncertain: Whether the end of the user's speech is uncertain.
        premature: Number of responses before the headline one that were cut off because the same utterance
            continued.
        headline: Index of the measured response in the trace, or None.
    """

    connect: Latency
    endpointing: Latency
    first_byte: Latency
    voice_to_voice: Latency
    lead_silence: Latency
    transcript: Latency
    barge_in_stop: Latency
    stalls: int
    stalled_ns: int
    lag_ns: int
    flagged: bool
    uncertain: bool
    premature: int
    headline: int | None


def is_paced(trace: TurnTrace, marks: ResponseRecord) -> bool:
    """Return whether a response arrived on media at real-time pace."""
    # only on a media track can the first audio differ from the first chunk
    return trace.continuous or marks.first_audio_ns is not None


def headline_response(
    responses: Sequence[ResponseRecord],
    onset_ns: int | None = None,
    voice_end_ns: int | None = None,
    barge_in_ns: int | None = None,
) -> int | None:
    """Return the index of the response that answers the turn; None without an answer.

    The answer is the first response with audio that was not cut off because the utterance continued, or else
    the first response with text. If all were cut off, failed or empty, it is the first one that was cut off
    after the end of the user's speech, or else the first that was not cancelled. A greeting is never the
    answer, except that one that the user spoke over counts if no other response followed.
    """
    answers = sorted(
        (index for index, marks in enumerate(responses) if not is_greeting(marks.done_ns, onset_ns)),
        key=lambda index: began_before(_first_sign_ns(responses[index]), onset_ns),
    )
    whole = [
        index
        for index in answers
        if not is_cut_off(responses[index], barge_in_ns, voice_end_ns)
        and responses[index].status is not ResponseStatus.FAILED
    ]
    spoken = [index for index in whole if len(responses[index].chunk_samples)]
    said = [index for index in whole if responses[index].first_text_ns is not None]
    uncancelled = [index for index in answers if responses[index].status is not ResponseStatus.CANCELLED]
    later = [
        index
        for index in answers
        if voice_end_ns is not None
        and (_cut_off_ns(responses[index]) or 0) > voice_end_ns
        and not began_before(_first_sign_ns(responses[index]), onset_ns)
    ]
    return next(iter((*spoken, *said, *later, *uncancelled, *answers)), None)


def is_greeting(done_ns: int | None, onset_ns: int | None) -> bool:
    """Return whether a response ended by the user's onset; False if either time is missing."""
    return done_ns is not None and onset_ns is not None and done_ns <= onset_ns


def greets(marks: ResponseRecord, onset_ns: int | None) -> bool:
    """Return whether a response in a session's first turn is a greeting: it began before the user's onset."""
    ended = is_greeting(marks.done_ns, onset_ns)  # the response may have no audio and no text
    return ended or began_before(_first_sign_ns(marks), onset_ns)


def began_before(said_ns: int | None, onset_ns: int | None) -> bool:
    """Return whether the first audio or text preceded the user's onset; False if either time is missing."""
    return said_ns is not None and onset_ns is not None and said_ns < onset_ns


def _first_sign_ns(marks: ResponseRecord) -> int | None:
    """Return the arrival time of a response's first audio or text, or None if it has neither."""
    signs = [at_ns for at_ns in (marks.audio_began_ns, marks.first_text_ns) if at_ns is not None]
    return min(signs, default=None)


def is_cut_off(
    marks: ResponseRecord, barge_in_ns: int | None = None, voice_end_ns: int | None = None
) -> bool:
    """Return whether a response was stopped because the user's utterance continued.

    This excludes responses that stop after the user interrupts them (`barge_in_ns`) and responses whose audio
    begins after the utterance (`voice_end_ns`).
    """
    if marks.status is not ResponseStatus.CANCELLED and marks.interrupted_ns is None:
        return False
    began_ns = marks.audio_began_ns
    if began_ns is not None and voice_end_ns is not None and began_ns > voice_end_ns:
        return False
    cut_ns = _cut_off_ns(marks)
    return barge_in_ns is None or cut_ns is None or cut_ns < barge_in_ns


def _cut_off_ns(marks: ResponseRecord) -> int | None:
    """Return the time at which a response was stopped; None if it was not stopped or the time is unknown."""
    cancelled_ns = marks.done_ns if marks.status is ResponseStatus.CANCELLED else None
    cuts = [at_ns for at_ns in (marks.interrupted_ns, cancelled_ns) if at_ns is not None]
    return min(cuts, default=None)


def measure(trace: TurnTrace, reply: Sequence[NDArray[np.int16]]) -> Latencies:
    """Compute a turn's latencies.

    Args:
        reply: Audio of each response in `trace.responses`, int16 mono, shape (samples,), as it arrived.
    """
    headline = headline_response(trace.responses, trace.onset_ns, trace.voice_end_ns, trace.barge_in_ns)
    marks = trace.responses[headline] if headline is not None else None
    playout = None
    if marks is not None and headline is not None and len(marks.chunk_samples):
        playout = _played(trace, marks, reply[headline])
    buffered = play(marks, jitter_buffer_ns=_STALL_BUFFER_NS) if marks is not None else None
    pcm = reply[headline][: playout.end_sample] if playout is not None and headline is not None else None
    onset = audible_onset(pcm, playout.rate_hz) if playout is not None and pcm is not None else None
    audible_ns = playout.heard_ns(onset) if playout is not None and onset is not None else None
    first_audio_ns = marks.audio_began_ns if marks is not None else None

    no_reply = "no response" if marks is None else "the response has no audio"
    first_byte = (
        Latency(None, "continuous media has no first byte")
        if trace.continuous
        else _since_voice_end(trace, first_audio_ns, no_reply)
    )
    silent = no_reply if playout is None else "no audible sample"
    voice_to_voice = _since_voice_end(trace, audible_ns, silent)
    began_ns = _began_ns(trace, marks, audible_ns)
    stopped_ns = trace.committed_ns if trace.committed_ns is not None else _last_stop(trace, began_ns)
    lag_ns = _lag(trace, began_ns, audible_ns)
    return Latencies(
        connect=Latency(trace.ready_ns - trace.dial_ns)
        if trace.ready_ns is not None
        else Latency(None, "no session" if trace.t0_ns is None else "an earlier turn opened the session"),
        endpointing=_since_voice_end(trace, stopped_ns, "the endpoint did not report that speech stopped"),
        first_byte=first_byte,
        voice_to_voice=voice_to_voice,
        lead_silence=Latency(voice_to_voice.ns - first_byte.ns)
        if voice_to_voice.ns is not None and first_byte.ns is not None
        else Latency(None, first_byte.reason or voice_to_voice.reason),
        transcript=_since_voice_end(
            trace, marks.first_text_ns if marks is not None else None, "no reply text"
        ),
        barge_in_stop=_barge_in_stop(trace, reply),
        stalls=len(buffered.stall_ns) if buffered is not None else 0,
        stalled_ns=int(buffered.stall_ns.sum()) if buffered is not None else 0,
        lag_ns=lag_ns,
        flagged=lag_ns > LAG_BOUND_NS,
        uncertain=trace.boundaries_uncertain,
        premature=sum(
            is_cut_off(earlier, trace.barge_in_ns, trace.voice_end_ns) and not greets(earlier, trace.onset_ns)
            for earlier in trace.responses[: headline or 0]
        ),
        headline=headline,
    )


def _played(trace: TurnTrace, marks: ResponseRecord, pcm: NDArray[np.int16]) -> Playout:
    paced = is_paced(trace, marks) and marks.rate_hz is not None
    return play(marks, stretches=audible_stretches(pcm, marks.rate_hz or 1) if paced else ())


def _since_voice_end(trace: TurnTrace, at_ns: int | None, reason: str) -> Latency:
    if trace.voice_end_ns is None:
        return Latency(None, "the end of the user's speech is not known")
    return Latency(None, reason) if at_ns is None else Latency(at_ns - trace.voice_end_ns)


def _last_stop(trace: TurnTrace, began_ns: int | None) -> int | None:
    """Return the endpoint's last speech-stop report before the measured response began, or None."""
    before = [at for at in trace.speech_stopped_ns if began_ns is None or at <= began_ns]
    return before[-1] if before else None


def _began_ns(trace: TurnTrace, marks: ResponseRecord | None, audible_ns: int | None) -> int | None:
    """Return the time at which the endpoint began a response (event or first audio), or None.

    On continuous media, the response's record begins with silence before its onset.
    """
    if marks is None:
        return None
    if trace.continuous and audible_ns is not None:
        return audible_ns
    signs = (marks.created_ns, marks.audio_began_ns)
    return min((at_ns for at_ns in signs if at_ns is not None), default=None)


def _barge_in_stop(trace: TurnTrace, reply: Sequence[NDArray[np.int16]]) -> Latency:
    """Return the time from the user's interruption until the audible reply ends, if it was stopped."""
    if trace.barge_in_ns is None:
        return Latency(None, "the user did not speak over the reply")
    if trace.backchannel:
        return Latency(None, "the user's words over the reply did not ask it to stop")
    last_heard, stopped = 0, False
    for marks, pcm in zip(trace.responses, reply, strict=True):
        if not len(marks.chunk_samples) or int(marks.chunk_arrival_ns[0]) > trace.barge_in_ns:
            continue
        playout = _played(trace, marks, pcm)
        end = audible_end(pcm[: playout.end_sample], playout.rate_hz)
        if end is not None and (heard_ns := playout.heard_ns(end - 1)) > last_heard:
            cancelled = marks.interrupted_ns is not None or marks.status is ResponseStatus.CANCELLED
            # on continuous media, a stop cannot be distinguished from a natural end
            soon = trace.continuous and heard_ns - trace.barge_in_ns <= _YIELDS_WITHIN_NS
            last_heard, stopped = heard_ns, cancelled or soon
    if last_heard < trace.barge_in_ns:
        how = "was stopped before the user's first sound" if stopped else "had already ended"
        return Latency(None, f"censored: the reply {how}")
    if not stopped:
        return Latency(None, "censored: nothing stopped the reply")
    return Latency(last_heard - trace.barge_in_ns)


def _lag(trace: TurnTrace, began_ns: int | None, audible_ns: int | None) -> int:
    """Return the maximum lag that could have changed a latency.

    The maximum covers the frames that could have affected when the endpoint answered (from 200 ms before the
    end of speech, at least the frame that contains the end, until the response began); without kernel
    timestamps, the event loop probes until the reply was audible; and the delay variation of the user's
    devices.
    """
    late = np.zeros(1, np.int64)
    if trace.voice_end_ns is not None and len(trace.frame_sent_ns):
        due = trace.frame_deadline_ns
        # A frame is due with its last sample, so the first frame due after the end of speech contains it.
        last = min(int(np.searchsorted(due, trace.voice_end_ns)), len(due) - 1)
        decides = due > trace.voice_end_ns - SPEECH_TAIL_NS
        if began_ns is not None:
            decides &= due <= began_ns
        decides[last] = True
        late = np.append(late, (trace.frame_sent_ns - due)[decides])
    if trace.stamps is StampKind.KERNEL:
        return max(int(late.max()), trace.stamp_error_ns) + trace.device_spread_ns
    probed = trace.probe_lag_ns
    if audible_ns is not None:
        probed = probed[trace.probe_at_ns <= audible_ns]
    return int(np.append(late, probed).max()) + trace.device_spread_ns
