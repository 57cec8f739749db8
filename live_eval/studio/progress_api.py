"""A run under way, as server-sent events (HTML standard, section 9.2)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from aiohttp import web

from live_eval.errors import LiveEvalError
from live_eval.studio.answers import json_text
from live_eval.studio.library import Library
from live_eval.studio.run_facts import run_progress
from live_eval.studio.shared import LIBRARY

__all__ = ["add_routes"]

_LATEST = 5
_INTERVAL_S = 0.5
_QUIET_INTERVALS = 30
"""A comment is sent after so many without a change, to notice that the page is gone."""

_STOPPING = web.AppKey("stopping", asyncio.Event)


def add_routes(app: web.Application) -> None:
    """Serve the progress of runs."""
    app[_STOPPING] = asyncio.Event()
    app.on_shutdown.append(_stop)
    app.router.add_get("/api/runs/{run}/progress", _progress)


async def _stop(app: web.Application) -> None:
    app[_STOPPING].set()


async def _progress(request: web.Request) -> web.StreamResponse:
    """Send ``progress`` whenever the run has changed, ``problem`` if it cannot be read any more, and ``end``.

    After ``end`` the page closes the stream; it would open it again otherwise.
    """
    library, run_id = request.app[LIBRARY], request.match_info["run"]
    state = await asyncio.to_thread(_read, library, run_id)  # an unknown run is refused as elsewhere
    stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await stream.prepare(request)
    with suppress(ConnectionError):  # the page is gone
        await _follow(stream, library, run_id, state, request.app[_STOPPING])
    return stream


async def _follow(
    stream: web.StreamResponse, library: Library, run_id: str, state: dict[str, Any], stopping: asyncio.Event
) -> None:
    """Send what becomes of a run until it has ended or the studio stops."""
    await _send(stream, "progress", state)
    quiet = 0
    while state["state"] == "running":
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), _INTERVAL_S)
            return
        try:
            now = await asyncio.to_thread(_read, library, run_id)
        except (LiveEvalError, OSError) as error:
            await _send(stream, "problem", {"message": str(error)})
            break
        quiet += 1
        if now != state:
            state, quiet = now, 0
            await _send(stream, "progress", state)
        elif quiet % _QUIET_INTERVALS == 0:
            await stream.write(b":\n\n")
    await _send(stream, "end", {})


def _read(library: Library, run_id: str) -> dict[str, Any]:
    return run_progress(library.find(run_id, "run").path, _LATEST)


async def _send(stream: web.StreamResponse, event: str, data: dict[str, Any]) -> None:
    await stream.write(f"event: {event}\ndata: {json_text(data)}\n\n".encode())
