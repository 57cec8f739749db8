"""Serve conversations with the browser's microphone, which a page starts with an SDP offer."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from live_eval.data import Consent, PerformedSet, consent_question
from live_eval.errors import UsageError
from live_eval.live.audible_voice import LEVEL_RULE
from live_eval.live.parties import MOST_ENDPOINTS, Parties, Party
from live_eval.live.performance import plan_performance
from live_eval.live.quick_scores import live_judges, live_options, unable_in_conversation
from live_eval.run.plan import make_live_plan
from live_eval.run.run_file import EndpointTable, RunConfig, validate
from live_eval.studio.answers import BusyError, answer, json_text
from live_eval.studio.library import LIBRARY, Library
from live_eval.studio.talking.talk_settings import TALK, TalkSettings, endpoint_choices, judge_choices

if TYPE_CHECKING:
    from live_eval.studio.talking.page_conversation import PageConversation

__all__ = ["add_routes"]

_TABLES = {"endpoint": ("name", "model", "voice", "instructions"), "turns": ("mode",), "judges": ("names",)}
"""The run-file settings that a page may choose; addresses and environment variables are excluded."""
_MORE = "more_endpoints"
"""The key of further ``endpoint`` tables, for several endpoints; ``blind`` hides their names."""
_PERFORM = ("data", "scripts", "consent")
"""The settings for a performance: data set, number of scripts, and the person's name."""
_MOST_SCRIPTS = 2_000
_LONGEST_MODEL = 60
_STOP_TIMEOUT_S = 10.0
_CONNECTED = "another tab is connected, or its conversation is being stored: end it, or try again shortly"


class _Talks:
    """The conversations of all pages, of which at most one is connected.

    A later offer replaces a conversation that is not yet connected, because a page that is closed while
    connecting cannot report this.
    """

    def __init__(self) -> None:
        self.lock = asyncio.Lock()  # answer offers in order of arrival
        self._running: dict[asyncio.Task[None], PageConversation] = {}

    @property
    def taken(self) -> bool:
        """Whether a page is connected, or its conversation is still being stored."""
        return any(talk.connected for talk in self._running.values())

    async def begin(self, talk: PageConversation, offer: str) -> str:
        """Start a conversation that replaces unconnected ones, and return the SDP answer.

        Raises:
            UsageError: The SDP offer is refused.
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
    """Add the routes for conversations."""
    app[_TALKS] = _Talks()
    app.on_shutdown.append(_stop)
    app.router.add_get("/api/talk", _endpoints)
    app.router.add_post("/api/talk", _begin)


async def _stop(app: web.Application) -> None:
    await app[_TALKS].stop()


async def _endpoints(request: web.Request) -> web.Response:
    """Serve the list of endpoints, the default endpoint, the judges, and whether a page is connected."""
    found = {"default": EndpointTable().name, "taken": request.app[_TALKS].taken}
    addresses, library = request.app[TALK].addresses, request.app[LIBRARY]
    performs = request.query.get("perform") == "1"

    def choices() -> dict[str, Any]:
        choices = {
            **found,
            "endpoints": endpoint_choices(addresses, sessions=True),
            "judges": judge_choices(scripted=performs),
            "level_rule": asdict(LEVEL_RULE),
        }
        if performs:
            choices |= {"data": library.data_choices, "consent": _consent_question(library)}
        return choices

    return await answer(choices)


def _consent_question(library: Library) -> str:
    return consent_question(library.new_run("run").path.parent, "the endpoint")


async def _begin(request: web.Request) -> web.Response:
    """Answer a page's SDP offer.

    The request body contains ``offer``, the run-file tables ``endpoint``, ``turns`` and ``judges``; for a
    performance also ``perform``, and for several endpoints ``more_endpoints`` and ``blind``. The response is
    ``busy`` (409) while another page is connected.
    """
    talks = request.app[_TALKS]
    offer, tables, more, blind = _parts(await request.read())
    async with talks.lock:
        if talks.taken:
            raise BusyError(_CONNECTED)
        library, settings = request.app[LIBRARY], request.app[TALK]
        talk = (await asyncio.to_thread(_prepare, tables, more, library, settings, blind=blind))()
        began = {"answer": await talks.begin(talk, offer), **talk.facts}
        for recipient in talk.key_recipients:
            settings.note(recipient)
    return web.Response(text=json_text(began), content_type="application/json")


def _prepare(
    tables: dict[str, dict[str, Any]],
    more: Sequence[dict[str, Any]],
    library: Library,
    settings: TalkSettings,
    *,
    blind: bool,
) -> Callable[[], PageConversation]:
    """Do the slow part of preparing a conversation; call it in a thread.

    Returns:
        A function that creates the conversation, to be called on the event loop.
    """
    from live_eval.studio.talking.page_conversation import PageConversation

    perform = tables.pop("perform")
    if perform and more:
        raise UsageError("a performance requires a single endpoint")
    endpoints = [tables["endpoint"], *more]
    configs = [validate(_with_address({**tables, "endpoint": each}, settings)) for each in endpoints]
    began = datetime.now(UTC)
    options = live_options(scripted=bool(perform))
    judges = live_judges(configs[0].judges.names if "names" in tables["judges"] else (), options)
    missing = unable_in_conversation(judges, options, scripted=bool(perform))
    able = [spec.name for spec in judges if spec.name not in missing]
    performed: PerformedSet | None = None
    consent: Consent | None = None
    runs, named = {}, []
    for config, name in zip(configs, _names(configs), strict=True):
        run = runs[name] = library.new_run(_name(began, f"{name.replace(' ', '-')}-live"))
        if perform:
            performed = PerformedSet(run.path.with_name(f"{run.path.name}-takes"))
            config = config.with_data(_chosen_data(perform, library))
            plan = plan_performance(config, performed, scripts=_scripts(perform), has_flags=False)
            consent = _consent(perform, library, began, plan.recipient)
        else:
            plan = make_live_plan(config, has_flags=False)
        named.append(Party(name, plan, run.path, able, options))
    parties = Parties(named, blind=blind)
    votes = library.new_run(_name(began, "votes.csv"))
    ordered = [runs[party.name] for party in parties.all]
    return partial(
        PageConversation, parties, ordered, votes, judges, missing, performed=performed, consent=consent
    )


def _names(configs: Sequence[RunConfig]) -> list[str]:
    """Return a name for each endpoint: its name, its model if given, and a number if these are equal."""
    names: list[str] = []
    for endpoint in (config.endpoint for config in configs):
        model = re.sub(r"[^\w.-]+", "-", endpoint.model or "")[:_LONGEST_MODEL]
        name = f"{endpoint.name} {model}".rstrip()
        numbered = (f"{name} {number}" for number in itertools.count(2))
        names.append(next(each for each in itertools.chain([name], numbered) if each not in names))
    return names


def _name(began: datetime, what: str) -> str:
    return f"{began.strftime('%Y-%m-%dT%H-%M-%SZ')}-{what}"


def _chosen_data(perform: Mapping[str, Any], library: Library) -> str:
    """Return the data set that a page has chosen among the studio's."""
    choices = library.data_choices
    if perform.get("data") not in choices:
        raise UsageError(f"perform.data: expected one of {', '.join(choices)}")
    return str(perform["data"])


def _scripts(perform: Mapping[str, Any]) -> int:
    number = perform.get("scripts")
    if type(number) is not int or not 1 <= number <= _MOST_SCRIPTS:
        raise UsageError(f"perform.scripts: expected a number from 1 to {_MOST_SCRIPTS}")
    return number


def _consent(perform: Mapping[str, Any], library: Library, at: datetime, recipient: str) -> Consent:
    given_by = perform.get("consent")
    if not isinstance(given_by, str) or not given_by.strip():
        raise UsageError("expected your consent: type your name or initials")
    given_at = at.isoformat(timespec="seconds")
    return Consent(_consent_question(library), given_by.strip(), given_at, recipient)


def _with_address(tables: dict[str, dict[str, Any]], settings: TalkSettings) -> dict[str, dict[str, Any]]:
    """Add the endpoint's address from the studio's command line to a page's settings."""
    endpoint = tables["endpoint"]
    name = endpoint.get("name", EndpointTable().name)
    if not isinstance(name, str):
        raise UsageError("endpoint.name: expected the name of an endpoint")
    address = settings.address(name)
    return tables if address is None else {**tables, "endpoint": {**endpoint, "base_url": address}}


def _parts(body: bytes) -> tuple[str, dict[str, dict[str, Any]], list[dict[str, Any]], bool]:
    """Parse a request: SDP offer, settings tables, further endpoints, and whether names are hidden."""
    try:
        given = orjson.loads(body)
    except ValueError:
        given = None
    if not isinstance(given, dict) or not isinstance(given.get("offer"), str):
        raise UsageError("expected a JSON object with the key 'offer', an SDP offer")
    tables = {
        table: _table(given.get(table, {}), table, keys)
        for table, keys in {**_TABLES, "perform": _PERFORM}.items()
    }
    more = given.get(_MORE, [])
    if not isinstance(more, list) or len(more) >= MOST_ENDPOINTS:
        raise UsageError(f"{_MORE}: expected a list of at most {MOST_ENDPOINTS - 1} objects")
    others = [_table(each, _MORE, _TABLES["endpoint"]) for each in more]
    return given["offer"], tables, others, given.get("blind") is True


def _table(values: object, table: str, keys: Sequence[str]) -> dict[str, Any]:
    if not isinstance(values, dict) or not set(values) <= set(keys):
        raise UsageError(f"{table}: expected an object with some of the keys {', '.join(keys)}")
    return values
