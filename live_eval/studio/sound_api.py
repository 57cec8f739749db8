"""The sound of a turn: to be played, in ranges, and to be drawn."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
from aiohttp import web
from numpy.typing import NDArray

from live_eval.errors import UsageError
from live_eval.recording import own_file
from live_eval.studio.answers import NotFoundError, answer
from live_eval.studio.library import Library
from live_eval.studio.lookups import count_in, number_in, open_turn
from live_eval.studio.shared import LIBRARY
from live_eval.studio.sound import SIDES, as_wav, drawn_peaks, excerpt, spectrogram

__all__ = ["add_routes", "both_sides"]

_LONGEST_S = 86_400
_BOTH = "both"
_MOST_BINS = 4_000
_MOST_COLUMNS = 2_000
_ROWS = 128


def add_routes(app: web.Application) -> None:
    """Serve sound."""
    turn = "/api/runs/{run}/turns/{turn}"
    app.router.add_get(f"{turn}/audio/{{side}}", _audio)
    app.router.add_get(f"{turn}/waveform", _waveform)
    app.router.add_get(f"{turn}/spectrogram", _spectrogram)


async def _audio(request: web.Request) -> web.StreamResponse:
    side = request.match_info["side"]
    library, run_id, turn_id = _named(request)
    if side == _BOTH:
        file = await asyncio.to_thread(_file, library, run_id, turn_id)
        return web.FileResponse(file, headers={"Content-Type": "audio/flac"})
    if side not in SIDES:
        raise NotFoundError(f"expected {_BOTH}, {' or '.join(SIDES)}, found {side[:40]!r}")
    return _part_of(request, await asyncio.to_thread(_one_side, library, run_id, turn_id, side))


async def _waveform(request: web.Request) -> web.Response:
    bins = count_in(request, "bins", 1_000, _MOST_BINS)
    return await answer(_peaks, *_named(request), *_interval(request), max(1, bins))


async def _spectrogram(request: web.Request) -> web.Response:
    side = request.query.get("side", "reply")
    if side not in SIDES:
        raise UsageError(f"side: expected {' or '.join(SIDES)}, found {side[:40]!r}")
    columns = count_in(request, "columns", 1_000, _MOST_COLUMNS)
    return await answer(_spectrum, *_named(request), *_interval(request), side, max(1, columns))


def _named(request: web.Request) -> tuple[Library, str, str]:
    return request.app[LIBRARY], request.match_info["run"], request.match_info["turn"]


def _interval(request: web.Request) -> tuple[float, float]:
    start_s = number_in(request, "start_s", 0, 0, _LONGEST_S)
    return start_s, number_in(request, "end_s", _LONGEST_S, start_s, _LONGEST_S)


def _file(library: Library, run_id: str, turn_id: str) -> Path:
    with open_turn(library, run_id, turn_id) as run:
        file = run.both_file(turn_id)
        if file is None:
            raise NotFoundError(f"turn {turn_id[:100]!r} has no audio")
        return own_file(run.path, file)


def both_sides(library: Library, run_id: str, turn_id: str) -> tuple[NDArray[np.int16], int]:
    """Return the audio of both sides of a turn, int16, shape (samples, 2), and its rate.

    Raises:
        NotFoundError: There is no such turn, or it has no audio.
        StoreError: It cannot be read.
    """
    with open_turn(library, run_id, turn_id) as run:
        both = run.both_sides(turn_id)
        if both is None:
            raise NotFoundError(f"turn {turn_id[:100]!r} has no audio")
        return both


def _one_side(library: Library, run_id: str, turn_id: str, side: str) -> bytes:
    both, rate_hz = both_sides(library, run_id, turn_id)
    return as_wav(both[:, SIDES[side]], rate_hz)


def _peaks(
    library: Library, run_id: str, turn_id: str, start_s: float, end_s: float, bins: int
) -> dict[str, Any]:
    both, rate_hz = both_sides(library, run_id, turn_id)
    part = excerpt(both, rate_hz, start_s, end_s)
    return {"start_s": start_s, **_length(both, rate_hz), **drawn_peaks(part, rate_hz, bins)}


def _spectrum(
    library: Library, run_id: str, turn_id: str, start_s: float, end_s: float, side: str, columns: int
) -> dict[str, Any]:
    both, rate_hz = both_sides(library, run_id, turn_id)
    pcm = excerpt(both, rate_hz, start_s, end_s)[:, SIDES[side]]
    drawn = spectrogram(pcm, rate_hz, columns, _ROWS)
    return {"start_s": start_s, "side": side, **_length(both, rate_hz), **drawn}


def _length(both: NDArray[np.int16], rate_hz: int) -> dict[str, Any]:
    """Return the length of the whole recording."""
    return {"seconds": len(both) / rate_hz, "rate_hz": rate_hz}


def _part_of(request: web.Request, data: bytes) -> web.Response:
    """Return the part of a WAV file that a request asks for (RFC 9110, section 14), or all of it."""
    headers = {"Accept-Ranges": "bytes", "Content-Type": "audio/wav"}
    try:
        wanted = request.http_range
    except ValueError:
        return web.Response(status=416, headers={"Content-Range": f"bytes */{len(data)}"})
    if wanted.start is None and wanted.stop is None:
        return web.Response(body=data, headers=headers)
    start, stop, _ = wanted.indices(len(data))
    if start >= stop:
        return web.Response(status=416, headers={"Content-Range": f"bytes */{len(data)}"})
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
    return web.Response(status=206, body=data[start:stop], headers=headers)
