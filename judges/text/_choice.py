"""Determine which option of a multiple-choice question a reply chooses. Pure.

The question asks for "The answer is: X". The last such statement counts, unless a letter on its own corrects
it ("no wait, C"). Without such a statement, the first of these decides: a letter on its own, as the whole
reply, its last sentence or its leading label; a letter chosen in other words ("I'd go with B", "B is
correct"), if all such choices agree; the verbatim text of one option. Retracted choices are ignored. All
other replies are `unparsed`.

Before adding another pattern, measure its benefit on real replies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from live_eval.judges.text._reply import refused
from live_eval.text.wording import plain_typography


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice in a reply.

    Args:
        letter: The letter of the chosen option; None unless exactly one is chosen.
        how: The source of the choice, ``letter`` or ``text`` (an option's text), or why there is no choice:
            ``refused``, ``unparsed``.
    """

    letter: str | None
    how: str


def _any_case(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


# Spellings of spoken letters in recognisers' output.
_HEARD = {"ay": "A", "be": "B", "bee": "B", "cee": "C", "see": "C", "sea": "C", "dee": "D", "ee": "E"}
_LETTER = rf"([A-Z]|{'|'.join(_HEARD)})(?![A-Za-z0-9'+#-])"
_IS = r"(?:is|are|be)\b"
# Up to three words between "answer" and "is" that do not change the meaning.
_TO = rf"[^\w.!?]+(?:(?!{_IS}|\w+n't|(?:not|never|cannot|used|least|isnt)\b)[\w']+[^\w.!?]+){{0,3}}?{_IS}"
_ANSWER = _any_case(rf"\banswers?(?:'s|{_TO}|\b)|\bboxed\b|答案(?:应该|就)?是?")
_CHOOSING = _any_case(
    r"\bI(?:'d|'ll|'m| would| will)?(?: have to)?(?: \w+ly)? "
    r"(?:choose|pick|select|say|think|guess|go(?:ing)? (?:with|for))\b"
    rf"|\b(?:option|choice|pick)(?:'s|{_TO})|\b(?:it|that)(?:'s| is| would be| must be| sounds like)\b|选择?"
)
_NAMED = _any_case(
    r"[^\w.!?]*(?:(?:\w+ly|most|now|it's|it is|um+|uh+|er|well)\b[^\w.!?]*)*(?:the )?"
    rf"(?:(?:option|choice|letter)\b[^\w.!?]*)?{_LETTER}"
)
# "The answer is a because …", but "the answer is a sigh"; "option see", but "see a doctor". No noun phrase
# continues with these words, so the word before them is a letter.
_NO_WORD = _any_case(
    r"\W*$|\s*[^\w\s']|\s+(?:because|since|as|i|it|and|or|but|so|over|rather than|based|due|judging"
    r"|considering|given(?!\W*$)|instead|according|in|on|at|to|by|of|for|from|with|if|when|while|which|that"
    r"|this|the|my|then|here|though|although|we|you|he|she|they|there|again|after|thanks)\b(?!-)"
)
_NO_SENTENCE = _any_case(r"\W*$|\s*[^\w\s'-]")  # "option see", but "see if it helps"
# Contexts in which "a" is a letter: "is: a", "option a", "(a)".
_INTRODUCED = _any_case(r"[:(（：]|\b(?:option|choice|letter)\b")
# "A, happy" and "A – happy" choose A, even if an option's text begins with "A happy".
_MARKED_OFF = re.compile(r"\s*[,;:()/–—]|\s+-")
_NO_NOUN = _any_case(r"\s+(?:yes|no)\b")  # no article precedes these words
_WORDS = frozenset({"a", "be", "bee", "see", "sea"})  # spellings of letters that are also words
_ANOTHER = _any_case(
    r"\W*,\W*[b-h]\b(?!\W*$)"
    r"|\W*(?:or|/|&|and(?!\W+\w\W+(?:is|was|does|can)))\W*(?:(?:maybe|even|option)\W+)?\w\b"
)
_CORRECT = _any_case(
    r"(?:^|[.,;:!?]|\b(?:so|and|that|think)\b)\W*(?:option\W+)?([A-Z])\b\W+"
    r"(?:it is\b|(?:is|would be|seems(?: to be)?)\W+(?:(?!not\b|less\b|least\b|in|un)\w+\W+){0,2}?"
    r"(?:correct|right|best|likely|answer|fit)\b)"
)
_LABEL = _any_case(rf"\W*(?:(?:the )?(?:option|choice|letter)\W+)?{_LETTER}(?:\W*$|\s?[).,:;!?\]-])")
_LAST = _any_case(rf"\W*(?:(?:so|then|therefore|thus|hence|yes|maybe|\w+ly|option)\b\W*)*{_LETTER}\W*")
_OTHER_LABEL = re.compile(
    r"(?<![\w'])(?:[B-Z](?![\w'])|A(?=[).:,]|\W*$|\W+(?:is|was|would|could|might|can|does|seems|sounds)\b)"
    r"|(?:option|choice) [a-z]\b)"
)
_LISTED = re.compile(r"(?<![\w'])[A-Z][).:]\s*\w")
_TAKES_BACK = _any_case(r"\b(?:wait|sorry|actually|rather|kidding|correct myself|meant?|no(?=\W+[a-h]\b))\b")
_DENIES = _any_case(
    r"\b(?:not|never|nor|neither|none|(?<!no )doubt\w*|wrong|incorrect|cannot|if|whether|unless|than|second"
    r"|worst|least)\b|n't\b|\b(?:dont|isnt)\b|不|^\W*(?:is|could)\b"
)
# Words directly before "answer is" that negate it, ask for it or refer to another answer.
_NO_STATEMENT = _any_case(
    r"(?:(?:\b(?:not|never|cannot|if|whether|(?:I|would|do) doubt)|n't|\bdont)"
    r"(?:[^\w.!?]+(?:say|think|believe|mean|sure|certain|know|claim|that|so|yet))*|(?:^|[.!?,;:])\W*(?:is|was|could|would))"
    r"(?:[^\w.!?]+(?:the|my|its|this|that|correct|right|best|final|true))*[^\w.!?]*$"
    r"|\b(?:other|wrong|incorrect|second|next|worst|alternative)[^\w.!?]+$"
)
_CORRECTION = _any_case(
    rf"\b(?:wait|sorry|actually|rather|correct myself|meant?|no)\b\W+(?:option\W+)?{_LETTER}\W*$"
)
_CLAUSE = _any_case(r"[.!?;:,]|\b(?:but|so|because|since|and|then)\b")
_UNDECIDED = _any_case(
    r"\b(?:can't|cannot|couldn't|won't|unable to|impossible to|no way to|rather not)(?: \w+ly)? "
    r"(?:choose|pick|select|decide|tell|say|determine|judge|answer|identify)\b"
)
_CHAT = r"(?!\W+(?:I|you|please|go|how|what|of course|sure|sorry)\b)"


def choose(reply: str, options: Sequence[tuple[str, str]]) -> Choice:
    """Return the option that a reply chooses.

    Args:
        reply: The text of the reply.
        options: Letters and texts of the options.

    >>> options = [("A", "Yes"), ("B", "No")]
    >>> choose("A) yes, B) no. The answer is: B.", options)
    Choice(letter='B', how='letter')
    >>> choose("No.", options)
    Choice(letter='B', how='text')
    >>> choose("The answer is not B.", options)
    Choice(letter=None, how='unparsed')
    """
    texts = {letter: _words(text) for letter, text in options}
    # Speakers who think aloud state the answer at the end, so only the end of a long reply is parsed.
    bare = re.sub(r"[*_`\"“”<>{}$\\]|(?<!\w)['‘’]|['’](?!\w)", " ", reply[-3000:])
    if stated := list(_chosen(_ANSWER, plain_typography(bare), texts)):
        corrected = _CORRECTION.search(bare)
        letter = (_letter(corrected[1], texts) if corrected else None) or stated[-1]
        return Choice(letter, "letter" if letter else "unparsed")
    for taken_back in reversed(list(_TAKES_BACK.finditer(bare))):
        if (choice := _read(bare[taken_back.end() :], texts)).letter:
            return choice
    return _read(bare, texts)


def _read(bare: str, texts: Mapping[str, str]) -> Choice:
    plain = plain_typography(bare)
    last = next((piece for piece in reversed(re.split(r"[.!?\n]", bare)) if piece.strip(" )]")), "")
    if (alone := _LAST.fullmatch(last)) and (letter := _letter(alone[1], texts)):
        return Choice(letter, "letter")
    label = _LABEL.match(plain)
    opening = _letter(label[1], texts) if label else None
    if label and opening and not _OTHER_LABEL.search(plain, label.end(1)):
        return Choice(opening, "letter")
    chosen = {*_chosen(_CHOOSING, plain, texts)}
    chosen |= {_letter(found[1], texts) for found in _CORRECT.finditer(plain)}
    if chosen:
        if opening and len(_LISTED.findall(plain)) < 2:
            chosen.add(opening)
        only = chosen.pop() if len(chosen) == 1 else None
        return Choice(only, "letter" if only else "unparsed")
    if refused(plain) or _UNDECIDED.search(plain):
        return Choice(None, "refused")
    told = {letter for letter, text in texts.items() if _tells(text, plain)}
    told -= {one for one in told for other in told if one != other and texts[one] in texts[other]}
    return Choice(told.pop(), "text") if len(told) == 1 else Choice(None, "unparsed")


def _chosen(leads: re.Pattern[str], plain: str, texts: Mapping[str, str]) -> Iterator[str | None]:
    """Yield the option after each lead phrase, or None if it names several; skip negated options."""
    for lead in leads.finditer(plain):
        rest = plain[lead.end() :]
        named = _NAMED.match(rest)
        letter = _letter(named[1], texts) if named else None
        before = plain[max(0, lead.start() - 200) : lead.start()]
        if _NO_STATEMENT.search(before) if leads is _ANSWER else _DENIES.search(_CLAUSE.split(before)[-1]):
            continue
        spelled = next((each for each, text in texts.items() if _begins(rest, text)), None)
        after = rest[named.end() :] if named else ""
        if named and letter and _is_a_word(named, after, letter, texts, spelled=spelled is not None):
            letter = None
        if letter:
            yield None if _ANOTHER.match(after) else letter
        elif spelled:
            yield spelled


def _is_a_word(
    named: re.Match[str], after: str, letter: str, texts: Mapping[str, str], *, spelled: bool
) -> bool:
    """Return whether an apparent letter is an ordinary word: "a dog", "see a doctor".

    Args:
        named: The match of `_NAMED`.
        after: The reply's text after the match.
        letter: The apparent letter.
        texts: The words of each option's text.
        spelled: Whether the text of an option begins at the match.
    """
    if named[1].lower() not in _WORDS or _MARKED_OFF.match(after):
        return False
    is_marked = named[1] == "A" or (len(named[1]) == 1 and _INTRODUCED.search(named[0][: named.start(1)]))
    if is_marked and _NO_NOUN.match(after):
        return False
    if spelled:
        return True
    alone = _NO_WORD if len(named[1]) == 1 else _NO_SENTENCE
    if alone.match(after) or _begins(after, texts[letter]):
        return False
    if is_marked:
        # In "The answer is: A sad voice", "A" is the article of an option's text and does not choose A,
        # unless the text is A's own.
        following = _words(after).partition(" ")[0]
        starts = {each: text.partition(" ")[0] for each, text in texts.items()}
        return following != starts[letter] and following in starts.values()
    return True


def _letter(said: str, texts: Mapping[str, str]) -> str | None:
    letter = _HEARD.get(said.lower(), said.upper())
    return letter if letter in texts else None


def _begins(rest: str, text: str) -> bool:
    """Return whether the rest of a reply begins with an option's text and mentions no other option."""
    words = f"{_words(rest)} "
    return (
        bool(text) and words.startswith(f"{text} ") and not words.startswith((f"{text} or ", f"{text} and "))
    )


def _tells(text: str, plain: str) -> bool:
    """Return whether a reply contains an option's text: as a sentence, as a leading "yes", or as at least
    three words.
    """
    sentences = {_words(sentence) for sentence, asks in re.findall(r"([^.!?;]+)(\?)?", plain) if not asks}
    if text in ("yes", "no"):
        return re.match(rf"\W*{text}(?:\W*$|[,.!;]{_CHAT})", plain, re.IGNORECASE) is not None
    found = re.search(rf"\b{re.escape(text)}\b", _words(plain)) if text.count(" ") > 1 else None
    return text in sentences - {""} or (
        found is not None and not _DENIES.search(_words(plain)[: found.start()])
    )


def _words(text: str) -> str:
    """Return the words of a text, without case, punctuation or a leading article."""
    words = re.findall(r"\w+(?:'\w+)*", plain_typography(text).casefold())
    return " ".join(words[1:] if words[:1] in (["a"], ["an"], ["the"]) else words)
