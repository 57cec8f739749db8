"""ElevenLabs Agents over WebSocket, ``wss://api.elevenlabs.io/v1/convai/conversation``.

Message shapes follow ElevenLabs' SDKs (``elevenlabs/conversational_ai/conversation.py``, elevenlabs 2.78, and
``agent.asyncapi.yaml`` of elevenlabs/packages). Behaviour and decisions:

* ``endpoint.extra.agent_id`` names the agent. With a key, a signed address is requested for it
  (``get-signed-url``); without one, the agent must be public.
* Other fields of ``endpoint.extra`` are merged over the first message
  (``conversation_initiation_client_data``). Prompt, language model, voice and language are overrides; if the
  agent's security settings do not allow them, the server closes with 1008. Without overrides, the agent runs
  unchanged. It speaks first unless its first message is empty
  (``conversation_config_override.agent.first_message``).
* The agent determines the audio formats: any PCM rate or ``ulaw_8000``. Its input, if not ``pcm_16000``, is
  converted from it, which delays the audio by 1 ms (2 ms to 8 kHz). The run states these formats.
* **Replies often have no end event.** A reply ends with ``agent_response_complete`` or, because most agents
  do not send it, 1.5 s after its audio was played.
* Text without audio for 5 s is a reply without audio: the agent, or an override, may be set to text only.
* ``interruption`` contains an event ID: audio up to that ID is dropped, even if it arrives later.
  ``agent_response_correction`` then contains the text of a response, and the part of it that was said.
* Only transcripts show when the user speaks: the first tentative transcript counts as the start of speech,
  the final one as the accepted turn.
* ``ping`` is answered immediately. The server closes the connection after 60 s without audio, so silence is
  sent between turns.
* An error is fatal if the connection ends after it.

There are no manual turns, incomplete responses, usage or rate-limit messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from live_eval.audio import Codec, CodecName, StreamResampler, encode
from live_eval.clients.dialects._elevenlabs_events import (
    ADDRESS_OPTIONS,
    BEFORE_READY,
    IGNORED,
    PATH,
    ElevenLabsEvents,
    address_query,
    agent_advice,
    initiation,
)
from live_eval.clients.toolkit import (
    RATES_HZ,
    Fields,
    UnmarkedReplies,
    http_url,
    refuse_settings,
    send_audio,
    send_json,
    websocket_url,
)
from live_eval.dialect import Dial, EndpointProblem, EndpointSettings, Lookup, Output
from live_eval.errors import FailureKind

__all__ = ["ElevenLabsAgent"]

_DEFAULT = "pcm_16000"
_CODEC = Codec(CodecName.PCM16, 16_000)
_PCM = re.compile(r"pcm_(\d{4,6})", re.ASCII)


class ElevenLabsAgent(ElevenLabsEvents):
    """A `Dialect` that tracks the state of one session.

    Raises:
        UsageError: ElevenLabs does not support these settings, or the base URL is not a URL.
    """

    needs_continuous_input = True
    before_ready = BEFORE_READY
    audio_fields = ("audio_base_64", "user_audio_chunk")
    ignored = IGNORED

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        query = address_query(settings)
        self._url = websocket_url(settings.base_url, PATH, query)
        self._signer = http_url(settings.base_url, f"{PATH}/get-signed-url", query)
        refuse_settings(settings, turn_mode="the agent's turn model ends turns; remove this setting")
        self._initiation = initiation(settings)
        self._replies = UnmarkedReplies(between=" ")
        self.handlers = {
            **self.events,
            "conversation_initiation_metadata": self._on_metadata,
            "audio": self._on_audio,
            "agent_response_complete": lambda event, at_ns: self._replies.over(),
            "interruption": self._on_interruption,
        }
        self._input = self._output = _CODEC
        self._resampler: StreamResampler | None = None
        self._interrupted_at = -1  # audio up to this event ID is dropped

    def dial(self) -> Dial:
        key = self.settings.key
        if key is None:
            return Dial(self._url)
        read = partial(self.address_in, field="signed_url", public=ADDRESS_OPTIONS)
        lookup = Lookup(None, 'JSON with "signed_url"', read)
        self.advice[404] = agent_advice("agent_id" in self.settings.extra)
        return Dial(self._signer, {"xi-api-key": key.reveal()}, lookup=lookup, advice=self.advice)

    def opened(self, at_ns: int) -> Sequence[Output]:
        return (send_json(self._initiation),)

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        if self._resampler is not None:
            pcm = encode(self._resampler.resample(np.frombuffer(pcm, "<i2")), self._input)
        return (send_audio('{"user_audio_chunk":"', pcm),)

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        return self._replies.over() if name == UnmarkedReplies.TIMER else ()

    def closing(self, code: int | None, reason: str, at_ns: int) -> EndpointProblem:
        when = "in the conversation" if self.ready else "before the conversation began"
        problem = self.ended(self.closed_text(when, code, reason))
        return self.with_advice(problem, named="agent_id" in self.settings.extra)

    def answer(self, message: Mapping[str, object]) -> Output:
        return send_json(message)

    # -- Endpoint messages -------------------------------------------------------------------------------

    def _on_metadata(self, event: Fields, at_ns: int) -> list[Output]:
        found = event.child("conversation_initiation_metadata_event")
        heard = found.text("user_input_audio_format") or _DEFAULT
        spoken = found.text("agent_output_audio_format") or _DEFAULT
        takes, gives = _codec_of(heard), _codec_of(spoken)
        if takes is None or gives is None:
            what = f"input is {heard[:40]}" if takes is None else f"output is {spoken[:40]}"
            text = f"the agent's {what}: set this format to PCM, or to µ-law at 8 kHz"
            return [self.fatal(FailureKind.WRONG_RATE, text)]
        self._input, self._output = takes, gives
        ready = self.become_ready(found.text("conversation_id"))
        if takes == gives == _CODEC:
            return ready
        text = f"{heard} in, {spoken} out"
        if takes != _CODEC:
            self._resampler = StreamResampler(_CODEC.rate_hz, takes.rate_hz)
            text += f", converted from {_DEFAULT} {1_000 * self._resampler.delay_s:g} ms later"
        return [EndpointProblem(FailureKind.AUDIO_FORMAT, text, fatal=False), *ready]

    def _on_audio(self, event: Fields, at_ns: int) -> list[Output]:
        found = event.child("audio_event")
        if (found.integer("event_id") or 0) <= self._interrupted_at:
            return []
        data = found.need_bytes("audio_base_64")
        self.last_error = None  # the agent recovered from the error
        return self._replies.audio(data, self._output, at_ns) if data else []

    def said(self, text: str, at_ns: int) -> list[Output]:
        return self._replies.text(text, at_ns)

    def corrected(self, original: str, text: str) -> list[Output]:
        return self._replies.correct(original, text)

    def _on_interruption(self, event: Fields, at_ns: int) -> list[Output]:
        dropped = event.child("interruption_event").integer("event_id")
        if dropped is not None:
            self._interrupted_at = max(self._interrupted_at, dropped)
        return [*self.user_began(), *self._replies.interrupted(at_ns, "interruption")]


def _codec_of(name: str) -> Codec | None:
    """Return the codec of an ElevenLabs format name; None if unsupported."""
    if name == "ulaw_8000":
        return Codec(CodecName.PCMU, 8_000)
    pcm = _PCM.fullmatch(name)
    rate_hz = int(pcm[1]) if pcm is not None else 0
    return Codec(CodecName.PCM16, rate_hz) if rate_hz in RATES_HZ else None
