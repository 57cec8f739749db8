"""Merge and flatten nested mappings, such as settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["flattened", "merged"]


def flattened(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value with its dotted path.

    >>> dict(flattened({"a": {"b": 1, "c": [2]}}))
    {'a.b': 1, 'a.c': [2]}
    """
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from flattened(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", inner


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` updated with `over`: mappings are merged, all other values are replaced.

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
