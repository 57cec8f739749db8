"""Implement Ultravox calls in a LiveKit room: data messages as data packets, audio on tracks. Sans-I/O.

Sources: ultravox-client-sdk-python (``ultravox_client/session.py``) and ``apps/datamessages`` of
fixie-ai/ultradox. The messages are those of `live_eval.reference.protocols.ultravox`, without
``playback_clear_buffer``, which exists only over WebSocket. Known difference: states follow the response, not
its playback.
"""

from __future__ import annotations

from live_eval.reference.protocols.data_packets import DataPackets
from live_eval.reference.protocols.ultravox import UltravoxProtocol

__all__ = ["UltravoxRoomProtocol"]


class UltravoxRoomProtocol(DataPackets, UltravoxProtocol):
    """Run one call in a room."""

    clears_buffer = False
