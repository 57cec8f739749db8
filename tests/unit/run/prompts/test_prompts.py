"""Prompts: the benchmark's, a user's file, questions, and placeholders without a value."""

from dataclasses import replace
from pathlib import Path

import pytest

from live_eval.data import NEUTRAL, cue_of
from live_eval.errors import UsageError
from live_eval.run.prompts import PROMPTS, SystemPrompt, instructions_for, load_prompt
from live_eval.types import Case, Question, Task, Variant

CASE = Case(
    case_id="c/target",
    script_id="c",
    variant=Variant.TARGET,
    audio_path=Path("c.wav"),
    text="I went through the old photos today.",
    cue=cue_of("sigh sound"),
    script_cue=cue_of("sigh sound"),
    topic="family",
)
NEUTRAL_TAKE = replace(CASE, case_id="c/neutral", variant=Variant.NEUTRAL, cue=NEUTRAL)


def told(name: str, case: Case = CASE) -> str:
    return instructions_for(case, load_prompt(name))


def test_each_setting_extends_the_one_before() -> None:
    assert told("no") == ""
    assert told("basic") in told("enhance")
    assert told("enhance") in told("upper-bound")
    assert len({told(name) for name in PROMPTS}) == len(PROMPTS)


def test_only_the_upper_bound_names_the_cue_if_there_is_one() -> None:
    assert ["sigh sound" in told(name) for name in PROMPTS] == [False, False, False, True]
    assert told("upper-bound", NEUTRAL_TAKE) == told("enhance", NEUTRAL_TAKE)
    assert told("enhance", NEUTRAL_TAKE) == told("enhance"), "a neutral take is not told apart"


@pytest.mark.parametrize(
    ("phrase", "word"), [("elderly", "bias"), ("shout", "voice"), ("sound of raining", "background")]
)
def test_enhance_names_the_dimension(phrase: str, word: str) -> None:
    case = replace(CASE, cue=cue_of(phrase), script_cue=cue_of(phrase))
    assert word in told("enhance", case).removeprefix(told("basic", case))


def test_a_line_without_a_value_is_left_out() -> None:
    bare = replace(CASE, topic=None, cue=None, script_cue=None)
    assert "topic" not in told("upper-bound", bare)
    assert told("upper-bound", bare) == told("basic", bare)


@pytest.mark.parametrize("word", ["no_specific_topics", "No specific topic", "none"])
def test_no_specific_topics_counts_as_no_topic(word: str) -> None:
    assert told("basic", replace(CASE, topic=word)) == told("basic", replace(CASE, topic=None))
    assert "no news" in told("basic", replace(CASE, topic="no news"))


def test_a_users_own_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text('About {topic}.\nIt sounds like {cue}.\nAnswer as {"json": 1}.\n')
    prompt = load_prompt(str(file))
    assert prompt.name == "mine.txt"
    assert prompt.fill(CASE) == 'About family.\nIt sounds like sigh sound.\nAnswer as {"json": 1}.'
    file.write_text("Reply about {topic}.", "utf-8-sig")
    assert load_prompt(str(file)).fill(CASE) == "Reply about family.", "without the byte order mark"
    file.write_text("{weather}")
    empty = tmp_path / "empty.txt"
    empty.write_text(" \n", "utf-8-sig")
    with pytest.raises(UsageError, match="got an empty file; pass `no` for no prompt"):
        load_prompt(str(empty))
    with pytest.raises(UsageError, match=r"unknown placeholder \{weather\}.*\{topic\}"):
        load_prompt(str(file))
    with pytest.raises(UsageError, match="expected one of no, basic, enhance, upper-bound, or a text file"):
        load_prompt("basci")


def test_a_question_is_asked_with_its_options_whatever_the_prompt() -> None:
    question = Question(
        question_id="q",
        text="Why {so}?",
        options=(("A", "Because."), ("B", "{options}")),
        answer="A",
        kind="speaker intent",
    )
    case = replace(CASE, task=Task.REASONING, question=question)
    assert "Why {so}?\nA. Because.\nB. {options}\n" in told("upper-bound", case)
    assert "The answer is: X" in told("no", case)
    assert told("no", case) == told("upper-bound", case)
    assert "sigh" not in told("no", case)


def test_transcription_has_its_own_prompt() -> None:
    case = replace(CASE, task=Task.TRANSCRIPTION)
    assert told("no", case) == told("enhance", case) != ""


def test_the_hash_is_of_the_text() -> None:
    assert SystemPrompt("a", "x").sha256 == SystemPrompt("b", "x").sha256 != SystemPrompt("a", "y").sha256
