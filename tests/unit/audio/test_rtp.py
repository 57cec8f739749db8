from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from live_eval.audio import Codec, CodecName
from live_eval.audio.rtp import Placed, RtpPacket, RtpTrack

MS = 1_000_000
OPUS = Codec(CodecName.OPUS, 48_000)
FRAME = 960


def packet(number: int, *, at_ms: float | None = None, slot: int | None = None, ssrc: int = 1) -> RtpPacket:
    """Return packet `number` of a stream; idle gaps may have advanced its timestamp."""
    at_ns = round((20 * number if at_ms is None else at_ms) * MS)
    timestamp = (number if slot is None else slot) * FRAME % 2**32
    return RtpPacket(at_ns, number % 2**16, timestamp, b"x", OPUS, ssrc)


def place(*packets: RtpPacket) -> tuple[list[Placed | None], RtpTrack]:
    track = RtpTrack()
    return [track.push(each, FRAME) for each in packets], track


def test_packets_in_order_follow_one_another() -> None:
    placed, track = place(*map(packet, range(5)))
    assert placed == [Placed(0, True), *[Placed(0, False)] * 4]
    assert (track.stats.packets, track.stats.lost, track.stats.jitter_ns) == (5, 0, 0)


def test_a_loss_is_concealed_when_the_next_packet_arrives() -> None:
    placed, track = place(packet(0), packet(1), packet(4))
    assert placed[2] == Placed(2 * FRAME, False)
    assert (track.stats.lost, track.stats.concealed_ns) == (2, 40 * MS)


def test_an_idle_gap_is_not_a_loss() -> None:
    placed, track = place(packet(0), packet(1, slot=51, at_ms=1_020), packet(2, slot=52, at_ms=1_040))
    assert placed == [Placed(0, True), Placed(0, True), Placed(0, False)]
    assert track.stats.lost == 0


def test_a_packet_without_audio_is_not_lost() -> None:
    track = RtpTrack()
    assert track.push(packet(0), 0) is None  # empty at first
    placed = [track.push(packet(number), FRAME if number != 2 else 0) for number in range(1, 4)]
    assert placed == [Placed(0, True), None, Placed(0, True)]
    track.push(packet(5), 0)
    assert track.push(packet(6), FRAME) == Placed(0, True)
    assert (track.stats.packets, track.stats.lost) == (6, 1)


def test_a_turn_that_begins_without_audio_counts_the_losses_around_it() -> None:
    _, before = place(packet(0), packet(1))
    track = RtpTrack(before)
    track.push(packet(3), 0)  # 2 is lost
    assert RtpTrack(track).push(packet(4), FRAME) == Placed(0, True)
    assert track.lost_before(packet(6)) == 2, "a turn of packets without audio"
    assert track.push(packet(7), FRAME) == Placed(0, True)
    assert track.stats.lost == 1 + 3


def test_a_loss_within_an_idle_gap_conceals_only_the_lost_packets() -> None:
    placed, track = place(packet(0), packet(2, slot=100, at_ms=2_000))
    assert placed[1] == Placed(FRAME, True)
    assert track.stats.lost == 1


def test_a_late_packet_is_of_no_use_and_stays_lost() -> None:
    placed, track = place(packet(0), packet(2), packet(1, at_ms=41), packet(3))
    assert placed[1:] == [Placed(FRAME, False), None, Placed(0, False)]
    assert (track.stats.lost, track.stats.late, track.stats.doubled) == (1, 1, 0)


def test_a_duplicate_packet_is_dropped() -> None:
    placed, track = place(packet(0), packet(1), packet(1), packet(2))
    assert placed[2] is None
    assert (track.stats.doubled, track.stats.late, track.stats.lost) == (1, 0, 0)


def test_counters_wrap() -> None:
    begin = 2**16 - 2
    slots = [2**32 // FRAME - 1, 2**32 // FRAME]
    placed, track = place(*map(packet, range(begin, begin + 5)))
    assert placed[1:] == [Placed(0, False)] * 4
    near = [RtpPacket(20 * MS * n, n, (slot * FRAME) % 2**32, b"x", OPUS) for n, slot in enumerate(slots)]
    assert place(*near)[0][1] == Placed(0, False)
    assert track.stats.lost == 0


def test_a_new_source_starts_over() -> None:
    placed, track = place(packet(5), packet(900, ssrc=2), packet(901, ssrc=2))
    assert placed == [Placed(0, True), Placed(0, True), Placed(0, False)]
    assert track.stats.lost == 0


def test_jitter_is_that_of_rfc_3550() -> None:
    arrivals_ms = [0, 20, 44, 58, 83]
    _, track = place(*(packet(number, at_ms=at) for number, at in enumerate(arrivals_ms)))
    jitter = 0.0
    transits = [at - 20 * number for number, at in enumerate(arrivals_ms)]
    for before, after in pairwise(transits):
        jitter += (abs(after - before) - jitter) / 16
    assert abs(track.stats.jitter_ns - jitter * MS) < 10


@given(st.lists(st.integers(0, 60), max_size=80))
def test_every_packet_is_placed_late_or_duplicate(numbers: list[int]) -> None:
    track = RtpTrack()
    played = [number for number in numbers if track.push(packet(number), FRAME) is not None]
    assert played == sorted(set(played))
    stats = track.stats
    assert len(played) + stats.late + stats.doubled == stats.packets == len(numbers)
    if played:
        assert stats.lost == played[-1] - played[0] + 1 - len(played)
