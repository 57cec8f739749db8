"""Addresses of Ray clusters that cannot be used, without Ray."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from live_eval.cluster.ray_connection import AUTO, _address_for_ray, connected
from live_eval.errors import LiveEvalError, UsageError
from live_eval.redaction import SECRETS


def test_an_address_without_a_listener_is_reported() -> None:
    with socket.socket() as taken:  # bound, but not listening
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(LiveEvalError, match=f"no Ray cluster responds at {address}"), connected(address):
            pass


@pytest.mark.parametrize("address", ["ray://10.0.0.1:10001", "somewhere", "run.toml", "host:port"])
def test_an_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="expected HOST:PORT"), connected(address):
        pass


def test_a_missing_cluster_is_not_awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert _address_for_ray(AUTO) == "local"
    assert _address_for_ray("10.0.0.1:6379") == "10.0.0.1:6379"
    remembered = tmp_path / "ray/ray_current_cluster"
    remembered.parent.mkdir()
    with socket.socket() as head:
        head.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{head.getsockname()[1]}"
        remembered.write_text(f"{address}\n", "utf-8")
        assert _address_for_ray(AUTO) == "local"
        head.listen()
        assert _address_for_ray(AUTO) == address
        with monkeypatch.context() as other:
            if os.geteuid() == 0:
                os.chown(remembered, 1, 1)
            other.setattr(os, "geteuid", lambda: 2)
            assert _address_for_ray(AUTO) == "local", "somebody else wrote it"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.2:6379")
    assert _address_for_ray(AUTO) == "10.0.0.2:6379"


class _Ray:
    """A fake Ray module that starts nothing."""

    def __init__(self, version: str) -> None:
        self.__version__ = version
        self.seen: dict[str, str] = {}

    def init(self, **options: object) -> None:
        self.seen = dict(os.environ)
        raise ConnectionError(f"nothing here: {options['address']}")

    def shutdown(self) -> None:
        """Do nothing."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a home folder without a token, and no cluster."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    for name in ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def joined(address: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the environment variables with which Ray was started or joined."""
    ray = _Ray("2.60.0")
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(LiveEvalError, match="nothing here"), connected(address):
        pass
    return ray.seen


@pytest.mark.usefixtures("home")
def test_a_cluster_started_here_is_local_and_has_a_separate_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "short")
    before = dict(os.environ)
    first, second = (joined(AUTO, monkeypatch) for _ in range(2))
    assert first["RAY_AUTH_MODE"] == "token"
    assert len(first["RAY_AUTH_TOKEN"]) == 64
    assert first["RAY_AUTH_TOKEN"] != second["RAY_AUTH_TOKEN"]
    assert first["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"  # Ray then uses the loopback interface
    assert dict(os.environ) == before
    assert SECRETS.text(f"a {first['RAY_AUTH_TOKEN']}") == "a ***"


def test_a_cluster_named_by_another_user_is_not_joined(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", AUTO)
    named = home / "ray" / "ray_current_cluster"
    named.parent.mkdir()
    with socket.socket() as head:
        head.bind(("127.0.0.1", 0))
        head.listen()
        address = f"127.0.0.1:{head.getsockname()[1]}"
        named.write_text(address, "utf-8")
        assert _address_for_ray(AUTO) == address
        if owner := os.geteuid():
            monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
        else:
            os.chown(named, 65_534, -1)
        assert _address_for_ray(AUTO) == "local"


def test_a_token_that_others_can_read_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = home / ".ray" / "auth_token"
    token.parent.mkdir()
    token.write_text("0123456789abcdef", "utf-8")
    token.chmod(0o644)
    with socket.socket() as head:
        head.bind(("127.0.0.1", 0))
        head.listen()
        address = f"127.0.0.1:{head.getsockname()[1]}"
        monkeypatch.setitem(sys.modules, "ray", _Ray("2.60.0"))
        with pytest.raises(UsageError, match=rf"\(mode 644\): run chmod 600 {token}"), connected(address):
            pass
        token.chmod(0o600)
        assert joined(address, monkeypatch)["RAY_AUTH_MODE"] == "token"
        token.chmod(0o644)
        monkeypatch.setenv("RAY_AUTH_TOKEN", "0123456789abcdef")
        assert joined(address, monkeypatch)["RAY_AUTH_MODE"] == "token"


@pytest.mark.usefixtures("home")
def test_a_ray_without_tokens_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", _Ray("2.51.2"))
    with pytest.raises(UsageError, match=r"needs Ray 2\.52.*2\.51\.2"), connected(AUTO):
        pass


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install .*\[ray\]"), connected("auto"):
        pass
