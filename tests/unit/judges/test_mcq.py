"""The chosen option of a reply, and the judge that scores it."""

import json
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_eval.audio import Audio
from live_eval.judges.mcq import Mcq
from live_eval.judges.text._choice import choose
from live_eval.judging import Failed, JudgedTurn, Scored, Unscored
from live_eval.types import Case, Question, Task, Variant

OPTIONS = (
    ("A", "The speaker yawns while speaking."),
    ("B", "The speaker sighs while speaking."),
    ("C", "The speaker laughs while speaking."),
    ("D", "The speaker coughs while speaking."),
)
YES_NO = (("A", "Yes"), ("B", "No"))
SOUNDS = (("A", "Happy"), ("B", "Sad"), ("C", "A dog barking"), ("D", "It’s neutral"))


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        # The last "answer is X" decides.
        ("The answer is: B", "B"),
        ("the answer is b", "B"),
        ("The answer is: (B)", "B"),
        ("**The answer is: B**", "B"),
        ("The answer is\n\n**B**", "B"),
        ("The answer is ‘B’.", "B"),
        ("Answer: A", "A"),
        ('{"answer": "B"}', "B"),
        ("<answer>B</answer>", "B"),
        (r"So it comes to $\\boxed{B}$", "B"),
        ("答案是B。", "B"),
        ("The answer is bee.", "B"),
        ("The answer is A, because of the yawn.", "A"),
        ("the answer is a the speaker yawns while speaking", "A"),
        ("The correct answer would be: B. The speaker sighs.", "B"),
        ("The answer is most likely option d", "D"),
        ("The answer is the speaker sighs while speaking.", "B"),
        ("A) Happy, B) Sad, C) A dog barking, D) Neutral. The answer is: B.", "B"),
        ("Option A describes joy. Option B describes grief. The answer is: B.", "B"),
        ("I first thought that the answer is A. The answer is: B.", "B"),
        ("The answer is not A. The answer is C.", "C"),
        ("It isn't B, the answer is C", "C"),
        ("The answer is B, and C is wrong.", "B"),
        ("I'm sorry, I can't identify people by voice. But the answer is B.", "B"),
        ("The answer is B. Actually, A is also likely.", "B"),
        ("The answer is B. Actually, C is the best runner-up.", "B"),
        ("The answer is: B. I mean, A, joy, does not fit.", "B"),
        ("The answer is: B. The other answer is C, which is wrong.", "B"),
        ("Without a doubt the answer is B.", "B"),
        ("I have little doubt that the answer is B.", "B"),
        ("The voice is not joyful hence the answer is B.", "B"),
        ("After weighing whether it is A or C the answer is B.", "B"),
        ("Unless I misheard the answer is B.", "B"),
        ("Whether you agree or not I say the answer is B.", "B"),
        ("The second clip tells me the answer is B.", "B"),
        ("Not A and not C the answer is B.", "B"),
        ("The answer is, um, B.", "B"),
        # A lone letter.
        ("B", "B"),
        ("b.", "B"),
        ("(B)", "B"),
        ("Bee.", "B"),
        ("B. The speaker sighs while speaking.", "B"),
        ("B, because of the long breath out.", "B"),
        ("Sure! Here is my reply.\nB", "B"),
        ("A is wrong, B is wrong, C is wrong. So D.", "D"),
        # In other words.
        ("I'd go with option b", "B"),
        ("I'd say B, since there is a long breath out.", "B"),
        ("The correct option is B.", "B"),
        ("it's b", "B"),
        ("B is the most likely answer.", "B"),
        ("I hear a sigh, so B is right.", "B"),
        ("A: a yawn. B: a sigh. I'd go with B.", "B"),
        # Retracted answers.
        ("The answer is B. No wait, the answer is C.", "C"),
        ("The answer is A. Actually, B.", "B"),
        ("B. Sorry, D.", "D"),
        ("Option B. Actually a sigh is heard.", "B"),
        # The text of an option.
        ("The speaker sighs while speaking.", "B"),
        ("I think that the speaker sighs while speaking, quite clearly.", "B"),
    ],
)
def test_a_choice_is_read(reply: str, letter: str) -> None:
    assert choose(reply, OPTIONS).letter == letter


@pytest.mark.parametrize(
    ("reply", "how"),
    [
        ("", "unparsed"),
        ("The answer is not B.", "unparsed"),
        ("The answer isn’t B.", "unparsed"),
        ("The answer cannot be B.", "unparsed"),
        ("I don't think the answer is B.", "unparsed"),
        ('I would not say "the answer is B".', "unparsed"),
        ("If the answer is B, there is a sigh.", "unparsed"),
        ("I'm not sure that the answer is B.", "unparsed"),
        ("I doubt the answer is B.", "unparsed"),
        ("Is the answer B?", "unparsed"),
        ("The answer is B or C.", "unparsed"),
        ("The answers are A and C.", "unparsed"),
        ("It could be B or C.", "unparsed"),
        ("A, B, C and D are all possible.", "unparsed"),
        ("A. yawns\nB. sighs\nC. laughs\nD. coughs", "unparsed"),
        ("B. Had there been a laugh, it would be C.", "unparsed"),
        ("The answer is a sigh.", "unparsed"),
        ("The answer is: E", "unparsed"),
        ("None of the above.", "unparsed"),
        ("Plan B sounds great!", "unparsed"),
        ("Vitamin C is the best for you.", "unparsed"),
        ("A good idea is to rest.", "unparsed"),
        ("See you later!", "unparsed"),
        ("The speaker yawns while speaking or the speaker sighs while speaking.", "unparsed"),
        ("I don't hear that the speaker sighs while speaking.", "unparsed"),
        ("I'm sorry, I can't listen to audio.", "refused"),
        ("I am unable to choose between options A, B, C and D.", "refused"),
        ("It's impossible to tell.", "refused"),
    ],
)
def test_a_missing_choice_has_a_reason(reply: str, how: str) -> None:
    choice = choose(reply, OPTIONS)
    assert (choice.letter, choice.how) == (None, how)


PHRASINGS = (
    *("The answer is: {}", "The answer is {}.", "{}", "{}.", "({})", "Answer: {} based on the tone."),
    *("The answer is: {} based on the tone.", "The answer is {} based on the tone."),
    *("The answer is: {} from the voice.", "The answer is {} given the pause."),
    *("The answer is: {} due to the tone.", "The answer is {} which matches the voice."),
    *("The answer is: {} according to the tone.", "The answer is {} in my opinion."),
    *("The answer is {} I think.", "The answer is: {} judging by the voice.", "The answer is: {} for sure."),
    *("The answer is {} with confidence.", "The answer is: {} – the voice is low."),
    *("The answer is {} (the voice).", "The answer is: {} to me.", "The answer is {}, not E."),
    *("The answer would be {} based on what I hear.", "So the answer is: {} though the voice is faint."),
    *("The answer is: {} while others sound off.", "the answer is {} when you listen to it"),
    *("The answer is option {} based on the tone.", "The answer is letter {} based on the tone."),
    *("My answer is {} here.", "I'd answer {} here.", "I choose {} as my answer.", "I would choose {} here."),
    *("I think it's {} based on the tone.", "I'd go with {} based on the tone.", "That's {} for me."),
    *("The correct option is {} given the tone.", "I'd say {} from the sound.", "It must be {} then."),
    *("I pick {} as the best one.", "The best choice is {} by far.", "{} is correct."),
)


def test_every_letter_is_read_in_every_phrasing() -> None:
    replies = [(phrasing.format(letter), letter) for phrasing in PHRASINGS for letter in "ABCD"]
    replies += [(reply.lower(), letter) for reply, letter in replies]
    assert [reply for reply, letter in replies if choose(reply, OPTIONS).letter != letter] == []


@pytest.mark.parametrize(
    "phrasing",
    [
        *(
            "The answer is {}, not {}.",
            "The answer is {} rather than {}.",
            "{}, not {}",
            "{} because {} is wrong.",
        ),
        *(
            "I'd say {} over {}.",
            "It's {} and not {}.",
            "{} is right and {} is wrong.",
            "{}. {} would be wrong.",
        ),
        *("Option {}. Option {} is wrong.", "The answer is {} or {}.", "{}. I considered {} too."),
    ],
)
def test_which_letters_are_mentioned_makes_no_difference(phrasing: str) -> None:
    read = {
        (first, second): choose(phrasing.format(first, second), OPTIONS).letter
        for first, second in permutations("ABCD", 2)
    }
    assert set(read.values()) == {None} or all(letter == first for (first, _), letter in read.items())


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("The answer is: A dog barking.", "C"),
        ("The answer is: A, dog barking", "A"),  # as "B, dog barking" is B
        *((f"The answer is: A {mark} sad tone", "A") for mark in ("-", "–", "—", "/")),
        ("The answer is: A (sad tone)", "A"),
        ("The answer is: A dog.", None),  # this begins an option's text, so it is not the letter
        ("the answer is a dog", None),
        ("It's a tough one.", None),
        ("I'd say a lot of noise.", None),
        ("I'd say A.", "A"),
        ("The answer is a again.", "A"),
        ("That's a given.", None),
        ("I'd say a so-so mood.", None),
        ("The answer is: see the doctor.", None),
        ("I think be in touch.", None),
        ("The answer is see.", "C"),
        ("The answer is a, b or c.", None),
    ],
)
def test_an_article_is_not_a_letter(reply: str, letter: str | None) -> None:
    assert choose(reply, SOUNDS).letter == letter


ANSWERS = (
    *(
        ("A", "Yes, she is happy"),
        ("B", "No, he sounds sad"),
        ("C", "A tired voice"),
        ("D", "Angry and loud"),
    ),
)


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("The answer is: A yes", "A"),
        ("The answer is A yes.", "A"),
        ("The answer is: B no", "B"),
        ("The answer is: D angry", "D"),
        ("The answer is: A no doubt", "A"),
        ("The answer is: A no question", "A"),
        ("The answer is: B no question", "B"),
        ("The answer is: A tired voice", "C"),
        ("The answer is: A tired", None),  # the text of C begins like this
    ],
)
def test_a_letter_before_its_text_is_not_an_article(reply: str, letter: str | None) -> None:
    assert choose(reply, ANSWERS).letter == letter


@pytest.mark.parametrize(
    ("reply", "options", "expected"),
    [
        ("Yes, it does.", YES_NO, "A"),
        ("No.", YES_NO, "B"),
        ("The answer is: No.", YES_NO, "B"),
        ("Oh no, that sounds terrible!", YES_NO, "unparsed"),
        ("Yes, I can help with that.", YES_NO, "unparsed"),
        ("It's a yes or no question.", YES_NO, "unparsed"),
        ("Happy", SOUNDS, "A"),
        ("I'm happy to help!", SOUNDS, "unparsed"),
        ("The answer is A dog barking.", SOUNDS, "C"),
        ("It's neutral.", SOUNDS, "D"),
        ("I hear a dog barking.", (("A", "Rain"), ("B", "A big dog barking")), "unparsed"),
        (
            "I see a doctor. You should see a doctor about it.",
            (("A", "Wait."), ("B", "See a doctor about it.")),
            "B",
        ),
    ],
)
def test_the_text_of_an_option_will_do(
    reply: str, options: tuple[tuple[str, str], ...], expected: str
) -> None:
    choice = choose(reply, options)
    assert (choice.letter or choice.how) == expected


PIECES = (
    *"ABCDEabi.,:;!?()'’\n -",
    "not ",
    "answer is ",
    "option ",
    "bee ",
    "no ",
    "wait ",
    "now ",
    "everything but ",
    "and ",
    "yes ",
    "是",
)


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)))
def test_of_any_text_comes_an_option_or_a_reason(reply: str) -> None:
    for options in (OPTIONS, YES_NO, SOUNDS):
        choice = choose(reply, options)
        if choice.letter is None:
            assert choice.how in {"refused", "unparsed"}
        else:
            assert choice.how in {"letter", "text"}
            assert choice.letter in dict(options)


def test_the_end_of_a_long_reply_is_read() -> None:
    assert choose("It is quiet, and then it is not. " * 1000 + "So the answer is B.", OPTIONS).letter == "B"


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
    keyless, without = Mcq().score([turn("B", answer=None), turn(None)])
    assert keyless == Unscored("the question has no answer key")
    assert isinstance(without, Unscored)
    bare = turn("B")
    [none] = Mcq().score([replace(bare, case=replace(bare.case, question=None))])
    assert isinstance(none, (Unscored, Failed))


def test_a_silent_reply_is_not_a_correct_answer() -> None:
    silence = Audio(np.zeros(48_000, np.float32), 48_000)
    [judgement] = Mcq().score([replace(turn(None), reply=silence)])
    assert isinstance(judgement, Scored)
    assert judgement.values == {"accuracy": 0.0, "parsed": 0.0, "refused": 0.0}
    assert judgement.detail == {"chosen": None, "answer": "B", "read_from": "silence"}
