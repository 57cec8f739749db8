"""AssemblyAI Voice Agent over WebSocket, ``wss://agents.assemblyai.com/v1/ws``.

Message shapes follow AssemblyAI's events reference (https://www.assemblyai.com/docs/voice-agents/
voice-agent-api/events-reference) and command line (``voice_agent`` in AssemblyAI/cli). Behaviour and
decisions:

* ``session.update`` is the first message; ``session.ready`` opens the session.
* ``endpoint.extra`` is merged over its ``session``. With ``endpoint.extra.agent_id``, a stored agent sets
  prompt, voice and detector. Without a ``greeting``, the agent waits for the user.
* Turn detection settings are those of ``session.input.turn_detection`` (``vad_threshold``, ``min_silence``).
* ``reply.audio`` has no reply ID: it belongs to the reply that started last. A reply arrives faster than it
  is played, so ``reply.done`` precedes the end of playback.
* ``reply.done`` with status ``interrupted`` is an interruption; audio that arrives after it is dropped.
  ``input.speech.started`` interrupts a complete reply that is still being played: clients then drop it.
* Words of a reply arrive one by one as ``transcript.agent.delta``, and its whole text at the end.
* ``session.end`` is sent before closing, because a session is otherwise billed for 30 s longer.

There are no manual turns, incomplete responses, usage or rate-limit messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from live_eval.audio import Codec, CodecName
from live_eval.clients.toolkit import (
    NO_TOOL,
    EventDialect,
    Fields,
    ResponseTracker,
    TrackedResponse,
    bearer_header,
    given,
    in_json,
    merged,
    refusal_advice,
    refuse_settings,
    send_audio,
    send_json,
    stored_agent,
    websocket_url,
)
from live_eval.dialect import (
    Committed,
    Dial,
    EndpointProblem,
    EndpointSettings,
    InputTranscript,
    Output,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.timing import ResponseStatus

__all__ = ["AssemblyAiAgent"]

_RATE_HZ = 24_000
_CODEC = Codec(CodecName.PCM16, _RATE_HZ)
_FORMAT = {"encoding": "audio/pcm"}  # 24 kHz
_FORMATS = (_FORMAT, _FORMAT | {"sample_rate": _RATE_HZ})
_FATAL: Mapping[str, FailureKind] = MappingProxyType(
    {
        "UNAUTHORIZED": FailureKind.AUTHENTICATION,
        "FORBIDDEN": FailureKind.AUTHENTICATION,
        "INTERNAL_ERROR": FailureKind.SERVER_ERROR,
        "at_capacity": FailureKind.BUSY,
        "concurrency_exceeded": FailureKind.BUSY,
    }
)
_REFUSED_KEY = re.compile(r"unauthori[sz]ed|api.key", re.IGNORECASE)


class AssemblyAiAgent(EventDialect):
    """A `Dialect` that tracks the state of one session.

    Raises:
        UsageError: The Voice Agent does not support these settings, or the base URL is not a URL.
    """

    needs_continuous_input = True
    before_ready = frozenset({"session.ready", "session.error", "session.ended"})
    audio_fields = ("audio", "data")
    ignored = frozenset({"session.updated", "transcript.user.delta"})

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._url = websocket_url(settings.base_url, "ws", {})
        self._asked = merged(_asked(settings), settings.extra)
        otherwise = (
            {"format": _FORMAT} if "agent_id" in self._asked else {}
        )  # the agent has formats of its own
        for side in ("input", "output"):
            chosen = self._asked.get(side, {})
            if not isinstance(chosen, Mapping) or (otherwise | {**chosen}).get("format") not in _FORMATS:
                raise UsageError(
                    f"endpoint.extra.{side}.format: expected {in_json(_FORMAT)} (the format in use)"
                )
        self.handlers = {
            "session.ready": lambda event, at_ns: self.become_ready(event.text("session_id")),
            "input.speech.started": self._on_speech_started,
            "input.speech.stopped": lambda event, at_ns: [SpeechStopped()],
            "transcript.user": self._on_user_text,
            "reply.started": self._on_reply_started,
            "reply.audio": self._on_audio,
            "transcript.agent.delta": self._on_word,
            "transcript.agent": self._on_agent_text,
            "reply.done": self._on_reply_done,
            "tool.call": self._on_tool_call,
            "session.error": self._on_error,
            "session.ended": self._on_ended,
        }
        self.advice[FailureKind.SESSION_REFUSED] = refusal_advice(
            settings, "agent_id", "the voice, the language and endpoint.extra"
        )
        self.advice[FailureKind.AUTHENTICATION] = "check the key"
        self._replies = ResponseTracker()
        self._calls: list[str] = []  # tools that the agent called during its reply
        self._drops = False  # whether audio belongs to a reply that was interrupted

    def dial(self) -> Dial:
        return Dial(self._url, bearer_header(self.settings))

    def opened(self, at_ns: int) -> Sequence[Output]:
        return (send_json({"type": "session.update", "session": self._asked}),)

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        return (send_audio('{"type":"input.audio","audio":"', pcm),)

    def finish(self, at_ns: int) -> Sequence[Output]:
        return (send_json({"type": "session.end"}), *super().finish(at_ns))

    def closing(self, code: int | None, reason: str, at_ns: int) -> EndpointProblem:
        if not self.ready and _REFUSED_KEY.search(reason):
            text = self.closed_text("before the session was ready", code, reason)
            return self.fatal(FailureKind.AUTHENTICATION, text)
        return super().closing(code, reason, at_ns)

    # -- Endpoint messages -------------------------------------------------------------------------------

    def _on_speech_started(self, event: Fields, at_ns: int) -> list[Output]:
        playing = self._replies.audible(at_ns)
        stops = playing is not None and playing.done  # an active reply may continue
        return [SpeechStarted(), *(self._replies.interrupt(at_ns, "input.speech.started") if stops else ())]

    def _on_user_text(self, event: Fields, at_ns: int) -> list[Output]:
        item_id = event.text("item_id")
        return [Committed(item_id), InputTranscript(event.need_text("text"), True, item_id)]

    def _on_reply_started(self, event: Fields, at_ns: int) -> list[Output]:
        name = event.text("reply_id")
        if name is not None and self._replies.get(name) is not None:
            return [self.malformed(f"reply.started: {name} has already started")]
        self._drops = False
        reply = self._replies.begin(name)
        return [ResponseStarted(reply.response_id)]

    def _on_audio(self, event: Fields, at_ns: int) -> list[Output]:
        pcm = event.need_samples("data")
        return self._replies.hear(pcm, _CODEC, at_ns) if pcm and not self._drops else []

    def _on_word(self, event: Fields, at_ns: int) -> list[Output]:
        reply = self._reply(event)
        if reply is None or reply.has_whole_text:
            return []
        return [ReplyText(reply.response_id, f"{event.need_text('delta').strip()} ")]

    def _on_agent_text(self, event: Fields, at_ns: int) -> list[Output]:
        reply, text = self._reply(event), event.need_text("text")
        if reply is None:
            return []
        reply.has_whole_text = True
        return [ReplyText(reply.response_id, text, final=True)]

    def _on_tool_call(self, event: Fields, at_ns: int) -> list[Output]:
        self._calls.append(event.need_text("call_id"))
        return self.tool_called(event.text("name"))

    def _on_reply_done(self, event: Fields, at_ns: int) -> list[Output]:
        """End the reply, and answer the calls of tools in it, as the documentation's sequence does."""
        failed = [
            send_json({"type": "tool.result", "call_id": call_id, "result": in_json({"error": NO_TOOL})})
            for call_id in self._calls
        ]
        self._calls.clear()
        return [*self._ended_reply(event, at_ns), *failed]

    def _ended_reply(self, event: Fields, at_ns: int) -> list[Output]:
        if event.text("status") == "interrupted":
            self._drops = True
            return self._replies.interrupt(at_ns, "interrupted")
        reply = self._replies.active
        if reply is None:
            return []
        failed, self.last_error = self.last_error, None
        if failed is not None and not reply.plays_until_ns:  # the error replaced the reply
            self._replies.end(reply)
            return [ResponseDone(reply.response_id, ResponseStatus.FAILED, failed)]
        return self._replies.complete()

    def _on_error(self, event: Fields, at_ns: int) -> list[Output]:
        code = event.text("code")
        said = ": ".join(filter(None, (code, event.text("message"))))
        text = self.clean(said) or "an error without details"
        if not self.ready:
            return [self.refused(text, code, _FATAL.get(code or ""))]
        self.last_error = text
        return [self.warning(text, code)]

    def _on_ended(self, event: Fields, at_ns: int) -> list[Output]:
        if self.over:  # it confirms our own session.end
            return []
        return [self.fatal(FailureKind.SESSION_EXPIRED, "the endpoint ended the session: session.ended")]

    # -- Helpers -----------------------------------------------------------------------------------------

    def _reply(self, event: Fields) -> TrackedResponse | None:
        """Return the reply that a text belongs to, by ID or else the last one; None if there is none."""
        name = event.text("reply_id")
        return self._replies.last() if name is None else self._replies.get(name)


def _asked(settings: EndpointSettings) -> dict[str, Any]:
    """Return the ``session`` to send, without the user's ``extra``."""
    refuse_settings(
        settings,
        modality="the Voice Agent always speaks; text output is not supported",
        turn_mode="the Voice Agent's detector ends turns; remove this setting",
        max_output_tokens="the Voice Agent has no reply length limit; remove this setting",
        model="the Voice Agent chooses the model; remove this setting",
    )
    if stored_agent(settings, "agent_id") is not None:
        return {}
    codes = None if settings.language is None else [settings.language]
    detection = dict(settings.turn_detection) or None
    return given(
        system_prompt=settings.instructions,
        input=given(format=_FORMAT, language_codes=codes, turn_detection=detection),
        output=given(format=_FORMAT, voice=settings.voice),
    )
