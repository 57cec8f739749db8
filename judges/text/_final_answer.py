"""Parse the final answer of a reply: one of a few words or a whole number. Pure.

The first of these decides: the last "answer is X"; the last sentence, if it begins with an answer ("Yes, you
return …"); the first sentence, if it does; the only answer that the reply mentions, unless it is a common
word such as yes or no. For numbers, a total ("8 in total") or a sum ("that makes 8") decides after
"answer is X", unless other numbers follow as parts of a list; then the only number of the last or the
first sentence. All other replies are unparsed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from live_eval.text.wording import plain_typography

__all__ = ["NUMBERS", "final_answer", "final_number"]

_UNITS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
    *("twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
NUMBERS: Mapping[str, int] = MappingProxyType(
    {
        **{word: value for value, word in enumerate(_UNITS)},
        **{word: 10 * value for value, word in enumerate(_TENS, 2)},
        **{
            f"{ten}-{unit}": 10 * value + number
            for value, ten in enumerate(_TENS, 2)
            for number, unit in enumerate(_UNITS[1:10], 1)
        },
    }
)
"""Number words up to ninety-nine, as recognisers spell spoken counts."""

_STATED = re.compile(
    r"\b(?:answer|conclusion|total|verdict)\b(?:(?!\bnot\b)[^.!?\n]){0,40}?(?:\bis\b|\bwould be\b|:|=)\W*",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[.!?\n]+(?=\s|$)")
# "No" that answers nothing: "no doubt, yes".
_PHRASES = r"(?:doubt|question|problem|worries|matter|wonder|idea|one|need|kidding|sweat|less|more|longer)\b"
_LEADING = rf"(?:(?:so|then|therefore|thus|hence|well|overall|finally|in conclusion|no {_PHRASES})\b\W*)*"
_DENIED = r"(?<!\bnot )(?<!n't )"

_SPELLED = "|".join(sorted((word.replace("-", "[ -]") for word in NUMBERS), key=len, reverse=True))
_ANY = rf"(?<![\w.,-])(?:\d{{1,6}}|{_SPELLED})\b(?![.,]\d)"
_NUMBER = re.compile(_ANY)
_TOTAL = re.compile(
    rf"\btotal(?:s|l?ing|l?ed)?(?: number)?(?: of| to| up to| comes to| is)?"
    r"(?:,? (?:you|we|i) (?:have|count)|,? there are|,? that's)? "
    rf"({_ANY})"
    rf"|(?:^|[:;=]|[.!?] |\b(?:so|makes?|making|gives?|giving|is|are|that's|have|had|has|for)\b)\W*"
    rf"({_ANY})(?: (?!{_ANY}|and\b)[\w-]+){{0,4}},? (?:in total|altogether|all together|in all|total)\b"
)
_SUM = re.compile(
    rf"(?:=|\b(?:makes?|making|gives?|giving|equals?|adds? up to|adding up to|sums? (?:up )?to|comes? to)\b"
    rf"|\b(?:plus|minus|times|less|and) {_ANY}(?: [a-z]+)? (?:is|are)\b|\b(?:so|hence|therefore|thus)\b)"
    r"(?:,|\W+(?:you|us|me|it's|that's|that is|it is|you have|we have|i have|there are|there is"
    r"|the number is))*"
    rf"(?: exactly| a total of)?\s*({_ANY})"
)
_EXPLAINED = re.compile(
    r"[^.,;:(=+\d]{0,30}(?:[:;(]|,? (?:because|since|as|which|including|namely|consisting|made up)\b)"
)
_REJECTED = re.compile(r"\b(?:not|instead of|rather than)(?: an?| the)? $")


def final_answer(reply: str, answers: Sequence[str]) -> str | None:
    """Return which of `answers` a reply gives as its final answer, or None.

    >>> final_answer("I turn around twice. So the answer is no.", ["yes", "no"])
    'no'
    >>> final_answer("Yes, you return to the start.", ["yes", "no"])
    'yes'
    >>> final_answer("It could be yes or no.", ["yes", "no"])
    """
    text = plain_typography(re.sub(r"[*_`\"“”{}$\\]|\bboxed\b|\btext\b", " ", reply))
    spelled = "|".join(re.escape(each) + (rf"(?! {_PHRASES})" if each == "no" else "") for each in answers)
    one = rf"(?:(?:deductively|logically)\W+)?({spelled})\b"
    word = rf"{one}(?!\W+or\b)(?![^\w.!?]+(?:and\W+)?(?!\1\b)(?:{spelled})\b)"
    stated = [
        found[1]
        for at in _STATED.finditer(text)
        if (found := re.compile(rf"(?:the argument is\W+)?{word}", re.IGNORECASE).match(text, at.end()))
    ]
    if stated:
        return stated[-1].lower()
    sentences = [part.strip() for part in _SENTENCE.split(text) if part.strip()]
    for sentence in (sentences[-1:], sentences[:1]):
        if sentence and (found := re.match(rf"\W*{_LEADING}{word}", sentence[0], re.IGNORECASE)):
            return found[1].lower()
    named = {each.lower() for each in re.findall(rf"\b{_DENIED}{one}", text, re.IGNORECASE)}
    # Consider only answers that are unlikely to occur in an ordinary sentence.
    distinct = {each for each in named if each not in ("no", "yes")}
    return distinct.pop() if len(distinct) == 1 and len(named) == 1 else None


def final_number(reply: str) -> int | None:
    """Return the whole number that a reply gives as its final answer, in digits or words, or None.

    >>> final_number("Two apples and one pear, so the answer is three."), final_number("You have 12 objects.")
    (3, 12)
    """
    text = plain_typography(re.sub(r"[*_`\"“”{}$\\]|\bboxed\b|\btext\b", " ", reply)).lower()
    stated = [(at, found) for at in _STATED.finditer(text) if (found := _NUMBER.match(text, at.end()))]
    for _, found in reversed(stated):
        if _is_result(found, text):
            return _value(found[0])
    for pattern in (_TOTAL, _SUM):
        for found in reversed([*pattern.finditer(text)]):
            number = _NUMBER.match(text, found.start(found.lastindex or 0))
            if number is not None and _is_result(number, text):
                return _value(number[0])
    answers = [each for at, each in stated if not at[0].startswith("total")]
    if answers:
        return _value(answers[-1][0])
    sentences = [part.strip() for part in _SENTENCE.split(text) if part.strip()]
    for sentence in (*sentences[-1:], *sentences[:1]):
        values = {_value(found) for found in _NUMBER.findall(sentence)}
        if len(values) == 1:
            return values.pop()
    return None


def _is_result(number: re.Match[str], text: str) -> bool:
    """Return whether a number is the result of its sentence, not the first part of a list.

    It is if no other number follows, if the following numbers explain it ("8 objects: 3 cups and 5 spoons",
    "8, because …") or if they add up to it.
    """
    end = _SENTENCE.search(text, number.end())
    rest = text[number.end() : end.start() if end else None]
    if _EXPLAINED.match(rest):
        return True
    following = [
        _value(found[0]) for found in _NUMBER.finditer(rest) if not _REJECTED.search(rest[: found.start()])
    ]
    return not following or (len(following) > 1 and sum(following) == _value(number[0]))


def _value(text: str) -> int:
    return int(text) if text.isdecimal() else NUMBERS[text.replace(" ", "-")]
