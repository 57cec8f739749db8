"""The list of runs and campaigns, and what each is."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from live_eval.errors import SchemaVersionError, StoreError
from live_eval.recording import RunReader, part_of, text_of
from live_eval.studio.answers import answer
from live_eval.studio.library import Library, ListedFolder
from live_eval.studio.shared import LIBRARY

__all__ = ["add_routes"]


def add_routes(app: web.Application) -> None:
    """Serve the list of runs."""
    app.router.add_get("/api/runs", _runs)


async def _runs(request: web.Request) -> web.Response:
    return await answer(_listing, request.app[LIBRARY])


def _listing(library: Library) -> list[dict[str, Any]]:
    return [_row(folder) for folder in library.folders()]


def _row(folder: ListedFolder) -> dict[str, Any]:
    """Return what a folder holds; of one that cannot be read, the problem."""
    row: dict[str, Any] = {
        "id": folder.id,
        "name": folder.path.name,
        "kind": folder.kind,
        "campaign": folder.campaign,
        "endpoint": None,
        "model": None,
        "data": None,
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
        row |= _run_facts(folder)
    except SchemaVersionError as error:
        row |= {"schema_ok": False, "problem": str(error)}
    except (StoreError, OSError) as error:
        row["problem"] = str(error)
    return row


def _run_facts(folder: ListedFolder) -> dict[str, Any]:
    if folder.kind != "run":
        return {}
    with RunReader.open(folder.path) as run:
        endpoint = part_of(run.manifest, "endpoint")
        planned = run.manifest.get("turns")
        return {
            "endpoint": text_of(endpoint, "name"),
            "model": text_of(endpoint, "model"),
            "data": text_of(part_of(run.manifest, "data"), "name"),
            "created": run.started_at,
            "ended": run.ended_at,
            "state": run.state,
            "finished": run.ended,
            "turns": len(run),
            "planned": planned if isinstance(planned, int) else None,
            "failed": run.failed_turns,
        }
