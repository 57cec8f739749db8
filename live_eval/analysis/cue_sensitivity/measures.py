"""Measure the distance between replies by words, delivery or scores."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from live_eval.analysis.leaderboard_columns import leaderboard_columns
from live_eval.judging import JudgeRole
from live_eval.recording import ScoreRow
from live_eval.registry import judges_with
from live_eval.text.wording import plain_typography

__all__ = ["COMPONENTS", "Embedder", "Measure", "Reply", "compared_judges", "read_measures", "words_of"]


class Embedder(Protocol):
    """A sentence embedding model, which maps similar meanings to similar vectors."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a vector of unit length for each text, shape (texts, dimensions)."""
        ...


@dataclass(frozen=True, slots=True)
class Reply:
    """A captured reply to a conversation.

    Args:
        source: Source of the recording; different sources have different speakers.
        variant: Speaking style of the recording.
        attribute: Cue that the script was written for, or None.
        text: Transcript of the reply, or None.
        heard: The endpoint's transcript of the user, or None.
        instructions: System prompt of the session; empty for none.
    """

    turn_id: str
    script_id: str
    source: str
    variant: str
    attribute: str | None = None
    text: str | None = None
    heard: str | None = None
    instructions: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """A distance between two replies.

    Args:
        distance: Function that maps two reply indices to a distance: 0 for equal replies, never negative.
        measurable: Indices of the measurable replies.
        needs: Required reply data, and the number of replies that have it.
    """

    name: str
    title: str
    distance: Callable[[int, int], float]
    measurable: frozenset[int]
    needs: Mapping[str, int]


COMPONENTS = frozenset({"meaning", "words", JudgeRole.PROSODY.value})
"""The components of the overall measure: words and delivery, without ratings."""

_TEXT = "a text"
_PITCH = "pitch_hz"
_FEATURES = (_PITCH, "pitch_range", "level", "rate", "pauses")


def compared_judges() -> frozenset[str]:
    """Return the judges whose scores `read_measures` reads."""
    rated = (score for column in leaderboard_columns() if column.picks_prompt for score in column.scores)
    roles = (JudgeRole.PROSODY, JudgeRole.EMOTION)
    return frozenset(score.partition(".")[0] for score in rated).union(*map(judges_with, roles))


def read_measures(
    replies: Sequence[Reply], rows: Mapping[tuple[str, str], ScoreRow], embedder: Embedder | None
) -> list[Measure]:
    """Return the measures that can be computed from the replies and their scores (by judge and turn)."""
    measures = [_meaning(replies, embedder) if embedder is not None else _words(replies)]

    judges = {judge for judge, _ in rows}

    def scored_by(names: Iterable[str]) -> tuple[str, dict[int, ScoreRow]]:
        """Return the first judge with scores of the replies, and these scores by reply index."""
        judge = next((name for name in names if name in judges), "")
        return judge, {
            place: row
            for place, reply in enumerate(replies)
            if (row := rows.get((judge, reply.turn_id))) is not None
        }

    judge, found = scored_by(judges_with(JudgeRole.PROSODY))
    # The pace needs a text, which some endpoints never send.
    names = [name for name in _FEATURES if any(name in row.values for row in found.values())]
    if features := {
        place: [float(row.values[name]) for name in names]
        for place, row in found.items()
        if all(name in row.values for name in names)
    }:
        measures.append(_prosody(judge, names, features))
    judge, found = scored_by(judges_with(JudgeRole.EMOTION))
    if emotions := {
        place: side
        for place, row in found.items()
        if isinstance(side := (row.detail.get("reply") or {}).get("probabilities"), Mapping)
    }:
        measures.append(_emotion(judge, emotions))
    for column in leaderboard_columns():
        if column.picks_prompt:
            outputs = dict(score.partition(".")[::2] for score in column.scores)
            judge, found = scored_by(outputs)
            output = outputs.get(judge, "")
            if values := {place: row.values[output] for place, row in found.items() if output in row.values}:
                measures.append(_difference(column.title, judge, values))
    return measures


def _measure(
    name: str, title: str, needs: str, places: Iterable[int], distance: Callable[[int, int], float]
) -> Measure:
    measurable = frozenset(places)
    return Measure(name, title, distance, measurable, {needs: len(measurable)})


def _meaning(replies: Sequence[Reply], embedder: Embedder) -> Measure:
    said = {place: reply.text for place, reply in enumerate(replies) if reply.text is not None}
    numbers = {text: number for number, text in enumerate(dict.fromkeys(said.values()))}
    vectors = embedder.embed(list(numbers)).astype(np.float64) if numbers else np.zeros((0, 1))

    def distance(one: int, other: int) -> float:
        first, second = numbers[said[one]], numbers[said[other]]
        return 0.0 if first == second else max(0.0, 1.0 - float(vectors[first] @ vectors[second]))

    return _measure("meaning", "cosine distance of sentence embeddings", _TEXT, said, distance)


def _words(replies: Sequence[Reply]) -> Measure:
    words = {place: words_of(reply.text) for place, reply in enumerate(replies) if reply.text is not None}

    def distance(one: int, other: int) -> float:
        return float(Levenshtein.normalized_distance(words[one], words[other]))

    return _measure("words", "edit distance in words over the longer text's length", _TEXT, words, distance)


def _prosody(judge: str, names: Sequence[str], features: Mapping[int, Sequence[float]]) -> Measure:
    table = np.asarray(list(features.values()), np.float64)
    if _PITCH in names:  # in semitones, a perceptual scale
        pitch = names.index(_PITCH)
        table[:, pitch] = 12 * np.log2(np.maximum(table[:, pitch], 1.0))
    spread = table.std(axis=0)
    table = (table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    rows = dict(zip(features, table.tolist(), strict=True))

    def distance(one: int, other: int) -> float:
        return math.dist(rows[one], rows[other])

    title = f"distance of {', '.join(names)}, each divided by its spread over the run"
    return _measure(JudgeRole.PROSODY.value, title, f"scores of {judge}", rows, distance)


def _emotion(judge: str, sides: Mapping[int, Mapping[str, float]]) -> Measure:
    def distance(one: int, other: int) -> float:
        first, second = sides[one], sides[other]
        return 0.5 * sum(abs(first.get(name, 0.0) - second.get(name, 0.0)) for name in {*first, *second})

    title = "total variation of the voice's emotions"
    return _measure(JudgeRole.EMOTION.value, title, f"scores of {judge}", sides, distance)


def _difference(title: str, judge: str, values: Mapping[int, float]) -> Measure:
    def distance(one: int, other: int) -> float:
        return abs(values[one] - values[other])

    return _measure(title.lower(), f"difference of {title}", f"scores of {judge}", values, distance)


def words_of(text: str) -> list[str]:
    """Return the words of a text, interned, in lower case, without punctuation."""
    return [sys.intern(word) for word in re.findall(r"[\w']+", plain_typography(text).casefold())]
