"""Implement the server side of Gemini Live over a message channel. Sans-I/O.

Message shapes follow the official SDK (``google.genai.types``: ``LiveClientMessage``, in camelCase or
snake_case, and ``LiveServerMessage``) and https://ai.google.dev/api/live. Like Google's server, it sends JSON
in binary messages and reports errors by close code and reason: 1007 for an invalid message, 1008 for an
expired session, 1011 for a failed reply. Known differences: there are no tools and no video; there is one
model, whose name may be omitted; a turn ends when all audio has been sent, not played; session handles are
lost when the process ends; each detector sensitivity has two levels (threshold and silence); token counts
are estimates.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from live_eval.audio import Codec, CodecName
from live_eval.reference.engine import events
from live_eval.reference.engine.conversation_items import Item, Role
from live_eval.reference.engine.endpointer import Detection
from live_eval.reference.engine.engine import Engine, EngineConfig
from live_eval.reference.faults.catalogue import FaultName
from live_eval.reference.faults.fault_script import Fault
from live_eval.reference.protocols.protocol import (
    MessageError,
    ServerProtocol,
    check_length,
    decode_audio,
    parse_json,
)
from live_eval.timing import ResponseStatus

__all__ = ["GEMINI_CONFIG", "GEMINI_REFUSALS", "GeminiProtocol", "SessionStore"]

GEMINI_CONFIG = EngineConfig(input_codec=Codec(CodecName.PCM16, 16_000))
"""Initial settings of sessions."""

_BAD_MESSAGE, _ABORTED, _INTERNAL = 1007, 1008, 1011

GEMINI_REFUSALS = {
    401: events.CloseConnection(_BAD_MESSAGE, "API key not valid. Please pass a valid API key."),
    429: events.CloseConnection(
        _INTERNAL, "You exceeded your current quota, please check your plan and billing details."
    ),
}
"""Close codes for refused clients by HTTP status, sent after a successful handshake."""

_FAULTS: Mapping[FaultName, bytes | events.CloseConnection] = {
    FaultName.MALFORMED: b'{"serverContent":{"modelTurn":',
    FaultName.UNKNOWN_EVENT: b'{"interpretiveDance":{"move":"pirouette"}}',
    FaultName.ERROR_EVENT: events.CloseConnection(_INTERNAL, "This endpoint reports an error on purpose."),
}

_MAX_REASON_BYTES = 123  # RFC 6455, 5.5: control frames have up to 125 bytes, two of which are the code
_RATES_HZ = range(8_000, 48_001)
_DEFAULT_RATE_HZ = 16_000
_WITH_AUDIO = ("realtimeInput", "realtime_input")
_URL_ALPHABET = str.maketrans("-_", "+/")
_PCM = re.compile(r"audio/(?:pcm|l16)(?:;\s*rate=(\d{4,6}))?", re.IGNORECASE)

_KEPT = 256  # maximum number of resumable sessions
_LOW_THRESHOLD = 0.7
_LOW_SILENCE_MS = 1_000
_LOW = "_LOW"


# -- Client messages; unsupported settings are accepted, but have no effect -----------------------


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class _OpenModel(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True, alias_generator=to_camel, populate_by_name=True)


_Milliseconds: TypeAlias = Annotated[int, Field(ge=0, le=10_000)]


class _ContentPart(_OpenModel):
    """A part of a message, of which only the text is used."""

    text: str | None = None


class Content(_Model):
    """A text message. Reports of refused settings contain the class name."""

    parts: list[_ContentPart] = Field(default_factory=list)
    role: str | None = None

    @property
    def text(self) -> str:
        """The text of all parts, as separate paragraphs."""
        return "\n\n".join(part.text for part in self.parts if part.text)


class _GenerationConfig(_OpenModel):
    response_modalities: list[Literal["AUDIO", "TEXT"]] | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None


class _AutomaticActivityDetection(_Model):
    disabled: bool | None = None
    start_of_speech_sensitivity: str | None = None
    end_of_speech_sensitivity: str | None = None
    prefix_padding_ms: _Milliseconds | None = None
    silence_duration_ms: _Milliseconds | None = None


class _RealtimeInputConfig(_Model):
    """Turn detection settings for the user's audio."""

    automatic_activity_detection: _AutomaticActivityDetection | None = None
    activity_handling: (
        Literal["ACTIVITY_HANDLING_UNSPECIFIED", "START_OF_ACTIVITY_INTERRUPTS", "NO_INTERRUPTION"] | None
    ) = None
    turn_coverage: str | None = None
    interim_transcript_timestamp_enabled: bool | None = None


class _SessionResumption(_Model):
    handle: str | None = None
    transparent: bool | None = None


class _HistoryConfig(_Model):
    initial_history_in_client_content: bool | None = None


class _Setup(_Model):
    model: str | None = None
    generation_config: _GenerationConfig | None = None
    system_instruction: Content | str | None = None
    realtime_input_config: _RealtimeInputConfig | None = None
    input_audio_transcription: dict[str, Any] | None = None
    output_audio_transcription: dict[str, Any] | None = None
    session_resumption: _SessionResumption | None = None
    context_window_compression: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    proactivity: dict[str, Any] | None = None
    explicit_vad_signal: bool | None = None
    history_config: _HistoryConfig | None = None
    avatar_config: dict[str, Any] | None = None
    safety_settings: list[dict[str, Any]] | None = None
    labels: dict[str, str] | None = None


class _Blob(_Model):
    data: str
    mime_type: str
    display_name: str | None = None


class _RealtimeInput(_Model):
    audio: _Blob | None = None
    media_chunks: list[_Blob] | None = None
    activity_start: dict[str, Any] | None = None
    activity_end: dict[str, Any] | None = None
    audio_stream_end: bool | None = None
    text: str | None = None
    video: _Blob | None = None


class _ClientContent(_Model):
    turns: list[Content] = Field(default_factory=list)
    turn_complete: bool | None = None


class _ClientMessage(_Model):
    """A client message, in which exactly one field is set."""

    setup: _Setup | None = None
    realtime_input: _RealtimeInput | None = None
    client_content: _ClientContent | None = None


# -- Sessions ------------------------------------------------------------------------------------------


class StoredSession(NamedTuple):
    """A snapshot of a session and its conversation items, taken when the session was stored."""

    engine: Engine
    items: tuple[Item, ...]


class SessionStore:
    """Store resumable sessions by handle; the oldest are dropped above the limit."""

    def __init__(self) -> None:
        self._sessions: dict[str, StoredSession] = {}

    def put(self, engine: Engine) -> str:
        """Store a session's current state and return its handle."""
        handle = secrets.token_urlsafe(24)
        self._sessions[handle] = StoredSession(engine, tuple(engine.conversation))
        while len(self._sessions) > _KEPT:
            del self._sessions[next(iter(self._sessions))]
        return handle

    def get(self, handle: str) -> StoredSession | None:
        """Return the session with this handle, or None if it is unknown."""
        return self._sessions.get(handle)


class GeminiProtocol(ServerProtocol):
    """Run one connection of a session, which may resume one of the `stored_sessions`."""

    reports_stops = True

    def __init__(self, engine: Engine, stored_sessions: SessionStore) -> None:
        super().__init__(engine)
        self._stored_sessions = stored_sessions
        self._setup: _Setup | None = None
        self._awaits_history = False
        head = f"audio/pcm;rate={engine.settings.faults.codec(engine.config.output_codec).rate_hz}"
        self._audio_head = (
            f'{{"serverContent":{{"modelTurn":{{"parts":[{{"inlineData":{{"mimeType":"{head}","data":"'
        ).encode()

    def expires_soon(self, left_s: int) -> Sequence[events.Output]:
        """Ask the client to reconnect."""
        return [_say({"goAway": {"timeLeft": f"{left_s}s"}})]

    def expired(self) -> Sequence[events.Output]:
        """Close the connection because it has expired."""
        return [
            events.CloseConnection(
                _ABORTED, "The operation was aborted: the session has reached its maximum duration."
            )
        ]

    # -- Client messages ---------------------------------------------------------------------------

    def received(self, message: str | bytes, at_ns: int) -> Sequence[events.Output]:
        """Handle a message; close the connection if it is invalid."""
        try:
            found = parse_json(message)
            kind = next(iter(found), None) if isinstance(found, dict) else None
            check_length(message, kind, _WITH_AUDIO)
            given = _ClientMessage.model_validate(found)
        except MessageError as error:
            prefix = "Invalid JSON payload received. " if error.problem.code == "invalid_json" else ""
            return [_refusal(f"{prefix}{error}")]
        except ValidationError as error:
            return [_refusal(_explain(error))]
        if given.setup is not None:
            return self._begin(given.setup)
        if self._setup is None:
            return [_refusal("Expected 'setup' as the first message.")]
        if given.realtime_input is not None:
            return self._hear(given.realtime_input, at_ns)
        if given.client_content is not None:
            out = self._written(given.client_content.turns)
            if not given.client_content.turn_complete:
                return out
            if self._awaits_history:
                self._awaits_history = False
                return out
            return [*out, *self._answer(at_ns)]
        return [_refusal("Expected one of 'setup', 'realtimeInput', 'clientContent'.")]

    def _begin(self, setup: _Setup) -> Sequence[events.Output]:
        if self._setup is not None:
            return [_refusal("Expected 'setup' only as the first message.")]
        modalities = setup.generation_config.response_modalities if setup.generation_config else None
        if modalities is not None and len(modalities) > 1:
            return [_refusal("Expected at most one response modality.")]
        resumption = setup.session_resumption
        if resumption is not None and resumption.handle is not None:
            stored = self._stored_sessions.get(resumption.handle)
            if stored is None:
                return [events.CloseConnection(_ABORTED, "BidiGenerateContent session not found")]
            self.engine.take_over(stored.engine, stored.items)
        config = self._asked(setup, wants_audio=modalities != ["TEXT"])
        refused = self.engine.refusal(config)
        if refused is not None:
            return [_refusal(refused)]
        self._setup = setup
        history = setup.history_config
        self._awaits_history = history is not None and history.initial_history_in_client_content is True
        self.engine.configure(config)
        out: list[events.Output] = [_say({"setupComplete": {"sessionId": self.engine.session_id}})]
        return [*out, *map(events.SendMessage, self._resumable(resumable=True))]

    def _asked(self, setup: _Setup, *, wants_audio: bool) -> EngineConfig:
        inputs = setup.realtime_input_config or _RealtimeInputConfig()
        instruction = setup.system_instruction
        generation = setup.generation_config
        return replace(
            self.engine.config,
            detection=_detection(inputs),
            interrupt_response=inputs.activity_handling != "NO_INTERRUPTION",
            transcribe=setup.input_audio_transcription is not None,
            instructions=instruction.text if isinstance(instruction, Content) else instruction or "",
            wants_audio=wants_audio,
            max_output_tokens=generation.max_output_tokens if generation else None,
        )

    def _hear(self, given: _RealtimeInput, at_ns: int) -> Sequence[events.Output]:
        out: list[events.Output] = []
        manual = self.engine.config.detection is None
        if (given.activity_start is not None or given.activity_end is not None) and not manual:
            return [_refusal("Explicit activity control is not supported when automatic detection is on.")]
        if given.activity_start is not None:
            self.engine.clear()
            if self.engine.config.interrupt_response and self.engine.active is not None:
                out += self.engine.cancel(None)
        for blob in (given.audio, *(given.media_chunks or ())):
            if blob is not None:
                out += self._audio(blob, at_ns)
        if given.activity_end is not None:
            out += self.engine.commit(at_ns)
            out += self.engine.respond(at_ns)
        if given.audio_stream_end:
            out += self.engine.fall_silent(at_ns)
        if given.text is not None:
            out += self._written([Content.model_validate({"parts": [{"text": given.text}]})])
            out += self._answer(at_ns)
        return out

    def _audio(self, blob: _Blob, at_ns: int) -> Sequence[events.Output]:
        kind = _PCM.fullmatch(blob.mime_type)
        rate_hz = int(kind[1] or _DEFAULT_RATE_HZ) if kind is not None else 0
        if rate_hz not in _RATES_HZ:
            expected = f"audio/pcm;rate=R with R from {_RATES_HZ[0]} to {_RATES_HZ[-1]}"
            return [_refusal(f"Unsupported mime type {blob.mime_type[:40]!r}; expected {expected}.")]
        codec = Codec(CodecName.PCM16, rate_hz)
        # Protobuf JSON accepts both base64 alphabets; Google's SDK uses the URL-safe one.
        standard = blob.data.translate(_URL_ALPHABET) + "=" * (-len(blob.data) % 4)
        try:
            data = decode_audio(standard, codec)
        except MessageError as error:
            return [_refusal(f"Invalid value at 'realtimeInput.audio.data': {error}")]
        if codec != self.engine.config.input_codec:
            self.engine.configure(replace(self.engine.config, input_codec=codec))
        return self.engine.audio(data, at_ns) if data else ()

    def _written(self, turns: Sequence[Content]) -> Sequence[events.Output]:
        out: list[events.Output] = []
        for turn in turns:
            role = Role.ASSISTANT if turn.role == "model" else Role.USER
            out += self.written(turn.text, role)
        return out

    def _answer(self, at_ns: int) -> Sequence[events.Output]:
        """Respond to text and interrupt the current reply."""
        return [*self.interrupted(), *self.engine.respond(at_ns)]

    # -- Server messages ---------------------------------------------------------------------------

    def render(self, event: events.Event) -> Sequence[bytes | events.CloseConnection]:
        """Encode an event as messages."""
        match event:
            case events.AudioPiece(payload=payload):
                return (b'%b%b"}}]}}}' % (self._audio_head, payload),)
            case events.TextPiece(response=response, text=text):
                return self._words(response, text)
            case events.InputTranscribed(text=str(text)):
                return (_content(inputTranscription={"text": text, "finished": True}),)
            case events.ResponseCreated():
                return self._resumable(resumable=False)
            case events.ResponseEnded(response=response):
                return self._ended(response)
            case Fault(name=name):
                return (_FAULTS[name],)
            case events.Problem(message=message):
                return (_refusal(message),)
            case _:
                return ()

    def _words(self, response: events.ServerResponse, text: str) -> Sequence[bytes]:
        if not response.wants_audio:
            return (_content(modelTurn={"parts": [{"text": text}]}),)
        wanted = self._setup is not None and self._setup.output_audio_transcription is not None
        return (_content(outputTranscription={"text": text}),) if wanted else ()

    def _ended(self, response: events.ServerResponse) -> Sequence[bytes | events.CloseConnection]:
        if response.status is ResponseStatus.FAILED:
            return (events.CloseConnection(_INTERNAL, "Internal error encountered."),)
        cancelled = response.status is ResponseStatus.CANCELLED
        first = _content(interrupted=True) if cancelled else _content(generationComplete=True)
        end = {"turnComplete": True, "interactionStatus": "IDLE"}
        body = {"serverContent": end, "usageMetadata": _usage(response)}
        return (first, orjson.dumps(body), *self._resumable(resumable=True))

    def _resumable(self, *, resumable: bool) -> Sequence[bytes]:
        """Report whether the session can be resumed now, with its handle."""
        if self._setup is None or self._setup.session_resumption is None:
            return ()
        if not resumable:
            return (orjson.dumps({"sessionResumptionUpdate": {"resumable": False}}),)
        body = {"newHandle": self._stored_sessions.put(self.engine), "resumable": True}
        return (orjson.dumps({"sessionResumptionUpdate": body}),)


def _detection(inputs: _RealtimeInputConfig) -> Detection | None:
    given = inputs.automatic_activity_detection
    if given is None:
        return Detection()
    if given.disabled:
        return None
    changes: dict[str, Any] = {}
    if (given.start_of_speech_sensitivity or "").endswith(_LOW):
        changes["threshold"] = _LOW_THRESHOLD
    if (given.end_of_speech_sensitivity or "").endswith(_LOW):
        changes["silence_ms"] = _LOW_SILENCE_MS
    if given.prefix_padding_ms is not None:
        changes["prefix_padding_ms"] = given.prefix_padding_ms
    if given.silence_duration_ms is not None:
        changes["silence_ms"] = given.silence_duration_ms
    return Detection(**changes)


def _say(message: Mapping[str, Any]) -> events.SendMessage:
    return events.SendMessage(orjson.dumps(message))


def _content(**content: Any) -> bytes:
    return orjson.dumps({"serverContent": content})


def _refusal(reason: str) -> events.CloseConnection:
    return events.CloseConnection(_BAD_MESSAGE, reason.encode()[:_MAX_REASON_BYTES].decode(errors="ignore"))


def _usage(response: events.ServerResponse) -> dict[str, Any]:
    heard = {"TEXT": response.input_text_tokens, "AUDIO": response.input_audio_tokens}
    said = {"TEXT": response.output_text_tokens, "AUDIO": response.output_audio_tokens}
    prompt, replied = sum(heard.values()), sum(said.values())
    return {
        "promptTokenCount": prompt,
        "responseTokenCount": replied,
        "totalTokenCount": prompt + replied,
        "promptTokensDetails": _details(heard),
        "responseTokensDetails": _details(said),
    }


def _details(tokens: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"modality": kind, "tokenCount": count} for kind, count in tokens.items() if count]


def _explain(error: ValidationError) -> str:
    """Describe the first problem in a message, in Google's wording."""
    first = min(error.errors(include_url=False, include_input=False), key=lambda found: len(found["loc"]))
    *path, name = map(str, first["loc"]) if first["loc"] else ("",)
    if first["type"] == "extra_forbidden":
        where = f" at '{'.'.join(path)}'" if path else ""
        return f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.'
    return f"Invalid value at '{'.'.join((*path, name))}': {first['msg']}"
