"""Run one session of a live conversation, with its audio, updates and turns."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

import numpy as np

from live_eval.clock import Clock
from live_eval.dialect import InputTranscript, ReplyText, StreamText
from live_eval.errors import FailureKind
from live_eval.live.captures import LiveCaptures
from live_eval.live.microphone import Microphone
from live_eval.live.recorder import LiveRecorder
from live_eval.live.reply import AudioSink, HeardAudio, IncomingReply
from live_eval.live.updates import AudioSide, SpeechDetected, State, StateChanged, TranscriptPiece, Update
from live_eval.session import Session
from live_eval.session.capture import LoggedMessage, TurnCapture
from live_eval.session.speaker import EndpointEvent, EndpointPacket, Frame, Heard, ReplyEnded, Speaker
from live_eval.types import Failure

__all__ = ["LiveSession"]


class LiveSession:
    """Run a session that reports its updates and records its turns.

    Args:
        continuous: Whether the endpoint's audio never pauses between replies.
        manual: Whether the endpoint waits for a commit and therefore does not detect interruptions.
        collect: Function that collects garbage after a reply, while automatic collection is off.
        output: What the person hears; None for this session's replies.
    """

    def __init__(
        self,
        session: Session,
        captures: LiveCaptures,
        recorder: LiveRecorder,
        sink: AudioSink,
        *,
        tell: Callable[[Update], None],
        clock: Clock,
        continuous: bool = False,
        manual: bool = False,
        collect: Callable[[], object] = gc.collect,
        output: HeardAudio | None = None,
    ) -> None:
        self.reply = IncomingReply(sink)
        """The endpoint's reply."""
        self.captures = captures
        """The turns so far."""
        self.first: TurnCapture | None = None
        """The first completed turn with user audio."""
        self.failure: Failure | None = None
        """The failure of the last ended turn."""
        self._session = session
        self._recorder = recorder
        self._sink = sink
        self._tell = tell
        self._clock = clock
        self._continuous = continuous
        self._manual = manual
        self._collect = collect
        self._output = output or self.reply.heard
        self._began_ns = 0  # the first sample of the last utterance
        self._speaking = False  # whether it continues
        self._overheard: Microphone | None = None
        self._speaker: _Observed | None = None  # set while the session runs
        self._ready = False
        self._failing: Failure | None = None  # failure of the turn in progress, already recorded

    async def run(self, speaker: Speaker, *, overheard_by: Microphone | None = None) -> None:
        """Run the session until its end.

        Args:
            speaker: A person or recordings.
            overheard_by: Level meter for recordings, which the sink also plays. None for a person, whose
                session continues after a failed turn.
        """
        self._overheard = overheard_by
        self._speaker = _Observed(speaker, self._on_frame, self._on_heard, self.reply.is_playing)
        await self._session.run(self._speaker, on_turn=self._on_turn, survives_failures=overheard_by is None)
        self._speaker = None
        self.reply.stop(self._clock.now_ns())  # no event follows that could end it

    def leave(self) -> None:
        """End the session at the next frame."""
        if self._speaker is not None:
            self._speaker.has_left = True

    def check(self, now_ns: int) -> None:
        """Record the turns so far if a reply or a failed turn has ended. Call this frequently."""
        ended_ns = self.reply.ended(now_ns)
        if ended_ns is not None:
            self._record_so_far(ended_ns)
            if not gc.isenabled():
                self._collect()
        failure = self._session.failure if self._speaker is not None else None
        if failure != self._failing:
            self._failing = failure
            if failure is not None:
                self._record_so_far(now_ns)

    def _on_frame(self, frame: Frame, start_ns: int) -> None:
        if not self._ready:
            self._ready = True
            self._tell(StateChanged(State.TALKING))
        user = self.captures.user
        user.append(start_ns, frame.pcm)
        if self._overheard is not None:
            pcm = np.frombuffer(frame.pcm, np.int16)
            self._overheard.measure(pcm, user.rate_hz)
            self._sink.play(AudioSide.USER, pcm, user.rate_hz, paced=True)
        if frame.began is not None:
            barge_in = self.reply.is_playing(frame.began.onset_ns)
            if barge_in and self._manual:
                self.reply.stop(self._clock.now_ns())
            self._tell(SpeechDetected(speaking=True, barge_in=barge_in))
            self._began_ns, self._speaking = frame.began.t0_ns, True
        if frame.ended is not None:
            self._speaking = False
            if self._overheard is None:
                voice_end_ns = self._began_ns + frame.ended.boundaries.voice_end_ns
                self.captures.overheard(self._began_ns, voice_end_ns, self._output)
            self._tell(SpeechDetected(speaking=False))

    def _on_heard(self, heard: Heard) -> None:
        match heard:
            case EndpointPacket(packet):
                self.reply.packet(packet)
            case EndpointEvent(event, at_ns):
                self.reply.event(event, at_ns)
                match event:
                    case ReplyText() | StreamText():
                        self._tell(TranscriptPiece(AudioSide.REPLY, event.text, event.final))
                    case InputTranscript() if not event.failed:
                        self._tell(TranscriptPiece(AudioSide.USER, event.text, event.final))
            case ReplyEnded(at_ns) if self._continuous:
                self._record_so_far(at_ns)

    def _on_turn(self, capture: TurnCapture, log: Callable[[], Sequence[LoggedMessage]]) -> None:
        self.failure = capture.failure
        if capture.trace.t0_ns is not None and not self._left_amid(capture):
            self.first = self.first or capture
            now_ns = self._clock.now_ns()
            self._recorder.record(self.captures.capture_of(capture, now_ns), log, now_ns)
            self.captures.user.forget(capture.trace.t0_ns)

    def _left_amid(self, capture: TurnCapture) -> bool:
        """Return whether the user ended the session during the turn's utterance, without another failure."""
        left = self._speaker is not None and self._speaker.has_left
        amid = self._speaking and capture.trace.t0_ns == self._began_ns and not capture.wire
        no_reply = capture.failure is None or capture.failure.kind is FailureKind.NO_RESPONSE
        return left and amid and no_reply

    def _record_so_far(self, ended_ns: int) -> None:
        """Record the turns in progress after a reply or a failed turn ended at `ended_ns`."""

        def take(capture: TurnCapture, log: Callable[[], Sequence[LoggedMessage]]) -> None:
            spoken = capture.trace.voice_end_ns is not None
            if spoken and (capture.wire or capture.failure is not None):
                self._recorder.record(self.captures.capture_of(capture, self._clock.now_ns()), log, ended_ns)

        if self._speaker is not None:
            self._session.so_far(take)


class _Observed:
    """Pass the frames that a `Speaker` sends and receives to observers.

    After the speaker has finished, silence is sent while `continues` returns true.
    """

    listens = True

    def __init__(
        self,
        speaker: Speaker,
        on_frame: Callable[[Frame, int], None],
        on_heard: Callable[[Heard], None],
        continues: Callable[[int], bool],
    ) -> None:
        self.frame_ns = speaker.frame_ns
        self.has_left = False
        self._speaker = speaker
        self._on_frame = on_frame
        self._on_heard = on_heard
        self._continues = continues
        self._silence = Frame(b"")

    def hear(self, heard: Heard) -> None:
        self._on_heard(heard)
        self._speaker.hear(heard)

    def frame(self, now_ns: int, start_ns: int) -> Frame | None:
        if self.has_left:
            return None
        frame = self._speaker.frame(now_ns, start_ns)
        if frame is None and self._continues(now_ns):
            frame = self._silence
        if frame is not None:
            self._on_frame(frame, start_ns)
            self._silence = Frame(bytes(len(frame.pcm)))
        return frame
