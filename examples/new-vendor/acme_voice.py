"""Acme Voice, a vendor that does not exist: OpenAI's events, a key in its own header, and a heartbeat."""

from typing import ClassVar

from live_eval.clients.dialects.openai_realtime import OpenAIRealtime, SessionShape
from live_eval.dialect import ClientSpec, EndpointSettings

SPEC = ClientSpec(
    name="acme",
    title="Acme Voice",
    dialect="acme_voice:AcmeVoice",
    transport="live_eval.clients.transports.websocket:WebSocketTransport",
    base_url="wss://voice.acme.example/v1",
    model="acme-1",
    key_variable="ACME_API_KEY",
    docs_url="https://voice.acme.example/docs",
)


class AcmeShape(SessionShape):
    """The key travels as ``X-Acme-Key``."""

    def headers(self, settings: EndpointSettings) -> dict[str, str]:
        """Return the headers of the handshake."""
        return {"X-Acme-Key": settings.key.reveal()} if settings.key is not None else {}


class AcmeVoice(OpenAIRealtime):
    """One session's protocol state; a `live_eval.dialect.Dialect`."""

    shape: ClassVar[SessionShape] = AcmeShape()
    ignored = OpenAIRealtime.ignored | {"heartbeat"}
