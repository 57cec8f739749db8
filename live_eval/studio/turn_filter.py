"""Filter turns by an expression such as ``voice_to_voice > 1200 and cue == sigh``.

::

    either     = all ("or" all)*
    all        = term ("and" term)*
    term       = "not" term | "(" either ")" | NAME | NAME comparison VALUE
    comparison = "==" | "!=" | "<" | "<=" | ">" | ">=" | "contains"
    VALUE      = a number, a word, a "quoted text", true, false, or none for a missing value

Text comparison ignores case. A name with several values, such as ``label``, equals a text if any of its
values does. A missing value satisfies only ``== none`` and ``!= VALUE``. No code is evaluated: names must be
in `FilterFields`.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from live_eval.errors import UsageError
from live_eval.text.suggestions import did_you_mean

__all__ = ["FilterError", "FilterField", "FilterFields", "TurnTest", "parse_filter"]

TurnTest: TypeAlias = Callable[[Mapping[str, Any]], bool]
"""A function that returns whether a row of the turn list matches."""

_MOST_CHARACTERS = 1_000
_MOST_NESTED = 30
_TOKEN = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|(==|!=|<=|>=|[<>()])|(-?\.?\w[\w./#:+-]*))""")
_ORDERS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMPARISONS = ("==", "!=", *_ORDERS, "contains")
_TRUTHS = {"true": True, "false": False}
_KEYWORDS = {"and", "or", "not", "none", "contains", *_TRUTHS}


class FilterError(UsageError):
    """An invalid expression; the message contains the position."""


class FilterField(NamedTuple):
    """A name in an expression: the kind of its values, and a function that returns a row's value."""

    kind: Literal["number", "text", "texts", "truth"]
    value: Callable[[Mapping[str, Any]], Any]


FilterFields: TypeAlias = Mapping[str, FilterField]


class _Token(NamedTuple):
    text: str
    is_quoted: bool
    place: int
    """The position in the expression, from 1."""

    @property
    def keyword(self) -> str:
        """The keyword or symbol that the token represents; empty for quoted text."""
        return "" if self.is_quoted else self.text.lower()


def parse_filter(text: str, fields: FilterFields) -> TurnTest:
    """Parse an expression and return a function that tests rows.

    Args:
        fields: Names that the expression may contain.

    Raises:
        FilterError: The expression is invalid.
    """
    if len(text) > _MOST_CHARACTERS:
        raise FilterError(f"where: expected at most {_MOST_CHARACTERS:,} characters, got {len(text):,}")
    return _Parser(_tokens(text), fields).parse()


def _tokens(text: str) -> list[_Token]:
    tokens, place = [], 0
    while text[place:].strip():
        found = _TOKEN.match(text, place)
        if found is None:
            wrong = text[place:].lstrip()
            at = len(text) - len(wrong) + 1
            hint = {"=": "; to compare, write ==", '"': "; the quote does not end"}.get(wrong[0], "")
            raise FilterError(f"where: expected a name or a value at {at}, got {wrong[0]!r}{hint}")
        quoted = found[1] if found[1] is not None else found[2]
        plain = found[3] or found[4]
        start = found.end() - len(found[0].lstrip()) + 1
        tokens.append(_Token(plain if quoted is None else quoted, quoted is not None, start))
        place = found.end()
    return tokens


class _Parser:
    def __init__(self, tokens: Sequence[_Token], fields: FilterFields) -> None:
        self._tokens = tokens
        self._fields = fields
        self._next = 0
        self._nested = 0

    def parse(self) -> TurnTest:
        test = self._joined("or")
        if self._peek() is not None:
            raise self._unexpected("and, or, or the end")
        return test

    def _joined(self, word: Literal["or", "and"]) -> TurnTest:
        part = self._term if word == "and" else lambda: self._joined("and")
        tests = [part()]
        while self._takes(word):
            tests.append(part())
        if len(tests) == 1:
            return tests[0]
        together = any if word == "or" else all
        return lambda row: together(test(row) for test in tests)

    def _term(self) -> TurnTest:
        self._nested += 1
        if self._nested > _MOST_NESTED:
            raise FilterError(f"where: expected at most {_MOST_NESTED} nested parts")
        try:
            if self._takes("not"):
                test = self._term()
                return lambda row: not test(row)
            if self._takes("("):
                inner = self._joined("or")
                if not self._takes(")"):
                    raise self._unexpected("and, or, or )")
                return inner
            return self._comparison()
        finally:
            self._nested -= 1

    def _comparison(self) -> TurnTest:
        token = self._peek()
        if token is None or token.is_quoted or not (token.text[0].isalpha() or token.text[0] == "_"):
            raise self._unexpected("a name")
        if token.keyword in _KEYWORDS:
            raise self._unexpected("a name")
        self._next += 1
        field = self._fields.get(token.text)
        if field is None:
            hint = did_you_mean(token.text, self._fields)
            known = "" if hint else f"; known: {', '.join(self._fields)}"
            raise FilterError(f"where: unknown name {token.text[:40]!r}{hint} at {token.place}{known}")
        comparison = self._peek()
        if field.kind == "truth" and (comparison is None or comparison.keyword not in _COMPARISONS):
            return lambda row: bool(field.value(row))
        if comparison is None or comparison.keyword not in _COMPARISONS:
            raise self._unexpected(f"one of {', '.join(_COMPARISONS)} after {token.text}")
        self._next += 1
        return self._compared(token.text, field, comparison)

    def _compared(self, name: str, field: FilterField, comparison: _Token) -> TurnTest:
        how, value = comparison.keyword, self._peek()
        if value is None or (not value.is_quoted and value.text in (*_COMPARISONS, "(", ")")):
            raise self._unexpected(f"a value after {how}")
        self._next += 1
        if how in ("==", "!="):
            equal = self._equal(name, field, value)
            return equal if how == "==" else lambda row: not equal(row)
        if how == "contains":
            if field.kind not in ("text", "texts"):
                raise FilterError(f"where: contains applies to text, but {name} is a {field.kind}")
            part = value.text.casefold()
            return lambda row: any(part in each.casefold() for each in _texts(field.value(row)))
        if field.kind != "number":
            raise FilterError(f"where: {how} applies to numbers, but {name} is a {field.kind.rstrip('s')}")
        order, limit = _ORDERS[how], self._number(name, value)
        return lambda row: (found := field.value(row)) is not None and order(found, limit)

    def _equal(self, name: str, field: FilterField, value: _Token) -> TurnTest:
        if value.keyword == "none":
            return lambda row: field.value(row) in (None, "", [])
        match field.kind:
            case "number":
                number = self._number(name, value)
                return lambda row: bool(field.value(row) == number)
            case "truth":
                if value.keyword not in _TRUTHS:
                    raise self._mismatch(f"true or false for {name}", value)
                truth = _TRUTHS[value.keyword]
                return lambda row: bool(field.value(row)) is truth
            case _:
                text = value.text.casefold()
                return lambda row: any(text == each.casefold() for each in _texts(field.value(row)))

    def _number(self, name: str, value: _Token) -> float:
        try:
            number = float("nan") if value.is_quoted or "_" in value.text else float(value.text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise self._mismatch(f"a number for {name}", value)
        return number

    def _peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _takes(self, keyword: str) -> bool:
        token = self._peek()
        if token is None or token.keyword != keyword:
            return False
        self._next += 1
        return True

    def _unexpected(self, expected: str) -> FilterError:
        token = self._peek()
        if token is None:
            return FilterError(f"where: expected {expected}, but the expression ends")
        return self._mismatch(expected, token)

    @staticmethod
    def _mismatch(expected: str, found: _Token) -> FilterError:
        return FilterError(f"where: expected {expected} at {found.place}, got {found.text[:40]!r}")


def _texts(value: str | Iterable[str] | None) -> Iterable[str]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else value
