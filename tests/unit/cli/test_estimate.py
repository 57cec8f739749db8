"""``live-eval run --estimate``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from live_eval.analysis.run_estimate import Assumptions
from live_eval.cli import cli
from live_eval.cli._estimate import assumptions_of
from live_eval.errors import UsageError
from live_eval.recording import RunWriter
from live_eval.run.plan import make_plan
from live_eval.run.run_file import validate
from tests.support.records import spoken_turn


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def run(*flags: str) -> Result:
    return CliRunner().invoke(cli, ["run", *flags])


def test_an_estimate_needs_no_key_and_starts_nothing() -> None:
    prices = "input=4,output=16,audio_input=32,audio_output=64"
    done = run("openai", "--estimate", "--price", prices, "--judges", "rubric,bleu", "--assume", "reply=10s")
    assert done.exit_code == 0
    assert "cost       US$ " in done.stdout
    assert "rubric: the price of gpt-4o is unknown (--prices)" in done.stdout
    assert "reply=10: length of a reply in seconds" in done.stdout
    assert "note: rubric cannot run yet: API key (set OPENAI_API_KEY)" in done.stderr
    assert not Path("recordings").exists()


def test_an_unknown_price_is_reported_and_json_has_the_same_values() -> None:
    done = run("openai", "--estimate", "--judges", "none")
    assert "unknown: the price of the model is unknown (--price)" in done.stdout
    as_json = json.loads(run("openai", "--estimate", "--judges", "none", "--json").stdout)
    assert (as_json["usd"], as_json["reason"]) == (None, "the price of the model is unknown")
    assert as_json["assumptions"]["input_tokens"] == 10


def test_the_built_in_endpoint_is_free() -> None:
    done = run("reference", "--estimate", "--judges", "bleu,mcq")
    assert "tokens     none: the endpoint counts no tokens" in done.stdout
    assert "cost       US$ 0.00" in done.stdout
    assert "speed=100: " in done.stdout
    assert "mcq" not in done.stdout, "it has no turn to score"


def test_the_turns_of_a_resumed_run_are_those_not_recorded() -> None:
    plan = make_plan(validate({}))
    with RunWriter.create(Path("mine"), plan.manifest()) as writer:
        writer.commit(spoken_turn(plan.jobs[0].case))
        writer.end(finished=False)
    done = run("reference", "--estimate", "--out", "mine", "--resume", "--json")
    assert json.loads(done.stdout)["turns"] == len(plan.jobs) - 1


def test_the_flags_of_an_estimate_need_it() -> None:
    assert "--assume requires --estimate" in str(run("reference", "--assume", "reply=3").exception)
    done = run("reference", "--estimate", "--out", "mine", "--retry-failed")
    assert isinstance(done.exception, Exception)


def test_assumptions_are_checked() -> None:
    assert assumptions_of("reply=500ms, words=3") == Assumptions(reply=0.5, words=3)
    for text, message in (
        ("repl=3", "did you mean reply"),
        ("words=0", "above 0"),
        ("reply=soon", "duration"),
    ):
        with pytest.raises(UsageError, match=f"--assume: .*{message}"):
            assumptions_of(text)


def test_the_estimate_of_several_prompts_is_their_total() -> None:
    def turns(prompt: str) -> tuple[int, int]:
        done = run("openai", "--estimate", "--json", "--judges", "rubric", "--prompt", prompt)
        estimate = json.loads(done.stdout)
        return estimate["turns"], estimate["judges"][0]["calls"]

    one = turns("basic")
    assert turns("no,basic,enhance") == (3 * one[0], 3 * one[1])
