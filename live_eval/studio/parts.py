"""What the studio consists of: each part adds its routes to the application."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from aiohttp import web

from live_eval.studio import (
    comparison_api,
    front_end,
    listen,
    pages,
    progress_api,
    runs_api,
    sound_api,
    talk,
    turns_api,
    words_api,
)

__all__ = ["PARTS", "Part"]

Part: TypeAlias = Callable[[web.Application], None]
"""Adds routes, and what is to be closed with the application. ``app[LIBRARY]`` finds runs."""

PARTS: tuple[Part, ...] = (
    front_end.add_routes,
    runs_api.add_routes,
    turns_api.add_routes,
    sound_api.add_routes,
    words_api.add_routes,
    comparison_api.add_routes,
    progress_api.add_routes,
    pages.add_routes,
    listen.add_routes,
    talk.add_routes,
)
