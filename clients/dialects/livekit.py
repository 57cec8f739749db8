"""LiveKit rooms: this client joins a room as a participant and talks to the agent in it.

Sources: livekit-protocol 1.1.29 (``livekit_rtc.proto``, ``livekit_models.proto``), livekit-agents 1.8.9
(``livekit.agents.voice.room_io``, ``livekit.agents.types``) and https://docs.livekit.io/agents. The transport
sends and receives `SignalRequest`, `SignalResponse` and `DataPacket`; a message here is the JSON of its only
member, with the member's name as ``type`` (`live_eval.webrtc.livekit_messages`).

* **Room.** Each session has a room of its own, because an agent serves one participant and ends with it. The
  token of the first participant creates the room; the agents in its room configuration are dispatched by
  name (``agent_name``). Agents without a name join every room.
* **Agent.** The participant of kind AGENT; with ``agent_name``, the one with that name (``lk.agent.name``)
  or, until it joins, one without a name. While there is none, and unless ``agent_name`` dispatches one, the
  first participant that publishes audio takes its place; an AGENT that joins before the session is ready
  replaces it. Only the agent's voice track is subscribed to; its ``background_audio`` is not.
* **Ready.** The agent is ready in any state except ``initializing``. An agent that reports no state
  (``lk.agent.state``) is ready two seconds after it has published its track.
* **End of speech.** The state ``thinking`` follows the agent's decision that the user's turn is over. For an
  agent that reports no state, the final transcript does.
* **Transcripts** are text streams with the topic ``lk.transcription``. The agent's text follows its voice, in
  pieces; the user's text is replaced until it is final. Transcription packets repeat both.
* **Input.** An agent's room input has automatic gain control on by default, and often noise cancellation, so
  its model does not hear the recording's loudness and background as they were.

There are no marked replies, manual turns, usage, rate limits or session limits; the agent determines model,
instructions and voice.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, ClassVar

from live_eval.clients.dialects._livekit_participants import AGENT, NOBODY, REFUSALS, rank_of, voice_of
from live_eval.clients.dialects._livekit_text import TextStreams, unpacked
from live_eval.clients.dialects._livekit_token import access_token, is_token, participant_claims
from live_eval.clients.toolkit import EventDialect, Fields, check_extra, send_json, websocket_url
from live_eval.dialect import (
    Close,
    Dial,
    EndpointSettings,
    Message,
    Output,
    SdpBody,
    SetTimer,
    Signalling,
    SpeechStopped,
)
from live_eval.errors import FailureKind

__all__ = ["ROOM_QUERY", "LiveKitAgent"]

ROOM_QUERY = {"protocol": "15", "auto_subscribe": "0"}
"""Parameters of a room's address."""

_CHANNEL = "_reliable"
_OPTIONS = ("agent_identity", "agent_metadata", "agent_name", "identity", "room")
_STATE = "lk.agent.state"
_NO_AGENT, _NO_STATE = "no agent", "no state"
_NO_STATE_NS = 2_000_000_000


class LiveKitAgent(EventDialect):
    """A `Dialect` that tracks the state of one session.

    Args:
        settings: The session settings. The key is an API secret, which signs a token for the API key
            `key_id`, or a participant's token. ``extra`` may contain ``agent_name`` and ``agent_metadata``
            (the agent to dispatch), ``agent_identity`` (the participant to listen to), ``room`` and
            ``identity``.

    Raises:
        UsageError: The base URL is not a URL, or ``extra`` contains anything else.
    """

    needs_continuous_input = True  # an agent's detector requires silence in its input
    continuous_media = True  # the track does not mark replies
    audio_fields = ()
    secret_fields = ("credential", "token")
    # fmt: off
    ignored = frozenset((
        "chat_message", "connection_quality", "media_sections_requirement", "metrics", "mute",
        "request_response", "room_moved", "room_update", "rpc_request", "speaker",
        "speakers_changed", "stream_state_update", "subscribed_audio_codec_update",
        "subscribed_quality_update", "subscription_permission_update", "subscription_response",
        "track_published", "track_subscribed", "track_unpublished", "transcription", "user",
    ))
    # fmt: on

    log_advice: ClassVar[str] = "read the log of its worker"
    """Advice for a failed agent."""

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._extra = check_extra(settings.extra, _OPTIONS)
        self._url = websocket_url(settings.base_url, "rtc", ROOM_QUERY)
        self._room = self._extra.get("room", f"live-eval-{uuid.uuid4().hex[:12]}")
        self._identity = self._extra.get("identity", "live-eval")
        self._agent: str | None = None
        self._rank = NOBODY
        self._state: str | None = None
        self._tracks: set[str] = set()
        self._wait_s = max(settings.ready_s - 1, settings.ready_s / 2)  # the reason precedes the time limit
        self._streams = TextStreams()
        self.handlers = {
            "join": self._on_join,
            "update": self._on_update,
            "leave": self._on_leave,
            "stream_header": self._on_stream,
            "stream_chunk": self._streams.piece,
            "stream_trailer": self._on_stream_end,
        }

    def dial(self) -> Dial:
        return Dial(
            self._url,
            signed=self._authorization,
            signalling=Signalling(
                offer=SdpBody.MESSAGE,
                answer=SdpBody.MESSAGE,
                channel=_CHANNEL,
                ice_servers=self.settings.ice_servers,
            ),
        )

    def opened(self, at_ns: int) -> Sequence[Output]:
        return (SetTimer(_NO_AGENT, at_ns + round(self._wait_s * 1e9)),)

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        if name == _NO_STATE and self._state is None:
            return self.become_ready(self._room)
        if name != _NO_AGENT or self.ready:
            return ()
        wait = f"{self._wait_s:g} s"
        if self._agent is not None:
            state = f"was still {self._state!r}" if self._state else "had published no audio"
            why = f"the agent {self._agent!r} {state} after {wait}: {self.log_advice}"
        else:
            why = f"no agent joined room {self._room!r} within {wait}: {self.no_agent_advice()}"
        return (self.fatal(FailureKind.NO_SESSION, why),)

    def no_agent_advice(self) -> str:
        """Return advice for a room that no agent joins."""
        named = self._extra.get("agent_name")
        if named is not None:
            return f"is a worker registered as {named!r}?"
        return "start its worker, or set endpoint.extra.agent_name if it has a name"

    def finish(self, at_ns: int) -> Sequence[Output]:
        self.over = True
        return (send_json({"type": "leave", "reason": "CLIENT_INITIATED"}), Close())

    def redact(self, message: Message) -> dict[str, Any]:
        """Return a copy of a message for the log, with the text in its packet."""
        return super().redact(unpacked(message) if isinstance(message, str) else message)

    def _authorization(self, wall_ns: int) -> dict[str, str]:
        """Return the header with the participant's token."""
        key = self.settings.key
        if key is None:
            return {}
        token = key.reveal()
        if not is_token(token):
            name, metadata = self._extra.get("agent_name"), self._extra.get("agent_metadata")
            claims = participant_claims(self._identity, self._room, name, metadata)
            token = access_token(self.settings.key_id, token, claims, wall_ns)
            self.secrets.add(token)
        return {"Authorization": f"Bearer {token}"}

    def _on_stream(self, event: Fields, at_ns: int) -> list[Output]:
        if self.ready:
            self._streams.began(event, self._identity)
        return []

    def _on_stream_end(self, event: Fields, at_ns: int) -> list[Output]:
        heard = self._streams.ended(event, at_ns)
        return [SpeechStopped(), *heard] if heard and self._state is None else heard

    # -- Participants ------------------------------------------------------------------------------------

    def _on_join(self, event: Fields, at_ns: int) -> list[Output]:
        self._room = event.child("room").text("name") or self._room
        self._identity = event.child("participant").text("identity") or self._identity
        return self._participants(event.children("other_participants"), at_ns)

    def _on_update(self, event: Fields, at_ns: int) -> list[Output]:
        return self._participants(event.children("participants"), at_ns)

    def _participants(self, participants: Sequence[Fields], at_ns: int) -> list[Output]:
        outputs: list[Output] = []
        for each in sorted(participants, key=self._rank_of, reverse=True):
            identity = each.text("identity") or ""
            if self._rank_of(each) > self._rank and (not self.ready or self._rank == NOBODY):
                outputs += self._choose(identity, self._rank_of(each))
            if identity and identity == self._agent:
                outputs += self._on_agent(each, at_ns)
        return outputs

    def _rank_of(self, participant: Fields) -> int:
        return rank_of(participant, self._identity, self._extra)

    def _choose(self, identity: str | None, rank: int) -> list[Output]:
        """Treat a participant as the agent, in place of the current one."""
        left, self._tracks = sorted(self._tracks), set()
        self._agent, self._rank, self._state = identity, rank, None
        if not left:
            return []
        ends = {"type": "subscription", "track_sids": left, "subscribe": False}
        return [send_json(ends), SetTimer(_NO_STATE, None)]

    def _on_agent(self, agent: Fields, at_ns: int) -> list[Output]:
        if agent.text("state") == "DISCONNECTED":
            if self._rank < AGENT and not self.ready:
                return self._choose(None, NOBODY)
            why = agent.text("disconnect_reason") or "no reason given"
            text = f"the agent {self._agent!r} left the room ({why}): {self.log_advice}"
            return [] if self.over else [self.fatal(FailureKind.CLOSED, text)]
        outputs: list[Output] = []
        before, self._state = self._state, agent.child("attributes").text(_STATE) or self._state
        track = voice_of(agent)
        if track is not None and track not in self._tracks:
            self._tracks.add(track)
            owner = {"participant_sid": agent.text("sid") or "", "track_sids": [track]}
            wanted = {"type": "subscription", "track_sids": [track], "subscribe": True}
            outputs.append(send_json(wanted | {"participant_tracks": [owner]}))
            if self._state is None:
                outputs.append(SetTimer(_NO_STATE, at_ns + _NO_STATE_NS))
        if self._state not in (None, "initializing"):
            outputs += self.become_ready(self._room)
        if self._state == "thinking" and before == "listening":
            outputs.append(SpeechStopped())
        return outputs

    def _on_leave(self, event: Fields, at_ns: int) -> list[Output]:
        if self.over:
            return []
        reason = event.text("reason") or "UNKNOWN_REASON"
        text = f"the server ended the session ({reason}): {REFUSALS.get(reason, 'no further details')}"
        return [self.fatal(FailureKind.CLOSED, text)]
