"""In-process servers on a free port: any aiohttp application, and the reference endpoint."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from live_eval.clock import SystemClock
from live_eval.http.connections import Connections
from live_eval.reference.faults.handshake import ConnectionFaults
from live_eval.reference.responders.responder import Responder, ToneResponder
from live_eval.reference.responders.speech_models import SpeechModels
from live_eval.reference.server.app import Endpoint
from live_eval.reference.server.host import SessionHost
from live_eval.reference.server.site import StampedSite
from live_eval.reference.settings import ReferenceSettings
from live_eval.reference.truth import TruthFile
from live_eval.types import Secret

NO_RECOGNISER = "there is no recogniser in this test"


@asynccontextmanager
async def listening(
    application: web.Application,
    *,
    tls: ssl.SSLContext | None = None,
    patience_s: float = 0.1,
    connection_faults: ConnectionFaults | None = None,
    connections: Connections | None = None,
) -> AsyncIterator[str]:
    """Serve an application and yield its host and port.

    Args:
        application: The application.
        tls: Its certificate; plain HTTP if None.
        patience_s: Time that open connections may take to close at the end.
        connection_faults: Faults of new connections.
        connections: The application's connection registry, if it has one.
    """
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=patience_s)
    await runner.setup()
    clock = SystemClock()
    known = connections or Connections(clock)
    plain = StampedSite(runner, "127.0.0.1", 0, clock, connection_faults, connections=known)
    await (plain if tls is None else web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)).start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def reference(
    responder: Responder | None = None,
    *,
    token: str | None = None,
    truth: Path | None = None,
    limits: Mapping[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[str]:
    """Serve the reference endpoint without a recogniser and yield its host and port.

    Args:
        responder: Generates the replies; tones if None.
        token: The required API key.
        truth: File for its ground truth, complete once the context has ended.
        limits: Limits of `SessionHost`.
        settings: Fields of `ReferenceSettings`.
    """
    speech_models = await asyncio.to_thread(SpeechModels, None, NO_RECOGNISER)
    file = await asyncio.to_thread(TruthFile, truth) if truth is not None else None
    host = SessionHost(
        ReferenceSettings(**settings),
        speech_models,
        responder or ToneResponder(),
        token=Secret(token) if token else None,
        truth=file,
        **(limits or {}),
    )
    endpoint = Endpoint(host)
    probe = asyncio.create_task(host.probe.run())  # needed for the truth's error bar
    try:
        async with listening(
            endpoint.application(),
            patience_s=1,
            connection_faults=endpoint.connection_faults,
            connections=endpoint.connections,
        ) as address:
            yield address
    finally:
        probe.cancel()
        await asyncio.wait([probe])
        if file is not None:
            await asyncio.to_thread(file.close)
