"""Parse the values of ``--assert``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Literal

from live_eval.analysis.assertions import Assertion
from live_eval.errors import UsageError
from live_eval.judging import score_name
from live_eval.registry import installed_judges

_Command = Literal["duplex", "latency", "run"]
_COMMANDS: tuple[_Command, ...] = ("duplex", "latency", "run")


def parse_assertions(
    command: _Command, texts: Sequence[str], scores: Collection[str] = ()
) -> list[Assertion]:
    """Parse the assertions of a command.

    Args:
        scores: Names of the scores of a run's judges.

    Raises:
        UsageError: A text is not a valid assertion. The message names another command if that one measures
            the value.
    """
    return [_parse_or_redirect(command, text, scores) for text in texts]


def _parse_or_redirect(command: _Command, text: str, scores: Collection[str]) -> Assertion:
    try:
        return _parse(command, text, scores)
    except UsageError:
        known = [score_name(spec.name, output.name) for spec in installed_judges() for output in spec.outputs]
        value = re.split("[<>=]", text)[0].strip()
        for meant in _corrections(text, value):
            if meant != text and _is_assertion_of(command, meant, scores):
                raise UsageError(f"assertion {text!r}: did you mean {meant!r}?") from None
            for other in _COMMANDS:
                if other != command and _is_assertion_of(other, meant, known):
                    message = f"`live-eval {other}` measures {value}; `live-eval {command}` does not"
                    more = "" if meant == text else f"; with that command, use for example {meant!r}"
                    raise UsageError(f"assertion {text!r}: {message}{more}") from None
        raise


def _corrections(text: str, value: str) -> Iterator[str]:
    """Yield the assertion, then likely corrections: a statistic added, or a dot for an underscore."""
    yield text
    bound = text[text.index(value) + len(value) :]
    dotted = [f"{value[: each.start()]}.{value[each.end() :]}" for each in re.finditer("_", value)]
    for name in (value, *dotted):
        yield from (f"{name}.p95{bound}", f"{name}.mean{bound}")


def _is_assertion_of(command: _Command, text: str, scores: Collection[str]) -> bool:
    try:
        _parse(command, text, scores)
    except UsageError:
        return False
    return True


def _parse(command: _Command, text: str, scores: Collection[str]) -> Assertion:
    # Each command imports only its own parser.
    if command == "duplex":
        from live_eval.campaigns.duplex.assertions import parse_duplex_assertion

        return parse_duplex_assertion(text)
    if command == "latency":
        from live_eval.analysis.latency.assertions import parse_assertion

        return parse_assertion(text)
    from live_eval.analysis.summary.assertions import parse_run_assertion

    return parse_run_assertion(text, scores)
