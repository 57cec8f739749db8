"""Assertions that another command checks are refused with its name."""

import re

import pytest

from live_eval.cli._assertions import parse_assertions
from live_eval.errors import UsageError


def test_each_command_parses_its_assertions() -> None:
    [run] = parse_assertions("run", ["bleu.mean < 3"], ["bleu"])
    [latency] = parse_assertions("latency", ["voice_to_voice.p95 < 1.2s"])
    [duplex] = parse_assertions("duplex", ["barge_in.passed >= 90%"])
    assert [run.bound, latency.bound, duplex.bound] == [3, 1200, 90]


@pytest.mark.parametrize(
    ("command", "text", "other"),
    [
        ("latency", "barge_in.stop.p95 < 400ms", "duplex"),
        ("latency", "failed < 2%", "run"),
        ("latency", "wer_heard.normalized.mean < 5", "run"),
        ("duplex", "voice_to_voice.p95 < 400ms", "latency"),
        ("run", "barge_in.passed >= 90%", "duplex"),
    ],
)
def test_an_assertion_of_another_command_names_that_command(command: str, text: str, other: str) -> None:
    name = re.split("[<>]", text)[0].strip()
    told = f"assertion '{text}': `live-eval {other}` measures {name}, `live-eval {command}` does not"
    with pytest.raises(UsageError, match=f"^{re.escape(told)}$"):
        parse_assertions(command, [text])  # type: ignore[arg-type]


def test_other_mistakes_keep_the_command_s_own_message() -> None:
    with pytest.raises(UsageError, match=r"unknown metric 'voice_to_voce' \(did you mean voice_to_voice"):
        parse_assertions("latency", ["voice_to_voce.p95 < 1s"])
