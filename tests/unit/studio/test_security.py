"""The hosts that the studio serves."""

import pytest

from live_eval.studio.security import Guard
from live_eval.types import Secret


@pytest.mark.parametrize(
    ("bound", "host", "ours"),
    [
        ("127.0.0.1", "127.0.0.1:8770", True),
        ("127.0.0.1", "127.0.0.1:8770:8770", False),
        ("::1", "::1:8770", False),
        ("::1", "[::1]", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "localhost:8770", True),
        ("::1", "[::1]:8770", True),
        ("127.0.0.1", "192.168.1.5:8770", False),
        ("127.0.0.1", "localhost", False),
        ("127.0.0.1", "localhost:80", False),
        ("127.0.0.1", "evil.example:8770", False),
        ("127.0.0.1", "127.0.0.1.evil.example:8770", False),
        ("0.0.0.0", "192.168.1.5:8770", True),
        ("0.0.0.0", "[fe80::1]:8770", True),
        ("0.0.0.0", "evil.example:8770", False),
        ("lab.example", "lab.example:8770", True),
        ("lab.example", "evil.example:8770", False),
    ],
)
def test_only_hosts_safe_from_dns_rebinding_are_served(bound: str, host: str, ours: bool) -> None:
    assert Guard(Secret("token"), bound).serves(host, 8770) is ours


@pytest.mark.parametrize(
    ("bound", "host", "ours"),
    [
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "127.0.0.1:80", True),
        ("127.0.0.1", "127.0.0.1:8770", False),
        ("::1", "[::1]", True),
        ("0.0.0.0", "192.168.1.5", True),
        ("127.0.0.1", "evil.example", False),
    ],
)
def test_port_80_may_be_omitted(bound: str, host: str, ours: bool) -> None:
    assert Guard(Secret("token"), bound).serves(host, 80) is ours


def test_port_443_may_be_omitted_on_encrypted_pages() -> None:
    guard = Guard(Secret("token"), "0.0.0.0")
    assert guard.serves("192.168.1.5", 443, "https")
    assert not guard.serves("192.168.1.5", 80, "https")
