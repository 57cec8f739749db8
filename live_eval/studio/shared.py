"""What the parts of the studio share."""

from __future__ import annotations

from aiohttp import web

from live_eval.studio.library import Library

__all__ = ["LIBRARY"]

LIBRARY = web.AppKey("library", Library)
