"""Bidirectional streams of Amazon Bedrock, through Amazon's SDK (``aws-sdk-bedrock-runtime``).

The SDK signs and encodes the events, and awscrt sends them over HTTP/2. A message is the JSON of an event; an
exception of the service is the message ``{"exception": {"type", "message"}}``, which ends the connection; the
headers of the response are the message ``{"response": {}}``.
Arrivals are stamped in this process, when their bytes have left awscrt's thread. Proxies from the environment
are not used.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import re
import ssl
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, Self

import orjson

from live_eval.clients.transports._http_errors import Address
from live_eval.clock import Clock
from live_eval.dialect import Dial, Message
from live_eval.errors import FailureKind, PluginError, TransportClosedError
from live_eval.extras import install_command
from live_eval.transport import Arrival

try:
    from aws_sdk_bedrock_runtime import models
    from aws_sdk_bedrock_runtime.client import AsyncBedrockRuntimeClient
    from aws_sdk_bedrock_runtime.config import AsyncBedrockRuntimeConfig
    from awscrt import http, io
    from awscrt.aio.http import AIOHttpClientConnectionUnified
    from awscrt.exceptions import AwsCrtError
    from smithy_core.exceptions import CallError, SmithyError
    from smithy_http import Field, Fields
    from smithy_http.aio.crt import AWSCRTHTTPResponse
except ImportError as error:
    here = platform.python_version()
    python = f"Python 3.12 or newer, this is {here}, and " if sys.version_info < (3, 12) else ""
    needs = f"Nova Sonic needs {python}Amazon's SDK: {install_command('nova-sonic')} ({error})"
    raise PluginError(needs) from None

__all__ = ["BedrockTransport"]

_CLOSE_S = 2.0
_SHAPE = re.compile(r"#(\w+)$")
_KINDS = {
    "AWS_IO_SOCKET_CONNECTION_REFUSED": FailureKind.CONNECTION_REFUSED,
    "AWS_IO_SOCKET_TIMEOUT": FailureKind.CONNECT_TIMEOUT,
}


class BedrockTransport:
    """A `Transport` over one bidirectional stream.

    The steps in `setup_ns` are ``tls`` (the connection) and ``stream`` (the request, without its response).

    Args:
        clock: Clock for arrival timestamps.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._setup_ns: dict[str, int] = {}
        self._arrivals: asyncio.Queue[Arrival | None] = asyncio.Queue()
        self._end: TransportClosedError | None = None
        self._reader: asyncio.Task[None] | None = None
        self._http: _Http | None = None
        self._address: Address  # set by `connect`, like the next attribute
        self._stream: Any

    @property
    def track(self) -> None:
        """Always None: audio is sent in messages."""

    @property
    def setup_ns(self) -> Mapping[str, int]:
        """The duration of each setup step, by name."""
        return self._setup_ns

    async def load(self, dial: Dial) -> None:
        """Load the trust store."""
        await asyncio.to_thread(_tls, os.environ.get("SSL_CERT_FILE"))

    async def connect(self, dial: Dial, timeout_s: float) -> None:
        """Open the connection and the stream; the endpoint responds only after the first events.

        Raises:
            ConnectError: The connection could not be opened.
        """
        self._address = address = Address(dial, ("https",))
        if "aws_secret_access_key" not in dial.sdk or "aws_access_key_id" not in dial.sdk:
            why = "expected AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
            raise address.failure(FailureKind.NO_KEY, why)
        start_ns = self._clock.now_ns()
        try:
            self._http = await _Http.connect(address, self._clock, timeout_s)
            opened_ns = self._clock.now_ns()
            async with asyncio.timeout(timeout_s):
                self._stream = await _stream(self._http, address, dial.sdk)
        except TimeoutError as error:
            await self.close()
            raise address.unreachable(await _tls_error(address) or error, timeout_s) from None
        except AwsCrtError as error:
            tls = FailureKind.TLS if "_TLS_" in error.name else FailureKind.CONNECT_FAILED
            kind = _KINDS.get(error.name, tls)
            raise address.failure(kind, f"{error.message} ({error.name})") from None
        except SmithyError as error:
            await self.close()
            raise address.failure(FailureKind.CONNECT_FAILED, str(error)) from None
        self._setup_ns = {"tls": opened_ns - start_ns, "stream": self._clock.now_ns() - opened_ns}
        self._reader = asyncio.create_task(self._read())

    async def send(self, message: Message) -> None:
        """Sign and send an event.

        Raises:
            TransportClosedError: The connection has ended.
        """
        if self._end is not None:
            raise self._end
        data = message.encode() if isinstance(message, str) else message
        part = models.BidirectionalInputPayloadPart(bytes_=data)
        try:
            await self._stream.input_stream.send(models.InvokeModelWithBidirectionalStreamInputChunk(part))
        except OSError as error:
            raise self._ended(str(error)) from None

    async def receive(self) -> Arrival:
        """Wait for the next event.

        Raises:
            TransportClosedError: The connection has ended, and all events have been returned.
        """
        arrival = await self._arrivals.get()
        if arrival is not None:
            return arrival
        self._arrivals.put_nowait(None)
        assert self._end is not None
        raise self._end

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """End the stream, wait a moment for the endpoint to end it too, and close the connection."""
        self._end = self._end or TransportClosedError(code, reason, self._clock.now_ns())
        if self._reader is not None:
            with contextlib.suppress(OSError, SmithyError, TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    await self._stream.input_stream.close()
            await asyncio.wait((self._reader,), timeout=_CLOSE_S)
            self._reader.cancel()
        self._arrivals.put_nowait(None)
        if self._http is not None:
            with contextlib.suppress(AwsCrtError, TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    await self._http.close()

    async def _read(self) -> None:
        """Queue the events until the stream ends."""
        assert self._http is not None
        why = "the endpoint ended the stream"
        try:
            _, events = await self._stream.await_output()
            self._tell('{"response":{}}')
            while (event := await events.receive()) is not None:
                data = getattr(event.value, "bytes_", None)
                if data is not None:
                    self._tell(data.decode(errors="replace"))
        except CallError as error:
            said, name = self._address.hide(error.message), type(error).__name__
            if type(error) is CallError and (found := _SHAPE.search(said)):  # an error of every AWS service
                name = found[1]
            self._tell(orjson.dumps({"exception": {"type": name, "message": said}}).decode())
        except Exception as error:  # the SDK raises many kinds of errors for invalid events
            cause = error.__cause__ or error
            why = f"the stream broke: {type(cause).__name__}: {cause}"
        finally:
            self._ended(why)

    def _tell(self, message: str) -> None:
        assert self._http is not None
        self._arrivals.put_nowait(Arrival(message, self._http.at_ns))

    def _ended(self, why: str) -> TransportClosedError:
        now_ns = self._clock.now_ns()
        self._end = self._end or TransportClosedError(None, self._address.hide(why), now_ns)
        self._arrivals.put_nowait(None)
        return self._end


async def _stream(http_client: _Http, address: Address, parameters: Mapping[str, str]) -> Any:
    """Open a stream with the SDK; it does not wait for the response."""
    known = dict(parameters)
    model_id = known.pop("model_id")
    config = await AsyncBedrockRuntimeConfig.resolve(
        endpoint_uri=f"https://{address.url.netloc}", max_attempts=1, transport=http_client, **known
    )
    client = AsyncBedrockRuntimeClient(config=config)
    asked = models.InvokeModelWithBidirectionalStreamOperationInput(model_id=model_id)
    return await client.invoke_model_with_bidirectional_stream(asked)


class _Http:
    """The SDK's HTTP client for one connection, which is open before the SDK uses it.

    smithy's own client connects on the first request, in a task whose failure the caller cannot see.

    Attributes:
        at_ns: When the last bytes arrived.
    """

    SUPPORTS_DUPLEX_STREAMING = True
    TIMEOUT_EXCEPTIONS = ()

    def __init__(self, connection: Any, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._stream: Any  # set by `send`, like the next attribute
        self._done: asyncio.Future[int]
        self.at_ns = clock.now_ns()

    @classmethod
    async def connect(cls, address: Address, clock: Clock, timeout_s: float) -> Self:
        """Connect with TLS and HTTP/2.

        Raises:
            AwsCrtError: The connection failed.
            ConnectError: The server does not support HTTP/2.
            TimeoutError: It took too long; awscrt also delays the report of an invalid certificate.
        """
        context = await asyncio.to_thread(_tls, os.environ.get("SSL_CERT_FILE"))
        tls = context.new_connection_options()
        tls.set_server_name(address.host)
        port = address.url.port or 443
        new = AIOHttpClientConnectionUnified.new(address.host, port, tls_connection_options=tls)
        opening = asyncio.ensure_future(new)
        if opening not in (await asyncio.wait((opening,), timeout=timeout_s))[0]:
            opening.add_done_callback(_forget)  # awscrt cannot cancel it
            raise TimeoutError
        connection = opening.result()
        if connection.version is not http.HttpVersion.Http2:
            await connection.close()
            raise address.failure(FailureKind.HANDSHAKE, "expected a server with HTTP/2")
        return cls(connection, clock)

    def __deepcopy__(self, memo: object) -> Self:
        return self

    async def send(self, request: Any, *, request_config: object = None) -> Any:
        """Send a request and return its response, whose body is still arriving."""
        place, fields = request.destination, request.fields
        sent = [(field.name, value) for field in fields for value in field.values]
        path = place.path + (f"?{place.query}" if place.query else "")
        asked = http.HttpRequest(request.method, path, http.HttpHeaders([("host", place.netloc), *sent]))
        self._stream = self._connection.request(asked, request_body_generator=request.body)
        self._done = asyncio.ensure_future(self._stream.wait_for_completion())
        self._done.add_done_callback(_retrieve)
        if (writer := getattr(self._stream, "_writer", None)) is not None:
            writer.add_done_callback(_retrieve)  # awscrt's task fails if the endpoint ends the stream first
        answered = asyncio.ensure_future(self._stream.get_response_headers())
        await asyncio.wait((self._done, answered), return_when=asyncio.FIRST_COMPLETED)
        if not answered.done():  # awscrt does not end this wait
            answered.cancel()
            self._done.result()  # raises
        self.at_ns = self._clock.now_ns()
        found = Fields(Field(name=name, values=[value]) for name, value in answered.result())
        status = await self._stream.get_response_status_code()
        return AWSCRTHTTPResponse(status=status, fields=found, stream=self)

    async def get_next_response_chunk(self) -> bytes:
        """Return the next bytes of the response, empty at its end, and note when they arrived.

        Raises:
            AwsCrtError: The connection was lost.
        """
        chunk: bytes = await self._stream.get_next_response_chunk()
        self.at_ns = self._clock.now_ns()
        if not chunk and self._done.done():
            self._done.result()  # raises
        return chunk

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()


@cache
def _tls(authorities: str | None) -> Any:
    """Return TLS settings with the system's trust store or this file, like those of the other transports."""
    options = io.TlsContextOptions()
    options.alpn_list = ["h2"]
    if authorities:
        options.override_default_trust_store_from_path(ca_filepath=authorities)
    return io.ClientTlsContext(options)


async def _tls_error(address: Address) -> ssl.SSLError | None:
    """Return the error of a handshake by Python's TLS, or None; awscrt delays its report by 10 s or more."""
    trusted = await asyncio.to_thread(
        ssl.create_default_context, cafile=os.environ.get("SSL_CERT_FILE") or None
    )
    trusted.set_alpn_protocols(["h2"])
    try:
        async with asyncio.timeout(_CLOSE_S):
            _, writer = await asyncio.open_connection(address.host, address.url.port or 443, ssl=trusted)
    except ssl.SSLError as error:
        return error
    except OSError:  # it includes a timeout
        return None
    writer.close()
    return None


def _retrieve(task: asyncio.Future[Any]) -> bool:
    """Retrieve the exception of a task that nobody awaits; return whether it succeeded."""
    return not task.cancelled() and task.exception() is None


def _forget(opening: asyncio.Future[Any]) -> None:
    """Close a connection that opened too late."""
    if _retrieve(opening):
        opening.get_loop().create_task(opening.result().close())
