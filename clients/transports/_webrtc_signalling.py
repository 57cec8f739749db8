"""Exchange offer and answer over HTTP, and validate the answer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from aiortc import RTCConfiguration, RTCIceServer
from aiortc.rtcconfiguration import RTCBundlePolicy
from aiortc.rtcicetransport import parse_stun_turn_uri
from aiortc.sdp import MediaDescription, SessionDescription, candidate_to_sdp

from live_eval.audio import Codec
from live_eval.clients.transports._http_client import read_body, request_url
from live_eval.clients.transports._http_errors import Address
from live_eval.clock import Clock
from live_eval.dialect import Dial, SdpBody, Signalling
from live_eval.errors import ConnectError, FailureKind
from live_eval.webrtc.rtp_tap import RTC_CODECS

_SHOWN_CHARACTERS = 300
_SDP_CHARACTERS = 100_000
_MOST_LINES = 100  # per kind of line, since aiortc's processing time is quadratic in their number
_COUNTED = ("m=", "a=candidate:", "a=rtpmap:")
# At its concurrency limit, fastrtc responds with 200 and {"status": "failed", "meta": {"error": …}}.
_BUSY = "concurrency_limit_reached"


@dataclass(frozen=True, slots=True)
class Answer:
    """An endpoint's answer to our offer.

    Args:
        sdp: The endpoint's session description.
        codec: The codec for our audio: the best codec that the endpoint accepts.
        pc_id: The endpoint's connection ID, if any.
    """

    sdp: str
    codec: Codec
    pc_id: str | None = None


def configuration(ice_servers: Collection[str]) -> RTCConfiguration:
    """Return connection settings with these ICE servers and all media on one transport.

    Args:
        ice_servers: ``"stun:HOST:PORT"``, or ``"turn:USER:PASSWORD@HOST:PORT"``.

    Raises:
        ConnectError: One of the servers is not a STUN or TURN URL.
    """
    servers: list[RTCIceServer] = []
    for given in ice_servers:
        scheme, _, rest = given.partition(":")
        login, _, place = rest.rpartition("@")
        user, _, password = login.partition(":")
        url = f"{scheme}:{place}"
        try:
            parse_stun_turn_uri(url)
        except ValueError:
            raise ConnectError(
                FailureKind.CONNECT_FAILED,
                f"expected an ICE server such as stun:HOST:PORT or turn:USER:PASSWORD@HOST:PORT, got {url!r}",
            ) from None
        servers.append(RTCIceServer(url, username=user or None, credential=password or None))
    return RTCConfiguration(iceServers=servers, bundlePolicy=RTCBundlePolicy.MAX_BUNDLE)


class Signaller:
    """Exchange an offer for an answer; `clock` interprets the dates in the endpoint's responses."""

    def __init__(self, http: aiohttp.ClientSession, address: Address, dial: Dial, clock: Clock) -> None:
        assert dial.signalling is not None
        self._http = http
        self._address = address
        self._dial = dial
        self._signalling: Signalling = dial.signalling
        self._check = AnswerCheck(address, dial.signalling.channel)
        self._clock = clock

    async def offer(self, sdp: str) -> Answer:
        """POST the offer.

        Raises:
            ConnectError: The endpoint refused the offer, or its answer is unusable.
            aiohttp.ClientError: The request failed.
            OSError: The request failed.
        """
        headers = {**self._dial.headers, "Accept": self._accepts()}
        data: bytes | aiohttp.FormData
        match self._signalling.offer:
            case SdpBody.SDP:
                headers["Content-Type"], data = "application/sdp", sdp.encode()
            case SdpBody.FORM:
                data = self._form(sdp)
            case SdpBody.JSON:
                headers["Content-Type"] = "application/json"
                data = orjson.dumps({"sdp": sdp, "type": "offer", **self._signalling.fields})
        async with self._http.post(
            request_url(self._dial), data=data, headers=headers, allow_redirects=False
        ) as response:
            body = await read_body(response)
        if not 200 <= response.status < 300:
            raise self._address.refused(
                response.status,
                response.reason or "",
                response.headers,
                body,
                expected="an SDP answer with HTTP status 200 or 201",
                otherwise=FailureKind.SDP_REFUSED,
                wall_ns=self._clock.wall_ns(),
            )
        return self._read(body)

    async def candidates(self, sdp: str, pc_id: str | None) -> None:
        """Send the candidates of our offer `sdp` in a PATCH request, in pipecat's format.

        The offer also contains them, so the status of the response is ignored.

        Raises:
            aiohttp.ClientError: The request failed.
            OSError: The request failed.
        """
        found: dict[str, dict[str, Any]] = {}
        for index, section in enumerate(SessionDescription.parse(sdp).media):
            for candidate in section.ice_candidates:  # identical for sections that share a transport
                line = f"candidate:{candidate_to_sdp(candidate)}"
                found.setdefault(
                    line, {"candidate": line, "sdp_mid": section.rtp.muxId, "sdp_mline_index": index}
                )
        body = orjson.dumps({"pc_id": pc_id, "candidates": list(found.values())})
        headers = {**self._dial.headers, "Content-Type": "application/json"}
        async with self._http.patch(
            request_url(self._dial), data=body, headers=headers, allow_redirects=False
        ) as response:
            await read_body(response)

    def _accepts(self) -> str:
        return "application/json" if self._signalling.answer is SdpBody.JSON else "application/sdp"

    def _form(self, sdp: str) -> aiohttp.FormData:
        form = aiohttp.FormData(default_to_multipart=True)
        form.add_field("sdp", sdp, content_type="application/sdp")
        for name, value in self._signalling.fields.items():
            if isinstance(value, str):
                form.add_field(name, value)
            else:
                form.add_field(name, orjson.dumps(value).decode(), content_type="application/json")
        return form

    def _read(self, body: bytes) -> Answer:
        text, pc_id = body.decode(errors="replace"), None
        if self._signalling.answer is SdpBody.JSON:
            try:
                value = orjson.loads(body)
            except orjson.JSONDecodeError:
                raise self._check.failure("expected a JSON object with 'sdp'", text) from None
            sdp = value.get("sdp") if isinstance(value, dict) else None
            if not isinstance(sdp, str):
                kind = FailureKind.BUSY if _BUSY in text else FailureKind.SDP_REFUSED
                raise self._check.failure("expected a JSON object with 'sdp'", text, kind)
            name = value.get("pc_id")
            text, pc_id = sdp, name if isinstance(name, str) else None
        return Answer(text, self._check.codec_of(text), pc_id)


class AnswerCheck:
    """Check the answers of an endpoint.

    Args:
        address: The endpoint's address, for messages.
        channel: Label of the data channel that the endpoint must accept, or None.
    """

    def __init__(self, address: Address, channel: str | None) -> None:
        self._address = address
        self._channel = channel

    def codec_of(self, sdp: str) -> Codec:
        """Return the best codec that an answer accepts.

        Raises:
            ConnectError: The answer is not a session description, has no audio, or accepts none of our
                codecs.
        """
        counts = {kind: sdp.count(f"\n{kind}") for kind in _COUNTED}
        if len(sdp) > _SDP_CHARACTERS or max(counts.values()) > _MOST_LINES:
            found = ", ".join(f"{number} {kind!r} lines" for kind, number in counts.items())
            why = (
                f"expected a session description of at most {_SDP_CHARACTERS} characters, and at most "
                f"{_MOST_LINES} lines of a kind, got {len(sdp)} characters with {found}"
            )
            raise self.failure(why, sdp)
        try:
            media = SessionDescription.parse(sdp).media
        except Exception as error:  # aiortc's parser raises many exception types for malformed lines
            why = f"expected a session description (SDP; {type(error).__name__}: {error})"
            raise self.failure(why, sdp) from None
        audio = next((section for section in media if section.kind == "audio"), None)
        if audio is None:
            raise self.failure("expected a session description with an audio section", sdp)
        if self._channel is not None and not any(
            section.kind == "application" and section.port for section in media
        ):
            why = f"expected a session description that accepts the data channel {self._channel!r}"
            raise self.failure(why, sdp)
        accepted = {codec.mimeType.lower() for codec in audio.rtp.codecs}
        best = next((codec for name, codec in RTC_CODECS.items() if name in accepted), None)
        if best is None or audio.port == 0:
            raise self._address.failure(FailureKind.CODEC_REFUSED, _no_codec(audio))
        if audio.direction not in ("recvonly", "sendrecv"):
            why = f"expected an answer that receives the client's audio, got {audio.direction!r}"
            raise self._address.failure(FailureKind.SDP_REFUSED, why)
        return best

    def failure(self, expected: str, came: str, kind: FailureKind = FailureKind.SDP_REFUSED) -> ConnectError:
        """Return the failure of a session with an unusable answer."""
        begin = " ".join(self._address.hide(came).split())[:_SHOWN_CHARACTERS]
        return self._address.failure(kind, f"{expected}, got: {begin or '(nothing)'}")


def _no_codec(audio: MediaDescription) -> str:
    ours = ", ".join(name.partition("/")[2] for name in RTC_CODECS)
    theirs = ", ".join(codec.name for codec in audio.rtp.codecs) or "no codec"
    if audio.port == 0:
        return f"expected an answer that accepts audio (as {ours}), got a rejected section (port 0)"
    return f"expected one of the codecs {ours}, got {theirs}"
