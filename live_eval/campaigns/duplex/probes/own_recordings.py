"""Create probes from user recordings: annotated recordings of any kind, and speakers who pause.

Manifest columns annotate how the endpoint should treat a recording (``speech``), when it begins (``anchor``)
and which parts are audible (``parts``). Unannotated pauses are detected, except in utterances that the
endpoint should answer, for which only annotations are used. Recordings are streamed unchanged, except for
benchmarks' excerpts, which are cut from theirs; a note reports how many have pauses that an endpoint may
mistake for the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from live_eval.analysis.turn_taking.outcomes import Rule, rule_of
from live_eval.audio import Audio, read_audio
from live_eval.campaigns.duplex.probes.bundled import EXPRESSIVE_PAUSE
from live_eval.campaigns.duplex.probes.probe import Condition, Probe, sessions_of
from live_eval.campaigns.duplex.stimuli import Line, Recorded
from live_eval.data import DataSet
from live_eval.errors import DataError, TurnError
from live_eval.speech.boundaries import BoundaryCache, case_boundaries
from live_eval.speech.voice_activity import VAD_RATE_HZ, WINDOW_SAMPLES, speech_probabilities
from live_eval.text.wording import counted
from live_eval.types import Anchor, AnchorKind, Case, SpeechBoundaries, SpeechKind, SpokenPart

__all__ = [
    "OWN",
    "expressive_probe",
    "inner_parts",
    "note_on_pauses",
    "own_probe",
]

OWN = "own"
"""Name of the probe for a user's annotated recordings."""

_EXPRESSIVE_CUES = ("sobbing", "vocal fatigue", "breathless", "sad", "sigh", "yawn", "moan", "slow pace")
"""EchoMind's cues for speakers who may pause."""

_LEAST_PAUSE_MS = 400
"""The shortest silence that counts as an expressive pause."""

_FLUENT_MS = 200
"""The longest silence within an utterance that no common detector treats as the end of a turn."""

_SPEECH = 0.5
_WINDOW_NS = WINDOW_SAMPLES * 1_000_000_000 // VAD_RATE_HZ


def own_probe(data: DataSet) -> Probe:
    """Return the probe for a data set's annotated dialogues and recordings.

    Raises:
        DataError: The data set has no annotations.
    """
    groups: dict[str, list[tuple[Line, ...]]] = {}
    cache = BoundaryCache()
    for cases in _sessions(data.cases):
        if any(_annotated(case) for case in cases):
            lines = tuple(_line(case) for case in _with_parts(cases, cache))
            groups.setdefault(_named(cases), []).append(lines)
    if not groups:
        problem = next((f"; {case.problem}" for case in data.cases if case.problem), "")
        raise DataError(
            f"{data.root}: expected recordings with the annotations speech, anchor or parts, found none "
            f"among {len(data.cases)}: docs/reference/data-formats.md describes these columns{problem}"
        )
    return Probe(
        OWN,
        "Your own annotated recordings.",
        tuple(Condition(name, _nth(lines), len(lines), every_variant=True) for name, lines in groups.items()),
    )


def expressive_probe(data: DataSet) -> Probe:
    """Return the probe for speakers who pause, built from the data set's recordings with a suitable cue.

    Unannotated pauses are detected by voice activity in steps of 32 ms; recordings without pauses are
    excluded.

    Raises:
        DataError: No recording with a suitable cue has a pause.
    """
    groups: dict[str, list[tuple[Line, ...]]] = {}
    cache = BoundaryCache()
    for case in data.cases:
        cue = case.cue.attribute if case.cue is not None else None
        if cue in _EXPRESSIVE_CUES and case.problem is None and case.dialogue_id is None:
            parts = case.parts or _found_parts(case, cache, _LEAST_PAUSE_MS)
            if len(parts) > 1:
                groups.setdefault(cue or "", []).append((_line(replace(case, parts=parts)),))
    if not groups:
        raise DataError(
            f"{data.root}: expected recordings of speakers who pause for {_LEAST_PAUSE_MS} ms or more "
            f"({', '.join(_EXPRESSIVE_CUES)}), found none"
        )
    return Probe(
        EXPRESSIVE_PAUSE.name,
        "Recordings of speakers who pause because of an emotion or fatigue.",
        tuple(Condition(cue, _nth(lines), len(lines), every_variant=True) for cue, lines in groups.items()),
    )


def note_on_pauses(probes: Iterable[Probe]) -> str:
    """Return a note on recordings with pauses that their probe does not measure; an empty string without any.

    An endpoint whose detector waits less than such a pause answers during it and appears to interrupt.
    """
    longest_ns: dict[Path, int] = {}
    for lines in sessions_of(probes):
        for line in lines:
            for piece in line.pieces:
                if isinstance(piece, Recorded) and (line is not lines[-1] or _over_reply(line.anchor)):
                    pauses = (after.onset_ns - before.end_ns for before, after in pairwise(piece.parts))
                    longest_ns[piece.path] = max(pauses, default=0)
    paused = [each for each in longest_ns.values() if each > _FLUENT_MS * 1_000_000]
    if not paused:
        return ""
    return (
        f"{len(paused)} of {counted(len(longest_ns), 'recording')} with a pause of more than "
        f"{_FLUENT_MS} ms, up to {max(paused) / 1e6:.0f} ms: an endpoint that ends turns sooner answers in "
        "the pause, which counts as an interruption of the user"
    )


def inner_parts(
    audio: Audio, boundaries: SpeechBoundaries, least_ms: int = _LEAST_PAUSE_MS
) -> tuple[SpokenPart, ...]:
    """Return the speech segments between the pauses of a recording, from the onset to the end of speech.

    Silences shorter than `least_ms` are not pauses.
    """
    gain = 0.1 / max(1e-6, float(np.sqrt(np.mean(audio.samples.astype(np.float64) ** 2))))
    louder = Audio(np.clip(audio.samples * np.float32(gain), -1, 1), audio.rate_hz)
    spoken = np.flatnonzero(speech_probabilities(louder) > _SPEECH)
    pauses = [
        (int(before + 1) * _WINDOW_NS, int(after) * _WINDOW_NS)
        for before, after in pairwise(spoken)
        if (after - before - 1) * _WINDOW_NS >= least_ms * 1_000_000
    ]
    begin_ns, end_ns = boundaries.onset_ns, boundaries.voice_end_ns
    inside = [pause for pause in pauses if begin_ns < pause[0] and pause[1] < end_ns]
    bounds = [begin_ns, *(bound for pause in inside for bound in pause), end_ns]
    return tuple(SpokenPart(bounds[at], bounds[at + 1]) for at in range(0, len(bounds), 2))


def _with_parts(cases: Sequence[Case], cache: BoundaryCache) -> Iterator[Case]:
    """Yield a session's cases, with parts added to those that are not judged by their pauses."""
    for case in cases:
        cut = case.item is not None and case.item.details.get("excerpt")
        if not case.parts and not cut and (case is not cases[-1] or _over_reply(case.anchor)):
            parts = _found_parts(case, cache, _FLUENT_MS)
            yield replace(case, parts=parts) if len(parts) > 1 else case
        else:
            yield case


def _over_reply(anchor: Anchor | None) -> bool:
    return anchor is not None and anchor.kind is AnchorKind.REPLY_AUDIBLE


def _found_parts(case: Case, cache: BoundaryCache, least_ms: int) -> tuple[SpokenPart, ...]:
    """Return the parts of a recording; empty if the file cannot be read."""
    try:
        audio = read_audio(case.audio_path).audio
        return inner_parts(audio, case_boundaries(case, audio, cache=cache), least_ms)
    except TurnError:
        return ()


def _sessions(cases: Iterable[Case]) -> Iterator[list[Case]]:
    """Yield the valid cases of each dialogue and of each single recording."""
    sessions: dict[tuple[str, bool], list[Case]] = {}
    for case in cases:
        key = (case.dialogue_id or case.case_id, case.dialogue_id is None)
        sessions.setdefault(key, []).append(case)
    for session in sessions.values():
        if all(case.problem is None for case in session):
            yield sorted(session, key=lambda case: case.turn_index)


def _annotated(case: Case) -> bool:
    return case.speech is not SpeechKind.TURN or case.anchor is not None or bool(case.parts)


def _named(cases: Sequence[Case]) -> str:
    """Return the name of a session's condition: a benchmark's part, or the behaviour and its timing."""
    last = cases[-1]
    if last.item is not None:
        return last.item.part
    rule = rule_of(cases)
    what = rule.value if rule in (Rule.ANSWER, Rule.PAUSE, Rule.INTERRUPTION) else last.speech.value
    return f"{what}, {last.anchor}" if last.anchor is not None else what


def _line(case: Case) -> Line:
    excerpt = case.item is not None and bool(case.item.details.get("excerpt"))
    parts = () if excerpt else case.parts
    recorded = Recorded(case.audio_path, case.text or "", case.boundaries, parts, excerpt)
    return Line(pieces=(recorded,), speech=case.speech, anchor=case.anchor, reply=case.reference_text or "")


def _nth(lines: Sequence[tuple[Line, ...]]) -> Callable[[int], tuple[Line, ...]]:
    return lambda variant: lines[variant]
