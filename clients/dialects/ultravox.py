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

from live_eval.audio import Codec, CodecName
from live_eval.clients.dialects._ultravox_call import (
    IGNORED,
    JOIN_ADVICE,
    CallTurns,
    call_request,
    tool_result,
)
from live_eval.clients.toolkit import (
    EventDialect,
    Fields,
    ResponseTracker,
    TextSoFar,
    in_json,
    refuse_settings,
    send_json,
)
from live_eval.dialect import Dial, EndpointSettings, Lookup, Output, SpeechStarted
from live_eval.errors import FailureKind, UsageError

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
    ignored = IGNORED

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        refuse_settings(settings, turn_mode="Ultravox's detector ends turns; remove this setting")
        asked = {"serverWebSocket": {**_RATES, "clientBufferSizeMs": _CLIENT_BUFFER_MS}}
        self._call = call_request(settings, asked)
        medium = self._call.body["medium"]
        socket = medium.get("serverWebSocket") if isinstance(medium, Mapping) else None
        if not isinstance(socket, Mapping) or {name: socket.get(name) for name in _RATES} != _RATES:
            raise UsageError(
                f"endpoint.extra.medium: expected serverWebSocket with {in_json(_RATES)} (the rates in use)"
            )
        self.handlers = {
            "call_started": self._on_started,
            "state": self._on_state,
            "transcript": self._on_transcript,
            "playback_clear_buffer": self._on_clear,
            "client_tool_invocation": lambda event, _: self.tool_called(
                event.text("toolName"), send_json(tool_result(event)), place="call"
            ),
        }
        self.advice = {**self._call.advice, FailureKind.CLOSED: JOIN_ADVICE}
        self._replies = ResponseTracker()
        self._text = TextSoFar()
        self._turns = CallTurns()
        self._drops = False  # whether audio belongs to a reply that was cut off

    def dial(self) -> Dial:
        read = partial(self.address_in, field="joinUrl")
        lookup = Lookup(None, 'JSON with "joinUrl"', read, json=self._call.body)
        return Dial(self._call.url, self._call.headers, lookup=lookup, advice=self.advice)

    def audio(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        if self._drops:
            return ()
        if not self.ready:
            return (self.warning("ignored audio: it arrived before the call had started"),)
        return self._replies.hear(pcm, _CODEC, at_ns)

    def finish(self, at_ns: int) -> Sequence[Output]:
        return (send_json({"type": "hang_up"}), *super().finish(at_ns))

    # -- Endpoint messages -------------------------------------------------------------------------------

    def _on_started(self, event: Fields, at_ns: int) -> list[Output]:
        self.advice.pop(FailureKind.CLOSED, None)
        return self.become_ready(event.text("callId"))

    def _on_state(self, event: Fields, at_ns: int) -> list[Output]:
        state = event.need_text("state")
        if state == "speaking":
            self._drops = False
            return []
        if not self.ready:
            return []
        outputs = self._replies.complete()
        if outputs:
            self._turns.accepted = False
        if state == "thinking":
            outputs += self._turns.accept()
        return outputs

    def _on_transcript(self, event: Fields, at_ns: int) -> list[Output]:
        text, delta, final = event.text("text"), event.text("delta"), event.flag("final") is True
        if event.need_text("role") == "user":
            if text is None or not final:
                return []
            return self._turns.said(text)
        if self._drops and (self._turns.accepted or not final):
            return []  # only the final text of the interrupted reply follows
        outputs: list[Output] = []
        last = self._replies.last()
        ended = last is not None and last.done and not self._turns.accepted
        reply = last if last is not None and ended else self._replies.current(outputs)
        if text is None:
            return [*outputs, *self._text.added(reply.response_id, delta or "")]
        say = self._text.over if final else self._text.said
        return [*outputs, *say(reply.response_id, text)]

    def _on_clear(self, event: Fields, at_ns: int) -> list[Output]:
        self._turns.accepted = False
        self._drops |= self._replies.active is not None
        return [SpeechStarted(), *self._replies.interrupt(at_ns, "playback_clear_buffer")]
