"""Serve a turn's audio: files (with range requests), waveforms and spectrograms."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
from aiohttp import web
from numpy.typing import NDArray

from live_eval.audio import encode_wav
from live_eval.errors import UsageError
from live_eval.recording import file_stem, own_file
from live_eval.studio.answers import NotFoundError, answer, as_file
from live_eval.studio.lookups import count_in, number_in, open_turn
from live_eval.studio.turn_audio import SIDES, drawn_peaks, excerpt, spectrogram

__all__ = ["add_routes"]

_LONGEST_S = 86_400
_BOTH = "both"
_MOST_BINS = 4_000
_MOST_COLUMNS = 2_000
_ROWS = 128


def add_routes(app: web.Application) -> None:
    """Add the routes for audio."""
    turn = "/api/runs/{run}/turns/{turn}"
    app.router.add_get(f"{turn}/audio/{{side}}", _audio)
    app.router.add_get(f"{turn}/clip.wav", _clip)
    app.router.add_get(f"{turn}/waveform", _waveform)
    app.router.add_get(f"{turn}/spectrogram", _spectrogram)


async def _audio(request: web.Request) -> web.StreamResponse:
    side = request.match_info["side"]
    if side == _BOTH:
        file = await asyncio.to_thread(_file, request)
        return web.FileResponse(file, headers={"Content-Type": "audio/flac"})
    if side not in SIDES:
        raise NotFoundError(f"expected {_BOTH}, {' or '.join(SIDES)}, got {side[:40]!r}")

    def one_side() -> bytes:
        both, rate_hz = _both_sides(request)
        return encode_wav(both[:, SIDES[side]], rate_hz)

    return _part_of(request, await asyncio.to_thread(one_side))


async def _clip(request: web.Request) -> web.Response:
    """Serve an interval of one side or both sides as a WAV download."""
    side = request.query.get("side", _BOTH)
    if side != _BOTH and side not in SIDES:
        raise UsageError(f"side: expected {_BOTH}, {' or '.join(SIDES)}, got {side[:40]!r}")
    start_s, end_s = _interval(request)

    def clip() -> bytes:
        both, rate_hz = _both_sides(request)
        part = excerpt(both, rate_hz, start_s, end_s)
        return encode_wav(part if side == _BOTH else part[:, SIDES[side]], rate_hz)

    name = f"{file_stem(request.match_info['turn'], 1)}.{side}.wav"
    return web.Response(body=await asyncio.to_thread(clip), content_type="audio/wav", headers=as_file(name))


async def _waveform(request: web.Request) -> web.Response:
    start_s, end_s = _interval(request)
    bins = max(1, count_in(request, "bins", 1_000, _MOST_BINS))

    def waveform() -> dict[str, Any]:
        both, rate_hz = _both_sides(request)
        part = excerpt(both, rate_hz, start_s, end_s)
        return {"start_s": start_s, **_length(both, rate_hz), **drawn_peaks(part, rate_hz, bins)}

    return await answer(waveform)


async def _spectrogram(request: web.Request) -> web.Response:
    side = request.query.get("side", "reply")
    if side not in SIDES:
        raise UsageError(f"side: expected {' or '.join(SIDES)}, got {side[:40]!r}")
    start_s, end_s = _interval(request)
    columns = max(1, count_in(request, "columns", 1_000, _MOST_COLUMNS))

    def spectrum() -> dict[str, Any]:
        both, rate_hz = _both_sides(request)
        pcm = excerpt(both, rate_hz, start_s, end_s)[:, SIDES[side]]
        drawn = spectrogram(pcm, rate_hz, columns, _ROWS)
        return {"start_s": start_s, "side": side, **_length(both, rate_hz), **drawn}

    return await answer(spectrum)


def _interval(request: web.Request) -> tuple[float, float]:
    start_s = number_in(request, "start_s", 0, 0, _LONGEST_S)
    return start_s, number_in(request, "end_s", _LONGEST_S, start_s, _LONGEST_S)


def _length(both: NDArray[np.int16], rate_hz: int) -> dict[str, Any]:
    return {"seconds": len(both) / rate_hz, "rate_hz": rate_hz}


def _file(request: web.Request) -> Path:
    with open_turn(request) as (run, turn_id):
        file = run.both_file(turn_id)
        if file is None:
            raise NotFoundError(f"turn {turn_id[:100]!r} has no audio")
        return own_file(run.path, file)


def _both_sides(request: web.Request) -> tuple[NDArray[np.int16], int]:
    """Return the requested turn's audio, int16, shape (samples, 2), and its sample rate."""
    with open_turn(request) as (run, turn_id):
        both = run.both_sides(turn_id)
        if both is None:
            raise NotFoundError(f"turn {turn_id[:100]!r} has no audio")
        return both


def _part_of(request: web.Request, data: bytes) -> web.Response:
    """Respond with the requested range of a WAV file (RFC 9110, section 14), or with the whole file."""
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
