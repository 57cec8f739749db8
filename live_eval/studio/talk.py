"""Talk to an endpoint with the browser's microphone: a page's offer begins a conversation."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from live_eval.errors import UsageError
from live_eval.run.plan import make_live_plan
from live_eval.run.run_file import EndpointTable, validate
from live_eval.studio.answers import answer, json_text, refusal
from live_eval.studio.library import Library
from live_eval.studio.shared import LIBRARY
from live_eval.studio.talking.endpoints import talkable_endpoints

if TYPE_CHECKING:
    from live_eval.studio.talking.conversation import PageConversation

__all__ = ["add_routes"]

_TABLES = {"endpoint": ("name", "base_url", "model", "voice", "instructions"), "turns": ("mode",)}
"""What a page may choose of a run file: no variable of the environment, and nothing that is logged."""
_STOP_TIMEOUT_S = 10.0


class _Talks:
    """The conversation that a page holds, of which there is one at a time."""

    def __init__(self) -> None:
        self.taken = False
        self.task: asyncio.Task[None] | None = None
        self._now: PageConversation | None = None

    async def begin(self, talk: PageConversation, offer: str) -> str:
        """Begin a conversation; return the answer to its offer.

        Raises:
            UsageError: The offer cannot be answered.
        """
        answer = await talk.answer(offer)
        self._now = talk
        self.task = asyncio.create_task(self._hold(talk))
        return answer

    async def _hold(self, talk: PageConversation) -> None:
        try:
            await talk.hold()
        finally:
            self._now, self.taken = None, False

    async def stop(self) -> None:
        """End the conversation under way, and wait until it is stored."""
        if self._now is not None and self.task is not None:
            self._now.stop()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.task, _STOP_TIMEOUT_S)


_TALKS = web.AppKey("talks", _Talks)


def add_routes(app: web.Application) -> None:
    """Serve conversations."""
    app[_TALKS] = _Talks()
    app.on_shutdown.append(_stop)
    app.router.add_get("/api/talk", _endpoints)
    app.router.add_post("/api/talk", _begin)


async def _stop(app: web.Application) -> None:
    await app[_TALKS].stop()


async def _endpoints(request: web.Request) -> web.Response:
    """Return the endpoints, which of them is the default, and whether a page talks now."""
    found = {"default": EndpointTable().name, "taken": request.app[_TALKS].taken}
    return await answer(lambda: {**found, "endpoints": talkable_endpoints()})


async def _begin(request: web.Request) -> web.Response:
    """Answer a page's SDP offer.

    The body: ``offer``, and of a run file the tables ``endpoint`` and ``turns``. While another page talks the
    error is ``busy`` (409).
    """
    talks = request.app[_TALKS]
    if talks.taken:
        return refusal(request, 409, "busy", "another tab talks: end its conversation first")
    talks.taken = True
    try:
        offer, tables = _parts(await request.read())
        talk = (await asyncio.to_thread(_prepare, tables, request.app[LIBRARY]))()
        began = {"answer": await talks.begin(talk, offer), **talk.facts}
    except BaseException:
        talks.taken = False
        raise
    return web.Response(text=json_text(began), content_type="application/json")


def _prepare(tables: dict[str, dict[str, Any]], library: Library) -> Callable[[], PageConversation]:
    """Look up all that a conversation needs, and load what takes a while.

    Returns:
        What makes the conversation; to be called in the event loop.

    Raises:
        UsageError: Something of it does not exist.
    """
    from live_eval.studio.talking.conversation import PageConversation

    plan = make_live_plan(validate(tables))
    began = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    run = library.new_run(f"{began}-{plan.spec.name}-live")
    return partial(PageConversation, plan, run)


def _parts(body: bytes) -> tuple[str, dict[str, dict[str, Any]]]:
    """Return the offer, and the tables of the run file, of what a page sent.

    Raises:
        UsageError: It is something else.
    """
    try:
        given = orjson.loads(body)
    except ValueError:
        given = None
    if not isinstance(given, dict) or not isinstance(given.get("offer"), str):
        raise UsageError("expected a JSON object with the key 'offer', an SDP offer")
    tables: dict[str, dict[str, Any]] = {}
    for table, keys in _TABLES.items():
        values = given.get(table, {})
        if not isinstance(values, dict) or not set(values) <= set(keys):
            raise UsageError(f"{table}: expected an object with keys of {', '.join(keys)}")
        tables[table] = values
    return given["offer"], tables
