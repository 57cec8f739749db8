"""Render and serve the pages of ``report``, ``leaderboard``, ``latency`` and ``duplex``.

Pages stored in a run folder may be untrusted, so they are rendered again instead. A page runs only its own
script and cannot send requests. Nothing is written to run folders; a report, and a duplex page and its audio,
are written to a temporary folder.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from functools import lru_cache, partial
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TypeVar

from aiohttp import web

from live_eval.campaigns.duplex.summary import duplex_summary, read_duplex
from live_eval.campaigns.folders import FolderKind
from live_eval.campaigns.latency.campaign_file import read_campaign
from live_eval.campaigns.latency.summary import campaign_summary
from live_eval.errors import LiveEvalError, UsageError
from live_eval.redaction import SECRETS
from live_eval.report import write_report
from live_eval.report.duplex import write_duplex_page
from live_eval.report.file_names import CAMPAIGN_PAGE, DUPLEX_PAGE, RUN_PAGE, SOUNDS
from live_eval.report.latency import campaign_page
from live_eval.report.leaderboard import build_board, render
from live_eval.studio.answers import NotFoundError
from live_eval.studio.library import LIBRARY, ListedFolder
from live_eval.studio.turn_index import Stamp, stamp_of

__all__ = ["add_routes"]

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "media-src 'self' blob:; connect-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""The policy for all pages; the policy in each page also restricts scripts to its own, by hash."""
_FOLDER = web.AppKey("pages", Path)
_Page = TypeVar("_Page", str, Path)
_MOST_RUNS = 20
_KEPT_PAGES = 4


def add_routes(app: web.Application) -> None:
    """Add the routes for pages."""
    app.cleanup_ctx.append(_place)
    app.router.add_get("/pages/report.html", _report)
    app.router.add_get("/pages/leaderboard.html", _leaderboard)
    app.router.add_get(f"/pages/{{folder}}/{CAMPAIGN_PAGE}", _latency)
    app.router.add_get(f"/pages/{{folder}}/{DUPLEX_PAGE}", _duplex)
    app.router.add_get(f"/pages/{{folder}}/{{run}}/{RUN_PAGE}", _report_in_campaign)
    app.router.add_get(f"/pages/{{folder}}/{SOUNDS}/{{name}}", _audio)


async def _place(app: web.Application) -> AsyncIterator[None]:
    """Provide a temporary folder for pages with audio files."""
    folder = await asyncio.to_thread(
        tempfile.TemporaryDirectory, prefix="live-eval-studio-", ignore_cleanup_errors=True
    )
    app[_FOLDER] = Path(folder.name)
    yield
    await asyncio.to_thread(folder.cleanup)


async def _report(request: web.Request) -> web.StreamResponse:
    short = request.query.get("short") == "1"
    return await _page(
        request, partial(_of_runs, request, partial(_report_of, request.app[_FOLDER], short=short))
    )


async def _leaderboard(request: web.Request) -> web.StreamResponse:
    return await _page(request, partial(_of_runs, request, _board_of))


def _of_runs(
    request: web.Request, render: Callable[[tuple[ListedFolder, ...], tuple[Stamp, ...]], _Page]
) -> _Page:
    """Render a page on the runs in the query."""
    run_ids = tuple(dict.fromkeys(request.query.getall("run", [])))
    if not 1 <= len(run_ids) <= _MOST_RUNS:
        raise UsageError(f"run: expected the IDs of 1 to {_MOST_RUNS} runs, got {len(run_ids)}")
    runs = tuple(request.app[LIBRARY].find(run_id, "run") for run_id in run_ids)
    return render(runs, tuple(stamp_of(run.path) for run in runs))


async def _latency(request: web.Request) -> web.StreamResponse:
    def latency() -> str:
        folder = _folder(request, "campaign")
        return _latency_of(folder.path, _stamps_in(request, folder))

    return await _page(request, latency)


async def _duplex(request: web.Request) -> web.StreamResponse:
    def duplex() -> str:
        folder = _folder(request, "duplex")
        return _duplex_of(folder.path, request.app[_FOLDER] / folder.id, _stamps_in(request, folder))

    return await _page(request, duplex)


async def _report_in_campaign(request: web.Request) -> web.StreamResponse:
    def report() -> Path:
        folder, name = _folder(request, "campaign", "duplex"), request.match_info["run"]
        for run in request.app[LIBRARY].runs_of(folder):
            if run.path.name == name:
                return _report_of(request.app[_FOLDER], (run,), (stamp_of(run.path),))
        raise NotFoundError(f"{folder.path} has no run {name[:100]!r}")

    return await _page(request, report)


async def _audio(request: web.Request) -> web.FileResponse:
    def audio() -> Path:
        folder, name = _folder(request, "duplex"), request.match_info["name"]
        files = {file.name: file for file in (request.app[_FOLDER] / folder.id / SOUNDS).glob("*.flac")}
        if name not in files:
            raise NotFoundError(f"{folder.path} has no audio file {name[:100]!r}; reload its page")
        return files[name]

    return web.FileResponse(await asyncio.to_thread(audio), headers={"Content-Type": "audio/flac"})


async def _page(request: web.Request, make: Callable[[], str | Path]) -> web.StreamResponse:
    """Respond with a page; in a frame, also with the reason for an error, which browsers show as a blank."""
    headers = {"Content-Security-Policy": _POLICY}
    try:
        page = await asyncio.to_thread(make)
    except (LiveEvalError, OSError) as error:
        if request.query.get("framed") != "1":
            raise
        page = f"<!DOCTYPE html><title>No page</title><p data-problem>{escape(SECRETS.text(str(error)))}</p>"
    if isinstance(page, Path):
        return web.FileResponse(page, headers={**headers, "Content-Type": "text/html; charset=utf-8"})
    return web.Response(text=page, content_type="text/html", headers=headers)


def _folder(request: web.Request, *kinds: FolderKind) -> ListedFolder:
    return request.app[LIBRARY].find(request.match_info["folder"], *kinds)


def _stamps_in(request: web.Request, folder: ListedFolder) -> tuple[Stamp, ...]:
    return tuple(stamp_of(run.path) for run in request.app[LIBRARY].runs_of(folder))


@lru_cache(maxsize=_KEPT_PAGES)
def _report_of(
    place: Path, runs: tuple[ListedFolder, ...], _stamps: tuple[Stamp, ...], *, short: bool = False
) -> Path:
    """Write a report into the studio's temporary folder, since one of 30,000 turns has 70 MB.

    A later report on the same runs replaces the file.
    """
    addresses = () if short else [f"/api/runs/{run.id}" for run in runs]  # a short page is passed on
    name = sha256(" ".join(run.id for run in runs).encode()).hexdigest()
    page = place / f"{name}{'-short' if short else ''}.html"
    write_report([run.path for run in runs], output=page, short=short, streams=addresses)
    return page


@lru_cache(maxsize=_KEPT_PAGES)
def _board_of(runs: tuple[ListedFolder, ...], _stamps: tuple[Stamp, ...]) -> str:
    return render(build_board([run.path for run in runs]), "html")


@lru_cache(maxsize=_KEPT_PAGES)
def _latency_of(folder: Path, _stamps: tuple[Stamp, ...]) -> str:
    return "".join(campaign_page(campaign_summary(read_campaign(folder), keeps_words=False)))


@lru_cache(maxsize=_KEPT_PAGES)
def _duplex_of(folder: Path, place: Path, _stamps: tuple[Stamp, ...]) -> str:
    """Render a duplex page in the studio's temporary folder, next to its audio files."""
    place.mkdir(mode=0o700, exist_ok=True)
    return write_duplex_page(duplex_summary(read_duplex(folder)), place).read_text("utf-8")
