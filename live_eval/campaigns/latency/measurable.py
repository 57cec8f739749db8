"""Choose the recordings from which latencies can be measured."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from live_eval.errors import TurnError, UsageError
from live_eval.text.wording import counted
from live_eval.types import Case, SpeechBoundaries

__all__ = ["MeasurableCases", "choose_measurable"]

_DURATION = re.compile(r" for [0-9]+ ms")


@dataclass(frozen=True, slots=True)
class MeasurableCases:
    """The chosen cases, and notes on the others.

    Args:
        case_ids: Chosen cases, including cases with unusable recordings, whose turns will fail.
        notes: Notes for the user, one sentence each.
    """

    case_ids: frozenset[str]
    notes: Sequence[str]


def choose_measurable(
    cases: Sequence[Case], boundaries: Iterable[SpeechBoundaries | TurnError], turns: int
) -> MeasurableCases:
    """Return the first cases with a certain end of speech, at most one per turn.

    Args:
        cases: Distinct cases in the order of the run.
        boundaries: Speech boundaries of each case, or the reason why it cannot be run; read only until enough
            cases are found.

    Raises:
        UsageError: The end of speech is uncertain in every recording.
    """
    chosen: list[str] = []
    uncertain: Counter[str] = Counter()
    for case, found in zip(cases, boundaries, strict=False):
        if isinstance(found, SpeechBoundaries) and found.uncertain:
            uncertain[_DURATION.sub("", found.reason)] += 1
            continue
        chosen.append(case.case_id)
        if len(chosen) == turns:
            break
    reasons = "; ".join(f"{count}: {reason}" for reason, count in uncertain.most_common())
    if not chosen and uncertain:
        raise UsageError(
            f"expected a recording whose end of speech is certain, found none in "
            f"{counted(uncertain.total(), 'recording')} ({reasons}): latencies are measured from the end of "
            "speech; --uncertain runs these recordings"
        )
    return MeasurableCases(frozenset(chosen), tuple(_notes(len(chosen), uncertain.total(), reasons, turns)))


def _notes(chosen: int, uncertain: int, reasons: str, turns: int) -> Iterator[str]:
    if uncertain:
        yield (
            f"{uncertain} of {counted(chosen + uncertain, 'recording')} excluded, because the end of speech "
            f"is uncertain ({reasons}); --uncertain includes them"
        )
        if chosen < turns:
            certain = counted(chosen, "recording")
            yield f"the end of speech is certain in {certain}, which are repeated for {turns} turns"
