"""Serve comparisons of runs: their values, and their turns side by side."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from aiohttp import web

from live_eval.analysis.comparison.headline import headline
from live_eval.analysis.comparison.prompts import prompt_sensitivity
from live_eval.analysis.comparison.run_comparison import compare_runs
from live_eval.analysis.comparison.run_settings import settings_json, settings_that_differ
from live_eval.analysis.comparison.series import read_runs
from live_eval.analysis.licences import licences_of
from live_eval.errors import UsageError
from live_eval.studio.answers import answer
from live_eval.studio.compared_turns import CaseQuery, compared_turns
from live_eval.studio.library import LIBRARY
from live_eval.studio.turn_index import Stamp, read_index, stamp_of
from live_eval.studio.turns_api import query_of

__all__ = ["add_routes"]

_MOST_RUNS = 6
_REMEDY = '"Compare common cases"'  # the button in compare.js


def add_routes(app: web.Application) -> None:
    """Add the routes for comparisons."""
    app.router.add_get("/api/compare", _compare)
    app.router.add_get("/api/compare/turns", _turns)


async def _compare(request: web.Request) -> web.Response:
    common = request.query.get("common") == "1"

    def compared() -> dict[str, Any]:
        paths = _paths(request)
        return _comparison(paths, common, tuple(map(stamp_of, paths)))

    return await answer(compared)


async def _turns(request: web.Request) -> web.Response:
    given = {name: request.query[name] for name in ("metric", "order") if name in request.query}
    query = CaseQuery(turns=query_of(request), **given)
    return await answer(lambda: compared_turns([read_index(path) for path in _paths(request)], query))


def _paths(request: web.Request) -> tuple[Path, ...]:
    """Return the folders of the requested runs."""
    ids = tuple(dict.fromkeys(request.query.getall("run", [])))
    if not 2 <= len(ids) <= _MOST_RUNS:
        raise UsageError(f"run: expected the IDs of 2 to {_MOST_RUNS} different runs, got {len(ids)}")
    return tuple(request.app[LIBRARY].find(run_id, "run").path for run_id in ids)


@lru_cache(maxsize=8)
def _comparison(paths: tuple[Path, ...], common: bool, _stamps: tuple[Stamp, ...]) -> dict[str, Any]:
    """Return a comparison's values, or why the runs cannot be compared and which settings differ.

    A refusal is an answer, not an HTTP error, which browsers would print to the console.
    """
    runs = read_runs(paths)
    try:
        compared = compare_runs(runs, common=common, remedy=_REMEDY)
    except UsageError as error:
        first, *others = runs
        settings = [settings_that_differ(first, other) for other in others]
        return {
            "refused": str(error),
            "licences": licences_of(run.manifest for run in runs),
            "first": first.name,
            "comparisons": [
                {"other": other.name, "differs": settings_json(differing)}
                for other, differing in zip(others, settings, strict=True)
            ],
        }
    prompts = prompt_sensitivity(runs)
    return {
        **compared.as_json(),
        "tests": compared.tests_in_words,
        "headlines": [headline(compared.first, each) for each in compared.comparisons],
        "prompt_sensitivity": None if prompts is None else prompts.as_json(),
    }
