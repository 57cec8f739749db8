"""Which option of a multiple-choice question a reply chooses, as models really say it. Pure.

A reply is read as clauses. In each clause options are named: by letter ("b", "option B", "bee"), by place
("the second option"), or by their text. Options named in one breath ("B or C") are one claim. A claim
chooses, more or less plainly; or denies ("I doubt it's B", "B doesn't fit"); or leaves open ("if it were B").
Later claims may take earlier ones back. What the plainest claims that are left agree on is the choice.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from judges._reply import refused

__all__ = ["Choice", "choose"]

_Options = Sequence[tuple[str, str]]


def _any_case(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


# A reply is speech: what is longer is read from its end, where the answer of one who thinks aloud stands.
_LONGEST = 3000
# How plainly a claim chooses: not at all; in passing ("which option B has"); by itself; in so many words.
_UNSAID, _PASSING, _BARE, _PLAIN = range(4)

# What a recogniser writes where a letter is said.
_HEARD = {"ay": "A", "eh": "A", "be": "B", "bee": "B", "see": "C", "sea": "C", "cee": "C"}
_HEARD |= {"dee": "D", "ee": "E"}
_HEARD_WORDS = "|".join(_HEARD)
_ORDINAL = "first|second|third|fourth|fifth|sixth"
_COUNT = "one|two|three|four|five|six"
_PLACES = {word: place for words in (_ORDINAL, _COUNT) for place, word in enumerate(words.split("|"))}
_PLACES |= {str(place + 1): place for place in range(6)} | {"last": -1}

_NOUN = r"(?:options?|choices?|answers?|letter)"
_ALONE_BEFORE, _ALONE_AFTER = r"(?<![\w'.-])", r"(?![\w'+#]|-\w|\.\w)"
_MENTION = _any_case(
    rf"(?:\b(?:the\s+)?(?P<named>{_NOUN})\s+)?\(?{_ALONE_BEFORE}"
    rf"(?:(?P<letter>[a-z])|(?P<heard>{_HEARD_WORDS})){_ALONE_AFTER}"
    rf"|\b(?:(?:option|choice)(?:\s+number)?|number)\s+(?P<count>{_COUNT}|[1-6])\b"
    rf"|(?:\bthe\s+|(?<!and )(?<!or )\b)(?P<ordinal>{_ORDINAL}|last)\s+(?P<noun>option|choice|one|answer)\b"
)
# "a" and the words that letters are heard as are words too: what may follow them where they are letters.
_ENDS = re.compile(r"\s*(?:$|[)\]}$.,;:!?\n])")
_GOES_ON = _any_case(
    r"\s*(?:$|[)\]}$.,;:!?\n/&-]|(?:because|since|or|and|but|nor|is|was|are|would|could|does|\w+n't|"
    r"seems|sounds|fits|matches|makes|over|rather|instead|not|it\s+is|I\s+(?:think|guess|believe))\b)"
)
# Between the options of one breath: "B or C", "A, B and D", "either (b) / (c)".
_JOINED = _any_case(
    r"\)?(?:\s*(?:[,/&]|\b(?:and|or|nor|maybe|perhaps|possibly|even|also|either|both|as well as)\b))+\s*\(?$"
)

_IS = r"(?:is|are|was|were|(?:would|must|should|could|might|may|will|can|has to|have to) be)"
_SURELY = (
    r"(?:(?:\w+ly|most|very|just|still|now|then|also|indeed|either|both|between|perhaps|"
    r"maybe|I think|I'd say)[\s,]+)*"
)
_SAID_BEFORE = _any_case(
    rf"(?:\b(?:answers?|choices?|options?|pick|guess|selection|response|bet|vote|conclusion|solution|match|"
    rf"closest|the\s+one|what I hear)(?:\s+\w+){{0,4}}?(?:\s+{_IS}|'s)"
    rf"|\b(?:it|that|this|these|which)(?:\s+{_IS}|'s|'d be|'ll be)"
    r"|^\W*(?:could|must|might|may|would|should|can)\s+be|\banswers?|\b(?:change|switch)\s+(?:my\s+answer\s+)?to"
    r"|\b(?:go|going|went|opt|opting|opted)\s+(?:with|for)"
    r"|\b(?:choose|choosing|chose|pick|picking|select|selecting|say|meant|vote\s+for|settle\s+on|stick\s+with)"
    r"|\b(?:sounds?|seems?|looks?|more)\s+like|\bcloser\s+to|\blean(?:ing)?(?:\s+(?:to|towards?|for))?"
    r"|\b(?:match(?:es|ing)?|fits|corresponds?\s+(?:to|with)|consistent\s+with|points?\s+(?:to|towards?)|"
    r"suggests?|indicates?|supports?|means|leaves?(?:\s+(?:us|me))?(?:\s+with)?)"
    r"|(?:答案|选择?|選擇?|选项)\s*(?:应该|應該)?\s*[是为為]?|(?:认为|觉得)是)"
    rf"\s+{_SURELY}$"
)
_SAID_AFTER = _any_case(
    rf"\)?,?\s+(?:it\s+is\b|(?:(?:{_IS}|sounds?|seems?|looks?)\s+(?:[\w']+\s+){{0,3}}?"
    r"(?:correct|right|best|better|likely|accurate|answer|fitting|appropriate|true|choice|option|it|pick|"
    r"what|closest|the\s+one)\b)"
    r"|(?:\w+ly\s+|also\s+|best\s+)*(?:fits|matches|applies|describes|corresponds|"
    r"makes\s+(?:the\s+)?(?:most\s+)?sense)\b)"
)
# What stands beside an option that is said by itself: "So, I think B, for sure."
_FILL = (
    r"so|well|ok|okay|then|therefore|thus|hence|i(?:'d|'ll|'m)?|we|would|say|think|guess|believe|suppose|\w+ly|"
    r"maybe|perhaps|most|very|quite|for|sure|of|course|please|um|uh|hmm|mm|oh|ah|yes|yeah|no|sorry|wait|mean|"
    r"just|indeed|here|again|my|and|but|or|also|either|both|it|must|be|final"
)
_FILLER = _any_case(rf"\W*(?:(?:{_FILL})(?![\w'])\W*)*")
_LED = _any_case(
    rf"(?:^|\b(?:{_FILL}|that|because|since|as|while|although|though|all|the|how|why|if|between))\W*$"
)

_NOT_BEFORE = _any_case(
    r"\b(?:not|never|none|neither|nor|cannot|without|unlike|unable|doubt\w*|unlikely|hardly|wrong|incorrect|"
    r"(?:do|does|is|are|was|would|could|should|ca|can|wo|did)nt|"
    r"(?:less\s+likely|rather|other)\s+(?:than|to)|instead\s+of|anything\s+but|opposed\s+to|"
    r"rul(?:e|es|ed|ing)\s+out|(?:eliminat|exclud|discard|reject|dismiss|avoid)(?:e|es|ed|ing)?|"
    r"no\s+(?!(?:wait|sorry|it|that|this|there|i|the|actually|[a-z])\b)\w+)\b|n't\b|不"
)
_NOT_AFTER = _any_case(
    r"(?:\s*\([^)]*\)|,[^,.;:!?\n]*,)?[)\]]?\s+(?:(?:\w+ly|all|both|just|also|then|still|either)\s+)*"
    rf"(?:\w+n't\b|cannot\b|(?:{_IS}|do|does|did|can|could|would|should|may|might|has|have|seems?|sounds?|looks?|"
    r"feels?|appears?)\s+(?:(?:\w+ly\s+)?not\b|(?:out|off)\b(?!\s+of)|(?:[\w']+\s+){0,2}?(?:wrong|incorrect|false|"
    r"unlikely|impossible|inaccurate|less|ruled\s+out|eliminated|excluded|implausible|inconsistent|mistaken)\b)"
    r"|(?:fails?|contradicts?|conflicts?|lacks?)\b)"
)
# Denials that deny nothing, and "B as in boy".
_EMPTY = _any_case(
    r"\b(?:no|without(?:\s+a|\s+any)?)\s+(?:doubt|question)\b|\bnot\s+only\b"
    r"|\b(?:do\s+not|don't|cannot|can't)\s+(?:doubt|deny)\b|(?<=\b[a-z])\s+as\s+in\s+\w+"
)
_LEFT_OPEN = _any_case(
    r"^\W*(?:(?:so|but|and|even)\s+)*(?:if|unless|suppose)\b|\bwhether\b|\bat\s+first\b|\binitially\b"
    r"|\bI\s+(?:first\s+|had\s+)?thought\b|\byou\s+(?:said|asked|want\w*)\b"
)
_ASKS = _any_case(
    r"^\W*(?:is|are|was|could|would|should|did|do|does|can|which|what|why|how|who|shall|will)\b"
)

_TAKEN_BACK = (
    r"(?:no,?\s+wait|wait|correction|I\s+mean(?:t)?|scratch\s+that|on\s+second\s+thoughts?|"
    r"(?:no,?\s+)?sorry|(?:just\s+)?kidding|my\s+mistake)"
)
_TAKES_BACK = _any_case(rf"\W*(?:(?:oh|um|but|well|or|actually|no)\b\W*)*{_TAKEN_BACK}\b")
# These take back only in the clause that chooses anew: "Actually" and "no" begin other sentences too.
_TAKES_BACK_HERE = _any_case(r"\W*(?:(?:oh|but|well)\b\W*)*(?:no\b(?!\s+\w{2})|actually\b|or\s+rather\b)")

_BREAK = _any_case(
    r"(?P<sentence>[.!?…]+(?!\w)|\n)|(?P<clause>;|:(?!\d)|\s-+\s|[–—])"
    r"|(?P<soft>,|\band\b)"
    r"|\b(?:(?<!anything )but|so|because|since|whereas|although|though|however|therefore|thus|hence|then|"
    rf"which|if|unless|while|when|{_TAKEN_BACK})\b"
)
_VERB = _any_case(
    r"\b(?:is|are|was|were|be|does|do|did|\w+n't|cannot|seems?|sounds?|fits?|match(?:es)?|choose|pick|has|have|can|"
    r"could|would|should|will|rul(?:e|ed|ing)\s+out|eliminat\w+)\b|'s\b"
)
_PLURAL = _any_case(
    rf"\s*(?:and\s+|or\s+)?(?:{_NOUN}\s+)?[a-z]\s+(?:\w+ly\s+|both\s+|all\s+)?"
    r"(?:are|were|do|don't|aren't|have|fit|match|sound|seem|look)\b"
)
_SUBORDINATE = _any_case(
    r"\W*(?:if|when|while|although|though|since|because|as|after|instead|rather|unlike|given|between|unless)\b"
)
_STARTS_ANEW = _any_case(
    r"\s*(?:(?:and|or)\s+)?(?:(?:i|it|that|this|there|they|he|she|we|you|my)\b|the\s+(?:answer|correct|right|best)\b|"
    r"(?:maybe|perhaps|probably|possibly|definitely|just|only|actually|or\s+rather)\b"
    r"|(?:go|choose|pick|select)\b|no\b(?=,|\s+[a-z]\b|\s*$|\s*[.!?])|答案|我|是)"
)

_I_CANNOT = (
    r"\b(?:I|we)\s+(?:really\s+|simply\s+|just\s+)?(?:cannot|can't|can\s+not|won't|will\s+not|couldn't|could\s+not|"
    r"am\s+(?:unable|not\s+able)\s+to|'m\s+(?:unable|not\s+able)\s+to|refuse\s+to|decline\s+to|"
    r"(?:would|'d)\s+rather\s+not)|\bI'm\s+(?:unable|not\s+able)\s+to|\bI'd\s+rather\s+not"
    r"|\b(?:impossible|not\s+possible|no\s+way)(?:\s+for\s+me)?\s+to"
)
_UNDECIDED = _any_case(
    rf"(?:{_I_CANNOT})\s+(?:\w+ly\s+)?(?:choose|pick|select|decide|tell|say|determine|judge|guess|answer|identify|"
    r"distinguish|make\s+a\s+(?:choice|decision))\b(?!\s+you\b)"
)
# An option "No" is said by itself, or at the head of an answer; elsewhere it is a word like others.
_INTERJECTIONS = frozenset({"yes", "no"})
_AFTER_INTERJECTION = _any_case(
    r"\s*(?:$|[.,!?;:)\n-]|(?:i|it|he|she|they|we|there|this|that|because|since|and|or|but)\b)"
)


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
    plain = _plain(reply)
    clauses = _clauses(plain)
    undecided = _UNDECIDED.search(plain) is not None
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


_DRESS = str.maketrans('*_`"“”<>。，：；（）‘’', " " * 8 + ".,:;()''")


def _plain(reply: str) -> str:
    """Return the reply without what only dresses it: marks, quotes, colons after "is", empty denials."""
    text = re.sub(r"[^\S\n]+", " ", re.sub(r"\s*\n\s*", "\n", reply.translate(_DRESS)))[-_LONGEST:]
    text = re.sub(r"(?<!\w)'|'(?!\w)", " ", text)
    text = re.sub(r"\\+boxed\s*\{", " the answer is ", text)
    text = re.sub(r"(?<=[\u3400-\u9fff])(?=[A-Za-z])|(?<=[A-Za-z])(?=[\u3400-\u9fff])", " ", text)
    text = re.sub(
        r"(\b(?:is|are|be|answer|choice|option|letter|pick)|'s)\s*(?:[:=…]|,|\.{2,}|-|\n)\s*"
        r"(?=\(?(?:[a-z]|the|option|choice|" + rf"{_HEARD_WORDS})\b)",
        r"\1 ",
        text,
        flags=re.IGNORECASE,
    )
    # "Option A: wrong."
    text = re.sub(
        r"\s*[:–—]\s*(?=(?:correct|right|true|wrong|incorrect|false|(?:un)?likely)\b)", " is ", text
    )
    return _EMPTY.sub(" ", text).strip()


def _clauses(plain: str) -> list[_Clause]:
    """Return the clauses of the reply, which leave nothing of it out."""
    clauses: list[_Clause] = []
    start = sentence = 0
    cuts = list(_BREAK.finditer(plain))
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
    if _STARTS_ANEW.match(right) or (comma and _SUBORDINATE.match(left)):
        return True
    verbs = _VERB.search(left) is not None and _VERB.search(right) is not None
    return verbs and not _PLURAL.match(right)


def _letter_claims(plain: str, clauses: Sequence[_Clause], options: _Options) -> list[_Claim]:
    """Return what is claimed of options by letter and by place."""
    breaths: list[list[_Mention]] = []
    for found in _MENTION.finditer(plain):
        clause = _at(found.start(), clauses)
        mention = _mention(found, plain, clause, options)
        if mention is None:
            continue
        last = breaths[-1][-1] if breaths else None
        joined = (
            last is not None and last.start >= clause.start and _JOINED.match(plain[last.end : mention.start])
        )
        if joined:
            breaths[-1].append(mention)
        else:
            breaths.append([mention])
    claims: list[_Claim] = []
    for breath in breaths:
        clause = _at(breath[0].start, clauses)
        claim = _claim(breath, plain, clause, _letter_strength(breath, plain, clause, options))
        # "It's not only B but C": what is said by itself goes on with the sentence.
        plainly = any(each.strength == _PLAIN and each.clause.sentence == clause.sentence for each in claims)
        claims.append(replace(claim, strength=_PLAIN) if claim.strength == _BARE and plainly else claim)
    return claims


def _mention(found: re.Match[str], plain: str, clause: _Clause, options: _Options) -> _Mention | None:
    """Return the option that is named, or None where there is no such one, or the letter is a word."""
    letters = [letter for letter, _ in options]
    place = found["count"] or found["ordinal"]
    if place:
        index = _PLACES[place.lower()]
        clearly = not found[0].lower().startswith("number") and (found["noun"] or "").lower() != "one"
        return _Mention(letters[index], found.start(), found.end(), clearly) if index < len(letters) else None
    raw = found["letter"] or found["heard"]
    letter = _HEARD.get(raw.lower(), raw.upper())
    start, end = found.start("letter" if found["letter"] else "heard"), found.end()
    said = found["named"] is not None or _SAID_BEFORE.search(plain[clause.start : start]) is not None
    if raw.lower() == "i":
        word = not _ENDS.match(plain, end)
    elif raw == "A" and said:
        word = _begins_another(plain[end:], letter, options)
    elif raw in ("a", "A"):
        word = not _GOES_ON.match(plain, end)
    elif found["heard"]:
        word = not (said and _GOES_ON.match(plain, end)) and plain.strip(" .!?") != raw
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
    before, after = plain[clause.start : start], plain[end:]
    led = _LED.search(before) is not None  # not "Vitamin C is best"
    if _SAID_BEFORE.search(before) or (led and _SAID_AFTER.match(after)):
        return _PLAIN
    own = next(_words(text) for letter, text in options if letter == breath[-1].letter)
    follows = bool(own) and f"{_words(after)} ".startswith(f"{own} ")
    if _bare(start, end, plain, clause) or (
        not re.search(r"\w", before) and (follows or re.match(r"\s*[)\]]", after))
    ):
        return _BARE
    several = led and len(breath) > 1 and not re.search(r"\b[a-z]\b", plain[start:end])
    return _PASSING if several or any(mention.clearly for mention in breath) else _UNSAID


def _bare(start: int, end: int, plain: str, clause: _Clause) -> bool:
    """Return whether nothing but filler stands beside a place, up to the next commas, or to a denial."""
    before = plain[clause.start : start].rpartition(",")[2]
    after = plain[end : clause.end].partition(",")[0]
    denial = _NOT_BEFORE.search(after)
    beside = before + " " + (after[: denial.start()] if denial else after)
    return _FILLER.fullmatch(beside) is not None


def _text_claims(plain: str, clauses: Sequence[_Clause], options: _Options) -> list[_Claim]:
    """Return what is claimed of options by their texts, word for word; one within another gives way."""
    mentions: list[_Mention] = []
    for letter, text in options:
        words = _words(text)
        if words:
            pattern = r"\W+".join(map(re.escape, words.split()))
            for found in re.finditer(rf"(?<!\w)(?<!\w'){pattern}(?!\w|'\w)", plain, re.IGNORECASE):
                clause = _at(found.start(), clauses)
                if words not in _INTERJECTIONS or _interjected(found, plain, clause):
                    mentions.append(_Mention(letter, found.start(), found.end(), True))
    claims = []
    for each in sorted(mentions, key=lambda mention: mention.start):
        within = (
            o.start <= each.start and each.end <= o.end and o.end - o.start > each.end - each.start
            for o in mentions
        )
        if not any(within):
            clause = _at(each.start, clauses)
            claim = _claim([each], plain, clause, _PLAIN)
            none_such = re.search(r"\bno\s+$", plain[clause.start : each.start], re.IGNORECASE)
            claims.append(replace(claim, denied=claim.denied or none_such is not None))
    return claims


def _interjected(found: re.Match[str], plain: str, clause: _Clause) -> bool:
    """Return whether a "yes" or "no" answers: "No, it doesn't", but neither "no one" nor "oh no"."""
    before = plain[clause.start : found.start()]
    if re.search(r"\boh\W*$", before, re.IGNORECASE) and found[0].lower() == "no":
        return False
    leads = _FILLER.fullmatch(before.rpartition(",")[2]) is not None
    follows = _AFTER_INTERJECTION.match(plain, found.end()) is not None
    return follows and (leads or _SAID_BEFORE.search(before) is not None)


def _claim(breath: Sequence[_Mention], plain: str, clause: _Clause, strength: int) -> _Claim:
    """Return what a clause says of the options that it names in one breath."""
    before, after = plain[clause.start : breath[0].start], plain[breath[-1].end :]
    denied = bool(_NOT_BEFORE.search(before) or _NOT_AFTER.match(after))
    asks = plain.startswith("?", clause.end) and _ASKS.match(before)
    if asks or _LEFT_OPEN.search(before):
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
        taken_back |= _TAKES_BACK.match(plain, clause.start, clause.end) is not None
        here = _TAKES_BACK_HERE.match(plain, clause.start, clause.end) is not None
        for claim in by_clause.get(clause, ()):
            if claim.denied:
                chosen = [replace(each, letters=each.letters - claim.letters) for each in chosen]
            elif claim.strength > _UNSAID:
                if taken_back or here:
                    chosen, taken_back, here = [], False, False
                if len(claim.letters) == 1:  # "B or C. Rather B."
                    chosen = [each for each in chosen if not claim.letters < each.letters]
                chosen.append(claim)
    chosen = [each for each in chosen if each.letters]
    plainest = max((each.strength for each in chosen), default=_UNSAID)
    return {letter for each in chosen if each.strength == plainest for letter in each.letters}


def _at(place: int, clauses: Sequence[_Clause]) -> _Clause:
    return clauses[bisect_right(clauses, place, key=lambda clause: clause.start) - 1]


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+(?:'\w+)*", text.casefold().replace("’", "'")))
