"""Canaries: secrets that a test passes through every input, servers that echo them, and a search for them."""

from __future__ import annotations

import base64
import contextlib
import gzip
import html
import importlib
import io
import json
import sqlite3
import threading
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import soundfile
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

__all__ = [
    "CANARIES",
    "ECHO",
    "LLM_ECHO",
    "SHORT",
    "Chat",
    "Hanging",
    "Refusing",
    "Scan",
    "Vendor",
    "serving_chat",
    "serving_vendor",
    "write_recordings",
]

RATE_HZ = 24_000
_ZSTD = 93  # method of compression in zip files
CANARIES = {
    name: f"can+ary/{name}=4711"
    for name in (
        "key",
        "password",
        "query",
        "turn",
        "tool",
        "setting",
        "llm-key",
        "llm-password",
        "llm-query",
    )
} | {"pasted": "AIzaSyAcanary4711QQQQWWWW"}  # looks like a variable name; never sent to an endpoint
SHORT = "hush-7"


def percent(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode())


def spelled(secret: str) -> list[str]:
    """Return ways in which an endpoint may write a secret."""
    data = secret.encode()
    return [
        secret,
        *(base64.b64encode(b"x" * before + data).decode() for before in range(3)),
        base64.urlsafe_b64encode(b"xy" + data).decode().rstrip("="),
        quote(secret, safe=""),
        percent(secret),
        data.hex(),
        html.escape(secret),
    ]


def _spelled_all(*, llm: bool) -> str:
    given = [name for name in CANARIES if name.startswith("llm-") is llm and name != "pasted"]
    return " ".join(one for name in given for one in spelled(CANARIES[name]))


ECHO = _spelled_all(llm=False)
"""An endpoint's reply: everything that it received."""
LLM_ECHO = _spelled_all(llm=True)
"""A judge model's reply: everything that it received."""


class Vendor:
    """An endpoint of OpenAI's protocol that echoes its input; the second session fails with the echo."""

    def __init__(self) -> None:
        self.sessions = 0

    def __call__(self, socket: ServerConnection) -> None:
        self.sessions += 1
        sick = self.sessions == 2
        key = CANARIES["key"]
        session: dict[str, Any] = {"id": f"sess_{key}", "model": f"model-{key}", "note": ECHO}

        def say(kind: str, **fields: Any) -> None:
            socket.send(json.dumps({"type": kind, **fields}))

        say("session.created", session=session)
        with contextlib.suppress(ConnectionClosed):
            self._hold(socket, say, session, sick=sick)

    def _hold(self, socket: ServerConnection, say: Any, session: dict[str, Any], *, sick: bool) -> None:
        key = CANARIES["key"]
        for message in socket:
            event = json.loads(message)
            if event["type"] == "session.update":
                say("session.updated", session={**event["session"], **session})
            elif event["type"] == "response.create" and sick:
                say("error", error={"type": "server_error", "code": "x", "message": f"{ECHO} {key}"})
                socket.send(f"no JSON: {percent(key)} {'A' * 430}{key}{ECHO}")
                socket.close(1011, f"go, {key}"[:100])
            elif event["type"] == "response.create":
                self._reply(say, key)

    def _reply(self, say: Any, key: str) -> None:
        about = {"response_id": f"resp_{key}", "item_id": "item_1", "output_index": 0, "content_index": 0}
        response = {"id": f"resp_{key}", "status": "in_progress", "output": [], ECHO: key}
        say("response.created", response=response)
        sound = (3_000 * np.sin(np.arange(RATE_HZ // 5) / 10)).astype("<i2").tobytes()
        say("response.output_audio.delta", delta=base64.b64encode(sound).decode(), **about)
        text = f"The key is {key}. {ECHO}"
        for at in range(0, len(text), 7):  # a secret is spread over several pieces
            say("response.output_audio_transcript.delta", delta=text[at : at + 7], **about)
        say("response.output_audio_transcript.done", transcript=text, **about)
        say("response.output_audio.done", **about)
        say("response.done", response={**response, "status": "completed"})


class Hanging(Vendor):
    """An echoing endpoint that does not reply in its first session."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()

    def _reply(self, say: Any, key: str) -> None:
        if self.sessions == 1:
            self.asked.set()
        else:
            super()._reply(say, key)


class Chat(BaseHTTPRequestHandler):
    """A judge model that echoes secrets in its answers or refusals."""

    asked = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        type(self).asked += 1
        scores = {name: {"score": 4, "reason": LLM_ECHO} for name in ("C1", "C2", "C3", "C4")}
        choice = {"message": {"content": json.dumps({**scores, "why": LLM_ECHO})}, "finish_reason": "stop"}
        body: dict[str, Any] = {"choices": [choice], "model": LLM_ECHO}
        if self.asked > 2:
            body = {"error": {"message": LLM_ECHO}}
        self.send_response(200 if self.asked <= 2 else 401)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Refusing(BaseHTTPRequestHandler):
    """An endpoint that refuses every request, and echoes it: in the body, a header and the reason."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self._refuse()

    def do_GET(self) -> None:
        self._refuse()

    def _refuse(self) -> None:
        said = f"{self.requestline} {dict(self.headers)} {ECHO}"
        status = 201 if "calls" in self.path else 401
        self.send_response(status, f"no {CANARIES['key']}")
        self.send_header("X-Echo", ECHO[:1_000])
        body = f"v=0\r\ns={CANARIES['key']}\r\na={ECHO}\r\n" if status == 201 else said
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serving_vendor(vendor: Vendor | None = None) -> Iterator[str]:
    """Serve `Vendor` and yield its host and port."""
    with serve(vendor or Vendor(), "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def serving_chat(handler: type[BaseHTTPRequestHandler] = Chat) -> Iterator[str]:
    """Serve HTTP and yield its host and port."""
    Chat.asked = 0
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@dataclass
class Scan:
    """A search for canaries in files, including compressed ones, and in output."""

    files: int = 0
    pieces: int = 0
    hits: list[str] = field(default_factory=list)

    def folder(self, folder: Path) -> None:
        """Search all files of a folder, at any depth."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.files += 1
                self.data(str(path.relative_to(folder)), path.read_bytes())

    def data(self, where: str, data: bytes) -> None:
        """Search bytes; databases, Parquet, gzip and zip files are also decoded."""
        self.pieces += 1
        self.hits += _leaks(where, data)
        if data.startswith(b"SQLite format 3"):
            for name, value in _cells(data):
                self.data(f"{where}: {name}", value)
        elif data.startswith(b"PAR1"):
            for number, row in enumerate(_rows(data)):
                self.data(f"{where}: row {number}", row)
        elif data.startswith(b"\x1f\x8b"):
            self.data(f"{where}, unpacked", gzip.decompress(data))
        elif data.startswith(b"PK"):
            with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(data)) as archive:
                if any(one.compress_type == _ZSTD for one in archive.infolist()):
                    importlib.import_module("zipfile_zstd")  # comes with inspect_ai; zipfile then knows it
                for name in archive.namelist():
                    self.data(f"{where}: {name}", archive.read(name))


def _rows(data: bytes) -> Iterator[bytes]:
    """Yield the rows of a Parquet file."""
    from pyarrow import BufferReader, parquet

    for row in parquet.read_table(BufferReader(data)).to_pylist():
        yield repr(row).encode()


def _cells(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the texts and blobs of a database, including values that span pages."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(data[:18] + b"\x01\x01" + data[20:])  # as if it had no write-ahead log
        db.text_factory = bytes
        tables = [
            row[0].decode() for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        for table in tables:
            for row in db.execute(f'SELECT * FROM "{table}"'):
                yield from ((table, value) for value in row if isinstance(value, bytes))


def _leaks(where: str, data: bytes) -> list[str]:
    """Return the canaries in `data` and their encodings."""
    found = []
    for name, canary in {**CANARIES, "short": SHORT}.items():
        for spelling in [canary, *(spelled(canary) if name != "short" else ())]:
            inner = spelling.encode()
            needles = {inner, json.dumps(spelling)[1:-1].encode(), html.escape(spelling).encode()}
            found += [f"{name} in {where} as {one!r}" for one in needles if one in data]
    return found


def write_recordings(folder: Path) -> Path:
    """Write two recordings of 0.2 s and return their manifest."""
    rows = []
    for number in range(2):
        sound = 0.1 * np.sin(np.arange(RATE_HZ // 5) / (8 + number))
        soundfile.write(folder / f"{number}.wav", sound, RATE_HZ)
        rows.append(
            {"id": str(number), "audio": f"{number}.wav", "text": "ahem", "topic": "x", "cue": "happy"}
        )
    manifest = folder / "speech.jsonl"
    manifest.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return manifest
