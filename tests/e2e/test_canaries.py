"""Endpoints and judges echo the secrets they received; all output of all commands is searched for them.

The commands that show, report and export a run receive no secret and so cannot redact it: their output is
clean only if the run was stored without secrets.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.cookiejar import CookieJar
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.canaries import (
    CANARIES,
    Hanging,
    Refusing,
    Scan,
    serving_chat,
    serving_vendor,
    write_recordings,
)

RUNS = ("replies", "processes", "crashed", "setting", "refused", "sdp", "http", "gemini", "nobody", "no-tls")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def secrets(*, llm: bool) -> dict[str, str]:
    """Return environment variables with the secrets for an endpoint or an LLM judge."""
    return {
        f"CANARY_{name}_SECRET": canary
        for name, canary in CANARIES.items()
        if name != "key" and name.startswith("llm-") is llm
    }


ENDPOINT, MODEL = secrets(llm=False), secrets(llm=True)


class Commands:
    """Runs commands as a user does and keeps their output and their child processes' command lines."""

    def __init__(self, folder: Path) -> None:
        self.printed: list[tuple[str, bytes]] = []
        self.command_lines: set[bytes] = set()
        self.folder = folder
        self._everything_here = {
            name: str(folder / name.lower())
            for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
        }
        for each in self._everything_here.values():
            Path(each).mkdir()
        key = folder.parent / "key"
        key.write_text(CANARIES["key"] + "\n")
        key.chmod(0o600)
        self.key_from = ("--key-from", f"file:{key}")

    def __call__(
        self,
        *arguments: str,
        given: dict[str, str] | None = None,
        fails: bool = False,
        crash: Hanging | None = None,
    ) -> str:
        """Run a command and return its output.

        Args:
            *arguments: The command's arguments.
            given: Environment variables.
            fails: Whether it may fail.
            crash: Abort the command's child processes once this endpoint has received a request.
        """
        with self._started(*arguments, given=given or {}) as process:
            over = threading.Event()
            watch = threading.Thread(target=self._watch, args=(process.pid, over, crash))
            watch.start()
            try:
                data, _ = process.communicate(timeout=120)
            finally:
                over.set()
                watch.join()
        text = data.decode(errors="replace")
        self.printed.append((f"what {' '.join(arguments[:2])} prints", data))
        assert fails or process.returncode == 0, text
        assert "Traceback" not in text
        return text

    @contextmanager
    def _started(self, *arguments: str, given: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen(
            (sys.executable, "-m", "live_eval", *arguments),
            cwd=self.folder,
            env={**os.environ, **self._everything_here, "PYTHONFAULTHANDLER": "1", **given},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        with process:
            try:
                yield process
            finally:
                process.kill()

    def _watch(self, parent: int, over: threading.Event, crash: Hanging | None) -> None:
        while not over.wait(0.1):
            children = [child for child in _children(parent) if self._keep_command_line(child)]
            if crash is not None and crash.asked.is_set() and children:
                crash = None
                for child in children:
                    os.kill(child, signal.SIGABRT)

    def _keep_command_line(self, process: int) -> bool:
        try:
            line = Path(f"/proc/{process}/cmdline").read_bytes()
        except OSError:
            return False
        self.command_lines.add(line)
        return bool(line)

    def studio(self) -> None:
        """Open the studio and request everything that its pages load."""
        with self._started("studio", ".", "--port", "0", "--no-browser", given={}) as process:
            assert process.stdout is not None
            link = process.stdout.readline().decode().partition(" ")[2].strip()
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
            origin = re.match(r"http://[^/]+", link)
            assert origin is not None, link
            browser.open(link).close()

            def get(path: str) -> bytes:
                with browser.open(f"{origin[0]}{path}") as answer:
                    body: bytes = answer.read()
                self.printed.append((f"the studio's {path}", body))
                return body

            for run in json.loads(get("/api/runs")):
                name = run["id"]
                get(f"/api/runs/{name}")
                if run["kind"] == "run":
                    get(f"/pages/report.html?run={name}")
                    for turn in json.loads(get(f"/api/runs/{name}/turns"))["rows"]:
                        path = f"/api/runs/{name}/turns/{quote(turn['turn_id'], safe='')}"
                        get(path)
                        get(f"{path}/events")


def _children(parent: int) -> list[int]:
    lists = Path(f"/proc/{parent}/task").glob("*/children")
    try:
        return [int(child) for each in lists for child in each.read_text().split()]
    except OSError:
        return []


def test_no_command_leaks_a_canary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    live_eval = Commands(folder)
    with ThreadPoolExecutor(2) as pool:
        record(live_eval, pool, write_recordings(folder))
        assert '"process_died"' in live_eval("show", "crashed", "--json")
        studio = pool.submit(live_eval.studio)
        list(pool.map(lambda arguments: live_eval(*arguments), readers()))
        studio.result()
    scan = Scan()
    scan.folder(folder)
    for where, data in live_eval.printed:
        scan.data(where, data)
    for line in live_eval.command_lines:
        scan.data("a command line", line)
    lines = len(live_eval.command_lines)
    with capsys.disabled():
        sys.stdout.write(
            f"\ncanaries: {scan.files} files, {len(live_eval.printed)} outputs, "
            f"{lines} different command lines; {scan.pieces} pieces, {len(scan.hits)} hits\n"
        )
    assert scan.hits == []
    assert scan.files > 70
    assert b"The key is ***" in (folder / "rows.jsonl").read_bytes(), "the endpoint's echo arrived"
    assert lines


def record(live_eval: Commands, pool: ThreadPoolExecutor, data: Path) -> None:
    """Record `RUNS` with endpoints that answer, fail, refuse, or do not exist; score one."""
    common = (
        *("--data", str(data), "--word-times", "off", "--judges", "none", "--retries", "0"),
        *("--patience", "0"),
        *("--concurrency", "1", "--record-wire", *live_eval.key_from),
    )
    manual = ("--turn-mode", "manual")
    setting = ("--extra", f"api_key={CANARIES['setting']}")
    hanging = Hanging()
    with (
        serving_vendor() as vendor,
        serving_vendor() as second,
        serving_vendor(hanging) as crashing,
        serving_chat(Refusing) as refusing,
        serving_chat() as chat,
    ):
        endpoints = {
            "replies": ("openai", f"ws://{vendor}/v1", *manual),
            "processes": ("openai", f"ws://{second}/v1", *manual, "--processes", "1"),
            "crashed": ("openai", f"ws://{crashing}/v1", *manual, "--processes", "1"),
            "setting": ("openai", f"ws://{refusing}/v1", *setting, "--processes", "1"),
            "refused": ("openai", f"ws://{refusing}/v1"),
            "sdp": ("openai-webrtc", f"http://{refusing}/v1"),
            "http": ("openai-chat-audio", f"http://{refusing}/v1"),
            "gemini": ("gemini-live", f"ws://{refusing}"),
            "nobody": ("openai", "ws://127.0.0.1:9/v1"),
            "no-tls": ("openai", f"wss://{refusing}/v1"),
        }
        assert tuple(endpoints) == RUNS

        def run(name: str) -> None:
            endpoint, url, *more = endpoints[name]
            live_eval(
                *("run", "--endpoint", endpoint, "--base-url", url, "--out", name, *common, *more),
                given=ENDPOINT,
                fails=True,
                crash=hanging if name == "crashed" else None,
            )

        list(pool.map(run, RUNS))
        live_eval(
            *("score", "replies", "--judges", "rubric", "--llm-base-url", f"http://{chat}/v1"),
            *("--llm-model", "m", "--llm-attempts", "1", "--llm-key-variable", "CANARY_llm-key_SECRET"),
            given=MODEL,
            fails=True,
        )
        live_eval(
            *("latency", "openai", "--base-url", f"ws://{refusing}/v1", *live_eval.key_from, "--turns", "1"),
            given=ENDPOINT,
            fails=True,
        )
    live_eval("run", "reference", "--key-from", CANARIES["key"], fails=True)
    for pasted in (CANARIES["key"], CANARIES["pasted"]):
        paste_keys(live_eval, pasted)


def paste_keys(live_eval: Commands, key: str) -> None:
    """Pass a key where the name of its variable is expected."""
    somewhere = (
        "run",
        "--endpoint",
        "reference",
        "--base-url",
        "ws://127.0.0.1:9/v1",
        "--limit",
        "1",
        "--out",
        "pasted",
        "--patience",
        "0",
    )
    settings = live_eval.folder.parent / "pasted.toml"
    for table, name in (("endpoint", "key_variable"), ("judges", "llm_key_variable")):
        settings.write_text(f'[{table}]\n{name} = "{key}"\n')
        flag = f"--{name.replace('_', '-')}"
        for given in ((flag, key), (f"{flag}={key}",), (str(settings),)):
            said = live_eval(*somewhere, *given, fails=True)
            assert "expected the name of an environment variable" in said
    said = live_eval(*somewhere, "--set", f"rubric.key_variable={key}", fails=True)
    assert "expected the name of an environment variable" in said


def readers() -> Iterator[tuple[str, ...]]:
    """Yield the commands that read runs."""
    for name in RUNS:
        yield "report", name, "-o", f"{name}.html"
    for name in ("replies", "refused"):
        yield "show", name, "--json"
        for form in ("md", "csv", "json"):
            yield "report", name, "--format", form, "-o", f"{name}.{form}"
    exports = {"jsonl": "rows.jsonl", "csv": "rows.csv"}
    if find_spec("pyarrow"):
        exports |= {"parquet": "rows.parquet", "hf": "data-set"}
    if find_spec("inspect_ai"):
        exports |= {"inspect": "log.eval"}
    for form, file in exports.items():
        yield "export", "replies", "--to", form, "-o", file
    yield "replay", "replies", "--turn", "0"
    yield "compare", "replies", "processes"
