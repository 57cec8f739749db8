"""Describe the expected value of a setting, for error messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from live_eval.text.suggestions import did_you_mean
from live_eval.text.wording import alternatives

__all__ = ["expectation"]

_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "string": "text"}
"""Expected values by prefix of pydantic's error type."""


def expectation(mistake: Mapping[str, Any]) -> str:
    """Describe the expected value for an entry in `pydantic.ValidationError.errors`."""
    bounds = mistake.get("ctx", {})
    match mistake["type"].partition("_")[0], mistake["type"]:
        case _, "greater_than_equal":
            return f"expected {bounds['ge']:g} or more"
        case _, "greater_than":
            return f"expected more than {bounds['gt']:g}"
        case _, "less_than_equal":
            return f"expected {bounds['le']:g} or less"
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
