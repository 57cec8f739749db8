"""Deepgram Voice Agent over WebSocket, ``wss://agent.deepgram.com/v1/agent/converse``.

Message shapes follow Deepgram's API specification (``asyncapi.yml`` in deepgram/deepgram-api-specs) and SDK
(``deepgram/agent/v1``, deepgram-sdk 7.17). Behaviour and decisions:

* The server sends ``Welcome``, the client replies with ``Settings``, and the session starts with
  ``SettingsApplied``. The key is sent as ``Authorization: Token``.
* ``endpoint.extra`` is merged over ``Settings``. Its ``agent`` may be the ID of a stored agent, which then
  sets prompt, models, voice and detector. Without a ``greeting``, the agent waits for the user.
* Earlier turns of the dialogue are ``agent.context.messages`` in ``Settings``.
* ``model`` is the language model of ``agent.think``, at OpenAI unless ``extra`` names another provider;
  ``voice`` is the model of ``agent.speak``, and ``transcription_model`` is the model of ``agent.listen``. A
  Flux model needs version v2 of the listener; its thresholds are turn detection settings (``eot_threshold``,
  …).
* **Audio has no response IDs**, so we number the replies: a reply lasts from its first text or audio to
  ``AgentAudioDone``.
* ``UserStartedSpeaking`` is sent for every utterance. During a reply, it also interrupts the reply: later
  audio is dropped until the next text or ``AgentAudioDone``.
* ``ConversationText`` contains one sentence of the reply, or the user's whole utterance, which counts as the
  accepted turn. Text after ``AgentAudioDone`` in the same turn belongs to the reply that has ended.
* ``LatencyReport`` contains the service's own latencies in seconds; it is logged.
* The documentation does not state which errors end the connection. We treat an error as fatal before the
  session is ready or if the connection ends afterwards.

There are no manual turns, incomplete responses, usage or rate-limit messages. The service closes a session
that receives no audio for about ten seconds, so silence is sent between turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from live_eval.audio import Codec, CodecName
from live_eval.clients.toolkit import (
    EventDialect,
    Fields,
    ResponseTracker,
    TrackedResponse,
    UserTurns,
    given,
    in_json,
    merged,
    refusal_advice,
    refuse_settings,
    said_before,
    send_json,
    stored_agent,
    websocket_url,
)
from live_eval.dialect import (
    Dial,
    EndpointSettings,
    Output,
    ReplyText,
    SpeechStarted,
)
from live_eval.errors import FailureKind, UsageError

__all__ = ["DeepgramAgent"]

_RATE_HZ = 24_000
_CODEC = Codec(CodecName.PCM16, _RATE_HZ)
_AUDIO = {
    "input": {"encoding": "linear16", "sample_rate": _RATE_HZ},
    "output": {"encoding": "linear16", "sample_rate": _RATE_HZ, "container": "none"},
}
_FLUX = "flux"
_INTERNAL = "INTERNAL_SERVER_ERROR"


class DeepgramAgent(EventDialect):
    """A `Dialect` that tracks the state of one session.

    Raises:
        UsageError: The Voice Agent does not support these settings, or the base URL is not a URL.
    """

    binary_audio = True
    needs_continuous_input = True  # as documented
    before_ready = frozenset({"Welcome", "SettingsApplied", "Error", "Warning"})
    ignored = frozenset(
        {
            "AgentStartedSpeaking",
            "AgentThinking",
            "FrustrationDetected",
            "FunctionCallCancelled",
            "FunctionCallResponse",
            "History",
            "LatencyReport",
        }
    )

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._url = websocket_url(settings.base_url, "agent/converse", {})
        self._asked = merged(_asked(settings), settings.extra)
        if self._asked["audio"] != _AUDIO:
            raise UsageError(
                f"endpoint.extra.audio: expected {in_json(_AUDIO)} (the formats in use) or no value"
            )
        self.handlers = {
            "Welcome": self._on_welcome,
            "SettingsApplied": self._on_applied,
            "UserStartedSpeaking": self._on_user_speaks,
            "ConversationText": self._on_text,
            "AgentAudioDone": self._on_audio_done,
            "FunctionCallRequest": self._on_function_call,
            "Warning": self._on_warning,
            "Error": self._on_error,
        }
        self.advice[FailureKind.SESSION_REFUSED] = refusal_advice(
            settings, "agent", "the model, the voice and endpoint.extra"
        )
        self._replies = ResponseTracker()
        self._request_id: str | None = None
        self._turns = UserTurns()
        self._answered = False  # the current turn has had a reply
        self._drops = False  # drop audio: its reply was interrupted

    def dial(self) -> Dial:
        key = self.settings.key
        return Dial(self._url, {"Authorization": f"Token {key.reveal()}"} if key is not None else {})

    def audio(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        if self._drops:
            return ()
        if not self.ready:
            return (self.warning("ignored audio: it arrived before the session was ready"),)
        self._answered = True
        return self._replies.hear(pcm, _CODEC, at_ns)

    # -- Endpoint messages -------------------------------------------------------------------------------

    def _on_welcome(self, event: Fields, at_ns: int) -> list[Output]:
        self._request_id = event.text("request_id")
        return [send_json({"type": "Settings", **self._asked})]

    def _on_applied(self, event: Fields, at_ns: int) -> list[Output]:
        return self.become_ready(self._request_id)

    def _on_user_speaks(self, event: Fields, at_ns: int) -> list[Output]:
        self._answered = False
        self._drops |= self._replies.active is not None
        return [SpeechStarted(), *self._replies.interrupt(at_ns, "UserStartedSpeaking")]

    def _on_text(self, event: Fields, at_ns: int) -> list[Output]:
        text = event.need_text("content").strip()
        self._drops = False
        if event.need_text("role") == "user":
            self._answered = False
            return self._turns.said(text)
        outputs: list[Output] = []
        last = self._replies.last()
        reply = last if last is not None and last.done and self._answered else self._reply(outputs)
        return [*outputs, ReplyText(reply.response_id, text, final=True)]

    def _on_audio_done(self, event: Fields, at_ns: int) -> list[Output]:
        self._drops = False
        if self._replies.active is not None:  # else its reply was interrupted
            self.last_error = None
        return self._replies.complete()

    def _on_function_call(self, event: Fields, at_ns: int) -> list[Output]:
        ours = [each.text("name") or "" for each in event.children("functions") if each.flag("client_side")]
        if not ours:  # the service calls these functions itself
            return []
        text = f"the model called {', '.join(ours)}; this client has no functions: remove them from the agent"
        return [self.warning(text)]

    def _on_warning(self, event: Fields, at_ns: int) -> list[Output]:
        return [self.warning(_described(event, "a warning"), event.text("code"))]

    def _on_error(self, event: Fields, at_ns: int) -> list[Output]:
        code, text = event.text("code"), self.clean(_described(event, "an error"))
        if not self.ready:
            return [self.refused(text, code, FailureKind.SERVER_ERROR if code == _INTERNAL else None)]
        self.last_error = text
        return [self.warning(text, code)]

    # -- Helpers -----------------------------------------------------------------------------------------

    def _reply(self, outputs: list[Output]) -> TrackedResponse:
        self._answered = True
        return self._replies.current(outputs)


def _described(event: Fields, what: str) -> str:
    parts = filter(None, (event.text("code"), event.text("description")))
    return ": ".join(parts) or f"{what} without details"


def _context(settings: EndpointSettings) -> dict[str, Any] | None:
    """Return the earlier turns of the dialogue; None if there are none."""
    said = said_before(settings, "user", "assistant")
    messages = [{"type": "History", "role": role, "content": text} for role, text in said]
    return {"messages": messages} if messages else None


def _asked(settings: EndpointSettings) -> dict[str, Any]:
    """Return the ``Settings`` to send, without the user's ``extra``."""
    refuse_settings(
        settings,
        modality="the Voice Agent always speaks; text output is not supported",
        turn_mode="the Voice Agent's detector ends turns; remove this setting",
        max_output_tokens="the Voice Agent has no reply length limit; remove this setting",
    )
    if not isinstance(settings.extra.get("agent"), Mapping) and stored_agent(settings, "agent") is not None:
        return {"audio": _AUDIO}
    heard = settings.transcription_model
    listen = given(
        type="deepgram", model=heard, version="v2" if heard is not None and _FLUX in heard else None
    )
    return {
        "audio": _AUDIO,
        "agent": given(
            language=settings.language,
            listen={"provider": {**listen, **settings.turn_detection}},
            think=given(provider=given(type="open_ai", model=settings.model), prompt=settings.instructions),
            context=_context(settings),
            speak={"provider": given(type="deepgram", model=settings.voice)},
        ),
    }
