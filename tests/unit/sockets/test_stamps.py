"""The kernel's timestamps on the monotonic clock."""

import socket
import struct

import pytest

from live_eval.sockets.stamps import ArrivalStamps
from live_eval.testing.fake_clock import FakeClock
from live_eval.types import StampKind

MS = 1_000_000


class TwoClocks(FakeClock):
    """A monotonic clock, and a wall clock that can be set."""

    def __init__(self) -> None:
        super().__init__(start_ns=5_000 * MS)
        self.wall_ahead_ns = 1_700_000_000_000_000_000

    def wall_ns(self) -> int:
        return self.now_ns() + self.wall_ahead_ns


def ancillary(wall_ns: int) -> list[tuple[int, int, bytes]]:
    return [(socket.SOL_SOCKET, 35, struct.pack("@qq", *divmod(wall_ns, 1_000_000_000)))]


def test_a_stamp_is_mapped_by_its_age() -> None:
    clock = TwoClocks()
    stamps = ArrivalStamps(clock)
    arrived_ns, arrived_wall_ns = clock.now_ns(), clock.wall_ns()
    clock.advance(40 * MS)  # delay before this process reads
    assert stamps.stamp(ancillary(arrived_wall_ns)) == (arrived_ns, StampKind.KERNEL)
    assert stamps.error_ns == 0


@pytest.mark.parametrize("step_ns", [3_600_000 * MS, -3_600_000 * MS, 5 * MS, -5 * MS])
def test_setting_the_wall_clock_costs_one_kernel_stamp(step_ns: int) -> None:
    clock = TwoClocks()
    stamps = ArrivalStamps(clock)
    before = ancillary(clock.wall_ns())
    clock.advance(10 * MS)
    clock.wall_ahead_ns += step_ns
    assert stamps.stamp(before) == (clock.now_ns(), StampKind.USER)
    assert stamps.steps == 1
    clock.advance(10 * MS)
    assert stamps.stamp(ancillary(clock.wall_ns())) == (clock.now_ns(), StampKind.KERNEL)


@pytest.mark.parametrize("step_ns", [3_600_000 * MS, 80 * MS, -5 * MS])
def test_bytes_that_waited_while_the_wall_clock_was_set_get_a_user_stamp(step_ns: int) -> None:
    clock = TwoClocks()
    stamps = ArrivalStamps(clock)
    waiting = [ancillary(clock.wall_ns()) for _ in range(3)]
    clock.advance(10 * MS)
    clock.wall_ahead_ns += step_ns
    for stamped in waiting:
        assert stamps.stamp(stamped) == (clock.now_ns(), StampKind.USER)
        clock.advance(MS)
    assert stamps.steps == 1


class Preempted(TwoClocks):
    """This process is preempted between the two clock readings in some cases."""

    def __init__(self) -> None:
        super().__init__()
        self.lost_ns = 0

    def wall_ns(self) -> int:
        wall_ns = super().wall_ns()
        self.advance(self.lost_ns)
        return wall_ns


def test_preemption_while_reading_the_clocks_is_not_a_step() -> None:
    clock = Preempted()
    stamps = ArrivalStamps(clock)
    for lost_ns in (0, 8 * MS, 0, 8 * MS, 8 * MS, 0):
        clock.lost_ns = 0
        arrived_ns, arrived = clock.now_ns(), ancillary(clock.wall_ns())
        clock.advance(MS)
        clock.lost_ns = lost_ns
        stamp = stamps.stamp(arrived)
        assert stamp.kind is StampKind.KERNEL
        assert abs(stamp.at_ns - arrived_ns) <= lost_ns
    assert stamps.steps == 0


def test_a_wall_clock_that_ntp_slews_is_followed() -> None:
    clock = TwoClocks()
    stamps = ArrivalStamps(clock)
    for _ in range(50):
        clock.advance(1_000 * MS)
        clock.wall_ahead_ns += MS // 2  # 500 ppm
        arrived_ns, arrived_wall_ns = clock.now_ns(), clock.wall_ns()
        clock.advance(3 * MS)
        assert stamps.stamp(ancillary(arrived_wall_ns)) == (arrived_ns, StampKind.KERNEL)
    assert stamps.steps == 0


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        [(socket.SOL_SOCKET, 35, b"short")],
        [(socket.IPPROTO_TCP, 35, bytes(16))],
        ancillary(0),
    ],
    ids=["none", "short", "another level", "too old"],
)
def test_a_read_without_a_usable_stamp_is_stamped_by_this_process(
    wrong: list[tuple[int, int, bytes]],
) -> None:
    clock = TwoClocks()
    assert ArrivalStamps(clock).stamp(wrong) == (clock.now_ns(), StampKind.USER)


def test_a_stamp_in_the_future_is_ignored() -> None:
    clock = TwoClocks()
    stamps = ArrivalStamps(clock)
    assert stamps.stamp(ancillary(clock.wall_ns() + MS)).kind is StampKind.USER
