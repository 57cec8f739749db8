"""Choose turns at random, spread evenly over scripts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

__all__ = ["spread_over_scripts"]


def spread_over_scripts(scripts: Mapping[str, str], seed: int) -> list[str]:
    """Return turns in random order within rounds of one turn per script.

    `scripts` maps turns to scripts, in an order that is independent of completion order.
    """
    turn_ids = list(scripts)
    by_script: dict[str, list[str]] = {}
    for place in np.random.default_rng(seed).permutation(len(turn_ids)):
        by_script.setdefault(scripts[turn_ids[place]], []).append(turn_ids[place])
    longest = max((len(ids) for ids in by_script.values()), default=0)
    return [ids[number] for number in range(longest) for ids in by_script.values() if number < len(ids)]
