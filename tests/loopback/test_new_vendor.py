"""Third-party vendors: the packages of examples/, installed outside the source tree."""

import asyncio
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from filelock import FileLock
from pybase64 import b64decode, b64encode_as_string
from websockets.asyncio.server import ServerConnection, serve

from live_eval.recording import RunReader
from live_eval.reference.server.process import ReferenceProcess

EXAMPLES = Path(__file__).parents[2] / "examples"
PACKAGES = {"acme": ("new-vendor", "Acme Voice"), "parley": ("parley", "Parley")}
KEY = "vendor-secret-4711"
CHECK = """
import sys
from pathlib import Path
from live_eval.registry import client, load
from live_eval.testing import check_dialect, read_cassette
for name, folder in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
    spec = client(name)
    cassettes = [read_cassette(path) for path in Path(folder, "golden").glob("*.jsonl")]
    check_dialect(load(spec.dialect), cassettes, frame_samples=spec.input_rate_hz * spec.frame_ms // 1000)
    print(name, "conforms")
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The folder into which the first test process that needs it installed both packages."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder if worker_id == "master" else folder.parent) / "vendors"
    target = folder / "site"
    with FileLock(f"{folder}.lock"):
        if not target.exists():
            sources = [folder / name for name, _ in PACKAGES.values()]
            for source in sources:
                shutil.copytree(EXAMPLES / source.name, source)
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
            subprocess.run([*pip, "--target", str(target), *map(str, sources)], check=True)
    return target


def python(installed: Path, *arguments: str, cwd: Path) -> str:
    path = os.pathsep.join(filter(None, (str(installed), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": path, "ACME_API_KEY": KEY, "PARLEY_API_KEY": KEY}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert KEY not in done.stdout + done.stderr
    return done.stdout


async def check_run(installed: Path, name: str, base_url: str, folder: Path, *flags: str) -> None:
    """Record a turn with an endpoint and check the stored turn."""
    endpoint = ["--endpoint", name, "--base-url", base_url, *flags]
    common = ["--limit", "1", "--no-report", "--word-times", "off", "--judges", "bleu", "--out", "run"]
    await asyncio.to_thread(python, installed, "-m", "live_eval", "run", *endpoint, *common, cwd=folder)
    await asyncio.to_thread(check_stored, folder / "run", name)


def check_stored(run: Path, name: str) -> None:
    with RunReader.open(run) as reader:
        (turn,) = reader.turns()
        assert turn.captured
        assert reader.manifest["endpoint"]["name"] == name
    assert not any(KEY.encode() in path.read_bytes() for path in run.rglob("*.sqlite"))


@asynccontextmanager
async def parley_server() -> AsyncIterator[str]:
    """A server that answers with 200 ms of a square wave after 200 ms of silence."""

    async def talk(connection: ServerConnection) -> None:
        assert connection.request is not None
        assert connection.request.headers["Authorization"] == f"Bearer {KEY}"
        silent_frames, heard = 0, False
        async for message in connection:
            request = json.loads(message)
            match request["op"]:
                case "join":
                    await connection.send('{"op":"joined","room":"r1"}')
                case "mic":
                    sounds = any(b64decode(request["pcm"]))
                    heard, silent_frames = heard or sounds, 0 if sounds else silent_frames + 1
                    if heard and silent_frames == 10:
                        heard = False
                        voice = b64encode_as_string(b"\x00\x20" * 1_600 + b"\x00\xe0" * 1_600)
                        for answer in (
                            {"op": "floor", "holder": "endpoint"},
                            {"op": "voice", "pcm": voice},
                            {"op": "caption", "words": "I am sorry to hear that."},
                            {"op": "floor", "holder": "nobody"},
                        ):
                            await connection.send(json.dumps(answer))

    async with serve(talk, "127.0.0.1", 0) as server:
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"


@pytest.mark.slow
def test_golden_sessions_of_installed_packages_conform(installed: Path, tmp_path: Path) -> None:
    pairs = [(name, str(EXAMPLES / folder)) for name, (folder, _) in PACKAGES.items()]
    said = python(installed, "-c", CHECK, *itertools.chain(*pairs), cwd=tmp_path)
    assert said.splitlines() == [f"{name} conforms" for name in PACKAGES]


def test_installed_packages_are_listed_with_ours(installed: Path, tmp_path: Path) -> None:
    listed = json.loads(python(installed, "-m", "live_eval", "endpoints", "--json", cwd=tmp_path))
    rows = {row["name"]: row for row in listed}
    for name, (_, title) in PACKAGES.items():
        assert rows[name]["title"] == title
        assert rows[name]["ok"]
        assert rows[name]["missing"] is None
    plugins = python(installed, "-m", "live_eval", "plugins", cwd=tmp_path)
    assert all(name in plugins for name in PACKAGES)


@pytest.mark.slow
async def test_a_run_plays_to_a_vendor_that_resembles_openai(installed: Path, tmp_path: Path) -> None:
    async with ReferenceProcess(calibrate=True, log_folder=tmp_path) as endpoint:
        await check_run(installed, "acme", endpoint.base_url, tmp_path, "--turn-mode", "manual")


@pytest.mark.slow
async def test_a_run_plays_to_a_vendor_with_its_own_protocol(installed: Path, tmp_path: Path) -> None:
    async with parley_server() as base_url:
        await check_run(installed, "parley", base_url, tmp_path)


@pytest.mark.parametrize("path", ["new-vendor/acme_voice.py", "parley/parley.py"])
def test_an_example_is_short_and_imports_nothing_private(path: str) -> None:
    lines = (EXAMPLES / path).read_text("utf-8").splitlines()
    assert len(lines) <= 120
    assert not [line for line in lines if re.search(r"import.*[. ]_", line)]
