"""The limit on new connections, without sockets and without waiting."""

import pytest

from live_eval.http.connection_rate import ConnectionRate

S = 1_000_000_000


def admitted(rate: ConnectionRate, address: str, count: int, at_ns: int) -> int:
    return sum(rate.admits(address, at_ns) for _ in range(count))


def test_a_burst_is_admitted_then_the_rate_applies() -> None:
    rate = ConnectionRate(per_s=10, burst=30)
    assert admitted(rate, "192.0.2.1", 100, 0) == 30
    assert admitted(rate, "192.0.2.1", 100, S) == 10
    assert admitted(rate, "192.0.2.1", 100, 100 * S) == 30


def test_addresses_are_limited_separately() -> None:
    rate = ConnectionRate(per_s=1, burst=2)
    assert admitted(rate, "192.0.2.1", 9, 0) == 2
    assert admitted(rate, "192.0.2.2", 9, 0) == 2


def test_an_ipv6_network_counts_as_one_address() -> None:
    rate = ConnectionRate(per_s=1, burst=2)
    assert sum(rate.admits(f"2001:db8::{number:x}", 0) for number in range(1, 9)) == 2
    assert rate.admits("2001:db8:0:1::1", 0)
    assert admitted(rate, "::ffff:192.0.2.1", 9, 0) == 2
    assert not rate.admits("192.0.2.1", 0)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "127.3.4.5", "::ffff:127.0.0.1"])
def test_loopback_is_not_limited(address: str) -> None:
    assert admitted(ConnectionRate(per_s=1, burst=1), address, 500, 0) == 500


def test_the_number_of_kept_addresses_is_bounded() -> None:
    rate = ConnectionRate(per_s=1, burst=1)
    for number in range(10_000):
        assert rate.admits(f"10.0.{number // 256}.{number % 256}", 0)
    assert len(rate._next_ns) < 5_000
