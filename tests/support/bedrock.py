"""An imitation of Bedrock: HTTP/2 over TLS, and event streams that Amazon's own code encodes and decodes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pybase64
import trustme

__all__ = ["Answer", "Bedrock", "Refused", "Sonic", "serving_bedrock"]

Answer: TypeAlias = Callable[[dict[str, Any]], Iterable[dict[str, Any] | Exception]]
"""Return the events that answer an event; an exception ends the stream."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An HTTP error instead of a stream."""

    status: int
    name: str
    message: str


@dataclass(slots=True)
class Bedrock:
    """What the clients sent."""

    url: str
    authorities: Path
    headers: list[dict[str, str]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    signatures: int = 0


@asynccontextmanager
async def serving_bedrock(
    folder: Path, answers: Callable[[], Answer], *, refused: Refused | None = None, alpn: str = "h2"
) -> AsyncIterator[Bedrock]:
    """Serve until the block ends; every connection is a session with a separate answer."""
    authority = trustme.CA()
    authorities = folder / "authorities.pem"
    authority.cert_pem.write_to_path(str(authorities))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    tls.set_alpn_protocols([alpn])
    bedrock = Bedrock("", authorities)

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await _Connection(bedrock, answers(), refused, writer).serve(reader)
        writer.close()

    async with await asyncio.start_server(serve_one, "127.0.0.1", 0, ssl=tls) as server:
        bedrock.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield bedrock


class Sonic:
    """A model that answers 250 ms after the user's last loud frame."""

    def __init__(self) -> None:
        self._loud = self._quiet = 0

    def __call__(self, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the model's responses to an event."""
        if "audioInput" not in event:
            return
        pcm = np.frombuffer(pybase64.b64decode(event["audioInput"]["content"]), "<i2")
        is_loud = bool(np.abs(pcm).max(initial=0) > 300)
        self._loud += is_loud
        self._quiet = 0 if is_loud else self._quiet + 1
        if self._loud >= 5 and self._quiet == 12:
            self._loud = 0
            yield {"completionStart": {}}
            yield from self._text("USER", "FINAL", "Hello.", "END_TURN")
            yield from self._text("ASSISTANT", "SPECULATIVE", "A tone.", "PARTIAL_TURN")
            yield {"contentStart": {"type": "AUDIO", "role": "ASSISTANT"}}
            wave = 9_000 * np.sin(2 * np.pi * 440 / 24_000 * np.arange(9_600))
            for piece in np.split(wave.astype("<i2"), 6):
                yield {"audioOutput": {"content": pybase64.b64encode_as_string(piece.tobytes())}}
            yield {"contentEnd": {"stopReason": "END_TURN"}}
            yield from self._text("ASSISTANT", "FINAL", "A tone.", "END_TURN")

    def _text(self, role: str, stage: str, text: str, reason: str) -> Iterator[dict[str, Any]]:
        fields = json.dumps({"generationStage": stage})
        yield {"contentStart": {"type": "TEXT", "role": role, "additionalModelFields": fields}}
        yield {"textOutput": {"content": text}}
        yield {"contentEnd": {"stopReason": reason}}


class _Connection:
    def __init__(
        self, bedrock: Bedrock, answer: Answer, refused: Refused | None, writer: asyncio.StreamWriter
    ) -> None:
        from h2.config import H2Configuration
        from h2.connection import H2Connection

        self._bedrock, self._answer, self._refused, self._writer = bedrock, answer, refused, writer
        self._http = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._received = self._unsent = b""
        self._responded = self._ended = False
        self._stream_id = 0

    async def serve(self, reader: asyncio.StreamReader) -> None:
        from h2 import events

        self._http.initiate_connection()
        await self._flush()
        while data := await reader.read(65_536):
            for event in self._http.receive_data(data):
                if isinstance(event, events.RequestReceived):
                    self._stream_id = event.stream_id
                    self._bedrock.headers.append(dict(event.headers))
                    if self._refused is not None:
                        self._refuse(self._refused)
                elif isinstance(event, events.DataReceived):
                    self._http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    self._received += event.data
                    if not self._ended:
                        self._read()
                elif isinstance(event, events.StreamEnded) and not self._ended:
                    self._respond()
                    self._ended = True
            if self._responded:
                self._send()
            await self._flush()

    def _send(self) -> None:
        """Send what the client's flow control permits."""
        http, stream_id = self._http, self._stream_id
        while self._unsent and (size := min(http.local_flow_control_window(stream_id), 16_000)):
            http.send_data(stream_id, self._unsent[:size])
            self._unsent = self._unsent[size:]
        if self._ended and not self._unsent:
            http.end_stream(stream_id)
            self._responded = False

    async def _flush(self) -> None:
        self._writer.write(self._http.data_to_send())
        await self._writer.drain()

    def _refuse(self, refused: Refused) -> None:
        headers = {"content-type": "application/json", "x-amzn-errortype": refused.name}
        self._http.send_headers(self._stream_id, [(":status", str(refused.status)), *headers.items()])
        body = json.dumps({"message": refused.message}).encode()
        self._http.send_data(self._stream_id, body, end_stream=True)
        self._ended = True

    def _read(self) -> None:
        from smithy_aws_event_stream.events import Event

        while not self._ended and len(self._received) >= 4:
            length = int.from_bytes(self._received[:4], "big")
            if len(self._received) < length:
                return
            whole, self._received = self._received[:length], self._received[length:]
            signed = Event.decode(BytesIO(whole))
            assert signed is not None
            self._bedrock.signatures += ":chunk-signature" in signed.message.headers
            if not signed.message.payload:
                continue  # the signed end of the stream
            inner = Event.decode(BytesIO(signed.message.payload))
            assert inner is not None
            assert inner.message.headers[":event-type"] == "chunk"
            part = json.loads(inner.message.payload)
            event = json.loads(pybase64.b64decode(part["bytes"]))["event"]
            self._bedrock.events.append(event)
            self._respond()
            for said in self._answer(event):
                self._say(said)

    def _say(self, said: dict[str, Any] | Exception) -> None:
        from smithy_aws_event_stream.events import EventMessage

        self._respond()
        kinds = {":content-type": "application/json"}
        if isinstance(said, Exception):
            name, message = said.args
            kinds |= {":message-type": "exception", ":exception-type": name}
            payload = {"message": message}
        else:
            kinds |= {":message-type": "event", ":event-type": "chunk"}
            payload = {"bytes": pybase64.b64encode_as_string(json.dumps({"event": said}).encode())}
        sent = EventMessage(headers=kinds, payload=json.dumps(payload).encode()).encode()
        self._unsent += sent
        self._ended |= isinstance(said, Exception)

    def _respond(self) -> None:
        if not self._responded:
            self._responded = True
            kind = "application/vnd.amazon.eventstream"
            self._http.send_headers(self._stream_id, [(":status", "200"), ("content-type", kind)])
