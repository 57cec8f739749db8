"""A turn in the hands of a session: what happens in it while it is held, and what is kept of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from live_eval.capture import TurnCapture
from live_eval.clock import Pacer
from live_eval.dialect import Message
from live_eval.loop import ProbeReading
from live_eval.rtp import MediaStats
from live_eval.timeline import TurnTrace
from live_eval.turn import TurnState
from live_eval.types import SpeechEdges

__all__ = ["HeldTurn"]


@dataclass(slots=True, kw_only=True, eq=False)
class HeldTurn:
    """One turn of a session while it is held.

    Args:
        edges: Where the speaker's own sound lies in the recording.
        state: What is known of the turn.
        begun_ns: Dialling began, or for a later turn of a dialogue the turn.
        wall_ns: The same in nanoseconds since the Unix epoch.
        messages: Messages with their times, and whether they came in.
        deadlines: When each frame was due.
        sent: When each frame was handed to the transport.
        t0_ns: Sample 0 of the recording is spoken; None where it did not come to that.
        pacer: Paces the frames.
        late_speech_frames: Frames of speech that left more than a frame late.
        skipped_silence_frames: Frames of silence given up for lateness.
        sent_stats: What the transport knows of our packets since the session began.
        sent_before: The same at the end of the turn before.
        reading: How late the event loop was.
    """

    edges: SpeechEdges
    state: TurnState
    begun_ns: int
    wall_ns: int
    messages: list[tuple[int, bool, Message]] = field(default_factory=list)
    deadlines: list[int] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    t0_ns: int | None = None
    pacer: Pacer | None = None
    late_speech_frames: int = 0
    skipped_silence_frames: int = 0
    sent_stats: MediaStats | None = None
    sent_before: MediaStats | None = None
    reading: ProbeReading | None = None

    def speaks(self, pacer: Pacer, t0_ns: int) -> None:
        """The recording begins at `t0_ns`, paced by `pacer`, which may have paced what came before."""
        self.pacer, self.t0_ns = pacer, t0_ns
        self.late_speech_frames = -pacer.late_speech_frames
        self.skipped_silence_frames = -pacer.skipped_silence_frames

    def ended(self, reading: ProbeReading | None, sent_stats: MediaStats | None) -> None:
        """Nothing of what comes is the turn's any more, but what is known to be its own."""
        self.reading, self.sent_stats = reading, sent_stats
        if self.pacer is not None:
            self.late_speech_frames += self.pacer.late_speech_frames
            self.skipped_silence_frames += self.pacer.skipped_silence_frames

    @property
    def timed_from_ns(self) -> int:
        """From when on a late event loop would falsify what is measured."""
        return self.begun_ns if self.t0_ns is None else self.t0_ns + self.edges.voice_end_ns - 200_000_000

    def captured(self, *, manual: bool, continuous: bool, setup_ns: Mapping[str, int]) -> TurnCapture:
        """Return what is kept of the turn.

        Args:
            manual: Whether we commit the user's turns.
            continuous: Whether energy decides what is a reply.
            setup_ns: How long each step of the connection's setup took; empty for a later turn.
        """
        state, t0_ns, edges, reading = self.state, self.t0_ns, self.edges, self.reading
        nothing = np.empty(0, np.int64)
        trace = TurnTrace(
            dial_ns=self.begun_ns,
            ready_ns=state.ready_ns,
            t0_ns=t0_ns,
            onset_ns=None if t0_ns is None else t0_ns + edges.onset_ns,
            voice_end_ns=None if t0_ns is None else t0_ns + edges.voice_end_ns,
            edges_uncertain=edges.uncertain,
            frame_deadline_ns=np.asarray(self.deadlines, np.int64),
            frame_sent_ns=np.asarray(self.sent, np.int64),
            speech_stopped_ns=tuple(state.speech_stopped_ns),
            committed_ns=state.committed_ns if manual else None,
            probe_at_ns=reading.at_ns if reading is not None else nothing,
            probe_lag_ns=reading.lag_ns if reading is not None else nothing,
            continuous=continuous,
            setup_ns=dict(setup_ns),
        )
        return TurnCapture(
            trace=trace,
            responses=state.responses,
            heard_text=state.heard_text,
            rate_limits=tuple(state.rate_limits),
            session_id=state.session_id,
            model=state.model,
            wall_ns=self.wall_ns,
            late_speech_frames=self.late_speech_frames,
            skipped_silence_frames=self.skipped_silence_frames,
            failure=state.failure,
            retry_after_s=state.retry_after_s,
            warnings=tuple(state.warnings),
            media=self._media(),
        )

    def _media(self) -> MediaStats | None:
        """Return what became of the turn's packets; what the transport counts, it counts by session."""
        heard, sent, before = self.state.media, self.sent_stats, self.sent_before
        if heard is None or sent is None:
            return heard
        return replace(
            heard,
            sent_packets=_since(sent.sent_packets, before.sent_packets if before is not None else None),
            sent_lost=_since(sent.sent_lost, before.sent_lost if before is not None else None),
            round_trip_ns=sent.round_trip_ns,
        )


def _since(count: int | None, before: int | None) -> int | None:
    return count if count is None or before is None else count - before
