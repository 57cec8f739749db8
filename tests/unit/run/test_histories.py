"""Dialogue turns in separate sessions, after the data's earlier turns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from live_eval.errors import UsageError
from live_eval.run.histories import with_history
from live_eval.run.plan import Plan, make_plan
from live_eval.run.run_file import validate
from live_eval.types import Anchor, AnchorKind, BenchmarkItem, Case, History, ScoringRule, SpeechKind, Variant
from tests.support.bundled import SPECS


def dialogue(*replies: str | None, name: str = "d") -> list[Case]:
    return [
        Case(
            case_id=f"{name}/{number}",
            script_id=name,
            variant=Variant.TARGET,
            audio_path=Path(f"{number}.wav"),
            text=f"words {number}",
            reference_text=reply,
            dialogue_id=name,
            turn_index=number,
        )
        for number, reply in enumerate(replies)
    ]


def injected(cases: list[Case], history: History = History.INJECT_TEXT) -> list[Case]:
    return with_history(SPECS["openai"], history, cases).cases


def test_own_history_has_no_effect() -> None:
    cases = dialogue("a", "b")
    assert with_history(SPECS["moshi"], History.OWN, cases) == (cases, {})


def test_each_turn_has_a_session_after_the_turns_before_it() -> None:
    cases = dialogue("a", "b", None)
    single = replace(cases[0], case_id="single", dialogue_id=None)
    chosen, earlier = with_history(SPECS["openai"], History.INJECT_AUDIO, [*reversed(cases), single])
    assert [(case.case_id, case.history) for case in chosen] == [
        ("d/2", (("words 0", "a"), ("words 1", "b"))),
        ("d/1", (("words 0", "a"),)),
        ("d/0", ()),
        ("single", ()),
    ]
    assert {case.dialogue_id for case in chosen} == {None}
    assert earlier["d/2"] == tuple(cases[:2])


def test_turns_that_a_benchmark_does_not_score_are_only_history() -> None:
    first, last = dialogue("a", None)
    first = replace(first, item=BenchmarkItem(benchmark="b", part="p", rule=ScoringRule.NONE))
    alone = replace(first, case_id="alone", dialogue_id=None)
    assert [case.case_id for case in injected([first, last, alone])] == ["d/1", "alone"]
    (case,) = injected([first, last])
    assert (case.case_id, case.history) == ("d/1", (("words 0", "a"),))
    assert injected([replace(last, item=first.item)])[0].history == ()


def test_a_turn_with_an_incomplete_history_cannot_be_run() -> None:
    fine = dialogue("a", None, name="fine")
    cases = injected([*fine, *dialogue(None, None)])
    problems = {case.case_id: case.problem for case in cases}
    assert problems.pop("d/1") == "the turn 'd/0' has no reference reply for the history"
    assert set(problems.values()) == {None}
    silent = [replace(case, text=None) for case in dialogue("a", None)]
    with pytest.raises(
        UsageError, match="no dialogue can be used; first reason: the turn 'd/0' has no trans"
    ):
        injected(silent)
    assert injected(silent, History.INJECT_AUDIO)[1].problem is None


@pytest.mark.parametrize(
    "change",
    [{"speech": SpeechKind.BACKCHANNEL}, {"anchor": Anchor(AnchorKind.REPLY_AUDIBLE)}],
)
def test_scripts_are_not_histories(change: dict[str, object]) -> None:
    first, last = dialogue("a", None)
    with pytest.raises(UsageError, match="no reply of its own"):
        injected([replace(first, **change), last])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("endpoint", "history", "said"),
    [
        ("moshi", "inject-text", "'inject-text': expected own for moshi"),
        ("gemini_live", "inject-audio", "'inject-audio': expected own or inject-text for gemini-live"),
    ],
)
def test_an_endpoint_that_takes_no_history_is_refused(endpoint: str, history: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        with_history(SPECS[endpoint], History(history), dialogue("a", None))


def test_a_stored_agent_that_accepts_no_history_is_reported() -> None:
    agent = SPECS["ultravox"].with_extra({"agent_id": "a1"})
    with pytest.raises(UsageError, match=r"the stored agent in endpoint.extra.agent_id accepts no earlier"):
        with_history(agent, History.INJECT_TEXT, dialogue("a", None))
    with pytest.raises(UsageError, match=r"expected own for ultravox"):
        with_history(agent, History.INJECT_AUDIO, dialogue("a", None))


def test_data_without_dialogues_is_refused() -> None:
    single = replace(dialogue("a")[0], dialogue_id=None)
    with pytest.raises(UsageError, match="expected dialogues, but no case is part of one"):
        injected([single])


def planned(endpoint: str, history: str) -> Plan:
    return make_plan(
        validate(
            {
                "endpoint": {"name": endpoint, "base_url": "ws://127.0.0.1:1"},
                "data": {"path": "sample-dialogues"},
                "turns": {"history": history},
            }
        )
    )


def test_a_plan_sends_the_history_in_the_settings() -> None:
    plan = planned("gemini-live", "inject-text")
    job = next(job for job in plan.jobs if job.case.case_id == "dl_201/3")
    sent = plan.settings("ws://h", job.case).history
    assert [turn.reply for turn in sent] == [case.reference_text for case in job.earlier]
    assert len(sent) == 2
    assert plan.manifest()["config"]["turns"]["history"] == "inject-text"
    assert not plan.settings("ws://h", replace(job.case, history=())).history


def test_one_request_per_turn_can_continue_a_dialogue() -> None:
    assert any(job.earlier for job in planned("openai-chat-audio", "inject-audio").jobs)
    with pytest.raises(UsageError, match="makes one request per turn"):
        planned("openai-chat-audio", "own")
