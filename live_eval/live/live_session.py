"""One session of a live conversation: what is said and heard becomes sound, updates and turns to keep."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

import numpy as np

from live_eval.clock import Clock
from live_eval.dialect import InputTranscript, ReplyText, StreamText
from live_eval.live.microphone import Microphone
from live_eval.live.reply import AudioSink, IncomingReply
from live_eval.live.said import Observed
from live_eval.live.spoken_turns import SpokenTurns
from live_eval.live.turn_keeper import TurnKeeper
from live_eval.live.updates import SoundSide, SpeechDetected, State, StateChanged, TranscriptPiece, Update
from live_eval.recording.record import LoggedMessage, TurnCapture
from live_eval.session import Session
from live_eval.session.speaker import EndpointEvent, EndpointPacket, Frame, Heard, ReplyEnded, Speaker
from live_eval.types import Failure

__all__ = ["LiveSession"]


class LiveSession:
    """Runs a session and follows it.

    Args:
        session: The session.
        turns: Numbers its turns.
        keeper: Keeps its turns.
        sink: Plays what is to be heard.
        tell: Takes updates.
        clock: The conversation's clock.
        continuous: Whether the endpoint's audio never pauses between replies.
        manual: Whether the endpoint waits for a commit, so that it does not notice an interruption.
    """

    def __init__(
        self,
        session: Session,
        turns: SpokenTurns,
        keeper: TurnKeeper,
        sink: AudioSink,
        *,
        tell: Callable[[Update], None],
        clock: Clock,
        continuous: bool = False,
        manual: bool = False,
    ) -> None:
        self.reply = IncomingReply(sink)
        """The endpoint's reply."""
        self.turns = turns
        """The turns so far."""
        self.first: TurnCapture | None = None
        """The first turn that has ended in which something was said."""
        self.failure: Failure | None = None
        """Why the last turn that failed did."""
        self._session = session
        self._keeper = keeper
        self._sink = sink
        self._tell = tell
        self._clock = clock
        self._continuous = continuous
        self._manual = manual
        self._overheard: Microphone | None = None
        self._speaker: Observed | None = None  # while the session runs
        self._ready = False
        self._failing: Failure | None = None  # of the turn in progress, as kept

    async def run(self, speaker: Speaker, *, overheard_by: Microphone | None = None) -> None:
        """Run the session until its end.

        Args:
            speaker: The person, or recordings.
            overheard_by: Shows the level of recordings, which are played as well; None for a person, whose
                session survives a turn that fails.
        """
        self._overheard = overheard_by
        self._speaker = Observed(speaker, self._on_frame, self._on_heard, self.reply.sounds)
        await self._session.run(self._speaker, on_turn=self._on_turn, perseveres=overheard_by is None)
        self._speaker = None
        self._sink.drop()

    def leave(self) -> None:
        """End the session with the next frame."""
        if self._speaker is not None:
            self._speaker.leave()

    def look(self, now_ns: int) -> None:
        """Keep the turns so far if a reply, or a turn that failed, has ended. To be called often."""
        ended_ns = self.reply.ended(now_ns)
        if ended_ns is not None:
            self._keep_so_far(ended_ns)
            if not gc.isenabled():
                gc.collect()
        failure = self._session.failure if self._speaker is not None else None
        if failure != self._failing:
            self._failing = failure
            if failure is not None:
                self._keep_so_far(now_ns)

    def _on_frame(self, frame: Frame, start_ns: int) -> None:
        if not self._ready:
            self._ready = True
            self._tell(StateChanged(State.TALKING))
        said = self.turns.said
        said.append(start_ns, frame.pcm)
        if self._overheard is not None:
            pcm = np.frombuffer(frame.pcm, np.int16)
            self._overheard.overhear(pcm)
            self._sink.play(SoundSide.USER, pcm, said.rate_hz, paced=True)
        if frame.began is not None:
            barge_in = self.reply.sounds(frame.began.onset_ns)
            if barge_in and self._manual:
                self.reply.stop(self._clock.now_ns())
            self._tell(SpeechDetected(speaking=True, barge_in=barge_in))
        if frame.ended is not None:
            self._tell(SpeechDetected(speaking=False))

    def _on_heard(self, heard: Heard) -> None:
        match heard:
            case EndpointPacket(packet):
                self.reply.packet(packet)
            case EndpointEvent(event, at_ns):
                self.reply.event(event, at_ns)
                match event:
                    case ReplyText():
                        self._tell(TranscriptPiece(SoundSide.REPLY, event.text, event.final))
                    case StreamText():
                        self._tell(TranscriptPiece(SoundSide.REPLY, event.text))
                    case InputTranscript() if not event.failed:
                        self._tell(TranscriptPiece(SoundSide.USER, event.text, event.final))
            case ReplyEnded(at_ns) if self._continuous:
                self._keep_so_far(at_ns)

    def _on_turn(self, capture: TurnCapture, log: Callable[[], Sequence[LoggedMessage]]) -> None:
        """Take a turn that has ended."""
        if capture.failure is not None:
            self.failure = capture.failure
        if capture.trace.t0_ns is not None:  # something was said
            self.first = self.first or capture
            now_ns = self._clock.now_ns()
            self._keeper.keep(self.turns.turn(capture, now_ns), log, now_ns)
            self.turns.said.forget(capture.trace.t0_ns)

    def _keep_so_far(self, ended_ns: int) -> None:
        """Keep the turns in progress: a reply, or a turn that failed, ended at `ended_ns`."""

        def take(capture: TurnCapture, log: Callable[[], Sequence[LoggedMessage]]) -> None:
            spoken = capture.trace.voice_end_ns is not None
            if spoken and (capture.wire or capture.failure is not None):
                self._keeper.keep(self.turns.turn(capture, self._clock.now_ns()), log, ended_ns)

        if self._speaker is not None:
            self._session.so_far(take)
