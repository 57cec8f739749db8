"""The option that a reply chooses, as models really say it; and the judge that counts."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges._letters import choose
from judges.mcq import Mcq
from live_eval.audio import Audio
from live_eval.judging import Failed, JudgedTurn, Scored, Unscored
from live_eval.types import Case, Question, Task, Variant
from tests.unit.options import COUNTS, FEELINGS, OPTIONS, REPLIES, SEX, SOUNDS, YES_NO

# How it is said, of which options, and the letter that is chosen, or why there is none.
PHRASINGS = (
    ("I don't think it's B.", OPTIONS, "none"),
    ("Option B is not correct.", OPTIONS, "none"),
    ("Option B is wrong.", OPTIONS, "none"),
    ("B isn't right.", OPTIONS, "none"),
    ("I wouldn't choose B.", OPTIONS, "none"),
    ("I'd rule out B.", OPTIONS, "none"),
    ("I doubt it's B.", OPTIONS, "none"),
    ("I don't think the answer is B; I think it's D.", OPTIONS, "D"),
    ("Option A does not match the audio, so B.", OPTIONS, "B"),
    ("I would not choose A; option C it is.", OPTIONS, "C"),
    ("A, B, C and D are all possible.", OPTIONS, "several"),
    ("The answer is B or maybe C.", OPTIONS, "several"),
    ("Both A and C.", OPTIONS, "several"),
    ("The answers are A and C.", OPTIONS, "several"),
    ("A: no yawning. B: yes a sigh. C: no laughter. D: no cough.", OPTIONS, "several"),
    ("The answer is A, no, B.", OPTIONS, "B"),
    ("A. No, B.", OPTIONS, "B"),
    ("Option B. Actually a sigh is heard; option A has a yawn.", OPTIONS, "B"),
    ("Plan B sounds great!", OPTIONS, "none"),
    ("Vitamin C helps against a cold.", OPTIONS, "none"),
    ("Vitamin C is the best for you.", OPTIONS, "none"),
    ("The answer is 'B'.", OPTIONS, "B"),
    ("The answer is ‘B’.", OPTIONS, "B"),
    ("option be", OPTIONS, "B"),
    ("option bee", OPTIONS, "B"),
    ("Option see.", OPTIONS, "C"),
    ("The answer is option bee.", OPTIONS, "B"),
    ("I would choose bee.", OPTIONS, "B"),
    ("Bee.", OPTIONS, "B"),
    ("Answer b", OPTIONS, "B"),
    ("The right answer here is b.", OPTIONS, "B"),
    ("the correct option is a", OPTIONS, "A"),
    ("B is wrong. C.", OPTIONS, "C"),
    ("A is wrong, B is wrong, C is wrong. So D.", OPTIONS, "D"),
    ("Option A doesn't fit. Listening again, there is laughter. Option C fits.", OPTIONS, "C"),
    ("the last option", OPTIONS, "D"),
    ("I'd choose the last option.", OPTIONS, "D"),
    ("I am unable to choose between options A, B, C and D.", OPTIONS, "refused"),
    ("I can't choose.", OPTIONS, "refused"),
    ("I can't tell from the audio.", OPTIONS, "refused"),
    ("I'm not sure, but I'd say B.", OPTIONS, "B"),
    ("I'm not sure, probably B.", OPTIONS, "B"),
    ("Neither A nor B; C.", OPTIONS, "C"),
    ("A and D are wrong, so it must be B.", OPTIONS, "B"),
    ("I don't think A, B, and C are right.", OPTIONS, "none"),
    ("I don't think A and B are right, so C.", OPTIONS, "C"),
    ("After ruling out A, B and C, I choose D.", OPTIONS, "D"),
    ("Option A: wrong. Option B: correct. Option C: wrong. Option D: wrong.", OPTIONS, "B"),
    ("B, not A.", OPTIONS, "B"),
    ("B rather than A.", OPTIONS, "B"),
    ("I choose B over A.", OPTIONS, "B"),
    ("If I had to choose between A and B, I'd say B.", OPTIONS, "B"),
    ("It could be B or C, but most likely B.", OPTIONS, "B"),
    ("A or B. Not A.", OPTIONS, "B"),
    ("Not only A but also C.", OPTIONS, "several"),
    ("There is no doubt it's B.", OPTIONS, "B"),
    ("Without a doubt, B.", OPTIONS, "B"),
    ("Option A, the speaker yawns, doesn't match. Option B does.", OPTIONS, "B"),
    ("At first I thought it was A, but it's B.", OPTIONS, "B"),
    ("Is it A? No, B.", OPTIONS, "B"),
    ("Which of A and B do you mean?", OPTIONS, "none"),
    ("The wrong one is B.", OPTIONS, "none"),
    ("It's B, isn't it?", OPTIONS, "B"),
    ("It can't be A, it can't be C, and it can't be D. That leaves B.", OPTIONS, "B"),
    ("I got an A in maths.", OPTIONS, "none"),
    ("I'd give it an A.", OPTIONS, "none"),
    ("See you later!", OPTIONS, "none"),
    ("Let it be.", OPTIONS, "none"),
    ("It is what it will be.", OPTIONS, "none"),
    ("You're number one!", OPTIONS, "none"),
    ("My blood type is B.", OPTIONS, "none"),
    ("C is for cookie.", OPTIONS, "none"),
    ("Hepatitis B and C are diseases.", OPTIONS, "none"),
    ("B and C students often say that.", OPTIONS, "several"),
    ("I see, the answer is D.", OPTIONS, "D"),
    ("I'd say that's a wonderful idea!", OPTIONS, "none"),
    ("Oh, that sounds hard. Be well.", OPTIONS, "none"),
    ("B The speaker sighs while speaking.", OPTIONS, "B"),
    ("The speaker sighs (B).", OPTIONS, "B"),
    ("Answer:\nB", OPTIONS, "B"),
    ("The answer is\n\n**B**", OPTIONS, "B"),
    ("答案不是A，答案是B。", OPTIONS, "B"),
    ("I'm leaning towards C.", OPTIONS, "C"),
    ("A sigh is heard, which points to B.", OPTIONS, "B"),
    ("I hear a sigh, so B is right.", OPTIONS, "B"),
    ("B sounds right to me.", OPTIONS, "B"),
    ("B makes the most sense.", OPTIONS, "B"),
    ("None of A, B or C fits.", OPTIONS, "none"),
    ("I dont think its B.", OPTIONS, "none"),
    ("I reject A and go with B.", OPTIONS, "B"),
    ("The speaker isn't laughing, so C is out. B.", OPTIONS, "B"),
    ("B or C. I'd go with C.", OPTIONS, "C"),
    ("The answer isn't A.", OPTIONS, "none"),
    ("Not B.", OPTIONS, "none"),
    ("Definitely not A. It's D.", OPTIONS, "D"),
    ("Let me think. B? No, C.", OPTIONS, "C"),
    ("It's unlikely to be A; B seems most likely.", OPTIONS, "B"),
    ("Scratch that, C.", OPTIONS, "C"),
    ("B. Sorry, D.", OPTIONS, "D"),
    ("B... no, D.", OPTIONS, "D"),
    ("I mean, D.", OPTIONS, "D"),
    ("I think A and B are wrong.", OPTIONS, "none"),
    ("I cannot decide between B and C.", OPTIONS, "refused"),
    ("I can't decide between B and C, but I'd go with C.", OPTIONS, "C"),
    ("It's impossible to tell.", OPTIONS, "refused"),
    ("I refuse to choose.", OPTIONS, "refused"),
    ("The first option is wrong, the second one is right.", OPTIONS, "B"),
    ("The speaker does not yawn; the speaker laughs while speaking.", OPTIONS, "C"),
    ("Oh no, that sounds terrible!", YES_NO, "none"),
    ("No one else is speaking.", YES_NO, "none"),
    ("Yes, there are no other sounds.", YES_NO, "A"),
    ("No, there isn't.", YES_NO, "B"),
    ("I'd say no.", YES_NO, "B"),
    ("The answer is yes.", YES_NO, "A"),
    ("Yes and no.", YES_NO, "several"),
    ("I don't think so, no.", YES_NO, "B"),
    ("Yes. No, wait, no.", YES_NO, "B"),
    ("There is, yes.", YES_NO, "A"),
    ("There is no music.", YES_NO, "none"),
    ("No, B.", YES_NO, "B"),
    ("The answer is 'no'.", YES_NO, "B"),
    ("No I don't think so.", YES_NO, "B"),
    ("Yes, no other person is speaking.", YES_NO, "A"),
    ("Not yes.", YES_NO, "none"),
    ("It isn't a yes, it's a no.", YES_NO, "B"),
    ("There's no rain, there's a dog barking.", SOUNDS, "B"),
    ("I don't hear rain; I hear an alarm clock.", SOUNDS, "C"),
    ("Rain isn't heard. An alarm clock is.", SOUNDS, "C"),
    ("It's rain, not a dog barking.", SOUNDS, "A"),
    ("I hear no rain or an alarm clock, only a dog barking.", SOUNDS, "B"),
    ("Rain. No wait, an alarm clock.", SOUNDS, "C"),
    ("Rain and a dog barking.", SOUNDS, "several"),
    ("I can't tell whether it's rain or an alarm clock.", SOUNDS, "refused"),
    ("If there was rain, I would hear it.", SOUNDS, "none"),
    ("I can't tell you more, but it is rain.", SOUNDS, "A"),
    ("Neither rain nor a dog barking.", SOUNDS, "none"),
    ("I can't hear rain, but an alarm clock.", SOUNDS, "C"),
    ("Without rain, it is a dog barking.", SOUNDS, "B"),
    ("The sound of rain is absent; it is not rain.", SOUNDS, "none"),
    ("Yes, a dog barking can be heard.", SOUNDS, "B"),
    ("Based on the audio, I believe the correct answer is B.", OPTIONS, "B"),
    ("Sure thing! The answer is B, the speaker sighs while speaking.", OPTIONS, "B"),
    ("Based on what I heard, option B seems to be the best fit.", OPTIONS, "B"),
    ("I would have to go with option D here.", OPTIONS, "D"),
    ("My answer would be C, as there's clear laughter in the recording.", OPTIONS, "C"),
    ("That sounds like option B to me.", OPTIONS, "B"),
    ("It sounds like B.", OPTIONS, "B"),
    ("I heard a sigh. So, the answer is option B.", OPTIONS, "B"),
    ("Let's see, the answer is C.", OPTIONS, "C"),
    ("Let me see. I think it's A.", OPTIONS, "A"),
    ("The answer is A, as in apple.", OPTIONS, "A"),
    ("B as in boy.", OPTIONS, "B"),
    ("The answer is B as in boy.", OPTIONS, "B"),
    ("Hmm, that's a tough one, but I'd go with B.", OPTIONS, "B"),
    ("That's option number two.", OPTIONS, "B"),
    ("Number three.", OPTIONS, "C"),
    ("Option number two.", OPTIONS, "B"),
    ("It must be D, since A, B and C don't fit.", OPTIONS, "D"),
    ("Since A, B and C don't fit, it must be D.", OPTIONS, "D"),
    ("A doesn't fit, B doesn't fit, C doesn't fit, which leaves D.", OPTIONS, "D"),
    (
        "The speaker's voice doesn't show any yawning, so A is incorrect. There's a sigh, so B "
        "is the answer.",
        OPTIONS,
        "B",
    ),
    ("Options A and C can be ruled out. Between B and D, B is more likely.", OPTIONS, "B"),
    ("I can rule out A and C. I'd pick D over B.", OPTIONS, "D"),
    ("It's definitely not C.", OPTIONS, "none"),
    ("I wouldn't say it's C, more like B.", OPTIONS, "none"),
    ("It is B and not C.", OPTIONS, "B"),
    ("It's not B or C, it's D.", OPTIONS, "D"),
    ("It's neither B nor C.", OPTIONS, "none"),
    ("I'm torn between B and C.", OPTIONS, "several"),
    ("Either A or B.", OPTIONS, "several"),
    ("Could be A, could be B.", OPTIONS, "several"),
    ("All of the above.", OPTIONS, "none"),
    ("Maybe B?", OPTIONS, "B"),
    ("B?", OPTIONS, "B"),
    ("I guess B.", OPTIONS, "B"),
    ("I guess it's B, but I'm not certain.", OPTIONS, "B"),
    ("I'm not certain it's B.", OPTIONS, "none"),
    ("I'm not entirely sure, but I think the answer is B.", OPTIONS, "B"),
    ("I can't be sure, but B.", OPTIONS, "B"),
    ("It's hard to tell, but I'd say B.", OPTIONS, "B"),
    ("Without more context it's hard to say, but B fits best.", OPTIONS, "B"),
    ("The answer is not A. The answer is not B. The answer is C.", OPTIONS, "C"),
    ("The answer cannot be A.", OPTIONS, "none"),
    ("The answer is no longer A; it is B.", OPTIONS, "B"),
    ("I said A, but I meant B.", OPTIONS, "B"),
    ("I'd change my answer to B.", OPTIONS, "B"),
    ("The answer is A. Oh wait, sorry, it's B.", OPTIONS, "B"),
    ("The answer is A. Actually, B.", OPTIONS, "B"),
    ("A... actually B.", OPTIONS, "B"),
    ("First I'd say A, but on second thought, D.", OPTIONS, "D"),
    ("Great question! Sighing often signals stress. Would you like tips?", OPTIONS, "none"),
    ("What a lovely day! Let's have a cup of tea.", OPTIONS, "none"),
    ("As an A student, you must be proud.", OPTIONS, "none"),
    ("I can see why you're tired. Let it be.", OPTIONS, "none"),
    ("Try plan A first, then plan B.", OPTIONS, "none"),
    ("A good idea is to rest.", OPTIONS, "none"),
    ("I am here for you.", OPTIONS, "none"),
    ("Let me be clear: I care.", OPTIONS, "none"),
    ("You can go with a friend.", OPTIONS, "none"),
    ("I'd go for a walk.", OPTIONS, "none"),
    ("Pick a quiet spot and rest.", OPTIONS, "none"),
    ("Choose a time that suits you.", OPTIONS, "none"),
    ("There is no option I'd recommend more.", OPTIONS, "none"),
    ("You have the option, a good one, to rest.", OPTIONS, "none"),
    ("Take vitamin D, it is the best.", OPTIONS, "none"),
    ("That is a C major chord.", OPTIONS, "none"),
    ("In C sharp, the song sounds great.", OPTIONS, "none"),
    ("Answer a few questions for me.", OPTIONS, "none"),
    ("My options are limited.", OPTIONS, "none"),
    ("It's a B movie.", OPTIONS, "none"),
    ("I cannot determine which option is right.", OPTIONS, "refused"),
    ("I'm afraid I can't say which one it is.", OPTIONS, "refused"),
    ("I won't choose.", OPTIONS, "refused"),
    ("I'd rather not answer.", OPTIONS, "refused"),
    ("There is no way to tell.", OPTIONS, "refused"),
    ("I can't say for sure, but the answer is B.", OPTIONS, "B"),
    ("I can't identify the speaker from the voice.", OPTIONS, "refused"),
    ("answer is b", OPTIONS, "B"),
    ("B. sigh", OPTIONS, "B"),
    ("b) the speaker sighs", OPTIONS, "B"),
    ("(b) sighing", OPTIONS, "B"),
    ("[B]", OPTIONS, "B"),
    ("<answer>B</answer>", OPTIONS, "B"),
    ("Answer - B", OPTIONS, "B"),
    ("Option B", OPTIONS, "B"),
    ("option b.", OPTIONS, "B"),
    ("it's option b I think", OPTIONS, "B"),
    ("the answer is a because of the yawn", OPTIONS, "A"),
    ("The answer is dee.", OPTIONS, "D"),
    ("Final answer: option C.", OPTIONS, "C"),
    ("So, final answer, C.", OPTIONS, "C"),
    ("C, final answer.", OPTIONS, "C"),
    ("C!", OPTIONS, "C"),
    ("Letter B.", OPTIONS, "B"),
    ("The letter B.", OPTIONS, "B"),
    ("The answer is the letter B.", OPTIONS, "B"),
    ("B is what I hear.", OPTIONS, "B"),
    ("B describes it best.", OPTIONS, "B"),
    ("Of the options, B is the closest.", OPTIONS, "none"),
    ("Closest is B.", OPTIONS, "B"),
    ("The one that fits is B.", OPTIONS, "B"),
    ("What fits best is option B.", OPTIONS, "B"),
    ("I think that's B", OPTIONS, "B"),
    ("Probably the second.", OPTIONS, "none"),
    ("The second.", OPTIONS, "none"),
    ("The last one.", OPTIONS, "D"),
    ("正确答案是 C。", OPTIONS, "C"),
    ("我认为是B", OPTIONS, "B"),
    ("选B", OPTIONS, "B"),
    (
        "The correct answer is B: The speaker sighs while speaking. A, C, and D are incorrect "
        "because there's no yawning, laughing or coughing.",
        OPTIONS,
        "B",
    ),
    (
        "Looking at the options: A. The speaker yawns while speaking. B. The speaker sighs "
        "while speaking. C. The speaker laughs while speaking. D. The speaker coughs while "
        "speaking. I'd choose B.",
        OPTIONS,
        "B",
    ),
    ("Option A mentions yawning, option B mentions sighing. I heard a sigh, so option B.", OPTIONS, "B"),
    (
        "Option A says the speaker yawns, which I don't hear. Option B says the speaker sighs, "
        "which I do hear. Therefore, B.",
        OPTIONS,
        "B",
    ),
    ("The speaker sounds happy.", FEELINGS, "B"),
    ("The speaker isn't happy, they sound sad.", FEELINGS, "C"),
    ("The speaker doesn't sound angry or sad, but happy.", FEELINGS, "B"),
    ("Not angry but fearful.", FEELINGS, "D"),
    ("It's neither angry nor sad; it's fearful.", FEELINGS, "D"),
    ("I'm happy to help! The speaker is sad.", FEELINGS, "C"),
    ("Angry? No, sad.", FEELINGS, "C"),
    ("Sad, I'd say.", FEELINGS, "C"),
    ("The speaker seems more sad than angry.", FEELINGS, "C"),
    ("I'm not sure, maybe sad.", FEELINGS, "C"),
    ("They sound happy, don't they?", FEELINGS, "B"),
    ("Happy, not sad.", FEELINGS, "B"),
    ("The emotion is not clear, but I'd say fearful.", FEELINGS, "D"),
    ("The person could be sad or fearful.", FEELINGS, "several"),
    ("He never sounds angry.", FEELINGS, "none"),
    ("One.", COUNTS, "C"),
    ("A crowd.", COUNTS, "B"),
    ("There are two people.", COUNTS, "A"),
    ("The answer is C. One.", COUNTS, "C"),
    ("The answer is A crowd.", COUNTS, "B"),
    ("A. Two.", COUNTS, "A"),
    ("Not a crowd, just one.", COUNTS, "C"),
    ("Option one.", COUNTS, "A"),
    ("Calm down, there is no need to cry.", REPLIES, "A"),
    ("Who is shouting there behind you?", REPLIES, "C"),
    ("D. Well done. Shall we unpack together?", REPLIES, "D"),
    ("Well done. Shall we unpack together?", REPLIES, "D"),
    ("I'd reply: You should see a doctor about that cough.", REPLIES, "B"),
    ("No, there are no other sounds.", YES_NO, "B"),
    ("No.", YES_NO, "B"),
    ("no", YES_NO, "B"),
    ("Yes!", YES_NO, "A"),
    ("Oh yes, it is.", YES_NO, "A"),
    ("I think so, yes.", YES_NO, "A"),
    ("Oh no! That must hurt.", YES_NO, "none"),
    ("There's no reason to worry.", YES_NO, "none"),
    ("I have no idea.", YES_NO, "none"),
    ("No problem at all.", YES_NO, "none"),
    ("The speaker says no one came.", YES_NO, "none"),
    ("I would have to say no.", YES_NO, "B"),
    ("Definitely yes.", YES_NO, "A"),
    ("Yes and I mean it.", YES_NO, "A"),
    ("No, it's not, it's quiet.", YES_NO, "B"),
    ("Probably not, so no.", YES_NO, "B"),
    ("The answer's no.", YES_NO, "B"),
    ("The answer is: No.", YES_NO, "B"),
    ("A. Yes", YES_NO, "A"),
    ("A, yes.", YES_NO, "A"),
    ("B, no.", YES_NO, "B"),
    ("I would have said B, but C is correct.", OPTIONS, "C"),
    ("The answer is B since A, C and D don't match.", OPTIONS, "B"),
    ("Anything but B.", OPTIONS, "none"),
    ("It's B if I'm not mistaken.", OPTIONS, "B"),
    ("If I'm not mistaken, B.", OPTIONS, "B"),
    ("It's B, not that it matters.", OPTIONS, "B"),
    ("Why not B?", OPTIONS, "none"),
    ("The answer isn't A but B.", OPTIONS, "B"),
    ("Unlike A, B has a sigh. B.", OPTIONS, "B"),
    ("A is possible, but B is more likely.", OPTIONS, "B"),
    ("A is close, but I choose B.", OPTIONS, "B"),
    ("Option A could work, but option B is better.", OPTIONS, "B"),
    ("Option A is tempting. Option B, however, is right.", OPTIONS, "B"),
    ("B, because C is not what I hear.", OPTIONS, "B"),
    ("My first thought was A, but B it is.", OPTIONS, "B"),
    ("Is it A or B? I think B.", OPTIONS, "B"),
    ("Not A, not C, not D. B.", OPTIONS, "B"),
    ("The answer is not A, B, or C, but D.", OPTIONS, "D"),
    ("B. Not A.", OPTIONS, "B"),
    ("Yes, B.", OPTIONS, "B"),
    ("No, it's B.", OPTIONS, "B"),
    ("No, not B.", OPTIONS, "none"),
    ("The answer is A. Just kidding, B.", OPTIONS, "B"),
    ("The options are A, B, C, and D. I choose C.", OPTIONS, "C"),
    ("You gave me options A to D; it's C.", OPTIONS, "C"),
    ("Thanks for the options! A sigh is what I hear, which is B.", OPTIONS, "B"),
    ("I would choose neither A nor B.", OPTIONS, "none"),
    ("A cup of tea is the best option.", OPTIONS, "none"),
    ("I say we go with a friend.", OPTIONS, "none"),
    ("That would be a great choice!", OPTIONS, "none"),
    ("It is a good answer.", OPTIONS, "none"),
    ("The right choice is always yours.", OPTIONS, "none"),
    ("I see what you mean.", OPTIONS, "none"),
    ("Say a prayer.", OPTIONS, "none"),
    ("I'd pick a color, then be happy.", OPTIONS, "none"),
)


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


@pytest.mark.parametrize(("reply", "options", "expected"), PHRASINGS)
def test_phrasings(reply: str, options: tuple[tuple[str, str], ...], expected: str) -> None:
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
    for options in (OPTIONS, YES_NO, REPLIES):
        choice = choose(reply, options)
        if choice.letter is None:
            assert choice.how in {"refused", "none", "several"}
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


def test_a_reply_of_silence_is_no_right_answer() -> None:
    silence = Audio(np.zeros(48_000, np.float32), 48_000)
    [judgement] = Mcq().score([replace(turn(None), reply=silence)])
    assert isinstance(judgement, Scored)
    assert judgement.values == {"accuracy": 0.0, "parsed": 0.0, "refused": 0.0}
    assert judgement.detail == {"chosen": None, "answer": "B", "read_from": "silence"}
