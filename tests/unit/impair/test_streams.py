"""Delays of the bytes of a stream."""

from __future__ import annotations

import pytest

from live_eval.impair import parse
from live_eval.impair.streams import StreamPath

MS = 1_000_000


def pushed(spec: str, sizes: list[int], every_ms: float = 20, seed: int = 1) -> list[list[tuple[float, int]]]:
    """The pieces of messages that are `every_ms` apart: when in ms, and where each ends."""
    path = StreamPath(parse(spec, seed), "up", 0)
    return [
        [(due_ns / MS, end) for due_ns, end in path.push(size, round(at * every_ms * MS))]
        for at, size in enumerate(sizes)
    ]


def test_a_delay_moves_everything_by_as_much() -> None:
    assert pushed("delay=80ms", [100, 100]) == [[(80.0, 100)], [(100.0, 100)]]


def test_a_slow_link_sends_one_byte_after_the_other() -> None:
    # 1,000 bytes take 100 ms at 80 kbit/s.
    assert pushed("bandwidth=80kbps", [1_000, 500]) == [[(100.0, 1_000)], [(150.0, 500)]]


def test_pieces_are_as_long_as_set_and_apart() -> None:
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


def test_a_limit_lets_so_many_bytes_pass_and_then_ends_the_connection() -> None:
    path = StreamPath(parse("limit=1kB,delay=5ms"), "up", 0)
    assert list(path.push(600, 10 * MS)) == [(15 * MS, 600)]
    assert path.ends_ns is None
    assert list(path.push(600, 20 * MS)) == [(25 * MS, 400)]
    assert path.ends_ns == 25 * MS
    assert list(path.push(600, 30 * MS)) == []


def test_a_timeout_lets_nothing_pass_and_ends_the_connection() -> None:
    path = StreamPath(parse("down.timeout=2s"), "down", 7 * MS)
    assert list(path.push(600, 10 * MS)) == []
    assert path.ends_ns == 2_007 * MS
    other = StreamPath(parse("down.timeout=2s"), "up", 7 * MS)
    assert list(other.push(600, 10 * MS)) == [(10 * MS, 600)]
    assert other.ends_ns is None


def test_a_reset_and_a_slow_close_have_their_time() -> None:
    path = StreamPath(parse("reset=1.5s,up.slow_close=300ms"), "up", 7 * MS)
    assert (path.resets_ns, path.closes_later_ns) == (1_507 * MS, 300 * MS)
    assert StreamPath(parse("delay=1ms"), "up", 0).resets_ns is None
