"""The end of an HTTP message, compared with h11."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_eval.http.messages import Body, FramingError, Head

HEADS = (
    b"Content-Length: 7",
    b"Content-Length: 0",
    b"Transfer-Encoding: chunked",
    b"X: y",
    b"Transfer-Encoding: gzip",
    b"Content-Length: 7x",
)
PIECES = st.sampled_from(
    [
        b"0\r\n",
        b"3\r\n",
        b"abc",
        b"\r\n",
        b"\n",
        b"a;b=c\r\n",
        b"0123456789",
        b"T: x\r\n",
        b"0\r\n\r\n",
        b"g\r\n",
    ]
)


def head(*lines: bytes) -> Head:
    return Head.read(b"\r\n".join((b"POST / HTTP/1.1", *lines)) + b"\r\n\r\n")


def test_a_version_is_not_read_from_a_path() -> None:
    lines = b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert Body.after(Head.read(b"POST / HTTP/1.1" + lines)) is not None
    assert Body.after(Head.read(b"HTTP/1.1 200 HTTP/1.0" + lines)) is not None
    with pytest.raises(FramingError, match=r"and HTTP/1\.1"):
        Body.after(Head.read(b"POST /HTTP/1.1 HTTP/1.0" + lines))


def ours(line: bytes, data: bytes, step: int) -> tuple[str, int]:
    """Return how a body ended, and its size in bytes."""
    length = 0
    try:
        body = Body.after(head(line)) or Body(0)
        for at in range(0, len(data), step):
            length += len(body.take(data[at : at + step]))
    except FramingError:
        return "refused", 0
    return ("ended", length) if body.ended else ("incomplete", 0)


def theirs(line: bytes, data: bytes) -> tuple[str, int]:
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(b"POST / HTTP/1.1\r\nHost: x\r\n" + line + b"\r\n\r\n" + data)
    try:
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                return "incomplete", 0
            if isinstance(event, h11.EndOfMessage):
                return "ended", len(data) - len(connection.trailing_data[0])
    except h11.RemoteProtocolError:
        return "refused", 0


@given(st.sampled_from(HEADS), st.lists(PIECES, max_size=12).map(b"".join), st.integers(1, 7))
def test_h11_sees_the_same_end_or_we_refuse(line: bytes, data: bytes, step: int) -> None:
    found = ours(line, data, step)
    if found[0] == "ended":
        assert found == theirs(line, data)
    assert found == ours(line, data, max(1, len(data)))


@pytest.mark.parametrize(
    ("line", "data", "rest"),
    [
        (b"Content-Length: 2", b"okGET", b"GET"),
        (b"Transfer-Encoding: Chunked", b"2;a=b\r\nok\r\n000\r\nT: x\r\n\r\nGET", b"GET"),
        (b"X: y", b"GET", b"GET"),
    ],
)
def test_what_follows_a_body_is_not_part_of_it(line: bytes, data: bytes, rest: bytes) -> None:
    body = Body.after(head(line)) or Body(0)
    assert data.removeprefix(body.take(data)) == rest
    assert body.ended
    assert body.take(b"more") == b""


def test_headers_are_listed_and_rewritten() -> None:
    found = head(b"Connection: keep-alive, Upgrade", b"CONNECTION: x", b"Host: a")
    assert found.lists(b"connection", b"upgrade")
    assert not found.lists(b"connection", b"grade")
    assert found.values(b"host") == [b"a"]
    written = found.write((b"connection",), b"Connection: close")
    assert written == b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    "line", [b" folded", b"Name : x", b"no colon", b": x", b"X: a\0", b"X: a\rb", b"X: a\nb"]
)
def test_a_malformed_header_is_refused(line: bytes) -> None:
    with pytest.raises(FramingError):
        head(line)
