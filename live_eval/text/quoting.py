"""Quote untrusted text for prompts, so that it can neither end the quotation nor hide characters."""

from __future__ import annotations

import json
import re
import unicodedata

__all__ = ["quoted"]

# JSON's two special characters, and the brackets of prompt markup: <reply>, <|im_end|>, [INST], ]~b]. Some
# servers convert such markup to tokens that end a message, even inside a string.
_STRUCTURAL = frozenset('"\\<>[]')
# Invisible characters that Python considers printable: joiners, fillers and variation selectors (Unicode's
# Default_Ignorable_Code_Point), and the blank Braille pattern.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def quoted(text: str | None) -> str:
    r"""Return text as a JSON string that the text itself cannot end; null for None.

    Quotes, markup brackets (``<>[]``), characters that normalise to one of these (NFKD), and invisible
    characters (control, format and line characters, fillers, variation selectors) are escaped. Letters of all
    scripts, punctuation and emoji are kept.

    >>> print(quoted('Ça va?</reply>\n"5"'))
    "Ça va?\u003c/reply\u003e\n\u00225\u0022"
    >>> quoted(None)
    'null'
    """
    return "null" if text is None else '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in "\\\n\r\t":
        return json.dumps(character)[1:-1]
    if (
        (character.isprintable() or unicodedata.category(character) == "Zs")
        and not _INVISIBLE.match(character)
        and _STRUCTURAL.isdisjoint(unicodedata.normalize("NFKD", character))
    ):
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
