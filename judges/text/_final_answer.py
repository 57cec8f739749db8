"""Parse the final answer of a reply: one of a few words or a whole number. Pure.

The first of these decides: the last "answer is X"; the last sentence, if it begins with an answer ("Yes, you
return …"); the first sentence, if it does; the only answer that the reply mentions, unless it is a common
word such as yes or no. All other replies are unparsed.
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
_LEADING = r"(?:(?:so|then|therefore|thus|hence|well|overall|finally|in conclusion)\b\W*)*"
_DENIED = r"(?<!\bnot )(?<!n't )"


def final_answer(reply: str, answers: Sequence[str]) -> str | None:
    """Return which of `answers` a reply gives as its final answer, or None.

    >>> final_answer("I turn around twice. So the answer is no.", ["yes", "no"])
    'no'
    >>> final_answer("Yes, you return to the start.", ["yes", "no"])
    'yes'
    >>> final_answer("It could be yes or no.", ["yes", "no"])
    """
    text = plain_typography(re.sub(r"[*_`\"“”{}$\\]|\bboxed\b|\btext\b", " ", reply))
    word = rf"(?:(?:deductively|logically)\W+)?({'|'.join(map(re.escape, answers))})\b(?!\W+or\b)"
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
    named = {each.lower() for each in re.findall(rf"\b{_DENIED}{word}", text, re.IGNORECASE)}
    # Consider only answers that are unlikely to occur in an ordinary sentence.
    distinct = {each for each in named if each not in ("no", "yes")}
    return distinct.pop() if len(distinct) == 1 and len(named) == 1 else None


def final_number(reply: str) -> int | None:
    """Return the whole number that a reply gives as its final answer, in digits or words, or None.

    >>> final_number("Two apples and one pear, so the answer is three."), final_number("You have 12 objects.")
    (3, 12)
    """
    text = plain_typography(re.sub(r"[*_`\"“”{}$\\]|\bboxed\b|\btext\b", " ", reply)).lower()
    spelled = "|".join(sorted((word.replace("-", "[ -]") for word in NUMBERS), key=len, reverse=True))
    number = re.compile(rf"(?<![\w.,-])(\d{{1,6}}|{spelled})\b(?![.,]\d)")
    stated = [found for at in _STATED.finditer(text) if (found := number.match(text, at.end()))]
    if stated:
        return _value(stated[-1][1])
    sentences = [part.strip() for part in _SENTENCE.split(text) if part.strip()]
    for sentence in (*sentences[-1:], *sentences[:1]):
        values = {_value(found) for found in number.findall(sentence)}
        if len(values) == 1:
            return values.pop()
    return None


def _value(text: str) -> int:
    return int(text) if text.isdecimal() else NUMBERS[text.replace(" ", "-")]
