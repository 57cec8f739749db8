"""Compute the scores of HumDial's full-duplex track: weighted total and delays.

Source: HumDial-FDBench (ASLP-lab) 566f50d, ``Full-Duplex_Interaction/evaluation/readme.txt`` and
``interruption/compute_first_response_delay.py``; the delay score is from the challenge's results page
(ASLP-lab/HumDial-Challenge, ``content/track2/results.md``). The behaviour classes are inputs here. In the
source, a language model assigns them from the transcripts of a clean and a disturbed dialogue.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from live_eval.analysis.metric_definition import MetricDefinition, MetricValue, mean_value
from live_eval.analysis.turn_taking import fdb_v1_5
from live_eval.analysis.turn_taking.speech import Conversation, agent_segments, answer_to, exchanges

__all__ = [
    "DEFINITIONS",
    "INTERRUPTIONS",
    "REJECTIONS",
    "behaviour_score",
    "delay_score",
    "metrics",
    "total_score",
]

SOURCE = "HumDial-FDBench 566f50d, Full-Duplex_Interaction/evaluation/"

INTERRUPTIONS = (
    "Follow-up Questions",
    "Negation/Dissatisfaction",
    "Repetition Requests",
    "Topic Switching",
    "Silence/Termination",
)
"""The scenes in which the agent should respond to the user (class C_RESPOND)."""
REJECTIONS = (
    "User Real-time Backchannels",
    "Pause Handling",
    "Third-party Speech",
    "Speech Directed at Others",
)
"""The scenes in which the agent should continue (class C_RESUME)."""

_WEIGHTS = (0.4, 0.4, 0.2)
_BASELINE_SCORE = 60.0

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
    MetricDefinition(
        name="humdial.total_score",
        source=SOURCE,
        means="0.4 interruption + 0.4 rejection + 0.2 delay score, 0 to 100; needs behaviour classes",
        better="higher",
        corrects="the corrected delay is used",
    ),
)


def behaviour_score(
    behaviours: Mapping[str, Sequence[str]], scenes: Sequence[str], wanted: str
) -> float | None:
    """Return the share of a behaviour class, averaged over scenes, 0 to 100; None if a scene is missing.

    Args:
        behaviours: Class of each dialogue, such as ``C_RESPOND``, by scene.
        scenes: Scenes to average: `INTERRUPTIONS` or `REJECTIONS`.
        wanted: Desired class: ``C_RESPOND`` or ``C_RESUME``.
    """
    if not all(behaviours.get(scene) for scene in scenes):
        return None
    return 100 * fmean(fmean(each == wanted for each in behaviours[scene]) for scene in scenes)


def delay_score(delay_s: float, fastest_s: float, baseline_s: float) -> float:
    """Return the score of a positive delay: 100 for the fastest system, 60 for the baseline, logarithmic.

    >>> round(delay_score(1.260, 0.624, 2.531), 1)
    79.9
    """
    share = math.log(delay_s / fastest_s) / math.log(baseline_s / fastest_s)
    return 100 - (100 - _BASELINE_SCORE) * share


def total_score(
    behaviours: Mapping[str, Sequence[str]], delay: MetricValue, *, fastest_s: float, baseline_s: float
) -> MetricValue:
    """Return the total score, 0 to 100.

    Args:
        behaviours: Class of each dialogue, by scene.
        delay: Total delay, from `metrics`.
        fastest_s: Smallest total delay among the compared systems.
        baseline_s: Total delay of the baseline.
    """
    interruption = behaviour_score(behaviours, INTERRUPTIONS, "C_RESPOND")
    rejection = behaviour_score(behaviours, REJECTIONS, "C_RESUME")
    missing = [scene for scene in (*INTERRUPTIONS, *REJECTIONS) if not behaviours.get(scene)]
    n = sum(len(behaviours.get(scene, ())) for scene in (*INTERRUPTIONS, *REJECTIONS))

    def total(delay_s: float | None) -> float | None:
        if interruption is None or rejection is None or delay_s is None or delay_s <= 0:
            return None
        parts = (interruption, rejection, delay_score(delay_s, fastest_s, baseline_s))
        return sum(weight * part for weight, part in zip(_WEIGHTS, parts, strict=True))

    as_defined, corrected = total(delay.as_defined), total(delay.corrected)
    why = ""
    if missing:
        why = f"no dialogue in {', '.join(missing)}"
    elif as_defined is None or corrected is None:
        why = delay.why or "a total delay of 0 or less has no score"
    return MetricValue(as_defined=as_defined, corrected=corrected, n=n, n_corrected=n, why=why)


def metrics(conversations: Sequence[Conversation]) -> dict[str, MetricValue]:
    """Compute the delays in seconds, by name; for the total score, call `total_score`."""
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
    return {
        "first_response_delay": first,
        "total_delay": _total_delay(parts),
        "total_score": MetricValue(
            as_defined=None,
            corrected=None,
            n=0,
            n_corrected=0,
            why="needs behaviour classes from a language model: see humdial.total_score",
        ),
    }


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
