"""Compare the emotion of the reply's voice with a reference, using the classifier emotion2vec+ large.

Sources: EchoMind (arXiv 2510.22758) for the metric; Ma et al., "emotion2vec" (ACL Findings 2024) for the
classifier, as run by the package ``funasr``. EchoMind publishes neither the source of its reference emotion
nor its label mapping; its values are consistent with a match rate from 0 to 100. Here the reference is an
option: the voice of the benchmark's own reply, a table by vocal cue (``docs/reference/emotion.md``), or the
user's own voice.

With p(c) the reply's probabilities and q(c) the reference reply's, over the classes c:

- ``top1``: 100 if argmax p is the reference's emotion (argmax q, or any that the table accepts), else 0;
- ``mass``: 100 times the sum of p over the reference's emotions;
- ``cosine``: p·q / (|p| |q|) over the seven emotions; omitted with the table, which has no q.

Higher is better. The classes ``other`` and ``unk`` are not emotions: a turn with such a reference is
unscored, and such a reply matches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from live_eval.errors import JudgeError
from live_eval.judges._emotions import EMOTIONS, FITTING
from live_eval.judges._sound import RecordingCache, unrateable, unusable
from live_eval.judges.networks._emotion2vec import RATE_HZ, Emotion2vec
from live_eval.judges.networks._torch import torch_device
from live_eval.judges.specs.sound import EMOTION2VEC_WEIGHTS
from live_eval.judging import Failed, JudgedTurn, Judgement, Scored, Unscored
from live_eval.types import Cue
from live_eval.weights import chosen_weights

__all__ = ["LOW_CONFIDENCE", "EmoAlign"]

LOW_CONFIDENCE = 0.5
"""Below this confidence, the other classes together are more likely than the best one."""

# Replies to the same script share its reference reply.
_MOST_REFERENCES = 8192

Probabilities: TypeAlias = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Reference:
    """The emotions that a reply should match, and their probabilities if the reference is a voice."""

    emotions: frozenset[str]
    probabilities: Probabilities | None
    detail: Mapping[str, Any]


class EmoAlign:
    """Agreement of the reply's vocal emotion with the reference: ``top1``, ``mass``, ``cosine``.

    A turn is unscored if the reply or reference reply is silent or shorter than 0.5 s, if there is no
    reference, or if the reference has no emotion. The detail contains both probability distributions, and
    ``low_confidence`` if the highest probability in either is below 0.5. Recordings longer than 60 s are
    classified in windows of equal length, whose probabilities are averaged.

    Args:
        reference: Source of the reference: ``audio`` for the voice of the case's reference reply, ``cue`` for
            the table by cue, ``speaker`` for the user's voice.
        weights: Name of published weights, or the folder of a funasr model.
        device: Torch device, ``cpu`` or ``cuda``.

    Raises:
        JudgeError: The package, the weights or the device is missing, or the weights belong to another
            network.
    """

    def __init__(
        self, *, reference: str = "audio", weights: str = EMOTION2VEC_WEIGHTS.name, device: str = "cpu"
    ) -> None:
        where = torch_device(device)
        found = chosen_weights(weights, EMOTION2VEC_WEIGHTS, any_hash=True)
        self._source = reference
        self._sha256 = found.sha256
        self._model = Emotion2vec(found.path, where)
        unknown = set(EMOTIONS) - set(self._model.labels)
        if unknown:
            raise JudgeError(
                f"{found.path}: expected a model with the classes {', '.join(EMOTIONS)}; "
                f"missing: {', '.join(sorted(unknown))}"
            )
        self._references: RecordingCache[Probabilities] = RecordingCache(_MOST_REFERENCES)

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Judge each reply."""
        return [unrateable(turn) or self._judge(turn) for turn in batch]

    def _judge(self, turn: JudgedTurn) -> Judgement:
        reference = self._reference(turn)
        if not isinstance(reference, _Reference):
            return reference
        reply = self._model.probabilities(turn.reply_at(RATE_HZ).samples)
        emotion = _top(reply)
        values = {
            "top1": 100.0 if emotion in reference.emotions else 0.0,
            "mass": min(100.0, 100 * sum(reply[name] for name in reference.emotions)),
        }
        if reference.probabilities is not None:
            cosine = _cosine(reply, reference.probabilities)
            if cosine is not None:
                values["cosine"] = cosine
        sides = [reply] if reference.probabilities is None else [reply, reference.probabilities]
        speaker = {"speaker": _side(sides[1])} if self._source == "speaker" else {}
        return Scored(
            values,
            {
                "reply": _side(reply),
                "reference": reference.detail,
                **speaker,
                "low_confidence": any(max(side.values()) < LOW_CONFIDENCE for side in sides),
                "sha256": self._sha256,
            },
        )

    def _reference(self, turn: JudgedTurn) -> _Reference | Unscored | Failed:
        if self._source == "cue":
            return _of_cue(turn.case.cue)
        if self._source == "speaker":
            return unusable(turn.speaker, "speaker", "the user's speech") or _of_voice(
                self._model.probabilities(turn.speaker_at(RATE_HZ).samples), "speaker", "the user's voice"
            )
        return unusable(turn.reference, "reference", "the reference reply") or _of_voice(
            self._reference_voice(turn)
        )

    def _reference_voice(self, turn: JudgedTurn) -> Probabilities:
        """Return the probabilities of the reference reply, classified once for all turns."""
        assert turn.reference is not None  # a missing recording is unusable
        return self._references.get(
            turn.reference, lambda: self._model.probabilities(turn.reference_at(RATE_HZ).samples)
        )


def _of_voice(
    probabilities: Probabilities, source: str = "audio", voice: str = "the reference reply's voice"
) -> _Reference | Unscored:
    emotion = _top(probabilities)
    if emotion not in EMOTIONS:
        return Unscored(f"{voice} has no emotion that the classifier can name")
    return _Reference(frozenset({emotion}), probabilities, {"source": source, **_side(probabilities)})


def _of_cue(cue: Cue | None) -> _Reference | Unscored:
    if cue is None:
        return Unscored("no cue")
    fitting = FITTING.get(cue.attribute or "")
    if fitting is None:
        return Unscored("the cue is not in the table of fitting emotions")
    if not fitting.emotions:
        return Unscored("the cue alone does not determine the fitting emotion")
    detail = {"source": "cue", "cue": cue.attribute, "emotions": sorted(fitting.emotions)}
    return _Reference(fitting.emotions, None, detail)


def _top(probabilities: Probabilities) -> str:
    return max(probabilities, key=probabilities.__getitem__)


def _side(probabilities: Probabilities) -> dict[str, Any]:
    emotion = _top(probabilities)
    return {"emotion": emotion, "confidence": probabilities[emotion], "probabilities": dict(probabilities)}


def _cosine(reply: Probabilities, reference: Probabilities) -> float | None:
    """Return the cosine over the seven emotions, or None if either side has a zero probability for all of
    them.
    """
    ours, theirs = (np.array([side[name] for name in EMOTIONS]) for side in (reply, reference))
    lengths = float(np.linalg.norm(ours) * np.linalg.norm(theirs))
    return min(1.0, float(ours @ theirs) / lengths) if lengths > 0 else None
