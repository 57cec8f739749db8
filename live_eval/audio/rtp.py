"""Schedule RTP audio for playout: handle lost, late and duplicate packets and gaps of the sender. Pure.

The playout buffer has zero depth. A packet that arrives too late for playout is dropped. Missing packets are
concealed when the next packet arrives. A gap in the timestamps without a gap in the sequence numbers is an
idle gap of the sender, after which playout restarts. Source: RFC 3550.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from live_eval.audio import Codec

__all__ = ["MediaStats", "Placed", "RtpPacket", "RtpTrack"]

_SEQUENCE_BITS, _TIMESTAMP_BITS = 16, 32
_RESTART_PACKETS = 3_000
_LONGEST_CONCEALMENT_S = 1


@dataclass(frozen=True, slots=True)
class RtpPacket:
    """A received audio packet.

    Args:
        at_ns: Arrival time, stamped before parsing.
        sequence: Sequence number, 16 bits.
        timestamp: RTP timestamp in samples of the codec's clock, 32 bits.
        payload: Encoded audio.
        codec: Encoding of the payload; its rate is the clock rate of the timestamps.
        ssrc: Synchronization source identifier of the stream.
    """

    at_ns: int
    sequence: int
    timestamp: int
    payload: bytes = field(repr=False)
    codec: Codec
    ssrc: int = 0


@dataclass(frozen=True, slots=True)
class MediaStats:
    """Packet statistics of one turn.

    Args:
        packets: Number of packets that arrived.
        lost: Number of packets that did not arrive or arrived too late for playout. Packets lost between
            turns count in the later turn.
        late: Number of packets that arrived after a later packet; also counted as lost.
        doubled: Number of duplicate packets.
        concealed_ns: Length of concealed audio.
        jitter_ns: Interarrival jitter at the end of the turn (RFC 3550, 6.4.1).
        sent_packets: Number of the user's audio packets sent, from RTCP; None if unknown.
        sent_lost: Number of the user's audio packets lost, from the endpoint's receiver reports, or None.
        round_trip_ns: Round-trip time from RTCP, or None.
    """

    packets: int = 0
    lost: int = 0
    late: int = 0
    doubled: int = 0
    concealed_ns: int = 0
    jitter_ns: int = 0
    sent_packets: int | None = None
    sent_lost: int | None = None
    round_trip_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """The playout position of a packet.

    Args:
        concealed_samples: Number of samples to conceal before the packet.
        fresh: Whether playout restarts with the packet, as with the first packet and after an idle gap.
    """

    concealed_samples: int
    fresh: bool


class RtpTrack:
    """Schedules the packets of a track in one turn, in arrival order.

    Args:
        before: The same track in the previous turn. Packets lost between the turns count as lost in this turn
            and are not concealed.
    """

    def __init__(self, before: RtpTrack | None = None) -> None:
        self._before = before
        self._last: RtpPacket | None = None
        self._empty: RtpPacket | None = None  # the last packet before the first packet with audio
        self._sequence = 0
        self._seen: set[int] = set()
        self._samples = 0
        self._transit_ns: int | None = None
        self._jitter_ns = 0.0
        self._packets = self._lost = self._late = self._doubled = self._concealed_ns = 0

    @property
    def stats(self) -> MediaStats:
        """The statistics so far."""
        return MediaStats(
            packets=self._packets,
            lost=self._lost,
            late=self._late,
            doubled=self._doubled,
            concealed_ns=self._concealed_ns,
            jitter_ns=round(self._jitter_ns),
        )

    def push(self, packet: RtpPacket, samples: int) -> Placed | None:
        """Schedule a packet.

        Args:
            samples: Number of samples in the packet, at the codec's rate.

        Returns:
            The position of the packet; None if it is late, a duplicate or without audio.
        """
        self._packets += 1
        last = self._last
        if self._before is not None:
            self._lost += self._before.lost_before(packet)
            self._before = None
        elif last is None and self._empty is not None:
            self._lost += _missing(self._empty, packet)
        if last is None and not samples:
            self._empty = packet
        if last is None or packet.ssrc != last.ssrc or packet.codec != last.codec:
            return self._begin(packet, samples) if samples else None
        step = _difference(packet.sequence, last.sequence, _SEQUENCE_BITS)
        if abs(step) > _RESTART_PACKETS:
            return self._begin(packet, samples) if samples else None
        sequence = self._sequence + step
        if sequence in self._seen:
            self._doubled += 1
            return None
        self._seen.add(sequence)
        if len(self._seen) > 2 * _RESTART_PACKETS:  # forget packets so old that they would restart the track
            self._seen = {seen for seen in self._seen if seen >= self._sequence - _RESTART_PACKETS}
        if step < 0:
            self._late += 1
            return None
        if not samples:  # no audio, but part of the sequence; the next packet with audio follows an idle gap
            self._lost += step - 1
            self._last, self._sequence = replace(last, sequence=packet.sequence), sequence
            return None
        self._measure_jitter(packet)
        rate_hz = packet.codec.rate_hz
        gap = _difference(packet.timestamp, last.timestamp, _TIMESTAMP_BITS) - self._samples
        lost = step - 1
        concealed = 0
        if lost:
            self._lost += lost
            concealed = max(0, min(gap, lost * self._samples, _LONGEST_CONCEALMENT_S * rate_hz))
            self._concealed_ns += concealed * 1_000_000_000 // rate_hz
        self._last, self._sequence, self._samples = packet, sequence, samples
        return Placed(concealed, fresh=gap - concealed > samples // 2)

    def lost_before(self, packet: RtpPacket) -> int:
        """Return the number of packets lost between the last packet of this turn and a packet of the next."""
        last = self._last or self._empty
        if last is None:
            return self._before.lost_before(packet) if self._before is not None else 0
        return _missing(last, packet)

    def _begin(self, packet: RtpPacket, samples: int) -> Placed:
        self._last, self._sequence, self._samples = packet, packet.sequence, samples
        self._seen = {packet.sequence}
        self._transit_ns = None
        self._measure_jitter(packet)
        return Placed(0, fresh=True)

    def _measure_jitter(self, packet: RtpPacket) -> None:
        transit_ns = packet.at_ns - packet.timestamp * 1_000_000_000 // packet.codec.rate_hz
        if self._transit_ns is not None:
            change_ns = abs(transit_ns - self._transit_ns)
            if change_ns < 1_000_000_000:  # otherwise, the timestamps have wrapped around
                self._jitter_ns += (change_ns - self._jitter_ns) / 16
        self._transit_ns = transit_ns


def _missing(last: RtpPacket, packet: RtpPacket) -> int:
    """Return the number of packets missing between two packets of a stream; 0 for different streams."""
    if packet.ssrc != last.ssrc or packet.codec != last.codec:
        return 0
    step = _difference(packet.sequence, last.sequence, _SEQUENCE_BITS)
    return step - 1 if 0 < step <= _RESTART_PACKETS else 0


def _difference(later: int, earlier: int, bits: int) -> int:
    """Return the difference between two counters that wrap around; negative if `later` is behind."""
    half = 1 << (bits - 1)
    return (later - earlier + half) % (1 << bits) - half
