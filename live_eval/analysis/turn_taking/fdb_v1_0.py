"""Compute the metrics of Full-Duplex-Bench v1: takeover rate (TOR), latency and backchannels.

Source: Full-Duplex-Bench d7336bd, ``v1_v1.5/evaluation/eval_pause_handling.py``,
``eval_smooth_turn_taking.py``, ``eval_user_interruption.py``, ``eval_backchannel.py``, and
``v1_v1.5/get_transcript/asr.py``. In the source, word timestamps come from a recogniser. Here, a response's
words are spread evenly over its audible parts; without a transcript, only the duration is used. The source's
JSD has no metric here, because it needs distributions of human backchannels.

Each exchange is one sample. An exchange that begins while the agent speaks is a user interruption. Any other
exchange is a sample of smooth turn-taking and of backchannels, and of pause handling if the user pauses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from live_eval.analysis.metric_definition import MetricDefinition, MetricValue, mean_value
from live_eval.analysis.turn_taking.speech import (
    AgentSegment,
    AgentSpeech,
    Conversation,
    Exchange,
    agent_segments,
    answer_to,
    exchanges,
)

__all__ = ["DEFINITIONS", "metrics", "takes_turn", "words_within"]

SOURCE = "Full-Duplex-Bench d7336bd, v1_v1.5/evaluation/eval_*.py"

_TURN_NS = 1_000_000_000  # turn_duration_threshold
_TURN_WORDS = 3  # turn_num_words_threshold
_LONGEST_BACKCHANNEL_NS = 3_000_000_000  # time_threshold
_BACKCHANNEL_WORDS = 2

_NEW_REPLY = "only a new reply counts, not the rest of the interrupted one"
_ANSWER = "speech that ends before the user's turn is not an answer"

DEFINITIONS = (
    MetricDefinition(
        name="fdb_v1.0.pause_handling.TOR",
        source=SOURCE,
        means="share of turns with pauses that the agent takes over before they end",
        better="lower",
        corrects="a reply created before the end of the turn counts even if it is heard later",
    ),
    MetricDefinition(
        name="fdb_v1.0.smooth_turn_taking.TOR",
        source=SOURCE,
        means="share of turns that the agent takes over",
        better="higher",
    ),
    MetricDefinition(
        name="fdb_v1.0.smooth_turn_taking.latency",
        source=SOURCE,
        means="mean time from the end of the turn to the agent's first audio, if it takes over",
        unit="s",
        better="lower",
        corrects=f"{_ANSWER}; negative latencies stay negative (the source clamps them to 0)",
    ),
    MetricDefinition(
        name="fdb_v1.0.user_interruption.TOR",
        source=SOURCE,
        means="share of interruptions after which the agent takes the turn",
        better="higher",
        corrects=f"{_NEW_REPLY}, so an agent that never stops does not succeed",
    ),
    MetricDefinition(
        name="fdb_v1.0.user_interruption.latency",
        source=SOURCE,
        means="mean time from the end of the interruption to the agent's first audio, if it takes over",
        unit="s",
        better="lower",
        corrects=f"{_NEW_REPLY}; {_ANSWER}; negative latencies stay negative",
    ),
    MetricDefinition(
        name="fdb_v1.0.backchannel.TOR",
        source=SOURCE,
        means="share of turns during which the agent takes over instead of listening",
        better="lower",
        corrects="any segment that takes over counts (in the source, only the last one)",
    ),
    MetricDefinition(
        name="fdb_v1.0.backchannel.frequency",
        source=SOURCE,
        means="mean number of backchannels per second of the user's turns",
        unit="1/s",
        better="higher",
        corrects="only backchannels count (the source counts every segment before one of more than 3 s)",
    ),
)


_MISSING = {
    "pause_handling.TOR": "no turn with pauses",
    "smooth_turn_taking.TOR": "no turn",
    "smooth_turn_taking.latency": "no turn taken over",
    "user_interruption.TOR": "no interruption",
    "user_interruption.latency": "no interruption taken over",
    "backchannel.TOR": "no turn",
    "backchannel.frequency": "no turn",
}

_Samples: TypeAlias = dict[str, list[float]]
"""The values of each metric's samples."""


def takes_turn(duration_ns: int, words: int) -> bool:
    """Return whether speech of this length and number of words takes the turn (TOR 1).

    >>> takes_turn(900_000_000, 3), takes_turn(900_000_000, 4), takes_turn(1_000_000_000, 1)
    (False, True, True)
    """
    return duration_ns >= _TURN_NS or words > _TURN_WORDS


def _is_backchannel(duration_ns: int, words: int) -> bool:
    """Return whether an agent segment is a backchannel.

    >>> _is_backchannel(900_000_000, 2), _is_backchannel(900_000_000, 3), _is_backchannel(1_000_000_000, 1)
    (True, False, False)
    """
    return duration_ns < _TURN_NS and words <= _BACKCHANNEL_WORDS


def words_within(response: AgentSpeech, start_ns: int, end_ns: int) -> int:
    """Return the number of a response's words between two times, spread evenly over its audible parts."""
    total = sum(end - start for start, end in response.sounds)
    inside = sum(max(0, min(end, end_ns) - max(start, start_ns)) for start, end in response.sounds)
    return round(len(response.text.split()) * inside / total) if total else 0


def metrics(conversations: Sequence[Conversation]) -> dict[str, MetricValue]:
    """Compute the source's metrics, by name: latencies in seconds, frequencies per second."""
    defined: _Samples = {name: [] for name in _MISSING}
    corrected: _Samples = {name: [] for name in _MISSING}
    for conversation in conversations:
        for turn in exchanges(conversation, agent_segments(conversation)):
            if turn.over is not None:
                _add_interruption(turn, conversation, defined, corrected)
                continue
            if turn.speech.pauses:
                _add_pauses(turn, conversation, defined, corrected)
            _add_turn(turn, defined, corrected)
            _add_backchannels(turn, conversation, defined, corrected)
    early = sum(latency < 0 for latency in corrected["smooth_turn_taking.latency"])
    kept = round(sum(defined["user_interruption.TOR"]) - sum(corrected["user_interruption.TOR"]))
    kept_on = f"taken over only by the interrupted reply: {kept}" if kept else ""
    why = {
        "smooth_turn_taking.latency": f"negative latencies clamped by the source: {early}" if early else "",
        "user_interruption.TOR": kept_on,
        "user_interruption.latency": kept_on,
    }
    return {
        name: mean_value(defined[name], corrected[name], missing=missing, why=why.get(name, ""))
        for name, missing in _MISSING.items()
    }


def _add_pauses(turn: Exchange, conversation: Conversation, defined: _Samples, corrected: _Samples) -> None:
    end_ns = turn.speech.end_ns
    heard = _takes(each for each in turn.agent if each.start_ns < end_ns)
    created = any(
        response.sounds
        and response.created_ns is not None
        and turn.speech.start_ns <= response.created_ns < end_ns
        for response in conversation.agent
    )
    defined["pause_handling.TOR"].append(heard)
    corrected["pause_handling.TOR"].append(heard or created)


def _add_turn(turn: Exchange, defined: _Samples, corrected: _Samples) -> None:
    takes = _takes(turn.agent)
    defined["smooth_turn_taking.TOR"].append(takes)
    corrected["smooth_turn_taking.TOR"].append(takes)
    if not takes:
        return
    end_ns, answer = turn.speech.end_ns, answer_to(turn)
    defined["smooth_turn_taking.latency"].append(max(0, turn.agent[0].start_ns - end_ns) / 1e9)
    if answer is not None:
        corrected["smooth_turn_taking.latency"].append((answer.start_ns - end_ns) / 1e9)


def _add_interruption(
    turn: Exchange, conversation: Conversation, defined: _Samples, corrected: _Samples
) -> None:
    end_ns, until_ns = turn.speech.end_ns, turn.until_ns
    # The source's recogniser gets only the output after the end of the interruption.
    after = [
        (max(start, end_ns), min(end, until_ns), response)
        for response in conversation.agent
        for start, end in response.sounds
        if end > end_ns and start < until_ns
    ]
    words = sum(words_within(response, start, end) for start, end, response in after)
    first = min((start for start, _, _ in after), default=0)
    takes = bool(after) and takes_turn(max(end for _, end, _ in after) - first, words)
    defined["user_interruption.TOR"].append(takes)
    if takes:
        defined["user_interruption.latency"].append((first - end_ns) / 1e9)
    new = [each for each in turn.agent if turn.over is None or each.response is not turn.over.response]
    corrected["user_interruption.TOR"].append(_takes(new))
    answer = answer_to(turn)
    if corrected["user_interruption.TOR"][-1] and answer is not None:
        corrected["user_interruption.latency"].append((answer.start_ns - end_ns) / 1e9)


def _add_backchannels(
    turn: Exchange,
    conversation: Conversation,
    defined: _Samples,
    corrected: _Samples,
) -> None:
    start_ns, end_ns = turn.speech.start_ns, turn.speech.end_ns
    segments = sorted(
        (sound, words_within(response, *sound))
        for response in conversation.agent
        for sound in response.sounds
        if start_ns <= sound.start_ns < end_ns
    )
    takes, counted = False, []
    for sound, words in segments:
        if sound.end_ns - sound.start_ns > _LONGEST_BACKCHANNEL_NS:
            takes = True
            break
        takes = not _is_backchannel(sound.end_ns - sound.start_ns, words)
        counted.append(sound)
    backchannels = [
        sound for sound, words in segments if _is_backchannel(sound.end_ns - sound.start_ns, words)
    ]
    defined["backchannel.TOR"].append(takes)
    corrected["backchannel.TOR"].append(len(backchannels) < len(segments))
    seconds = (end_ns - start_ns) / 1e9
    defined["backchannel.frequency"].append(len(counted) / seconds)
    corrected["backchannel.frequency"].append(len(backchannels) / seconds)


def _takes(segments: Iterable[AgentSegment]) -> bool:
    all_ = list(segments)
    if not all_:
        return False
    words = sum(words_within(each.response, each.start_ns, each.end_ns) for each in all_)
    return takes_turn(max(each.end_ns for each in all_) - all_[0].start_ns, words)
