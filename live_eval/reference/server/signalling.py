"""Handle WebRTC signalling: accept an offer, return the answer, and run the session with its faults.

Supports OpenAI's ``/v1/realtime/calls``, pipecat's ``/api/offer`` and fastrtc's ``/webrtc/offer``. All three
allow requests from web pages (CORS). Authentication is the same as for WebSocket.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple

import orjson
from aiohttp import web
from aiortc.rtp import is_rtcp
from pydantic import BaseModel, TypeAdapter, ValidationError

from live_eval.clock import Clock
from live_eval.reference.faults.catalogue import FaultName, Moment
from live_eval.reference.faults.fault_script import FaultScript
from live_eval.reference.faults.injection import DeltaFaults
from live_eval.reference.protocols.openai_session import MODEL
from live_eval.reference.protocols.protocol import MessageError, ServerProtocol, parse_object
from live_eval.reference.protocols.webrtc import TRACK, OpenAiWebRtcProtocol, WebRtcBotProtocol
from live_eval.reference.server.authentication import RefusedError, refused
from live_eval.reference.server.host import SessionHost
from live_eval.reference.server.output_buffer import SessionAudio
from live_eval.reference.settings import Cadence, ReferenceSettings
from live_eval.session.event_loop import Collector
from live_eval.webrtc.answering import OfferError, RtcConnection
from live_eval.webrtc.rtc_answerer import delivered

__all__ = ["WebRtcSessions", "damage_packets", "with_faults"]

_CONNECT_NS = 30_000_000_000
_GOING_AWAY = 1001
_SECOND_NS = 1_000_000_000
_SECRET_LIFETIME_S = 600
_MOST_SECRETS = 1_000
_MOST_SECRET_BYTES = 64 * 1024
_BODY_S = 10.0
_PIPECAT_PATH = "/api/offer"
_Json = dict[str, Any]
_MID_REPLY = (FaultName.CLOSE_CHANNEL, FaultName.STALL)
_CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "POST, PATCH, OPTIONS",
    "Access-Control-Allow-Headers": "*, Authorization",
    "Access-Control-Expose-Headers": "Location",
    "Access-Control-Max-Age": "600",
}
_OPUS_LINE = re.compile(r"^a=rtpmap:(\d+) opus/48000/2\r?$", re.MULTILINE)
_FINGERPRINT = re.compile(r"^(a=fingerprint:\S+ )(\w\w):", re.MULTILINE)
_CANDIDATE = re.compile(r"^a=candidate:.*\r\n", re.MULTILINE)
_END = "a=end-of-candidates\r\n"
# The discard port, on which usually no server listens.
_DEAD_CANDIDATE = "a=candidate:1 1 udp 2130706431 127.0.0.1 9 typ host\r\n"


class WebRtcSessions:
    """Handle signalling and run sessions over WebRTC."""

    def __init__(self, host: SessionHost) -> None:
        self._host = host
        self._connections: dict[str, _FaultyConnection] = {}
        self._collector = Collector()
        self._tasks: set[asyncio.Task[None]] = set()
        self._secrets: dict[str, _Issued] = {}

    def mount(self, app: web.Application) -> None:
        """Add the routes."""
        routes = (
            ("POST", "/v1/realtime/calls", self._openai, "invalid_offer"),
            ("POST", "/v1/realtime/client_secrets", self._issue, "invalid_json"),
            ("POST", _PIPECAT_PATH, self._bot, "invalid_offer"),
            ("PATCH", _PIPECAT_PATH, self._pipecat_candidates, "invalid_candidate"),
            ("POST", "/webrtc/offer", self._bot, "invalid_offer"),
        )
        for method, path, handler, code in routes:
            app.router.add_route(method, path, _allow_any_origin(handler, code))
        for path in {path for _, path, _, _ in routes}:
            app.router.add_route("OPTIONS", path, _allow_any_origin(_preflight, ""))

    async def close(self) -> None:
        """End every session."""
        for connection in tuple(self._connections.values()):
            await connection.close(_GOING_AWAY, "the endpoint stops")
        await asyncio.gather(*self._tasks)

    # -- OpenAI -----------------------------------------------------------------------------------------

    async def _openai(self, request: web.Request) -> web.Response:
        issued = self._issued(request)
        admitted = self._host.admit(request, {"model"}, known=issued is not None)
        offer = await _offer(request)
        settings, instead = await self._host.begin(request, admitted)
        if instead is not None:
            return instead
        session = offer.session or (orjson.loads(issued.session) if issued is not None else {})
        model = session.get("model") or request.query.get("model")
        protocol = OpenAiWebRtcProtocol(
            self._host.engine(_settings(settings), TRACK),
            model if isinstance(model, str) and model else MODEL,
            self._host.expires_at(settings),
        )
        if session:
            protocol.begin(session)
        call_id = _new_id()
        answer = await self._answer(call_id, offer.sdp, protocol)
        headers = {"Location": f"{request.path}/{call_id}"}
        return web.Response(status=201, text=answer, content_type="application/sdp", headers=headers)

    async def _issue(self, request: web.Request) -> web.Response:
        """Issue an ephemeral key for a browser client to use instead of the token."""
        self._host.admit(request, ())
        session = (await _json(request)).get("session") if request.can_read_body else None
        kept = orjson.dumps(session if isinstance(session, dict) else {})
        if len(kept) > _MOST_SECRET_BYTES:
            message = f"Expected a session of at most {_MOST_SECRET_BYTES} bytes, got {len(kept)}."
            raise RefusedError(413, "request_too_large", message)
        now_s = self._host.clock.wall_ns() // _SECOND_NS
        self._forget_secrets(now_s)
        if len(self._secrets) >= _MOST_SECRETS:
            message = f"Too many client secrets: the limit is {_MOST_SECRETS} in {_SECRET_LIFETIME_S} s."
            raise RefusedError(429, "rate_limit_exceeded", message, headers={"Retry-After": "1"})
        value = f"ek_{secrets.token_hex(16)}"
        self._secrets[value] = _Issued(now_s + _SECRET_LIFETIME_S, kept)
        created = {"value": value, "expires_at": now_s + _SECRET_LIFETIME_S, "session": orjson.Fragment(kept)}
        return _as_json(created)

    def _forget_secrets(self, now_s: int) -> None:
        # secrets expire in the order of issue
        while self._secrets and next(iter(self._secrets.values())).expires_at <= now_s:
            del self._secrets[next(iter(self._secrets))]

    def _issued(self, request: web.Request) -> _Issued | None:
        """Return the request's unexpired client secret, or None."""
        self._forget_secrets(self._host.clock.wall_ns() // _SECOND_NS)
        return self._secrets.get(request.headers.get("Authorization", "").partition(" ")[2].strip())

    # -- Bots -------------------------------------------------------------------------------------------

    async def _bot(self, request: web.Request) -> web.Response:
        admitted = self._host.admit(request, ())
        asked = await _json(request)
        settings, instead = await self._host.begin(request, admitted)
        if instead is not None:
            return instead
        protocol = WebRtcBotProtocol(self._host.engine(_settings(settings), TRACK))
        offer = asked.get("sdp")
        if asked.get("type") != "offer" or not isinstance(offer, str):
            raise OfferError("expected an object with 'sdp' and the 'type' 'offer'")
        call_id = _new_id()
        answer = await self._answer(call_id, offer, protocol)
        named = {"pc_id": call_id} if request.path == _PIPECAT_PATH else {}
        return _as_json({"sdp": answer, "type": "answer", **named})

    async def _pipecat_candidates(self, request: web.Request) -> web.Response:
        self._host.admit(request, ())
        asked = await _json(request)
        connection = self._connections.get(str(asked.get("pc_id")))
        if connection is None:
            raise RefusedError(404, "unknown_pc_id", "No such 'pc_id'.")
        try:
            candidates = _CANDIDATES.validate_python(asked.get("candidates"))
        except ValidationError:
            message = "expected a list 'candidates' with 'candidate', 'sdp_mid' and 'sdp_mline_index'"
            raise OfferError(message) from None
        for each in candidates:
            if each.sdp_mid is None and each.sdp_mline_index is None:
                raise OfferError("expected candidates with 'sdp_mid' or 'sdp_mline_index'")
            await connection.add_candidate(each.candidate, each.sdp_mid, each.sdp_mline_index)
        return _as_json({"status": "success"})

    # -- Both -------------------------------------------------------------------------------------------

    async def _answer(self, call_id: str, offer: str, protocol: ServerProtocol) -> str:
        """Start a session and return the answer to its offer; raise `OfferError` on failure."""
        faults = protocol.engine.settings.faults
        if faults.has(FaultName.REFUSE_SDP):
            raise OfferError("offer refused by an injected fault")
        with ExitStack() as handshake:
            handshake.enter_context(self._host.handshake())
            connection = _FaultyConnection(self._host.clock, faults)
            answer = await connection.answer(offer)
            self._connections[call_id] = connection
            task = asyncio.create_task(self._run(call_id, connection, protocol, handshake.pop_all()))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return answer

    async def _run(
        self, call_id: str, connection: _FaultyConnection, protocol: ServerProtocol, handshake: ExitStack
    ) -> None:
        # Garbage collection would disturb clients that are measuring.
        with self._host.session(), self._collector.session(lambda: True):
            try:
                with handshake:
                    connected = await connection.connected(_CONNECT_NS)
                if connected:
                    await self._host.run_session(
                        connection, protocol, SessionAudio(connection, protocol.playback)
                    )
            finally:
                await connection.close(_GOING_AWAY, "the session is over")
                del self._connections[call_id]


class _Issued(NamedTuple):
    expires_at: int
    session: bytes


class _Offer(NamedTuple):
    sdp: str
    session: Mapping[str, Any]


class _Candidate(BaseModel):
    candidate: str
    sdp_mid: str | None = None
    sdp_mline_index: int | None = None


_CANDIDATES = TypeAdapter(list[_Candidate])


def _new_id() -> str:
    return f"rtc_{secrets.token_hex(16)}"


def _settings(settings: ReferenceSettings) -> ReferenceSettings:
    # A fault in the middle of a reply must occur between packets, not during a burst of events.
    middle = bool(settings.faults.at(Moment.REPLY)) or any(map(settings.faults.has, _MID_REPLY))
    return replace(settings, cadence=Cadence.REALTIME) if middle else settings


async def _offer(request: web.Request) -> _Offer:
    """Read an OpenAI client's request body: an offer, or a form with an offer and session settings."""
    if request.content_type == "application/sdp":
        return _Offer(_text(await _body(request)), {})
    if request.content_type != "multipart/form-data":
        raise OfferError(f"expected application/sdp or multipart/form-data, got {request.content_type!r}")
    try:
        async with asyncio.timeout(_BODY_S):
            form = await request.post()
    except (ValueError, LookupError) as error:  # LookupError: a part declares an unknown charset
        raise OfferError(f"expected a form with the part 'sdp'; {error}") from None
    sdp, session = (_field(form.get(name)) for name in ("sdp", "session"))
    if sdp is None:
        raise OfferError("expected the part 'sdp' in the form")
    return _Offer(_text(sdp), {} if session is None else _object(session))


async def _body(request: web.Request) -> bytes:
    """Read the body, or raise `TimeoutError`."""
    async with asyncio.timeout(_BODY_S):
        return await request.read()


def _text(sdp: bytes) -> str:
    try:
        return sdp.decode()
    except UnicodeDecodeError as error:
        raise OfferError(f"expected a session description in UTF-8; {error}") from None


def _field(value: object) -> bytes | None:
    match value:
        case str():
            return value.encode()
        case bytes() | bytearray():
            return bytes(value)
        case web.FileField():
            return value.file.read()
        case _:
            return None


async def _json(request: web.Request) -> _Json:
    return _object(await _body(request))


def _object(data: bytes) -> _Json:
    try:
        return parse_object(data)
    except MessageError as error:
        raise OfferError(str(error)) from None


def _as_json(body: _Json) -> web.Response:
    return web.Response(body=orjson.dumps(body), content_type="application/json")


def _allow_any_origin(
    handler: Callable[[web.Request], Awaitable[web.Response]], code: str
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Allow any origin (CORS) in a handler's responses, and convert exceptions to refusals.

    `code` is the error code for a request that the handler cannot parse.
    """

    async def handle(request: web.Request) -> web.Response:
        try:
            response = await handler(request)
        except RefusedError as error:
            response = refused(error)
        except MessageError as error:
            response = refused(RefusedError(400, error.problem.code, str(error)))
        except OfferError as error:
            response = refused(RefusedError(400, code, str(error)))
        except web.HTTPRequestEntityTooLarge as error:
            response = refused(RefusedError(413, "request_too_large", error.text or error.reason))
        except TimeoutError:
            response = refused(
                RefusedError(408, "request_timeout", f"The body did not arrive within {_BODY_S:g} s.")
            )
        response.headers.update(_CORS)
        return response

    return handle


async def _preflight(request: web.Request) -> web.Response:
    return web.Response(status=204)


class _FaultyConnection(RtcConnection):
    """A `Channel` and `MediaTrack` for one client that applies its session's faults."""

    def __init__(self, clock: Clock, faults: FaultScript) -> None:
        super().__init__(clock)
        self._faults = faults
        self._pace = faults.pace

    async def answer(self, offer: str) -> str:
        """Override `RtcConnection.answer` to apply a fault to the answer."""
        answer = await super().answer(offer)
        for sender in self._peer.getSenders():
            if sender.track is self._track:
                damage_packets(sender.transport, DeltaFaults(self._faults))
        if self._faults.has(FaultName.NO_CHANNEL) and self._peer.sctp is not None:
            ignored: Any = self._peer.sctp
            ignored._handle_data = _ignore
        return with_faults(answer, self._faults)

    async def close(self, code: int, reason: str) -> None:
        """Override `RtcConnection.close`; with `FaultName.CLOSE_CHANNEL`, close only the data channel."""
        channel = self._channel
        if self._faults.has(FaultName.CLOSE_CHANNEL) and channel is not None and channel.readyState == "open":
            await delivered(channel, self._clock, lambda: self.ended)
            channel.close()
        else:
            await super().close(code, reason)

    async def say(self, packet: bytes, timestamp: int) -> int | None:
        """Override `RtcConnection.say`; return None if the packet is not sent."""
        if self._faults.has(FaultName.NO_RTP):
            return None
        return await super().say(packet, round(timestamp * self._pace))


def with_faults(answer: str, faults: FaultScript) -> str:
    """Apply the session's fault to its answer."""
    if faults.has(FaultName.NO_CODEC):
        return _OPUS_LINE.sub(r"a=rtpmap:\1 L16/44100/2", answer)
    if faults.has(FaultName.BAD_FINGERPRINT):
        return _FINGERPRINT.sub(lambda found: f"{found[1]}{'00' if found[2] != '00' else '11'}:", answer)
    if faults.has(FaultName.BAD_CANDIDATES):
        # Send wrong credentials, since our connectivity checks would still reach the client.
        answer = re.sub(r"^(a=ice-(?:ufrag|pwd):).", r"\g<1>0", answer, flags=re.MULTILINE)
        return _CANDIDATE.sub("", answer).replace(_END, _DEAD_CANDIDATE + _END)
    return answer


async def _ignore(data: bytes) -> None:
    """Discard received data."""


def damage_packets(transport: Any, faults: DeltaFaults[bytes]) -> None:
    """Make a DTLS transport drop, duplicate and reorder packets after counting them as sent."""
    if not faults:
        return
    send = transport._send_rtp

    async def damage(data: bytes) -> None:
        for packet in [data] if is_rtcp(data) else faults.push([data]):
            await send(packet)

    transport._send_rtp = damage
