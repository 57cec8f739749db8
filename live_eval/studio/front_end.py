"""Serve the front end: the page, scripts and styles."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aiohttp import web

from live_eval.studio.answers import NotFoundError
from live_eval.studio.security import for_listeners, is_listener
from live_eval.web import KIT

__all__ = ["add_routes"]

_STATIC = Path(__file__).with_name("static")
_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}


def add_routes(app: web.Application) -> None:
    """Add the routes for the page and its files."""
    app.router.add_get("/", _page)
    app.router.add_get("/stage", _stage)
    app.router.add_get("/static/{name:.+}", _file)


@for_listeners
async def _page(request: web.Request) -> web.StreamResponse:
    page = _STATIC / "index.html"
    if not is_listener(request):
        return _response(page)
    text = await asyncio.to_thread(page.read_text, "utf-8")
    return web.Response(text=text.replace("<body>", "<body data-listener>"), content_type="text/html")


async def _stage(_request: web.Request) -> web.StreamResponse:
    return web.Response(status=303, headers={"Location": "/#/stage"})


@for_listeners
async def _file(request: web.Request) -> web.FileResponse:
    name = request.match_info["name"]
    file = (await asyncio.to_thread(_files)).get(name)
    if file is None:
        raise NotFoundError(f"the studio has no file {name[:100]!r}")
    return _response(file)


def _files() -> dict[str, Path]:
    return {
        f"{prefix}{file.name}": file
        for folder, prefix in ((_STATIC, ""), (KIT, "web/"))
        for file in folder.iterdir()
        if file.suffix in _TYPES
    }


def _response(file: Path) -> web.FileResponse:
    headers = {"Content-Type": _TYPES[file.suffix], "Cache-Control": "no-cache"}
    return web.FileResponse(file, headers=headers)
