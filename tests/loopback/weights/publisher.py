"""A server that publishes weights."""

from __future__ import annotations

import hashlib
import re
import threading
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from live_eval.weights import WeightsFile, WeightsSpec
from live_eval.weights.fetching import HUB


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass
class Asked:
    path: str
    range: str | None
    token: str | None


@dataclass
class Publisher:
    """The behaviour of the server.

    Args:
        files: Content by path.
        cuts: Number of body bytes sent for each of the next requests before the connection closes.
        statuses: HTTP statuses of the next responses.
        ranges: Whether range requests are supported.
        stalls: Whether it stalls after half of the body.
        moved_to: Target of a redirect.
        headers: Additional headers.
        states_length: Whether responses have a Content-Length.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    ranges: bool = True
    stalls: bool = False
    moved_to: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    states_length: bool = True
    asked: list[Asked] = field(default_factory=list)
    address: str = ""
    over: threading.Event = field(default_factory=threading.Event)

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers.get("Range")
        self.asked.append(Asked(request.path, wanted, request.headers.get("Authorization")))
        if self.statuses:
            request.send_response(self.statuses.pop(0))
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        if self.moved_to is not None:
            request.send_response(302)
            request.send_header("Location", self.moved_to + request.path)
            request.send_header("Content-Length", "2" if self.stalls else "0")
            for name, value in self.headers.items():
                request.send_header(name, value)
            request.end_headers()
            if self.stalls:
                self.over.wait(10)
            return
        content = self.files[request.path]
        begin = 0
        if wanted and self.ranges:
            found = re.fullmatch(r"bytes=(\d+)-", wanted)
            assert found
            begin = int(found[1])
        if begin and begin >= len(content):
            request.send_response(416)
            request.send_header("Content-Range", f"bytes */{len(content)}")
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        request.send_response(206 if begin else 200)
        if begin:
            request.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        for name, value in self.headers.items():
            request.send_header(name, value)
        if self.states_length:
            request.send_header("Content-Length", str(len(content) - begin))
        else:
            request.send_header("Connection", "close")
        request.end_headers()
        body = content[begin:]
        if self.cuts:
            cut = self.cuts.pop(0)
            request.wfile.write(body[:cut])
            # Data that the client has not read when the connection ends is lost.
            self.over.wait(0.2 if cut else 0)
            request.close_connection = True
            return
        if self.stalls:
            request.wfile.write(body[: len(body) // 2])
            request.wfile.flush()
            self.over.wait(10)
            return
        request.wfile.write(body)


def serve(publisher: Publisher) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            try:
                publisher.answer(self)
            except ConnectionError:
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    publisher.address = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


def spec(publisher: Publisher, *names: str, known: str | None = None) -> WeightsSpec:
    return WeightsSpec(
        name="toy",
        title="a toy",
        files=tuple(
            WeightsFile(name=name, url=f"{publisher.address}/m/{name}", sha256=known)
            for name in names or ["a.bin"]
        ),
        licence="of toys",
        source="https://example.org/toy",
        megabytes=5,
    )


# The hub.


def hub_spec(publisher: Publisher) -> WeightsSpec:
    return replace(spec(publisher), files=(WeightsFile(name="a.bin", url=f"{HUB}/m/a.bin"),))
