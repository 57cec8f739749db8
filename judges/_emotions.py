"""List the emotions that a voice can express, and which of them fit a reply to each vocal cue.

The table describes the voice of a good *reply*, not the speaker's voice: joy is shared, grief is met softly,
and anger is never met with anger. Classifiers label a soft, low voice as sad or neutral, so both fit if care
is needed. ``docs/reference/emotion.md`` contains the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

EMOTIONS = ("angry", "disgusted", "fearful", "happy", "neutral", "sad", "surprised")
"""The emotions that emotion2vec+ can name, without its classes ``other`` and ``unk``."""


@dataclass(frozen=True, slots=True)
class Fitting:
    """The emotions that fit a reply to a cue, and the reason; empty if the cue alone is insufficient."""

    emotions: frozenset[str]
    why: str


def _fits(emotions: str, why: str) -> Fitting:
    return Fitting(frozenset(emotions.split()), why)


_FRIENDLY = "shows who speaks, not how they feel: plain or friendly"
_CONCERN = "not well: calm, with concern; cheer would pass over it"
_SURROUNDINGS = "surroundings without a mood: plain or friendly"
_OUT = "an outing: plain, or sharing the pleasure"
_CHILDREN = "children about: plain or warm"
_HURT = "hurt: softly, with them or steady"
_CROWD = "a crowd that celebrates: its joy or its excitement"

FITTING: Mapping[str, Fitting] = MappingProxyType(
    {
        "neutral": _fits("happy neutral", "nothing to answer: plain or friendly"),
        "male": _fits("happy neutral", _FRIENDLY),
        "female": _fits("happy neutral", _FRIENDLY),
        "child": _fits("happy neutral", _FRIENDLY),
        "adult": _fits("happy neutral", _FRIENDLY),
        "elderly": _fits("happy neutral", _FRIENDLY),
        "hoarse voice": _fits("neutral sad", _CONCERN),
        "vocal fatigue": _fits("neutral sad", _CONCERN),
        "breathless": _fits("neutral sad", _CONCERN),
        "sobbing": _fits("neutral sad", _HURT),
        "happy": _fits("happy surprised", "shared joy, or delight at the news; not unmoved"),
        "sad": _fits("neutral sad", _HURT),
        "surprise": _fits("happy neutral surprised", "shared wonder, glad of it, or composed"),
        "angry": _fits("neutral sad", "de-escalates: steady, or sorry for them; never angry back"),
        "fear": _fits("neutral sad", "reassures: steady, or feeling with them; never afraid too"),
        "disgust": _fits("disgusted neutral", "sober, or sharing the aversion"),
        "shout": _fits("", "joy or rage: the words decide, the volume does not"),
        "whisper": _fits("neutral sad", "kept low; lively voices would break the hush"),
        "fast pace": _fits("happy neutral", "haste without a mood: plain or friendly"),
        "slow pace": _fits("happy neutral", "leisure without a mood: plain or friendly"),
        "cough": _fits("neutral sad", _CONCERN),
        "sigh": _fits("neutral sad", "weary or let down: calm, feeling with them"),
        "laughter": _fits("happy neutral surprised", "laughs along; plain where the laugh was bitter"),
        "yawn": _fits("happy neutral", "tired: gentle, or amused"),
        "moan": _fits("neutral sad", _CONCERN),
        "wind": _fits("happy neutral", _SURROUNDINGS),
        "thunderstorm": _fits("neutral sad", "a danger: calm, with concern"),
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
        "dog barking": _fits("happy neutral surprised", "an interruption: plain, friendly, or taken aback"),
        "alarm clock": _fits("happy neutral surprised", "an interruption: plain, friendly, or taken aback"),
        "ringtone": _fits("happy neutral surprised", "an interruption: plain, friendly, or taken aback"),
        "vehicle honking": _fits("neutral surprised", "traffic: alert or plain"),
        "happy music": _fits("happy neutral", "the mood of the music, or plain"),
        "funny music": _fits("happy neutral surprised", "amused, or plain"),
        "sad music": _fits("neutral sad", "the mood of the music, or plain"),
        "exciting music": _fits("happy neutral surprised", "the mood of the music, or plain"),
        "angry music": _fits("neutral", "steady: the music's anger is not to be caught"),
    }
)
"""The fitting emotions, by `Cue.attribute`."""
