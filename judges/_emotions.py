"""List the emotions that a voice can express and, for each vocal cue, the emotions that fit a reply.

The table describes the voice of a good *reply*, not the speaker's voice: a reply to joy is joyful, a reply to
grief is soft, and a reply to anger is never angry. Classifiers label a soft, low voice as sad or neutral, so
both fit a caring reply. ``docs/reference/emotion.md`` contains the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

EMOTIONS = ("angry", "disgusted", "fearful", "happy", "neutral", "sad", "surprised")
"""The emotions that emotion2vec+ can name, without its classes ``other`` and ``unk``."""


@dataclass(frozen=True, slots=True)
class Fitting:
    """The emotions that fit a reply to a cue, with the reason; empty if the cue alone does not determine
    them.
    """

    emotions: frozenset[str]
    why: str


def _fits(emotions: str, why: str) -> Fitting:
    return Fitting(frozenset(emotions.split()), why)


_FRIENDLY = "indicates who is speaking, not how they feel: neutral or friendly"
_CONCERN = "the speaker is unwell: calm and concerned; cheerfulness would ignore that"
_SURROUNDINGS = "the surroundings set no mood: neutral or friendly"
_OUT = "an outing: neutral, or sharing the enjoyment"
_CHILDREN = "children nearby: neutral or warm"
_HURT = "distress: gentle and sympathetic, or steady"
_CROWD = "a celebrating crowd: sharing its joy or excitement"

FITTING: Mapping[str, Fitting] = MappingProxyType(
    {
        "neutral": _fits("happy neutral", "no cue to respond to: neutral or friendly"),
        "male": _fits("happy neutral", _FRIENDLY),
        "female": _fits("happy neutral", _FRIENDLY),
        "child": _fits("happy neutral", _FRIENDLY),
        "adult": _fits("happy neutral", _FRIENDLY),
        "elderly": _fits("happy neutral", _FRIENDLY),
        "hoarse voice": _fits("neutral sad", _CONCERN),
        "vocal fatigue": _fits("neutral sad", _CONCERN),
        "breathless": _fits("neutral sad", _CONCERN),
        "sobbing": _fits("neutral sad", _HURT),
        "happy": _fits(
            "happy surprised", "shares the joy, or is delighted at the news; an unmoved voice does not fit"
        ),
        "sad": _fits("neutral sad", _HURT),
        "surprise": _fits("happy neutral surprised", "shares the surprise, is pleased, or stays composed"),
        "angry": _fits("neutral sad", "de-escalates: steady, or sympathetic; never angry in return"),
        "fear": _fits("neutral sad", "reassures: steady, or sympathetic; never afraid as well"),
        "disgust": _fits("disgusted neutral", "matter-of-fact, or sharing the disgust"),
        "shout": _fits("", "a shout can express joy or rage: only the words tell"),
        "whisper": _fits("neutral sad", "subdued; a lively voice would break the hush"),
        "fast pace": _fits("happy neutral", "haste sets no mood: neutral or friendly"),
        "slow pace": _fits("happy neutral", "a leisurely pace sets no mood: neutral or friendly"),
        "cough": _fits("neutral sad", _CONCERN),
        "sigh": _fits("neutral sad", "weary or disappointed: calm and sympathetic"),
        "laughter": _fits("happy neutral surprised", "laughs along; neutral if the laugh is bitter"),
        "yawn": _fits("happy neutral", "tiredness: gentle, or amused"),
        "moan": _fits("neutral sad", _CONCERN),
        "wind": _fits("happy neutral", _SURROUNDINGS),
        "thunderstorm": _fits("neutral sad", "danger: calm and concerned"),
        "rain": _fits("happy neutral", _SURROUNDINGS),
        "driving a car": _fits("happy neutral", _SURROUNDINGS),
        "subway": _fits("happy neutral", _SURROUNDINGS),
        "sea waves": _fits("happy neutral", _OUT),
        "playing basketball": _fits("happy neutral", _OUT),
        "applause": _fits("happy surprised", _CROWD),
        "crowd cheering": _fits("happy surprised", _CROWD),
        "crowd chatter": _fits("happy neutral", _SURROUNDINGS),
        "children playing": _fits("happy neutral", _CHILDREN),
        "children speaking": _fits("happy neutral", _CHILDREN),
        "dog barking": _fits("happy neutral surprised", "an interruption: neutral, friendly, or taken aback"),
        "alarm clock": _fits("happy neutral surprised", "an interruption: neutral, friendly, or taken aback"),
        "ringtone": _fits("happy neutral surprised", "an interruption: neutral, friendly, or taken aback"),
        "vehicle honking": _fits("neutral surprised", "traffic: alert or neutral"),
        "happy music": _fits("happy neutral", "the mood of the music, or neutral"),
        "funny music": _fits("happy neutral surprised", "amused, or neutral"),
        "sad music": _fits("neutral sad", "the mood of the music, or neutral"),
        "exciting music": _fits("happy neutral surprised", "the mood of the music, or neutral"),
        "angry music": _fits("neutral", "steady: the reply should not adopt the music's anger"),
    }
)
"""The fitting emotions, by `Cue.attribute`."""
