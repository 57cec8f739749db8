"""ElevenLabs Agents over WebRTC: a LiveKit room, with ElevenLabs' events as data packets.

Source: ``packages/client/src/utils/WebRTCConnection.ts`` of elevenlabs/packages, which joins with LiveKit's
SDK. Behaviour and decisions, beyond those of `live_eval.clients.dialects.elevenlabs` and
`live_eval.clients.dialects.livekit`:

* ``convai/conversation/token`` returns a token for a room; a public agent's needs no key. The room is at
  ``wss://livekit.rtc.elevenlabs.io`` (with data residency, ``livekit.rtc.eu.residency.elevenlabs.io`` or
  ``livekit.rtc.in.residency.elevenlabs.io``), or ``endpoint.extra.livekit_url``; for other hosts than
  ElevenLabs', at the host of the base URL.
* The first message is sent as a reliable data packet once the microphone is published. Events arrive as data
  packets without a topic.
* The session is ready when the conversation has begun and the agent's voice is subscribed to or, without
  metadata, for which the SDK does not wait, two seconds after the agent has published its track.
* The agent's audio is a track, so replies are detected by their energy; ``audio`` events have only times of
  characters. An ``interruption`` stops the reply: the server drops its audio.
* ``agent_response_correction`` replaces the text that it names, if it was said since the user's last turn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

from live_eval.clients.dialects._elevenlabs_events import (
    BEFORE_READY,
    IGNORED,
    PATH,
    ElevenLabsEvents,
    address_query,
    agent_advice,
    initiation,
)
from live_eval.clients.dialects._room_events import RoomEvents
from live_eval.clients.toolkit import Fields, http_url, text_in
from live_eval.dialect import Dial, EndpointSettings, Lookup, Output, StreamInterrupted, StreamText
from live_eval.errors import UsageError

__all__ = ["ElevenLabsWebRtc"]

_HOSTS = "elevenlabs.io"
_RESIDENCY = re.compile(r"(?:^|\.)((?:eu|in)\.residency\.elevenlabs\.io)$", re.ASCII)
_OPTION = "livekit_url"


class ElevenLabsWebRtc(RoomEvents, ElevenLabsEvents):
    """A `Dialect` that tracks the state of one session.

    Raises:
        UsageError: ElevenLabs does not support these settings, or an address is not a URL.
    """

    log_advice = "see the conversation's history at ElevenLabs"
    events_before_ready = BEFORE_READY
    ignored_events = IGNORED | {"audio", "agent_response_complete"}

    def __init__(self, settings: EndpointSettings) -> None:
        query = address_query(settings)
        self._tokens = http_url(settings.base_url, f"{PATH}/token", query)
        super().__init__(replace(settings, base_url=_rooms(settings), extra={}))
        self._has_agent = "agent_id" in query
        self._initiation = initiation(settings, (_OPTION,))
        self._conversation: str | None = None
        self._said: list[str] = []  # since the user's last turn
        self.events |= {
            "conversation_initiation_metadata": self._on_metadata,
            "interruption": lambda event, at_ns: [*self.user_began(), StreamInterrupted()],
        }

    def dial(self) -> Dial:
        key = self.settings.key
        headers = {"xi-api-key": key.reveal()} if key is not None else {}
        lookup = Lookup(None, 'JSON with "token"', self._room_in)
        self.advice[404] = self.no_agent_advice()
        return replace(
            super().dial(), url=self._tokens, headers=headers, signed=None, lookup=lookup, advice=self.advice
        )

    def opened(self, at_ns: int) -> Sequence[Output]:
        return (*super().opened(at_ns), self.answer(self._initiation))

    def no_agent_advice(self) -> str:
        return agent_advice(self._has_agent)

    def become_ready(self, session_id: str | None = None, model: str | None = None) -> list[Output]:
        begun = self._tracks and (self._conversation is not None or session_id is not None)
        return super().become_ready(self._conversation or session_id, model) if begun else []

    def _room_in(self, body: str) -> Dial:
        token = text_in(body, "token")
        self.secrets.add(token)
        return Dial(self._url, {"Authorization": f"Bearer {token}"})

    # -- Endpoint messages -------------------------------------------------------------------------------

    def _on_metadata(self, event: Fields, at_ns: int) -> list[Output]:
        found = event.child("conversation_initiation_metadata_event")
        self._conversation = found.text("conversation_id") or ""
        return self.become_ready()

    def _on_agent(self, agent: Fields, at_ns: int) -> list[Output]:
        outputs = super()._on_agent(agent, at_ns)
        return outputs if self.over else [*outputs, *self.become_ready()]

    def said(self, text: str, at_ns: int) -> list[Output]:
        self.last_error = None  # the agent recovered from the error
        self._said.append(text)
        return [StreamText(text if len(self._said) == 1 else f" {text}")]

    def corrected(self, original: str, text: str) -> list[Output]:
        if original not in self._said:
            return []
        said, self._said = self._said, []
        said[said.index(original)] = text
        return [StreamText(" ".join(filter(None, said)), final=True)]

    def _on_transcript(self, event: Fields, at_ns: int) -> list[Output]:
        self._said.clear()
        return super()._on_transcript(event, at_ns)

    def _on_leave(self, event: Fields, at_ns: int) -> list[Output]:
        if self.over:
            return []
        reason = event.text("reason") or "UNKNOWN_REASON"
        problem = self.ended(f"the server ended the conversation ({reason})")
        self.over = True
        return [self.with_advice(problem, named=self._has_agent)]


def _rooms(settings: EndpointSettings) -> str:
    """Return the base URL of the rooms."""
    url = settings.extra.get(_OPTION)
    if url is not None:
        if not isinstance(url, str):
            raise UsageError(f"endpoint.extra.{_OPTION}: expected text, got {url!r}")
        return url
    parts = urlsplit(settings.base_url)
    host = parts.hostname or ""
    if host == _HOSTS or host.endswith(f".{_HOSTS}"):
        region = _RESIDENCY.search(host)
        return f"wss://livekit.rtc.{region[1] if region else _HOSTS}"
    return urlunsplit((parts.scheme, parts.netloc, "", parts.query, ""))
