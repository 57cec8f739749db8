"""The option that a reply chooses, as models really say it; and the judge that counts."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from judges._letters import choose
from judges.mcq import Mcq
from live_eval.judging import Failed, JudgedTurn, Scored, Unscored
from live_eval.types import Case, Question, Task, Variant

OPTIONS = (
    ("A", "The speaker yawns while speaking."),
    ("B", "The speaker sighs while speaking."),
    ("C", "The speaker laughs while speaking."),
    ("D", "The speaker coughs while speaking."),
)
YES_NO = (("A", "Yes"), ("B", "No"))
SEX = (("A", "Male"), ("B", "Female"))


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("The answer is: B", "B"),
        ("The answer is B.", "B"),
        ("the answer is b", "B"),
        ("The answer is: (B)", "B"),
        ("**The answer is: B**", "B"),
        ("The answer is option B, because a sigh can be heard.", "B"),
        ("The correct answer would be: B. The speaker sighs.", "B"),
        ("My final answer: B", "B"),
        ("Answer: A", "A"),
        ("The answer is a.", "A"),
        ("The answer is A", "A"),
        ("The answer is bee.", "B"),
        ("The answer is: see.", "C"),
        ("B", "B"),
        ("b.", "B"),
        ("B)", "B"),
        ("(B)", "B"),
        ("B. The speaker sighs while speaking.", "B"),
        ("B: sighing", "B"),
        ("I'd go with option b", "B"),
        ("I would go with B.", "B"),
        ("I'd say B, since there is a long breath out.", "B"),
        ("I choose D!", "D"),
        ("My pick is C", "C"),
        ("It's not A or D, so the answer is B.", "B"),
        ("It is not option A. I would pick C.", "C"),
        ("Listening closely, I hear a sigh, so that would be B I think.", "B"),
        ("Sure! Here is my reply.\nB", "B"),
        ("The speaker sighs while speaking.", "B"),
        ("I think that the speaker sighs while speaking, quite clearly.", "B"),
        ("It isn't B, the answer is C", "C"),
        ("The answer is most likely C.", "C"),
        ("The answer's a.", "A"),
        ("The answer should probably be option d", "D"),
        ('{"answer": "B"}', "B"),
        (r"So it comes to $\\boxed{B}$", "B"),
        ("答案是B。", "B"),
        ("我选择 C", "C"),
        ("it's b", "B"),
        ("I think that it would be definitely a.", "A"),
        ("B is the most likely answer.", "B"),
        ("b is correct", "B"),
        ("A is correct, since there is a yawn.", "A"),
        ("B it is!", "B"),
        ("B, because of the long breath out.", "B"),
        ("Definitely A.", "A"),
        ("I'd go for the second option.", "B"),
        ("The answer is the third one.", "C"),
        ("That would be option two, I think.", "B"),
        ("The answer is option 4.", "D"),
        ("Option A is wrong and option C is wrong. I choose option B.", "B"),
        ("The answer is B. No wait, the answer is C.", "C"),
        ("Option A. Actually, I mean option D.", "D"),
        ("The answer is B, and C is wrong.", "B"),
        ("I'm sorry, I can't identify people by voice. But the answer is B.", "B"),
        ("It's not that the speaker yawns while speaking: the speaker sighs while speaking.", "B"),
    ],
)
def test_a_choice_is_read(reply: str, letter: str) -> None:
    assert choose(reply, OPTIONS).letter == letter


@pytest.mark.parametrize(
    ("reply", "how"),
    [
        ("", "none"),
        ("I'm sorry, I can't listen to audio.", "refused"),
        ("I'm unable to determine who is speaking, whether it is option A or option B.", "refused"),
        (
            "I'm sorry, I can't assist with that; whether the speaker sighs while speaking I don't say.",
            "refused",
        ),
        ("The answer is a sigh.", "none"),
        ("A sigh can be heard, I believe.", "none"),
        ("I am not sure; I would answer a question like that with care.", "none"),
        ("I think.", "none"),
        ("The answer is: E", "none"),
        ("It could be B or C.", "several"),
        ("The answer is B. The answer is C.", "several"),
        ("The answer is B or C.", "several"),
        ("I'd go with option A and option D.", "several"),
        ("I'd choose B/C.", "several"),
        ("None of the above.", "none"),
        ("The answer is option nine.", "none"),
        ("A. yawns\nB. sighs\nC. laughs\nD. coughs", "several"),
        ("The speaker yawns while speaking or the speaker sighs while speaking.", "several"),
        ("Vitamin-B and B-flat are no options, and B's neither.", "none"),
    ],
)
def test_what_is_no_choice_is_none(reply: str, how: str) -> None:
    choice = choose(reply, OPTIONS)
    assert (choice.letter, choice.how) == (None, how)


@pytest.mark.parametrize(
    ("reply", "options", "letter"),
    [
        ("Yes, it does.", YES_NO, "A"),
        ("No.", YES_NO, "B"),
        ("Female", SEX, "B"),
        ("The voice is that of a female speaker.", SEX, "B"),
        ("It is a male voice.", SEX, "A"),
        ("It is not a male voice but a female one.", SEX, "B"),
        ("It isn't male. Female.", SEX, "B"),
        ("The answer is A dog barking.", (("A", "A cat."), ("B", "A dog barking.")), "B"),
        ("The answer is A cat.", (("A", "A cat."), ("B", "A dog barking.")), "A"),
        ("The answer is A a cat.", (("A", "A cat."), ("B", "A dog barking.")), "A"),
    ],
)
def test_the_text_of_an_option_will_do(reply: str, options: tuple[tuple[str, str], ...], letter: str) -> None:
    assert choose(reply, options).letter == letter


def turn(reply: str | None, answer: str | None = "B") -> JudgedTurn:
    question = Question(question_id="q", text="What?", options=OPTIONS, answer=answer, kind="coarse-grained")
    case = Case(
        case_id="understanding/q",
        script_id="s",
        variant=Variant.TARGET,
        audio_path=Path("q.wav"),
        task=Task.UNDERSTANDING,
        question=question,
    )
    return JudgedTurn(turn_id="q", case=case, reply_text=reply)


def test_right_wrong_and_unparsed_are_counted() -> None:
    replies = ("B", "The answer is: C", "Hmm, hard to say.", "I'm sorry, I can't listen to audio.")
    right, wrong, unparsed, declined = Mcq().score([turn(reply) for reply in replies])
    assert isinstance(right, Scored)
    assert isinstance(wrong, Scored)
    assert isinstance(unparsed, Scored)
    assert isinstance(declined, Scored)
    assert right.values == {"accuracy": 100.0, "parsed": 100.0, "refused": 0.0}
    assert wrong.values == {"accuracy": 0.0, "parsed": 100.0, "refused": 0.0}
    assert unparsed.values == {"accuracy": 0.0, "parsed": 0.0, "refused": 0.0}
    assert declined.values == {"accuracy": 0.0, "parsed": 0.0, "refused": 100.0}
    assert wrong.detail == {"chosen": "C", "answer": "B", "read_from": "letter", "said": "transcript"}
    json.dumps(unparsed.detail)


def test_without_a_key_or_a_reply_there_is_no_score() -> None:
    keyless, silent = Mcq().score([turn("B", answer=None), turn(None)])
    assert keyless == Unscored("the question has no answer key")
    assert isinstance(silent, Unscored)
    bare = turn("B")
    [none] = Mcq().score([replace(bare, case=replace(bare.case, question=None))])
    assert isinstance(none, (Unscored, Failed))
