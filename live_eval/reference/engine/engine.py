"""Run one session of the reference endpoint, independently of dialect, socket, clock and models.

Each input has a time. Each output is either work for the host or an event for the client (see `events`). The
host runs the models and returns their results. Call `Engine.due` at `Engine.wake_ns` for delayed outputs, and
`Engine.react` at `Engine.reacts_ns` for scheduled reactions to overlapping speech.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from live_eval.audio import Codec, CodecName
from live_eval.reference.engine.conversation_items import (
    MOST_BYTES,
    MOST_ITEMS,
    Item,
    ItemHistory,
    ItemStatus,
    PartKind,
    Role,
    words,
)
from live_eval.reference.engine.endpointer import Detection
from live_eval.reference.engine.events import (
    DropUnplayed,
    FindReply,
    InputTranscribed,
    ItemAdded,
    Output,
    Problem,
    RecogniseSpeech,
    ReplyBegan,
    ResponseCreated,
    ServerResponse,
    UserSpeechStarted,
    UserUtterance,
    VoiceEnd,
)
from live_eval.reference.engine.listening import Heard, Listening, SpeechCommitted
from live_eval.reference.engine.overlap import AnswerTime, Overlap
from live_eval.reference.engine.reply_plan import ReplyEnd, WireReply, text_tokens
from live_eval.reference.engine.speaking import Speaking, Streaming
from live_eval.reference.faults.catalogue import FaultName
from live_eval.reference.settings import ReferenceSettings
from live_eval.timing import ResponseStatus

__all__ = ["PCM_24K", "Engine", "EngineConfig"]

PCM_24K = Codec(CodecName.PCM16, 24_000)
"""Default audio format of a session."""

_INPUT_AUDIO_TOKEN_MS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """A session's settings, independent of the dialect.

    Args:
        input_codec: Encoding of the user's audio.
        output_codec: Encoding of reply audio.
        detection: Turn detection; None if the client commits turns.
        create_response: Whether the end of speech creates a response.
        interrupt_response: Whether the start of speech cancels the response.
        transcribe: Whether the client requests transcripts of the input.
        instructions: System prompt; may be empty.
        wants_audio: Whether replies are spoken.
        speed: Relative speed of the voice.
        lossy_input: Whether the input was decoded from a lossy codec. If so, call `Engine.audio` once per
            packet.
        frame_ms: Frame duration of a continuous output stream, which contains silence between replies and is
            sent only while the user's audio arrives; None to send only replies.
    """

    input_codec: Codec = PCM_24K
    output_codec: Codec = PCM_24K
    detection: Detection | None = field(default_factory=Detection)
    create_response: bool = True
    interrupt_response: bool = True
    transcribe: bool = False
    instructions: str = ""
    wants_audio: bool = True
    max_output_tokens: int | None = None
    speed: float = 1.0
    lossy_input: bool = False
    frame_ms: int | None = None


class Engine:
    """Run one session.

    Args:
        session_id: Session ID, from which item and response IDs are derived.
        settings: Behaviour of the session.
        config: Initial session settings.
        waits_for_words: Whether to wait for the recognised text before generating a reply.
    """

    def __init__(
        self,
        session_id: str,
        settings: ReferenceSettings,
        config: EngineConfig | None = None,
        *,
        waits_for_words: bool = True,
    ) -> None:
        self.session_id = session_id
        self.settings = settings
        self.config = config or EngineConfig()
        self.conversation = ItemHistory()
        self._waits_for_words = waits_for_words
        self._named = 0
        self._listening = Listening(
            self.config.input_codec,
            self.config.detection,
            calibrate=settings.calibrate,
            guesses=waits_for_words,
            session_id=session_id,
            lossy=self.config.lossy_input,
            end_silence_ms=settings.end_silence_ms,
        )
        self._speaking = Speaking(settings)
        self._stream = self._new_stream()
        self._responses = 0
        self._asks_for: Sequence[Item] | None = None
        self._asked = True
        self._voice_end: VoiceEnd | None = None
        self._overlap = Overlap(settings)
        self._owes_answer = False
        self._rest: tuple[str, WireReply] | None = None
        self._unrecognised: dict[str, Item] = {}

    @property
    def active(self) -> ServerResponse | None:
        """The response in progress, or None."""
        return self._speaking.active

    @property
    def wake_ns(self) -> int | None:
        """Time of the next call to `due`; None if no output is pending."""
        return (self._stream or self._speaking).wake_ns

    @property
    def reacts_ns(self) -> int | None:
        """Time of the next call to `react`; 0 if it is due now, None if no reaction is pending."""
        due = [self._overlap.wake_ns, self._listening.expires_ns]
        if self._owes_answer and self.active is None:
            due.append(0)
        return min((at_ns for at_ns in due if at_ns is not None), default=None)

    @property
    def chunk_ms(self) -> int:
        """Duration of a reply audio chunk."""
        return self.config.frame_ms or self.settings.chunk_ms

    def take_over(self, earlier: Engine, items: Sequence[Item]) -> None:
        """Resume another session with its ID and conversation. Call this before any other input.

        Pending replies of `earlier` are dropped, and its unrecognised speech stays unrecognised.
        """
        self.session_id, self._named = earlier.session_id, earlier._named
        for item in items:
            self.conversation.append(item)
            for part in item.parts:
                part.pending = False

    def new_name(self, prefix: str) -> str:
        """Return an ID that is unique within this session."""
        self._named += 1
        return f"{prefix}_{self.session_id[-12:]}{self._named:04d}"

    def configure(self, config: EngineConfig) -> None:
        """Change the settings. A new input encoding drops uncommitted audio."""
        before, self.config = self.config, config
        self._listening.configure(config.input_codec, config.detection)
        if (config.frame_ms, config.output_codec) != (before.frame_ms, before.output_codec):
            self._stream = self._new_stream()

    def refusal(self, config: EngineConfig) -> str | None:
        """Return why these settings conflict with scripted reactions to overlapping speech, or None."""
        settings = self.settings
        if not settings.scripted:
            return None
        if config.detection is None:
            return "stop_ms, end_silence_ms and talk_over_ms require the endpoint's own turn detection"
        if isinstance(settings.stop_ms, int) and not config.interrupt_response:
            return f"stop_ms={settings.stop_ms} requires a session in which the user may interrupt"
        if settings.talk_over_ms is not None and not config.create_response:
            return "talk_over_ms requires a session in which speech is answered"
        return None

    def _new_stream(self) -> Streaming | None:
        frame_ms = self.config.frame_ms
        if frame_ms is None:
            return None
        return Streaming(self._speaking, frame_ms, self.config.output_codec.rate_hz)

    # -- The user's audio -------------------------------------------------------------------------------

    def audio(self, data: bytes, at_ns: int) -> list[Output]:
        """Process whole samples of the user's audio, in the session's input encoding."""
        if self._stream is not None:
            self._stream.fed(at_ns)
        return self._heard(self._listening.audio(data, at_ns), at_ns)

    def heard(self, epoch: int, probabilities: Sequence[float], at_ns: int) -> list[Output]:
        """Process the voice detector's results for the next windows of the stream `epoch`."""
        return self._heard(self._listening.heard(epoch, probabilities, at_ns), at_ns)

    def commit(self, at_ns: int) -> list[Output]:
        """End the user's turn at the client's request."""
        return self._heard([self._listening.commit(at_ns)], at_ns)

    def clear(self) -> None:
        """Drop uncommitted audio."""
        self._listening.clear()

    def fall_silent(self, at_ns: int) -> list[Output]:
        """Handle a gap in the input, which ends the turn of a speaking user."""
        if not self._listening.hears_speech:
            return []
        out = self.commit(at_ns)
        return out + self.respond(at_ns) if self.config.create_response else out

    def _heard(self, heard: Sequence[Heard], at_ns: int) -> list[Output]:
        out: list[Output] = []
        for event in heard:
            if isinstance(event, SpeechCommitted):
                out += self._turn(event, at_ns)
                continue
            out.append(event)
            if isinstance(event, UserSpeechStarted):
                out += self._began(event, at_ns)
        if self.settings.scripted:
            out += self._overlapped(at_ns)
        return [*out, *self._overlap.settled(self.active)]

    def _began(self, started: UserSpeechStarted, at_ns: int) -> list[Output]:
        self._overlap.began(started.onset_ns, self.active)
        if self.settings.stop_ms is not None:
            return []
        if not self.config.interrupt_response:
            self._speaking.talk_over(at_ns)
            return []
        return self._stop(at_ns)

    def _stop(self, at_ns: int) -> list[Output]:
        """Stop the reply because the user is speaking."""
        self._speaking.talk_over(at_ns)
        response = self.active
        if response is None:
            return [DropUnplayed()]
        rest = self._speaking.rest(at_ns) if self._overlap.resumes else None
        self._rest = (response.response_id, rest) if rest is not None else None
        self._overlap.stopped()
        return [DropUnplayed(), self._speaking.end(ReplyEnd(ResponseStatus.CANCELLED, "turn_detected"))]

    def react(self, at_ns: int) -> list[Output]:
        """Apply reactions to overlapping speech and pauses that are due at `at_ns`."""
        return self._heard(self._listening.expire(at_ns), at_ns)

    def _overlapped(self, at_ns: int) -> list[Output]:
        out: list[Output] = []
        if self._overlap.stops(at_ns, pauses=self._listening.pauses(at_ns)):
            out += self._stop(at_ns)
        if self._overlap.talks_over(at_ns, self.active):
            out += self.respond(at_ns, talks_over=True)
        if self._owes_answer and self.active is None:
            self._owes_answer = False
            out += self.respond(at_ns)
        return out

    def utterances_left(self) -> Sequence[UserUtterance]:
        """Return the utterances that were still open when the session ended."""
        return self._overlap.closed()

    def _turn(self, turn: SpeechCommitted, at_ns: int) -> list[Output]:
        previous_id = self.conversation.append(turn.item)
        out = [ItemAdded(turn.item, previous_id, committed=True), *self._listen(turn.item, turn.speech_ms)]
        self._voice_end = turn.voice_end
        how = self._overlap.ended(turn.voice_end, self.active)
        if turn.detected and self.config.create_response:
            self._owes_answer = how is AnswerTime.LATER or (how is AnswerTime.NONE and self._owes_answer)
            if how is AnswerTime.NOW:
                out += self.respond(at_ns)
        return out

    def _listen(self, item: Item, speech_ms: int = 0) -> list[Output]:
        """Request recognition of an item's speech if a reply or the client requires it."""
        if not (self._waits_for_words or self.config.transcribe):
            return []
        out: list[Output] = []
        for index, part in enumerate(item.parts):
            if part.kind is PartKind.AUDIO and part.text is None and part.codec is not None:
                part.pending = True
                self._unrecognised[item.item_id] = item
                out.append(
                    RecogniseSpeech(item.item_id, index, speech_ms, part.audio, part.codec, final=True)
                )
        return out

    def recognised(self, item_id: str, part: int, text: str | None, reason: str = "") -> list[Output]:
        """Process a recognition result for part of an item: the text, or None with a reason."""
        item = self._unrecognised.get(item_id)
        if item is None:
            return []
        item.parts[part].text, item.parts[part].pending = text, False
        if not any(other.pending for other in item.parts):
            del self._unrecognised[item_id]
        transcribed = [InputTranscribed(item, part, text, reason)] if self.config.transcribe else []
        return [*transcribed, *self._ask()]

    # -- The conversation -------------------------------------------------------------------------------

    def add_item(self, item: Item, after: str | None = None, *, first: bool = False) -> list[Output]:
        """Insert a client's item after `after`, at the start if `first`, otherwise at the end."""
        if self.conversation.get(item.item_id) is not None:
            message = f"An item with id {item.item_id!r} already exists."
            return [Problem("item_already_exists", message, "item.id")]
        if not self.conversation.has_room(item):
            message = (
                f"Expected a conversation of at most {MOST_ITEMS} items and {MOST_BYTES >> 20} MiB; "
                "delete items first."
            )
            return [Problem("conversation_full", message, "item")]
        previous_id = after
        if first:
            self.conversation.insert(item, None)
        elif after is None:
            previous_id = self.conversation.append(item)
        elif self.conversation.get(after) is None:
            message = f"Item with id {after!r} not found."
            return [Problem("item_create_invalid_previous_item_id", message, "previous_item_id")]
        else:
            self.conversation.insert(item, after)
        return [ItemAdded(item, previous_id), *self._listen(item)]

    def truncate(self, item: Item, part: int, audio_end_ms: int) -> Problem | None:
        """Truncate a reply to the part that the user heard; return a problem if that is impossible."""
        spoken = item.parts[part] if part < len(item.parts) else None
        if item.role is not Role.ASSISTANT or spoken is None or spoken.kind is not PartKind.AUDIO:
            message = "Only model output audio messages can be truncated"
            return Problem("unsupported_content_type", message, "item_id")
        if audio_end_ms > spoken.audio_ms:
            message = f"Audio content of {spoken.audio_ms}ms is already shorter than {audio_end_ms}ms"
            return Problem("invalid_value", message, "audio_end_ms")
        if spoken.text and spoken.audio_ms:
            tokens = spoken.text.split(" ")
            spoken.text = " ".join(tokens[: len(tokens) * audio_end_ms // spoken.audio_ms])
        spoken.audio_ms = audio_end_ms
        item.status = ItemStatus.INCOMPLETE
        return None

    # -- Responses --------------------------------------------------------------------------------------

    def respond(
        self,
        at_ns: int,
        config: EngineConfig | None = None,
        *,
        said: Sequence[Item] | None = None,
        in_conversation: bool = True,
        metadata: Mapping[str, str] | None = None,
        talks_over: bool = False,
    ) -> list[Output]:
        """Create a response after speech or at the client's request.

        Args:
            at_ns: Request time.
            config: Response settings; the session's settings by default.
            said: Items to answer; the whole conversation by default.
            in_conversation: Whether the response becomes part of the conversation.
            metadata: Client metadata to echo in the response's events.
            talks_over: Whether to start immediately, while the user is speaking.
        """
        if self.active is not None:
            return [
                Problem(
                    "conversation_already_has_active_response",
                    f"Conversation already has an active response in progress: {self.active.response_id}. "
                    "Wait until the response is finished before creating a new one.",
                )
            ]
        self._responses += 1
        if self.settings.faults.in_reply(self._responses).has(FaultName.SILENT):
            return []
        config = config or self.config
        voice_end, self._voice_end = self._voice_end, None
        rest, self._rest = self._rest, None
        answers = voice_end is not None or talks_over
        response = ServerResponse(
            response_id=self.new_name("resp"),
            item_id=self.new_name("item"),
            wants_audio=config.wants_audio,
            codec=config.output_codec,
            voice_end=voice_end,
            instructions=config.instructions,
            in_conversation=in_conversation,
            metadata=metadata,
            max_output_tokens=config.max_output_tokens,
            utterance=self._overlap.number if answers else None,
            talks_over=talks_over,
            resumes=rest[0] if rest is not None else "",
            number=self._responses,
        )
        counted_from_ns = at_ns if voice_end is None else voice_end.at_ns
        delay_ms = 0 if talks_over else self.settings.delay_ms
        self._speaking.begin(response, counted_from_ns + delay_ms * 1_000_000)
        self._asks_for, self._asked = said, rest is not None
        out: list[Output] = [ResponseCreated(response)]
        if rest is not None:
            return out + self.reply(response.response_id, rest[1], at_ns)
        for item in said or ():
            out += self._listen(item)
        return out + self._ask()

    def _ask(self) -> list[Output]:
        """Request the reply once the text of every item to answer is known."""
        response = self.active
        if response is None or self._asked:
            return []
        items = tuple(self.conversation) if self._asks_for is None else self._asks_for
        parts = [part for item in items for part in item.parts]
        if self._waits_for_words and any(part.pending for part in parts):
            return []
        self._asked = True
        written = [part.text or "" for part in parts if part.kind is PartKind.TEXT]
        response.input_text_tokens = sum(map(text_tokens, (response.instructions, *written)))
        response.input_audio_tokens = sum(-(-part.audio_ms // _INPUT_AUDIO_TOKEN_MS) for part in parts)
        return [
            FindReply(
                response.response_id,
                words(items),
                response.instructions,
                response.wants_audio,
                response.codec,
                self.config.speed,
                whole=self.settings.scripted
                or bool(self.settings.faults)
                or response.max_output_tokens is not None,
            )
        ]

    def reply(self, response_id: str, reply: WireReply, at_ns: int) -> list[Output]:
        """Process the reply to `response_id`, or its next piece, unless the response has ended."""
        response = self.active
        if response is None or response.response_id != response_id:
            return []
        if response.item is not None:
            self._speaking.add(reply)
            return []
        item = self._speaking.reply(reply, at_ns)
        if item is None:
            return []
        previous_id = self.conversation.last_id
        if response.in_conversation:
            self.conversation.append(item)
        return [ReplyBegan(response, previous_id)]

    def reply_failed(self, response_id: str, code: str, message: str) -> list[Output]:
        """End the response `response_id` as failed, if it is active."""
        if self.active is None or self.active.response_id != response_id:
            return []
        return self._end_reply(ReplyEnd(ResponseStatus.FAILED, "", code, message))

    def cancel(self, response_id: str | None) -> list[Output]:
        """Cancel a response at the client's request; None cancels the active response."""
        if self.active is None or response_id not in (None, self.active.response_id):
            return [Problem("response_cancel_not_active", "Cancellation failed: no active response found")]
        return self._end_reply(ReplyEnd(ResponseStatus.CANCELLED, "client_cancelled"))

    def _end_reply(self, end: ReplyEnd) -> list[Output]:
        """End the active response and cancel its scheduled stop."""
        return [self._speaking.end(end), *self._overlap.settled(self.active)]

    def due(self, at_ns: int) -> list[Output]:
        """Return the outputs due by `at_ns`, with at most one audio chunk; repeat while `wake_ns` is in the
        past.
        """
        return [*(self._stream or self._speaking).due(at_ns), *self._overlap.settled(self.active)]
