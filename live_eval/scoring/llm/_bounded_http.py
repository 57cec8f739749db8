"""HTTP client for chat endpoints that limits response sizes and refuses compression and redirects."""

from __future__ import annotations

from typing import Any

from openai import DefaultAsyncHttpxClient

__all__ = ["BoundedClient"]

_MOST_ANSWER_BYTES = 4 << 20
"""The size limit for a response: about a million tokens of text."""

_MOST_REFUSAL_BYTES = 64 << 10
_PLAIN = ("", "identity")
# headers that describe the body as transferred rather than as decoded
_TRANSFER = ("content-encoding", "content-length", "transfer-encoding")


class BoundedClient(DefaultAsyncHttpxClient):
    """A client that limits response sizes and follows no redirects.

    The request, with its prompt and key, is sent only to the given address. Compressed responses are
    rejected, because a few kilobytes can decode to gigabytes. The caller must set the overall timeout
    (`asyncio.timeout`), because this client's timeouts restart with each read.
    """

    def __init__(self) -> None:
        super().__init__(headers={"Accept-Encoding": "identity"}, follow_redirects=False)

    async def send(self, request: Any, **options: Any) -> Any:
        """Send a request, and read the full response or the start of an error response.

        Raises:
            ValueError: The response is compressed or longer than `_MOST_ANSWER_BYTES`.
        """
        options |= {"stream": True, "follow_redirects": False}
        response = await super().send(request, **options)
        try:
            body = await _body(response)
        finally:
            await response.aclose()
        headers = [pair for pair in response.headers.multi_items() if pair[0].lower() not in _TRANSFER]
        whole = type(response)(
            response.status_code,
            headers=headers,
            content=body,
            request=request,
            extensions=response.extensions,
        )
        whole.encoding = "utf-8"  # a charset such as `zip` would decompress the body
        return whole


async def _body(response: Any) -> bytes:
    encoding = response.headers.get("content-encoding", "")
    plain = encoding.strip().lower() in _PLAIN
    if not response.is_success:
        return await _beginning(response, _MOST_REFUSAL_BYTES) if plain else b""
    if not plain:
        raise ValueError(f"its Content-Encoding is {encoding[:40]!r}, but only 'identity' is accepted")
    body = await _beginning(response, _MOST_ANSWER_BYTES + 1)
    if len(body) > _MOST_ANSWER_BYTES:
        raise ValueError(f"the answer is longer than {_MOST_ANSWER_BYTES} bytes")
    return body


async def _beginning(response: Any, limit: int) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk[: limit - len(body)]
        if len(body) >= limit:
            break
    return bytes(body)
