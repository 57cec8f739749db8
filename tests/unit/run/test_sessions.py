"""The log of a session hides secrets that the endpoint issued while connecting."""

from __future__ import annotations

import json

from live_eval.cassettes import WireRecord
from live_eval.clients.dialects.elevenlabs import ElevenLabsAgent
from live_eval.dialect import EndpointSettings
from live_eval.run.sessions import SessionOrder, SessionResult
from live_eval.session.limits import SessionLimits
from live_eval.types import Secret, TurnMode

BASE = "wss://api.elevenlabs.io/v1"


def test_an_issued_signature_does_not_reach_the_log() -> None:
    settings = EndpointSettings(base_url=BASE, key=Secret("xi-123456"), extra={"agent_id": "agent_1"})
    dialect = ElevenLabsAgent(settings)
    lookup = dialect.dial().lookup
    assert lookup is not None
    url = f"{BASE}/convai/conversation?agent_id=agent_1&conversation_signature=s-123456"
    lookup.read(json.dumps({"signed_url": url}))
    order = SessionOrder(
        dialect="live_eval.clients.dialects.elevenlabs:ElevenLabsAgent",
        transport="",
        settings=settings,
        turn_mode=TurnMode.SERVER_VAD,
        limits=SessionLimits(),
        utterances=(),
    )
    echoed = '{"type": "ping", "note": "s-123456 and xi-123456"}'
    result = SessionResult(
        captures=(),
        messages=[[(0, True, echoed)]],
        secrets=frozenset(dialect.secrets),
        recorded=WireRecord(keeps=False),
    )
    [[message]] = result.logs(order)
    assert message.body == {"type": "ping", "note": "*** and ***"}
