"""Identify the agent and its voice in a LiveKit room, and the reason for the end of a session.

Sources: see `live_eval.clients.dialects.livekit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from live_eval.clients.toolkit import Fields

__all__ = ["AGENT", "NOBODY", "REFUSALS", "rank_of", "voice_of"]

NOBODY, _SPEAKER, AGENT = range(3)
REFUSALS = {
    "DUPLICATE_IDENTITY": "another participant joined with the same identity: use a token for each session, "
    "or an API key and secret",
    "PARTICIPANT_REMOVED": "this participant was removed from the room",
    "ROOM_DELETED": "the room was deleted: the agent or an administrator ended it",
    "ROOM_CLOSED": "the room was closed",
    "SERVER_SHUTDOWN": "the server shut down",
    "JOIN_FAILURE": "the connection of the media failed: check that UDP reaches the server",
}
"""The meaning of the server's disconnect reasons, with advice."""

_NAME = "lk.agent.name"
_VOICE, _BACKGROUND = "roomio_audio", "background_audio"


def rank_of(participant: Fields, own: str, extra: Mapping[str, Any]) -> int:
    """Return a participant's rank; the agent is the first participant with the highest rank.

    Args:
        own: This client's identity.
        extra: Its settings, which may name the agent or its identity.
    """
    identity, wanted = participant.text("identity") or "", extra.get("agent_identity")
    if identity in ("", own) or participant.text("state") == "DISCONNECTED":
        return NOBODY
    if wanted is not None:
        return AGENT if identity == wanted else NOBODY
    named = extra.get("agent_name")
    if participant.text("kind") == "AGENT":
        name = participant.child("attributes").text(_NAME)
        if named is None or name in (None, named):
            return AGENT
        return NOBODY if name else _SPEAKER  # an agent without a name joins every room
    return _SPEAKER if named is None and voice_of(participant) is not None else NOBODY


def voice_of(participant: Fields) -> str | None:
    """Return the track of a participant's voice, or None."""
    tracks = [each for each in participant.children("tracks") if (each.text("type") or "AUDIO") == "AUDIO"]
    named = {each.text("name"): each.text("sid") for each in reversed(tracks)}
    named.pop(_BACKGROUND, None)
    return named.get(_VOICE) or next(reversed(named.values()), None)
