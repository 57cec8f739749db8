"""Describe the expected value of a setting, for error messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from live_eval.text.durations import duration_in_words
from live_eval.text.suggestions import did_you_mean
from live_eval.text.wording import alternatives

__all__ = ["expectation"]

_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "string": "text"}
"""Expected values by prefix of pydantic's error type."""


def expectation(mistake: Mapping[str, Any], *, in_seconds: bool = False) -> str:
    """Describe the expected value for an entry in `pydantic.ValidationError.errors`.

    Args:
        in_seconds: Whether bounds of the value are durations in seconds.
    """
    bounds = dict(mistake.get("ctx", {}))
    for name in bounds.keys() & {"ge", "gt", "le"}:
        bounds[name] = duration_in_words(bounds[name]) if in_seconds else f"{bounds[name]:g}"
    match mistake["type"].partition("_")[0], mistake["type"]:
        case _, "greater_than_equal":
            return f"expected {bounds['ge']} or more"
        case _, "greater_than":
            return f"expected more than {bounds['gt']}"
        case _, "less_than_equal":
            return f"expected {bounds['le']} or less"
        case _, "literal_error" | "enum":
            names = re.findall(r"'([^']*)'", bounds["expected"])
            return f"expected {alternatives(names)}{did_you_mean(str(mistake['input']), names)}"
        case "model" | "dict", _:
            return "expected a table of keys and values"
        case "value", _:
            return str(mistake["msg"]).removeprefix("Value error, ")
        case kind, _ if kind in _KINDS:
            return f"expected {_KINDS[kind]}"
        case _:
            return str(mistake["msg"])
