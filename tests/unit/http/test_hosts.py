"""Hosts that refer to this machine."""

import pytest

from live_eval.http.hosts import address_for_others, host_of, is_address, is_any, is_loopback, is_rebound


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *((local, True) for local in ("127.0.0.1", "127.8.8.8", "::1", "LocalHost.", "a.localhost")),
        *((other, False) for other in ("0.0.0.0", "example.org", "localhost.example.org", "10.0.0.1", "")),
    ],
)
def test_loopback_hosts_are_recognised(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [("0.0.0.0", True), ("::", True), ("", True), ("127.0.0.1", False), ("a.example", False)],
)
def test_wildcard_hosts_are_recognised(host: str, expected: bool) -> None:
    assert is_any(host) is expected


def test_other_devices_get_an_address() -> None:
    address = address_for_others()
    assert is_address(address)
    assert not is_any(address)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("localhost", ("localhost", None)),
        ("127.0.0.1:8765", ("127.0.0.1", 8765)),
        ("[::1]:80", ("::1", 80)),
        ("LOCALHOST:8765", ("localhost", 8765)),
        ("localhost.", ("localhost", None)),
        *((wrong, None) for wrong in ("", ":80", "a:b", "a:80:80", "[::1", "::1", "a:", ".")),
    ],
)
def test_a_host_header_is_read(header: str, expected: tuple[str, int | None] | None) -> None:
    assert host_of(header) == expected


def test_a_port_of_any_length_raises_nothing() -> None:
    assert host_of("localhost:" + "1" * 5_000) is None


@pytest.mark.parametrize(
    "header",
    ["localhost:1", "127.0.0.1", "[::1]:2", "192.168.0.4:80", "a.localhost", "LOCALHOST:8765", "localhost."],
)
def test_names_of_this_machine_and_numbers_are_not_rebound(header: str) -> None:
    assert not is_rebound(header)


@pytest.mark.parametrize(
    "header", ["", "evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example"]
)
def test_other_names_may_be_rebound(header: str) -> None:
    assert is_rebound(header)
