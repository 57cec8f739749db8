"""What the parts of the studio share."""

from __future__ import annotations

from aiohttp import web

from live_eval.studio.library import Library
from live_eval.studio.talking.endpoints import TalkSettings

__all__ = ["LIBRARY", "TALK"]

LIBRARY = web.AppKey("library", Library)
TALK = web.AppKey("talk", TalkSettings)
