"""A WebRTC connection with the faults of its session."""

from __future__ import annotations

import re
from typing import Any

from aiortc.rtp import is_rtcp

from live_eval.clock import Clock
from live_eval.reference.faults.catalogue import FaultName
from live_eval.reference.faults.injection import DeltaFaults
from live_eval.reference.faults.script import FaultScript
from live_eval.webrtc.answering import RtcConnection

__all__ = ["FaultyRtcConnection"]

_OPUS_LINE = re.compile(r"^a=rtpmap:(\d+) opus/48000/2\r?$", re.MULTILINE)
_FINGERPRINT = re.compile(r"^(a=fingerprint:\S+ )(\w\w):", re.MULTILINE)
_CANDIDATE = re.compile(r"^a=candidate:.*\r\n", re.MULTILINE)
# Nothing listens on the discard port.
_END = "a=end-of-candidates\r\n"
_DEAD_CANDIDATE = "a=candidate:1 1 udp 2130706431 127.0.0.1 9 typ host\r\n"


class FaultyRtcConnection(RtcConnection):
    """A connection to one client; a `Channel` and a `MediaTrack`.

    Args:
        clock: Stamps arrivals and sends.
        faults: The faults of its session.
    """

    def __init__(self, clock: Clock, faults: FaultScript) -> None:
        super().__init__(clock)
        self._faults = faults
        self._pace = faults.pace

    async def answer(self, offer: str) -> str:
        """As `RtcConnection.answer`."""
        answer = await super().answer(offer)
        for sender in self._peer.getSenders():
            if sender.track is self._track:
                _damage_packets(sender.transport, DeltaFaults(self._faults))
        if self._faults.has(FaultName.NO_CHANNEL) and self._peer.sctp is not None:
            ignored: Any = self._peer.sctp
            ignored._handle_data = _ignore
        return self._spoilt(answer)

    async def close(self, code: int, reason: str) -> None:
        """As `RtcConnection.close`; or close the data channel alone."""
        channel = self._channel
        if self._faults.has(FaultName.CLOSE_CHANNEL) and channel is not None and channel.readyState == "open":
            await self._farewell(channel)
            channel.close()
        else:
            await super().close(code, reason)

    async def say(self, packet: bytes, timestamp: int) -> int | None:
        """As `RtcConnection.say`; None if nothing is sent."""
        if self._faults.has(FaultName.NO_RTP):
            return None
        return await super().say(packet, round(timestamp * self._pace))

    def _spoilt(self, answer: str) -> str:
        """Apply the fault to the answer."""
        if self._faults.has(FaultName.NO_CODEC):
            return _OPUS_LINE.sub(r"a=rtpmap:\1 L16/44100/2", answer)
        if self._faults.has(FaultName.BAD_FINGERPRINT):
            return _FINGERPRINT.sub(lambda found: f"{found[1]}{'00' if found[2] != '00' else '11'}:", answer)
        if self._faults.has(FaultName.BAD_CANDIDATES):
            # Our checks reach the client anyway: make it take them for a stranger's.
            answer = re.sub(r"^(a=ice-(?:ufrag|pwd):).", r"\g<1>0", answer, flags=re.MULTILINE)
            return _CANDIDATE.sub("", answer).replace(_END, _DEAD_CANDIDATE + _END)
        return answer


async def _ignore(data: bytes) -> None:
    """Do nothing with what arrived."""


def _damage_packets(transport: Any, faults: DeltaFaults[bytes]) -> None:
    """Make a DTLS transport lose, double and reorder packets, though it numbers and counts them as sent."""
    if not faults:
        return
    send = transport._send_rtp

    async def damage(data: bytes) -> None:
        for packet in [data] if is_rtcp(data) else faults.push([data]):
            await send(packet)

    transport._send_rtp = damage
