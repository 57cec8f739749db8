"""Find the licence notes of runs, for all pages and commands that show their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from live_eval.recording import part_of, text_of

__all__ = ["licence_of", "licences_of"]


def licence_of(manifest: Mapping[str, Any]) -> str:
    """Return a run's note on the licence of a benchmark's recordings; empty for other data."""
    return text_of(part_of(manifest, "data"), "licence") or ""


def licences_of(manifests: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the different licence notes of runs, from their manifests."""
    return tuple(dict.fromkeys(filter(None, map(licence_of, manifests))))
