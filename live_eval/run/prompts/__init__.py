"""Define system prompts: the benchmark's, or a user's text.

EchoMind compares replies without a prompt, with a basic prompt, with a prompt that mentions the dimension of
the vocal cue (enhance), and with a prompt that states the true cue (upper-bound). The prompts in this folder
follow the benchmark's content in our own wording. Users' text files may contain the same placeholders.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from live_eval.errors import UsageError
from live_eval.text.suggestions import did_you_mean
from live_eval.types import Case, ScoringRule, Task

__all__ = ["PLACES", "PROMPTS", "SystemPrompt", "instructions_for", "load_prompt"]

PROMPTS = ("no", "basic", "enhance", "upper-bound")
"""The named prompt settings."""

PLACES = frozenset({"topic", "cue", "dimension", "hint", "language"})
"""Placeholders in a conversation prompt, written as ``{topic}``."""

_FOLDER = Path(__file__).parent
_NO_TOPIC = frozenset({"no specific topics", "no specific topic", "no topic", "none"})
_PLACE = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class SystemPrompt:
    """A conversation system prompt.

    Raises:
        UsageError: The text contains an unknown placeholder.
    """

    name: str  # a key of PROMPTS, or the name of the user's file
    text: str  # text with placeholders

    def __post_init__(self) -> None:
        unknown = [place for place in _PLACE.findall(self.text) if place not in PLACES]
        if unknown:
            known = ", ".join(f"{{{place}}}" for place in sorted(PLACES))
            raise UsageError(
                f"{self.name}: unknown placeholder {{{unknown[0]}}} in the prompt; expected one of {known}"
            )

    @property
    def sha256(self) -> str:
        """Hash of the text in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def fill(self, case: Case) -> str:
        """Return the prompt for the session of `case`, with placeholders filled in.

        A line is omitted if the case has no value for its placeholder. Topics such as "no_specific_topics"
        count as missing.
        """
        values = _values(case)
        lines = [
            _PLACE.sub(lambda place: values[place[1]] or "", line)
            for line in self.text.splitlines()
            if all(values[name] for name in _PLACE.findall(line))
        ]
        return "\n".join(lines).strip()


def load_prompt(name: str) -> SystemPrompt:
    """Return a conversation prompt: a key of `PROMPTS`, or a text file.

    Raises:
        UsageError: The prompt is unknown, or the file contains an unknown placeholder.
    """
    path = _FOLDER / f"{name}.txt" if name in PROMPTS else Path(name)
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"prompt {name!r}{did_you_mean(name, PROMPTS)}: expected one of {', '.join(PROMPTS)}, "
            f"or a text file: {error.strerror if isinstance(error, OSError) else error}"
        ) from None
    if name not in PROMPTS and not text.strip():
        raise UsageError(f"{path}: expected a prompt, got an empty file; pass `no` for no prompt")
    return SystemPrompt(name if name in PROMPTS else path.name, text)


def instructions_for(case: Case, prompt: SystemPrompt) -> str:
    """Return the system prompt for a case's session; `prompt` is the conversation prompt."""
    asked = case.item is not None and case.item.rule is ScoringRule.OPTION
    if case.task in (Task.CONVERSATION, Task.BENCHMARK) and not asked:
        return prompt.fill(case)
    if case.task is Task.TRANSCRIPTION:
        return _text("transcription")
    if case.problem is not None:
        return ""  # the question will not be asked; the case contains the problem
    if case.item is not None:
        return _question(case.item.details["question"], case.item.details["options"])
    return "" if case.question is None else _question(case.question.text, case.question.options)


def _question(text: str, options: Iterable[Sequence[str]]) -> str:
    listed = "\n".join(f"{letter}. {option}" for letter, option in options)
    return _text("question").replace("{question}", text).replace("{options}", listed)


def _text(name: str) -> str:
    return (_FOLDER / f"{name}.txt").read_text("utf-8").strip()


def _values(case: Case) -> Mapping[str, str]:
    cue = case.cue if case.cue is not None and case.cue.attribute != "neutral" else None
    # A neutral take gets the hint for its script's cue, since a missing hint would reveal that it is neutral.
    hinted = cue or case.script_cue
    dimension = (hinted.coarse if hinted is not None else None) or ""
    # Lines have the form "dimension: hint".
    hints = dict(line.split(":", 1) for line in _text("hints").splitlines())
    topic = case.topic or ""
    return {
        "topic": "" if " ".join(re.findall(r"[a-z]+", topic.lower())) in _NO_TOPIC else topic,
        "cue": cue.phrase if cue is not None else "",
        "dimension": dimension,
        "hint": hints[dimension].strip() if dimension else "",
        "language": case.language,
    }
