"""Check whether a reply follows verifiable instructions, by the rules of IFEval. Pure.

Zhou et al.: Instruction-Following Evaluation for Large Language Models (arXiv 2311.07911), in the version
that VoiceBench uses. The rules for languages, sentences and capital words need a language detector and a
tokeniser: we use py3langid and Punkt without its trained abbreviations, while the published evaluator uses
langdetect and trained Punkt. All other rules give the same results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

__all__ = ["RULES", "follows", "variants", "without_tags"]

_STREAM_TAGS = ("<1>", "<2>", "<3>")
_USER_TAG = "<|user|>"
_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_WORD_END = re.compile("[.,?!'\"]")


def follows(reply: str, instruction: str, values: Mapping[str, Any]) -> bool:
    """Return whether a reply follows an instruction; an empty reply follows none.

    Args:
        reply: The reply's text.
        instruction: The instruction's ID, a key of `RULES`.
        values: The instruction's values, as in the data set; null values are ignored.

    Raises:
        ValueError: The instruction is unknown, or a value is missing.

    >>> follows("one two three", "length_constraints:number_words", {"num_words": 3, "relation": "at least"})
    True
    """
    if instruction not in RULES:
        raise ValueError(f"unknown instruction {instruction!r:.60}")
    if not reply.strip():
        return False
    try:
        return RULES[instruction](reply, {name: value for name, value in values.items() if value})
    except KeyError as error:
        raise ValueError(f"instruction {instruction}: missing value {error.args[0]}") from None
    except (re.error, AttributeError, TypeError) as error:
        raise ValueError(f"instruction {instruction}: invalid values: {error}") from None


def variants(reply: str) -> tuple[str, ...]:
    """Return the variants of a reply, one of which must follow an instruction for a loose result.

    The variants are the reply and the reply without its first line, its last line or both, each with and
    without asterisks.
    """
    lines = reply.split("\n")
    texts = (reply, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1])))
    return (*texts, *(text.replace("*", "") for text in texts))


def without_tags(reply: str) -> str:
    """Return a reply without the tags that streaming models add."""
    if reply.startswith(_STREAM_TAGS):
        reply = reply[3:].strip()
    return reply.removesuffix(_USER_TAG).strip() if reply.endswith(_USER_TAG) else reply


def _compared(count: int, values: Mapping[str, Any], threshold: str, relation: str = "relation") -> bool:
    stated = values[relation]
    if stated not in ("less than", "at least"):
        raise ValueError(f"expected {relation}: less than or at least, got {stated!r:.40}")
    return bool(count < values[threshold] if stated == "less than" else count >= values[threshold])


def _highlights(reply: str) -> int:
    single = re.findall(r"\*[^\n*]*\*", reply)
    double = re.findall(r"\*\*[^\n*]*\*\*", reply)
    return sum(bool(each.strip("*").strip()) for each in single) + sum(
        bool(each.removeprefix("**").removesuffix("**").strip()) for each in double
    )


def _bullets(reply: str) -> int:
    stars = re.findall(r"^\s*\*[^*].*$", reply, re.MULTILINE)
    return len(stars) + len(re.findall(r"^\s*-.*$", reply, re.MULTILINE))


def _divided(pieces: Sequence[str]) -> list[str] | None:
    """Split at dividers and drop empty pieces at either end; return None if an inner piece is empty."""
    if any(not piece.strip() for piece in pieces[1:-1]):
        return None
    return [piece for piece in pieces if piece.strip()]


def _paragraphs(reply: str, values: Mapping[str, Any]) -> bool:
    pieces = _divided(re.split(r"\s?\*\*\*\s?", reply))
    return pieces is not None and len(pieces) == values["num_paragraphs"]


def _two_responses(reply: str, _: Mapping[str, Any]) -> bool:
    pieces = _divided(reply.split("******"))
    return pieces is not None and len(pieces) == 2 and pieces[0].strip() != pieces[1].strip()


def _first_word(reply: str, values: Mapping[str, Any]) -> bool:
    pieces = reply.split("\n\n")
    count = sum(bool(piece.strip()) for piece in pieces)
    if values["nth_paragraph"] > count or not pieces[values["nth_paragraph"] - 1].strip():
        return False
    word = pieces[values["nth_paragraph"] - 1].split()[0].lstrip("'").lstrip('"')
    first = _WORD_END.split(word)[0].lower()
    return bool(count == values["num_paragraphs"] and first == values["first_word"].lower())


def _postscript(reply: str, values: Mapping[str, Any]) -> bool:
    marker = values["postscript_marker"].strip()
    known = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
    return re.search(known.get(marker, marker.lower()), reply.lower()) is not None


def _json(reply: str, _: Mapping[str, Any]) -> bool:
    text = reply.strip()
    for fence in ("```json", "```Json", "```JSON", "```"):
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def _title(reply: str, _: Mapping[str, Any]) -> bool:
    return any(title.lstrip("<").rstrip(">").strip() for title in re.findall(r"<<[^\n]+>>", reply))


def _quoted(reply: str, _: Mapping[str, Any]) -> bool:
    text = reply.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def _capital_words(reply: str, values: Mapping[str, Any]) -> bool:
    from nltk.tokenize import word_tokenize

    words = word_tokenize(reply, preserve_line=True)
    return _compared(sum(map(str.isupper, words)), values, "capital_frequency", "capital_relation")


def _sentences(reply: str, values: Mapping[str, Any]) -> bool:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

    return _compared(len(PunktSentenceTokenizer().tokenize(reply)), values, "num_sentences")


def _is_language(reply: str, language: str) -> bool:
    return str(_identifier().classify(reply.lower())[0]) == language


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE)


def _found(pattern: str, reply: str) -> int:
    return len(re.findall(pattern, reply, re.IGNORECASE))


RULES: Mapping[str, Callable[[str, Mapping[str, Any]], bool]] = MappingProxyType(
    {
        "keywords:existence": lambda r, v: all(_found(word, r) for word in v["keywords"]),
        "keywords:frequency": lambda r, v: _compared(_found(v["keyword"].strip(), r), v, "frequency"),
        "keywords:forbidden_words": lambda r, v: (
            not any(_found(rf"\b{word}\b", r) for word in v["forbidden_words"])
        ),
        "keywords:letter_frequency": lambda r, v: _compared(
            r.lower().count(v["letter"].strip().lower()), v, "let_frequency", "let_relation"
        ),
        "language:response_language": lambda r, v: _is_language(r, v["language"]),
        "length_constraints:number_sentences": _sentences,
        "length_constraints:number_paragraphs": _paragraphs,
        "length_constraints:number_words": lambda r, v: _compared(len(_words(r)), v, "num_words"),
        "length_constraints:nth_paragraph_first_word": _first_word,
        "detectable_content:number_placeholders": lambda r, v: (
            len(re.findall(r"\[.*?\]", r)) >= v["num_placeholders"]
        ),
        "detectable_content:postscript": _postscript,
        "detectable_format:number_bullet_lists": lambda r, v: _bullets(r) == v["num_bullets"],
        "detectable_format:constrained_response": lambda r, _: any(each in r for each in _ANSWERS),
        "detectable_format:number_highlighted_sections": lambda r, v: _highlights(r) >= v["num_highlights"],
        "detectable_format:multiple_sections": lambda r, v: (
            len(re.findall(rf"\s?{v['section_spliter'].strip()}\s?\d+\s?", r)) >= v["num_sections"]
        ),
        "detectable_format:json_format": _json,
        "detectable_format:title": _title,
        "combination:two_responses": _two_responses,
        "combination:repeat_prompt": lambda r, v: (
            r.strip().lower().startswith(v["prompt_to_repeat"].strip().lower())
        ),
        "startend:end_checker": lambda r, v: (
            r.strip().strip('"').lower().endswith(v["end_phrase"].strip().lower())
        ),
        "startend:quotation": _quoted,
        "change_case:capital_word_frequency": _capital_words,
        "change_case:english_capital": lambda r, _: r.isupper() and _is_language(r, "en"),
        "change_case:english_lowercase": lambda r, _: r.islower() and _is_language(r, "en"),
        "punctuation:no_comma": lambda r, _: "," not in r,
    }
)
"""The check for each instruction, by ID: called with the reply and the instruction's values."""
