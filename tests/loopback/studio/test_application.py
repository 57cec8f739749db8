"""The studio over real requests: access and responses."""

from __future__ import annotations

import asyncio
import http.client
import re
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web

from live_eval.errors import FailureKind
from live_eval.recording import RUN_FILE, RunWriter, file_stem
from live_eval.studio.application import application
from live_eval.studio.security import Guard
from live_eval.types import Case, Failure, Secret, Variant
from tests.support.records import TurnPlan, spoken_turn
from tests.support.studio import LISTENERS, TOKEN, port_of, studio


def a_case(name: str = "id_1/target", **fields: Any) -> Case:
    return Case(case_id=name, script_id="id_1", variant=Variant.TARGET, audio_path=Path("a.wav"), **fields)


def write_run(folder: Path) -> Path:
    with RunWriter.create(folder, {"endpoint": {"name": "made up"}, "turns": 2}) as writer:
        writer.commit(spoken_turn(a_case(text="Hello there.")))
        failure = Failure(FailureKind.NO_RESPONSE, "no response came")
        writer.commit(spoken_turn(a_case("id_2"), TurnPlan(first_byte_ms=None, failure=failure)))
        writer.end()
    return folder


async def told(response: aiohttp.ClientResponse) -> tuple[int, str]:
    """The status of a response and the kind of its error."""
    return response.status, (await response.json())["error"]["kind"]


async def test_the_link_opens_the_studio_and_stores_the_token_only_in_a_cookie(tmp_path: Path) -> None:
    async with studio(tmp_path, opened=False) as browser:
        async with browser.get("/", params={"token": TOKEN}, allow_redirects=False) as welcome:
            assert (welcome.status, welcome.headers["Location"]) == (303, "/")
            [cookie] = welcome.cookies.values()
            assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Strict", "/")
        async with browser.get("/") as page:
            assert page.status == 200
            assert TOKEN not in await page.text()
            assert "default-src 'none'" in page.headers["Content-Security-Policy"]
            assert "http" not in page.headers["Content-Security-Policy"]  # no other host


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/?token=wrong", "/static/studio.js", "/nothing"),
        *("/api/runs", "/api/runs/a/progress", "/api/talk", "/pages/report.html?run=a"),
    ],
)
async def test_nothing_is_answered_without_the_token(tmp_path: Path, path: str) -> None:
    async with studio(tmp_path, opened=False) as browser:
        for cookies in ({}, {f"live-eval-studio-{port_of(browser)}": "wrong"}):
            async with browser.get(path, cookies=cookies) as refused:
                assert refused.status == 401


FOR_LISTENERS = {
    ("GET", "/"),
    ("GET", "/static/{name}"),
    ("GET", "/api/listen"),
    ("GET", "/api/listen/sounds/{sound}"),
    ("POST", "/api/listen/votes"),
    ("POST", "/api/listen/{test}/next"),
    ("POST", "/api/listen/{test}/undo"),
}


async def test_the_listeners_link_opens_only_listening_tests(tmp_path: Path) -> None:
    every = {
        (route.method, route.resource.canonical)
        for route in application([tmp_path], Guard(Secret(TOKEN))).router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    assert every >= FOR_LISTENERS
    assert len(every) > 25
    async with studio(tmp_path, opened=False) as browser:
        async with browser.get("/", params={"token": LISTENERS}, allow_redirects=False) as welcome:
            assert (welcome.status, welcome.headers["Location"]) == (303, "/#/listen")
        async with browser.get("/") as page:
            assert "<body data-listener>" in await page.text()
        headers = {"Origin": str(browser._base_url).rstrip("/")}
        for method, route in every:
            path = re.sub(r"\{\w+\}", "0" * 32, route)
            async with browser.request(method, path, headers=headers, json={}) as answer:
                refused = answer.status == 403 and "opens listening tests only" in await answer.text()
                assert refused is ((method, route) not in FOR_LISTENERS), (method, route, answer.status)
        async with browser.get("/api/nothing") as answer:
            assert await told(answer) == (403, "listener")
        for token in (TOKEN, LISTENERS):  # in one browser, which keeps both
            async with browser.get("/", params={"token": token}, allow_redirects=False) as welcome:
                assert welcome.status == 303
        async with browser.get("/api/runs") as answer:
            assert answer.status == 200


CHANGES = [
    *(("POST", "/api/start"), ("POST", "/api/talk"), ("POST", "/api/listen"), ("POST", "/api/listen/votes")),
    *(("POST", "/api/runs/a/turns/b/review"), ("POST", "/api/runs/a/note")),
]
REQUESTS = [("GET", "/api/runs"), ("GET", "/api/runs/a/progress"), *CHANGES]


@pytest.mark.parametrize(("method", "path"), CHANGES)
async def test_nothing_is_changed_without_the_token(tmp_path: Path, method: str, path: str) -> None:
    async with studio(tmp_path, opened=False) as browser:
        own = {"Origin": str(browser._base_url).rstrip("/")}
        async with browser.request(method, path, headers=own, json={}) as refused:
            assert await told(refused) == (401, "token")


@pytest.mark.parametrize(("method", "path"), REQUESTS)
@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", ""])
async def test_a_foreign_host_is_refused(tmp_path: Path, host: str, method: str, path: str) -> None:
    async with studio(tmp_path) as browser:
        headers = {"Host": host.format(port=port_of(browser))}
        async with browser.request(method, path, headers=headers) as refused:
            assert await told(refused) == (403, "host")


@pytest.mark.parametrize(("method", "path"), REQUESTS)
@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:1", "null", ""])
async def test_a_foreign_origin_is_refused(tmp_path: Path, origin: str, method: str, path: str) -> None:
    headers = {"Origin": origin}
    async with studio(tmp_path) as browser, browser.request(method, path, headers=headers) as refused:
        assert await told(refused) == (403, "origin")


async def test_changes_require_the_same_origin(tmp_path: Path) -> None:
    async def receive(request: web.Request) -> web.Response:
        return web.Response(text=await request.text())

    def echo(app: web.Application) -> None:
        app.router.add_post("/api/echo", receive)

    async with studio(tmp_path, parts=[echo], opened=False) as browser:
        own = {"Origin": str(browser._base_url).rstrip("/")}
        cookies = {f"live-eval-studio-{port_of(browser)}": TOKEN}
        async with browser.post("/api/echo", data="a", cookies=cookies) as refused:
            assert await told(refused) == (403, "origin")
        async with browser.post("/api/echo", data="a", headers=own, cookies=cookies) as taken:
            assert await taken.text() == "a"
        async with browser.post("/api/echo", data="a" * 300_000, headers=own, cookies=cookies) as large:
            assert await told(large) == (413, "http")


@pytest.mark.parametrize(
    "path",
    [
        "/static/../security.py",
        "/static/..%2Fsecurity.py",
        "/static/%2e%2e/security.py",
        "/static//etc/passwd",
        "/api/../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
    ],
)
async def test_path_traversal_is_rejected(tmp_path: Path, path: str) -> None:
    async with studio(tmp_path) as browser:
        port = port_of(browser)
        # A client would normalise the path, so the request is written by hand.
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        cookie = f"Cookie: live-eval-studio-{port}={TOKEN}"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{cookie}\r\n".encode())
        writer.write(b"Connection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 404 ")
        assert b"root:" not in answer


async def test_runs_are_listed_with_their_problems(tmp_path: Path) -> None:
    await asyncio.to_thread(write_run, tmp_path / "good")
    for name, content in (("damaged", b"no database"), ("empty", b"")):
        (tmp_path / name).mkdir()
        (tmp_path / name / RUN_FILE).write_bytes(content)
    async with studio(tmp_path) as browser, browser.get("/api/runs") as answer:
        rows = {row["name"]: row for row in await answer.json()}
    assert (rows["good"]["turns"], rows["good"]["failed"], rows["good"]["finished"]) == (2, 1, True)
    assert rows["good"]["problem"] is None
    assert "expected" in rows["damaged"]["problem"]
    assert rows["empty"]["problem"]


async def test_remains_of_a_run_are_listed_and_an_audio_folder_is_ignored(
    tmp_path: Path,
) -> None:
    await asyncio.to_thread(write_run, tmp_path / "good")
    (tmp_path / "audio").mkdir()
    (tmp_path / "torn" / "audio").mkdir(parents=True)
    (tmp_path / "torn" / "audio" / f"{file_stem('a', 1)}.reply.flac").touch()
    async with studio(tmp_path) as browser, browser.get("/api/runs") as answer:
        rows = {row["name"]: row for row in await answer.json()}
    assert rows.keys() == {"good", "torn"}
    assert "run.sqlite" in rows["torn"]["problem"]
    async with studio(tmp_path / "good") as browser, browser.get("/api/runs") as answer:
        assert [row["name"] for row in await answer.json()] == ["good"]


SLOW = """
import sys, time
from live_eval.cli import main
from live_eval.studio import runs_api

def listing(library):
    print("computing", flush=True)
    time.sleep(60)

runs_api._listing = listing
sys.argv[1:] = ["studio", sys.argv[1], "--port", "0", "--no-browser"]
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_studio_ends_without_finishing_its_computations(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", SLOW, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        link = urlsplit(process.stdout.readline().split()[-1])
        assert process.stdout.readline().startswith("for listeners: http")
        with closing(http.client.HTTPConnection(link.netloc)) as client:
            client.request("GET", f"{link.path}?{link.query}")
            with client.getresponse() as welcome:
                cookie = welcome.headers["Set-Cookie"].split(";")[0]
            client.close()
            client.request("GET", "/api/runs", headers={"Cookie": cookie})
            assert process.stdout.readline() == "computing\n"
            process.send_signal(number)
            assert process.wait(timeout=30) == 0
