"""Help judges to call a model: prompt templates, cues as text, audio parts and JSON responses."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pybase64

from live_eval.audio import Audio, encode_wav
from live_eval.errors import JudgeError
from live_eval.text.quoting import quoted
from live_eval.types import CoarseDimension, Cue

SENT_RATE_HZ = 16_000
"""Sample rate of audio sent to models; Gemini and Whisper-like encoders use no higher rate."""

LONGEST_SENT_S = 120
"""Maximum number of seconds of a recording sent to models; the message states that the rest is cut off."""

PROMPTS = Path(__file__).parent / "prompts"
"""The folder of our own prompt files."""

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_BETWEEN_QUOTES = re.compile(rf'"{_PLACEHOLDER.pattern}|{_PLACEHOLDER.pattern}"')
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


class UnreadableError(ValueError):
    """A response without a usable judgement; the message states what was expected and found."""


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A prompt with placeholders, written ``{name}``; braces around anything else are plain text.

    Each placeholder is replaced by a JSON string (`live_eval.text.quoting.quoted`), which its content cannot
    close. The prompt must state that these strings are material to judge, never instructions.
    """

    text: str

    @classmethod
    def load(
        cls, path: str, *, default: Path, places: frozenset[str], needed: frozenset[str]
    ) -> PromptTemplate:
        """Read a prompt file.

        Args:
            path: Path of the user's prompt file; empty for the default.
            default: Path of the judge's own prompt file.
            places: Allowed placeholders.
            needed: Required placeholders.

        Raises:
            JudgeError: The file cannot be read, has an unknown or quoted placeholder, or is missing a
                required one.
        """
        file = Path(path) if path else default
        try:
            text = file.read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise JudgeError(f"cannot read prompt {file}: {error}") from error
        found = set(_PLACEHOLDER.findall(text))
        known = ", ".join(f"{{{name}}}" for name in sorted(places))
        if unknown := sorted(found - places):
            raise JudgeError(
                f"{file}: unknown placeholder {{{unknown[0]}}} in the prompt; expected one of {known}"
            )
        if absent := sorted(needed - found):
            raise JudgeError(
                f"{file}: expected the placeholder {{{absent[0]}}} in the prompt; placeholders: {known}"
            )
        if (between := _BETWEEN_QUOTES.search(text)) is not None:
            raise JudgeError(
                f"{file}: remove the quotes around {{{between[1] or between[2]}}}: it becomes a JSON string"
            )
        return cls(text)

    def fill(self, values: Mapping[str, str | None]) -> str:
        """Return the prompt with each placeholder replaced by a JSON string; None and blank text become null.

        >>> PromptTemplate('Rate {reply}, as {"score": 1}.').fill({"reply": "{score} and {reply}"})
        'Rate "{score} and {reply}", as {"score": 1}.'
        """
        quotations = {name: quoted(text if text and text.strip() else None) for name, text in values.items()}
        return _PLACEHOLDER.sub(lambda place: quotations[place[1]], self.text)


_ABOUT = {
    CoarseDimension.SPEAKER: "who is speaking",
    CoarseDimension.PARALINGUISTIC: "how the speaker sounds",
    CoarseDimension.ENVIRONMENT: "what is heard around the speaker",
}


def delivery_of(cue: Cue | None) -> str | None:
    """Describe in words the delivery specified by a cue.

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
    """Return a text part of a message."""
    return {"type": "text", "text": text}


def sound_part(what: str, audio: Audio) -> list[dict[str, Any]]:
    """Return the parts for a recording: its name, and its audio as a WAV file at `SENT_RATE_HZ`."""
    seconds = len(audio.samples) / audio.rate_hz
    cut = ""
    if seconds > LONGEST_SENT_S:
        cut = f" (its first {LONGEST_SENT_S} of {seconds:.0f} seconds)"
        audio = Audio(audio.samples[: LONGEST_SENT_S * audio.rate_hz], audio.rate_hz)
    wav = encode_wav(audio.int16(), audio.rate_hz)
    sound = {"data": pybase64.b64encode(wav).decode(), "format": "wav"}
    return [text_part(f"{what}{cut}:"), {"type": "input_audio", "input_audio": sound}]


def read_object(answer: str) -> Mapping[str, Any]:
    """Return the JSON object in a response, without a code fence or reasoning (``<think>…</think>``).

    Raises:
        UnreadableError: The response is not a single JSON object.
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
    raise ValueError(f"{constant} is not a number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("duplicate key")
    return value


def read_rating(value: Mapping[str, Any], key: str) -> float:
    """Return a rating: a whole number from 1 to 5.

    Raises:
        UnreadableError: The object has no rating under this key.
    """
    if key not in value:
        raise UnreadableError(f"expected the key {key}")
    rating = value[key]
    if not isinstance(rating, int | float) or isinstance(rating, bool) or rating not in (1, 2, 3, 4, 5):
        raise UnreadableError(f"expected a whole number from 1 to 5 in {key}, got {str(rating)[:40]!r}")
    return float(rating)


def read_words(value: Mapping[str, Any], key: str) -> str:
    """Return the text under a key; empty if the key is missing.

    Raises:
        UnreadableError: The value is not text.
    """
    words = value.get(key, "")
    if not isinstance(words, str):
        raise UnreadableError(f"expected a string in {key}, got a {type(words).__name__}")
    return words.encode(errors="replace").decode()  # replaces unpaired surrogates, which cannot be stored
