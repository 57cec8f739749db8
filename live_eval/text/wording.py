"""Share wording among commands, reports and messages, and normalise text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

__all__ = [
    "alternatives",
    "changed_in_words",
    "counted",
    "limited",
    "markdown_table",
    "markdown_text",
    "natural_order",
    "one_line",
    "plain_typography",
    "primary_language",
    "printable",
    "sentence",
    "significant",
    "stamped_by",
]

_MARKUP = str.maketrans(
    {"<": "&lt;", ">": "&gt;", "&": "&amp;", **{letter: f"\\{letter}" for letter in "\\`*_[]|~$"}}
)
# C0 and C1 controls except tab and line feed, and bidirectional controls.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# Typographic variants of ASCII characters, which NFKC keeps or replaces with a space (´).
_PLAIN = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′ʹʻʼʽ´", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒–−", "-"),
        **dict.fromkeys("—―", " - "),
        # Soft hyphen, zero-width space, word joiner, byte order mark.
        **dict.fromkeys("\u00ad\u200b\u2060\ufeff"),
    }
)


def counted(number: int, what: str) -> str:
    """Format a number with its noun, in the plural if necessary.

    >>> counted(1, "turn"), counted(3, "turn")
    ('1 turn', '3 turns')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def changed_in_words(before: object, now: object) -> str:
    """Describe the change of a setting, after the setting's name.

    >>> changed_in_words(None, 3)
    'was not set, but is now 3'
    """
    was, now_is = ("not set" if each in (None, "", [], {}) else repr(each) for each in (before, now))
    return f"was {was}, but is now {now_is}"


def alternatives(names: Sequence[str]) -> str:
    """Join names as alternatives, with commas and "or".

    >>> alternatives(["a", "b", "c"])
    'a, b or c'
    """
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def limited(items: Sequence[str], separator: str, most: int = 5) -> str:
    """Join the first items with `separator`, and append how many others there are.

    >>> limited(["a", "b", "c"], "; ", most=2)
    'a; b; … and 1 more'
    """
    more = [f"… and {len(items) - most} more"] if len(items) > most else []
    return separator.join([*items[:most], *more])


def sentence(text: str) -> str:
    """Return a text as a sentence: with a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


def significant(value: float, digits: int = 6) -> str:
    """Format a number with at most `digits` significant digits and no exponent.

    >>> significant(2934.2, 3), significant(0.25), significant(50.0)
    ('2930', '0.25', '50')
    """
    return format(Decimal(f"{value:.{digits}g}"), "f")


def stamped_by(turns: Mapping[str, int]) -> str:
    """Describe who stamped the arrivals in turns: the kernel or this process.

    Args:
        turns: Number of turns by `live_eval.types.StampKind`.

    >>> stamped_by({"kernel": 19, "user": 1})
    'by the kernel in 19 of 20 turns, otherwise by this process'
    >>> stamped_by({"kernel": 20}), stamped_by({})
    ('by the kernel', '')
    """
    kernel, number = turns.get("kernel", 0), sum(turns.values())
    if 0 < kernel < number:
        return f"by the kernel in {kernel} of {number} turns, otherwise by this process"
    return ("by the kernel" if kernel else "by this process") if number else ""


def one_line(text: str) -> str:
    """Put text on one line, without control characters.

    >>> one_line("a\\r\\n b\\x00")
    'a b'
    """
    return _CONTROLS.sub("", " ".join(text.split()))


def printable(text: str) -> str:
    """Replace control characters, except tabs and line ends, with U+FFFD.

    In a terminal, control characters can move the cursor, write to the clipboard (OSC 52) or reverse the
    direction of text.

    >>> printable("a\\x1b]52;c;aGk=\\x07b")
    'a�]52;c;aGk=�b'
    """
    return text if text.isprintable() else _CONTROLS.sub("\ufffd", text.replace("\r\n", "\n"))


def markdown_text(text: str) -> str:
    """Put text on one line and escape it for Markdown.

    >>> print(markdown_text("a|b_c"))
    a\\|b\\_c
    """
    return one_line(text).translate(_MARKUP)


def markdown_table(headings: Sequence[str], right: Sequence[bool], rows: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table.

    Args:
        headings: Column headings, already escaped.
        right: Whether each column is right-aligned.
        rows: Table rows, with cells already escaped.

    >>> print(markdown_table(["run", "n"], [False, True], [["a", "3"]]))
    | run | n |
    |---|---:|
    | a | 3 |
    """
    rule = "|".join("---:" if each else "---" for each in right)
    return "\n".join(
        [f"| {' | '.join(headings)} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in rows)]
    )


def natural_order(text: str) -> list[tuple[int, int, str]]:
    """Return a sort key that compares the numbers in names by value.

    >>> sorted(["id_10", "id_9"], key=natural_order)
    ['id_9', 'id_10']
    """
    parts = re.split(r"(\d+)", text)
    # Compare lengths first, because `int` refuses very long numbers.
    return [
        (0, len(number := part.lstrip("0")), number) if part.isdecimal() else (1, 0, part)
        for part in parts
        if part
    ]


def primary_language(tag: str) -> str:
    """Return the language of a tag, without script and region.

    >>> primary_language("zh-Hant-TW")
    'zh'
    """
    return tag.lower().split("-")[0]


def plain_typography(text: str) -> str:
    """Convert text to plain typography, for the comparison of words.

    Quotes, apostrophes, hyphens and dashes become ASCII. Compatibility characters (ellipses, ligatures,
    full-width letters, no-break spaces) are normalised (NFKC), invisible characters are removed, and runs of
    white space collapse to one space. Case, accents and punctuation are kept.

    >>> print(plain_typography("I’ll wait…  “soon” — maybe"))
    I'll wait... "soon" - maybe
    """
    for _ in range(2):  # twice, because the result of NFKC may contain typographic characters
        text = unicodedata.normalize("NFKC", text.translate(_PLAIN))
    return " ".join(text.split())
