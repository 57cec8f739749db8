"""A server of chat completions."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from live_eval import registry
from live_eval.recording import RunWriter
from live_eval.types import Case, Variant
from tests.loopback.scoring.llm.chat_server import TOY, Server
from tests.support.records import spoken_turn
from tests.support.serving import listening

KEY = "sk-test-3fb1c0de"


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.handle)
    async with listening(app) as address:
        server.base_url = f"http://{address}/v1"
        yield server
        if server.hold is not None:
            server.hold.set()


# -- Whole scorings -------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(registry, "judge", lambda _: TOY)
    monkeypatch.setenv("TOY_KEY", KEY)
    with RunWriter.create(tmp_path / "run", {}) as writer:
        for number in range(3):
            case = Case(case_id=f"c{number}", script_id="s", variant=Variant.TARGET, audio_path=Path("c.wav"))
            writer.commit(spoken_turn(case))
        writer.end(finished=True)
    return tmp_path / "run"
