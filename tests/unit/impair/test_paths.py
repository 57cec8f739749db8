"""Losses, delays and duplicates of datagrams; delays of the bytes of a stream."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.impair import parse
from live_eval.impair.paths import PacketPath, StreamPath, is_damaged, is_media

MS = 1_000_000
SENT_MS = 20


def path(spec: str, seed: int = 1) -> PacketPath:
    return PacketPath(parse(spec, seed), "down")


def deliveries(spec: str, number: int, seed: int = 1, *, size: int = 120) -> list[list[float]]:
    """Return the delivery times, in ms after sending, of `number` packets that are sent every 20 ms."""
    way = path(spec, seed)
    return [
        [(due_ns - at * MS) / MS for due_ns in way.push(size, at * MS, media=True)]
        for at in range(0, number * SENT_MS, SENT_MS)
    ]


def lost(spec: str, number: int, seed: int = 1) -> NDArray[np.bool_]:
    return np.array([not due for due in deliveries(spec, number, seed)])


def mean_burst(losses: NDArray[np.bool_]) -> float:
    return float(np.mean([len(list(run)) for gone, run in itertools.groupby(losses) if gone]))


def test_an_undamaged_packet_is_delivered_on_arrival() -> None:
    assert deliveries("loss=0%", 3) == [[0.0]] * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "share", "burst"),
    [
        ("loss=5%", 0.05, 1 / 0.95),
        ("loss=20%", 0.20, 1 / 0.8),
        ("loss=5%,burst=3", 0.05, 3),
        ("loss=20%,burst=8", 0.2, 8),
        ("loss=30%,burst=1", 0.3, 1),
    ],
)
def test_losses_have_the_configured_share_and_mean_burst(spec: str, share: float, burst: float) -> None:
    losses = lost(spec, 40_000)
    spread = np.sqrt(share * (1 - share) * 2 * burst / len(losses))
    assert abs(losses.mean() - share) < 4 * spread
    assert mean_burst(losses) == pytest.approx(burst, rel=0.05)


def test_a_seed_loses_the_same_packets_despite_other_damage_and_traffic() -> None:
    plain = lost("loss=10%", 500)
    assert (lost("loss=10%,jitter=5ms,duplicate=3%", 500) == plain).all()
    assert (lost("loss=10%", 500, seed=2) != plain).any()
    way = path("loss=10%")
    mixed = []
    for at in range(500):
        if at % 7 == 0:
            way.push(60, at * MS, media=False)  # a report
        mixed.append(not way.push(120, at * MS, media=True))
    assert (np.array(mixed) == plain).all()


def test_jitter_does_not_reorder_packets() -> None:
    delays = np.concatenate(deliveries("delay=100ms,jitter=30ms", 5_000))
    due = delays + SENT_MS * np.arange(len(delays))
    assert (np.diff(due) > -1e-6).all()


def test_jitter_of_distant_packets_is_normal_around_the_delay() -> None:
    way = path("delay=100ms,jitter=20ms")
    delays = [way.push(120, at * 1_000 * MS, media=True)[0] / MS - at * 1_000 for at in range(20_000)]
    assert np.mean(delays) == pytest.approx(100, abs=0.6)
    assert np.std(delays) == pytest.approx(20, rel=0.03)


def test_later_packets_overtake_a_held_back_packet() -> None:
    delays = np.concatenate(deliveries("reorder=10%", 20_000))
    due = delays + SENT_MS * np.arange(len(delays))
    earliest_after = np.minimum.accumulate(due[::-1])[::-1][1:]
    reordered = float((due[:-1] > earliest_after).mean())  # RFC 4737: a later packet came before
    assert set(np.unique(delays)) == {0.0, 30.0}
    assert reordered == pytest.approx(0.1 * 0.9, abs=0.01)


def test_duplicated_packets_arrive_twice() -> None:
    copies = [len(due) for due in deliveries("duplicate=5%", 20_000)]
    assert set(copies) == {1, 2}
    assert np.mean(copies) == pytest.approx(1.05, abs=0.006)


def test_a_slow_link_delays_until_its_queue_is_full() -> None:
    # 172 bytes and 28 of headers every 20 ms are 80 kbit/s.
    assert deliveries("bandwidth=160kbps", 100, size=172) == [[10.0]] * 100
    slow = deliveries("bandwidth=40kbps,queue=100ms", 100, size=172)
    waits = [due[0] for due in slow if due]
    assert waits[:4] == [40.0, 60.0, 80.0, 100.0]
    assert max(waits) <= 100 + 40
    assert sum(not due for due in slow) == pytest.approx(50, abs=5)


def test_media_is_distinguished_from_reports_messages_and_setup() -> None:
    rtp, rtcp = b"\x80\x6f" + bytes(10), b"\x81\xc9" + bytes(6)
    message, handshake, stun = b"\x17\xfe\xfd", b"\x16\xfe\xfd", b"\x00\x01\x00\x00"
    assert [is_media(data) for data in (rtp, rtcp, message, handshake, stun, b"")] == [True] + [False] * 5
    damaged = [is_damaged(data) for data in (rtp, rtcp, message, handshake, stun, b"")]
    assert damaged == [True, True, True, False, False, False]


def pushed(spec: str, sizes: list[int], every_ms: float = 20, seed: int = 1) -> list[list[tuple[float, int]]]:
    """Return the delivery time in ms and the end of each piece of messages sent every `every_ms`."""
    path = StreamPath(parse(spec, seed), "up", 0)
    return [
        [(due_ns / MS, end) for due_ns, end in path.push(size, round(at * every_ms * MS))]
        for at, size in enumerate(sizes)
    ]


def test_a_delay_shifts_every_byte() -> None:
    assert pushed("delay=80ms", [100, 100]) == [[(80.0, 100)], [(100.0, 100)]]


def test_a_slow_link_limits_the_byte_rate() -> None:
    # 1,000 bytes take 100 ms at 80 kbit/s.
    assert pushed("bandwidth=80kbps", [1_000, 500]) == [[(100.0, 1_000)], [(150.0, 500)]]


def test_pieces_have_the_configured_size_and_gap() -> None:
    assert pushed("chunk=400B,gap=15ms", [1_000, 100]) == [
        [(0.0, 400), (15.0, 800), (30.0, 1_000)],
        [(45.0, 100)],
    ]


def test_nothing_passes_during_a_stall() -> None:
    due = [pieces[0][0] for pieces in pushed("stall=300ms,every=1s", [10] * 500)]
    waits = [at - sent * 20 for sent, at in enumerate(due)]
    assert due == sorted(due)
    assert 280 < max(waits) <= 300
    assert sum(wait > 0 for wait in waits) == pytest.approx(150, abs=15)  # 15 of 50 in each second


def test_the_first_stall_depends_on_the_seed() -> None:
    firsts = {tuple(pushed("stall=300ms,every=1s", [10] * 60, seed=seed)[20]) for seed in range(8)}
    assert len(firsts) > 1
    assert pushed("stall=300ms,every=1s", [9] * 60, seed=3) == pushed(
        "stall=300ms,every=1s", [9] * 60, seed=3
    )


def test_jitter_varies_the_delay_and_keeps_the_order() -> None:
    due = [pieces[0][0] for pieces in pushed("delay=80ms,jitter=10ms", [10] * 200)]
    delays = [at - sent * 20 for sent, at in enumerate(due)]
    assert 75 < sum(delays) / len(delays) < 85
    assert max(delays) - min(delays) > 20
    assert due == sorted(due)


def test_a_limit_ends_the_connection_after_that_many_bytes() -> None:
    path = StreamPath(parse("limit=1kB,delay=5ms"), "up", 0)
    assert list(path.push(600, 10 * MS)) == [(15 * MS, 600)]
    assert path.ends_ns is None
    assert list(path.push(600, 20 * MS)) == [(25 * MS, 400)]
    assert path.ends_ns == 25 * MS
    assert list(path.push(600, 30 * MS)) == []


def test_a_timeout_blocks_traffic_and_ends_the_connection() -> None:
    path = StreamPath(parse("down.timeout=2s"), "down", 7 * MS)
    assert list(path.push(600, 10 * MS)) == []
    assert path.ends_ns == 2_007 * MS
    other = StreamPath(parse("down.timeout=2s"), "up", 7 * MS)
    assert list(other.push(600, 10 * MS)) == [(10 * MS, 600)]
    assert other.ends_ns is None


def test_reset_and_slow_close_times() -> None:
    path = StreamPath(parse("reset=1.5s,up.slow_close=300ms"), "up", 7 * MS)
    assert (path.resets_ns, path.closes_later_ns) == (1_507 * MS, 300 * MS)
    assert StreamPath(parse("delay=1ms"), "up", 0).resets_ns is None
