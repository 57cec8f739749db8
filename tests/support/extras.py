"""Skip tests whose packages are not installed."""

import importlib.util

import pytest

__all__ = ["needs"]


def needs(package: str, *, extra: str) -> pytest.MarkDecorator:
    """Skip if an extra's package is missing; do not import it, since each process collects all tests."""
    there = importlib.util.find_spec(package) is not None
    return pytest.mark.skipif(not there, reason=f"needs the extra `{extra}`")
