"""Compare a repetition with the text to repeat, by words or, in Chinese, by characters."""

from __future__ import annotations

import importlib
import re
import string
import unicodedata
from types import ModuleType

import jiwer
from whisper_normalizer.english import EnglishTextNormalizer

from live_eval.errors import UsageError
from live_eval.extras import install_command
from live_eval.text.wording import primary_language

__all__ = ["error_rate", "is_chinese", "normalised", "official_error_rate"]

_ENGLISH = EnglishTextNormalizer()


def is_chinese(language: str) -> bool:
    """Return whether a language is counted in characters.

    >>> is_chinese("zh-CN"), is_chinese("en")
    (True, False)
    """
    return primary_language(language) == "zh"


def normalised(text: str, language: str) -> str:
    """Return text without case, punctuation and different spellings of numbers.

    English uses Whisper's normaliser. Chinese is NFKC-normalised and lower-cased, its numbers are written in
    characters (cn2an), and symbols, punctuation and spaces are dropped.

    Raises:
        UsageError: A package for Chinese is missing.
    """
    if not is_chinese(language):
        return str(_ENGLISH(text))
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", unicodedata.normalize("NFKC", text).lower())
    text = _in_characters(text)
    return "".join(char for char in text if unicodedata.category(char)[0] not in "PSZC")


def error_rate(reference: str, said: str, language: str) -> float:
    """Return the errors of `said`, divided by the words or characters of `reference`, after normalisation.

    Raises:
        ValueError: The reference has no words.
        UsageError: A package for Chinese is missing.
    """
    reference, said = normalised(reference, language), normalised(said, language)
    if not reference.strip():
        raise ValueError("the text to repeat has no words")
    return float((jiwer.cer if is_chinese(language) else jiwer.wer)(reference, said))


def official_error_rate(reference: str, said: str, language: str) -> float:
    """Return URO-Bench's error rate, which is divided by the length of the reply, not of the reference.

    Chinese punctuation is deleted, and numbers are written in characters; spaces between characters count.
    The rate of a reply without words is 1.

    Raises:
        UsageError: A package for Chinese is missing.
    """
    chinese = is_chinese(language)
    said, reference = (
        _official_chinese(each) if chinese else _official_english(each) for each in (said, reference)
    )
    if not said:
        return 1.0  # jiwer 3.0.5, which the evaluator uses, rejects such a text
    return float((jiwer.cer if chinese else jiwer.wer)(said, reference))


def _official_english(text: str) -> str:
    return str(_ENGLISH(text.strip().lower())).strip()


def _official_chinese(text: str) -> str:
    dropped = {ord(char): None for char in _chinese("zhon.hanzi").punctuation + string.punctuation}
    return _in_characters(text.translate(dropped).replace("  ", " ").strip().lower())


def _in_characters(text: str) -> str:
    return str(_chinese("cn2an").transform(text, "an2cn"))


def _chinese(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UsageError(f"Chinese text is normalised with {module}: {install_command('chinese')}") from None
