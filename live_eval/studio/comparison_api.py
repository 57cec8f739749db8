"""Two runs compared, as ``live-eval compare --json`` prints them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from aiohttp import web

from live_eval.analysis.comparison.prompts import prompt_sensitivity
from live_eval.analysis.comparison.runs import compare_runs
from live_eval.analysis.comparison.series import read_runs
from live_eval.errors import UsageError
from live_eval.studio.answers import answer
from live_eval.studio.library import Library
from live_eval.studio.shared import LIBRARY
from live_eval.studio.turn_index import Stamp, stamp_of

__all__ = ["add_routes"]


def add_routes(app: web.Application) -> None:
    """Serve comparisons."""
    app.router.add_get("/api/compare", _compare)


async def _compare(request: web.Request) -> web.Response:
    missing = [name for name in ("a", "b") if not request.query.get(name)]
    if missing:
        raise UsageError(f"{' and '.join(missing)}: expected the ids of two runs, a and b")
    common = request.query.get("common") == "1"
    return await answer(_compared, request.app[LIBRARY], request.query["a"], request.query["b"], common)


def _compared(library: Library, first_id: str, other_id: str, common: bool) -> dict[str, Any]:
    first, other = (library.find(run_id, "run").path for run_id in (first_id, other_id))
    return _comparison(first, other, common, (stamp_of(first), stamp_of(other)))


@lru_cache(maxsize=8)
def _comparison(first: Path, other: Path, common: bool, _stamps: tuple[Stamp, Stamp]) -> dict[str, Any]:
    runs = read_runs([first, other])
    prompts = prompt_sensitivity(runs)
    return {
        **compare_runs(runs, common=common).as_json(),
        "prompt_sensitivity": None if prompts is None else prompts.as_json(),
    }
