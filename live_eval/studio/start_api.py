"""Serve requests to start, follow, stop and resume runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
from aiohttp import web

from live_eval.errors import UsageError
from live_eval.impair import PARAMETERS
from live_eval.recording import is_being_scored, is_being_written
from live_eval.registry import default_judges, installed_judges
from live_eval.run.prompts import PROMPTS
from live_eval.run.run_file import ALL_TASKS, DataTable, EndpointTable, TaskTable, TurnsTable
from live_eval.scoring.judge_runner import JudgeOptions, unable_judges
from live_eval.studio.answers import BusyError, answer
from live_eval.studio.library import LIBRARY, Library, ListedFolder
from live_eval.studio.runs_api import folder_facts
from live_eval.studio.starting.run_command import arguments_of
from live_eval.studio.starting.started_runs import StartedRun, StartedRuns
from live_eval.studio.talking.talk_settings import TALK, TalkSettings, endpoint_choices
from live_eval.types import RUN_TASKS

__all__ = ["IMPAIRMENTS", "add_routes"]

IMPAIRMENTS = (
    "noise=10dB",
    "noise=10dB,noise_type=babble",
    "reverb=600ms",
    "band=telephone",
    "delay=100ms,jitter=20ms",
    "loss=5%,burst=3",
)
"""Impairments that a page suggests."""

_TIME = "%Y-%m-%dT%H-%M-%SZ"
_STARTED = web.AppKey("started", StartedRuns)


def add_routes(app: web.Application) -> None:
    """Add the routes for starting runs."""
    app[_STARTED] = StartedRuns()
    app.on_shutdown.append(_close)
    app.router.add_get("/api/start", _choices)
    app.router.add_post("/api/start", _start)
    app.router.add_post("/api/start/command", _command)
    app.router.add_get("/api/started", _list)
    app.router.add_post("/api/started/{run}/stop", _stop)
    app.router.add_post("/api/started/{run}/resume", _resume)


async def _close(app: web.Application) -> None:
    await app[_STARTED].close()


async def _choices(request: web.Request) -> web.Response:
    """Return the values that a page may choose from."""
    library, addresses = request.app[LIBRARY], request.app[TALK].addresses

    def choices() -> dict[str, Any]:
        judges = installed_judges()
        missing = unable_judges(judges, JudgeOptions())
        usual = default_judges()
        return {
            "endpoints": endpoint_choices(addresses, sessions=False),
            "usual": {
                "endpoint": EndpointTable().name,
                "data": DataTable().path,
                "task": TaskTable().name,
                "prompt": TaskTable().prompt,
                "concurrency": TurnsTable().concurrency,
                "repeat": TurnsTable().repeat,
            },
            "data": library.data_choices,
            "tasks": [*(task.value for task in RUN_TASKS), ALL_TASKS],
            "prompts": PROMPTS,
            "impairments": IMPAIRMENTS,
            "impairment_names": list(PARAMETERS),
            "judges": [
                {
                    "name": spec.name,
                    "title": spec.title,
                    "missing": missing.get(spec.name),
                    "usual": spec.name in usual,
                }
                for spec in judges
            ],
        }

    return await answer(choices)


async def _command(request: web.Request) -> web.Response:
    """Return the command equivalent to a page's settings, and the time in its folder's name; run nothing."""
    given = await _body(request)
    library, settings = request.app[LIBRARY], request.app[TALK]

    def command() -> dict[str, Any]:
        began = datetime.now(UTC).strftime(_TIME)
        run = StartedRun(*_prepared({**given, "began": began}, library, settings))
        return {"command": run.command, "began": began}

    return await answer(command)


async def _start(request: web.Request) -> web.Response:
    """Start a run; respond with ``busy`` (409) while another one is in progress.

    With ``began`` from `_command`, it is the displayed command that runs.
    """
    given = await _body(request)
    library = request.app[LIBRARY]
    prepared = await asyncio.to_thread(_prepared, given, library, request.app[TALK])
    await asyncio.to_thread(_check_idle, library)
    return await answer(_row, request.app[_STARTED].start(*prepared))


async def _list(request: web.Request) -> web.Response:
    runs = request.app[_STARTED].listed()
    return await answer(lambda: [_row(run) for run in runs])


async def _stop(request: web.Request) -> web.Response:
    run = request.app[_STARTED].find(request.match_info["run"])
    run.stop()
    return await answer(_row, run)


async def _resume(request: web.Request) -> web.Response:
    started = request.app[_STARTED]
    run = started.find(request.match_info["run"])
    recorded = await asyncio.to_thread(run.folder.path.exists)
    await asyncio.to_thread(_check_idle, request.app[LIBRARY])
    started.resume(run, recorded=recorded)
    return await answer(_row, run)


def _prepared(
    given: Mapping[str, Any], library: Library, settings: TalkSettings
) -> tuple[ListedFolder, list[str]]:
    """Return a new run's folder and arguments."""
    tables = {name: table for name, table in given.items() if name != "began"}
    arguments = arguments_of(tables, library.data_choices, settings.address)
    folder = library.new_run(f"{_began(given)}-{arguments[1]}")
    return folder, [*arguments, f"--out={folder.path}"]


def _began(given: Mapping[str, Any]) -> str:
    """Return the time in a new run's name: as given, or the current time."""
    began = given.get("began", datetime.now(UTC).strftime(_TIME))
    try:
        return datetime.strptime(began, _TIME).replace(tzinfo=UTC).strftime(_TIME)
    except (TypeError, ValueError):
        raise UsageError(f"began: expected a time such as 2026-01-31T12-00-00Z, got {began!r:.40}") from None


def _check_idle(library: Library) -> None:
    """Raise a `BusyError` if any process is writing or scoring a run in the studio's folders."""
    for folder in library.folders():
        if folder.kind != "run":
            continue
        if is_being_written(folder.path):
            raise BusyError(f"{folder.name} is in progress, and a second run would disturb its timing")
        if is_being_scored(folder.path):
            raise BusyError(f"{folder.name} is being scored, which would disturb the timing of a run")


def _row(run: StartedRun) -> dict[str, Any]:
    """Return a started run as JSON values, with its row in the run list once its folder exists."""
    facts = folder_facts(run.folder) if run.folder.path.exists() else None
    return {
        "id": run.folder.id,
        "name": run.folder.path.name,
        "command": run.command,
        "running": run.running,
        "stopping": run.stopping,
        "status": run.status,
        "lines": list(run.lines),
        "run": facts,
    }


async def _body(request: web.Request) -> dict[str, Any]:
    try:
        given = orjson.loads(await request.read())
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise UsageError("expected a JSON object with tables of a run file")
    return given
