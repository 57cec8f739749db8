"""Define a probe: its conditions and their trials."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from live_eval.analysis.turn_taking.trial import Trial
from live_eval.campaigns.duplex.stimuli import Line, Piece, Recorded, TrialScript

__all__ = ["Condition", "Probe", "sessions_of", "trials_of"]


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a probe.

    Args:
        name: Name, unique among the probe's conditions.
        lines: Function that maps the variant number to the utterances of a trial.
        meant: Function that maps the variant number to lower-case words, each of which shows that the
            correction was understood; None if there is no correction.
        every_variant: Whether each variant is used at least once.
    """

    name: str
    lines: Callable[[int], tuple[Line, ...]]
    variants: int = 1
    meant: Callable[[int], tuple[str, ...]] | None = None
    every_variant: bool = False


@dataclass(frozen=True, slots=True)
class Probe:
    """A test of one behaviour of an endpoint: its name, a description, and its conditions."""

    name: str
    what: str
    conditions: Sequence[Condition]


def sessions_of(probes: Iterable[Probe]) -> Iterator[tuple[Line, ...]]:
    """Yield the utterances of every variant of every probe."""
    for probe in probes:
        for condition in probe.conditions:
            yield from map(condition.lines, range(condition.variants))


def trials_of(probes: Iterable[Probe], repeat: int, seed: int) -> list[TrialScript]:
    """Return the trials of a campaign, condition by condition.

    Args:
        repeat: Number of trials per condition. Trials cycle through the variants.
        seed: Seed for choosing the first variant, independently of the other probes.
    """
    scripts = []
    first_with: dict[tuple[Piece, ...], str] = {}
    for probe in probes:
        for condition in probe.conditions:
            first = random.Random(f"{seed}/{probe.name}/{condition.name}").randrange(condition.variants)
            for number in range(max(repeat, condition.variants if condition.every_variant else 0)):
                variant = (first + number) % condition.variants
                slug = re.sub("[^a-z0-9]+", "-", f"{probe.name} {condition.name}".lower()).strip("-")
                name, lines = f"{slug}-{number + 1}", condition.lines(variant)
                recorded = tuple(
                    piece for line in lines for piece in line.pieces if isinstance(piece, Recorded)
                )
                trial = Trial(
                    trial_id=name,
                    probe=probe.name,
                    condition=condition.name,
                    meant=condition.meant(variant) if condition.meant else (),
                    recorded=first_with.setdefault(recorded, name) if recorded else "",
                )
                scripts.append(TrialScript(trial, lines))
    return scripts
