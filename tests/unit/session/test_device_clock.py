"""The clock of a device, estimated from the arrival of its samples."""

import pytest

from live_eval.session.device_clock import DeviceClock
from tests.unit.session.devices import Device

MS = 1_000_000


S = 1_000_000_000


HOUR_S = 3_600


QUARTER_S = 900


RATE = 8_000


BLOCK = 160


@pytest.mark.parametrize("ppm", [-200.0, 0.0, 200.0])
@pytest.mark.parametrize("seconds", [QUARTER_S, pytest.param(HOUR_S, marks=pytest.mark.slow)])
def test_a_drifting_clock_is_followed_within_a_millisecond(ppm: float, seconds: int) -> None:
    device, clock = Device(ppm), DeviceClock(RATE)
    worst = 0
    for number, (samples, at_ns) in enumerate(device.arrivals(seconds)):
        clock.observe(samples, at_ns)
        if number > 100:  # two seconds
            worst = max(worst, abs(clock.captured_ns(samples) - device.captured_ns(samples)))
    assert worst < MS
    assert clock.drift_ppm == pytest.approx(ppm, abs=10)


def test_stalls_do_not_move_the_clock() -> None:
    device, clock = Device(200), DeviceClock(RATE)
    held_until_ns = 0
    for samples, at_ns in device.arrivals(120):
        if samples % (5 * RATE) < BLOCK:
            held_until_ns = at_ns + 1_500 * MS
        clock.observe(samples, max(at_ns, held_until_ns))
        if samples > 5 * RATE:
            assert abs(clock.captured_ns(samples) - device.captured_ns(samples)) < 2 * MS


def test_lost_samples_move_the_clock_within_three_seconds() -> None:
    device, clock = Device(200), DeviceClock(RATE)
    lost = 0
    for samples, at_ns in device.arrivals(60):
        if samples == 30 * RATE:
            lost = RATE // 10
        clock.observe(samples - lost, at_ns)
        if not lost or samples > 33 * RATE:
            assert abs(clock.captured_ns(samples - lost) - device.captured_ns(samples)) < 4 * MS


def test_a_sample_is_found_by_its_time() -> None:
    clock = DeviceClock(RATE)
    for samples, at_ns in Device(150).arrivals(30):
        clock.observe(samples, at_ns)
    for sample in (0, 12_345, 200_000):
        assert clock.sample_at(clock.captured_ns(sample)) == pytest.approx(sample, abs=0.01)
