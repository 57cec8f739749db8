"""Ultravox Realtime over WebSocket, ``https://api.ultravox.ai/api/calls``.

Message shapes follow Ultravox's documentation (``apps/websockets`` and ``apps/datamessages`` of
fixie-ai/ultradox) and pipecat 1.14 (``pipecat.services.ultravox``). Behaviour and decisions:

* A POST with ``X-API-Key`` creates the call; its ``joinUrl`` needs no key, and is a secret.
  ``endpoint.extra`` is merged over the request. With ``endpoint.extra.agent_id``, the call uses a stored
  agent, which sets prompt, model, voice and detector.
* Earlier turns of the dialogue are ``initialMessages`` of the request.
* Turn detection settings are Ultravox's ``vadSettings`` (``turnEndpointDelay=0.5s``).
* The server sends audio close to real time, up to ``medium.serverWebSocket.clientBufferSizeMs`` ahead. This
  affects ``first_byte``, stalls and interruptions, so we always send a value: 60, Ultravox's default.
* The user speaks first, unless ``firstSpeakerSettings`` or the agent says otherwise.
* **Audio has no response IDs**, so we number the replies: a reply lasts from its first audio or text to the
  state after ``speaking``. Text that arrives later belongs to the reply that has ended.
* State ``thinking`` after a reply has ended is the accepted turn. There is no message for the start of the
  user's speech; transcripts come from another model, and late.
* ``playback_clear_buffer`` means that the user interrupted the reply: audio is dropped until the next state
  ``speaking``.

There are no manual turns, error messages, incomplete responses, usage or rate-limit messages. A call ends if
it hears no audio, so silence is sent between turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from live_eval.audio import Codec, CodecName
from live_eval.clients.toolkit import (
    EventDialect,
    Fields,
    ResponseTracker,
    TextSoFar,
    UserTurns,
    given,
    http_url,
    merged,
    refuse_settings,
    said_before,
    send_json,
    stored_agent,
)
from live_eval.dialect import (
    Dial,
    EndpointSettings,
    InputTranscript,
    Lookup,
    Output,
    SpeechStarted,
)
from live_eval.errors import UsageError

__all__ = ["Ultravox"]

_RATE_HZ = 48_000
_CODEC = Codec(CodecName.PCM16, _RATE_HZ)
_CLIENT_BUFFER_MS = 60
_RATES = {"inputSampleRate": _RATE_HZ, "outputSampleRate": _RATE_HZ}


class Ultravox(EventDialect):
    """A `Dialect` that tracks the state of one call.

    Raises:
        UsageError: Ultravox does not support these settings, or the base URL is not a URL.
    """

    binary_audio = True
    needs_continuous_input = True
    before_ready = frozenset({"call_started", "state", "debug"})
    ignored = frozenset({"debug", "pong"})

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        agent_id = stored_agent(settings, "agent_id")
        extra = {name: value for name, value in settings.extra.items() if name != "agent_id"}
        path = f"agents/{quote(agent_id, safe='')}/calls" if agent_id else "calls"
        self._url = http_url(settings.base_url, path, {})
        self._call = merged(_call(settings, stored=agent_id is not None), extra)
        medium = self._call["medium"]
        socket = medium.get("serverWebSocket") if isinstance(medium, Mapping) else None
        if not isinstance(socket, Mapping) or {name: socket.get(name) for name in _RATES} != _RATES:
            raise UsageError(
                f"endpoint.extra.medium: expected serverWebSocket with {_RATES} (the rates in use)"
            )
        self.handlers = {
            "call_started": lambda event, at_ns: self.become_ready(event.text("callId")),
            "state": self._on_state,
            "transcript": self._on_transcript,
            "playback_clear_buffer": self._on_clear,
            "client_tool_invocation": lambda event, _: [self.tool_called(event.text("toolName"), "call")],
        }
        self._replies = ResponseTracker()
        self._text = TextSoFar()
        self._turns = UserTurns()
        self._accepted = False  # whether the current turn was accepted
        self._transcribed = True  # whether the last accepted turn has its transcript
        self._drops = False  # whether audio belongs to a reply that was cut off

    def dial(self) -> Dial:
        key = self.settings.key
        read = partial(self.address_in, field="joinUrl")
        lookup = Lookup(None, 'JSON with "joinUrl"', read, json=self._call)
        return Dial(self._url, {"X-API-Key": key.reveal()} if key is not None else {}, lookup=lookup)

    def audio(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        if self._drops:
            return ()
        if not self.ready:
            return (self.warning("ignored audio: it arrived before the call had started"),)
        return self._replies.hear(pcm, _CODEC, at_ns)

    def finish(self, at_ns: int) -> Sequence[Output]:
        return (send_json({"type": "hang_up"}), *super().finish(at_ns))

    # -- Endpoint messages -------------------------------------------------------------------------------

    def _on_state(self, event: Fields, at_ns: int) -> list[Output]:
        state = event.need_text("state")
        if state == "speaking":
            self._drops = False
            return []
        if not self.ready:
            return []
        outputs = self._replies.complete()
        if outputs:
            self._accepted = False
        if state == "thinking":
            outputs += self._accept()
        return outputs

    def _on_transcript(self, event: Fields, at_ns: int) -> list[Output]:
        text, delta, final = event.text("text"), event.text("delta"), event.flag("final") is True
        if event.need_text("role") == "user":
            if text is None or not final:
                return []
            # the transcript of the last accepted turn may arrive after its reply
            outputs = self._accept() if self._transcribed else []
            self._transcribed = True
            return [*outputs, InputTranscript(text, True, self._turns.last)]
        if self._drops:
            return []
        outputs = []
        last = self._replies.last()
        ended = last is not None and last.done and not self._accepted
        reply = last if last is not None and ended else self._replies.current(outputs)
        if text is None:
            return [*outputs, *self._text.added(reply.response_id, delta or "")]
        say = self._text.over if final else self._text.said
        return [*outputs, *say(reply.response_id, text)]

    def _on_clear(self, event: Fields, at_ns: int) -> list[Output]:
        self._accepted = False
        self._drops |= self._replies.active is not None
        return [SpeechStarted(), *self._replies.interrupt(at_ns, "playback_clear_buffer")]

    # -- Helpers -----------------------------------------------------------------------------------------

    def _accept(self) -> list[Output]:
        """Report the user's turn as accepted, once."""
        if self._accepted:
            return []
        self._accepted, self._transcribed = True, False
        return self._turns.accept()


def _call(settings: EndpointSettings, *, stored: bool) -> dict[str, Any]:
    """Return the request that creates a call, without the user's ``extra``."""
    refuse_settings(
        settings,
        modality="Ultravox calls speak; text output is not supported",
        turn_mode="Ultravox's detector ends turns; remove this setting",
        max_output_tokens="Ultravox has no reply length limit; remove this setting",
    )
    medium = {"serverWebSocket": {**_RATES, "clientBufferSizeMs": _CLIENT_BUFFER_MS}}
    if stored:
        return {"medium": medium}
    said = said_before(settings, "MESSAGE_ROLE_USER", "MESSAGE_ROLE_AGENT")
    return given(
        systemPrompt=settings.instructions,
        model=settings.model,
        voice=settings.voice,
        languageHint=settings.language,
        vadSettings=dict(settings.turn_detection) or None,
        initialMessages=[{"role": role, "text": text} for role, text in said] or None,
        firstSpeakerSettings={"user": {}},
        medium=medium,
    )
