"""Measure the reply's pitch, level, pace and pauses, also relative to the speaker's.

The measures describe the voice, not the emotion that it expresses, and have no preferred direction. SwiftF0
(Nieradzik, 2025; MIT, weights in the package) estimates pitch, and ITU-T P.56 defines the level.
``docs/reference/prosody.md`` defines all values.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import numpy as np

from live_eval.errors import JudgeError
from live_eval.judges._prosody import RATE_HZ, ProsodyMeasures, measure
from live_eval.judges._sound import RecordingCache, thread_count, unrateable
from live_eval.judges.text._reply import other_language
from live_eval.judges.text._syllables import syllables
from live_eval.judging import JudgedTurn, Judgement, Need, Scored, Unscored, missing
from live_eval.text.wording import primary_language

__all__ = ["Prosody", "syllable_rate"]

_KEPT_SPEAKERS = 4096
# Any other rate is implausible: the text cannot be a transcript of the recording.
_SLOWEST, _FASTEST = 1.0, 10.0


class Prosody:
    """Measure the prosody of each reply, and once of each speaker's recording.

    Args:
        workers: Number of worker threads; None for one per core, at most 16. Each runs the network on a
            single thread.

    Raises:
        JudgeError: The network cannot be loaded.
    """

    def __init__(self, *, workers: int | None = None) -> None:
        try:
            from swift_f0 import SwiftF0

            self._detector = SwiftF0(threads=1, spin=False)
        except Exception as error:  # onnxruntime's exceptions have no common base
            raise JudgeError(f"cannot load the network of the package swift-f0: {error}") from error
        self._workers = workers or thread_count()
        self._speakers: RecordingCache[ProsodyMeasures | None] = RecordingCache(_KEPT_SPEAKERS)

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Measure the prosody of each reply and of its speaker."""
        with ThreadPoolExecutor(self._workers, thread_name_prefix="prosody") as pool:
            return list(pool.map(self._judge, batch))

    def _judge(self, turn: JudgedTurn) -> Judgement:
        problem = unrateable(turn)
        if problem is not None:
            return problem
        reply = measure(turn.reply_at(RATE_HZ), self._detector)
        if reply is None:
            return Unscored("the reply is silent: nothing above 50 Hz")
        reply_rate = syllable_rate(turn.reply_text, reply)
        if other_language(turn.reply_text or "", "en") is not None:
            reply_rate = None  # the syllable rules apply only to English
        values = {
            "pitch_hz": reply.pitch_hz,
            "pitch_range": reply.pitch_range_st,
            "declination": reply.declination_st_s,
            "pitch_end": reply.pitch_end_st,
            "level": reply.level_dbfs,
            "level_range": reply.level_range_db,
            "rate": reply_rate,
            "pauses": reply.pause_percent,
            "pause_s": reply.pause_s,
        }
        detail: dict[str, Any] = {"reply": asdict(reply) | {"syllables_per_s": reply_rate}}
        speaker = self._speaker(turn)
        if isinstance(speaker, ProsodyMeasures):
            english = primary_language(turn.case.language) == "en"
            rate = syllable_rate(turn.case.text, speaker) if english else None
            detail["speaker"] = asdict(speaker) | {"syllables_per_s": rate}
            # Without pauses, the level would include background noise.
            level = speaker.level_dbfs if speaker.speech_s is not None else None
            values |= {
                "pitch_range_step": _step(reply.pitch_range_st, speaker.pitch_range_st),
                "level_step": _step(reply.level_dbfs, level),
                "rate_step": _step(reply_rate, rate),
                "pauses_step": _step(reply.pause_percent, speaker.pause_percent),
            }
        elif speaker is not None:
            detail["speaker"] = speaker
        return Scored({name: value for name, value in values.items() if value is not None}, detail)

    def _speaker(self, turn: JudgedTurn) -> ProsodyMeasures | str | None:
        """Return the measures of the user's audio, the reason why they are missing, or None without audio."""
        if missing(turn, frozenset({Need.SPEAKER_AUDIO})) is not None:
            return None
        assert turn.speaker is not None
        if not np.isfinite(turn.speaker.samples).all():
            return "samples that are not finite"
        found = self._speakers.get(turn.speaker, lambda: measure(turn.speaker_at(RATE_HZ), self._detector))
        return found or "silent"


def syllable_rate(text: str | None, measures: ProsodyMeasures) -> float | None:
    """Return the syllables of the text per second of speech, without pauses.

    None if the syllables cannot be counted, if speech cannot be separated from background noise, or if the
    rate is implausible because the text is not a transcript of the recording.
    """
    count = syllables(text or "")
    if count is None or not measures.speech_s:
        return None
    rate = count / measures.speech_s
    return rate if _SLOWEST <= rate <= _FASTEST else None


def _step(reply: float | None, speaker: float | None) -> float | None:
    return None if reply is None or speaker is None else reply - speaker
