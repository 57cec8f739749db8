"""Build the studio's aiohttp application, and serve it."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import ssl
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from aiohttp import web

from live_eval.clock import SystemClock
from live_eval.http.connections import Connections, LimitedSite
from live_eval.http.connections import serve as serve_application
from live_eval.registry import installed_judges
from live_eval.studio import (
    audio_api,
    compare_api,
    front_end,
    listen,
    report_pages,
    runs_api,
    start_api,
    talk,
    turns_api,
    words_api,
)
from live_eval.studio.answers import explain_errors
from live_eval.studio.library import LIBRARY, Library
from live_eval.studio.security import GUARD, Guard, set_headers
from live_eval.studio.talking.talk_settings import TALK, TalkSettings

__all__ = ["PARTS", "Part", "application", "serve"]

Part: TypeAlias = Callable[[web.Application], None]
"""A function that adds routes and cleanup to the application; ``app[LIBRARY]`` finds runs."""

PARTS: tuple[Part, ...] = (
    front_end.add_routes,
    runs_api.add_routes,
    turns_api.add_routes,
    compare_api.add_routes,
    audio_api.add_routes,
    words_api.add_routes,
    report_pages.add_routes,
    listen.add_routes,
    start_api.add_routes,
    talk.add_routes,
)

_MAX_BODY_BYTES = 256 * 1024
"""The maximum size of a request body."""

_M_ARENA_MAX = -8  # mallopt(3)
_MOST_CONNECTIONS = 512
"""The maximum number of concurrent connections, below the usual limit on open files."""


def application(
    folders: Sequence[Path],
    guard: Guard,
    parts: Sequence[Part] = PARTS,
    talk: TalkSettings | None = None,
    data: Sequence[Path] = (),
) -> web.Application:
    """Return the studio application.

    Args:
        folders: Run and campaign folders, or folders that contain them.
        talk: Conversation settings; None for the endpoints' default addresses.
        data: See `Library`.
    """
    app = web.Application(client_max_size=_MAX_BODY_BYTES, middlewares=[guard.middleware, explain_errors])
    app.on_response_prepare.append(set_headers)
    app[GUARD] = guard
    app[LIBRARY] = Library(folders, data)
    app[TALK] = talk or TalkSettings()
    for part in parts:
        part(app)
    return app


class _Threads(ThreadPoolExecutor):
    """A thread pool whose shutdown does not block the event loop."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Refuse new work and return immediately."""
        super().shutdown(wait=False, cancel_futures=True)


async def serve(
    app: web.Application,
    host: str,
    port: int,
    announce: Callable[[int], None],
    *,
    tls: ssl.SSLContext | None = None,
    most_connections: int = _MOST_CONNECTIONS,
) -> None:
    """Serve an application; see `live_eval.http.connections.serve`.

    Threads that are still computing responses are not awaited; Python joins them at exit.
    """
    _share_heap()
    asyncio.get_running_loop().set_default_executor(_Threads(thread_name_prefix="studio"))
    connections = Connections(SystemClock())
    app.middlewares.insert(0, connections.middleware)

    def site(runner: web.AppRunner) -> LimitedSite:
        return LimitedSite(runner, host, port, most=most_connections, connections=connections, tls=tls)

    def announced(port: int) -> None:
        _load()
        gc.freeze()  # otherwise, every garbage collection during the reading of a run would visit all modules
        announce(port)

    await serve_application(app, site, announced)


def _share_heap() -> None:
    """Let all threads allocate from one heap.

    By default, glibc gives each thread its own heap, and memory that one thread has freed is not available
    to the others: 60 MB for a run of 30,000 turns.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def _load() -> None:
    """Import what the first pages need, so that none of them has to wait for it."""
    import numpy.fft  # noqa: F401  (only loaded)
    import scipy.special  # noqa: F401  (only loaded)

    installed_judges()
