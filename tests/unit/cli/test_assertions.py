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
    told = f"assertion '{text}': `live-eval {other}` measures {name}; `live-eval {command}` does not"
    with pytest.raises(UsageError, match=f"^{re.escape(told)}$"):
        parse_assertions(command, [text])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "text", "meant"),
    [
        ("run", "barge_in.stop < 4ms", "barge_in.stop.p95 < 4ms"),
        ("run", "barge_in_stop<4ms", "barge_in.stop.p95<4ms"),
        ("latency", "barge_in_stop < 0.4s", "barge_in.stop.p95 < 0.4s"),
    ],
)
def test_an_incomplete_assertion_names_the_other_command_and_a_complete_one(
    command: str, text: str, meant: str
) -> None:
    name = re.split("[<>]", text)[0].strip()
    told = (
        f"assertion '{text}': `live-eval duplex` measures {name}; `live-eval {command}` does not; "
        f"with that command, use for example '{meant}'"
    )
    with pytest.raises(UsageError, match=f"^{re.escape(told)}$"):
        parse_assertions(command, [text])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "text", "meant"),
    [
        ("duplex", "barge_in.stop < 4ms", "barge_in.stop.p95 < 4ms"),
        ("duplex", "barge-in_stop < 4ms", "barge-in.stop.p95 < 4ms"),
        ("latency", "voice_to_voice < 4ms", "voice_to_voice.p95 < 4ms"),
        ("run", "bleu < 5", "bleu.mean < 5"),
    ],
)
def test_an_assertion_without_its_statistic_is_completed(command: str, text: str, meant: str) -> None:
    told = f"assertion '{text}': did you mean '{meant}'?"
    with pytest.raises(UsageError, match=f"^{re.escape(told)}$"):
        parse_assertions(command, [text], ["bleu"])  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "<", "_ < 3", "= 3", "barge_in"])
def test_a_text_without_a_name_is_refused(text: str) -> None:
    for command in ("run", "latency", "duplex"):
        with pytest.raises(UsageError, match=r"^assertion"):
            parse_assertions(command, [text])


def test_other_mistakes_keep_the_command_s_own_message() -> None:
    with pytest.raises(UsageError, match=r"unknown metric 'voice_to_voce' \(did you mean voice_to_voice"):
        parse_assertions("latency", ["voice_to_voce.p95 < 1s"])
