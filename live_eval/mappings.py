"""Merge nested settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["merged"]


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` updated with `over`: objects are merged, everything else is replaced.

    >>> merged({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}, "d": [4]})
    {'a': {'b': 1, 'c': 3}, 'd': [4]}
    """
    result = dict(base)
    for name, value in over.items():
        before = result.get(name)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            value = merged(before, value)
        result[name] = value
    return result
