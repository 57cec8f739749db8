"""Serve the list of runs and campaigns, their values, and their progress."""

from __future__ import annotations

import asyncio
import importlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from aiohttp import web

from live_eval.analysis.comparison.series import compared_run
from live_eval.analysis.licences import licence_of
from live_eval.analysis.run_conditions import conditions_of
from live_eval.analysis.statistics.intervals import ALL_TURNS
from live_eval.analysis.summary.run_summary import model_of
from live_eval.analysis.summary.vocal_sounds import TITLES_OF_A_TURN
from live_eval.analysis.task_levels import relate_levels
from live_eval.analysis.trade_offs import main_trade_offs
from live_eval.analysis.turn_view import milliseconds
from live_eval.campaigns.documents import DUPLEX_CAMPAIGN
from live_eval.campaigns.duplex.summary import duplex_summary, read_duplex
from live_eval.campaigns.latency.campaign_file import read_campaign, read_campaign_file
from live_eval.campaigns.latency.summary import campaign_summary
from live_eval.errors import LiveEvalError, SchemaVersionError, StoreError
from live_eval.recording import RunReader, is_being_written, part_of, text_of
from live_eval.recording.reviews import keep_note, noted, read_note
from live_eval.report.glossary import studio_terms
from live_eval.report.leaderboard.board import PUBLISHED_NOTE, tables_with_runs
from live_eval.report.leaderboard.render import table_in_words
from live_eval.report.tables import RunView
from live_eval.report.trade_off_plots import trade_off_plot
from live_eval.studio.answers import answer, json_text
from live_eval.studio.library import LIBRARY, Library, ListedFolder
from live_eval.studio.turn_index import Stamp, forget_summary, read_index, read_summary, stamp_of

__all__ = ["add_routes", "folder_facts"]

_LATEST = 5
_INTERVAL_S = 0.5
_QUIET_INTERVALS = 30
"""The number of intervals without a change after which a comment is sent, to detect a closed page."""

_KEPT = 32
_KEPT_KEYS = 1_000
_STOPPING = web.AppKey("stopping", asyncio.Event)
_SUMMARIES = web.AppKey("summaries", ThreadPoolExecutor)
"""One thread computes the values of whole runs: several would not be faster, but use more memory."""


def add_routes(app: web.Application) -> None:
    """Add the routes for runs, their values and their progress."""
    app.router.add_get("/api/runs", _runs)
    app.router.add_get("/api/runs/{run}", _run)
    app.router.add_get("/api/runs/{run}/cues", _cues)
    app.router.add_get("/api/runs/{run}/paper", _paper)
    app.router.add_get("/api/glossary", _glossary)
    app.router.add_get("/api/runs/{run}/key", _key)
    app.router.add_post("/api/runs/{run}/note", _keep_note)
    app.router.add_get("/api/runs/{run}/facts", _facts)
    app[_STOPPING] = asyncio.Event()
    app[_SUMMARIES] = ThreadPoolExecutor(1, "summaries")
    app.on_startup.append(_prepare)
    app.on_shutdown.append(_stop)
    app.router.add_get("/api/runs/{run}/progress", _progress)


async def _prepare(_app: web.Application) -> None:
    """Load what intervals need, which would delay the first page."""
    await asyncio.to_thread(importlib.import_module, "scipy.special")


async def _runs(request: web.Request) -> web.Response:
    return await answer(_listing, request.app[LIBRARY])


async def _run(request: web.Request) -> web.Response:
    cues = request.query.get("cues") != "0"
    found = request.app[LIBRARY], request.match_info["run"], cues
    return await answer(_values, *found, within=request.app[_SUMMARIES])


async def _cues(request: web.Request) -> web.Response:
    def cues() -> dict[str, Any]:
        folder = request.app[LIBRARY].find(request.match_info["run"], "run").path
        return _cues_of(folder, stamp_of(folder))

    return await answer(cues, within=request.app[_SUMMARIES])


async def _paper(request: web.Request) -> web.Response:
    def paper() -> dict[str, Any]:
        folder = request.app[LIBRARY].find(request.match_info["run"], "run")
        return _paper_of(folder.path, folder.id, stamp_of(folder.path))

    return await answer(paper, within=request.app[_SUMMARIES])


async def _glossary(_request: web.Request) -> web.Response:
    return await answer(studio_terms)


async def _facts(request: web.Request) -> web.Response:
    return await answer(lambda: folder_facts(request.app[LIBRARY].find(request.match_info["run"])))


def _listing(library: Library) -> list[dict[str, Any]]:
    return [folder_facts(folder) for folder in library.folders()]


def _values(library: Library, run_id: str, cues: bool) -> dict[str, Any]:
    """Return a folder's row in the list, its manifest, and the values that its command prints."""
    folder = library.find(run_id)
    facts = folder_facts(folder)
    if folder.kind == "run":
        with RunReader.open(folder.path) as run:
            manifest = run.manifest
        stamp = stamp_of(folder.path)
        values = _summary(folder.path, stamp) | (_cues_of(folder.path, stamp) if cues else {})
        return {**values, "titles": dict(TITLES_OF_A_TURN), "folder": facts, "manifest": manifest}
    runs = [folder_facts(each) for each in library.runs_of(folder)]
    if folder.kind == "campaign":
        # the page does not show published definitions, which take seconds
        values = campaign_summary(read_campaign(folder.path), definitions=False).as_json()
    else:
        values = duplex_summary(read_duplex(folder.path)).as_json()
    return {**values, "folder": facts, "runs": runs}


@lru_cache(maxsize=_KEPT)
def _summary(folder: Path, _stamp: Stamp) -> dict[str, Any]:
    """Return the output of ``live-eval show --json`` without cues."""
    summary = read_summary(folder)
    levels = relate_levels(summary).as_json()
    return {**summary.as_json(cues=False), "levels": levels}


@lru_cache(maxsize=_KEPT)
def _cues_of(folder: Path, _stamp: Stamp) -> dict[str, Any]:
    """Return the cues in ``live-eval show --json``, whose computation takes as long as all the rest."""
    return read_summary(folder).cues_json()


@lru_cache(maxsize=_KEPT)
def _paper_of(folder: Path, run_id: str, _stamp: Stamp) -> dict[str, Any]:
    """Return the run's row in the paper's tables, and its trade-offs between main scores and latency.

    The page requests them last, so the summary is forgotten afterwards.
    """
    summary = read_summary(folder)
    with RunReader.open(folder) as run:
        manifest = run.manifest
        compared = compared_run(run, summary.facts.name, summary.turns, summary.table)
    forget_summary()
    views = [RunView(0, summary.facts.name, summary)]
    plots = [
        trade_off_plot(found, views, lambda _run, turn_id: f"#/runs/{run_id}/turns/{quote(turn_id, '')}")
        for found in main_trade_offs([(compared, summary)])
    ]
    return {
        "note": PUBLISHED_NOTE,
        "tables": [table_in_words(table) for table in tables_with_runs([(folder, summary, manifest)])],
        "trade_offs": [asdict(plot) for plot in plots],
    }


async def _key(request: web.Request) -> web.Response:
    def key() -> dict[str, Any]:
        folder = request.app[LIBRARY].find(request.match_info["run"], "run").path
        return _key_values(folder, stamp_of(folder))

    return await answer(key, within=request.app[_SUMMARIES])


@lru_cache(maxsize=_KEPT_KEYS)
def _key_values(folder: Path, _stamp: Stamp) -> dict[str, Any]:
    """Return the values displayed in the run list, as defined on the run's page."""
    read_index(folder)  # cached for the run's page, which is probably opened next
    summary = read_summary(folder)
    return {
        "estimator": ALL_TURNS,
        "voice_to_voice": summary.latencies["voice_to_voice"].as_json(),
        "vocal_sounds": [
            {"title": TITLES_OF_A_TURN[name], "p50": each.measured["p50"].value, "n": each.n}
            for name, each in summary.vocal_sounds.items()
            if each.n
        ],
        "main_scores": [each.as_json() for each in summary.main_scores],
        "unread_scores": summary.table.unread,
    }


async def _keep_note(request: web.Request) -> web.Response:
    note = noted(await request.read())

    def keep() -> dict[str, Any]:
        folder = request.app[LIBRARY].find(request.match_info["run"], "run")
        keep_note(folder.path, note)
        return folder_facts(folder)

    return await answer(keep)


# -- Facts -----------------------------------------------------------------------------------------


def folder_facts(folder: ListedFolder) -> dict[str, Any]:
    """Return the row for a folder in the run list, with the error if the folder cannot be read."""
    row: dict[str, Any] = {
        "id": folder.id,
        "name": folder.name,
        "kind": folder.kind,
        "campaign": folder.campaign,
        "endpoint": None,
        "model": None,
        "data": None,
        "licence": "",
        "conditions": [],
        "note": "",
        "created": None,
        "ended": None,
        "state": None,
        "finished": False,
        "turns": None,
        "planned": None,
        "failed": None,
        "schema_ok": True,
        "problem": None,
    }
    try:
        match folder.kind:
            case "run":
                with RunReader.open(folder.path) as run:
                    row |= _run_facts(run)
                with suppress(StoreError):  # the run's page reports damaged reviews
                    row["note"] = read_note(folder.path)
            case "campaign":
                row |= _campaign_facts(read_campaign_file(folder.path))
            case "duplex":
                row |= _campaign_facts(DUPLEX_CAMPAIGN.read(folder.path))
    except SchemaVersionError as error:
        row |= {"schema_ok": False, "problem": str(error)}
    except (StoreError, OSError) as error:
        row["problem"] = str(error)
    return row


def run_progress(folder: Path, latest: int) -> dict[str, Any]:
    """Return a run's progress and its most recent turns, newest first.

    Raises:
        StoreError: The run cannot be read.
    """
    with RunReader.open(folder) as run:
        facts = _run_facts(run)
        turns = list(run.turns(latest=latest))
    return {
        **{name: facts[name] for name in ("state", "turns", "planned", "failed")},
        "latest": [
            {
                "turn_id": turn.turn_id,
                "failure": None if turn.failure is None else turn.failure.kind.value,
                "voice_to_voice_ms": milliseconds(turn.timing.voice_to_voice.ns) if turn.captured else None,
            }
            for turn in reversed(turns)
        ],
    }


def _run_facts(run: RunReader) -> dict[str, Any]:
    endpoint = part_of(run.manifest, "endpoint")
    planned = run.manifest.get("turns")
    # The database of a killed run still contains the state "running".
    died = run.state == "running" and not is_being_written(run.path)
    return {
        "endpoint": text_of(endpoint, "name"),
        "model": model_of(run),
        "data": text_of(part_of(run.manifest, "data"), "name"),
        "licence": licence_of(run.manifest),
        "conditions": conditions_of(run.manifest).in_words,
        "created": run.started_at,
        "ended": run.ended_at,
        "state": "interrupted" if died else run.state,
        "finished": run.ended,
        "turns": len(run),
        "planned": planned if isinstance(planned, int) and planned else None,  # a conversation plans 0
        "failed": run.failed_turns,
    }


def _campaign_facts(facts: dict[str, Any]) -> dict[str, Any]:
    complete = facts.get("complete") is True
    return {
        "endpoint": text_of(facts, "endpoint"),
        "created": text_of(facts, "created"),
        "state": "finished" if complete else "incomplete",
        "finished": complete,
    }


# -- Progress --------------------------------------------------------------------------------------


async def _stop(app: web.Application) -> None:
    app[_STOPPING].set()
    app[_SUMMARIES].shutdown(wait=False, cancel_futures=True)


async def _progress(request: web.Request) -> web.StreamResponse:
    """Send server-sent events (HTML standard, section 9.2) about a run in progress.

    The events are ``progress`` for every change, ``problem`` if the run becomes unreadable, and ``end``,
    after which the page must close the stream instead of reconnecting.
    """
    library, run_id = request.app[LIBRARY], request.match_info["run"]
    state = await asyncio.to_thread(_read, library, run_id)  # raises if the run is unknown
    stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await stream.prepare(request)
    with suppress(ConnectionError):  # the page was closed
        await _follow(stream, library, run_id, state, request.app[_STOPPING])
    return stream


async def _follow(
    stream: web.StreamResponse, library: Library, run_id: str, state: dict[str, Any], stopping: asyncio.Event
) -> None:
    """Send events until the run has ended or the studio stops."""
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
