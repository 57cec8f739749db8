"""Downloads of weights from a loopback server that disconnects, stalls, refuses, or changes the file."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
from click.testing import CliRunner, Result
from filelock import FileLock

from live_eval.cli.weights import command
from live_eval.clock import SystemClock
from live_eval.errors import JudgeError, StoreLockedError, UsageError
from live_eval.judging import JudgeKind, JudgeSpec, Need, OptionSpec, OutputSpec
from live_eval.registry import JUDGES, Plugin, find_plugins
from live_eval.weights import FOLDER_VARIABLE, WeightsFile, WeightsSpec, find_weights
from live_eval.weights.fetching import HUB, check_redirect, fetch_weights, published_at

CONTENT = bytes(range(251)) * 20_000  # 5 MB, and no two parts of it alike by accident
OTHER = CONTENT[::-1]
TOKEN = "hf_neverprinted5e4f1b"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass
class Asked:
    path: str
    range: str | None
    token: str | None


@dataclass
class Publisher:
    """What the server does.

    Args:
        files: Content by path.
        cuts: How many bytes of the body each of the next requests brings before the connection closes.
        statuses: With what the next requests are answered instead.
        ranges: Whether it knows ranges.
        stalls: Whether it sends half and then nothing.
        moved_to: Where it points to instead.
        headers: Further headers.
        states_length: Whether it says how long the body is.
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
            request.send_header("Content-Length", "0")
            for name, value in self.headers.items():
                request.send_header(name, value)
            request.end_headers()
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
            # What a client has not taken in when the connection ends is lost.
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


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    published = Publisher({"/m/a.bin": CONTENT, "/m/sub/b.txt": b"small"})
    server = serve(published)
    yield published
    published.over.set()
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "weights"))
    for name in ("HF_ENDPOINT", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "weights"


class Hasty(SystemClock):
    """Waits for nothing, and remembers for how long it should have."""

    def __init__(self) -> None:
        self.waited_s: list[float] = []

    async def sleep_until(self, at_ns: int) -> None:
        self.waited_s.append(round((at_ns - self.now_ns()) / 1e9, 1))


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


def test_comes_whole_is_recorded_and_does_not_come_again(publisher: Publisher, folder: Path) -> None:
    toy = spec(publisher, "a.bin", "sub/b.txt")
    told: list[tuple[str, int, int | None]] = []
    found = fetch_weights(toy, progress=lambda *what: told.append(what))
    assert found.path == folder / "toy"
    assert (found.path / "a.bin").read_bytes() == CONTENT
    assert (found.path / "sub/b.txt").read_bytes() == b"small"
    assert sorted(path.name for path in (folder / "toy").rglob("*") if path.is_file()) == [
        "a.bin",
        "b.txt",
        "weights.json",
    ]
    record = json.loads((folder / "toy/weights.json").read_text())
    assert record["files"]["a.bin"] == {"path": "a.bin", "sha256": sha256(CONTENT)}
    assert told[0] == ("a.bin", 0, len(CONTENT))
    assert told[-1] == ("sub/b.txt", 5, 5)
    assert fetch_weights(toy) == find_weights(toy) == found
    assert len(publisher.asked) == 2


def test_goes_on_where_it_broke_off_in_one_fetch(publisher: Publisher) -> None:
    publisher.cuts = [2_000_000, 1_000_000, 0]
    clock = Hasty()
    found = fetch_weights(spec(publisher, known=sha256(CONTENT)), clock=clock)
    assert found.path.read_bytes() == CONTENT
    first, *others = [asked.range for asked in publisher.asked]
    assert first is None
    begins = [int((wanted or "").removeprefix("bytes=").removesuffix("-")) for wanted in others]
    assert 0 < begins[0] <= 2_000_000 < begins[1] + 1_000_000 <= 4_000_000
    assert begins[1] == begins[2]
    assert clock.waited_s == [1.0, 1.0, 2.0]


def test_goes_on_in_another_fetch(publisher: Publisher, folder: Path) -> None:
    known = spec(publisher, known=sha256(CONTENT))
    publisher.cuts = [2_000_000, 0, 0, 0, 0]
    with pytest.raises(
        JudgeError, match=r"interrupted.*; the partial download is kept, and the next fetch resumes it"
    ):
        fetch_weights(known, clock=Hasty())
    assert not (folder / "toy/a.bin").exists()
    here = (folder / "toy/a.bin.part").stat().st_size
    assert 0 < here <= 2_000_000
    publisher.asked.clear()
    assert fetch_weights(known).path.read_bytes() == CONTENT
    assert [asked.range for asked in publisher.asked] == [f"bytes={here}-"]


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("known", [None, sha256(OTHER)])
def test_never_joins_two_versions_of_a_file(publisher: Publisher, ranges: bool, known: str | None) -> None:
    publisher.cuts = [2_000_000, 0, 0, 0, 0]
    with pytest.raises(JudgeError, match="was interrupted"):
        fetch_weights(spec(publisher, known=known), clock=Hasty())
    publisher.files["/m/a.bin"] = OTHER
    publisher.ranges = ranges
    if known and ranges:
        with pytest.raises(JudgeError, match="not kept"):
            fetch_weights(spec(publisher, known=known))
    assert fetch_weights(spec(publisher, known=known)).path.read_bytes() == OTHER


def test_a_file_that_became_shorter_is_fetched_again(publisher: Publisher) -> None:
    short = spec(publisher, known=sha256(CONTENT[:1_000_000]))
    publisher.cuts = [2_000_000, 0, 0, 0, 0]
    with pytest.raises(JudgeError, match="was interrupted"):
        fetch_weights(short, clock=Hasty())
    publisher.files["/m/a.bin"] = CONTENT[:1_000_000]
    assert fetch_weights(short, clock=Hasty()).path.read_bytes() == CONTENT[:1_000_000]


def test_a_stalled_transfer_is_broken_off(publisher: Publisher) -> None:
    publisher.stalls = True
    with pytest.raises(JudgeError, match=r"no data for 0\.2 s$"):
        fetch_weights(spec(publisher), clock=Hasty(), idle_s=0.2)


def test_a_busy_server_is_waited_for(publisher: Publisher) -> None:
    publisher.statuses = [503, 429]
    clock = Hasty()
    assert fetch_weights(spec(publisher), clock=clock).path.read_bytes() == CONTENT
    assert clock.waited_s == [1.0, 2.0]


@pytest.mark.parametrize(
    ("status", "words"),
    [(404, "no such file any more"), (401, "HF_TOKEN"), (403, "licence"), (410, "cannot be downloaded")],
)
def test_what_is_refused_is_not_tried_again(
    publisher: Publisher, status: int, words: str, folder: Path
) -> None:
    publisher.statuses = [status]
    with pytest.raises(JudgeError, match=f"/m/a.bin: HTTP {status}: .*{words}"):
        fetch_weights(spec(publisher))
    assert len(publisher.asked) == 1
    assert not list((folder / "toy").iterdir())


def test_a_page_is_no_weights(publisher: Publisher) -> None:
    publisher.headers["Content-Type"] = "text/html; charset=utf-8"
    with pytest.raises(JudgeError, match="got a web page"):
        fetch_weights(spec(publisher))


def test_another_hash_than_is_known_is_not_kept(publisher: Publisher, folder: Path) -> None:
    with pytest.raises(
        JudgeError, match=f"expected SHA-256 {'0' * 64}, got a file with {sha256(CONTENT)}: not kept$"
    ):
        fetch_weights(spec(publisher, known="0" * 64))
    assert not list((folder / "toy").iterdir())


def test_what_came_first_is_held_to(publisher: Publisher, folder: Path) -> None:
    toy = spec(publisher)
    fetch_weights(toy)
    publisher.files["/m/a.bin"] = OTHER
    (folder / "toy/a.bin").unlink()
    with pytest.raises(
        JudgeError, match="not kept; if a new version was published: live-eval weights fetch toy --again"
    ):
        fetch_weights(toy)
    assert fetch_weights(toy, again=True).sha256 == sha256(OTHER)
    assert find_weights(toy).path.read_bytes() == OTHER


def test_a_damaged_file_is_fetched_again(publisher: Publisher, folder: Path) -> None:
    toy = spec(publisher)
    found = fetch_weights(toy)
    (folder / "toy/a.bin").write_bytes(b"damaged")
    assert fetch_weights(toy) == found


def test_a_damaged_record_is_rewritten(publisher: Publisher, folder: Path) -> None:
    found = fetch_weights(spec(publisher))
    (folder / "toy/weights.json").write_text("{")
    assert fetch_weights(spec(publisher)) == found
    assert len(publisher.asked) == 1


def test_without_a_network_says_so(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    nowhere = Publisher(address=f"http://127.0.0.1:{port}")
    with pytest.raises(
        JudgeError, match=f"Cannot connect to host 127.0.0.1:{port} .*Is there a network.*weights add"
    ):
        fetch_weights(spec(nowhere))


def test_a_disk_without_room_is_said_before(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 3_000_000})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(UsageError, match="expected room for 5 MB, there is 3 MB"):
        fetch_weights(spec(publisher))


def test_a_disk_that_fills_up_keeps_what_came(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no device that is always full")
    real = Path.open

    def full(path: Path, *how: Any, **settings: Any) -> Any:
        return real(Path("/dev/full") if path.suffix == ".part" else path, *how, **settings)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(
        UsageError, match="cannot be written: No space left on device; the partial download is kept"
    ):
        fetch_weights(spec(publisher))


def test_two_processes_do_not_fetch_the_same(publisher: Publisher, folder: Path) -> None:
    with (
        FileLock(folder / ".toy.lock"),
        pytest.raises(StoreLockedError, match="another process is fetching these weights"),
    ):
        fetch_weights(spec(publisher))
    assert fetch_weights(spec(publisher)).path.read_bytes() == CONTENT


def test_a_folder_that_cannot_be_made(publisher: Publisher, folder: Path) -> None:
    folder.write_text("a file")
    with pytest.raises(UsageError, match="cannot be written"):
        fetch_weights(spec(publisher))


# The hub.


def hub_spec(publisher: Publisher) -> WeightsSpec:
    return replace(spec(publisher), files=(WeightsFile(name="a.bin", url=f"{HUB}/m/a.bin"),))


def test_a_token_goes_to_the_hub_and_no_further(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = Publisher(moved_to=publisher.address, headers={"X-Linked-ETag": f'"{sha256(CONTENT)}"'})
    server = serve(hub)
    try:
        monkeypatch.setenv("HF_ENDPOINT", hub.address + "/")
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        assert fetch_weights(hub_spec(publisher)).path.read_bytes() == CONTENT
        assert [asked.token for asked in hub.asked] == [f"Bearer {TOKEN}"]
        assert [asked.token for asked in publisher.asked] == [None]
        # Addresses elsewhere never see it.
        fetch_weights(spec(publisher), again=True)
        assert [asked.token for asked in publisher.asked] == [None, None]
    finally:
        server.shutdown()
        server.server_close()


def test_what_comes_is_held_to_the_hash_that_the_hub_states(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", publisher.address)
    publisher.headers["X-Linked-ETag"] = f'"{sha256(OTHER)}"'
    with pytest.raises(JudgeError, match=f"expected SHA-256 {sha256(OTHER)}"):
        fetch_weights(hub_spec(publisher))
    publisher.headers["X-Linked-ETag"] = '"a1b2c3"'  # of a small file, git's own
    assert fetch_weights(hub_spec(publisher)).sha256 == sha256(CONTENT)


def test_a_mirror_must_have_an_address() -> None:
    file = WeightsFile(name="a", url=f"{HUB}/m/a")
    assert published_at(file, {}) == file.url
    assert published_at(file, {"HF_ENDPOINT": "http://mirror:8080/hub/"}) == "http://mirror:8080/hub/m/a"
    elsewhere = WeightsFile(name="a", url="https://example.org/a")
    assert published_at(elsewhere, {"HF_ENDPOINT": "http://mirror"}) == elsewhere.url
    with pytest.raises(UsageError, match="HF_ENDPOINT: expected an address"):
        published_at(file, {"HF_ENDPOINT": "mirror"})


# Servers that want more than to send a file.


def test_files_larger_together_than_the_weights_are_not_kept(publisher: Publisher, folder: Path) -> None:
    publisher.files["/m/b.bin"] = OTHER
    with pytest.raises(JudgeError, match="expected a file of at most 2 MB, got 5 MB or more: not kept"):
        fetch_weights(spec(publisher, "a.bin", "b.bin"))
    assert not list((folder / "toy").glob("b.bin*"))


@pytest.mark.parametrize("states_length", [True, False])
def test_a_file_larger_than_the_weights_is_not_kept(
    publisher: Publisher, folder: Path, states_length: bool
) -> None:
    small = replace(spec(publisher), megabytes=1)
    publisher.states_length = states_length
    with pytest.raises(JudgeError, match=r"expected a file of at most 2 MB, got \d MB or more: not kept"):
        fetch_weights(small)
    assert not list((folder / "toy").glob("a.bin*"))
    assert len(publisher.asked) == 1


def test_a_large_partial_download_of_an_earlier_attempt_does_not_raise_the_limit(
    publisher: Publisher, folder: Path
) -> None:
    publisher.cuts = [3_000_000] * 5
    fetched = replace(spec(publisher), megabytes=1)
    (folder / "toy").mkdir(parents=True)
    (folder / "toy/a.bin.part").write_bytes(CONTENT[:1_500_000])
    with pytest.raises(JudgeError, match="expected a file of at most 2 MB"):
        fetch_weights(fetched, clock=Hasty())
    assert not list((folder / "toy").glob("a.bin*"))


@pytest.mark.parametrize(
    ("published", "target"),
    [
        (HUB, "https://evil.example/a"),
        (HUB, "https://huggingface.co.evil.example/a"),
        (HUB, "https://evilhf.co/a"),
        (HUB, "http://cdn-lfs.huggingface.co/a"),
        (HUB, "http://127.0.0.1:1/a"),
        (HUB, "file:///etc/passwd"),
        (HUB, "//evil.example/a"),
        (HUB, "https://huggingface.co@evil.example/a"),
        ("https://github.com/o/r/raw", "https://huggingface.co/a"),
        ("https://models.example", "https://example/a"),
    ],
)
def test_a_redirect_to_another_source_is_refused(published: str, target: str) -> None:
    with pytest.raises(JudgeError, match=r"expected a redirect over https to .*, got one to "):
        check_redirect(f"{published}/a", f"{published}/a", redirect(f"{published}/a", target))


@pytest.mark.parametrize(
    ("published", "asked", "target"),
    [
        (HUB, HUB, "/api/resolve-cache/a"),
        (HUB, HUB, "https://cdn-lfs-us-1.huggingface.co/a"),
        (HUB, HUB, "https://cas-bridge.xethub.hf.co/a"),
        (HUB, "https://mirror.example/hub", "https://cas-bridge.xethub.hf.co/a"),
        (HUB, "http://mirror:8080", "http://mirror:8081/a"),
        ("https://github.com/o/r/raw", "https://github.com/o/r/raw", "https://raw.githubusercontent.com/a"),
        ("https://models.example", "https://models.example", "https://cdn.models.example/a"),
    ],
)
def test_a_redirect_within_a_source_is_followed(published: str, asked: str, target: str) -> None:
    check_redirect(f"{published}/a", f"{asked}/a", redirect(f"{asked}/a", target))


def redirect(url: str, target: str) -> requests.Response:
    response = requests.Response()
    response.url, response.status_code = url, 302
    response.headers["Location"] = target
    return response


def test_what_another_host_sends_is_never_asked_for(publisher: Publisher, folder: Path) -> None:
    publisher.moved_to = f"http://localhost:{publisher.address.rpartition(':')[2]}"
    with pytest.raises(JudgeError, match=r"over https to 127.0.0.1, got one to http://localhost"):
        fetch_weights(spec(publisher))
    assert [asked.path for asked in publisher.asked] == ["/m/a.bin"]


def test_redirects_without_end_are_given_up(publisher: Publisher) -> None:
    publisher.moved_to = publisher.address
    with pytest.raises(JudgeError, match="expected the address of a file: TooManyRedirects"):
        fetch_weights(spec(publisher))
    assert len(publisher.asked) == 6


def test_the_hash_of_every_file_of_our_judges_is_known() -> None:
    specs = {
        weights.name: weights
        for plugin in find_plugins(JUDGES)
        if isinstance(plugin.spec, JudgeSpec)
        for option in plugin.spec.options
        for weights in option.weights
    }
    assert "bert-base-uncased" in specs
    assert [name for name, weights in specs.items() if not weights.pinned] == []


# The command.


class Stranger:
    """Takes any weights but one."""

    def __init__(self, *, weights: str) -> None:
        if Path(weights).read_bytes() == b"another's":
            raise JudgeError(f"{weights}: expected a toy")


@pytest.fixture
def judges(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> JudgeSpec:
    """Only a stranger's judge, whose weights lie on a hub with a login in its address."""
    toy = hub_spec(publisher)
    judge = JudgeSpec(
        name="stranger",
        version="1",
        title="a stranger's",
        kind=JudgeKind.LOCAL,
        implementation=f"{__name__}:Stranger",
        outputs=(OutputSpec(name="", title="a number"),),
        needs=frozenset({Need.REPLY_AUDIO}),
        options=(OptionSpec(name="weights", help="which", default="toy", weights=(toy,)),),
    )
    found = (Plugin(JUDGES, "stranger", "theirs", judge, None),)
    monkeypatch.setattr("live_eval.cli.weights.find_plugins", lambda _: found)
    monkeypatch.setenv("HF_ENDPOINT", publisher.address.replace("//", f"//me:{TOKEN}@"))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return judge


def invoke(*arguments: str) -> Result:
    result = CliRunner().invoke(command, arguments)
    assert TOKEN not in result.output + str(result.exception)
    return result


@pytest.mark.usefixtures("judges")
def test_the_command_describes_fetches_and_lists(publisher: Publisher, folder: Path) -> None:
    before = json.loads(invoke("list", "--json").output)
    assert [(row["name"], row["judges"], row["here"], row["sha256"]) for row in before] == [
        ("toy", ["stranger"], False, None)
    ]
    result = invoke("fetch", "toy")
    assert result.exit_code == 0, result.output
    for words in (
        "a toy, about 5 MB",
        "licence: of toys",
        "https://example.org/toy",
        sha256(CONTENT),
        "recorded",
    ):
        assert words in result.output
    assert publisher.asked[0].token
    assert publisher.asked[0].token.startswith("Basic ")
    [row] = json.loads(invoke("list", "--json", "--check").output)
    assert (row["here"], row["path"]) == (True, str(folder / "toy/a.bin"))
    assert f"toy: {folder / 'toy/a.bin'} (SHA-256 {sha256(CONTENT)[:12]})" in invoke("list").output
    assert invoke("path", "toy").output.strip() == str(folder / "toy/a.bin")
    assert invoke("path").output.strip() == str(folder)


@pytest.mark.usefixtures("judges")
def test_the_command_finds_damage_when_it_checks(publisher: Publisher, folder: Path) -> None:
    invoke("fetch", "toy")
    (folder / "toy/a.bin").write_bytes(b"damaged")
    [row] = json.loads(invoke("list", "--json", "--check").output)
    assert not row["here"]
    assert "expected the weights toy with SHA-256" in row["problem"]
    assert f"toy: {row['problem']}" in invoke("list", "--check").output


@pytest.mark.usefixtures("judges")
def test_the_command_adds_what_is_here(tmp_path: Path) -> None:
    mine = tmp_path / "mine.bin"
    mine.write_bytes(b"mine")
    result = invoke("add", "toy", str(mine))
    assert result.exit_code == 0, result.output
    assert str(mine) in result.output
    assert invoke("path", "toy").output.strip() == str(mine)


@pytest.mark.usefixtures("judges")
def test_what_its_judge_cannot_load_is_not_added(tmp_path: Path, folder: Path) -> None:
    mine = tmp_path / "mine.bin"
    mine.write_bytes(b"another's")
    result = invoke("add", "toy", str(mine))
    assert isinstance(result.exception, JudgeError)
    assert str(result.exception) == f"toy not added: judge stranger: {mine}: expected a toy"
    assert not folder.exists()
    absent = invoke("add", "toy", str(tmp_path / "absent"))
    assert isinstance(absent.exception, JudgeError)
    assert "expected a file with the weights toy" in str(absent.exception)


@pytest.mark.usefixtures("judges")
def test_what_lies_under_the_weights_own_name_is_tried_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("toy").write_bytes(b"another's")
    result = invoke("add", "toy", "toy")
    assert isinstance(result.exception, JudgeError)
    assert str(result.exception) == f"toy not added: judge stranger: {tmp_path / 'toy'}: expected a toy"


def test_what_no_judge_can_load_here_is_added_untried(
    judges: JudgeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine.bin"
    mine.write_bytes(b"another's")
    lacking = replace(judges, packages=("no_such_package",))
    found = (Plugin(JUDGES, "stranger", "theirs", lacking, None),)
    monkeypatch.setattr("live_eval.cli.weights.find_plugins", lambda _: found)
    result = invoke("add", "toy", str(mine))
    assert result.exit_code == 0, result.output
    assert "toy: not verified: judge stranger cannot run: package no_such_package" in result.stderr
    assert invoke("path", "toy").output.strip() == str(mine)


def test_a_known_hash_says_enough(judges: JudgeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "mine.bin"
    mine.write_bytes(b"another's")
    [option] = judges.options
    [toy] = option.weights
    pinned = replace(toy, files=(replace(toy.files[0], sha256=sha256(b"another's")),))
    judge = replace(judges, options=(replace(option, weights=(pinned,)),))
    found = (Plugin(JUDGES, "stranger", "theirs", judge, None),)
    monkeypatch.setattr("live_eval.cli.weights.find_plugins", lambda _: found)
    assert invoke("add", "toy", str(mine)).exit_code == 0, "its judge would not have loaded it"


@pytest.mark.usefixtures("judges")
@pytest.mark.parametrize("arguments", [("fetch", "toys"), ("add", "toys", "x"), ("path", "toys")])
def test_unknown_names_say_which_there_are(arguments: tuple[str, ...]) -> None:
    result = invoke(*arguments)
    assert isinstance(result.exception, UsageError)
    assert "unknown weights 'toys', expected one of: toy" in str(result.exception)


def test_two_meanings_of_a_name_are_said(judges: JudgeSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    [option] = judges.options
    other = replace(option.weights[0], title="another")
    second = replace(judges, name="second", options=(replace(option, weights=(other,)),))
    found = [Plugin(JUDGES, spec.name, "theirs", spec, None) for spec in (judges, second)]
    monkeypatch.setattr("live_eval.cli.weights.find_plugins", lambda _: found)
    result = invoke("list")
    assert isinstance(result.exception, UsageError)
    assert "stranger and second use the name 'toy' for different weights" in str(result.exception)
