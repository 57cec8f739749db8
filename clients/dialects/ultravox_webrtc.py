"""Ultravox Realtime over WebRTC: a LiveKit room, with Ultravox's data messages as data packets.

Sources: ultravox-client-sdk-python d848715 (``ultravox_client/session.py``) and ultravox-client-sdk-js
e811f1c (``src/index.ts``), which join with LiveKit's SDK, and ``apps/datamessages`` of fixie-ai/ultradox.
Behaviour and decisions, beyond those of `live_eval.clients.dialects.ultravox` and
`live_eval.clients.dialects.livekit`:

* A POST creates a call with the medium ``webRtc``. Its ``joinUrl`` is a WebSocket, which first sends
  ``room_info`` with the address of the room and a token for it, and stays open during the call. The SDKs add
  ``apiVersion=1`` to the address, and so does this client; unlike them, it names no version of an SDK.
* Data messages are reliable data packets without a topic. Messages to the server of more than 1 KiB would go
  over the WebSocket; this client sends none.
* The session is ready when the state leaves ``idle``, as in the SDKs, or, without any state, two seconds
  after the agent has published its track. The agent may publish it only when it speaks.
* The agent's audio is a track, so replies are detected by their energy. ``playback_clear_buffer`` exists only
  over WebSocket; the server drops its audio. No message reports that a reply was interrupted: the state
  ``listening`` follows every reply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from live_eval.clients.dialects._room_events import RoomEvents
from live_eval.clients.dialects._ultravox_call import (
    IGNORED,
    JOIN_ADVICE,
    CallTurns,
    call_request,
    tool_result,
)
from live_eval.clients.dialects.livekit import ROOM_QUERY
from live_eval.clients.toolkit import Fields, TextSoFar, text_in, websocket_url
from live_eval.dialect import Dial, EndpointSettings, Lookup, Output, ReplyText, StreamText
from live_eval.errors import FailureKind, UsageError

__all__ = ["UltravoxWebRtc"]

_MEDIUM = "webRtc"
_IDLE = "idle"


class UltravoxWebRtc(RoomEvents):
    """A `Dialect` that tracks the state of one call.

    Raises:
        UsageError: Ultravox does not support these settings, or the base URL is not a URL.
    """

    log_advice = "see the call at Ultravox"
    events_before_ready = frozenset({"call_started", "state"})
    ignored_events = IGNORED | {"playback_clear_buffer"}

    def __init__(self, settings: EndpointSettings) -> None:
        self._call = call_request(settings, {_MEDIUM: {}})
        medium = self._call.body["medium"]
        if not isinstance(medium, Mapping) or set(medium) != {_MEDIUM}:
            raise UsageError(
                f"endpoint.extra.medium: expected only {_MEDIUM}; ultravox is for serverWebSocket"
            )
        super().__init__(replace(settings, extra={}))
        self._call_id: str | None = None
        self._text = TextSoFar()
        self._turns = CallTurns()
        self.events = {
            "call_started": self._on_started,
            "client_tool_invocation": lambda event, _: self.tool_called(
                event.text("toolName"), self.answer(tool_result(event)), place="call"
            ),
            "state": self._on_state,
            "transcript": self._on_transcript,
        }

    def dial(self) -> Dial:
        room = Lookup(None, 'the message "room_info" with "roomUrl" and "token"', self._room_in)
        call = Lookup(
            None,
            'JSON with "joinUrl"',
            lambda body: replace(self._joined(body), lookup=room),
            json=self._call.body,
        )
        return replace(
            super().dial(),
            url=self._call.url,
            headers=self._call.headers,
            signed=None,
            lookup=call,
            advice=self._call.advice,
        )

    def finish(self, at_ns: int) -> Sequence[Output]:
        return (self.answer({"type": "hang_up"}), *super().finish(at_ns))

    def no_agent_advice(self) -> str:
        return "check the call at Ultravox"

    def become_ready(self, session_id: str | None = None, model: str | None = None) -> list[Output]:
        return super().become_ready(self._call_id or session_id, model) if self._state != _IDLE else []

    def _joined(self, body: str) -> Dial:
        dial = self.address_in(body, "joinUrl")
        url = f"{dial.url}{'&' if urlsplit(dial.url).query else '?'}apiVersion=1"
        return replace(dial, url=url, advice={FailureKind.CLOSED: JOIN_ADVICE})

    def _room_in(self, message: str) -> Dial:
        token, url = text_in(message, "token"), text_in(message, "roomUrl")
        self.secrets.add(token)
        try:
            return Dial(websocket_url(url, "rtc", ROOM_QUERY), {"Authorization": f"Bearer {token}"})
        except UsageError as error:
            raise ValueError(str(error)) from None

    # -- Endpoint messages -------------------------------------------------------------------------------

    def _on_started(self, event: Fields, at_ns: int) -> list[Output]:
        self._call_id = event.text("callId")
        return []

    def _on_state(self, event: Fields, at_ns: int) -> list[Output]:
        before, self._state = self._state, event.need_text("state")
        outputs = self.become_ready(self._room)
        if before == "speaking":
            self._turns.accepted = False
        return [*outputs, *self._turns.accept()] if self._state == "thinking" else outputs

    def _on_transcript(self, event: Fields, at_ns: int) -> list[Output]:
        text, delta, final = event.text("text"), event.text("delta"), event.flag("final") is True
        if event.need_text("role") == "user":
            return self._turns.said(text) if text is not None and final else []
        utterance = str(event.integer("ordinal"))
        if text is None:
            said = self._text.added(utterance, delta or "")
        else:
            said = (self._text.over if final else self._text.said)(utterance, text)
        return [StreamText(each.text, each.final) for each in said if isinstance(each, ReplyText)]
