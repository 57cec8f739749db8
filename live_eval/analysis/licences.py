"""Find the licence notes of runs, for all pages and commands that show their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from live_eval.recording import part_of, text_of

__all__ = ["licence_of", "licences_of"]


def licence_of(manifest: Mapping[str, Any]) -> str:
    """Return a run's note on the licence of a benchmark's recordings, without a full stop.

    Empty for other data. Runs of earlier versions have stored the note with a full stop.
    """
    return (text_of(part_of(manifest, "data"), "licence") or "").removesuffix(".")


def licences_of(manifests: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the different licence notes of runs, from their manifests."""
    return tuple(dict.fromkeys(filter(None, map(licence_of, manifests))))
