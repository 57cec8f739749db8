"""Compute the delays of HumDial's full-duplex track.

Source: HumDial-FDBench (ASLP-lab) 566f50d, ``Full-Duplex_Interaction/evaluation/readme.txt`` and
``interruption/compute_first_response_delay.py``. The source's scores also need behaviour classes, which a
language model assigns from the transcripts of a clean and a disturbed dialogue; they have no metric here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from live_eval.analysis.metric_definition import MetricDefinition, MetricValue, mean_value
from live_eval.analysis.turn_taking import fdb_v1_5
from live_eval.analysis.turn_taking.speech import Conversation, agent_segments, answer_to, exchanges

__all__ = ["DEFINITIONS", "metrics"]

SOURCE = "HumDial-FDBench 566f50d, Full-Duplex_Interaction/evaluation/"

DEFINITIONS = (
    MetricDefinition(
        name="humdial.first_response_delay",
        source=SOURCE,
        means="mean time from the end of a conversation's first turn to the agent's first audio",
        unit="s",
        better="lower",
        corrects="early replies count, with a negative delay (the source drops delays of 0 or less); "
        "speech that ends before the user's turn is not an answer",
    ),
    MetricDefinition(
        name="humdial.total_delay",
        source=SOURCE,
        means="mean of Full-Duplex-Bench v1.5's stop and response latency and the first response delay",
        unit="s",
        better="lower",
        corrects="the mean of the three corrected latencies is used",
    ),
)


def metrics(conversations: Sequence[Conversation]) -> dict[str, MetricValue]:
    """Compute the delays in seconds, by name."""
    delays: list[float] = []
    answers: list[float] = []
    for conversation in conversations:
        turns = exchanges(conversation, agent_segments(conversation))
        turn = next((each for each in turns if each.over is None), None)
        if turn is None or not turn.agent:
            continue
        answer = answer_to(turn)
        delays.append((turn.agent[0].start_ns - turn.speech.end_ns) / 1e9)
        if answer is not None:
            answers.append((answer.start_ns - turn.speech.end_ns) / 1e9)
    positive = [each for each in delays if each > 0]
    dropped = len(delays) - len(positive)
    first = mean_value(
        positive,
        answers,
        missing="no reply",
        why=f"early replies that the source drops: {dropped}" if dropped else "",
    )
    parts = {"first_response_delay": first, **fdb_v1_5.metrics(conversations)}
    return {"first_response_delay": first, "total_delay": _total_delay(parts)}


def _total_delay(parts: Mapping[str, MetricValue]) -> MetricValue:
    defined = [part.as_defined for part in parts.values() if part.as_defined is not None]
    corrected = [part.corrected for part in parts.values() if part.corrected is not None]
    missing = [name for name, part in parts.items() if part.as_defined is None or part.corrected is None]
    return MetricValue(
        as_defined=fmean(defined) if len(defined) == len(parts) else None,
        corrected=fmean(corrected) if len(corrected) == len(parts) else None,
        n=sum(part.n for part in parts.values()),
        n_corrected=sum(part.n_corrected for part in parts.values()),
        why=f"no {', '.join(missing)}" if missing else "",
    )
