"""What judges that ask a model share: prompt files, cues in words, sound to send, answers in JSON."""

from __future__ import annotations

import io
import json
import re
import wave
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pybase64

from live_eval.audio import Audio
from live_eval.errors import JudgeError
from live_eval.types import CoarseDimension, Cue

__all__ = [
    "LONGEST_SENT_S",
    "SENT_RATE_HZ",
    "Prompt",
    "UnreadableError",
    "delivery_of",
    "read_object",
    "read_rating",
    "read_words",
    "sound_part",
    "text_part",
]

SENT_RATE_HZ = 16_000
"""Rate of the sound that models are sent; Gemini and Whisper-like encoders hear no more."""

LONGEST_SENT_S = 120
"""Seconds of a recording that models are sent at most; what follows is cut off, and the model is told."""

_PROMPTS = Path(__file__).parent / "prompts"
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NOT_GIVEN = "(not given)"
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


class UnreadableError(ValueError):
    """An answer holds no judgement; the message says what was expected and what came."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt with named places, written ``{name}``; braces around anything else are text.

    Args:
        text: The prompt.
    """

    text: str

    @classmethod
    def load(cls, path: str, *, usual: str, places: frozenset[str], needed: frozenset[str]) -> Prompt:
        """Read a prompt file.

        Args:
            path: The user's own; empty for ours.
            usual: Name of ours.
            places: The places that a prompt may have.
            needed: Those that it must have.

        Raises:
            JudgeError: It cannot be read, has a place that is not known, or lacks one that is needed.
        """
        file = Path(path) if path else _PROMPTS / usual
        try:
            text = file.read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise JudgeError(f"{file}: cannot be read as a prompt: {error}") from error
        found = set(_PLACEHOLDER.findall(text))
        known = ", ".join(f"{{{name}}}" for name in sorted(places))
        if unknown := sorted(found - places):
            raise JudgeError(f"{file}: unknown place {{{unknown[0]}}} in the prompt; there are: {known}")
        if lacking := sorted(needed - found):
            raise JudgeError(f"{file}: expected the place {{{lacking[0]}}} in the prompt; there are: {known}")
        return cls(text)

    def fill(self, values: Mapping[str, str | None]) -> str:
        """Return the prompt with each place filled; what is None or empty is said not to be given.

        >>> Prompt('Rate {reply}, as {"score": 1}.').fill({"reply": "{score} and {reply}"})
        'Rate {score} and {reply}, as {"score": 1}.'
        """
        return _PLACEHOLDER.sub(lambda place: (values[place[1]] or "").strip() or _NOT_GIVEN, self.text)


_ABOUT = {
    CoarseDimension.SPEAKER: "who is speaking",
    CoarseDimension.PARALINGUISTIC: "how the speaker sounds",
    CoarseDimension.ENVIRONMENT: "what is heard around the speaker",
}


def delivery_of(cue: Cue | None) -> str | None:
    """Return in words how something was said.

    >>> delivery_of(Cue("sigh sound", "sigh", "non-verbal expression", CoarseDimension.PARALINGUISTIC))
    'how the speaker sounds: sigh sound'
    >>> delivery_of(Cue("neutral", "neutral"))
    'neutral: a plain voice without any particular cue'
    """
    if cue is None:
        return None
    if cue.attribute == "neutral":
        return "neutral: a plain voice without any particular cue"
    return f"{_ABOUT[cue.coarse]}: {cue.phrase}" if cue.coarse is not None else cue.phrase


def text_part(text: str) -> dict[str, Any]:
    """Return text as part of a message."""
    return {"type": "text", "text": text}


def sound_part(what: str, audio: Audio) -> list[dict[str, Any]]:
    """Return a recording as parts of a message: what it is in words, and the sound as WAV.

    Args:
        what: What it is ("The reply").
        audio: The recording, at `SENT_RATE_HZ`.
    """
    seconds = len(audio.samples) / audio.rate_hz
    cut = ""
    if seconds > LONGEST_SENT_S:
        cut = f" (its first {LONGEST_SENT_S} of {seconds:.0f} seconds)"
        audio = Audio(audio.samples[: LONGEST_SENT_S * audio.rate_hz], audio.rate_hz)
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(audio.rate_hz)
        wav.writeframes(audio.int16().tobytes())
    sound = {"data": pybase64.b64encode(file.getvalue()).decode(), "format": "wav"}
    return [text_part(f"{what}{cut}:"), {"type": "input_audio", "input_audio": sound}]


def read_object(answer: str) -> Mapping[str, Any]:
    """Return the JSON object that an answer is.

    What a model thought aloud before it (``<think>…</think>``, as open models serve it) and a code fence
    around it are taken off.

    Raises:
        UnreadableError: It is anything else.
    """
    text = _THOUGHT.sub("", answer).strip()
    if (fenced := re.fullmatch(r"```(?:json)?\s*(.*?)\s*```", text, re.DOTALL)) is not None:
        text = fenced[1]
    try:
        value = json.loads(text, parse_constant=_refuse, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"expected one JSON object: {str(error)[:120]}") from None
    if not isinstance(value, dict):
        raise UnreadableError(f"expected one JSON object, got a {type(value).__name__}")
    return value


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key occurs twice")
    return value


def read_rating(value: Mapping[str, Any], key: str) -> float:
    """Return a rating: a whole number from 1 to 5.

    Raises:
        UnreadableError: There is none under this key.
    """
    if key not in value:
        raise UnreadableError(f"expected the key {key}")
    rating = value[key]
    if not isinstance(rating, int | float) or isinstance(rating, bool) or rating not in (1, 2, 3, 4, 5):
        raise UnreadableError(f"expected {key} as a whole number from 1 to 5, got {str(rating)[:40]!r}")
    return float(rating)


def read_words(value: Mapping[str, Any], key: str) -> str:
    """Return the words under a key; empty where there are none.

    Raises:
        UnreadableError: There is something else.
    """
    words = value.get(key, "")
    if not isinstance(words, str):
        raise UnreadableError(f"expected {key} as a string, got a {type(words).__name__}")
    return words.encode(errors="replace").decode()  # JSON may hold half a character, which nothing can keep
