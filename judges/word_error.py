"""Compute word error rates of input transcripts (`wer_heard`), spoken replies (`wer_spoken`) and repetitions.

``WER = 100 % * (substitutions + deletions + insertions) / words of the reference``, per utterance as in
EchoMind, lower is better; insertions can push it above 100. The counts are stored with each score to allow
pooling over utterances. jiwer computes two variants:

* ``raw``: the texts in plain typography, split at white space; case and punctuation count as differences;
* ``normalized``: the texts after Whisper's English normaliser (Radford et al. 2022, appendix C), which
  lower-cases, drops punctuation, fillers and bracketed remarks, and unifies contractions and numbers.

In Chinese, characters are counted instead of words, as ``characters``, after NFKC, with numbers in characters
and without punctuation and spaces (`live_eval.judges.text._repetition.normalised`).

A turn is unscored if its reference has no words, before or after normalisation, or if it is in another
language. The bundled recogniser supports only English.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jiwer

from live_eval.errors import JudgeError, UsageError
from live_eval.judges._sound import thread_count, unrateable
from live_eval.judges.text._repetition import is_chinese, normalised
from live_eval.judges.text._reply import unreadable
from live_eval.judges.text._said import what_was_said
from live_eval.judging import JudgedTurn, Judgement, Scored, Unscored
from live_eval.speech.recognition import Recogniser
from live_eval.text.wording import plain_typography, primary_language

__all__ = ["WordErrorHeard", "WordErrorSaidBack", "WordErrorSpoken"]


class WordErrorHeard:
    """Word errors of the vendor's input transcript relative to the script's text.

    The transcript often comes from a separate model: it shows what the vendor's transcriber recognised, not
    what the replying model understood. An empty transcript scores 100 %.
    """

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Count the word errors of each turn's input transcript."""
        return [
            _foreign(turn)
            or _word_errors(turn.case.text or "", turn.heard_text or "", "the script", turn.case.language)
            for turn in batch
        ]


class WordErrorSaidBack:
    """Word errors of a repetition of the script, as in EchoMind's transcription task.

    The text is the reply's transcript or, if missing, the output of an offline recogniser, whose errors are
    then included; ``said`` contains its name. Words around the transcription ("The speaker says: …") count as
    insertions, and refusals and replies in other languages count as errors.
    """

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Count the word errors of each reply."""
        return [_foreign(turn) or self._judge(turn) for turn in batch]

    def _judge(self, turn: JudgedTurn) -> Judgement:
        said = what_was_said(turn)
        if isinstance(said, Unscored):
            return said
        detail = {"said": said.source}
        return _word_errors(turn.case.text or "", said.text, "the script", turn.case.language, detail)


class WordErrorSpoken:
    """Word errors of the reply's audio, recognised offline, relative to the reply's transcript.

    The recogniser's own errors are included, and the score's detail contains its name. Score again after
    changing ``LIVE_EVAL_WHISPER``. Silent replies and replies shorter than 0.5 s are unscored, because
    Whisper hallucinates sentences for them. Replies with an empty transcript or in another language are also
    unscored. A refusal is scored.

    Raises:
        JudgeError: The recogniser or its model is missing.
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
        if unknown := self._recogniser.language_problem(turn.case.language):
            return Unscored(unknown)
        language = primary_language(turn.case.language)
        transcript = self._recogniser.transcribe(turn.reply_at(16_000), words=False, language=language)
        return _word_errors(
            turn.reply_text or "",
            transcript.text,
            "the reply's transcript",
            language,
            {"recognised": transcript.text, "recogniser": self._recogniser.name},
        )


def _foreign(turn: JudgedTurn) -> Unscored | None:
    language = turn.case.language
    if primary_language(language) == "en" or is_chinese(language):
        return None
    return Unscored(f"the case is in {language!r}, and errors are counted in English and Chinese")


def _word_errors(
    reference: str,
    heard: str,
    name: str,
    language: str,
    detail: dict[str, Any] | None = None,
) -> Judgement:
    values: dict[str, float] = {}
    counts: dict[str, Any] = {}
    reference, heard = plain_typography(reference), plain_typography(heard)
    try:
        texts = {"normalized": (normalised(reference, language), normalised(heard, language))}
    except UsageError as error:
        return Unscored(str(error))
    if is_chinese(language):
        wanted, got = texts.pop("normalized")
        texts["characters"] = (" ".join(wanted), " ".join(got))
    else:
        texts = {"raw": (reference, heard), **texts}
    for how, (wanted, got) in texts.items():
        if not wanted.strip():
            return Unscored(f"{name} has no words{'' if how == 'raw' else ' after normalisation'}")
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
