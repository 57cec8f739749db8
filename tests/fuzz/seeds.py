"""Provide seeds for each target: real input from golden sessions, the bundled sample and small files."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soundfile

from live_eval.audio.codecs import OggOpusEncoder
from live_eval.data import sample_path
from tests.fuzz.dialect_target import seeds_of
from tests.support.bundled import DIALECTS, GOLDEN

__all__ = ["CORPUS", "corpus", "seeds"]

CORPUS = Path(__file__).parent / "corpus"
"""Folder of each target's corpus: inputs that reach more code, and all that once revealed a defect."""

_ROOT = Path(__file__).parents[2]
_ROW = '{"id": "a", "audio": "a.wav", "text": "hello", "cue": "happy", "voice_end_ms": 900, "turns": []}'


def corpus(target: str) -> list[Path]:
    """Return the corpus of a target."""
    return sorted((CORPUS / target).glob("*"))


def seeds(target: str) -> Iterator[bytes]:
    """Yield real inputs of a target."""
    if target in DIALECTS:
        yield from seeds_of(target)
        return
    match target:
        case "run-file":
            for path in sorted((_ROOT / "examples").rglob("*.toml")):
                yield path.read_bytes()
            yield b'[endpoint]\nname = "reference"\n[turns]\nconcurrency = 4\n[judges]\nnames = ["bleu"]\n'
        case "manifest-jsonl":
            dialogues = sample_path() / "dialogues" / "dialogues.jsonl"
            yield dialogues.read_bytes()[:4000]
            yield _ROW.encode()
        case "manifest-json":
            yield f"[{_ROW}]".encode()
            yield f'{{"cases": [{_ROW}]}}'.encode()
        case "manifest-csv":
            yield b'id,audio,text,cue,topic\na,a.wav,hello,happy,family\nb,b.wav,"one, two",sad,work\n'
        case "echomind":
            for path in sorted(sample_path().rglob("script_info*.json"))[:2]:
                yield path.read_bytes()[:6000]
        case "wav" | "flac":
            for subtype, channels in (("PCM_16", 1), ("PCM_24", 2)):
                sound = 0.1 * np.sin(np.arange(800)[:, None] / np.arange(9, 9 + channels))
                file = io.BytesIO()
                soundfile.write(file, sound, 16_000, format=target.upper(), subtype=subtype)
                yield file.getvalue()
        case "ogg":
            encoder = OggOpusEncoder(24_000)
            yield encoder.headers() + encoder.encode(bytes(2 * 24_000 // 5))
        case "rtp":
            yield b"".join(
                struct.pack(">HIBBBxxB4s", number, 960 * number, 0, 1, 48, 20, b"\x78opu")
                for number in (1, 2, 3, 5, 4, 4, 60_000)
            )
        case "sdp":
            yield _SDP
        case "cassette":
            for path in sorted(GOLDEN.glob("*/ordinary_turn.jsonl"))[:6]:
                yield path.read_bytes()[:3000]
        case "impairment":
            yield b"lossy-wifi:loss=2%:jitter=30ms, noise:snr=10"
            yield b"latency:ms=80"
        case "framing":
            yield bytes([0x82, 0x7E, 0, 200]) + bytes(200) + bytes([0x81, 5]) + b"hello"
            yield b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + bytes([0x17, 3, 3, 0, 16]) + bytes(16)
        case "studio":
            from tests.fuzz.studio_target import studio_seeds  # imports the whole studio

            yield from studio_seeds()


_SDP = b"""v=0
o=- 1 1 IN IP4 127.0.0.1
s=-
t=0 0
a=group:BUNDLE 0 1
m=audio 9 UDP/TLS/RTP/SAVPF 96 0
c=IN IP4 0.0.0.0
a=mid:0
a=sendrecv
a=rtpmap:96 opus/48000/2
a=rtpmap:0 PCMU/8000
a=ice-ufrag:abcd
a=ice-pwd:abcdefghijklmnopqrstuvwx
a=fingerprint:sha-256 AA:BB:CC
a=setup:active
a=candidate:1 1 udp 2130706431 127.0.0.1 50000 typ host
m=application 9 UDP/DTLS/SCTP webrtc-datachannel
c=IN IP4 0.0.0.0
a=mid:1
a=sctp-port:5000
"""
