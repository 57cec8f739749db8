"""Run all sessions of the reference endpoint, over any transport."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import replace

from aiohttp import WSCloseCode, web

from live_eval.clock import Clock, SystemClock
from live_eval.errors import UsageError
from live_eval.reference.engine.engine import Engine, EngineConfig
from live_eval.reference.engine.reply_plan import WireReply
from live_eval.reference.faults.fault_script import FaultSchedule
from live_eval.reference.faults.handshake import apply_request_faults
from live_eval.reference.protocols.protocol import ServerProtocol
from live_eval.reference.responders.responder import Responder
from live_eval.reference.responders.speech_models import SpeechModels
from live_eval.reference.server.authentication import (
    SIGNATURE_PARAMETER,
    RefusedError,
    authenticate,
    conversation_signature,
    room_token,
)
from live_eval.reference.server.client_session import Channel, ServerSession, packer
from live_eval.reference.server.output_buffer import SessionAudio
from live_eval.reference.settings import ReferenceSettings
from live_eval.reference.truth import TrueReply, TrueUtterance, TruthFile
from live_eval.session.event_loop import LoopProbe
from live_eval.types import Secret

__all__ = ["SessionHost"]

_log = logging.getLogger(__name__)

_LAG_BEFORE_VOICE_END_NS = 200_000_000
_MOST_SESSIONS = 2_000
_MOST_HANDSHAKES = 512  # more than any run opens at once
_WAIT = {"Retry-After": "1"}
# Cache fixed replies, because encoding one would delay the sessions in progress.
_FIXED_REPLIES = 16


class SessionHost:
    """Admit sessions, limit their number, and run them.

    Args:
        settings: Default session settings; a session's URL can override them.
        speech_models: Voice detector and recogniser; closed by `close`.
        responder: The source of replies; closed by `close`.
        token: Bearer token required from clients, or None to accept any client.
        truth: File for the true times, or None.
        most_sessions: Maximum number of open sessions.
        most_handshakes: Maximum number of requested sessions that are not open yet.
    """

    def __init__(
        self,
        settings: ReferenceSettings,
        speech_models: SpeechModels,
        responder: Responder,
        *,
        token: Secret | None = None,
        truth: TruthFile | None = None,
        clock: Clock | None = None,
        most_sessions: int = _MOST_SESSIONS,
        most_handshakes: int = _MOST_HANDSHAKES,
    ) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self.probe = LoopProbe(self.clock)  # event-loop lag bounds the error of the true times
        self.schedule = FaultSchedule()
        self._speech_models = speech_models
        self._responder = responder
        self._token = token
        self._truth = truth
        self._most_sessions = most_sessions
        self._most_handshakes = most_handshakes
        self._sessions = 0
        self._handshakes = 0
        self._fixed_replies: dict[tuple[Hashable, ...], WireReply] = {}

    @property
    def sessions(self) -> int:
        """Number of open sessions."""
        return self._sessions

    async def close(self) -> None:
        """Close the responder and the speech models."""
        await self._responder.close()
        await self._speech_models.close()

    def admit(
        self, request: web.Request, parameters: Collection[str], *, known: bool = False
    ) -> ReferenceSettings:
        """Return the settings for a requested session.

        Args:
            parameters: The dialect's URL parameters.
            known: Whether the client is already authenticated.

        Raises:
            RefusedError: The client or its settings are refused, or too many sessions are open.
        """
        if not known:
            authenticate(request, self._token)
        if self._sessions >= self._most_sessions:
            message = f"Too many sessions: the limit is {self._most_sessions}."
            raise RefusedError(429, "rate_limit_exceeded", message, headers=_WAIT)
        query = {key: value for key, value in request.query.items() if key not in parameters}
        try:
            return self.settings.overridden(query)
        except UsageError as error:
            raise RefusedError(400, "invalid_value", str(error)) from None

    def signed(self, request: web.Request) -> dict[str, str]:
        """Return the URL parameters that admit the holder of a signed URL, or raise `RefusedError`."""
        authenticate(request, self._token)
        return {} if self._token is None else {SIGNATURE_PARAMETER: conversation_signature(self._token)}

    def room_token(self, request: web.Request, claims: Mapping[str, object]) -> str:
        """Return a token that admits its holder to a room, or raise `RefusedError`."""
        authenticate(request, self._token)
        return room_token(self._token, claims)

    async def begin(
        self, request: web.Request, settings: ReferenceSettings
    ) -> tuple[ReferenceSettings, web.Response | None]:
        """Return a session's settings, including its faults, and a fault's HTTP response, if any.

        Raises:
            RefusedError: A fault refuses the request.
            ConnectionError: A fault has ended the connection.
        """
        script = self.schedule.of_session(settings.faults)
        return replace(settings, faults=script), await apply_request_faults(request, script, self.clock)

    @contextlib.contextmanager
    def handshake(self) -> Iterator[None]:
        """Count a requested session that is not open yet; raise `RefusedError` above the limit."""
        if self._handshakes >= self._most_handshakes:
            message = f"Too many handshakes in progress: the limit is {self._most_handshakes}."
            raise RefusedError(429, "rate_limit_exceeded", message, headers=_WAIT)
        self._handshakes += 1
        try:
            yield
        finally:
            self._handshakes -= 1

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        """Count an open session."""
        self._sessions += 1
        try:
            yield
        finally:
            self._sessions -= 1

    def engine(self, settings: ReferenceSettings, config: EngineConfig) -> Engine:
        """Create the engine of a new session."""
        session_id = f"sess_{secrets.token_hex(8)}"
        return Engine(session_id, settings, config, waits_for_words=self._responder.waits_for_words)

    def expires_at(self, settings: ReferenceSettings) -> int:
        """Return the expiry time of a session that starts now, in seconds since the Unix epoch."""
        return self.clock.wall_ns() // 1_000_000_000 + settings.session_limit_s

    async def run_session(
        self, channel: Channel, protocol: ServerProtocol, audio: SessionAudio | None = None
    ) -> None:
        """Run a session until its connection ends; log unexpected exceptions."""
        session_id = protocol.engine.session_id
        fixed = await asyncio.to_thread(self._packed, protocol)
        link = ServerSession(
            channel, protocol, self._speech_models, self._responder, fixed, self.clock, self._keep, audio
        )
        try:
            await link.run()
        except Exception:
            _log.exception("session %s ended because of a bug in this endpoint", session_id)
            await channel.close(WSCloseCode.INTERNAL_ERROR, "internal error")

    def _packed(self, protocol: ServerProtocol) -> WireReply | None:
        engine = protocol.engine
        settings, codec = engine.settings, engine.config.output_codec
        reply = self._responder.fixed(settings)
        if reply is None:
            return None
        tone = (settings.reply_ms, settings.reply_pause_ms, settings.lead_silence_ms)
        key = (type(protocol), codec, settings.faults, *tone, engine.chunk_ms, engine.config.frame_ms)
        known = self._fixed_replies.get(key)
        if known is None:
            known = self._fixed_replies[key] = packer(protocol, codec).pack(reply)
            for oldest in list(self._fixed_replies)[:-_FIXED_REPLIES]:
                self._fixed_replies.pop(oldest, None)
        return known

    def _keep(self, known: TrueReply | TrueUtterance) -> None:
        if self._truth is None:
            return
        if isinstance(known, TrueReply) and known.voice_end_ns is not None:
            until_ns = known.voice_end_ns + (known.voice_to_voice_ns or known.first_byte_ns or 0)
            reading = self.probe.between(known.voice_end_ns - _LAG_BEFORE_VOICE_END_NS, until_ns)
            known = replace(known, lag_ns=max(reading.lag_ns.tolist(), default=None))
        self._truth.put(known)
