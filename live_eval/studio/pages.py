"""The pages of ``report``, ``leaderboard``, ``latency`` and ``duplex``, made by these commands' own code.

A page in a folder may come from somebody else: only what was made in this process is shown. The pages allow
their own script alone, and none of them can send a request. Nothing is written into the folders: the page of
a duplex campaign and its sound are made in a folder of the studio's own, which is deleted when it ends.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from aiohttp import web

from live_eval.campaigns.duplex.summary import duplex_summary, read_duplex
from live_eval.campaigns.latency.summary import campaign_summary, read_campaign
from live_eval.errors import UsageError
from live_eval.report import write_report
from live_eval.report.duplex import write_duplex_page
from live_eval.report.files import CAMPAIGN_PAGE, DUPLEX_PAGE, RUN_PAGE, SOUNDS
from live_eval.report.latency import campaign_page
from live_eval.report.leaderboard import build_board, render
from live_eval.studio.answers import NotFoundError
from live_eval.studio.library import Library, ListedFolder
from live_eval.studio.shared import LIBRARY
from live_eval.studio.turn_index import Stamp, stamp_of

__all__ = ["add_routes"]

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "media-src 'self' blob:; connect-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""What no page may do. The policy within each page allows less: of scripts, its own by its hash."""
_PLACE = web.AppKey("pages", Path)
_MOST_RUNS = 20
_KEPT_PAGES = 4


def add_routes(app: web.Application) -> None:
    """Serve pages."""
    app.cleanup_ctx.append(_place)
    app.router.add_get("/pages/report.html", _report)
    app.router.add_get("/pages/leaderboard.html", _leaderboard)
    app.router.add_get(f"/pages/{{folder}}/{CAMPAIGN_PAGE}", _latency)
    app.router.add_get(f"/pages/{{folder}}/{DUPLEX_PAGE}", _duplex)
    app.router.add_get(f"/pages/{{folder}}/{{run}}/{RUN_PAGE}", _report_in_campaign)
    app.router.add_get(f"/pages/{{folder}}/{SOUNDS}/{{name}}", _sound)


async def _place(app: web.Application) -> AsyncIterator[None]:
    """Keep a folder for pages with files of their own."""
    folder = await asyncio.to_thread(
        tempfile.TemporaryDirectory, prefix="live-eval-studio-", ignore_cleanup_errors=True
    )
    app[_PLACE] = Path(folder.name)
    yield
    await asyncio.to_thread(folder.cleanup)


async def _report(request: web.Request) -> web.Response:
    return await _page(_reported, request.app[LIBRARY], _runs_in(request))


async def _leaderboard(request: web.Request) -> web.Response:
    return await _page(_ranked, request.app[LIBRARY], _runs_in(request))


async def _latency(request: web.Request) -> web.Response:
    return await _page(_campaign, request.app[LIBRARY], request.match_info["folder"])


async def _duplex(request: web.Request) -> web.Response:
    return await _page(
        _duplex_campaign, request.app[LIBRARY], request.app[_PLACE], request.match_info["folder"]
    )


async def _report_in_campaign(request: web.Request) -> web.Response:
    folder, name = request.match_info["folder"], request.match_info["run"]
    return await _page(_reported_in_campaign, request.app[LIBRARY], folder, name)


async def _sound(request: web.Request) -> web.FileResponse:
    folder, name = request.match_info["folder"], request.match_info["name"]
    file = await asyncio.to_thread(_sound_file, request.app[LIBRARY], request.app[_PLACE], folder, name)
    return web.FileResponse(file, headers={"Content-Type": "audio/flac"})


def _runs_in(request: web.Request) -> tuple[str, ...]:
    """Return the ids of the runs that a request names.

    Raises:
        UsageError: It names none, or too many.
    """
    named = tuple(dict.fromkeys(request.query.getall("run", [])))
    if not 1 <= len(named) <= _MOST_RUNS:
        raise UsageError(f"run: expected the ids of 1 to {_MOST_RUNS} runs, found {len(named)}")
    return named


async def _page(make: Callable[..., str], *arguments: Any) -> web.Response:
    """Return a page that a function makes off the event loop."""
    text = await asyncio.to_thread(make, *arguments)
    return web.Response(text=text, content_type="text/html", headers={"Content-Security-Policy": _POLICY})


def _reported(library: Library, run_ids: tuple[str, ...]) -> str:
    paths = tuple(library.find(run_id, "run").path for run_id in run_ids)
    return _report_of(paths, tuple(map(stamp_of, paths)))


def _ranked(library: Library, run_ids: tuple[str, ...]) -> str:
    paths = tuple(library.find(run_id, "run").path for run_id in run_ids)
    return _board_of(paths, tuple(map(stamp_of, paths)))


def _campaign(library: Library, folder_id: str) -> str:
    folder = library.find(folder_id, "campaign")
    return _latency_of(folder.path, _stamps_in(library, folder))


def _duplex_campaign(library: Library, place: Path, folder_id: str) -> str:
    folder = library.find(folder_id, "duplex")
    return _duplex_of(folder.path, place / folder.id, _stamps_in(library, folder))


def _reported_in_campaign(library: Library, folder_id: str, name: str) -> str:
    folder = library.find(folder_id, "campaign", "duplex")
    for run in library.runs_of(folder):
        if run.path.name == name:
            return _report_of((run.path,), (stamp_of(run.path),))
    raise NotFoundError(f"{folder.path}: has no run {name[:100]!r}")


def _sound_file(library: Library, place: Path, folder_id: str, name: str) -> Path:
    folder = library.find(folder_id, "duplex")
    there = {file.name: file for file in (place / folder.id / SOUNDS).glob("*.flac")}
    if name not in there:
        raise NotFoundError(f"{folder.path}: has no sound {name[:100]!r}; open its page again")
    return there[name]


def _stamps_in(library: Library, folder: ListedFolder) -> tuple[Stamp, ...]:
    return tuple(stamp_of(run.path) for run in library.runs_of(folder))


@lru_cache(maxsize=_KEPT_PAGES)
def _report_of(paths: tuple[Path, ...], _stamps: tuple[Stamp, ...]) -> str:
    text = write_report(paths)
    assert text is not None
    return text


@lru_cache(maxsize=_KEPT_PAGES)
def _board_of(paths: tuple[Path, ...], _stamps: tuple[Stamp, ...]) -> str:
    return render(build_board(paths), "html")


@lru_cache(maxsize=_KEPT_PAGES)
def _latency_of(folder: Path, _stamps: tuple[Stamp, ...]) -> str:
    campaign = read_campaign(folder)
    return "".join(campaign_page(campaign, campaign_summary(campaign, keeps_words=False)))


@lru_cache(maxsize=_KEPT_PAGES)
def _duplex_of(folder: Path, place: Path, _stamps: tuple[Stamp, ...]) -> str:
    """Make the page in a folder of the studio, next to the sound that it plays."""
    campaign = read_duplex(folder)
    place.mkdir(mode=0o700, exist_ok=True)
    return write_duplex_page(campaign, duplex_summary(campaign), place).read_text("utf-8")
