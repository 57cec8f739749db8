"""Word error rates of what was heard (`wer_heard`), of what was said (`wer_spoken`), of what was said back.

``WER = 100 % * (substitutions + deletions + insertions) / words of the reference``, per utterance as in
EchoMind, lower is better; insertions can raise it above 100. The counts are stored with each score, so that
errors can be pooled over utterances too. Computed by jiwer, in two ways:

* ``raw``: the texts in plain typography, split at white space: case and punctuation count as differences;
* ``normalized``: after Whisper's English normaliser (Radford et al. 2022, appendix C), which lower-cases,
  drops punctuation, fillers and bracketed remarks, and unifies contractions and numbers.

A turn whose reference has no words, before or after normalisation, is unscored. So is one in another language
than English, which the normaliser (and the bundled recogniser) does not support.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jiwer
from whisper_normalizer.english import EnglishTextNormalizer

from live_eval.errors import JudgeError, UsageError
from live_eval.judges._sound import thread_count, unrateable
from live_eval.judges.text._reply import unreadable
from live_eval.judges.text._said import what_was_said
from live_eval.judging import JudgedTurn, Judgement, Scored, Unscored
from live_eval.speech.recognition import Recogniser
from live_eval.text.wording import plain_typography

__all__ = ["WordErrorHeard", "WordErrorSaidBack", "WordErrorSpoken"]

_NORMALISER = EnglishTextNormalizer()


class WordErrorHeard:
    """Word errors of the vendor's transcript of the input against the script's text.

    The transcript is often made by another model than the one that answers: it shows what the vendor's
    transcriber heard, not what the answering model understood. An empty transcript scores 100 %.
    """

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Count the word errors of each turn's heard text."""
        return [
            _foreign(turn) or _word_errors(turn.case.text or "", turn.heard_text or "", "the script")
            for turn in batch
        ]


class WordErrorSaidBack:
    """Word errors of what an endpoint says back against the script's text: EchoMind's transcription task.

    The text is the reply's transcript, or without one, the output of an offline recogniser, whose errors are
    then included; ``said`` names it. Everything counts: words around the transcription ("The speaker
    says: …") are insertions, a refusal and another language are errors.
    """

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Count the word errors of each reply."""
        return [_foreign(turn) or self._judge(turn) for turn in batch]

    def _judge(self, turn: JudgedTurn) -> Judgement:
        said = what_was_said(turn)
        if isinstance(said, Unscored):
            return said
        detail = {"said": said.source}
        return _word_errors(turn.case.text or "", said.text, "the script", detail)


class WordErrorSpoken:
    """Word errors of the reply's audio, as an offline recogniser hears it, against the reply's transcript.

    The recogniser's own errors are included. The score's detail names it; after a change of
    ``LIVE_EVAL_WHISPER``, score again. Silent replies and those shorter than 0.5 s are unscored, because
    Whisper hallucinates sentences for them. So are those whose transcript is empty or in another language. A
    refusal is scored.

    Raises:
        JudgeError: There is no recogniser or no model for it.
    """

    def __init__(self) -> None:
        try:
            self._recogniser = Recogniser(threads=thread_count())
        except UsageError as error:
            raise JudgeError(str(error)) from error

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Recognise each reply and count the word errors."""
        return [
            _foreign(turn) or unreadable(turn, refusals=True) or unrateable(turn) or self._judge(turn)
            for turn in batch
        ]

    def _judge(self, turn: JudgedTurn) -> Judgement:
        transcript = self._recogniser.transcribe(turn.reply_at(16_000), words=False, language="en")
        return _word_errors(
            turn.reply_text or "",
            transcript.text,
            "the reply's transcript",
            {"recognised": transcript.text, "recogniser": self._recogniser.name},
        )


def _foreign(turn: JudgedTurn) -> Unscored | None:
    language = turn.case.language
    if language.lower().split("-")[0] == "en":
        return None
    return Unscored(f"the case is in {language!r}, and word errors are counted in English")


def _word_errors(
    reference: str,
    heard: str,
    name: str,
    detail: dict[str, Any] | None = None,
) -> Judgement:
    values: dict[str, float] = {}
    counts: dict[str, Any] = {}
    reference, heard = plain_typography(reference), plain_typography(heard)
    for how, wanted, got in (
        ("raw", reference, heard),
        ("normalized", _NORMALISER(reference), _NORMALISER(heard)),
    ):
        if not wanted.strip():
            return Unscored(f"{name} has no words{' after normalisation' if how == 'normalized' else ''}")
        found = jiwer.process_words(wanted, got)
        words = found.hits + found.substitutions + found.deletions
        errors = found.substitutions + found.deletions + found.insertions
        values[how] = 100.0 * errors / words
        counts[how] = {
            "errors": errors,
            "words": words,
            "substitutions": found.substitutions,
            "deletions": found.deletions,
            "insertions": found.insertions,
        }
    return Scored(values, {**(detail or {}), **counts})
