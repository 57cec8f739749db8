"""Acme Voice, a fictional vendor: OpenAI events, a custom key header, and a heartbeat."""

from live_eval.clients.dialects.openai_realtime import OpenAIRealtime
from live_eval.registry import ClientSpec

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


class AcmeVoice(OpenAIRealtime):
    """One session's protocol state; a `live_eval.dialect.Dialect`."""

    ignored = OpenAIRealtime.ignored | {"heartbeat"}

    def headers(self) -> dict[str, str]:
        """Return the handshake headers: the key is sent as ``X-Acme-Key``."""
        key = self.settings.key
        return {"X-Acme-Key": key.reveal()} if key is not None else {}
