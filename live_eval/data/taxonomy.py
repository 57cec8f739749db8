"""Map EchoMind's vocal cues: each label in the data has an attribute, a fine and a coarse dimension.

Sources: EchoMind (arXiv 2510.22758) and the label lists in its public repository. The paper counts 39
attributes in 12 fine dimensions, but the repository has 45 labels, and neither source specifies which labels
the paper merges. Each label therefore has its own attribute here; group tables by dimension to compare them
with the paper.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from live_eval.text.wording import plain_typography
from live_eval.types import CoarseDimension, Cue

__all__ = ["ATTRIBUTES", "FINE_DIMENSIONS", "NEUTRAL", "VOCAL_SOUNDS", "Attribute", "cue_of"]

_SPEAKER = CoarseDimension.SPEAKER
_PARALINGUISTIC = CoarseDimension.PARALINGUISTIC
_ENVIRONMENT = CoarseDimension.ENVIRONMENT

FINE_DIMENSIONS: Mapping[str, CoarseDimension] = {
    "gender": _SPEAKER,
    "age": _SPEAKER,
    "physiological state": _PARALINGUISTIC,
    "emotion": _PARALINGUISTIC,
    "volume": _PARALINGUISTIC,
    "speed": _PARALINGUISTIC,
    "non-verbal expression": _PARALINGUISTIC,
    "weather": _ENVIRONMENT,
    "location": _ENVIRONMENT,
    "human sounds": _ENVIRONMENT,
    "sudden event": _ENVIRONMENT,
    "music": _ENVIRONMENT,
}
"""The twelve fine dimensions, each with its coarse dimension."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """A vocal cue, such as happy or in the rain."""

    name: str  # our name: "dog barking"
    fine: str  # a key of FINE_DIMENSIONS
    phrase: str  # EchoMind's label: "sound of dog(s) barking"
    aliases: tuple[str, ...] = ()  # other spellings, normalised before matching

    @property
    def coarse(self) -> CoarseDimension:
        """The coarse dimension of the cue."""
        return FINE_DIMENSIONS[self.fine]


def _emotion(name: str, *aliases: str) -> Attribute:
    return Attribute(name, "emotion", f"{name}-toned expressive voice", aliases)


def _music(mood: str) -> Attribute:
    return Attribute(f"{mood} music", "music", f"sound of {mood} music")


_BREATHLESS = "breathless sound / gasping sound / heavy breathing sound"
_BREATHLESS_ALIASES = ("breath", "breathing", "gasp", "out of breath", "panting")

_ALL = (
    Attribute("male", "gender", "male", ("man",)),
    Attribute("female", "gender", "female", ("woman",)),
    Attribute("child", "age", "child"),
    Attribute("adult", "age", "adult"),
    Attribute("elderly", "age", "elderly"),
    Attribute("hoarse voice", "physiological state", "Hoarse voice"),
    Attribute("vocal fatigue", "physiological state", "vocal fatigue", ("fatigue", "fatigued", "tired")),
    Attribute("breathless", "physiological state", _BREATHLESS, _BREATHLESS_ALIASES),
    Attribute("sobbing", "physiological state", "sobbing sound", ("sob",)),
    _emotion("happy"),
    _emotion("sad"),
    _emotion("surprise", "surprised"),
    _emotion("angry"),
    _emotion("fear", "fearful"),
    _emotion("disgust", "disgusted"),
    Attribute("shout", "volume", "shout", ("shouting",)),
    Attribute("whisper", "volume", "whisper", ("whispering", "whispered")),
    Attribute("fast pace", "speed", "fast speaking pace", ("fast", "fast speech")),
    Attribute("slow pace", "speed", "slow speaking pace", ("slow", "slow speech")),
    Attribute("cough", "non-verbal expression", "cough voice", ("coughing",)),
    Attribute("sigh", "non-verbal expression", "sigh sound", ("sighing",)),
    Attribute("laughter", "non-verbal expression", "laughter sound", ("laugh", "laughing")),
    Attribute("yawn", "non-verbal expression", "yawn sound", ("yawning",)),
    Attribute("moan", "non-verbal expression", "moan sound", ("moaning",)),
    Attribute("wind", "weather", "sound of wind blowing"),
    Attribute("thunderstorm", "weather", "sound of thunderstorm and thunder", ("thunder",)),
    Attribute("rain", "weather", "sound of raining"),
    Attribute("driving a car", "location", "sound of driving a car", ("driving",)),
    Attribute("subway", "location", "sound of subway"),
    Attribute("sea waves", "location", "sound of sea waves"),
    Attribute("playing basketball", "location", "sound of playing basketball", ("basketball",)),
    Attribute("applause", "human sounds", "sound of applause from a crowd"),
    Attribute("crowd cheering", "human sounds", "sound of crowd cheering", ("cheering",)),
    Attribute("crowd chatter", "human sounds", "sound of crowd's chatter", ("chatter",)),
    Attribute("children playing", "human sounds", "sound of children playing"),
    Attribute("children speaking", "human sounds", "sound of children speaking"),
    Attribute("dog barking", "sudden event", "sound of dog(s) barking", ("dogs barking",)),
    Attribute("alarm clock", "sudden event", "sound of alarm clock ringing", ("alarm",)),
    Attribute("ringtone", "sudden event", "sound of ringtone"),
    Attribute("vehicle honking", "sudden event", "sound of vehicle honking", ("vehicle horn", "honking")),
    _music("happy"),
    _music("funny"),
    _music("sad"),
    _music("exciting"),
    _music("angry"),
)

ATTRIBUTES: Mapping[str, Attribute] = {attribute.name: attribute for attribute in _ALL}
"""Every attribute by its canonical name, in the order of the dimensions."""

VOCAL_SOUNDS = frozenset(
    {"breathless", "sobbing"} | {each.name for each in _ALL if each.fine == "non-verbal expression"}
)
"""Attributes that are non-verbal sounds of the speaker, often after the last word."""

NEUTRAL = Cue("neutral", "neutral")
"""Speech without a cue: it has a name, but no dimension."""

# Generic words such as "sound" and conjunctions, without which labels remain unique.
_FILLERS = frozenset(
    {"a", "an", "and", "background", "expressive", "from", "in", "noise", "of", "on", "sound", "sounds"}
    | {"the", "tone", "toned", "voice", "with"}
)


def cue_of(phrase: str) -> Cue:
    """Return the cue for a label.

    Case, punctuation, an optional or possessive s, and words such as "sound of" are ignored. Known
    alternatives separated by slashes must refer to the same attribute. An unknown label has neither attribute
    nor dimensions.

    >>> cue_of("sound of dog(s) barking").attribute
    'dog barking'
    >>> cue_of("Gasping sound / heavy breathing").fine
    'physiological state'
    >>> cue_of("sound of a waterfall").coarse is None
    True
    """
    spelled = " ".join(phrase.split())
    if _key(spelled) == NEUTRAL.phrase:
        return Cue(spelled, NEUTRAL.attribute)
    attribute = _BY_KEY.get(_key(spelled))
    if attribute is None:
        parts = {_BY_KEY.get(_key(part)) for part in spelled.split("/")} - {None}
        attribute = parts.pop() if len(parts) == 1 else None
    if attribute is None:
        return Cue(spelled)
    return Cue(spelled, attribute.name, attribute.fine, attribute.coarse)


def _key(label: str) -> str:
    """Reduce a label to its distinctive words."""
    text = plain_typography(label).casefold().replace("_", " ")
    text = re.sub(r"\(s\)|'s\b", "", text)
    words = re.findall(r"\w+", text)
    return " ".join(word for word in words if word not in _FILLERS)


def _keys() -> dict[str, Attribute]:
    table: dict[str, Attribute] = {}
    for attribute in _ALL:
        # Some labels, such as the one for breathless, list synonyms between slashes.
        for label in (attribute.name, attribute.phrase, *attribute.phrase.split("/"), *attribute.aliases):
            known = table.setdefault(_key(label), attribute)
            assert known is attribute, f"{label!r} names both {known.name!r} and {attribute.name!r}"
    return table


_BY_KEY = _keys()
