"""Serve conversations through the browser's microphone: a page's SDP offer starts a conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from live_eval.errors import UsageError
from live_eval.live.quick_scores import live_judges, live_options
from live_eval.run.plan import make_live_plan
from live_eval.run.run_file import EndpointTable, validate
from live_eval.studio.answers import BusyError, answer, json_text
from live_eval.studio.library import LIBRARY, Library
from live_eval.studio.talking.talk_settings import TALK, TalkSettings, endpoint_choices, judge_choices

if TYPE_CHECKING:
    from live_eval.studio.talking.page_conversation import PageConversation

__all__ = ["add_routes"]

_TABLES = {"endpoint": ("name", "model", "voice", "instructions"), "turns": ("mode",), "judges": ("names",)}
"""Run-file settings that a page may choose; addresses and environment variables are excluded."""
_STOP_TIMEOUT_S = 10.0
_CONNECTED = "another tab is connected, or its conversation is being stored: end it, or try again shortly"


class _Talks:
    """The pages' conversations; at most one is connected.

    A page that closes while connecting cannot report it, so a later offer replaces an unconnected
    conversation.
    """

    def __init__(self) -> None:
        self.lock = asyncio.Lock()  # offers are answered in order of arrival
        self._running: dict[asyncio.Task[None], PageConversation] = {}

    @property
    def taken(self) -> bool:
        """Whether a page is connected, or its conversation is still being stored."""
        return any(talk.connected for talk in self._running.values())

    async def begin(self, talk: PageConversation, offer: str) -> str:
        """Start a conversation, replacing unconnected conversations; return the SDP answer.

        Raises:
            UsageError: The SDP offer is not acceptable.
            BusyError: Another page is connected.
        """
        answer = await talk.answer(offer)
        if self.taken:
            await talk.leave()
            raise BusyError(_CONNECTED)
        for task in self._running:
            task.cancel()
        task = asyncio.create_task(talk.run())
        self._running[task] = talk
        task.add_done_callback(self._running.pop)
        return answer

    async def stop(self) -> None:
        """End all conversations, and wait until the connected one is stored."""
        for task, talk in self._running.items():
            if talk.connected:
                talk.stop()
            else:
                task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=_STOP_TIMEOUT_S)


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
    """Return the endpoints and the default one, the judges, and whether a page is connected."""
    found = {"default": EndpointTable().name, "taken": request.app[_TALKS].taken}
    addresses = request.app[TALK].addresses
    return await answer(
        lambda: {
            **found,
            "endpoints": endpoint_choices(addresses, sessions=True),
            "judges": judge_choices(),
        }
    )


async def _begin(request: web.Request) -> web.Response:
    """Answer a page's SDP offer.

    The request body contains ``offer`` and the run-file tables ``endpoint``, ``turns`` and ``judges``. The
    error is ``busy`` (409) while another page is connected.
    """
    talks = request.app[_TALKS]
    offer, tables = _parts(await request.read())
    async with talks.lock:
        if talks.taken:
            raise BusyError(_CONNECTED)
        prepare = partial(_prepare, tables, request.app[LIBRARY], request.app[TALK])
        talk = (await asyncio.to_thread(prepare))()
        began = {"answer": await talks.begin(talk, offer), **talk.facts}
        if talk.key_recipient is not None:
            request.app[TALK].note(talk.key_recipient)
    return web.Response(text=json_text(began), content_type="application/json")


def _prepare(
    tables: dict[str, dict[str, Any]], library: Library, settings: TalkSettings
) -> Callable[[], PageConversation]:
    """Run the slow preparation of a conversation.

    Returns:
        A function that creates the conversation; call it on the event loop.
    """
    from live_eval.studio.talking.page_conversation import PageConversation

    plan = make_live_plan(validate(_with_address(tables, settings)), has_flags=False)
    judges = live_judges(plan.config.judges.names if "names" in tables["judges"] else (), live_options())
    began = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    run = library.new_run(f"{began}-{plan.spec.name}-live")
    return partial(PageConversation, plan, run, judges)


def _with_address(tables: dict[str, dict[str, Any]], settings: TalkSettings) -> dict[str, dict[str, Any]]:
    """Return a page's settings with the address from the studio's command line."""
    endpoint = tables["endpoint"]
    name = endpoint.get("name", EndpointTable().name)
    if not isinstance(name, str):
        raise UsageError("endpoint.name: expected the name of an endpoint")
    address = settings.address(name)
    return tables if address is None else {**tables, "endpoint": {**endpoint, "base_url": address}}


def _parts(body: bytes) -> tuple[str, dict[str, dict[str, Any]]]:
    """Return a request's SDP offer and settings tables."""
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
            raise UsageError(f"{table}: expected an object with some of the keys {', '.join(keys)}")
        tables[table] = values
    return given["offer"], tables
