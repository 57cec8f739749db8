"""Deepgram Voice Agent over WebSocket, ``wss://agent.deepgram.com/v1/agent/converse``.

Message shapes follow Deepgram's API specification (``asyncapi.yml`` in deepgram/deepgram-api-specs) and SDK
(``deepgram/agent/v1``, deepgram-sdk 7.17). Behaviour and decisions:

* The server sends ``Welcome``, the client replies with ``Settings``, and the session starts with
  ``SettingsApplied``. The key is sent as ``Authorization: Token``.
* ``endpoint.extra`` is merged over ``Settings``. Its ``agent`` may be the ID of a stored agent, which then
  sets prompt, models, voice and detector. Without a ``greeting``, the agent waits for the user.
* Earlier turns of the dialogue are ``agent.context.messages`` in ``Settings``.
* ``model`` is the language model of ``agent.think``, at OpenAI unless ``extra`` names another provider;
  ``voice`` is the model of ``agent.speak``, and ``transcription_model`` is the model of ``agent.listen``. Of
  both, Flux models need version v2. The recogniser's thresholds are turn detection settings
  (``eot_threshold``, …). The language is the recogniser's; ``agent.language`` is deprecated.
* Manual turns need a Flux recogniser: an ``eot_threshold`` of 1 stops its own decisions, and ``ForceEndTurn``
  ends the turn. The service ignores it if it has not heard the user.
* **Audio has no response IDs**, so we number the replies: a reply lasts from its first text or audio to
  ``AgentAudioDone``.
* ``UserStartedSpeaking`` is sent for every utterance. During a reply, it also interrupts the reply: later
  audio is dropped until the next text or ``AgentAudioDone``.
* ``ConversationText`` contains one sentence of the reply, or the user's whole utterance, which counts as the
  accepted turn. Text after ``AgentAudioDone`` in the same turn belongs to the reply that has ended.
* ``LatencyReport`` contains the service's own latencies in seconds; it is logged.
* An error usually ends the session, as the documentation says: it is fatal before the session is ready, if
  the connection ends afterwards, and if nothing follows for three seconds.
* A call of a function at the client is answered with an error, since the agent waits for its result.

There are no incomplete responses, usage or rate-limit messages. The service closes a session
that receives no audio for about ten seconds, so silence is sent between turns.
"""

from __future__ import annotations

from collections.abc import Sequence

from live_eval.audio import Codec, CodecName
from live_eval.clients.dialects._deepgram_settings import RATE_HZ, agent_settings
from live_eval.clients.toolkit import (
    NO_TOOL,
    EventDialect,
    Fields,
    ResponseTracker,
    TrackedResponse,
    UserTurns,
    refusal_advice,
    send_json,
    websocket_url,
)
from live_eval.dialect import Dial, EndpointSettings, Output, ReplyText, SetTimer, SpeechStarted
from live_eval.errors import FailureKind

__all__ = ["DeepgramAgent"]

_CODEC = Codec(CodecName.PCM16, RATE_HZ)
_FAILED = "nothing follows an error"
_FAILED_NS = 3_000_000_000
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
            "__customFromThinkProvider",
        }
    )

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._url = websocket_url(settings.base_url, "agent/converse", {})
        self._asked = agent_settings(settings)
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
        check = refusal_advice(settings, "agent", "the model, the voice and endpoint.extra")
        self.advice |= {FailureKind.SESSION_REFUSED: check, FailureKind.CLOSED: check}
        self._replies = ResponseTracker()
        self._request_id: str | None = None
        self._turns = UserTurns()
        self._answered = False  # the current turn has had a reply
        self._failed: str | None = None  # an error that nothing has followed
        self._drops = False  # drop audio: its reply was interrupted

    def dial(self) -> Dial:
        key = self.settings.key
        return Dial(self._url, {"Authorization": f"Token {key.reveal()}"} if key is not None else {})

    def audio(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        if self._drops:
            return ()
        if not self.ready:
            return (self.warning("ignored audio: it arrived before the session was ready"),)
        self._answered, self._failed = True, None
        return self._replies.hear(pcm, _CODEC, at_ns)

    def end_turn(self, at_ns: int) -> Sequence[Output]:
        return (send_json({"type": "ForceEndTurn"}),)

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        failed = self._failed
        return (self.fatal(FailureKind.ENDPOINT_ERROR, failed),) if failed is not None else ()

    # -- Endpoint messages -------------------------------------------------------------------------------

    def _on_welcome(self, event: Fields, at_ns: int) -> list[Output]:
        self._request_id = event.text("request_id")
        return [send_json({"type": "Settings", **self._asked})]

    def _on_applied(self, event: Fields, at_ns: int) -> list[Output]:
        self.advice.pop(FailureKind.CLOSED, None)
        return self.become_ready(self._request_id)

    def _on_user_speaks(self, event: Fields, at_ns: int) -> list[Output]:
        self._answered = False
        self._drops |= self._replies.active is not None
        self._failed = None
        return [SpeechStarted(), *self._replies.interrupt(at_ns, "UserStartedSpeaking")]

    def _on_text(self, event: Fields, at_ns: int) -> list[Output]:
        text = event.need_text("content").strip()
        self._drops, self._failed = False, None
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
        outputs: list[Output] = []
        for each in event.children("functions"):
            if each.flag("client_side"):  # else the service calls it itself
                name = each.text("name") or ""
                answer = {"id": each.text("id"), "name": name, "content": NO_TOOL}
                outputs += self.tool_called(name, send_json({"type": "FunctionCallResponse", **answer}))
        return outputs

    def _on_warning(self, event: Fields, at_ns: int) -> list[Output]:
        return [self.warning(_described(event, "a warning"), event.text("code"))]

    def _on_error(self, event: Fields, at_ns: int) -> list[Output]:
        code, text = event.text("code"), self.clean(_described(event, "an error"))
        if not self.ready:
            return [self.refused(text, code, FailureKind.SERVER_ERROR if code == _INTERNAL else None)]
        self.last_error = self._failed = text
        return [self.warning(text, code), SetTimer(_FAILED, at_ns + _FAILED_NS)]

    # -- Helpers -----------------------------------------------------------------------------------------

    def _reply(self, outputs: list[Output]) -> TrackedResponse:
        self._answered = True
        return self._replies.current(outputs)


def _described(event: Fields, what: str) -> str:
    parts = filter(None, (event.text("code"), event.text("description")))
    return ": ".join(parts) or f"{what} without details"
