"""A judge in a separate package: the share of fillers (um, uh, you know) among the reply's words."""

import re
from collections.abc import Sequence

from live_eval.judges.toolkit import unreadable
from live_eval.judging import (
    JudgedTurn,
    JudgeKind,
    Judgement,
    JudgeSpec,
    Need,
    OptionSpec,
    OutputSpec,
    Scored,
)

SPEC = JudgeSpec(
    name="filler_words",
    version="1",  # change the version whenever scores may change: scores are stored by version
    title="filler words in the reply's transcript",
    kind=JudgeKind.LOCAL,
    implementation="filler_words:FillerWords",
    outputs=(
        OutputSpec(name="", title="filler words", unit="%", low=0.0, high=100.0, higher_is_better=False),
    ),
    needs=frozenset({Need.REPLY_TEXT}),
    options=(OptionSpec(name="fillers", help="words that count, comma-separated", default="um,uh,er,hmm"),),
)


class FillerWords:
    """Share of the reply's words that are fillers, in percent.

    Args:
        fillers: Comma-separated filler words. Options are always passed as text.
    """

    def __init__(self, *, fillers: str) -> None:
        self._fillers = {word.strip().casefold() for word in fillers.split(",")}

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        """Return one judgement for each turn, in order."""
        return [unreadable(turn) or self._judge(turn.reply_text or "") for turn in batch]

    def _judge(self, reply: str) -> Judgement:
        words = re.findall(r"\w+", reply.casefold())
        found = [word for word in words if word in self._fillers]
        return Scored({"": 100 * len(found) / len(words)}, {"words": len(words), "fillers": found})
