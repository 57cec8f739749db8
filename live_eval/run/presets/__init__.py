"""Read presets: packaged run files whose values the user's settings override."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from live_eval.errors import UsageError
from live_eval.text.suggestions import did_you_mean

__all__ = ["PRESETS", "read_preset"]

_FOLDER = Path(__file__).parent

PRESETS = tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))
"""The preset names."""


def read_preset(name: str) -> dict[str, Any]:
    """Return a preset's values by table and key.

    Raises:
        UsageError: The preset is unknown.
    """
    if name not in PRESETS:
        raise UsageError(
            f"--preset {name!r}{did_you_mean(name, PRESETS)}: expected one of {', '.join(PRESETS)}"
        )
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text("utf-8"))
