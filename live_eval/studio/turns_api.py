"""Serve the turns of a run: pages of the list, and the details of single turns."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aiohttp import web

from live_eval.errors import UsageError
from live_eval.recording import keep_review, read_reviews
from live_eval.recording.reviews import NO_REVIEW, review_change
from live_eval.redaction import SECRETS
from live_eval.studio.answers import answer, as_file
from live_eval.studio.library import LIBRARY
from live_eval.studio.lookups import count_in, open_turn
from live_eval.studio.turn_details import turn_details, turn_events
from live_eval.studio.turn_index import CHOICES, RECORDED, RowQuery, read_index, read_page

__all__ = ["add_routes", "query_of"]

_MOST_TURNS = 1_000
_MOST_EVENTS = 1_000
_MOST_OFFSET = 10_000_000
_MOST_KNOWN = 200  # maximum number of labels offered for selection
_YES_OR_NO = {"0": False, "1": True}


def add_routes(app: web.Application) -> None:
    """Add the routes for turns."""
    app.router.add_get("/api/runs/{run}/turns", _turns)
    app.router.add_get("/api/runs/{run}/turns.csv", _csv)
    app.router.add_get("/api/runs/{run}/turns/{turn}", _turn)
    app.router.add_get("/api/runs/{run}/turns/{turn}/around", _around)
    app.router.add_get("/api/runs/{run}/turns/{turn}/events", _events)
    app.router.add_get("/api/runs/{run}/turns/{turn}/review", _review)
    app.router.add_post("/api/runs/{run}/turns/{turn}/review", _keep_review)


async def _turns(request: web.Request) -> web.Response:
    query = query_of(request)
    return await answer(lambda: read_page(_folder_of(request), query))


async def _csv(request: web.Request) -> web.Response:
    query = query_of(request)

    def csv() -> tuple[str, str]:
        folder = _folder_of(request)
        return SECRETS.text(read_index(folder).csv(query)), f"{folder.name}-turns.csv"

    text, name = await asyncio.to_thread(csv)
    return web.Response(text=text, content_type="text/csv", headers=as_file(name))


async def _turn(request: web.Request) -> web.Response:
    def details() -> dict[str, Any]:
        with open_turn(request) as (run, turn_id):
            return turn_details(run, turn_id, _MOST_EVENTS)

    return await answer(details)


async def _around(request: web.Request) -> web.Response:
    query = query_of(request)
    return await answer(lambda: read_index(_folder_of(request)).around(request.match_info["turn"], query))


async def _events(request: web.Request) -> web.Response:
    offset = count_in(request, "offset", 0, _MOST_OFFSET)
    limit = count_in(request, "limit", _MOST_EVENTS, _MOST_EVENTS)

    def events() -> dict[str, Any]:
        with open_turn(request) as (run, turn_id):
            return turn_events(run, run.turn(turn_id), offset, limit)

    return await answer(events)


async def _review(request: web.Request) -> web.Response:
    def review() -> dict[str, Any]:
        with open_turn(request) as (run, turn_id):
            return _review_json(run.path, turn_id)

    return await answer(review)


async def _keep_review(request: web.Request) -> web.Response:
    change = review_change(await request.read())

    def keep() -> dict[str, Any]:
        with open_turn(request) as (run, turn_id):
            keep_review(run.path, turn_id, change)
            return _review_json(run.path, turn_id)

    return await answer(keep)


def _review_json(folder: Path, turn_id: str) -> dict[str, Any]:
    """Return the review of a turn, and the most frequent labels in the run, as JSON values."""
    reviews = read_reviews(folder)
    review = reviews.get(turn_id, NO_REVIEW)
    counts = Counter(label for each in reviews.values() for label in each.labels)
    return {**asdict(review), "known": [label for label, _ in counts.most_common(_MOST_KNOWN)]}


def _folder_of(request: web.Request) -> Path:
    return request.app[LIBRARY].find(request.match_info["run"], "run").path


def query_of(request: web.Request) -> RowQuery:
    """Parse a request's query for the turn list.

    Raises:
        UsageError: A parameter is invalid.
    """
    query = request.query
    flags = {name: query[name] for name in ("flagged", "descending") if name in query}
    for name, value in flags.items():
        if value not in _YES_OR_NO:
            raise UsageError(f"{name}: expected 0 or 1, got {value[:40]!r}")
    return RowQuery(
        text=query.get("filter", ""),
        where=query.get("where", ""),
        choices={name: query[name] for name in CHOICES if query.get(name)},
        flagged=_YES_OR_NO[flags["flagged"]] if "flagged" in flags else None,
        sort=query.get("sort", RECORDED),
        descending=_YES_OR_NO[flags.get("descending", "0")],
        offset=count_in(request, "offset", 0, _MOST_OFFSET),
        limit=count_in(request, "limit", 100, _MOST_TURNS),
    )
