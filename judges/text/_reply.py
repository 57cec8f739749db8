"""Detect replies that cannot be rated: empty, refused or in another language.

Such replies are unscored, not scored low.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from live_eval.judging import JudgedTurn, Unscored
from live_eval.text.wording import plain_typography, primary_language

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

# Another language counts only if it is likely, the expected language is unlikely, and speech models support
# it: py3langid has 140 languages and identifies "so, I, so" as Venetian. Measured: none of 9,000 fragments of
# 1 to 5 words from English replies counts as another language; sentences in 29 other languages are detected
# with probabilities of 0.31 to 1, English below 0.01.
_LIKELY = 0.3
_UNLIKELY = 0.01
_SPOKEN = frozenset(
    (
        *("af", "ar", "ary", "arz", "az", "bg", "bn", "bs", "ca", "cs", "da", "de", "el", "en", "es", "et"),
        *("eu", "fa", "fi", "fr", "ga", "gl", "gu", "he", "hi", "hr", "hu", "hy", "id", "is", "it", "ja"),
        *("ka", "kk", "km", "kn", "ko", "lt", "lv", "mk", "ml", "mn", "mr", "ms", "my", "ne", "nl", "nn"),
        *("no", "pa", "pl", "ps", "pt", "ro", "ru", "si", "sk", "sl", "sq", "sr", "sv", "sw", "ta", "te"),
        *("th", "tl", "tr", "uk", "ur", "uz", "vi", "wuu", "yue", "zh", "zu"),
    )
)
# Groups of similarly spelled languages, which the detector confuses.
_ALIKE = (
    frozenset({"en", "sco", "pcm"}),
    frozenset({"no", "nb", "nn", "da"}),
    frozenset({"bs", "hr", "sr"}),
    frozenset({"id", "ms"}),
)
_TEXTS_KEPT = 4096  # cached, since several judges check the same reply

# Refusals by assistants. "I can't" also begins sympathy ("I can't help but smile", "I can't give you a hug",
# "I can't hear you over the wind"). The refused action must therefore follow directly, in assistants' usual
# words; the plainest verbs also require a preceding apology.
_UNABLE = r"I(?: am|'m) (?:unable|not able) to"
_CANNOT = (
    rf"\b(?:I can(?:no|')?t|I can not|{_UNABLE}|I (?:won't|will not|wouldn't|would not) be able to)"
    r"(?: (?:really|actually|directly|currently|personally))?"
)
_SORRY = r"\b(?:sorry|apologi[sz]e|apologies|unfortunately|afraid)\b"
_END = r" ?(?:[.!;]|$)"
_WHICH = r"(?:that|this|these|those|such|any|your|the)"
_MATTER = (
    r"(?:requests?|questions?|quer(?:y|ies)|topics?|subjects?|information|content|material|assistance|tasks?|"
    r"conversation|discussion|determinations?|guess(?:es)?|judge?ments?)\b"
)
_SOUND = r"(?:audio|sounds?|voices?|recordings?)\b"
_PERSON = r"(?:the speaker|someone|somebody|anyone|anybody|a person|people|individuals?|speakers?)"
_LISTEN = r"(?:hear|listen|process|perceive|detect|identify|recogni[sz]e|analy[sz]e|interpret|access)"
_TELL = r"(?:identify|determine|recogni[sz]e|infer|detect|assess)"
_REFUSED = (
    # refusing to help
    rf"{_CANNOT} (?:help|assist)(?: you)?(?: out)?"
    rf"(?: with (?:{_WHICH} {_MATTER}|(?:that|this|it|these|those|identifying|determining)\b)|{_END})",
    r"\b(?:not|n't) something (?:that )?I(?: can|(?: am|'m) able to) "
    r"(?:(?:help|assist)(?: you)? with|discuss|do|answer|talk about)\b",
    rf"\bsomething (?:that )?{_CANNOT} (?:help|assist)\b",
    rf"{_CANNOT} provide (?:you with )?the help (?:that )?you need\b",
    # refusing the request itself
    rf"{_CANNOT} (?:comply|fulfil{{1,2}}|accommodate|engage|process|complete|continue|provide|share|give|"
    r"offer|generate|create|discuss|answer|respond|support|perform|make)(?: you)?(?: with| in| to)?"
    rf"(?: {_WHICH})?(?: [\w-]+)?(?: (?:kind|type|sort) of)? {_MATTER}",
    rf"{_CANNOT} (?:comply|engage|comment)(?: with| in| on)?(?: that| this)?{_END}",
    rf"{_SORRY}[^!?]{{0,60}}{_CANNOT} (?:do|discuss|answer|share|say|respond to|talk about|continue|support)"
    rf"(?: that| this| it)?(?: for you| here| right now)?{_END}",
    rf"\b{_UNABLE} (?:do|discuss|answer|share|respond to|talk about|support) (?:that|this){_END}",
    rf"{_CANNOT} provide (?:you with )?(?:any |specific )?(?:medical|legal|financial) advice\b(?!,? but)",
    # hearing, or identifying a speaker or an emotion by voice
    rf"{_CANNOT} {_LISTEN}(?: to)?(?: an?| any| the| your)? (?:audio|sounds|voices|recordings?)\b",
    rf"{_CANNOT} {_TELL}\b[^.!?]*\b(?:by|from|based on)\b[^.!?]*\b{_SOUND}",
    rf"{_CANNOT} {_TELL} (?:{_PERSON}|who(?: is|'s) (?:speaking|talking))\b",
    rf"{_CANNOT} (?:{_TELL}|tell) (?:{_PERSON}'s|people's|your) (?:identity|age|gender)\b",
    rf"\bI (?:do not|don't) have (?:the|an) (?:ability|capability|capacity) to {_LISTEN}\b",
    rf"\bI (?:do not|don't) have access to (?:the |your |any )?{_SOUND}",
    # referring to being an AI
    r"\b(?:as|I(?: am|'m)(?: just| only| merely)?) an? (?:[\w-]+ )?(?:AI|language model)\b[^.!?]*\b"
    r"(?:can(?:no|')?t|unable to|not able to|(?:ability|capability) to) "
    rf"(?:{_LISTEN}|help|assist|provide|answer|discuss)\b",
    # referring to rules
    r"\bagainst my (?:guidelines|polic(?:y|ies)|programming)\b",
    r"\bviolates? (?:my|our|the)(?: usage| content)? (?:guidelines|polic(?:y|ies))\b",
    r"\bI(?: must|(?:'ll| will)? have to| need to)(?: respectfully| politely)? decline "
    rf"(?:to (?:answer|discuss|help|assist|engage|respond|provide)|{_WHICH} {_MATTER})",
    r"\bI(?:'d| would) (?:rather not|prefer not to) (?:discuss|talk about|answer|continue) "
    rf"{_WHICH} {_MATTER}",
    r"\bI(?: am|'m) not (?:comfortable (?:discussing|answering|sharing|providing)|"
    r"(?:allowed|permitted|programmed|designed) to (?:do|discuss|talk about|answer|share|provide|help))"
    rf"(?: (?:that|this){_END}|(?: with)? {_WHICH} {_MATTER})",
)
_REFUSAL = re.compile("|".join(_REFUSED), re.IGNORECASE)
_LONGEST_REFUSAL_WORDS = 60


def incomparable(turn: JudgedTurn) -> Unscored | None:
    """Return why a reply cannot be compared with the reference reply, or None if it can."""
    if not re.search(r"\w", turn.case.reference_text or ""):
        return Unscored("the reference reply has no words")
    return unreadable(turn)


def unreadable(turn: JudgedTurn, *, refusals: bool = False) -> Unscored | None:
    """Return why a reply's text cannot be rated, or None if it can; `refusals` allows refusals."""
    text = turn.reply_text or ""
    if not re.search(r"\w", text):
        return Unscored("the reply is empty")
    if not refusals and refused(text):
        return Unscored("the reply is a refusal")
    language = other_language(text, turn.case.language)
    if language is not None:
        return Unscored(f"the reply is in another language ({language}, expected {turn.case.language})")
    return None


def reply_and_reference(turn: JudgedTurn) -> tuple[str, str]:
    """Return the texts of the reply and the reference reply in plain typography."""
    return plain_typography(turn.reply_text or ""), plain_typography(turn.case.reference_text or "")


def refused(text: str) -> bool:
    """Return whether a reply declines to answer, in English.

    Only an assistant's statement about itself in a short reply counts; a reply that declines a part and
    continues at length is not a refusal.

    >>> refused("I'm sorry, but I can't assist with that.")
    True
    >>> refused("I'm sorry, I can't imagine how hard that must be.")
    False
    """
    words = text.replace("’", "'").split()
    return len(words) <= _LONGEST_REFUSAL_WORDS and _REFUSAL.search(" ".join(words)) is not None


@lru_cache(maxsize=_TEXTS_KEPT)
def other_language(text: str, expected: str) -> str | None:
    """Return the language of a text if it clearly differs from the expected language, or None.

    Args:
        text: The text; for one or two words, only the writing system is checked.
        expected: Expected language, a BCP 47 tag.
    """
    wanted = primary_language(expected)
    alike = next((group for group in _ALIKE if wanted in group), {wanted})
    identifier = _identifier()
    if wanted not in identifier.labels:
        return None
    ranked = {language: float(share) for language, share in identifier.rank(text)}
    language = max(ranked, key=ranked.__getitem__)
    if language in alike or language not in _SPOKEN or ranked[language] < _LIKELY:
        return None
    return language if max(ranked.get(each, 0.0) for each in alike) < _UNLIKELY else None


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
