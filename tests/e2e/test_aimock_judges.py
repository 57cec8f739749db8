"""LLM judges against `@copilotkit/aimock` and its faults: a complete run is scored."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from live_eval.data import cue_of
from live_eval.recording import RunWriter, ScoreReader, ScoreRow
from live_eval.scoring.judge_runner import JudgeOptions
from live_eval.scoring.llm import LlmOptions, Price
from live_eval.scoring.scoring_run import JudgeSummary, score_run
from live_eval.testing.judges import speechlike
from live_eval.types import Case, Variant
from tests.e2e.conftest import Aimock
from tests.support.records import TurnPlan, spoken_turn

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

KEY = "sk-aimock-5b1c"
RUBRIC, VES = "gpt-4o", "gemini-2.5-pro"
RATINGS = {
    f"{scale}_{what}": value
    for scale in (
        "context_fit",
        "response_naturalness",
        "colloquialism_degree",
        "speech_information_relevance",
    )
    for what, value in (("reason", "for a reason"), ("score", 4))
}
GOOD = {RUBRIC: RATINGS, VES: {"explanation": "Soft.", "VES_score": 4}}
USAGE = {"prompt_tokens": 1_000, "completion_tokens": 100}
PRICES = {RUBRIC: Price(input=2.5, output=10.0), VES: Price(input=1.25, output=10.0)}


def says(model: str, about: str, response: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the fixture that answers each prompt that contains `about`."""
    number = more.pop("number", None)
    match = {"endpoint": "chat", "model": model, "userMessage": about}
    if number is not None:
        match["sequenceIndex"] = number
    return {"match": match, "response": response, **more}


def good(model: str, about: str, **more: Any) -> dict[str, Any]:
    return says(model, about, {"content": GOOD[model], "usage": USAGE}, **more)


def fails(status: int, message: str = "no", **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "server_error"}, "status": status, **more}


# The cue of each case, which identifies its prompt, and the expected outcome.
OUTCOMES = {
    "happy": "scored",
    "sad": "scored",  # after a rate limit
    "angry": "scored",  # after an error
    "fear": "timeout",
    "shout": "scored",  # after a repair
    "whisper": "malformed",
    "cough": "filtered",
    "sigh": "truncated",
    "yawn": "unreadable",
    "moan": "connection",
}


def faults(model: str) -> list[dict[str, Any]]:
    cut = json.dumps(GOOD[model])[:-9]
    return [
        good(model, "happy"),
        says(model, "sad", fails(429, "Slow down.", retryAfter=2), number=0),
        good(model, "sad", number=1),
        says(model, "angry", fails(500), number=0),
        good(model, "angry", number=1),
        good(model, "fear", chaos={"latencyMs": 5_000}),
        says(model, "shout", {"content": cut, "usage": USAGE}),
        says(model, "whisper", {"content": {"verdict": "good"}, "usage": USAGE}),
        good(model, "expected one JSON object"),
        says(model, "expected the key", {"content": "As I said, it is good.", "usage": USAGE}),
        says(model, "cough", {"content": "I would", "finishReason": "content_filter"}),
        says(model, "sigh", {"content": cut, "finishReason": "length"}),
        good(model, "yawn", chaos={"malformedRate": 1.0}),
        good(model, "moan", chaos={"disconnectRate": 1.0}),
    ]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIMOCK_KEY", KEY)
    with RunWriter.create(tmp_path / "run", {}) as writer:
        for name in OUTCOMES:
            cue = cue_of(name)
            case = Case(
                case_id=name,
                script_id=name,
                variant=Variant.TARGET,
                audio_path=Path("c.wav"),
                text="The train leaves at nine.",
                cue=cue,
                script_cue=cue,
                topic="travel",
            )
            plan = TurnPlan(reply_text="Thanks for telling me, I will be at the station in time.")
            writer.commit(spoken_turn(case, plan, reply=speechlike(1.0)))
        writer.end(finished=True)
    return tmp_path / "run"


def score(run: Path, url: str, *, again: bool = False, **options: Any) -> tuple[JudgeSummary, ...]:
    llm = LlmOptions(base_url=url, key_variable="AIMOCK_KEY", **{"timeout_s": 1.5, "attempts": 2, **options})
    return score_run(run, ["rubric", "ves"], options=JudgeOptions(llm=llm), again=again).judges


def rows(run: Path) -> dict[str, dict[str, ScoreRow]]:
    found: dict[str, dict[str, ScoreRow]] = {}
    with ScoreReader.open(run) as scores:
        for row in scores.read():
            found.setdefault(row.judge, {})[row.turn_id] = row
    return found


def asked(url: str) -> list[dict[str, Any]]:
    """Return the requests that the server received."""
    with urllib.request.urlopen(f"{url}/_requests") as response:
        journal: list[dict[str, Any]] = json.load(response)
    return [entry for entry in journal if entry["path"].endswith("/chat/completions")]


def test_every_fault_ends_in_a_score_or_a_named_failure(aimock: Aimock, run: Path) -> None:
    with aimock(*faults(RUBRIC), *faults(VES), keys=KEY) as url:
        rubric, ves = score(run, url, prices=PRICES)
    for summary in (rubric, ves):
        assert (summary.n, summary.n_unscored, summary.n_failed) == (4, 0, 6), summary
        # happy 1, sad 2, angry 2, fear 2, shout 2, whisper 2, cough 1, sigh 1, yawn 2, moan 2
        assert summary.calls == 17
        assert summary.cached == 0
    # Six answers with 1,000 input and 100 output tokens; filtered and truncated ones as aimock counts them.
    assert rubric.cost is not None
    assert rubric.cost >= 7 * (1_000 * 2.5 + 100 * 10.0) / 1e6
    for judge, kept in rows(run).items():
        for name, outcome in OUTCOMES.items():
            row = kept[name]
            if outcome == "scored":
                assert row.status == "scored", (judge, name, row.reason)
                assert set(row.values.values()) == {4.0}
            else:
                assert row.reason.startswith(f"{outcome}: "), (judge, name, row.reason)
                assert row.detail["problem"] == outcome
            assert row.detail["prompt"], "the whole prompt is kept"
        assert (
            kept["shout"].detail["repaired"]["answer"]
            == json.dumps(GOOD[RUBRIC if judge == "rubric" else VES])[:-9]
        )
        assert "verdict" in kept["whisper"].detail["repaired"]["answer"]
        assert kept["whisper"].detail["answer"] == "As I said, it is good."
    assert KEY.encode() not in (run / "scores.sqlite").read_bytes()


def test_scoring_again_repeats_only_failed_requests(aimock: Aimock, run: Path) -> None:
    everything = [good(model, name) for model in (RUBRIC, VES) for name in OUTCOMES]
    with aimock(*faults(RUBRIC), *faults(VES)) as url:
        score(run, url)
        before = rows(run)
        failed = [name for name, outcome in OUTCOMES.items() if outcome != "scored"]
        with urllib.request.urlopen(urllib.request.Request(f"{url}/_requests", method="DELETE")):
            pass
        rubric, ves = score(run, url, again=True)
        assert (rubric.cached, ves.cached) == (4, 4)
        assert rubric.calls == ves.calls == 10
        assert len(asked(url)) == 2 * 8, "aimock does not write down whom nobody waited for"
        after = rows(run)
    for judge in before:
        for name in set(OUTCOMES) - set(failed):
            assert after[judge][name].values == before[judge][name].values
    with aimock(*everything) as url:
        rubric, ves = score(run, url)
        assert (rubric.n, rubric.calls, ves.n, ves.calls) == (10, 6, 10, 6)
        rubric, ves = score(run, url)
        assert (rubric.calls, ves.calls, rubric.cost, ves.cost) == (0, 0, 0.0, 0.0)
        assert len(asked(url)) == 12


def test_audio_is_sent_and_the_budget_is_kept(aimock: Aimock, run: Path) -> None:
    everything = [good(model, name) for model in (RUBRIC, VES) for name in OUTCOMES]
    with aimock(*everything) as url:
        rubric, ves = score(run, url, max_calls=15, samples=1)
        requests = asked(url)
    assert rubric.calls + ves.calls == len(requests) == 15
    assert rubric.n + ves.n == 15
    assert rubric.n_unscored + ves.n_unscored == 5
    (reason,) = {
        row.reason for kept in rows(run).values() for row in kept.values() if row.status == "unscored"
    }
    assert reason == "the budget is spent: 15 calls"
    for body in (request["body"] for request in requests):
        assert body["response_format"] == {"type": "json_object"}
        (message,) = body["messages"]
        if body["model"] == VES:
            assert [part["type"] for part in message["content"]] == ["text", "text", "input_audio"]
            assert message["content"][-1]["input_audio"]["data"].startswith("UklGR"), "a WAV file"


def test_a_refused_key_ends_scoring(aimock: Aimock, run: Path) -> None:
    with aimock(good(RUBRIC, "happy"), keys="sk-other") as url:
        rubric, ves = score(run, url, concurrency=1)
        assert (rubric.n_failed, ves.n_failed) == (10, 10)
        assert rubric.calls == ves.calls == 1
    assert all(row.reason.startswith("authentication: ") for row in rows(run)["ves"].values())
