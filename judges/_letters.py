"""Which option of a multiple-choice question a reply chooses, as models really say it. Pure.

A reply is read as clauses. In each clause options are named: by letter ("b", "option B", "bee"), by place
("the second option"), or by their text. Options named in one breath ("B or C") are one claim. A claim
chooses, more or less plainly; or denies ("I doubt it's B", "B doesn't fit"); or leaves open ("if it were B").
What the assistant says of itself ("I'm happy to help", where "happy" is an option) is no claim.
Later claims may take earlier ones back. What the plainest claims that are left agree on is the choice.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from judges import _choice_phrases as phrases
from judges._reply import refused

__all__ = ["Choice", "choose"]

_Options = Sequence[tuple[str, str]]

# How plainly a claim chooses: not at all; in passing ("which option B has"); by itself; in so many words.
_UNSAID, _PASSING, _BARE, _PLAIN = range(4)
# How far before an option its clause is read, in characters: who speaks without a stop does not deny forever.
_FAR = 400


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
class _Clause:
    """A piece of the reply that asserts or denies by itself."""

    start: int
    end: int
    sentence: int


@dataclass(frozen=True, slots=True)
class _Mention:
    """An option that is named, from where to where; ``clearly``, where it cannot be another word."""

    letter: str
    start: int
    end: int
    clearly: bool


@dataclass(frozen=True, slots=True)
class _Claim:
    """What is said of options that are named in one breath."""

    letters: frozenset[str]
    clause: _Clause
    strength: int
    denied: bool


def choose(reply: str, options: _Options) -> Choice:
    """Return which option a reply chooses.

    Letters and places count before texts. Of what is claimed and neither denied nor taken back, the plainest
    decides; where that is two options, there is no choice. A reply that declines is looked at for a letter,
    not for a text.

    Args:
        reply: What was said.
        options: Letters and texts of the options.

    >>> options = [("A", "Yes"), ("B", "No")]
    >>> choose("The answer is: B.", options)
    Choice(letter='B', how='letter')
    >>> choose("I don't think it's B; it's A.", options)
    Choice(letter='A', how='letter')
    >>> choose("Well, yes, it does.", options)
    Choice(letter='A', how='text')
    """
    plain = phrases.plain(reply)
    clauses = _clauses(plain)
    undecided = phrases.UNDECIDED.search(plain) is not None
    letters = _settled(_letter_claims(plain, clauses, options), plain, clauses)
    if len(letters) == 1:
        return Choice(letters.pop(), "letter")
    if refused(plain) or (letters and undecided):
        return Choice(None, "refused")
    if letters:
        return Choice(None, "several")
    texts = _settled(_text_claims(plain, clauses, options), plain, clauses)
    if len(texts) == 1:
        return Choice(texts.pop(), "text")
    if undecided:
        return Choice(None, "refused")
    return Choice(None, "several" if texts else "none")


def _clauses(plain: str) -> list[_Clause]:
    """Return the clauses of the reply, which leave nothing of it out."""
    clauses: list[_Clause] = []
    start = sentence = 0
    cuts = list(phrases.BREAK.finditer(plain))
    for place, cut in enumerate(cuts):
        at = cut.start()
        if cut["soft"]:
            following = (each.start() for each in cuts[place + 1 :] if each[0].lower() != "and")
            right = plain[cut.end() : next(following, len(plain))]
            if not _parts(plain[start:at], right, comma=cut[0] == ","):
                continue
        if at > start:
            clauses.append(_Clause(start, at, sentence))
            start = at
        sentence += cut["sentence"] is not None
    clauses.append(_Clause(start, len(plain), sentence))
    return clauses


def _parts(left: str, right: str, *, comma: bool) -> bool:
    """Return whether a comma or "and" stands between two clauses, and not within one."""
    if phrases.STARTS_ANEW.match(right) or (comma and phrases.SUBORDINATE.match(left)):
        return True
    verbs = phrases.VERB.search(left) is not None and phrases.VERB.search(right) is not None
    return verbs and not phrases.PLURAL.match(right)


def _letter_claims(plain: str, clauses: Sequence[_Clause], options: _Options) -> list[_Claim]:
    """Return what is claimed of options by letter and by place."""
    found = (
        _mention(each, plain, _at(each.start(), clauses), options) for each in phrases.MENTION.finditer(plain)
    )
    breaths = _breaths([mention for mention in found if mention is not None], plain, clauses)
    claims: list[_Claim] = []
    for breath in breaths:
        clause = _at(breath[0].start, clauses)
        claim = _claim(breath, plain, clause, _letter_strength(breath, plain, clause, options))
        # "It's not only B but C": what is said by itself goes on with the sentence.
        plainly = any(each.strength == _PLAIN and each.clause.sentence == clause.sentence for each in claims)
        claims.append(replace(claim, strength=_PLAIN) if claim.strength == _BARE and plainly else claim)
    # "B. Otherwise I'd say A" opens with its answer, where it is no list: that is not outdone.
    opens = phrases.OPENS.match(plain)
    bare = [claim for claim in claims if claim.strength == _BARE]
    if opens and bare and bare == claims[:1] and [mention.end for mention in breaths[0]] == [opens.end()]:
        claims[0] = replace(claims[0], strength=_PLAIN)
    return claims


def _breaths(mentions: Sequence[_Mention], plain: str, clauses: Sequence[_Clause]) -> list[list[_Mention]]:
    """Return the mentions, in their order, those together that one breath names: "B or C"."""
    breaths: list[list[_Mention]] = []
    for mention in mentions:
        last = breaths[-1][-1] if breaths else None
        if (
            last is not None
            and last.start >= _at(mention.start, clauses).start
            and phrases.JOINED.match(plain[last.end : mention.start])
        ):
            breaths[-1].append(mention)
        else:
            breaths.append([mention])
    return breaths


def _mention(found: re.Match[str], plain: str, clause: _Clause, options: _Options) -> _Mention | None:
    """Return the option that is named, or None where there is no such one, or the letter is a word."""
    letters = [letter for letter, _ in options]
    place = found["count"] or found["ordinal"]
    if place:
        index = phrases.PLACES[place.lower()]
        clearly = not found[0].lower().startswith("number") and (found["noun"] or "").lower() != "one"
        return _Mention(letters[index], found.start(), found.end(), clearly) if index < len(letters) else None
    raw = found["letter"] or found["heard"]
    letter = phrases.HEARD.get(raw.lower(), raw.upper())
    start, end = found.start("letter" if found["letter"] else "heard"), found.end()
    said = found["named"] is not None or phrases.SAID_BEFORE.search(_before(start, plain, clause)) is not None
    if raw.lower() == "i":
        word = not phrases.ENDS.match(plain, end)
    elif raw == "A" and said:
        word = _begins_another(plain[end:], letter, options)
    elif raw in ("a", "A"):
        word = not phrases.GOES_ON.match(plain, end)
    elif found["heard"]:
        word = not (said and phrases.GOES_ON.match(plain, end)) and plain.strip(" .!?") != raw
    else:
        word = False
    if word or letter not in letters:
        return None
    clearly = (found["named"] or "letter").lower() != "letter" or plain[start - 1 : start] == "("
    return _Mention(letter, found.start(), end, clearly)


def _begins_another(rest: str, letter: str, options: _Options) -> bool:
    """Return whether an "A" is an article: "The answer is A dog barking", where another option says that."""
    texts = (re.sub(r"^(?:an?|the) ", "", _words(text)) for other, text in options if other != letter)
    return any(text and f"{_words(rest)} ".startswith(f"{text} ") for text in texts)


def _letter_strength(breath: Sequence[_Mention], plain: str, clause: _Clause, options: _Options) -> int:
    """Return how plainly letters that are named in one breath are chosen."""
    start, end = breath[0].start, breath[-1].end
    before, after = _before(start, plain, clause), plain[end:]
    led = phrases.LED.search(before) is not None  # not "Vitamin C is best"
    if phrases.SAID_BEFORE.search(before) or (led and phrases.SAID_AFTER.match(after)):
        return _PLAIN
    own = next(_words(text) for letter, text in options if letter == breath[-1].letter)
    follows = bool(own) and f"{_words(after)} ".startswith(f"{own} ")
    if _bare(start, end, plain, clause) or (
        not re.search(r"\w", before) and (follows or re.match(r"\s*[()\]]", after))
    ):
        return _BARE
    several = led and len(breath) > 1 and not re.search(r"\b[a-z]\b", plain[start:end])
    return _PASSING if several or any(mention.clearly for mention in breath) else _UNSAID


def _bare(start: int, end: int, plain: str, clause: _Clause) -> bool:
    """Return whether nothing but filler stands beside a place, up to the next commas, or to a denial."""
    before = _before(start, plain, clause).rpartition(",")[2]
    after = plain[end : clause.end].partition(",")[0]
    denial = phrases.NOT_BEFORE.search(after)
    beside = before + " " + (after[: denial.start()] if denial else after)
    return phrases.FILLER.fullmatch(beside) is not None


def _text_claims(plain: str, clauses: Sequence[_Clause], options: _Options) -> list[_Claim]:
    """Return what is claimed of options by their texts; one within another gives way."""
    mentions = _text_mentions(plain, clauses, options)
    widest = [
        each
        for each in sorted(mentions, key=lambda mention: mention.start)
        if not any(
            o.start <= each.start and each.end <= o.end and o.end - o.start > each.end - each.start
            for o in mentions
        )
    ]
    claims = []
    for breath in _breaths(widest, plain, clauses):
        clause = _at(breath[0].start, clauses)
        claim = _claim(breath, plain, clause, _PLAIN)
        none_such = re.search(r"\bno\s+$", _before(breath[0].start, plain, clause), re.IGNORECASE)
        claims.append(replace(claim, denied=claim.denied or none_such is not None))
    return claims


def _text_mentions(plain: str, clauses: Sequence[_Clause], options: _Options) -> list[_Mention]:
    """Return where options are named by their texts, word for word but for the article, and not in chat."""
    mentions: list[_Mention] = []
    for letter, text in options:
        words = _words(text)
        if words:
            said = r"\W+".join(map(re.escape, words.split()))
            pattern = re.sub(r"^(an?|the)\\W\+", r"(?:\1\\W+)?", said)
            for found in re.finditer(rf"(?<!\w)(?<!\w'){pattern}(?!\w|'\w)", plain, re.IGNORECASE):
                clause = _at(found.start(), clauses)
                answers = _interjected if words in phrases.INTERJECTIONS else _means_it
                if answers(found, plain, clause):
                    mentions.append(_Mention(letter, found.start(), found.end(), True))
    return mentions


def _means_it(found: re.Match[str], plain: str, clause: _Clause) -> bool:
    """Return whether an option's text is no word of chat, as in "I'm happy to help" or "let's slow down"."""
    before = _before(found.start(), plain, clause)
    counts = not (phrases.ONE_BEFORE.search(before) or phrases.ONE_OF.match(plain, found.end()))
    if found[0].lower() == "one" and not counts:
        return False
    if phrases.SAID_BEFORE.search(before):
        return True
    courteous = phrases.COURTESY.match(plain, found.end()) and not phrases.VERB.search(before)
    return not (courteous or phrases.OF_ITSELF.search(before) or phrases.WISH.search(before))


def _interjected(found: re.Match[str], plain: str, clause: _Clause) -> bool:
    """Return whether a "yes" or "no" answers: "No, it doesn't"; not "no one", "oh no", "yes, I can help"."""
    before = re.sub(r"\ba\s+$", "", _before(found.start(), plain, clause))
    if re.search(r"\boh\W*$", before, re.IGNORECASE) and found[0].lower() == "no":
        return False
    leads = phrases.FILLER.fullmatch(before.rpartition(",")[2]) is not None
    follows = phrases.AFTER_INTERJECTION.match(plain, found.end()) is not None
    offers = phrases.OFFER.match(plain, found.end()) is not None
    return follows and not offers and (leads or phrases.SAID_BEFORE.search(before) is not None)


def _claim(breath: Sequence[_Mention], plain: str, clause: _Clause, strength: int) -> _Claim:
    """Return what a clause says of the options that it names in one breath."""
    before, after = _before(breath[0].start, plain, clause), plain[breath[-1].end :]
    denied_after = phrases.NOT_AFTER.match(after) is not None
    denied = denied_after or phrases.NOT_BEFORE.search(before) is not None
    asks = plain.startswith("?", clause.end) and phrases.ASKS.match(before)
    excepted = phrases.EXCEPT.search(before)
    if excepted:  # of what is denied it is chosen: "everything except B is wrong", "none except B fits"
        denials = denied_after + len(phrases.NOT_BEFORE.findall(before, 0, excepted.start()))
        denied, strength = denials % 2 == 0, _PLAIN
    elif asks or phrases.LEFT_OPEN.search(before) or phrases.LEFT_OPEN_AFTER.match(after):
        strength = _UNSAID
    return _Claim(frozenset(mention.letter for mention in breath), clause, strength, denied)


def _settled(claims: Sequence[_Claim], plain: str, clauses: Sequence[_Clause]) -> set[str]:
    """Return what the plainest claims choose, after what later claims deny, narrow down or take back."""
    chosen: list[_Claim] = []
    taken_back = False
    by_clause: dict[_Clause, list[_Claim]] = {}
    for claim in claims:
        by_clause.setdefault(claim.clause, []).append(claim)
    for clause in clauses:
        taken_back |= phrases.TAKES_BACK.match(plain, clause.start, clause.end) is not None
        here = phrases.TAKES_BACK_HERE.match(plain, clause.start, clause.end) is not None
        for claim in by_clause.get(clause, ()):
            if claim.denied:
                chosen = [replace(each, letters=each.letters - claim.letters) for each in chosen]
            elif claim.strength > _UNSAID:
                if taken_back or (here and claim.strength > _PASSING):
                    chosen, taken_back, here = [], False, False
                if len(claim.letters) == 1:  # "B or C. Rather B."
                    chosen = [each for each in chosen if not claim.letters < each.letters]
                chosen.append(claim)
    chosen = [each for each in chosen if each.letters]
    plainest = max((each.strength for each in chosen), default=_UNSAID)
    return {letter for each in chosen if each.strength == plainest for letter in each.letters}


def _before(start: int, plain: str, clause: _Clause) -> str:
    return plain[max(clause.start, start - _FAR) : start]


def _at(place: int, clauses: Sequence[_Clause]) -> _Clause:
    return clauses[bisect_right(clauses, place, key=lambda clause: clause.start) - 1]


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+(?:'\w+)*", text.casefold().replace("’", "'")))
