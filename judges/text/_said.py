"""Get the words of a reply: the endpoint's own transcript, or the output of an offline recogniser."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from live_eval.errors import UsageError
from live_eval.judges._sound import thread_count, unrateable
from live_eval.judging import Failed, JudgedTurn, Unscored
from live_eval.text.wording import primary_language

if TYPE_CHECKING:
    from live_eval.speech.recognition import Recogniser


@dataclass(frozen=True, slots=True)
class SaidWords:
    """The words of a reply and their source: ``transcript`` or the name of a recogniser."""

    text: str
    source: str


def what_was_said(turn: JudgedTurn) -> SaidWords | Unscored:
    """Return the words of a turn's reply, or the reason why they are missing."""
    if (turn.reply_text or "").strip():
        return SaidWords(turn.reply_text or "", "transcript")
    problem = unrateable(turn)
    if problem is not None:
        reason = problem.reason if isinstance(problem, Failed) else "no words"
        return Unscored(f"the reply has neither a transcript nor speech: {reason}")
    recogniser = _recogniser()
    if isinstance(recogniser, str):
        return Unscored(f"the reply has no transcript, and no recogniser is available: {recogniser}")
    if unknown := recogniser.language_problem(turn.case.language):
        return Unscored(f"the reply has no transcript, and {unknown}")
    language = primary_language(turn.case.language)
    heard = recogniser.transcribe(turn.reply_at(16_000), words=False, language=language)
    return SaidWords(heard.text, recogniser.name)


def says_nothing(turn: JudgedTurn) -> bool:
    """Return whether a turn's recorded reply has neither text nor audible audio."""
    silent = turn.reply is not None and isinstance(unrateable(turn), Unscored)
    return silent and not (turn.reply_text or "").strip()


@cache
def _recogniser() -> Recogniser | str:
    """Return the recogniser, or the reason why it is unavailable."""
    from live_eval.speech.recognition import Recogniser

    try:
        return Recogniser(threads=thread_count())
    except UsageError as error:
        return str(error)
