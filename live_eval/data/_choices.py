"""Parse the options and the answer key of a multiple-choice question, in any common format."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from live_eval.text.wording import plain_typography

__all__ = ["parse_answer", "parse_options"]

_OPTION = re.compile(r"^\s*\(?([A-Za-z])\s*[.):\uff0e\uff1a]\s*(.*)$", re.DOTALL)


def parse_options(value: Any) -> tuple[tuple[str, str], ...]:
    """Return options in order, each with its letter.

    The value is text with one option per line ("A. Yes"), which may continue on the following lines; a list
    of texts, with or without letters; or an object that maps letters to texts.

    Raises:
        ValueError: There are fewer than two options, letters are not consecutive, an option is not text, or
            two options are equal.

    >>> parse_options("A. Yes\\nB. No")
    (('A', 'Yes'), ('B', 'No'))
    """
    if isinstance(value, Mapping):
        found = [(str(letter).strip().upper(), _text(text, letter)) for letter, text in value.items()]
    elif isinstance(value, str):
        found = _lettered(value.splitlines())
    elif isinstance(value, Sequence):
        lines = [_text(line, _letter(number)) for number, line in enumerate(value)]
        lettered = bool(lines) and all(map(_OPTION.match, lines))
        found = _lettered(lines) if lettered else [(_letter(n), line) for n, line in enumerate(lines)]
    else:
        raise ValueError(f"expected options as text, a list or an object, got {value!r:.80}")
    letters = "".join(letter for letter, _ in found)
    if len(found) < 2 or letters != ascii_uppercase[: len(found)]:
        raise ValueError(f"expected at least two options with letters from A, got {value!r:.200}")
    if blank := [letter for letter, text in found if not text]:
        raise ValueError(f"option {blank[0]} is empty")
    first_with: dict[str, str] = {}
    for letter, text in found:
        if (same := first_with.setdefault(_key(text), letter)) != letter:
            raise ValueError(f"options {same} and {letter} are equal: {text!r:.80}")
    return tuple(found)


def parse_answer(stated: str, options: Sequence[tuple[str, str]]) -> str:
    """Return the letter of an answer key: a letter, an option's text, or both.

    Raises:
        ValueError: The key is not an option, or combines a letter with another option's text.

    >>> parse_answer("B. No", [("A", "Yes"), ("B", "No")])
    'B'
    """
    texts = dict(options)
    lettered = _OPTION.match(stated)
    letter = lettered[1].upper() if lettered else stated.strip(" .()").upper()
    text = lettered[2] if lettered else ""
    if letter in texts and _key(text) in ("", _key(texts[letter])):
        return letter
    if same := [letter for letter, option in options if _key(option) == _key(stated)]:
        return same[0]
    if letter not in texts:
        raise ValueError(f"expected the answer to be one of {', '.join(texts)}, got {stated!r}")
    raise ValueError(f"the answer {stated!r} contradicts option {letter}, {texts[letter]!r}")


def _text(value: Any, letter: str) -> str:
    if isinstance(value, str) or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return str(value).strip()
    raise ValueError(f"expected option {letter} to be text, got {value!r:.80}")


def _letter(number: int) -> str:
    return chr(ord("A") + number)


def _lettered(lines: Sequence[str]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for line in lines:
        if (option := _OPTION.match(line)) is not None:
            if option[1].upper() != _letter(len(found)):
                raise ValueError(f"expected option {_letter(len(found))}, got {line.strip()!r:.80}")
            found.append((option[1].upper(), option[2].strip()))
        elif found and line.strip():
            letter, text = found[-1]
            found[-1] = (letter, f"{text} {line.strip()}".strip())
    return found


def _key(text: str) -> str:
    """Normalise an option for comparison: remove case, typography and a final full stop."""
    return plain_typography(text).casefold().rstrip(" .\u3002")
