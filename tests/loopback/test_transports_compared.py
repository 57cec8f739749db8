"""One model over WebSocket and over WebRTC, on the same cases, as one paired table."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from live_eval.cli import cli
from live_eval.reference.server.process import ReferenceProcess
from tests.support.marked_cases import marked_cases

SCRIPTS = 8
DELAY_MS = 200


def live_eval(*arguments: str) -> str:
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.timeout(60)
@pytest.mark.slow
async def test_one_model_over_both_transports_is_one_paired_table(tmp_path: Path) -> None:
    manifest = await asyncio.to_thread(marked_cases, tmp_path, [200] * SCRIPTS)
    settings = ["--delay-ms", str(DELAY_MS), "--reply-ms", "200"]
    async with ReferenceProcess(calibrate=True, log_folder=tmp_path, arguments=settings) as endpoint:
        for name, base_url in (
            ("reference", endpoint.base_url),
            ("openai-webrtc", endpoint.base_url.replace("ws:", "http:")),
        ):
            where = ["--endpoint", name, "--base-url", base_url, "--out", str(tmp_path / name)]
            how = ["--data", str(manifest), "--word-times", "off", "--judges", "none", "--no-report"]
            await asyncio.to_thread(live_eval, "run", *where, *how, "--concurrency", "4")
    runs = [str(tmp_path / "reference"), str(tmp_path / "openai-webrtc")]
    found: dict[str, Any] = json.loads(await asyncio.to_thread(live_eval, "compare", *runs, "--json"))
    (comparison,) = found["comparisons"]
    assert comparison["differs"]["endpoint.transport"] == {"first": "websocket", "other": "webrtc"}
    assert comparison["notes"] == []
    for metric in ("connect", "endpointing", "first_byte", "voice_to_voice"):
        difference = comparison["metrics"][metric]
        assert (difference["n"], difference["n_scripts"]) == (SCRIPTS, SCRIPTS), metric
        assert difference["interval"] is not None
    # The endpoint is the same; only the transport differs.
    assert abs(comparison["metrics"]["voice_to_voice"]["first"] - DELAY_MS) < 150
    assert abs(comparison["metrics"]["voice_to_voice"]["difference"]) < 150
    table = await asyncio.to_thread(live_eval, "compare", *runs)
    assert "endpoint.transport: websocket → webrtc" in table
