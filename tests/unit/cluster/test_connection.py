"""Addresses of Ray clusters that cannot be used, without Ray."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from live_eval.cluster.connection import AUTO, _address_for_ray, connected
from live_eval.errors import LiveEvalError, UsageError


def test_an_address_where_nothing_listens_is_named() -> None:
    with socket.socket() as taken:  # bound, but it does not listen
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(LiveEvalError, match=f"no Ray cluster answers at {address}"), connected(address):
            pass


@pytest.mark.parametrize("address", ["ray://10.0.0.1:10001", "somewhere", "run.toml", "host:port"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="expected HOST:PORT"), connected(address):
        pass


def test_a_cluster_that_is_gone_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert _address_for_ray(AUTO) is None
    assert _address_for_ray("10.0.0.1:6379") == "10.0.0.1:6379"
    remembered = tmp_path / "ray/ray_current_cluster"
    remembered.parent.mkdir()
    with socket.socket() as head:
        head.bind(("127.0.0.1", 0))
        remembered.write_text(f"127.0.0.1:{head.getsockname()[1]}", "utf-8")
        assert _address_for_ray(AUTO) == "local"
        head.listen()
        assert _address_for_ray(AUTO) is None


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'live-eval\[ray\]'"), connected("auto"):
        pass
