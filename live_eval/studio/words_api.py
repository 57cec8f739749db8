"""Serve word timestamps of a turn, which the offline recogniser computes on request."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from aiohttp import web
from numpy.typing import NDArray

from live_eval.audio import Audio, int16_to_float
from live_eval.errors import UsageError
from live_eval.recording import RunReader
from live_eval.speech.recognition import Recogniser, available
from live_eval.studio.answers import NotFoundError, answer
from live_eval.studio.lookups import open_turn
from live_eval.studio.transcript import transcript_of
from live_eval.studio.turn_audio import SIDES, excerpt
from live_eval.studio.turn_index import Stamp, stamp_of

__all__ = ["add_routes"]

_AROUND_S = 0.2
"""The audio before and after a line that is included for recognition."""
_KEPT_TURNS = 64


def add_routes(app: web.Application) -> None:
    """Add the routes for word timestamps."""
    app.router.add_get("/api/runs/{run}/turns/{turn}/words", _words)


async def _words(request: web.Request) -> web.Response:
    def words() -> dict[str, Any]:
        problem = available()
        if problem is not None:
            raise UsageError(problem)
        with open_turn(request) as (run, turn_id):
            lines = _recognised(run.path, turn_id, stamp_of(run.path))
        return {"recogniser": _recogniser().name, "lines": lines}

    return await answer(words)


@lru_cache(maxsize=_KEPT_TURNS)
def _recognised(folder: Path, turn_id: str, _stamp: Stamp) -> list[list[dict[str, Any]]]:
    """Return the words of each transcript line with timestamps."""
    with RunReader.open(folder) as run:
        lines, _ = transcript_of(run, run.turn(turn_id))
        both = run.both_sides(turn_id)
    if both is None:
        raise NotFoundError(f"turn {turn_id[:100]!r} has no audio")
    return [_words_of(line, *both) for line in lines]


def _words_of(line: Mapping[str, Any], both: NDArray[np.int16], rate_hz: int) -> list[dict[str, Any]]:
    """Recognise the words of a line, with timestamps inside its audio."""
    sounds = line["sounds"]
    if not sounds:
        return []
    first_s: float = sounds[0][0]
    last_s: float = sounds[-1][1]
    start_s = max(0.0, first_s - _AROUND_S)
    pcm = excerpt(both, rate_hz, start_s, last_s + _AROUND_S)[:, SIDES[line["side"]]]

    def within(at_ns: int) -> float:
        return round(min(max(start_s + at_ns / 1e9, first_s), last_s), 3)

    return [
        {"text": word.text.strip(), "start_s": within(word.start_ns), "end_s": within(word.end_ns)}
        for word in _recogniser().transcribe(Audio(int16_to_float(pcm), rate_hz)).words
    ]


@lru_cache(maxsize=1)
def _recogniser() -> Recogniser:
    return Recogniser(beam_size=1)
