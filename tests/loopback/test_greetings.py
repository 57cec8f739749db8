"""Endpoints that greet first, over real sockets: with events, on a media track, and without events."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from live_eval.analysis.greeting_summary import Greeting, greetings_of
from live_eval.recording import RunReader, TurnRecord
from live_eval.run import greetings
from tests.loopback.run.test_runner import endpoint, manifest, run, values  # noqa: F401

pytestmark = pytest.mark.usefixtures("own_cache")

MS = 1_000_000


async def played(
    name: str,
    base_url: str,
    manifest: Path,  # noqa: F811
    out: Path,
    **turns: object,
) -> list[TurnRecord]:
    """Run three of the recordings one after the other; return the turns in the order of dialling."""
    settings = values(base_url, manifest, concurrency=1, **turns)
    settings["endpoint"]["name"] = name
    settings["data"]["cases"] = ["good-0", "good-1", "good-2"]
    await run(settings, out)

    def read() -> list[TurnRecord]:
        with RunReader.open(out) as reader:
            return sorted(reader.turns(), key=lambda turn: turn.trace.dial_ns)

    return await asyncio.to_thread(read)


def waited_ms(turn: TurnRecord) -> float:
    """Return how long the user waited before speaking."""
    assert turn.trace.t0_ns is not None
    assert turn.trace.ready_ns is not None
    return (turn.trace.t0_ns - turn.trace.ready_ns) / MS


def greeting(turn: TurnRecord) -> Greeting | None:
    return next(greetings_of([turn]))


@pytest.mark.parametrize(
    "name",
    ["openai", *(pytest.param(name, marks=pytest.mark.slow) for name in ("openai-webrtc", "pipecat-webrtc"))],
)
async def test_the_user_waits_for_a_greeting_and_its_answer_is_measured(
    endpoint: str,  # noqa: F811
    manifest: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none is needed")
    monkeypatch.setattr(greetings, "LISTEN_S", 3.0)
    query = "?greeting_ms=300&reply_ms=600&delay_ms=250"
    base_url = endpoint.removesuffix("/v1") if name == "pipecat-webrtc" else endpoint
    base_url = base_url if name == "openai" else base_url.replace("ws://", "http://")
    turns = await played(name, base_url + query, manifest, tmp_path / "run", reply_silence=0.5)
    for turn in turns:
        assert turn.failure is None, turn.failure
        found = greeting(turn)
        assert found is not None
        assert not found.spoken_over
        assert 0.55 < found.heard_s < 1.3  # a track's surrounding silence counts too
        assert turn.timing.premature == 0
        assert turn.timing.headline == len(turn.responses) - 1 == 1
        assert turn.timing.voice_to_voice.ns is not None
        assert 200 < turn.timing.voice_to_voice.ns / MS < 500
    (tmp_path / "ignored").mkdir()
    (over, *_) = await played(
        name,
        base_url + query.replace("=300&", "=0&"),
        manifest,
        tmp_path / "ignored" / "run",
        greeting="ignore",
    )
    assert waited_ms(over) < 100


async def test_waiting_for_a_greeting_delays_only_the_first_session(
    endpoint: str,  # noqa: F811
    manifest: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(greetings, "LISTEN_S", 1.0)
    first, *others = await played("reference", endpoint, manifest, tmp_path / "run")
    assert 1_000 <= waited_ms(first) < 1_200
    assert [greeting(turn) for turn in (first, *others)] == [None] * 3
    for turn in others:
        assert waited_ms(turn) < 100
    assert [turn.failure for turn in (first, *others)] == [None] * 3
