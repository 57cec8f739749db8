"""Downloads of weights: resumed, limited and checked."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
from filelock import FileLock

from live_eval.clock import SystemClock
from live_eval.errors import JudgeError, StoreLockedError, UsageError
from live_eval.judging import JudgeSpec
from live_eval.registry import JUDGES, find_plugins
from live_eval.weights import WeightsFile, find_weights
from live_eval.weights.fetching import HUB, check_redirect, fetch_weights, published_at
from tests.loopback.weights.publisher import Publisher, hub_spec, serve, sha256, spec

CONTENT = bytes(range(251)) * 20_000  # 5 MB; the prime period makes aligned blocks differ


OTHER = CONTENT[::-1]


TOKEN = "hf_neverprinted5e4f1b"


class Hasty(SystemClock):
    """A clock that does not wait, and records the requested delays."""

    def __init__(self) -> None:
        self.waited_s: list[float] = []

    async def sleep_until(self, at_ns: int) -> None:
        self.waited_s.append(round((at_ns - self.now_ns()) / 1e9, 1))


def test_a_complete_download_is_recorded_and_not_repeated(publisher: Publisher, folder: Path) -> None:
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


def test_an_interrupted_transfer_resumes_within_one_fetch(publisher: Publisher) -> None:
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


def test_an_interrupted_transfer_resumes_in_the_next_fetch(publisher: Publisher, folder: Path) -> None:
    known = spec(publisher, known=sha256(CONTENT))
    publisher.cuts = [2_000_000, 0, 0, 0, 0]
    with pytest.raises(
        JudgeError, match=r"interrupted.*; the partial download is kept, and the next download resumes it"
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
def test_two_versions_of_a_file_are_never_joined(
    publisher: Publisher, ranges: bool, known: str | None
) -> None:
    publisher.cuts = [2_000_000, 0, 0, 0, 0]
    with pytest.raises(JudgeError, match="was interrupted"):
        fetch_weights(spec(publisher, known=known), clock=Hasty())
    publisher.files["/m/a.bin"] = OTHER
    publisher.ranges = ranges
    if known and ranges:
        with pytest.raises(JudgeError, match="discarded"):
            fetch_weights(spec(publisher, known=known))
    assert fetch_weights(spec(publisher, known=known)).path.read_bytes() == OTHER


def test_a_file_that_became_shorter_is_fetched_again(publisher: Publisher) -> None:
    short = spec(publisher, known=sha256(CONTENT[:1_000_000]))
    publisher.cuts = [2_000_000, 0, 0, 0, 0]
    with pytest.raises(JudgeError, match="was interrupted"):
        fetch_weights(short, clock=Hasty())
    publisher.files["/m/a.bin"] = CONTENT[:1_000_000]
    assert fetch_weights(short, clock=Hasty()).path.read_bytes() == CONTENT[:1_000_000]


def test_a_stalled_transfer_is_aborted(publisher: Publisher) -> None:
    publisher.stalls = True
    with pytest.raises(JudgeError, match=r"no data for 0\.2 s$"):
        fetch_weights(spec(publisher), clock=Hasty(), idle_s=0.2)


def test_a_busy_server_is_retried_after_a_wait(publisher: Publisher) -> None:
    publisher.statuses = [503, 429]
    clock = Hasty()
    assert fetch_weights(spec(publisher), clock=clock).path.read_bytes() == CONTENT
    assert clock.waited_s == [1.0, 2.0]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, "nothing is published there any more"),
        (401, "HF_TOKEN"),
        (403, "licence"),
        (410, "the download failed"),
    ],
)
def test_a_refused_request_is_not_retried(
    publisher: Publisher, status: int, words: str, folder: Path
) -> None:
    publisher.statuses = [status]
    with pytest.raises(JudgeError, match=f"/m/a.bin: HTTP {status}: .*{words}"):
        fetch_weights(spec(publisher))
    assert len(publisher.asked) == 1
    assert not list((folder / "toy").iterdir())


def test_an_html_page_is_refused_as_weights(publisher: Publisher) -> None:
    publisher.headers["Content-Type"] = "text/html; charset=utf-8"
    with pytest.raises(JudgeError, match="got a web page"):
        fetch_weights(spec(publisher))


def test_a_file_with_another_hash_is_deleted(publisher: Publisher, folder: Path) -> None:
    with pytest.raises(
        JudgeError, match=f"expected SHA-256 {'0' * 64}, got {sha256(CONTENT)}; the file was discarded$"
    ):
        fetch_weights(spec(publisher, known="0" * 64))
    assert not list((folder / "toy").iterdir())


def test_the_first_hash_is_recorded_and_required_later(publisher: Publisher, folder: Path) -> None:
    toy = spec(publisher)
    fetch_weights(toy)
    publisher.files["/m/a.bin"] = OTHER
    (folder / "toy/a.bin").unlink()
    with pytest.raises(
        JudgeError, match="discarded; if a new version was published, run live-eval weights fetch toy --again"
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


def test_a_missing_network_is_reported(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    nowhere = Publisher(address=f"http://127.0.0.1:{port}")
    with pytest.raises(
        JudgeError, match=f"Cannot connect to host 127.0.0.1:{port} .*Check the network.*weights add"
    ):
        fetch_weights(spec(nowhere))


def test_a_full_disk_is_reported_before_the_download(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 3_000_000})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(UsageError, match="expected 5 MB of free space, got 3 MB"):
        fetch_weights(spec(publisher))


def test_a_disk_that_fills_up_keeps_the_partial_file(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no device that is always full")
    real = Path.open

    def full(path: Path, *how: Any, **settings: Any) -> Any:
        return real(Path("/dev/full") if path.suffix == ".part" else path, *how, **settings)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(
        UsageError, match=r"cannot write .*: No space left on device; the partial download is kept"
    ):
        fetch_weights(spec(publisher))


def test_two_processes_do_not_fetch_the_same_file(publisher: Publisher, folder: Path) -> None:
    with (
        FileLock(folder / ".toy.lock"),
        pytest.raises(StoreLockedError, match="another process is fetching these weights"),
    ):
        fetch_weights(spec(publisher))
    assert fetch_weights(spec(publisher)).path.read_bytes() == CONTENT


def test_a_folder_that_cannot_be_created_is_reported(publisher: Publisher, folder: Path) -> None:
    folder.write_text("a file")
    with pytest.raises(UsageError, match="cannot write"):
        fetch_weights(spec(publisher))


def test_a_token_is_sent_only_to_the_hub(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Publisher(moved_to=publisher.address, headers={"X-Linked-ETag": f'"{sha256(CONTENT)}"'})
    server = serve(hub)
    try:
        monkeypatch.setenv("HF_ENDPOINT", hub.address + "/")
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        assert fetch_weights(hub_spec(publisher)).path.read_bytes() == CONTENT
        assert [asked.token for asked in hub.asked] == [f"Bearer {TOKEN}"]
        assert [asked.token for asked in publisher.asked] == [None]
        # Other hosts never receive it.
        fetch_weights(spec(publisher), again=True)
        assert [asked.token for asked in publisher.asked] == [None, None]
    finally:
        server.shutdown()
        server.server_close()


def test_the_hash_that_the_hub_states_is_checked(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", publisher.address)
    publisher.headers["X-Linked-ETag"] = f'"{sha256(OTHER)}"'
    with pytest.raises(JudgeError, match=f"expected SHA-256 {sha256(OTHER)}"):
        fetch_weights(hub_spec(publisher))
    publisher.headers["X-Linked-ETag"] = '"a1b2c3"'  # for a small file, git's own hash
    assert fetch_weights(hub_spec(publisher)).sha256 == sha256(CONTENT)


def test_a_mirror_must_have_an_address() -> None:
    file = WeightsFile(name="a", url=f"{HUB}/m/a")
    assert published_at(file, {}) == file.url
    assert published_at(file, {"HF_ENDPOINT": "http://mirror:8080/hub/"}) == "http://mirror:8080/hub/m/a"
    elsewhere = WeightsFile(name="a", url="https://example.org/a")
    assert published_at(elsewhere, {"HF_ENDPOINT": "http://mirror"}) == elsewhere.url
    with pytest.raises(UsageError, match="HF_ENDPOINT: expected an address"):
        published_at(file, {"HF_ENDPOINT": "mirror"})


# Servers that require more than a request.


def test_files_whose_sum_exceeds_the_weights_are_deleted(publisher: Publisher, folder: Path) -> None:
    publisher.files["/m/b.bin"] = OTHER
    with pytest.raises(
        JudgeError, match="expected a file of at most 2 MB, got 5 MB or more, which was discarded"
    ):
        fetch_weights(spec(publisher, "a.bin", "b.bin"))
    assert not list((folder / "toy").glob("b.bin*"))


@pytest.mark.parametrize("states_length", [True, False])
def test_a_file_larger_than_the_weights_is_deleted(
    publisher: Publisher, folder: Path, states_length: bool
) -> None:
    small = replace(spec(publisher), megabytes=1)
    publisher.states_length = states_length
    with pytest.raises(
        JudgeError, match=r"expected a file of at most 2 MB, got \d MB or more, which was discarded"
    ):
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


@pytest.mark.parametrize("target", ["https://127.0.0.1:9941\\.huggingface.co/x", "https://[::1/x"])
def test_a_redirect_to_no_url_is_refused(target: str) -> None:
    url = f"{HUB}/a"
    with pytest.raises(JudgeError, match="invalid redirect URL: "):
        check_redirect(url, url, redirect(url, target))


def redirect(url: str, target: str) -> requests.Response:
    response = requests.Response()
    response.url, response.status_code = url, 302
    response.headers["Location"] = target
    return response


def test_a_redirect_to_another_host_is_never_requested(publisher: Publisher, folder: Path) -> None:
    publisher.moved_to = f"http://localhost:{publisher.address.rpartition(':')[2]}"
    with pytest.raises(JudgeError, match=r"over https to 127.0.0.1, got one to http://localhost"):
        fetch_weights(spec(publisher))
    assert [asked.path for asked in publisher.asked] == ["/m/a.bin"]


def test_endless_redirects_are_abandoned(publisher: Publisher) -> None:
    publisher.moved_to = publisher.address
    with pytest.raises(JudgeError, match="cannot request the file: TooManyRedirects"):
        fetch_weights(spec(publisher))
    assert len(publisher.asked) == 6


def test_the_body_of_a_redirect_is_not_read(publisher: Publisher) -> None:
    publisher.moved_to, publisher.stalls = publisher.address, True
    with pytest.raises(JudgeError, match="TooManyRedirects"):
        fetch_weights(spec(publisher), clock=Hasty(), idle_s=0.5)
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
