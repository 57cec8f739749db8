"""Losses, delays and doubles of datagrams."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.impair import parse
from live_eval.impair.packets import PacketPath, is_damaged, is_media

MS = 1_000_000
SENT_MS = 20


def path(spec: str, seed: int = 1) -> PacketPath:
    return PacketPath(parse(spec, seed), "down")


def deliveries(spec: str, number: int, seed: int = 1, *, size: int = 120) -> list[list[float]]:
    """When each of `number` packets, 20 ms apart, is delivered, in milliseconds after it was sent."""
    way = path(spec, seed)
    return [
        [(due_ns - at * MS) / MS for due_ns in way.push(size, at * MS, media=True)]
        for at in range(0, number * SENT_MS, SENT_MS)
    ]


def lost(spec: str, number: int, seed: int = 1) -> NDArray[np.bool_]:
    return np.array([not due for due in deliveries(spec, number, seed)])


def mean_burst(losses: NDArray[np.bool_]) -> float:
    return float(np.mean([len(list(run)) for gone, run in itertools.groupby(losses) if gone]))


def test_without_damage_a_packet_is_delivered_when_it_comes() -> None:
    assert deliveries("loss=0%", 3) == [[0.0]] * 3


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
def test_losses_have_the_share_and_the_mean_burst_that_were_set(
    spec: str, share: float, burst: float
) -> None:
    losses = lost(spec, 40_000)
    spread = np.sqrt(share * (1 - share) * 2 * burst / len(losses))
    assert abs(losses.mean() - share) < 4 * spread
    assert mean_burst(losses) == pytest.approx(burst, rel=0.05)


def test_the_same_seed_loses_the_same_packets_whatever_else_is_damaged_or_sent() -> None:
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


def test_no_packet_overtakes_another_because_of_jitter() -> None:
    delays = np.concatenate(deliveries("delay=100ms,jitter=30ms", 5_000))
    due = delays + SENT_MS * np.arange(len(delays))
    assert (np.diff(due) > -1e-6).all()


def test_jitter_is_normal_around_the_delay_where_packets_are_far_apart() -> None:
    way = path("delay=100ms,jitter=20ms")
    delays = [way.push(120, at * 1_000 * MS, media=True)[0] / MS - at * 1_000 for at in range(20_000)]
    assert np.mean(delays) == pytest.approx(100, abs=0.6)
    assert np.std(delays) == pytest.approx(20, rel=0.03)


def test_held_back_packets_come_after_those_behind_them() -> None:
    delays = np.concatenate(deliveries("reorder=10%", 20_000))
    due = delays + SENT_MS * np.arange(len(delays))
    earliest_after = np.minimum.accumulate(due[::-1])[::-1][1:]
    reordered = float((due[:-1] > earliest_after).mean())  # RFC 4737: a later packet came before
    assert set(np.unique(delays)) == {0.0, 30.0}
    assert reordered == pytest.approx(0.1 * 0.9, abs=0.01)


def test_doubles_come_twice() -> None:
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


def test_rtp_is_told_from_reports_messages_and_the_setup() -> None:
    rtp, rtcp = b"\x80\x6f" + bytes(10), b"\x81\xc9" + bytes(6)
    message, handshake, stun = b"\x17\xfe\xfd", b"\x16\xfe\xfd", b"\x00\x01\x00\x00"
    assert [is_media(data) for data in (rtp, rtcp, message, handshake, stun, b"")] == [True] + [False] * 5
    damaged = [is_damaged(data) for data in (rtp, rtcp, message, handshake, stun, b"")]
    assert damaged == [True, True, True, False, False, False]
