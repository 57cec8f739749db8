"""Which option of a multiple-choice question a reply chooses, as models really say it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Choice", "choose"]

# What a recogniser writes where a letter is said.
_HEARD = {
    "ay": "A",
    "eh": "A",
    "be": "B",
    "bee": "B",
    "see": "C",
    "sea": "C",
    "cee": "C",
    "dee": "D",
    "ee": "E",
}
_HEARD_WORDS = "|".join(_HEARD)
_MARKS = '*_`"“”'

_NAMED = r"(?:(?:the\s+)?(?:option|choice|letter)\s*:?\s*)"
_LETTER = r"\(?(?P<letter>[a-z])\b(?!['’])"
_IS = r"(?:\s+(?:is|was|would\s+be|must\s+be|should\s+be|has\s+to\s+be)\s*[:,-]?|\s*[:=])"
_TAKE = r"(?:go(?:ing)?\s+(?:with|for)|went\s+(?:with|for)|choose|chose|pick(?:\s+is)?|select|say)"

# Ways to say that a letter is meant, the plainest first. The first that occurs decides.
_SAID = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\banswer{_IS}\s*(?:{_NAMED}?{_LETTER}|(?P<word>{_HEARD_WORDS})\b)",  # "The answer is: B"
        rf"\b{_NAMED}{_LETTER}",  # "option b", "choice (C)"
        rf"\b{_TAKE}\s+{_LETTER}",  # "I'd go with B"
    )
)
# "a" and "i" are words too: they are letters only where nothing goes on after them.
_ENDS = re.compile(r"\s*(?:$|[).,;:!?\n]|because\b|since\b)")
# "B", "(b)", "B.", "B) rain", "B: rain" at the start of the reply or of a line.
_LED = re.compile(r"^\s*\(?(?P<letter>[A-Za-z])\s*(?:[).:\]]|[-–—]\s|$)", re.MULTILINE)
# A capital that stands alone. "A" and "I" are words.
_ALONE = re.compile(r"(?<![\w'’.-])(?P<letter>[B-HJ-Z])(?![\w'’-])(?!\.\w)")
_DENIED = re.compile(
    rf"(?:\bnot|n['’]t(?:\s+be)?|\bneither|\bnor|\brather\s+than|\binstead\s+of)\s+{_NAMED}?\(?$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Choice:
    """What a reply chooses.

    Args:
        letter: The letter of the option, or None where none is told, or more than one.
        how: ``letter`` (it says one), ``text`` (it says an option's text), or why there is none: ``none``,
            ``several``.
    """

    letter: str | None
    how: str


def choose(reply: str, options: Sequence[tuple[str, str]]) -> Choice:
    """Return which option a reply chooses.

    A letter that is said to be the answer counts before one that leads a line, and that before one that
    stands somewhere alone; only a reply without any is looked through for the text of an option. Where the
    same way of saying it tells two options, there is no choice.

    Args:
        reply: What was said.
        options: Letters and texts of the options.

    >>> options = [("A", "Yes"), ("B", "No")]
    >>> choose("The answer is: B.", options)
    Choice(letter='B', how='letter')
    >>> choose("Well, yes, it does.", options)
    Choice(letter='A', how='text')
    """
    plain = reply.translate({ord(mark): " " for mark in _MARKS}).strip()
    letters = {letter for letter, _ in options}
    for pattern in (*_SAID, _LED, _ALONE):
        found = _letters(pattern.finditer(plain), plain, letters)
        if len(found) == 1:
            return Choice(found.pop(), "letter")
        if found:
            return Choice(None, "several")
    said = _texts_said(plain, options)
    if len(said) == 1:
        return Choice(said[0], "text")
    return Choice(None, "several" if said else "none")


def _letters(matches: Iterable[re.Match[str]], reply: str, letters: set[str]) -> set[str]:
    """Return the letters that are said, without those that are denied and those that are no option."""
    found: set[str] = set()
    for match in matches:
        said = match.groupdict()
        which = "letter" if said.get("letter") else "word"
        raw = said[which]
        if raw in ("a", "i") and not _ENDS.match(reply, match.end(which)):
            continue
        letter = raw.upper() if which == "letter" else _HEARD[raw.lower()]
        if letter in letters and not _DENIED.search(reply[: match.start(which)]):
            found.add(letter)
    return found


def _texts_said(reply: str, options: Sequence[tuple[str, str]]) -> list[str]:
    """Return the options whose text the reply has, word for word; one that is part of another gives way."""
    words = f" {_words(reply)} "
    there = [
        (letter, text) for letter, option in options if (text := _words(option)) and f" {text} " in words
    ]
    return [
        letter
        for letter, text in there
        if not any(f" {text} " in f" {other} " for _, other in there if other != text)
    ]


def _words(text: str) -> str:
    return " ".join(re.findall(r"[\w']+", text.casefold()))
