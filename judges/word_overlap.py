"""Compute the word overlap between the reply and the reference reply: BLEU-4 and ROUGE-L, 0 to 100."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nltk.tokenize import NLTKWordTokenizer
from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenizers import DefaultTokenizer

from live_eval.judges.text._reply import incomparable, reply_and_reference
from live_eval.judging import JudgedTurn, Judgement, Scored, Unscored

__all__ = ["Bleu", "RougeL", "word_tokens"]

# Abbreviations in conversation, whose period does not end a sentence; Punkt's trained list would require a
# download.
_ABBREVIATIONS = frozenset(
    ("mr", "mrs", "ms", "dr", "prof", "sr", "jr", "st", "vs", "etc", "e.g", "i.e", "a.m", "p.m", "u.s", "u.k")
)
_PUNKT = PunktParameters()
_PUNKT.abbrev_types = set(_ABBREVIATIONS)
_SENTENCES = PunktSentenceTokenizer(_PUNKT)
_WORDS = NLTKWordTokenizer()


class Bleu:
    """BLEU-4 of one sentence pair, times 100, higher is better (Papineni et al. 2002).

    As in EchoMind, the texts are lower-cased and split into nltk's word tokens. N-grams of 1 to 4 have equal
    weights, with a brevity penalty and smoothing method 1 of Chen and Cherry (2014): an n-gram order without
    a match counts as 0.1.
    """

    def __init__(self) -> None:
        self._smoothing = SmoothingFunction().method1

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Compare each reply's text with the reference reply."""
        return [incomparable(turn) or self._judge(turn) for turn in batch]

    def _judge(self, turn: JudgedTurn) -> Judgement:
        reply, reference = (word_tokens(text.lower()) for text in reply_and_reference(turn))
        bleu = sentence_bleu([reference], reply, smoothing_function=self._smoothing)
        return Scored(
            {"": 100.0 * float(bleu)},
            {"reply_tokens": len(reply), "reference_tokens": len(reference)},
        )


class RougeL:
    """F-measure of the longest common subsequence of words, times 100, higher is better (Lin 2004).

    ``F = 2 P R / (P + R)`` with ``P = LCS / words of the reply`` and ``R = LCS / words of the reference``.
    Tokens are defined as in Google's ``rouge_score``: lower-cased runs of ASCII letters and digits.

    Args:
        stemmer: Whether to compare Porter stems instead of words; not specified by EchoMind.
    """

    def __init__(self, *, stemmer: bool = False) -> None:
        self._scorer = RougeScorer(["rougeL"], tokenizer=DefaultTokenizer(stemmer))

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Compare each reply's text with the reference reply."""
        return [incomparable(turn) or self._judge(turn) for turn in batch]

    def _judge(self, turn: JudgedTurn) -> Judgement:
        reply, reference = reply_and_reference(turn)
        for name, text in (("reply", reply), ("reference reply", reference)):
            if not re.search("[a-z0-9]", text.lower()):
                return Unscored(f"the {name} has no words of ASCII letters or digits")
        found = self._scorer.score(reference, reply)["rougeL"]
        return Scored(
            {"": 100.0 * float(found.fmeasure)},
            {"precision": float(found.precision), "recall": float(found.recall)},
        )


def word_tokens(text: str) -> list[str]:
    """Split text into words like ``nltk.word_tokenize``, but without its downloads.

    Punkt detects sentences with a short abbreviation list instead of trained data. The Treebank rules apply
    within each sentence and separate the period of its last word only.

    >>> word_tokens("oh no. that's it!")
    ['oh', 'no', '.', 'that', "'s", 'it', '!']
    """
    return [token for sentence in _SENTENCES.tokenize(text) for token in _WORDS.tokenize(sentence)]
