"""Reads never extend past the end of a frame."""

import random

import pytest

from live_eval.sockets.framing import Framing, TlsFraming, WebSocketFraming
from live_eval.sockets.stamps import Stamp
from live_eval.types import StampKind

HEAD = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"


def frame(payload: bytes, *, opcode: int = 1, final: bool = True, mask: bool = False) -> bytes:
    """Return a WebSocket frame; its mask is arbitrary."""
    second = 0x80 if mask else 0
    first = bytes([opcode | (0x80 if final else 0)])
    if len(payload) < 126:
        length = bytes([second | len(payload)])
    elif len(payload) < 65_536:
        length = bytes([second | 126]) + len(payload).to_bytes(2)
    else:
        length = bytes([second | 127]) + len(payload).to_bytes(8)
    return first + length + (b"mask" if mask else b"") + payload


def read(framing: Framing, data: bytes, short: random.Random | None = None) -> list[tuple[bytes, int]]:
    """Read a stream like a transport; return its frames, and the index of the read that completed each.

    Args:
        framing: The framing.
        data: The stream.
        short: Random source that shortens the available data, like a network; None to read everything at
            once.
    """
    frames, partial, rest, reads = [], b"", 0, 0
    there = data if short is None else b""
    while data:
        if short is not None:
            there = data[: max(len(there), short.randint(1, 8))]
        size = rest
        if not rest and (size := framing.size(partial + there[: framing.look])):
            size -= len(partial)
        part = there[: size or framing.look]
        data, there, partial, reads = data[len(part) :], there[len(part) :], partial + part, reads + 1
        rest = max(0, size - len(part))
        if size and not rest:
            framing.ended(Stamp(reads, StampKind.KERNEL))
            frames.append((partial, reads))
            partial = b""
    assert not partial
    return frames


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("mask", [False, True])
def test_each_websocket_frame_is_read_separately(mask: bool, seed: int | None) -> None:
    sizes = (0, 1, 125, 126, 1_300) if seed else (0, 1, 125, 126, 1_300, 65_535, 65_536)
    sent = [frame(bytes(size), mask=mask) for size in sizes]
    short = None if seed is None else random.Random(seed)
    framing = WebSocketFraming(keeps_stamps=True)
    frames = read(framing, b"".join(sent), short)
    assert [data for data, _ in frames] == sent
    assert [stamp.at_ns for stamp in framing.stamps] == [at for _, at in frames]


def test_a_message_has_the_stamp_of_its_last_fragment_and_control_frames_have_none() -> None:
    framing = WebSocketFraming(keeps_stamps=True)
    sent = [frame(b"fir", final=False), frame(b"", opcode=9), frame(b"st", opcode=0), frame(b"", opcode=8)]
    frames = read(framing, b"".join(sent))
    assert [stamp.at_ns for stamp in framing.stamps] == [frames[2][1]]


@pytest.mark.parametrize("seed", [None, 3])
def test_frames_begin_right_after_the_head_of_the_answer(seed: int | None) -> None:
    short = None if seed is None else random.Random(seed)
    sent = [HEAD, frame(b"\r\n\r\n"), frame(b"next")]
    framing = WebSocketFraming(after_head=True, keeps_stamps=True)
    frames = [data for data, _ in read(framing, b"".join(sent), short)]
    assert b"".join(frames[:-2]) == sent[0]
    assert frames[-2:] == sent[1:]
    assert len(framing.stamps) == 2


def test_a_refusal_is_read_without_framing() -> None:
    framing = WebSocketFraming(after_head=True)
    head = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 3\r\n\r\n"
    assert [data for data, _ in read(framing, head + b"\x81\x7e\xff")] == [head, b"\x81\x7e\xff"]


@pytest.mark.parametrize("seed", [None, 4])
def test_each_tls_record_is_read_separately(seed: int | None) -> None:
    sent = [b"\x17\x03\x03" + size.to_bytes(2) + bytes(size) for size in (1, 300, 16_384, 0, 5)]
    short = None if seed is None else random.Random(seed)
    assert [data for data, _ in read(TlsFraming(), b"".join(sent), short)] == sent
