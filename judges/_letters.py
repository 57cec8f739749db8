"""Which option of a multiple-choice question a reply chooses, as models really say it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from judges._reply import refused

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
_SURELY = (
    r"(?:(?:most\s+|very\s+)?(?:probably|likely|definitely|clearly|certainly|simply|indeed|just)[\s,]+)?"
)
_BE = r"(?:is|was|(?:would|must|should|could|might|may|will|has\s+to)\s+be)"
_IS = rf"(?:(?:\s+{_BE}|['’]s)\s*[:,.…-]*|\s*[:=])"
_TAKE = r"(?:go(?:ing)?\s+(?:with|for)|went\s+(?:with|for)|choos(?:e|ing)|chose|pick(?:\s+is)?|select|say)"
_RIGHT = r"(?:the\s+)?(?:most\s+|best\s+)*(?:correct|right|best|likely|accurate|answer|fitting|appropriate)"
_ORDINAL = "first|second|third|fourth|fifth|sixth"
_COUNT = "one|two|three|four|five|six|[1-6]"
_PLACES = {word: place for words in (_ORDINAL, _COUNT) for place, word in enumerate(words.split("|"))}
_PLACES |= {str(place): place - 1 for place in range(1, 7)}

# Ways to say that a letter is meant, the plainest first. The first that occurs decides.
_SAID = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # "The answer is: B"
        rf"\banswer{_IS}\s*{_SURELY}(?:{_NAMED}?{_LETTER}|(?P<word>{_HEARD_WORDS})\b|{_NAMED}(?P<count>{_COUNT})\b"
        rf"|(?:the\s+)?(?P<ordinal>{_ORDINAL})\s+(?:option|choice|one)\b)",
        rf"\b{_TAKE}\s+{_NAMED}?{_LETTER}",  # "I'd go with B"
        r"(?:答案|选择?|選擇?|选项)\s*(?:应该|應該)?\s*[是为為]?\s*[:\uff1a]?\s*[(\uff08]?(?P<sure>[a-z])(?![a-z])",
        rf"(?<![\w'’.-])\(?(?P<sure>[a-z])\)?\s+(?:it\s+is\b|is\s+{_RIGHT}\b)",  # "B is correct", "B it is"
        rf"\b{_NAMED}{_LETTER}",  # "option b", "choice (C)"
        rf"\b(?:it|that|this)(?:['’]s|\s+{_BE})\s+{_SURELY}{_LETTER}",  # "it's b"
        rf"\b(?:{_TAKE}\s+|(?:it|that)(?:['’]s|\s+{_BE})\s+)?the\s+(?P<ordinal>{_ORDINAL})\s+(?:option|choice)\b",
        rf"\b(?:option|choice|number)\s+(?P<count>{_COUNT})\b",
    )
)
# "a" and "i" are words too: they are letters only where nothing goes on after them.
_ENDS = re.compile(r"\s*(?:$|[).,;:!?\n\u3002\uff0c]|because\b|since\b)")
# "B", "(b)", "B.", "B) rain", "B: rain", "B, because" at the start of the reply or of a line.
_LED = re.compile(r"^\s*\(?(?P<letter>[A-Za-z])\s*(?:[).,:;!\]]|[-–—]\s|$)", re.MULTILINE)
# A capital that stands alone. "A" and "I" are words, but for an "A" that ends what is said.
_ALONE = re.compile(
    r"(?<![\w'’.-])(?P<letter>[B-HJ-Z]|A(?=\s*(?:$|[.,;:!?)])))(?![\w'’-])(?!\.\w)", re.MULTILINE
)
_DENIED = re.compile(
    rf"(?:\bnot|n['’]t(?:\s+be)?|\bneither|\bnor|\brather\s+than|\binstead\s+of)\s+{_NAMED}?\(?$",
    re.IGNORECASE,
)
# A second letter in one breath: "B or C", "A and D", but not "B, and C is wrong".
_OR = re.compile(
    rf"\)?\s*(?:,?\s*(?:or|and)\s+|/|&\s*){_NAMED}?\(?(?P<letter>[a-z])\b(?!['’])"
    r"(?!\s+(?:is|are|was|would|could|does|can)\b)",
    re.IGNORECASE,
)
_CORRECTED = re.compile(
    r"\b(?:wait|actually|correction|I mean(?:t)?|scratch that|on second thoughts?|no, sorry|sorry)\b",
    re.IGNORECASE,
)
_NOT_TEXT = re.compile(r"(?:\bnot|\bnever|n['’]t|\brather than|\binstead of)(?: that)?(?: (?:an?|the|any))?$")
_ARTICLES = ("a", "an", "the")


@dataclass(frozen=True, slots=True)
class Choice:
    """What a reply chooses.

    Args:
        letter: The letter of the option, or None where none is told, or more than one.
        how: ``letter`` (it says one), ``text`` (it says an option's text), or why there is none: ``refused``,
            ``none``, ``several``.
    """

    letter: str | None
    how: str


@dataclass(frozen=True, slots=True)
class _Told:
    """A letter that a reply says, and where."""

    letter: str
    at: int


def choose(reply: str, options: Sequence[tuple[str, str]]) -> Choice:
    """Return which option a reply chooses.

    A letter that is said to be the answer counts before one that leads a line, and that before one that
    stands somewhere alone; only a reply without any is looked through for the text of an option. Where the
    same way of saying it tells two options, there is no choice, unless words between them take the earlier
    back ("no wait"). A reply that declines is looked at for a letter, not for a text.

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
    for pattern in (*_SAID, _LED, _ALONE):
        found = _told(pattern, plain, options)
        letters = {told.letter for told in found}
        if len(letters) > 1:
            letters = _after_correction(found, plain)
        if len(letters) == 1:
            return Choice(letters.pop(), "letter")
        if letters:
            return Choice(None, "refused" if refused(plain) else "several")
    if refused(plain):
        return Choice(None, "refused")
    said = _texts_said(plain, options)
    if len(said) == 1:
        return Choice(said[0], "text")
    return Choice(None, "several" if said else "none")


def _told(pattern: re.Pattern[str], reply: str, options: Sequence[tuple[str, str]]) -> list[_Told]:
    """Return the letters that are said, without those that are denied and those that are no option."""
    letters = [letter for letter, _ in options]
    found: list[_Told] = []
    for match in pattern.finditer(reply):
        which = next(name for name, said in match.groupdict().items() if said)
        raw, at = match[which], match.start(which)
        if which in ("ordinal", "count"):
            place = _PLACES[raw.lower()]
            letter = letters[place] if place < len(letters) else ""
        else:
            letter = _HEARD[raw.lower()] if which == "word" else raw.upper()
        word = which == "letter" and _is_word(raw, reply, match.end(which), options)
        if word or letter not in letters or _DENIED.search(reply[: match.start(which)]):
            continue
        found.append(_Told(letter, at))
        other = _OR.match(reply, match.end(which))
        if other is not None and which in ("letter", "sure"):
            raw, end = other["letter"], other.end("letter")
            if raw.upper() in letters and not _is_word(raw, reply, end, options):
                found.append(_Told(raw.upper(), other.start("letter")))
    return found


def _is_word(raw: str, reply: str, end: int, options: Sequence[tuple[str, str]]) -> bool:
    """Return whether an "a" or an "I" is a word of the sentence, and no letter."""
    if raw.lower() not in ("a", "i") or _ENDS.match(reply, end):
        return False
    if raw.islower():
        return True
    # "The answer is A dog barking", where that is what another option says.
    rest = f"{_words(reply[end:])} "
    for letter, text in options:
        words = _words(text)
        bare = words.split(" ", 1)[1] if words.split(" ", 1)[0] in _ARTICLES and " " in words else words
        if letter != raw.upper() and bare and rest.startswith(f"{bare} "):
            return True
    return False


def _after_correction(found: Sequence[_Told], reply: str) -> set[str]:
    """Return what is told after the last words that take something back, or all where there are none."""
    first = min(told.at for told in found)
    marks = [mark.start() for mark in _CORRECTED.finditer(reply) if mark.start() > first]
    later = {told.letter for told in found if marks and told.at > marks[-1]}
    return later or {told.letter for told in found}


def _texts_said(reply: str, options: Sequence[tuple[str, str]]) -> list[str]:
    """Return the options whose text the reply has, word for word; one that is part of another gives way."""
    words = f" {_words(reply)} "
    there = [
        (letter, text) for letter, option in options if (text := _words(option)) and _affirmed(text, words)
    ]
    return [
        letter
        for letter, text in there
        if not any(f" {text} " in f" {other} " for _, other in there if other != text)
    ]


def _affirmed(text: str, words: str) -> bool:
    """Return whether the words have the text at least once without "not" before it."""
    places = re.finditer(f"(?= {re.escape(text)} )", words)
    return any(not _NOT_TEXT.search(words[: place.start()]) for place in places)


def _words(text: str) -> str:
    return " ".join(re.findall(r"[\w']+", text.casefold().replace("’", "'")))
