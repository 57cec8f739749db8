"""Types for the description and the value of a published metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

__all__ = ["MetricDefinition", "MetricValue", "mean_value"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue:
    """A metric's value as defined by its source, and with the source's known defects corrected.

    Args:
        as_defined: Value according to the source's definition, or None.
        corrected: Corrected value, or None.
        n: Number of events behind `as_defined`.
        n_corrected: Number of events behind `corrected`.
        why: Reason for a missing value, and effect of the correction on these events; may be empty.
    """

    as_defined: float | None
    corrected: float | None
    n: int
    n_corrected: int
    why: str = ""

    @property
    def difference(self) -> float | None:
        """The corrected value minus the value as defined; None if either is missing."""
        if self.as_defined is None or self.corrected is None:
            return None
        return self.corrected - self.as_defined

    def as_json(self) -> dict[str, Any]:
        """Return the fields and the difference as JSON values."""
        values = {"as_defined": self.as_defined, "corrected": self.corrected, "difference": self.difference}
        return {**values, "n": self.n, "n_corrected": self.n_corrected, "why": self.why}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDefinition:
    """The description of a metric.

    Args:
        name: Name in live-eval; a turn-taking metric begins with its source, such as ``tau2.L_R``.
        source: Location of the definition: repository and, if known, revision and file.
        means: Phrase that describes the measured quantity.
        unit: Unit (``s``, ``ms``, ``1/s``); empty for a share or a score.
        better: Better direction.
        corrects: Effect of the correction; empty if there is none.
    """

    name: str
    source: str
    means: str
    unit: str = ""
    better: Literal["lower", "higher"]
    corrects: str = ""


def mean_value(
    as_defined: Sequence[float], corrected: Sequence[float], *, missing: str, why: str = ""
) -> MetricValue:
    """Return the means of event values (booleans for a rate), as defined and corrected.

    Args:
        missing: Reason to give if there are no events.
        why: Effect of the correction.

    >>> mean_value([True, False], [], missing="no interruption").as_defined
    0.5
    """
    if not as_defined and not corrected:
        why = missing
    elif not corrected or not as_defined:
        which = "as defined" if not as_defined else "corrected"
        why = f"{which}: {missing}" + (f"; {why}" if why else "")
    return MetricValue(
        as_defined=fmean(as_defined) if as_defined else None,
        corrected=fmean(corrected) if corrected else None,
        n=len(as_defined),
        n_corrected=len(corrected),
        why=why,
    )
