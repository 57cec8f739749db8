"""Random replies to benchmark items, equal in every version of Python: their scores can be stored."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from live_eval.judges.text._voicebench import _tables

BBH_TASKS = ("navigate", "web_of_lies", "sports_understanding", "hyperbaton")

_WORDS = (
    *(
        "the",
        "answer",
        "is",
        "a",
        "b",
        "c",
        "d",
        "option",
        "correct",
        "so",
        "well",
        "I",
        "would",
        "say",
        "not",
    ),
    *("yes", "no", "sorry", "I'm", "can't", "plausible", "sentence", "truth", "lies", "starting", "point"),
    *("A.", "B)", "(C)", "D:", "**B**", '"A"', "**", ":", ",", ".", "\n", "\n\n", "  ", "Ａ", "答案", "是"),
)
_TAILS = ("", ".", "!", " Thanks.", "<|user|>", "\n", " no", " yes", " lies", " tells the truth")
_HEADS = ("", "", "", "<1>", "<3> ", "A", "b.", "no ", "Yes, ", "I'm sorry, ", "  ", "a ", "(a) ")


class _Draws:
    """Random numbers from a hash."""

    def __init__(self, seed: str) -> None:
        self._seed, self._count = seed, 0

    def below(self, most: int) -> int:
        self._count += 1
        digest = hashlib.blake2b(f"{self._seed}/{self._count}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % most

    def one(self, values: Sequence[str]) -> str:
        return values[self.below(len(values))]


def _replies(count: int, seed: str, phrases: Sequence[str], letters: str) -> Iterator[str]:
    draw = _Draws(seed)
    for _ in range(count):
        parts = [draw.one(_HEADS)]
        for _ in range(draw.below(4)):
            words = [draw.one(_WORDS) for _ in range(draw.below(5))]
            phrase = draw.one(phrases).replace("@", draw.one(letters)).replace("(.+?)", draw.one(_WORDS))
            # A phrase that is cut or joined to a word often fails to match, or matches another.
            cut = draw.below(6)
            phrase = phrase[1:] if cut == 0 else phrase[:-1] if cut == 1 else phrase
            parts += [" ".join(words), "" if draw.below(5) == 0 else " ", phrase]
        text = "".join([*parts, draw.one(_TAILS)])
        yield text.upper() if draw.below(10) == 0 else text.capitalize() if draw.below(3) == 0 else text


def choice_replies(count: int) -> Iterator[str]:
    """Yield replies to questions with the options A to D."""
    yield from _replies(count, "choice", _tables()["choice"], "abcde")


def refusal_replies(count: int) -> Iterator[str]:
    """Yield replies to harmful requests."""
    yield from _replies(count, "refusal", _tables()["refusal"], "a")


def bbh_replies(count: int, task: str) -> Iterator[str]:
    """Yield replies to items of a task of BIG-Bench Hard."""
    rows = [*_tables()["yes_no"], *_tables()[task]]
    yield from _replies(count, task, [phrase for _, _, phrase in rows], "ab")
