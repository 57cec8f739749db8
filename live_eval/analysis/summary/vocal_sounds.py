"""Measure latencies of turns whose cue is a vocal sound (a sigh, breath or sob), from two ends of speech.

In such a turn, the sound often follows the last word, so it is unclear when a listener would begin to answer.
Two latencies are therefore reported: from the last word and from the last sound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from live_eval.analysis.summary.latencies import (
    LATENCY_DEFINITIONS,
    LATENCY_TITLES,
    LatencySummary,
    summarise_values,
)
from live_eval.analysis.summary.observations import Observation
from live_eval.data import VOCAL_SOUNDS
from live_eval.judging import TURN_FAILED
from live_eval.timing import Latency
from live_eval.types import Case, SpeechBoundaries

__all__ = [
    "DEFINITIONS_OF_A_TURN",
    "FROM_LAST_SOUND",
    "TITLES_OF_A_TURN",
    "VOCAL_SOUND_TITLES",
    "has_vocal_sound",
    "summarise_vocal_sounds",
    "vocal_sound_latencies",
    "vocal_sound_milliseconds",
]

FROM_LAST_SOUND = "voice_to_voice_from_last_sound"
"""The name of the latency from the last sound."""
VOCAL_SOUND_TITLES: Mapping[str, str] = MappingProxyType(
    {
        "voice_to_voice_from_last_word": "voice to voice from last word",
        FROM_LAST_SOUND: "voice to voice from last sound",
    }
)
TITLES_OF_A_TURN: Mapping[str, str] = MappingProxyType({**LATENCY_TITLES, **VOCAL_SOUND_TITLES})
"""The titles of all latencies, for every page, table and sentence."""
_OF_SOUNDS = "of turns whose cue is a sound of the speaker (sigh, breath, sob …):"
DEFINITIONS_OF_A_TURN: Mapping[str, str] = MappingProxyType(
    {
        **LATENCY_DEFINITIONS,
        "voice_to_voice_from_last_word": f"{_OF_SOUNDS} from the end of the last word to the first audible "
        "sample of the reply, also if the end of speech is uncertain",
        FROM_LAST_SOUND: f"{_OF_SOUNDS} voice to voice, also if the end of speech is uncertain",
    }
)
"""The definitions of the same latencies."""

_NO_WORD = "the end of the last word is unknown"
_NO_SOUND = "the cue is no sound of the speaker"


def has_vocal_sound(turn: Observation | Case) -> bool:
    """Return whether the turn's cue is a vocal sound."""
    return turn.cue is not None and turn.cue.attribute in VOCAL_SOUNDS


def vocal_sound_latencies(
    case: Case, boundaries: SpeechBoundaries | None, voice_to_voice: Latency
) -> dict[str, Latency]:
    """Return both latencies of a turn by name; without a vocal sound, they are missing with a reason."""
    if not has_vocal_sound(case):
        return dict.fromkeys(VOCAL_SOUND_TITLES, Latency(None, _NO_SOUND))
    word = voice_to_voice
    if voice_to_voice.ns is not None:
        after_word_ns = _after_last_word_ns(boundaries)
        word = (
            Latency(None, _NO_WORD)
            if after_word_ns is None
            else Latency(voice_to_voice.ns + after_word_ns, voice_to_voice.reason)
        )
    return dict(zip(VOCAL_SOUND_TITLES, (word, voice_to_voice), strict=True))


def summarise_vocal_sounds(turns: Sequence[Observation]) -> dict[str, LatencySummary]:
    """Summarise both latencies by name over the turns whose cue is a vocal sound; empty if there are none."""
    concerned = [turn for turn in turns if has_vocal_sound(turn)]
    if not concerned:
        return {}
    return {name: _summary(name, concerned) for name in VOCAL_SOUND_TITLES}


def vocal_sound_milliseconds(turn: Observation, name: str) -> float | None:
    """Return one of the two latencies of a turn by name, or None."""
    since_sound = turn.milliseconds("voice_to_voice") if has_vocal_sound(turn) else None
    after_word_ns = 0 if name == FROM_LAST_SOUND else _after_last_word_ns(turn.boundaries)
    return None if since_sound is None or after_word_ns is None else since_sound + after_word_ns / 1e6


def _summary(name: str, turns: Sequence[Observation]) -> LatencySummary:
    found: list[tuple[float, Observation]] = []
    missing: Counter[str] = Counter()
    for turn in turns:
        value = vocal_sound_milliseconds(turn, name)
        if value is not None:
            found.append((value, turn))
        elif turn.milliseconds("voice_to_voice") is None:
            missing[turn.timing.voice_to_voice.reason if turn.captured else TURN_FAILED] += 1
        else:
            missing[_NO_WORD] += 1
    return summarise_values(name, found, dict(missing.most_common()))


def _after_last_word_ns(boundaries: SpeechBoundaries | None) -> int | None:
    """Return the time from the end of the last word to the end of speech, or None."""
    if boundaries is None or boundaries.words_end_ns is None:
        return None
    return boundaries.voice_end_ns - boundaries.words_end_ns
