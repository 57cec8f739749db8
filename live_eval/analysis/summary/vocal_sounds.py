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
    turn: Observation | Case, boundaries: SpeechBoundaries | None, voice_to_voice: Latency
) -> dict[str, Latency]:
    """Return both latencies of a turn by name; without a vocal sound, they are missing with a reason."""
    if not has_vocal_sound(turn):
        return dict.fromkeys(VOCAL_SOUND_TITLES, Latency(None, _NO_SOUND))
    word = voice_to_voice
    if voice_to_voice.ns is not None:
        word = Latency(None, _NO_WORD)
        if boundaries is not None and boundaries.words_end_ns is not None:
            after_word_ns = boundaries.voice_end_ns - boundaries.words_end_ns
            word = Latency(voice_to_voice.ns + after_word_ns, voice_to_voice.reason)
    return dict(zip(VOCAL_SOUND_TITLES, (word, voice_to_voice), strict=True))


def summarise_vocal_sounds(turns: Sequence[Observation]) -> dict[str, LatencySummary]:
    """Summarise both latencies by name over the turns whose cue is a vocal sound; empty if there are none."""
    concerned = [turn for turn in turns if has_vocal_sound(turn)]
    if not concerned:
        return {}
    return {name: _summary(name, concerned) for name in VOCAL_SOUND_TITLES}


def vocal_sound_milliseconds(turn: Observation, name: str) -> float | None:
    """Return one of the two latencies of a turn by name, or None."""
    ns = _counted(turn, name).ns
    return None if ns is None else ns / 1e6


def _counted(turn: Observation, name: str) -> Latency:
    since_sound = turn.timing.voice_to_voice if turn.captured else Latency(None, TURN_FAILED)
    return vocal_sound_latencies(turn, turn.boundaries, since_sound)[name]


def _summary(name: str, turns: Sequence[Observation]) -> LatencySummary:
    latencies = [_counted(turn, name) for turn in turns]
    found = [
        (each.ns / 1e6, turn) for each, turn in zip(latencies, turns, strict=True) if each.ns is not None
    ]
    missing = Counter(each.reason for each in latencies if each.ns is None)
    return summarise_values(name, found, dict(missing.most_common()))
