"""Check that WebRTC connections release everything."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest


@pytest.fixture
async def nothing_left() -> AsyncIterator[None]:
    """Fail if a task or a decoder keeps running after a test."""
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not left
    assert not [thread for thread in threading.enumerate() if "decoder" in thread.name]
