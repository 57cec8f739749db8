"""Skip tests whose packages are not installed."""

import importlib.util

import pytest

__all__ = ["needs"]


def needs(package: str, *, extra: str) -> pytest.MarkDecorator:
    """Skip without a package of an extra, which is not imported: every test process collects every test."""
    there = importlib.util.find_spec(package) is not None
    return pytest.mark.skipif(not there, reason=f"needs the extra `{extra}`")
