"""Canaries: secrets that enter a run through every input, and endpoints that echo them in every encoding."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from blockbuster import BlockBuster

from live_eval.cli import main
from tests.support.canaries import CANARIES, SHORT, Chat, Scan, serving_chat, serving_vendor, write_recordings


@pytest.fixture
def vendor() -> Iterator[str]:
    with serving_vendor() as address:
        yield address


@pytest.fixture
def chat() -> Iterator[str]:
    with serving_chat() as address:
        yield address


@pytest.fixture
def permissive() -> Iterator[None]:
    """Create files readable by all, unless they are explicitly private."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("permissive")
def test_no_canary_leaks(
    vendor: str,
    chat: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    blockbuster: BlockBuster,
) -> None:
    blockbuster.deactivate()  # it mistakes our stream over the terminal for a file
    monkeypatch.setenv("CANARY_KEY", CANARIES["key"])
    monkeypatch.setenv("CANARY_LLM_KEY", CANARIES["llm-key"])
    speech = write_recordings(tmp_path)
    out = tmp_path / "run"
    tools = {
        "type": "mcp",
        "server_url": f"https://me:{quote(CANARIES['tool'], safe='')}@tools.example/x",
        "headers": {"Authorization": f"Bearer {CANARIES['tool']}"},
    }
    safe = {name: quote(canary, safe="") for name, canary in CANARIES.items()}
    base_url = f"ws://me:{safe['password']}@{vendor}/v1?signed={safe['query']}"
    judge = [
        f"--llm-base-url=http://me:{safe['llm-password']}@{chat}/v1?signed={safe['llm-query']}",
        *("--llm-model", "m", "--llm-key-variable", "CANARY_LLM_KEY", "--llm-attempts", "1"),
    ]

    def live_eval(*arguments: str, status: int) -> None:
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert (end.value.code or 0) == status, capfd.readouterr()

    live_eval(
        *("run", "--endpoint", "openai-webrtc", "--base-url", base_url.replace("ws:", "http:")),
        *("--key-variable", "CANARY_KEY", "--data", str(speech), "--retries", "0", "--judges", "none"),
        *("--ice-servers", f"turn:me:{CANARIES['turn']}@turn.example:3478", "--word-times", "off"),
        *("--out", str(tmp_path / "webrtc")),
        status=3,
    )
    live_eval(
        *("run", "--endpoint", "openai", "--base-url", base_url, "--key-variable", "CANARY_KEY"),
        *("--extra", f"tools={json.dumps([tools]).replace(': ', ' = ')}"),
        *("--extra", f"vendor_password={SHORT}", "--extra", f"api_token={CANARIES['setting']}"),
        *("--data", str(speech), "--turn-mode", "manual", "--concurrency", "1", "--retries", "0"),
        *("--word-times", "off", "--record-wire", "--judges", "rubric", *judge, "--out", str(out)),
        status=3,
    )
    live_eval("score", str(out), "--judges", "rubric", *judge, "--samples", "2", status=3)
    judge[0] = judge[0].replace(chat, "127.0.0.1:9")  # no server listens there
    live_eval("score", str(out), "--judges", "rubric", *judge, "--samples", "3", status=2)
    live_eval("show", str(out), status=0)
    captured = capfd.readouterr()
    scan = Scan()
    scan.data("the terminal", (captured.out + captured.err).encode())
    scan.folder(tmp_path)
    assert scan.hits == []
    assert scan.files > 10
    assert Chat.asked
    assert "vendor_password" in (out / "run.sqlite").read_bytes().decode("utf-8", "replace")
    for path in (out, *(each for each in out.rglob("*") if each.is_dir())):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
    for path in filter(Path.is_file, out.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
