"""The list of runs and campaigns, and the figures of each."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from aiohttp import web

from live_eval.analysis.summary.run import summarise
from live_eval.analysis.task_levels import relate_levels
from live_eval.campaigns.duplex.summary import duplex_summary, read_duplex
from live_eval.campaigns.latency.summary import campaign_summary, read_campaign
from live_eval.recording import RunReader, ScoreReader
from live_eval.studio.answers import answer
from live_eval.studio.library import Library
from live_eval.studio.run_facts import folder_facts
from live_eval.studio.shared import LIBRARY
from live_eval.studio.turn_index import Stamp, stamp_of

__all__ = ["add_routes"]

_KEPT = 32


def add_routes(app: web.Application) -> None:
    """Serve the list of runs, and their figures."""
    app.router.add_get("/api/runs", _runs)
    app.router.add_get("/api/runs/{run}", _run)
    app.router.add_get("/api/runs/{run}/facts", _facts)


async def _runs(request: web.Request) -> web.Response:
    return await answer(_listing, request.app[LIBRARY])


async def _run(request: web.Request) -> web.Response:
    return await answer(_figures, request.app[LIBRARY], request.match_info["run"])


async def _facts(request: web.Request) -> web.Response:
    return await answer(_folder_facts, request.app[LIBRARY], request.match_info["run"])


def _folder_facts(library: Library, run_id: str) -> dict[str, Any]:
    return folder_facts(library.find(run_id))


def _listing(library: Library) -> list[dict[str, Any]]:
    return [folder_facts(folder) for folder in library.folders()]


def _figures(library: Library, run_id: str) -> dict[str, Any]:
    """Return a folder's row of the list, its manifest, and its figures as its own command prints them."""
    folder = library.find(run_id)
    facts = folder_facts(folder)
    if folder.kind == "run":
        with RunReader.open(folder.path) as run:
            manifest = run.manifest
        return {**_summary(folder.path, stamp_of(folder.path)), "folder": facts, "manifest": manifest}
    runs = [folder_facts(each) for each in library.runs_of(folder)]
    if folder.kind == "campaign":
        figures = campaign_summary(read_campaign(folder.path), words=False)  # recognising words takes long
    else:
        figures = duplex_summary(read_duplex(folder.path))
    return {**figures, "folder": facts, "runs": runs}


@lru_cache(maxsize=_KEPT)
def _summary(folder: Path, _stamp: Stamp) -> dict[str, Any]:
    """Return what ``live-eval show --json`` prints."""
    with RunReader.open(folder) as run, ScoreReader.open(folder) as scores:
        summary = summarise(run, scores)
    return {**summary.as_json(), "levels": relate_levels(summary).as_json()}
