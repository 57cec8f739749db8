"""The studio on a free port, and a browser's session that has opened its link."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from aiohttp import web

from live_eval.studio.application import PARTS, Part, application
from live_eval.studio.security import Guard
from live_eval.studio.talking.talk_settings import TalkSettings
from live_eval.types import Secret

TOKEN = "the-token-of-this-studio"
LISTENERS = "the-token-of-its-listeners"


def port_of(browser: aiohttp.ClientSession) -> int:
    """The port of the session's studio."""
    assert browser._base_url is not None
    assert browser._base_url.port is not None
    return browser._base_url.port


@asynccontextmanager
async def studio(
    *folders: Path,
    parts: Sequence[Part] = PARTS,
    opened: bool = True,
    addresses: Mapping[str, str] | None = None,
    said: list[str] | None = None,
) -> AsyncIterator[aiohttp.ClientSession]:
    """Serve the studio and yield a session whose requests are relative to it.

    Args:
        folders: Folders that it shows.
        parts: Parts of the studio.
        opened: Whether the session has opened the link.
        addresses: Addresses of endpoints to talk to.
        said: Callback for the lines that the studio prints.
    """
    talk = TalkSettings(addresses=addresses or {}, note=([] if said is None else said).append)
    guard = Guard(Secret(TOKEN), listeners=Secret(LISTENERS))
    runner = web.AppRunner(application(folders, guard, parts, talk), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    jar = aiohttp.CookieJar(unsafe=True)  # accept cookies of IP addresses too
    address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with aiohttp.ClientSession(address, cookie_jar=jar) as browser:
            if opened:
                async with browser.get("/", params={"token": TOKEN}, allow_redirects=False) as welcome:
                    assert welcome.status == 303
            yield browser
    finally:
        await runner.cleanup()
