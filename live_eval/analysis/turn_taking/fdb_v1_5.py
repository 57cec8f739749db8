"""Compute the latencies of Full-Duplex-Bench v1.5: until the agent stops, and until it answers.

Source: Full-Duplex-Bench d7336bd, ``v1_v1.5/evaluation/get_timing.py``. The source detects segments with
Silero VAD, and joins user segments across gaps of up to 0.6 s and model segments across gaps of up to 0.5 s.
Here, segments are the exact audible parts. The source's behaviour classes (RESPOND, RESUME,
UNCERTAIN_HANDLING, UNKNOWN) are assigned by a language model and have no metric here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from live_eval.analysis.metric_definition import MetricDefinition, MetricValue, mean_value
from live_eval.analysis.turn_taking.speech import Conversation, Stretch, agent_segments, answer_to, exchanges

__all__ = [
    "DEFINITIONS",
    "joined",
    "metrics",
    "overlaps",
    "response_gaps",
]

SOURCE = "Full-Duplex-Bench d7336bd, v1_v1.5/evaluation/get_timing.py"
_USER_GAP_NS = 600_000_000
"""The longest gap across which user segments are joined."""
_MODEL_GAP_NS = 500_000_000
"""The longest gap across which model segments are joined."""

_STOP_NS = 2_000_000_000  # a later stop does not count as a stop: cekura-bench, service/metrics.py

DEFINITIONS = (
    MetricDefinition(
        name="fdb_v1.5.stop_latency",
        source=SOURCE,
        means="mean length of the overlaps of the user and the agent",
        unit="s",
        better="lower",
        corrects="the latency is the time from the user's onset until the agent stops, for interruptions "
        "that stop it within 2 s or before the user has finished; interruptions that never stop it (the "
        "source counts the utterance's length), natural ends and speech that expects no answer are excluded",
    ),
    MetricDefinition(
        name="fdb_v1.5.response_latency",
        source=SOURCE,
        means="mean time from the end of the user's speech to the next start of the agent",
        unit="s",
        better="lower",
        corrects="only turns that expect an answer count; a reply that begins before the user has finished "
        "and continues counts, with a negative latency",
    ),
)


def joined(stretches: Iterable[Stretch], gap_ns: int) -> list[Stretch]:
    """Sort segments and join them across gaps of at most `gap_ns`."""
    found: list[Stretch] = []
    for start, end in sorted(stretches):
        if found and start - found[-1].end_ns <= gap_ns:
            found[-1] = Stretch(found[-1].start_ns, max(found[-1].end_ns, end))
        else:
            found.append(Stretch(start, end))
    return found


def overlaps(user: Sequence[Stretch], model: Sequence[Stretch]) -> list[Stretch]:
    """Return the overlaps of two joined tracks (``latency_stop_list``): the shortest one for each end."""
    shortest: dict[int, Stretch] = {}
    i = j = 0
    while i < len(user) and j < len(model):
        both = Stretch(max(user[i].start_ns, model[j].start_ns), min(user[i].end_ns, model[j].end_ns))
        known = shortest.get(both.end_ns)
        if both.end_ns > both.start_ns and (known is None or both.start_ns > known.start_ns):
            shortest[both.end_ns] = both
        if user[i].end_ns < model[j].end_ns:
            i += 1
        else:
            j += 1
    return sorted(shortest.values(), key=lambda each: each.end_ns)


def response_gaps(user: Sequence[Stretch], model: Sequence[Stretch]) -> list[Stretch]:
    """Return the gap between each merged user segment and the next model segment (``latency_resp_list``).

    If several user segments precede the same model segment, the last one is used.
    """
    gaps: dict[int, Stretch] = {}
    for segment in user:
        start_ns = next((each.start_ns for each in model if each.start_ns > segment.end_ns), None)
        if start_ns is not None:
            gaps[start_ns] = Stretch(segment.end_ns, start_ns)
    return list(gaps.values())


def metrics(conversations: Sequence[Conversation]) -> dict[str, MetricValue]:
    """Compute the source's two latencies in seconds, by name."""
    stops, stops_corrected, responses, responses_corrected = [], [], [], []
    never = natural = early = 0
    for conversation in conversations:
        user = joined((each for speech in conversation.user for each in speech.sounds), _USER_GAP_NS)
        model = joined((each for speech in conversation.agent for each in speech.sounds), _MODEL_GAP_NS)
        stops += [_seconds(each) for each in overlaps(user, model)]
        responses += [_seconds(each) for each in response_gaps(user, model)]
        for turn in exchanges(conversation, agent_segments(conversation)):
            start_ns, end_ns = turn.speech.start_ns, turn.speech.end_ns
            if turn.over is not None and turn.over.end_ns >= max(end_ns, start_ns + _STOP_NS):
                never += 1
            elif turn.over is not None and turn.over.natural_end:
                natural += 1
            elif turn.over is not None:
                stops_corrected.append((turn.over.end_ns - start_ns) / 1e9)
            reply = answer_to(turn)
            if reply is not None:
                responses_corrected.append((reply.start_ns - end_ns) / 1e9)
                early += reply.start_ns <= end_ns
    counts = (("never stopped, excluded", never), ("natural ends excluded", natural))
    excluded = "; ".join(f"{what}: {count}" for what, count in counts if count)
    added = f"early replies that the source excludes: {early}" if early else ""
    yielded = "no overlap that the agent yields to"
    return {
        "stop_latency": mean_value(stops, stops_corrected, missing=yielded, why=excluded),
        "response_latency": mean_value(responses, responses_corrected, missing="no reply", why=added),
    }


def _seconds(stretch: Stretch) -> float:
    return (stretch.end_ns - stretch.start_ns) / 1e9
