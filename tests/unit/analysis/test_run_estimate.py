"""The estimate of a run: time, audio, tokens and cost, from the plan's recordings and stated assumptions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from live_eval.analysis.run_estimate import Assumptions, RunEstimate, estimate_run
from live_eval.registry import judge
from live_eval.run.plan import Plan, make_plan
from live_eval.run.run_file import validate
from live_eval.scoring.judge_runner import judge_options
from live_eval.scoring.llm.budget import Price, Tokens

PRICE = Price(input=4, output=16, audio_input=32, audio_output=64)
ASSUMED = Assumptions(reply=6, answer=2, latency=1, words=1, judge_tokens=100)


@pytest.fixture(autouse=True)
def _without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three recordings of 2, 3 and 4 s, and an empty one."""
    folder = tmp_path / "data"
    folder.mkdir()
    for seconds in (2, 3, 4, 0):
        soundfile.write(folder / f"{seconds}.wav", np.full(seconds * 8000, 0.1), 8000)
    return folder


def plan_of(root: Path | str, **tables: dict[str, Any]) -> Plan:
    values = {"endpoint": {"name": "openai"}, "data": {"path": str(root)}, **tables}
    return make_plan(validate(values), needs_key=False)


def estimated(plan: Plan, *judges: str, price: Price | None = PRICE) -> RunEstimate:
    specs = [judge(name) for name in judges]
    options = judge_options(plan.config.judges)
    return estimate_run(plan, plan.jobs, specs, options, price=price, assumptions=ASSUMED)


def test_time_and_audio_are_taken_from_the_recordings(data: Path) -> None:
    found = estimated(plan_of(data, turns={"concurrency": 2}))
    assert (found.turns, found.unusable, found.concurrency) == (4, 1, 2)
    assert found.input_minutes * 60 == pytest.approx(9)
    assert found.output_minutes * 60 == pytest.approx(18)
    assert found.minutes * 60 == pytest.approx((9 + 3 * 1 + 18) / 2)
    assert found.preparation_minutes * 60 == pytest.approx(3)
    # A single session lasts as long as its turn.
    for name in ("0.wav", "3.wav", "4.wav"):
        (data / name).unlink()
    alone = estimated(plan_of(data, turns={"concurrency": 8}))
    assert alone.minutes == pytest.approx(alone.input_minutes + alone.output_minutes + 1 / 60)


def test_tokens_of_audio_are_the_endpoints(data: Path) -> None:
    found = estimated(plan_of(data))
    assert found.tokens is not None
    assert (found.tokens.audio_input, found.tokens.audio_output) == (9 * 10, 18 * 20)
    assert found.tokens.output > found.tokens.audio_output  # and the reply's text
    assert found.usd == PRICE.cost(found.tokens)
    assert found.reason == ""


def test_an_unknown_price_or_rate_leaves_the_cost_unknown(data: Path) -> None:
    without = estimated(plan_of(data), price=None)
    assert (without.usd, without.reason) == (None, "the price of the model is unknown")
    text_only = estimated(plan_of(data), price=Price(input=1, output=1))
    assert (text_only.usd, text_only.reason) == (None, "the price of input audio is unknown (audio_input)")
    unknown = estimated(plan_of(data, endpoint={"name": "moshi"}))
    assert (unknown.tokens, unknown.usd) == (None, None)
    assert "tokens per second of audio are unknown" in unknown.reason
    free = estimated(plan_of(data, endpoint={"name": "reference"}), price=None)
    assert (free.tokens, free.usd, free.reason) == (Tokens(), 0, "")


def test_replies_as_text_have_no_audio(data: Path) -> None:
    found = estimated(plan_of(data, endpoint={"name": "openai", "modality": "text"}))
    assert found.output_minutes == 0
    assert found.tokens is not None
    assert found.tokens.audio_output == 0
    assert found.tokens.output > 0


def test_earlier_turns_of_a_dialogue_are_input_again() -> None:
    plan = plan_of("sample-dialogues")
    found = estimated(plan)
    assert found.tokens is not None
    once = found.input_minutes * 60 * 10
    assert found.tokens.audio_input > once + 6 * 20  # with the first reply of each dialogue


def test_a_judges_model_is_called_for_each_turn_with_its_inputs(data: Path) -> None:
    prices = {"gpt-4o": {"input": 2.5, "output": 10.0}}
    plan = plan_of("sample", judges={"names": [], "samples": 2, "prices": prices})
    rubric, ves, bleu, mcq = estimated(plan, "rubric", "ves", "bleu", "mcq").judges
    assert (rubric.turns, rubric.calls, rubric.model) == (len(plan.jobs), 2 * len(plan.jobs), "gpt-4o")
    assert rubric.tokens is not None
    assert rubric.tokens.output == 100 * rubric.calls
    assert rubric.usd == Price(input=2.5, output=10).cost(rubric.tokens)
    assert (ves.usd, ves.reason) == (None, "the price of gemini-2.5-pro is unknown")
    assert ves.tokens is not None
    assert ves.tokens.audio_input > 0
    assert (bleu.calls, bleu.tokens, bleu.core_minutes) == (0, None, 0)
    assert mcq.turns == 0  # no questions are asked
    # Recordings without script and cue are not rated.
    assert estimated(plan_of(data), "rubric").judges[0].turns == 0


def test_a_longer_reply_keeps_a_local_judge_busy_longer() -> None:
    plan = plan_of("sample")
    [dnsmos] = estimated(plan, "dnsmos").judges
    assert dnsmos.core_minutes == pytest.approx(judge("dnsmos").effort * len(plan.jobs) * 6 / 8 / 60)
