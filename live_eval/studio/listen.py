"""Serve listening tests in the browser: setup, trials, votes, results, export."""

from __future__ import annotations

import asyncio
import hashlib
import os
import unicodedata
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from aiohttp import web
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from live_eval.clock import Clock, SystemClock
from live_eval.errors import LiveEvalError, UsageError
from live_eval.recording import is_own_file
from live_eval.studio.answers import NotFoundError, answer, as_file
from live_eval.studio.library import LIBRARY, Library
from live_eval.studio.listening.listening_results import results_json, votes_csv
from live_eval.studio.listening.listening_test import ListeningKind, ReferenceKind, rating_scales
from live_eval.studio.listening.setup import plan_test
from live_eval.studio.listening.trial_desk import GivenTrial, Opinion, TrialDesk
from live_eval.studio.listening.votes import FOLDER, OWNER, Ballots, VoteFile
from live_eval.studio.security import browser_key, for_listeners, is_listener

__all__ = ["add_routes", "routes"]

_LONGEST_NAME = 60
_MOST_CASES = 10_000
_MOST_SEED = 2**53 - 1  # the largest integer that every JSON reader represents exactly
_STRICT = ConfigDict(extra="forbid")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewTest:
    __pydantic_config__ = _STRICT

    kind: ListeningKind
    runs: tuple[str, ...]
    limit: Annotated[int, Field(ge=0, le=_MOST_CASES)] = 20
    scales: tuple[str, ...] = ()
    reference: ReferenceKind = ReferenceKind.USER
    seed: Annotated[int, Field(ge=0, le=_MOST_SEED)] = 0


@dataclass(frozen=True, slots=True)
class _Listener:
    __pydantic_config__ = _STRICT

    listener: str


_NEW_TEST = TypeAdapter(_NewTest)
_OPINION = TypeAdapter(Opinion)
_LISTENER = TypeAdapter(_Listener)


def add_routes(app: web.Application) -> None:
    """Add the routes for listening tests."""
    routes(app, SystemClock())


def routes(app: web.Application, clock: Clock) -> None:
    """Add the routes for listening tests that use this clock."""
    ListeningApi(app[LIBRARY], clock).add_to(app)


class ListeningApi:
    """The request handlers of listening tests.

    Before a vote, no response reveals which run a reply is from: clips and trials have random names, and test
    files are named after their kind.
    """

    def __init__(self, library: Library, clock: Clock) -> None:
        self._library = library
        self._clock = clock
        self._desk = TrialDesk(clock, library.contains, recordings=library.recordings)

    def add_to(self, app: web.Application) -> None:
        """Add the routes."""
        add = app.router.add_route
        add("GET", "/api/listen", self._list)
        add("POST", "/api/listen", self._create)
        add("POST", "/api/listen/{test}/next", self._next)
        add("POST", "/api/listen/{test}/undo", self._undo)
        add("GET", "/api/listen/{test}/results", self._results)
        add("GET", "/api/listen/{test}/votes.csv", self._export)
        add("POST", "/api/listen/votes", self._vote)
        add("GET", "/api/listen/sounds/{sound:[0-9a-f]{32}}", self._sound)

    @for_listeners
    async def _list(self, request: web.Request) -> web.Response:
        def tests() -> list[dict[str, Any]]:
            rows = [_test_json(file) for file in self._files().values()]
            if not is_listener(request):
                return rows
            # hide the names of other listeners and the paths of unreadable files
            return [{**row, "listeners": []} for row in rows if row["problem"] is None]

        return await answer(lambda: {"tests": tests(), "scales": _scales_json()})

    async def _create(self, request: web.Request) -> web.Response:
        wanted = await _body(request, _NEW_TEST)

        def create() -> dict[str, Any]:
            runs = [self._library.find(run, "run").path for run in wanted.runs]
            if not runs:
                raise UsageError("expected a run, found none")
            folder = runs[0].parent / FOLDER
            test = plan_test(
                wanted.kind,
                runs,
                folder,
                limit=wanted.limit,
                scales=wanted.scales,
                reference=wanted.reference,
                recordings=self._library.recordings,
                seed=wanted.seed,
                wall_ns=self._clock.wall_ns(),
            )
            return _test_json(VoteFile.create(folder, test))

        return await answer(create)

    @for_listeners
    async def _next(self, request: web.Request) -> web.Response:
        listener = await _listener(request)
        key = _key(request)
        return await answer(lambda: self._trial(self._file(request), listener, key))

    @for_listeners
    async def _undo(self, request: web.Request) -> web.Response:
        listener = await _listener(request)
        key = _key(request)

        def undo() -> dict[str, Any]:
            file = self._file(request)
            self._desk.undo(file, listener, key)
            return self._trial(file, listener, key)

        return await answer(undo)

    @for_listeners
    async def _vote(self, request: web.Request) -> web.Response:
        opinion = await _body(request, _OPINION)

        def vote() -> dict[str, Any]:
            given = self._desk.given(opinion.trial)
            if given is None:
                raise NotFoundError("this trial is no longer open; request the next one")
            self._desk.vote(given, opinion)
            return self._trial(given.file, given.listener, given.key)

        return await answer(vote)

    @for_listeners
    async def _sound(self, request: web.Request) -> web.Response:
        clip = await asyncio.to_thread(self._desk.sound, request.match_info["sound"])
        if clip is None:
            raise NotFoundError("this audio is not part of an open trial; request the next one")
        return web.Response(body=clip.wav, content_type="audio/wav")

    async def _results(self, request: web.Request) -> web.Response:
        def results() -> dict[str, Any]:
            file = self._file(request)
            return results_json(file.read(), file.path.parent)

        return await answer(results)

    async def _export(self, request: web.Request) -> web.Response:
        def export() -> tuple[str, str]:
            file = self._file(request)
            ballots = file.read()
            name, run = file.path.stem, ""
            if ballots.test.kind is ListeningKind.RATING:
                names = [each.name for each in ballots.test.runs]
                run = request.query.get("run", names[0])
                if run not in names:
                    raise UsageError(f"run: expected {' or '.join(names)}, got {run[:60]!r}")
                name = f"{name}-{run}"
            return name, votes_csv(ballots, run)

        name, text = await asyncio.to_thread(export)
        return web.Response(text=text, content_type="text/csv", headers=as_file(f"{name}.csv"))

    def _trial(self, file: VoteFile, listener: str, key: str) -> dict[str, Any]:
        """Return a listener's progress and next trial as JSON values."""
        ballots, given = self._desk.next(file, listener, key)
        return {
            "listener": listener,
            "done": len(ballots.of(listener)),
            "total": ballots.test.trials,
            "kind": ballots.test.kind.value,
            "trial": None if given is None else _trial_json(ballots, given),
        }

    def _file(self, request: web.Request) -> VoteFile:
        name = request.match_info["test"]
        found = self._files().get(name)
        if found is None:
            raise NotFoundError(f"there is no listening test {name[:40]!r}; it may have been deleted")
        return found

    def _files(self) -> dict[str, VoteFile]:
        """Return the tests in the parent folders of the runs, by ID, the latest first."""
        places = {*self._library.roots, *(each.path.parent for each in self._library.folders())}
        paths = [
            path for place in places for path in (place / FOLDER).glob("*.jsonl") if is_own_file(place, path)
        ]
        paths.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
        return {_id_of(path): VoteFile(path) for path in paths}


def _id_of(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def _test_json(file: VoteFile) -> dict[str, Any]:
    """Return a test as JSON values without run names, or the error if it cannot be read."""
    row: dict[str, Any] = {
        "id": _id_of(file.path),
        "name": file.path.stem,
        "problem": None,
    }
    try:
        ballots = file.read()
    except LiveEvalError as error:
        return row | {"problem": str(error)}
    test = ballots.test
    return row | {
        "kind": test.kind.value,
        "created": test.created,
        "cases": len(test.cases),
        "trials": test.trials,
        "scales": list(test.scales),
        "listeners": [{"name": name, "votes": len(ballots.of(name))} for name in ballots.listeners],
    }


def _trial_json(ballots: Ballots, given: GivenTrial) -> dict[str, Any]:
    def sound(name: str | None) -> str | None:
        return None if name is None else f"/api/listen/sounds/{name}"

    scales = _scales_json()
    return {
        "id": given.name,
        "replies": [{"label": label, "sound": sound(name)} for label, name in given.replies.items()],
        "words": given.case.text,
        "cue": given.case.cue,
        "user": sound(given.named(given.case.user)),
        "reference": sound(given.named(given.case.reference)),
        "scales": [scale for scale in scales if scale["score"] in ballots.test.scales],
    }


def _scales_json() -> list[dict[str, Any]]:
    return [
        {"score": name, "title": output.title, **asdict(output.by_people)}
        for name, output in rating_scales().items()
        if output.by_people is not None
    ]


def _key(request: web.Request) -> str:
    """Return the key of the listener's browser, or `OWNER`."""
    if not is_listener(request):
        return OWNER
    key = browser_key(request)
    if key is None:
        raise UsageError("expected a cookie that identifies this browser: open the listeners' link again")
    return key


async def _listener(request: web.Request) -> str:
    """Return the listener's name in a request, with normalised white space."""
    given = (await _body(request, _LISTENER)).listener
    name = " ".join(unicodedata.normalize("NFC", given).split())
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise UsageError(f"listener: expected a name of 1 to {_LONGEST_NAME} characters, got {name[:80]!r}")
    return name


async def _body(request: web.Request, adapter: TypeAdapter[_T]) -> _T:
    try:
        return adapter.validate_json(await request.read())
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "body"
        raise UsageError(f"{place}: {first['msg']}") from None
