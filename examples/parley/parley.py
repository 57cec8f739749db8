"""Parley, a fictional vendor with its own protocol.

JSON over WebSocket: the client joins, streams the microphone and leaves; the endpoint announces the speaker.
"""

from collections.abc import Sequence

from pybase64 import b64encode_as_string

from live_eval.audio import Codec, CodecName
from live_eval.clients.toolkit import (
    EventDialect,
    Fields,
    ResponseTracker,
    bearer_header,
    refuse_settings,
    send_json,
    websocket_url,
)
from live_eval.dialect import (
    Committed,
    Dial,
    EndpointSettings,
    InputTranscript,
    Interrupted,
    Output,
    ReplyAudio,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
)
from live_eval.errors import FailureKind
from live_eval.registry import ClientSpec
from live_eval.timing import ResponseStatus
from live_eval.types import TurnMode

SPEC = ClientSpec(
    name="parley",
    title="Parley",
    dialect="parley:Parley",
    transport="live_eval.clients.transports.websocket:WebSocketTransport",
    base_url="wss://parley.example",
    key_variable="PARLEY_API_KEY",
    input_rate_hz=16_000,
    output_rate_hz=16_000,
    turn_modes=(TurnMode.SERVER_VAD,),
)
_REPLY = Codec(CodecName.PCM16, 16_000)


class Parley(EventDialect):
    """One session's protocol state; a `live_eval.dialect.Dialect`."""

    needs_continuous_input = True
    type_field = "op"
    audio_fields = ("pcm",)
    before_ready = frozenset({"joined", "trouble"})
    ignored = frozenset({"pulse"})

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        refuse_settings(settings, modality="Parley only speaks", turn_mode="Parley ends turns itself")
        self._responses = ResponseTracker()
        self.handlers = {
            "joined": self._on_joined,
            "floor": self._on_floor,
            "voice": self._on_voice,
            "caption": self._on_caption,
            "trouble": self._on_trouble,
        }

    def dial(self) -> Dial:
        """Return the URL and headers of the connection."""
        return Dial(websocket_url(self.settings.base_url, "talk", {}), bearer_header(self.settings))

    def opened(self, at_ns: int) -> Sequence[Output]:
        """Join the session."""
        return (send_json({"op": "join", "brief": self.settings.instructions}),)

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        """Send a frame of the user's audio."""
        return (send_json({"op": "mic", "pcm": b64encode_as_string(pcm)}),)

    def finish(self, at_ns: int) -> Sequence[Output]:
        """Leave the session and close."""
        return send_json({"op": "leave"}), *super().finish(at_ns)

    def _on_joined(self, event: Fields, at_ns: int) -> list[Output]:
        return self.become_ready(event.text("room"))

    def _on_floor(self, event: Fields, at_ns: int) -> list[Output]:
        holder, active = event.need_name("holder"), self._responses.active
        if holder == "endpoint":
            return [SpeechStopped(), Committed(), ResponseStarted(self._responses.begin().response_id)]
        outputs: list[Output] = [SpeechStarted()] if holder == "user" else []
        if active is not None:
            self._responses.end(active)
            if holder == "user":
                outputs.append(Interrupted(active.response_id))
            status = ResponseStatus.CANCELLED if holder == "user" else ResponseStatus.COMPLETED
            outputs.append(ResponseDone(active.response_id, status))
        return outputs

    def _on_voice(self, event: Fields, at_ns: int) -> list[Output]:
        active, data = self._responses.active, event.need_bytes("pcm")
        return [] if active is None else [ReplyAudio(active.response_id, data, _REPLY)]

    def _on_caption(self, event: Fields, at_ns: int) -> list[Output]:
        words, active = event.need_text("words"), self._responses.active
        if active is None:
            return [InputTranscript(words, final=True)]
        return [ReplyText(active.response_id, words, final=True)]

    def _on_trouble(self, event: Fields, at_ns: int) -> list[Output]:
        return [self.fatal(FailureKind.ENDPOINT_ERROR, event.text("why") or "trouble without a reason")]
