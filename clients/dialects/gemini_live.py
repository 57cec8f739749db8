"""Google Gemini Live: BidiGenerateContent over WebSocket, v1 and v1beta.

Message shapes follow google-genai 3.4 (``google/genai/live.py``, ``_live_converters.py``, ``types.py``; it
defaults to v1, and its messages are the same for every version) and https://ai.google.dev/api/live.
Ephemeral tokens (``auth_tokens/…``) require v1alpha's constrained method, with ``Authorization: Token``.
We send no pings: pongs take 8 to 30 s.

Decisions that the documentation leaves open:

* **Responses have no IDs**, so we number them: a reply begins with the model's first content and ends with
  ``turnComplete``. If ``interactionStatus`` is present, only IDLE (or its deprecated name REQUIRES_ACTION)
  ends a reply, since thinking models continue after ``turnComplete``. ``generationComplete`` ends its audio,
  and ``turnComplete`` waits until the audio could have been played.
* **Interrupted.** ``interrupted`` precedes ``turnComplete``. Some sessions fall silent after ``interrupted``;
  a watchdog then ends the reply. Later content belongs to a new reply.
* **A turn without content** after user speech was detected is an empty reply, unless the model reports that
  it waits for more input.
* **Input transcripts** arrive in pieces and are rarely marked as complete: they count as complete when the
  turn ends, and later pieces are appended.
* **A late piece of the reply's transcript** belongs to the completed reply, until the user speaks again.
* **Client interruption** is ``activityStart`` with manual turns. With the server's detector, no message is
  available: newer models close the connection on a ``clientContent`` during a session.
* **History** is one ``clientContent`` after ``setupComplete``, announced by ``historyConfig``, without which
  the model would reply to it. The endpoint does not confirm it. Its parts are text.
* **Errors** arrive as close frames (1007, 1008, 1011), whose reason text is more specific than the code.
* **Resumption.** After ``goAway`` we replace the connection as late as is safe, since most turns end before
  then. A handle restores the state at the time it was issued, so we resend the user's audio since the handle
  or the last turn after ``setupComplete``, followed by audio buffered in the meantime. A reply that cannot
  finish in time is cut off; the endpoint then generates a new reply. Without a handle, the connection ends.
  The new connection is opened before the old connection is dropped, but its setup is sent afterwards: Google
  refuses a handle whose session is still connected.
* **Usage** is the last report before the turn ended.

There are no rate-limit messages, no confirmation of the user's turn and, with newer models, no detector
events. v1 and v1beta differ only in the URL.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import Any

import pybase64

from live_eval.clients.dialects._gemini_replies import (
    CONTENT,
    SILENT_AFTER_INTERRUPTION,
    GeminiReplies,
    duration_ns,
    failure_in,
    parse_message,
    retry_after_s,
)
from live_eval.clients.toolkit import (
    BaseDialect,
    Fields,
    Handler,
    MalformedError,
    given,
    merged,
    said_before,
    send_json,
    websocket_url,
)
from live_eval.dialect import (
    Dial,
    EndpointProblem,
    EndpointSettings,
    Message,
    Output,
    Reconnect,
    Send,
    SetTimer,
    SpeechStarted,
    SpeechStopped,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.types import Modality, TurnMode

__all__ = ["GeminiLive"]

_SECOND_NS = 1_000_000_000
_MIME_TYPE = "audio/pcm;rate=16000"
_ACTIVITY_START = '{"realtimeInput":{"activityStart":{}}}'
_ACTIVITY_END = '{"realtimeInput":{"activityEnd":{}}}'
_STREAM_END = '{"realtimeInput":{"audioStreamEnd":true}}'
_INVALID_ARGUMENT, _POLICY, _INTERNAL = 1007, 1008, 1011

_MOVE = "move to a new connection"
_MARGIN_NS = 6 * _SECOND_NS  # replace the connection this long before it ends if no reply is in progress
_LAST_MOMENT_NS = 3 * _SECOND_NS  # the same margin while a reply is in progress
_KEPT_MESSAGES = 6_000  # two minutes of 20 ms frames

_KNOWN = ("setupComplete", "toolCallCancellation")

_VERSION = "v1"
_TOKEN_VERSION = "v1alpha"
_TOKEN_PREFIX = "auth_tokens/"
_VERSIONED = re.compile(r"(?P<front>[^?#]*)/(?P<version>v\d+(?:alpha|beta)?\d*)/?(?P<query>\?.*)?", re.DOTALL)
_WHOLE = re.compile(r"[^?#]*BidiGenerateContent(Constrained)?/?(\?.*)?", re.DOTALL)
_SERVICE = "ws/google.ai.generativelanguage.{version}.GenerativeService.{method}"
_OWN = ("api_version",)  # keys in `extra` that are not part of the setup


class GeminiLive(BaseDialect):
    """A `Dialect` that tracks the state of one session.

    Args:
        settings: ``extra`` overrides fields of the `setup` object; its ``api_version`` is the API version.
            ``turn_detection`` is Google's ``automaticActivityDetection`` object. Any
            ``transcription_model`` enables transcripts: there is only one model.

    Raises:
        UsageError: Gemini Live has no such detector, or the base URL is not a URL.
    """

    audio_fields = ("data",)
    binary_text = True

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._dial = _dial(settings)
        self._setup = _setup(settings)
        self._manual = settings.turn_mode is TurnMode.MANUAL
        self._replies = GeminiReplies(speaks=settings.modality is Modality.AUDIO, clean=self.clean)
        self.handlers: dict[str, Handler] = {
            "usageMetadata": self._replies.on_usage,  # must precede the content that ends the turn
            "voiceActivity": lambda event, _: self._on_voice(event, "voiceActivityType"),
            "voiceActivityDetectionSignal": lambda event, _: self._on_voice(event, "vadSignalType"),
            "serverContent": self._on_content,
            "toolCall": self._on_tool_call,
            "sessionResumptionUpdate": self._on_resumption,
            "goAway": self._on_go_away,
            "error": self._on_error,
        }
        self._open = False  # whether the connection accepts the user's audio
        self._moving = False  # a new connection was requested but is not open yet
        self._handle: str | None = None
        self._ends_at_ns: int | None = None
        self._waiting: list[str] = []
        self._unsaved: deque[str] = deque(maxlen=_KEPT_MESSAGES)
        self._speaking = False  # between activityStart and activityEnd

    def dial(self) -> Dial:
        return self._dial

    def opened(self, at_ns: int) -> Sequence[Output]:
        self._moving = self._open = False
        asked = self._setup
        if self._handle is not None:
            resumption = asked.get("sessionResumption")
            kept = resumption if isinstance(resumption, dict) else {}
            asked = {**asked, "sessionResumption": {**kept, "handle": self._handle}}
        return (send_json({"setup": asked}),)

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        """Handle a message; ignore messages on a connection that is being replaced."""
        try:
            values = parse_message(message)
        except MalformedError as error:
            return (self.malformed(str(error)),)
        if self._moving:
            return ()
        content = values.get("serverContent")
        inner = content if isinstance(content, dict) else {}
        unknown = [name for name in values if name not in self.handlers and name not in _KNOWN]
        unknown += [f"serverContent.{name}" for name in inner if name not in CONTENT]

        def handle(event: Fields, at_ns: int) -> list[Output]:
            outputs = self._on_setup_complete(event) if "setupComplete" in event else []
            for name, handler in self.handlers.items():
                if name in event and (self._open or name == "error"):
                    outputs.extend(handler(event.child(name), at_ns))
                elif name in event and not self.ready:
                    text = f"ignored {name}: it arrived before the session was ready"
                    outputs.append(self.warning(text))
            return [*outputs, *map(self.unknown, unknown)]

        outputs = self.handled(handle, Fields("the message", values), at_ns)
        self.over |= any(isinstance(output, EndpointProblem) and output.fatal for output in outputs)
        return outputs

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        """Send a frame. The JSON is formatted by hand, since this runs 50 times per second and session."""
        audio = pybase64.b64encode_as_string(pcm)
        said = '{"realtimeInput":{"audio":{"data":"' + audio + '","mimeType":"' + _MIME_TYPE + '"}}}'
        return (*self._begin_activity(), *self._say(said))

    def end_turn(self, at_ns: int) -> Sequence[Output]:
        self._replies.user_spoke()
        if not self._manual:
            return self._say(_STREAM_END)
        begin = self._begin_activity()
        self._speaking = False
        return (*begin, *self._say(_ACTIVITY_END))

    def interrupt(self, response_id: str, heard_ms: int, at_ns: int) -> Sequence[Output]:
        """Start user activity, which stops the reply; the protocol cannot report how much was played."""
        reply = self._replies.reply(response_id)
        if reply is None or reply.done or reply.interrupted:
            return ()
        return self._begin_activity()

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        if name == SILENT_AFTER_INTERRUPTION:
            return self._replies.on_silence()
        return self._move(at_ns) if name == _MOVE else ()

    def closing(self, code: int | None, reason: str, at_ns: int) -> EndpointProblem:
        due = not self.ready or self._replies.owed or self._replies.active is not None
        if not self.ready:
            when = "before the session was ready"
        elif not due:
            when = "after the reply was done"
        else:
            when = "before the reply was done" if self._open else "before the session was resumed"
        announced = ", as announced (goAway)" if self._ends_at_ns is not None else ""
        return EndpointProblem(
            failure_in(reason) or self._meaning(code),
            self.closed_text(f"{when}{announced}", code, reason),
            fatal=due,
            code=None if code is None else str(code),
            retry_after_s=retry_after_s(reason),
        )

    def _meaning(self, code: int | None) -> FailureKind:
        if self._ends_at_ns is not None or (self.ready and not self._open):
            return FailureKind.SESSION_EXPIRED
        if code == _INVALID_ARGUMENT and not self.ready:
            return FailureKind.SESSION_REFUSED
        known = code in (_INVALID_ARGUMENT, _POLICY, _INTERNAL)
        return FailureKind.ENDPOINT_ERROR if known else FailureKind.CLOSED

    # -- The session -------------------------------------------------------------------------------------

    def _on_setup_complete(self, event: Fields) -> list[Output]:
        session = event.child("setupComplete")
        if self._open:
            return []
        self._open = True
        outputs = self._history() if not self.ready else []
        outputs += self.become_ready(session.text("sessionId"))
        late = (*self._unsaved, *self._waiting)
        self._unsaved.clear()
        self._waiting.clear()
        for message in late:
            outputs.extend(self._say(message))
        return outputs

    def _history(self) -> list[Output]:
        """Send the earlier turns, to which the model does not reply."""
        turns = [
            {"role": role, "parts": [{"text": text}]}
            for role, text in said_before(self.settings, "user", "model")
        ]
        return [send_json({"clientContent": {"turns": turns, "turnComplete": True}})] if turns else []

    def _on_content(self, content: Fields, at_ns: int) -> list[Output]:
        answered = self._replies.answered
        outputs = self._replies.on_content(content, at_ns)
        if self._replies.answered > answered:  # resending the turn would trigger a second reply
            self._unsaved.clear()
        return outputs

    def _on_resumption(self, event: Fields, at_ns: int) -> list[Output]:
        handle, resumable = event.text("newHandle"), event.flag("resumable") is True
        self._replies.resumable(resumable)
        if not resumable or not handle:
            return []
        self._handle = handle
        self.secrets.add(handle)
        self._unsaved.clear()
        self._replies.saved()
        return self._plan_move(at_ns)

    def _on_go_away(self, event: Fields, at_ns: int) -> list[Output]:
        self._ends_at_ns = at_ns + (duration_ns(event.text("timeLeft")) or 0)
        return self._plan_move(at_ns)

    def _plan_move(self, at_ns: int) -> list[Output]:
        if self._handle is None or self._ends_at_ns is None:
            return []
        move_ns = self._ends_at_ns - _MARGIN_NS
        return [SetTimer(_MOVE, move_ns)] if move_ns > at_ns else self._move(at_ns)

    def _move(self, at_ns: int) -> list[Output]:
        """Replace the connection, or wait while the reply may still end in time."""
        if self.over or self._handle is None or self._ends_at_ns is None:
            return []
        last_moment_ns = self._ends_at_ns - _LAST_MOMENT_NS
        if self._replies.active is not None and at_ns < last_moment_ns:
            return [SetTimer(_MOVE, last_moment_ns)]
        left_s = max(0, self._ends_at_ns - at_ns) / _SECOND_NS
        self._moving, self._open, self._ends_at_ns = True, False, None
        text = (
            f"the endpoint closes the connection in {left_s:.1f} s (goAway): the session resumes on a "
            f"new connection; {len(self._unsaved)} user messages are sent again"
        )
        return [*self._replies.lost(), self.warning(text), Reconnect()]

    def _on_error(self, event: Fields, at_ns: int) -> list[Output]:
        """Handle an error message from a gateway; Google itself reports errors in close frames."""
        status = event.text("status") or ""
        text = event.text("message") or "the endpoint reported an error without details"
        otherwise = FailureKind.ENDPOINT_ERROR if self.ready else FailureKind.NO_SESSION
        said = self.clean(f"{status}: {text}" if status else text)
        said = said if self.ready else f"the endpoint refused the session: {said}"
        kind = failure_in(f"{status} {text}") or otherwise
        return [self.fatal(kind, said, status or None, retry_after_s(text))]

    def _on_tool_call(self, event: Fields, at_ns: int) -> list[Output]:
        names = ", ".join(call.text("name") or "?" for call in event.children("functionCalls"))
        return [
            self.warning(f"the model called tools ({self.clean(names)}), which this client does not support")
        ]

    # -- The user ----------------------------------------------------------------------------------------

    def _begin_activity(self) -> tuple[Output, ...]:
        if not self._manual or self._speaking:
            return ()
        self._speaking = True
        return self._say(_ACTIVITY_START)

    def _say(self, message: str) -> tuple[Output, ...]:
        """Send a user message once the connection is open, and keep it until a handle covers it."""
        if not self._open:
            self._waiting.append(message)
            return ()
        if self._handle is not None:
            self._unsaved.append(message)
        return (Send(message),)

    def _on_voice(self, event: Fields, field: str) -> list[Output]:
        kind, offset_ns = event.text(field), duration_ns(event.text("audioOffset"))
        audio_ms = None if offset_ns is None else offset_ns // 1_000_000
        if kind in ("ACTIVITY_START", "VAD_SIGNAL_TYPE_SOS"):
            self._replies.user_spoke()
            return [SpeechStarted(audio_ms)]
        return [SpeechStopped(audio_ms)] if kind in ("ACTIVITY_END", "VAD_SIGNAL_TYPE_EOS") else []


def _dial(settings: EndpointSettings) -> Dial:
    """Return the URL and headers of the connection.

    The API version is ``api_version`` in `settings.extra`, else the last part of the base URL's path
    (``…/v1beta``), else the SDK's default. A base URL that includes the method is used unchanged.
    """
    key = settings.key.reveal() if settings.key is not None else ""
    token = key.startswith(_TOKEN_PREFIX)
    # As in the SDK, the key is sent in a header: URLs may be logged.
    headers = {"Authorization": f"Token {key}"} if token else {"x-goog-api-key": key} if key else {}
    base_url, version = settings.base_url, settings.extra.get("api_version")
    if version is not None and not (isinstance(version, str) and re.fullmatch(r"v\w+", version)):
        raise UsageError(f"endpoint.extra.api_version: expected 'v1' or 'v1beta', got {version!r}")
    if _WHOLE.fullmatch(base_url):
        path = re.split(r"[?#]", base_url)[0].rstrip("/").rpartition("/")[2]
        return Dial(websocket_url(base_url, path, {}), headers, keepalive=False)
    found = _VERSIONED.fullmatch(base_url)
    if found is not None:
        version = version or found["version"]
        base_url = found["front"] + (found["query"] or "")
    path = _SERVICE.format(
        version=version or (_TOKEN_VERSION if token else _VERSION),
        method="BidiGenerateContentConstrained" if token else "BidiGenerateContent",
    )
    return Dial(websocket_url(base_url, path, {}), headers, keepalive=False)


def _setup(settings: EndpointSettings) -> dict[str, Any]:
    """Return the `setup` object to send, with overrides from `settings.extra`."""
    model, voice = settings.model, settings.voice
    if model is not None and not model.startswith(("models/", "tunedModels/")):
        model = f"models/{model}"
    speech = {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": voice}}}
    instructions = {"role": "user", "parts": [{"text": settings.instructions}]}
    heard = given(languageCodes=[settings.language] if settings.language else None)
    detection = _detection(settings)
    asked = given(
        generationConfig=given(
            responseModalities=[settings.modality.value.upper()],
            speechConfig=None if voice is None else speech,
            maxOutputTokens=settings.max_output_tokens,
        ),
        model=model,
        systemInstruction=instructions if settings.instructions else None,
        realtimeInputConfig={"automaticActivityDetection": detection} if detection else None,
        inputAudioTranscription=None if settings.transcription_model is None else heard,
        outputAudioTranscription={} if settings.modality is Modality.AUDIO else None,
        sessionResumption={},
        historyConfig={"initialHistoryInClientContent": True} if settings.history else None,
    )
    return merged(asked, {name: value for name, value in settings.extra.items() if name not in _OWN})


def _detection(settings: EndpointSettings) -> dict[str, Any]:
    if settings.turn_mode is TurnMode.MANUAL:
        return {"disabled": True}
    detection = dict(settings.turn_detection)
    kind = detection.pop("type", "server_vad")
    if kind != "server_vad":
        raise UsageError(
            f"endpoint.turn_detection.type: expected 'server_vad' (Gemini Live's only detector), got {kind!r}"
        )
    return detection
