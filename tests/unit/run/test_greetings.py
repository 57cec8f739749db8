"""A run determines from its first sessions whether the endpoint greets."""

from __future__ import annotations

from typing import Any

import pytest

from live_eval.run import greetings
from live_eval.run.greetings import Greetings
from live_eval.run.plan import make_plan
from live_eval.run.run_file import validate
from live_eval.session.capture import CapturedResponse, TurnCapture
from live_eval.timing import ResponseRecord, TurnTrace
from live_eval.types import OnGreeting

LISTENS_NS, WAITS_NS = 3_000_000_000, 10_000_000_000


@pytest.fixture(autouse=True)
def listening(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greetings, "LISTEN_S", 3.0)


def first_turn(*created_ns: int, onset_ns: int | None = 1_000) -> TurnCapture:
    """Return the first turn of a session, with responses that began at these times."""
    wire = [
        CapturedResponse(
            record=ResponseRecord(response_id=str(at_ns), first_text_ns=at_ns), chunks=(), codec=None
        )
        for at_ns in created_ns
    ]
    return TurnCapture(trace=TurnTrace(dial_ns=0, onset_ns=onset_ns), wire=wire, wall_ns=0)


def test_one_session_without_a_greeting_is_enough() -> None:
    known = Greetings()
    assert known.patience_ns() == LISTENS_NS
    known.observe(first_turn(onset_ns=None))  # it failed before the user spoke
    assert known.patience_ns() == LISTENS_NS
    assert known.patience_ns(listens=False) == 0
    known.observe(first_turn(2_000))
    assert known.patience_ns() == 0
    known.observe(first_turn(500, 2_000))  # now the endpoint greets
    assert known.patience_ns() == known.patience_ns(listens=False) == WAITS_NS
    known.observe(first_turn(2_000))
    assert known.patience_ns() == WAITS_NS


def test_what_the_user_asks_for_is_not_learned_away() -> None:
    waits, ignores = Greetings(OnGreeting.WAIT), Greetings(OnGreeting.IGNORE)
    for known in (waits, ignores):
        known.observe(first_turn(2_000))
        known.observe(first_turn(500))
    assert (waits.patience_ns(), ignores.patience_ns()) == (WAITS_NS, 0)


@pytest.mark.parametrize(
    ("endpoint", "turns", "waits_ns"),
    [
        ({"name": "reference"}, {}, 0),  # live-eval launches it without a greeting
        ({"name": "reference"}, {"greeting": "wait"}, WAITS_NS),
        ({"name": "reference", "base_url": "ws://127.0.0.1:1/v1"}, {}, LISTENS_NS),
        ({"name": "reference", "base_url": "ws://127.0.0.1:1/v1"}, {"greeting": "ignore"}, 0),
        ({"name": "openai-chat-audio", "base_url": "http://127.0.0.1:1/v1"}, {"greeting": "wait"}, 0),
        ({"name": "pipecat-webrtc", "base_url": "http://127.0.0.1:1"}, {}, LISTENS_NS),
        ({"name": "unmute", "base_url": "ws://127.0.0.1:1"}, {}, WAITS_NS),
        ({"name": "assemblyai"}, {}, 0),
        ({"name": "assemblyai", "extra": {"agent_id": "a1"}}, {}, LISTENS_NS),
        ({"name": "assemblyai", "extra": {"greeting": "Hello."}}, {}, LISTENS_NS),
        ({"name": "ultravox", "extra": {"firstSpeakerSettings": {"agent": {}}}}, {}, LISTENS_NS),
        ({"name": "openai", "extra": {"speed": 1.2}}, {}, 0),  # a setting that cannot make it greet
    ],
)
def test_known_greetings_before_the_first_session(
    endpoint: dict[str, Any], turns: dict[str, Any], waits_ns: int
) -> None:
    config = validate({"endpoint": endpoint, "turns": turns, "judges": {"names": ()}})
    plan = make_plan(config, needs_key=False)
    assert Greetings.of(plan).patience_ns() == waits_ns
