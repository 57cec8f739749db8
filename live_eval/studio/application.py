"""The studio as one aiohttp application, and serving it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from aiohttp import web

from live_eval.clock import SystemClock
from live_eval.http.connections import Connections, LimitedSite
from live_eval.http.connections import serve as serve_application
from live_eval.studio.answers import explain_errors
from live_eval.studio.library import Library
from live_eval.studio.parts import PARTS, Part
from live_eval.studio.security import GUARD, Guard, set_headers
from live_eval.studio.shared import LIBRARY, TALK
from live_eval.studio.talking.endpoints import TalkSettings

__all__ = ["MAX_BODY_BYTES", "application", "serve"]

MAX_BODY_BYTES = 256 * 1024
"""Largest body of a request."""

_MOST_CONNECTIONS = 512
"""Most connections at a time: fewer than a process may usually open files."""


def application(
    folders: Sequence[Path], guard: Guard, parts: Sequence[Part] = PARTS, talk: TalkSettings | None = None
) -> web.Application:
    """Return the studio.

    Args:
        folders: Folders of runs and campaigns, or such folders with others in them.
        guard: Who may use it.
        parts: What it consists of.
        talk: What was decided about conversations; None for endpoints' own addresses.
    """
    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[guard.middleware, explain_errors])
    app.on_response_prepare.append(set_headers)
    app[GUARD] = guard
    app[LIBRARY] = Library(folders)
    app[TALK] = talk or TalkSettings()
    for part in parts:
        part(app)
    return app


class _Threads(ThreadPoolExecutor):
    """Threads that the event loop does not wait for when it closes."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work, and return at once."""
        super().shutdown(wait=False, cancel_futures=True)


async def serve(app: web.Application, host: str, port: int, announce: Callable[[int], None]) -> None:
    """Serve what `application` returned on an address; see `live_eval.http.connections.serve`.

    Threads that still compute an answer then are not waited for; Python itself waits for them when it exits.
    """
    asyncio.get_running_loop().set_default_executor(_Threads(thread_name_prefix="studio"))
    connections = Connections(SystemClock())
    app.middlewares.insert(0, connections.middleware)

    def site(runner: web.AppRunner) -> LimitedSite:
        return LimitedSite(runner, host, port, most=_MOST_CONNECTIONS, connections=connections)

    await serve_application(app, site, announce)
