"""A publisher of weights, and an empty folder for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from live_eval.weights import FOLDER_VARIABLE
from tests.loopback.weights.publisher import Publisher, serve

CONTENT = bytes(range(251)) * 20_000  # 5 MB; the prime period makes aligned blocks differ


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    published = Publisher({"/m/a.bin": CONTENT, "/m/sub/b.txt": b"small"})
    server = serve(published)
    yield published
    published.over.set()
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "weights"))
    for name in ("HF_ENDPOINT", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "weights"
