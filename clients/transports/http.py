"""Send each message as an HTTP POST request and receive the response as messages.

A ``text/event-stream`` response becomes one message per event, delivered when the event's last byte arrives.
Any other response is split at NUL bytes, which model workers derived from FastChat send after each piece, and
which JSON cannot contain. An empty message follows the last one of a response.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping

import aiohttp

from live_eval.clients.transports._http_client import failure_of, http_session, read_body, request_url
from live_eval.clients.transports._http_errors import Address, load_system_tls
from live_eval.clock import Clock
from live_eval.dialect import Dial, Message
from live_eval.errors import ConnectError, FailureKind, TransportClosedError
from live_eval.impair import Impairment
from live_eval.transport import Arrival

__all__ = ["EventStream", "HttpTransport"]

_MOST_BYTES = 16 << 20
_EVENTS = "text/event-stream"
_LINE_END = re.compile(rb"\r\n|\n|\r")


class HttpTransport:
    """A `Transport` that sends sequential requests to an endpoint.

    Redirects are not followed, since the headers contain the key.

    Args:
        clock: Clock for arrival timestamps.
        impairment: Impairment of the bytes of each open connection, or None.
    """

    def __init__(self, clock: Clock, *, impairment: Impairment | None = None) -> None:
        self._clock = clock
        self._impairment = impairment
        self._http: aiohttp.ClientSession | None = None
        self._worker: asyncio.Task[None] | None = None
        self._requests: asyncio.Queue[Message] = asyncio.Queue()
        self._arrivals: asyncio.Queue[Arrival | None] = asyncio.Queue()
        self._end: TransportClosedError | None = None

    @property
    def track(self) -> None:
        """Always None: audio is sent in messages."""

    @property
    def setup_ns(self) -> Mapping[str, int]:
        """Always empty: each request opens its own connection, so the request time includes the setup."""
        return {}

    async def load(self, dial: Dial) -> None:
        """Load the system's trust store if `dial` uses TLS."""
        await load_system_tls(dial)

    async def connect(self, dial: Dial, timeout_s: float) -> None:
        """Prepare for requests; nothing is sent yet.

        Args:
            dial: URL and headers of the requests.
            timeout_s: Connection timeout of each request, in seconds.

        Raises:
            ConnectError: The URL or a header is invalid.
        """
        address = Address(dial, ("https", "http"))
        self._http = await http_session(address, self._clock, self._impairment)
        self._worker = asyncio.create_task(self._work(self._http, address, dial, timeout_s))

    async def send(self, message: Message) -> None:
        """Queue a message, which is POSTed after earlier requests have been answered.

        Raises:
            TransportClosedError: An earlier request failed, or the transport is closed.
        """
        if self._worker is None:
            raise RuntimeError("the transport is not connected: await connect() first")
        if self._end is not None:
            raise self._end
        self._requests.put_nowait(message)

    async def receive(self) -> Arrival:
        """Wait for the next message; its timestamp is the arrival of its last byte.

        Raises:
            TransportClosedError: A request failed or the transport is closed, and all messages have been
                returned. The exception contains the failure kind and a reason.
        """
        arrival = await self._arrivals.get()
        if arrival is not None:
            return arrival
        self._arrivals.put_nowait(None)
        if self._end is None:
            assert self._worker is not None
            await self._worker  # raises the internal error that ended the task
        assert self._end is not None
        raise self._end

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Cancel the current request and close; do nothing if already closed. Never raises."""
        self._ended(TransportClosedError(code, f"closed by the client: {reason}", self._clock.now_ns()))
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait((self._worker,))
        if self._http is not None:
            with contextlib.suppress(aiohttp.ClientError, OSError):
                await self._http.close()

    def _ended(self, end: TransportClosedError) -> None:
        self._end = self._end or end
        self._arrivals.put_nowait(None)

    async def _work(
        self, http: aiohttp.ClientSession, address: Address, dial: Dial, timeout_s: float
    ) -> None:
        """Send the requests in order until one fails."""
        try:
            while self._end is None:
                await self._request(http, address, dial, await self._requests.get(), timeout_s)
        except ConnectError as error:
            self._ended(self._failed(error.kind, error.message, error.retry_after_s))
        except TransportClosedError as error:
            self._ended(error)
        except (aiohttp.ClientError, OSError) as error:
            failure = failure_of(error, address, timeout_s)
            self._ended(self._failed(failure.kind, failure.message))
        finally:
            self._arrivals.put_nowait(None)

    async def _request(
        self, http: aiohttp.ClientSession, address: Address, dial: Dial, message: Message, timeout_s: float
    ) -> None:
        async with http.post(
            request_url(dial),
            data=message.encode() if isinstance(message, str) else message,
            # Compression would delay bytes until a block is complete.
            headers={**dial.headers, "Accept-Encoding": "identity"},
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, connect=timeout_s),
        ) as response:
            if not 200 <= response.status < 300:
                raise address.refused(
                    response.status,
                    response.reason or "",
                    response.headers,
                    await read_body(response, timeout_s),
                    expected="a response with HTTP status 200",
                    otherwise=FailureKind.ENDPOINT_ERROR,
                    wall_ns=self._clock.wall_ns(),
                )
            await self._read(response, address)

    async def _read(self, response: aiohttp.ClientResponse, address: Address) -> None:
        """Read the body as it arrives."""
        pieces = EventStream() if response.content_type == _EVENTS else _NulSeparated()
        length, at_ns = 0, self._clock.now_ns()
        try:
            async for chunk in response.content.iter_any():
                at_ns = self._clock.now_ns()
                if not length and chunk.lstrip().startswith(b"<"):
                    why = "expected the response of a model, got a web page: check the base URL"
                    raise address.failure(FailureKind.HANDSHAKE, why)
                length += len(chunk)
                if length > _MOST_BYTES:
                    text = f"expected a response of at most {_MOST_BYTES} bytes, got at least {length}"
                    raise self._failed(FailureKind.MESSAGE_TOO_BIG, f"{address.where}: {text}")
                self._tell(pieces.push(chunk), at_ns)
        except (aiohttp.ClientError, OSError) as error:
            why = address.hide(str(error))
            text = f"{address.where}: the response was cut off after {length} bytes: {why}"
            raise TransportClosedError(None, text, self._clock.now_ns()) from None
        self._tell(pieces.finish(), at_ns)
        self._arrivals.put_nowait(Arrival("", self._clock.now_ns()))

    def _tell(self, messages: list[bytes], at_ns: int) -> None:
        for message in filter(None, messages):
            self._arrivals.put_nowait(Arrival(_text(message), at_ns))

    def _failed(
        self, kind: FailureKind, message: str, retry_after_s: float | None = None
    ) -> TransportClosedError:
        return TransportClosedError(
            None, message, self._clock.now_ns(), kind=kind, retry_after_s=retry_after_s
        )


class EventStream:
    """Split an event stream into the data of its events (WHATWG HTML, 9.2.6).

    ::

        stream = EventStream()
        stream.push(b'data: {"id":')  # []
        stream.push(b"1}\\n\\n")  # [b'{"id":1}']
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._data: list[bytes] = []

    def push(self, chunk: bytes) -> list[bytes]:
        """Add a chunk and return the data of the events that it completes."""
        self._pieces.append(chunk)
        if b"\n" not in chunk and b"\r" not in chunk and not self._pieces[0].endswith(b"\r"):
            return []
        text = b"".join(self._pieces)
        # A trailing carriage return may be the first half of a line break.
        whole = text[:-1] if text.endswith(b"\r") else text
        *lines, rest = _LINE_END.split(whole)
        self._pieces = [rest + text[len(whole) :]]
        return [data for line in lines for data in self._line(line)]

    def finish(self) -> list[bytes]:
        """Return the data of an unfinished event, since some servers omit the final empty line."""
        rest, self._pieces = b"".join(self._pieces).rstrip(b"\r"), []
        return [data for line in (rest, b"") for data in self._line(line)]

    def _line(self, line: bytes) -> list[bytes]:
        if not line:
            data, self._data = self._data, []
            return [b"\n".join(data)] if data else []
        name, _, value = line.removeprefix(b"\xef\xbb\xbf").partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        return []


class _NulSeparated:
    """Split a body at NUL bytes; a body without any is one piece."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def push(self, chunk: bytes) -> list[bytes]:
        """Add a chunk and return the pieces that it completes."""
        self._pieces.append(chunk)
        if b"\0" not in chunk:
            return []
        *whole, rest = b"".join(self._pieces).split(b"\0")
        self._pieces = [rest]
        return whole

    def finish(self) -> list[bytes]:
        """Return the last piece."""
        return [b"".join(self._pieces)]


def _text(message: bytes) -> Message:
    """Decode a message as UTF-8; return the bytes if it is not UTF-8."""
    try:
        return message.decode()
    except UnicodeDecodeError:
        return message
