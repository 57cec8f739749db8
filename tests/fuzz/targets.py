"""Fuzz targets: each takes any bytes and raises only if live-eval has a defect.

Errors that docstrings document (`LiveEvalError` and its subclasses) are valid results. Any other exception is
a defect, and so is unbounded time or memory.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import orjson

from live_eval import impair
from live_eval.audio import AudioFile, Codec, CodecName, ogg, read_audio
from live_eval.audio.codecs import Decoder, samples_in
from live_eval.audio.rtp import RtpPacket, RtpTrack
from live_eval.cassettes import read_cassette, write_cassette
from live_eval.clients.transports._http_errors import Address
from live_eval.clients.transports._webrtc_signalling import Signaller
from live_eval.clock import SystemClock
from live_eval.data import load
from live_eval.dialect import Dial, SdpBody, Signalling
from live_eval.errors import AudioError, ConnectError, DataError, LiveEvalError, UsageError
from live_eval.redaction import SECRETS
from live_eval.run.run_file import read_run_file, validate
from live_eval.sockets.framing import TlsFraming, WebSocketFraming
from tests.fuzz.dialect_target import converse, message_count
from tests.support.bundled import DIALECTS

__all__ = ["TARGETS", "Target", "messages_in"]

Target: TypeAlias = Callable[[bytes], None]

_MOST_PACKET_SAMPLES = 5_760
"""120 ms at 48 kHz: the longest packet of Opus."""


@functools.cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="live-eval-fuzz-"))


@contextlib.contextmanager
def _file(name: str, data: bytes) -> Iterator[Path]:
    """Write a temporary file."""
    path = _folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _run_file(data: bytes) -> None:
    with _file("run.toml", data) as path, contextlib.suppress(UsageError):
        validate(read_run_file(path), path)
    SECRETS.forget()


def _data_set(name: str, data: bytes) -> None:
    with _file(name, data) as path, contextlib.suppress(DataError, UsageError):
        for case in load(path).cases:
            assert case.case_id
            assert case.problem is None or case.problem.strip()


def _echomind(data: bytes) -> None:
    with _file("data_synthesis/script_info.json", data) as path, contextlib.suppress(DataError, UsageError):
        for case in load(path.parent.parent).cases:
            assert case.case_id


def _recording(suffix: str, data: bytes) -> None:
    with _file(f"recording.{suffix}", data) as path, contextlib.suppress(AudioError):
        found: AudioFile = read_audio(path)
        assert len(found.audio.samples)


def _with_checksums(data: bytes) -> bytes:
    """Return Ogg pages with correct checksums, which random mutation does not find."""
    repaired, at = bytearray(data), 0
    while (at := repaired.find(b"OggS", at)) != -1 and len(repaired) >= at + 27:
        segments = repaired[at + 27 : at + 27 + repaired[at + 26]]
        end = at + 27 + len(segments) + sum(segments)
        repaired[at + 22 : at + 26] = bytes(4)
        repaired[at + 22 : at + 26] = ogg._crc(bytes(repaired[at:end])).to_bytes(4, "little")
        at = max(end, at + 4)
    return bytes(repaired)


def _ogg(data: bytes) -> None:
    data = _with_checksums(data)
    whole = ogg.OggReader()
    with contextlib.suppress(AudioError):
        assert sum(map(len, whole.push(data))) <= len(data)
    pieces = ogg.OggReader()
    for at in range(0, len(data), 97):
        with contextlib.suppress(AudioError):
            list(pieces.push(data[at : at + 97]))
    codec = Codec(CodecName.OGG_OPUS, 48_000)
    assert samples_in(data, codec) >= 0
    with contextlib.suppress(AudioError):
        Decoder(codec).decode(data)


def _rtp(data: bytes) -> None:
    """Decode each 16 bytes as one packet."""
    codecs = (Codec(CodecName.OPUS, 48_000), Codec(CodecName.PCMU, 8_000))
    track, at_ns = RtpTrack(), 0
    for start in range(0, len(data) - 15, 16):
        head = data[start : start + 16]
        at_ns += int.from_bytes(head[9:12])
        packet = RtpPacket(
            at_ns=at_ns,
            sequence=int.from_bytes(head[:2]),
            timestamp=int.from_bytes(head[2:6]),
            payload=head[12:],
            codec=codecs[head[6] % 2],
            ssrc=head[7] % 3,
        )
        assert 0 <= samples_in(packet.payload, packet.codec) <= _MOST_PACKET_SAMPLES
        placed = track.push(packet, head[8] * 20)
        assert placed is None or 0 <= placed.concealed_samples <= 60 * 48_000
    stats = track.stats
    assert stats.packets == len(data) // 16
    assert min(stats.lost, stats.late, stats.doubled, stats.concealed_ns, stats.jitter_ns) >= 0


def _sdp(data: bytes) -> None:
    for body in SdpBody:
        signalling = Signalling(offer=body, answer=body, channel="events")
        dial = Dial("http://127.0.0.1:9/offer", signalling=signalling)
        address = Address(dial, ("http", "https"))
        signaller = Signaller(None, address, dial, SystemClock())  # type: ignore[arg-type]
        with contextlib.suppress(ConnectError):
            signaller._read(data)


def _cassette(data: bytes) -> None:
    with _file("a.jsonl", data) as path:
        try:
            cassette = read_cassette(path)
        except DataError:
            return
        again = path.with_name("b.jsonl")
        write_cassette(again, cassette, None)
        assert len(read_cassette(again).steps) == len(cassette.steps)


def _impairment(data: bytes) -> None:
    with contextlib.suppress(LiveEvalError):
        orjson.dumps(impair.parse(data.decode("utf-8", "replace")).as_json())


def _framing(data: bytes) -> None:
    for framing in (WebSocketFraming(), TlsFraming()):
        at = 0
        while at < len(data):
            size = framing.size(data[at : at + 16])
            assert size >= 0
            if not size:
                break
            at += size


def _studio(data: bytes) -> None:
    from tests.fuzz.studio_target import ask_studio  # loads all of the studio

    ask_studio(data)


TARGETS: dict[str, Target] = {
    **{name: functools.partial(converse, name) for name in DIALECTS},
    "run-file": _run_file,
    "manifest-jsonl": functools.partial(_data_set, "manifest.jsonl"),
    "manifest-json": functools.partial(_data_set, "manifest.json"),
    "manifest-csv": functools.partial(_data_set, "manifest.csv"),
    "echomind": _echomind,
    "wav": functools.partial(_recording, "wav"),
    "flac": functools.partial(_recording, "flac"),
    "ogg": _ogg,
    "rtp": _rtp,
    "sdp": _sdp,
    "cassette": _cassette,
    "impairment": _impairment,
    "framing": _framing,
    "studio": _studio,
}
"""Every target by name: the dialects by the folder of their golden sessions, then the parsers."""


def messages_in(target: str, data: bytes) -> int:
    """Return the number of messages in an input; a file or request counts as one."""
    return message_count(data) if target in DIALECTS else 1
