"""Replies that are none: empty, refused, in another language. They are counted as such, not scored low."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from live_eval.judging import JudgedTurn, Unscored

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

__all__ = ["other_language", "refused", "unreadable"]

# Another language is believed only where it is likely and the expected one is not. Measured on English
# replies, "Oh no!" and the like among them, whose wrong guesses reach 0.2 with English above 0.01; and on
# sentences in 15 other languages, which are told with 0.31 to 1 and English below 0.005.
_LIKELY = 0.3
_UNLIKELY = 0.01
# Languages whose models listen to English by another name.
_ALIKE = {"en": {"en", "sco", "pcm"}}

# What an assistant says who will not or cannot do what was asked. Each names the helping, hearing or
# identifying that is refused, so that sympathy ("I can't imagine how hard that is") is none.
_CANNOT = r"(?:can(?:no|['’]|\s+no)?t|(?:\s+am|['’]m)\s+(?:unable|not\s+able)\s+to|won['’]t|will\s+not)"
_REFUSED = (
    rf"\bI\s*{_CANNOT}\s+(?:be\s+able\s+to\s+)?(?:help|assist|continue|comply|engage|provide|discuss|answer|"
    r"respond|do|fulfil+|support|create|generate|share|give)\b"
    r"(?=[^.!?]*\b(?:with|that|this|it|you|your|such|any|request|information|advice)\b)",
    rf"\bI\s*{_CANNOT}\s+(?:directly\s+|actually\s+)?(?:listen|hear|process|analy[sz]e|access|identify|determine|"
    r"recogni[sz]e|infer)\b(?=[^.!?]*\b(?:audio|voice|voices|speaker|recording|recordings|sound|sounds|people|identity|gender|age)\b)",
    r"\bI\s+(?:do\s+not|don['’]t)\s+have\s+the\s+(?:ability|capability)\b",
    r"\bas\s+an\s+AI\b[^.!?]*\b(?:can(?:no|['’])?t|unable|not\s+able|do\s+not|don['’]t)\b",
    r"\b(?:against|violates?)\s+(?:my|our|the)\s+(?:guidelines|policy|policies)\b",
)
_REFUSAL = re.compile("|".join(_REFUSED), re.IGNORECASE)
_LONGEST_REFUSAL_WORDS = 60


def unreadable(turn: JudgedTurn) -> Unscored | None:
    """Return why the words of a turn's reply are not to be rated, or None where they are."""
    text = turn.reply_text or ""
    if not re.search(r"\w", text):
        return Unscored("the reply is empty")
    if refused(text):
        return Unscored("the reply is a refusal")
    language = other_language(text, turn.case.language)
    if language is not None:
        return Unscored(f"the reply is in another language ({language}, expected {turn.case.language})")
    return None


def refused(text: str) -> bool:
    """Return whether a reply declines to answer, in English.

    Only what an assistant says of itself counts, in a short reply; one that declines a part and goes on
    at length is a reply.

    >>> refused("I'm sorry, but I can't assist with that.")
    True
    >>> refused("I'm sorry, I can't imagine how hard that must be.")
    False
    """
    return len(text.split()) <= _LONGEST_REFUSAL_WORDS and _REFUSAL.search(text) is not None


def other_language(text: str, expected: str) -> str | None:
    """Return the language of a text where it is surely not the expected one, else None.

    Args:
        text: The text; of a word or two, only the script tells.
        expected: BCP 47 tag.
    """
    wanted = expected.lower().split("-")[0]
    alike = _ALIKE.get(wanted, {wanted})
    identifier = _identifier()
    if wanted not in identifier.labels:
        return None
    ranked = {language: float(share) for language, share in identifier.rank(text)}
    language = max(ranked, key=ranked.__getitem__)
    if language in alike or ranked[language] < _LIKELY:
        return None
    return language if max(ranked.get(each, 0.0) for each in alike) < _UNLIKELY else None


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
