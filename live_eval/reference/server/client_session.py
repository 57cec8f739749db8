"""Run one client's session: pass inputs to the protocol and send its outputs.

The receiver, the sender of due reply pieces and the voice detector run concurrently, among other tasks. To
keep the engine's order of messages, one lock covers each engine call and the sending of its outputs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NamedTuple, Protocol, TypeVar

from live_eval.audio import Codec
from live_eval.clock import Clock
from live_eval.reference.engine import events
from live_eval.reference.engine.reply_plan import ReplyPacker, WireReply
from live_eval.reference.faults.catalogue import FaultName, Moment
from live_eval.reference.faults.fault_script import Fault
from live_eval.reference.faults.injection import FaultyChannel, SessionFaults
from live_eval.reference.protocols.protocol import START_S, ServerProtocol
from live_eval.reference.responders.responder import NoReplyError, Responder
from live_eval.reference.responders.speech_models import DetectionStream, NotHeardError, SpeechModels
from live_eval.reference.server.output_buffer import ReplyPlayer, SessionAudio
from live_eval.reference.truth import TrueReply, TrueUtterance, TruthKeeper
from live_eval.transport import Arrival

__all__ = ["Channel", "ServerSession", "packer"]

_T = TypeVar("_T")

# interval between checks for due output
_LOOK_UP_NS = 20_000_000
_SECOND_NS = 1_000_000_000
_MS_NS = 1_000_000


class Channel(FaultyChannel, Protocol):
    """A connection to one client, which drops messages after it has ended."""

    async def receive(self) -> Arrival | None:
        """Wait for the next message; return None once the connection has ended."""
        ...


class _Recognition(NamedTuple):
    """A recognition result: the text, or None and the reason."""

    text: str | None
    reason: str = ""


class _Guess(NamedTuple):
    speech_ms: int
    words: asyncio.Task[_Recognition]


class ServerSession:
    """Run one session.

    Args:
        channel: The open connection.
        protocol: The dialect, with its engine.
        responder: The source of replies.
        fixed: The fixed reply, in the session's initial output encoding, or None.
        truth: Called with the true times of each finished response and each completed user utterance.
        audio: The media track; None if audio is sent in messages.
    """

    def __init__(
        self,
        channel: Channel,
        protocol: ServerProtocol,
        speech_models: SpeechModels,
        responder: Responder,
        fixed: WireReply | None,
        clock: Clock,
        truth: Callable[[TrueReply | TrueUtterance], None],
        audio: SessionAudio | None = None,
    ) -> None:
        self._channel = channel
        self._protocol = protocol
        self._engine = protocol.engine
        self._speech_models = speech_models
        self._responder = responder
        self._fixed = fixed
        self._fixed_codec = protocol.engine.config.output_codec
        self._clock = clock
        self._truth = truth
        self._keeper: TruthKeeper | None = None
        self._audio = audio
        self._player: ReplyPlayer | None = None
        if audio is not None:
            idle = self._engine.settings.idle_rtp
            self._player = ReplyPlayer(
                audio.media, clock, idle, notify=self._played, packet_sent=self._packet_sent
            )
        self._script = self._engine.settings.faults
        self._faults = SessionFaults(self._script, protocol, on_track=audio is not None)
        self._lock = asyncio.Lock()
        self._due_changed = asyncio.Event()
        self._reacts_ns: int | None = None
        self._reaction_changed = asyncio.Event()
        self._unheard: deque[events.DetectSpeech] = deque()
        self._heard_more = asyncio.Event()
        self._guesses: dict[str, _Guess] = {}
        self._answers: dict[str, asyncio.Task[None]] = {}
        self._jobs: set[asyncio.Task[Any]] = set()
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Run the session until the connection ends."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                jobs = [self._speak(), self._detect(), self._expire(), self._inject_timed(), self._greet()]
                if not self._script.has(FaultName.NEVER_READY):
                    jobs.append(self._expect_start())
                if self._engine.settings.scripted:
                    jobs.append(self._react())
                if self._audio is not None and self._player is not None:
                    jobs += [self._player.run(), self._hear(self._audio)]
                helpers = [self._tasks.create_task(job) for job in jobs]
                await self._read()
                for task in (*helpers, *self._jobs):
                    task.cancel()
        finally:
            for utterance in self._engine.utterances_left():
                self._truth(self._truths.utterance(utterance))
            for turn in self._keeper.closed() if self._keeper is not None else ():
                self._truth(turn)

    async def _read(self) -> None:
        never_ready = self._script.has(FaultName.NEVER_READY)
        if not never_ready:
            async with self._lock:
                await self._carry_out(self._protocol.opened())
                await self._carry_out(self._script.at(Moment.OPEN))
        while (arrival := await self._channel.receive()) is not None:
            if never_ready:
                continue
            async with self._lock:
                await self._carry_out(self._protocol.received(arrival.message, arrival.at_ns))

    async def _hear(self, audio: SessionAudio) -> None:
        """Pass each packet of the user's audio to the engine."""
        while (heard := await audio.media.hear()) is not None:
            async with self._lock:
                await self._carry_out(self._engine.audio(heard.pcm, heard.at_ns))

    async def _speak(self) -> None:
        """Send due outputs, yielding to the event loop after each chunk to send it immediately."""
        while True:
            wake_ns = self._engine.wake_ns
            now_ns = self._clock.now_ns()
            if wake_ns is None:
                self._due_changed.clear()
                await self._due_changed.wait()
            elif wake_ns > now_ns:
                await self._clock.sleep_until(min(wake_ns, now_ns + _LOOK_UP_NS))
            else:
                async with self._lock:
                    await self._carry_out(self._engine.due(self._clock.now_ns()))
                await self._clock.sleep_until(now_ns)

    async def _react(self) -> None:
        """Apply scheduled reactions to the user's speech when they are due."""
        while True:
            self._reaction_changed.clear()
            self._reacts_ns = self._engine.reacts_ns
            waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._reaction_changed.wait())]
            if self._reacts_ns is not None:
                waits.append(asyncio.ensure_future(self._clock.sleep_until(self._reacts_ns)))
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            due_ns = self._engine.reacts_ns
            if due_ns is not None and due_ns <= self._clock.now_ns():
                async with self._lock:
                    await self._carry_out(self._engine.react(self._clock.now_ns()))

    async def _expect_start(self) -> None:
        await self._clock.sleep_until(self._clock.now_ns() + START_S * _SECOND_NS)
        async with self._lock:
            await self._carry_out(self._protocol.not_started())

    async def _expire(self) -> None:
        settings = self._engine.settings
        cap = self._script.get(FaultName.SESSION_CAP)
        notice_s = 0 if cap is not None else min(settings.notice_s, settings.session_limit_s)
        limit_ns = settings.session_limit_s * _SECOND_NS if cap is None else cap.number * _MS_NS
        end_ns = self._clock.now_ns() + limit_ns
        await self._clock.sleep_until(end_ns - notice_s * _SECOND_NS)
        if notice_s > 0:
            async with self._lock:
                await self._carry_out(self._protocol.expires_soon(notice_s))
        await self._clock.sleep_until(end_ns)
        async with self._lock:
            await self._carry_out(self._protocol.expired())

    async def _greet(self) -> None:
        """Speak first if configured to do so."""
        greeting_ms = self._engine.settings.greeting_ms
        if greeting_ms is not None:
            await self._clock.sleep_until(self._clock.now_ns() + greeting_ms * _MS_NS)
            async with self._lock:
                await self._carry_out(self._engine.respond(self._clock.now_ns()))

    async def _inject_timed(self) -> None:
        """Inject faults at their scheduled session times."""
        began_ns = self._clock.now_ns()
        for fault in self._script.timed():
            await self._clock.sleep_until(began_ns + (fault.after_ms or 0) * _MS_NS)
            async with self._lock:
                await self._carry_out([fault])

    async def _detect(self) -> None:
        stream: DetectionStream | None = None
        epoch = 0
        while True:
            await self._heard_more.wait()
            self._heard_more.clear()
            while self._unheard:
                first = self._unheard[0]
                # include all audio that arrived while the detector ran
                data = b"".join(self._take_unheard(first.epoch))
                if stream is None or epoch != first.epoch:
                    stream, epoch = await self._speech_models.open_stream(first.codec), first.epoch
                probabilities = await self._speech_models.detect(stream, data)
                if probabilities:
                    async with self._lock:
                        await self._carry_out(self._engine.heard(epoch, probabilities, self._clock.now_ns()))

    def _take_unheard(self, epoch: int) -> Iterable[bytes]:
        while self._unheard and self._unheard[0].epoch == epoch:
            yield self._unheard.popleft().data

    # -- Executing outputs -----------------------------------------------------------------------------------

    async def _carry_out(self, outputs: Iterable[events.Output]) -> None:
        waiting = deque(outputs)
        while waiting:
            output = waiting.popleft()
            match output:
                case events.SendMessage(message=message):
                    await self._channel.send(message)
                case events.DetectSpeech():
                    self._unheard.append(output)
                    self._heard_more.set()
                case events.RecogniseSpeech():
                    waiting.extend(self._listen(output))
                case events.FindReply():
                    waiting.extend(self._answer(output))
                case events.DropUnplayed():
                    await self._drop_unplayed()
                case events.UserUtterance():
                    self._truth(self._truths.utterance(output))
                case events.CloseConnection(code=code, reason=reason):
                    await self._channel.close(code, reason)
                case Fault():
                    if not await self._faults.strike(output, self._channel):
                        await self._notify(output)
                case _:
                    await self._notify(self._faults.altered(output))
                    if isinstance(output, events.UserSpeechStarted):
                        waiting.extend(self._script.at(Moment.SPEECH))
        if self._engine.wake_ns is not None:
            self._due_changed.set()
        if self._engine.reacts_ns != self._reacts_ns:
            self._reaction_changed.set()

    @property
    def _truths(self) -> TruthKeeper:
        # the first message may resume a session with another ID
        if self._keeper is None:
            engine = self._engine
            paced = engine.config.frame_ms is not None
            self._keeper = TruthKeeper(engine.session_id, engine.settings.label, paced=paced)
        return self._keeper

    async def _notify(self, event: events.Event) -> None:
        if self._player is not None and isinstance(event, events.AudioPiece):
            if await self._player.push(event):
                self._truths.queued(event)
            return
        await self._send(self._faults.late(event))
        sent_ns = await self._send(self._faults.rendered(event))
        at_ns = sent_ns[self._protocol.deciding_message(event)] if sent_ns else self._clock.now_ns()
        self._log_reply(self._truths.sent(event, at_ns, stops=self._protocol.reports_stops))
        if isinstance(event, events.ResponseEnded):
            if self._player is not None:
                self._player.ended(event.response)
            answer = self._answers.pop(event.response.response_id, None)
            if answer is not None and answer is not asyncio.current_task():
                answer.cancel()

    async def _send(self, messages: Iterable[bytes | events.CloseConnection]) -> list[int]:
        """Send messages; return the time of each."""
        sent_ns: list[int] = []
        for message in messages:
            if isinstance(message, events.CloseConnection):
                await self._channel.close(message.code, message.reason)
            else:
                sent_ns.append(await self._channel.send(message))
        return sent_ns

    def _log_reply(self, truth: TrueReply | None) -> None:
        if truth is not None:
            self._truth(truth)

    async def _drop_unplayed(self) -> None:
        """Drop the unplayed audio of a media track."""
        if self._audio is None or self._player is None:
            return
        for playback in self._player.clear():
            told_ns = self._clock.now_ns() if self._protocol.reports_stops else None
            await self._carry_out(self._audio.playback(playback))
            self._log_reply(self._truths.dropped(playback.response.response_id, told_ns))

    async def _played(self, playback: events.TrackPlayback) -> None:
        """Pass a playback report to the protocol."""
        assert self._audio is not None
        await self._carry_out(self._audio.playback(playback))

    def _packet_sent(self, piece: events.AudioPiece, at_ns: int) -> None:
        """Record that a packet with a reply piece is about to be sent."""
        self._log_reply(self._truths.played(piece, at_ns))

    def _listen(self, work: events.RecogniseSpeech) -> Iterable[events.Output]:
        lacking = self._speech_models.lacking
        if lacking is not None:
            return self._engine.recognised(work.item_id, work.part, None, lacking) if work.final else ()
        guess = self._guesses.pop(work.item_id, None)
        if guess is not None and guess.speech_ms == work.speech_ms:
            words = guess.words
        else:
            if guess is not None:
                guess.words.cancel()
            words = self._begin(self._recognise(work))
        if work.final:
            self._begin(self._deliver(work, words))
        else:
            self._guesses[work.item_id] = _Guess(work.speech_ms, words)
        return ()

    async def _recognise(self, work: events.RecogniseSpeech) -> _Recognition:
        if not work.audio:
            return _Recognition("")
        try:
            return _Recognition(await self._speech_models.recognise(work.audio, work.codec))
        except NotHeardError as error:
            return _Recognition(None, str(error))

    async def _deliver(self, work: events.RecogniseSpeech, recognition: asyncio.Task[_Recognition]) -> None:
        words = await recognition
        async with self._lock:
            await self._carry_out(self._engine.recognised(work.item_id, work.part, words.text, words.reason))

    def _answer(self, work: events.FindReply) -> Iterable[events.Output]:
        if self._fixed is not None and work.wants_audio and work.codec == self._fixed_codec:
            return self._engine.reply(work.response_id, self._fixed, self._clock.now_ns())
        self._answers[work.response_id] = self._begin(self._find_answer(work))
        return ()

    async def _find_answer(self, work: events.FindReply) -> None:
        packs = await asyncio.to_thread(packer, self._protocol, work.codec)
        try:
            async with contextlib.aclosing(self._responder.reply(work, self._engine.settings)) as pieces:
                async for piece in pieces:
                    wire = await asyncio.to_thread(packs.pack, piece)
                    async with self._lock:
                        await self._carry_out(
                            self._engine.reply(work.response_id, wire, self._clock.now_ns())
                        )
        except NoReplyError as error:
            async with self._lock:
                await self._carry_out(self._engine.reply_failed(work.response_id, error.code, error.message))

    def _begin(self, job: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        assert self._tasks is not None
        task = self._tasks.create_task(job)
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)
        return task


def packer(protocol: ServerProtocol, codec: Codec) -> ReplyPacker:
    """Return the encoder for a session's replies, in `codec`.

    It may load a codec, so do not call it in the event loop.
    """
    engine = protocol.engine
    faults = engine.settings.faults
    return ReplyPacker(
        codec=faults.codec(codec),
        lead_silence_ms=engine.settings.lead_silence_ms,
        chunk_ms=engine.chunk_ms,
        encode=protocol.encode,
        decoder_delay_samples=protocol.decoder_delay_samples,
        whole=engine.config.frame_ms is not None,
        muted=faults.has(FaultName.SILENT_AUDIO),
    )
