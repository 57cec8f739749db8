"""Decode bytes as requests to a studio that shows one run.

The first line is the method and the path with its query; the rest is the body. ``RUN1`` and ``RUN2`` stand
for the ids of the runs.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import yarl

from live_eval.studio import (
    audio_api,
    front_end,
    listen,
    runs_api,
    turns_api,
)
from live_eval.studio.library import Library
from tests.support.studio import port_of, studio
from tests.unit.conftest import write_run

__all__ = ["ask_studio", "studio_seeds"]

_PARTS = tuple(part.add_routes for part in (front_end, runs_api, turns_api, audio_api, listen))
"""Requests that complete on their own, start no conversation and build no report."""
_TIMEOUT = aiohttp.ClientTimeout(total=20)


class _Studio:
    """A studio in this process with an empty folder."""

    def __init__(self) -> None:
        logging.getLogger("live_eval").setLevel(logging.CRITICAL)
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        self.folder = Path(tempfile.mkdtemp(prefix="live-eval-fuzz-studio-"))
        self.runs = [write_run(self.folder / "first"), self.folder / "second"]
        shutil.copytree(self.runs[0], self.runs[1])
        self.ids = [folder.id for run in self.runs for folder in Library([run]).folders()]
        self._browser = self._loop.run_until_complete(
            self._stack.enter_async_context(studio(*self.runs, parts=_PARTS))
        )

    def ask(self, method: str, target: str, body: bytes) -> None:
        self._loop.run_until_complete(self._ask(method, target, body))

    async def _ask(self, method: str, target: str, body: bytes) -> None:
        port = port_of(self._browser)
        origin = {"Origin": f"http://127.0.0.1:{port}"}
        path, _, query = target.partition("?")
        try:  # built from parts, because a path such as //host/ names another host
            url = yarl.URL.build(
                scheme="http", host="127.0.0.1", port=port, path=path, query_string=query, encoded=True
            )
            request = self._browser.request(
                method, url, data=body, headers=origin, timeout=_TIMEOUT, allow_redirects=False
            )
        except (ValueError, TypeError):
            return
        try:
            async with request as answer:
                said = await answer.read()
                assert answer.status < 500, f"{method} {target}: {answer.status} {said[:500]!r}"
        except (ValueError, aiohttp.InvalidURL, aiohttp.ClientResponseError):
            return  # the client refuses to send it


@functools.cache
def _studio() -> _Studio:
    return _Studio()


def ask_studio(data: bytes) -> None:
    """Send a request.

    Raises:
        AssertionError: The studio answers with a status of 500 or more.
        TimeoutError: It does not answer within 20 s.
    """
    line, _, body = data.partition(b"\n")
    method, _, target = line.decode("latin-1").partition(" ")
    if method not in ("GET", "POST", "PUT", "DELETE", "HEAD") or not target.startswith("/"):
        return
    for name, run_id in zip(("RUN1", "RUN2"), _studio().ids, strict=True):
        target, body = target.replace(name, run_id), body.replace(name.encode(), run_id.encode())
    _studio().ask(method, target, body)


def studio_seeds() -> Iterator[bytes]:
    """Yield requests that the pages of the studio make."""
    turn = "/api/runs/RUN1/turns/id_0%2Ftarget"
    for path in (
        "/",
        "/static/app.js",
        "/api/runs",
        "/api/runs/RUN1",
        "/api/runs/RUN1/facts",
        "/api/runs/RUN1/turns?offset=0&limit=10&sort=voice_to_voice&descending=1",
        "/api/runs/RUN1/turns?filter=family&outcome=failed&flagged=1&variant=target&task=conversation",
        "/api/runs/RUN1/turns?where=voice_to_voice+%3E+1200+and+not+(cue+==+sigh+or+label+==+%22a+b%22)",
        "/api/runs/RUN1/turns.csv?where=reply+contains+bus",
        "/api/runs/RUN1/key",
        "/api/runs/RUN1/cues",
        "/api/runs/RUN1/paper",
        "/api/glossary",
        turn,
        f"{turn}/around?sort=turn",
        f"{turn}/review",
        f"{turn}/clip.wav?side=user&start_s=0&end_s=1",
        f"{turn}/events?offset=0&limit=5",
        f"{turn}/waveform?bins=100&start_s=0&end_s=1",
        f"{turn}/spectrogram?side=reply&columns=50&rows=20&start_s=0&end_s=1.5",
        f"{turn}/audio/reply?start_s=0&end_s=1",
        "/api/compare?run=RUN1&run=RUN2&common=1",
        "/api/compare/turns?run=RUN1&run=RUN2&metric=first_byte&order=higher&where=cue+==+sigh",
        "/api/listen",
        "/api/listen/some-test/results",
        "/api/listen/sounds/0123456789abcdef0123456789abcdef",
    ):
        yield f"GET {path}\n".encode()
    yield f'POST {turn}/review\n{{"labels": ["cold"], "note": "late"}}'.encode()
    yield b'POST /api/runs/RUN1/note\n{"note": "loud"}'
    yield b'POST /api/listen\n{"kind": "pairs", "runs": ["RUN1", "RUN2"], "limit": 3, "seed": 1}'
    yield b'POST /api/listen/some-test/next\n{"listener": "ann"}'
    yield b'POST /api/listen/votes\n{"trial": "a", "choice": "left", "ratings": {}, "played": [1]}'
