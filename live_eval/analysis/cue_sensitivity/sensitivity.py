"""Measure the cue sensitivity of a run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from live_eval.analysis.cue_sensitivity.effects import (
    FEWEST_SCRIPTS,
    NEIGHBOURS,
    PERMUTATIONS,
    Effect,
    ScriptEffect,
    effect_over,
    scripts_of,
    usable_scripts,
    why_too_few,
)
from live_eval.analysis.cue_sensitivity.measures import (
    COMPONENTS,
    Embedder,
    Measure,
    Reply,
    compared_judges,
    read_measures,
    words_of,
)
from live_eval.analysis.statistics.paired import holm
from live_eval.analysis.summary.score_table import ScoreTable, run_scores
from live_eval.judging import JudgeRole
from live_eval.recording import RunReader, TurnRecord
from live_eval.registry import judges_with
from live_eval.text.wording import counted
from live_eval.types import Task

__all__ = [
    "CollectedReplies",
    "CueSensitivity",
    "collect_replies",
    "cue_sensitivity",
    "reply_in",
    "sensitivity_of",
]

_OTHER_TASK = "not a conversation"
_DIALOGUE = "a turn of a dialogue"
_CUT_OFF = (
    "the endpoint began to respond before the recording had ended, so the reply may answer only its last part"
)
_PROMPT_DIFFERS = (
    "the session's prompt differs between the styles of the script: run with --prompt no or basic"
)


@dataclass(frozen=True, slots=True)
class CueSensitivity:
    """The effects of the voice on a run's replies.

    Args:
        run: Run folder.
        overall: Effect measured by all components together.
        components: Names of the components.
        attributes: Overall effect for each script attribute, with Holm-corrected p.
        left_out: Number of excluded turns, by reason.
        replies: Number of included replies.
    """

    run: str
    seed: int
    overall: Effect
    components: tuple[str, ...]
    measures: Mapping[str, Effect]
    attributes: Mapping[str, Effect]
    left_out: Mapping[str, int]
    replies: int
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the effects as printed by ``cue-sensitivity --json``."""
        return {
            "run": self.run,
            "seed": self.seed,
            "overall": self.overall.as_json() | {"components": list(self.components)},
            "measures": {name: effect.as_json() for name, effect in self.measures.items()},
            "attributes": {name: effect.as_json() for name, effect in self.attributes.items()},
            "left_out": dict(self.left_out),
            "replies": self.replies,
            "permutations": PERMUTATIONS,
            "notes": list(self.notes),
        }

    def summary_json(self) -> dict[str, Any]:
        """Return the overall effect as printed by ``show --json``."""
        return self.overall.as_json() | {
            "components": list(self.components),
            "in_words": self.overall.in_words,
            "notes": self.remarks,
        }

    @property
    def remarks(self) -> list[str]:
        """The notes on a conclusion, if there is one, and the excluded conversations."""
        notes = self.notes if self.overall.p is not None else ()
        return [*notes, *self.exclusions({_OTHER_TASK})]

    def exclusions(self, unmentioned: Collection[str] = ()) -> list[str]:
        """Return the number of excluded turns, in words, by reason."""
        return [
            f"{counted(count, 'turn')} excluded: {reason}"
            for reason, count in self.left_out.items()
            if reason not in unmentioned
        ]


def cue_sensitivity(
    run: RunReader,
    *,
    embedder: Embedder | None = None,
    no_embedder: str = "no model",
    seed: int = 0,
) -> CueSensitivity:
    """Measure how much a run's replies depend on the user's voice.

    The run must contain each recording at least twice (``--repeat 2``). Prosody, emotion and cue scores
    provide further measures. Without an embedder, replies are compared word by word; `no_embedder` is the
    reason to report.
    """
    found = collect_replies(reply_in(turn) for turn in run.turns())
    table = run_scores(run)
    measured = sensitivity_of(
        found, table, run=str(run.path), embedder=embedder, no_embedder=no_embedder, seed=seed
    )
    return replace(measured, notes=(*measured.notes, *filter(None, [table.unread])))


def sensitivity_of(
    collected: CollectedReplies,
    table: ScoreTable,
    *,
    run: str,
    embedder: Embedder | None = None,
    no_embedder: str = "",
    seed: int = 0,
    overall_only: bool = False,
) -> CueSensitivity:
    """Measure the cue sensitivity of collected replies; see `cue_sensitivity`.

    Without `no_embedder`, no note states that replies are compared word by word.
    With `overall_only`, the effects by measure and by attribute are omitted, to save time and memory.
    """
    captured, left_out = collected.replies, dict(collected.left_out)
    replies = _same_prompt(captured)
    if len(replies) < len(captured):
        left_out[_PROMPT_DIFFERS] = len(captured) - len(replies)
    prompt_differs = usable_scripts(replies) < FEWEST_SCRIPTS <= usable_scripts(captured)

    compared = judges_with(JudgeRole.PROSODY) if overall_only else compared_judges()
    judges = {judge.name for judge in table.judges}.intersection(compared)
    rows = {
        (judge, reply.turn_id): row
        for reply in (replies if judges else ())
        for judge, row in table.rows.get(reply.turn_id, {}).items()
        if judge in judges and row.status == "scored"
    }
    measures = read_measures(replies, rows, embedder)
    components = [measure for measure in measures if measure.name in COMPONENTS]
    parts = [measure for measure in components if measure.measurable] or components
    together = _together(parts, replies, seed)
    measured = (together,) if overall_only else (together, *measures)
    scripts = scripts_of(measured, replies, seed=seed)
    effects = {
        measure.name: effect_over(
            found, _PROMPT_DIFFERS if prompt_differs else why_too_few(measure, replies), seed=seed
        )
        for measure, found in zip(measured, scripts, strict=True)
    }
    overall = effects.pop(together.name)
    compared_parts = tuple(measure.name for measure in parts)
    return CueSensitivity(
        run=run,
        seed=seed,
        overall=overall,
        components=compared_parts,
        measures=effects,
        attributes={} if overall_only else _by_attribute(scripts[0], replies, seed),
        left_out=left_out,
        replies=len(replies),
        notes=tuple(_notes(replies, compared_parts, embedder, no_embedder)),
    )


@dataclass(frozen=True, slots=True)
class CollectedReplies:
    """The captured replies outside dialogues, and the number of excluded turns by reason.

    Replies are sorted by name, so that random draws do not depend on completion order.
    """

    replies: tuple[Reply, ...]
    left_out: Mapping[str, int]

    @property
    def concern_conversations(self) -> bool:
        """Whether any turn, captured or not, is a conversation outside dialogues."""
        return bool(self.replies or self.left_out.keys() - {_OTHER_TASK, _DIALOGUE})


def reply_in(turn: TurnRecord) -> Reply | str:
    """Return the reply in a turn, or the reason why it is excluded."""
    case = turn.case
    if case.task is not Task.CONVERSATION:
        return _OTHER_TASK
    if case.dialogue_id is not None:  # the reply depends on earlier turns
        return _DIALOGUE
    if not turn.captured:
        return "the turn failed"
    if turn.timing.premature:
        return _CUT_OFF
    return Reply(
        turn.turn_id,
        case.script_id,
        case.source,
        case.variant,
        attribute=case.script_cue.name if case.script_cue is not None else None,
        text=(turn.reply_text or "").strip() or None,
        heard=turn.heard_text,
        instructions=case.instructions,
    )


def collect_replies(found: Iterable[Reply | str]) -> CollectedReplies:
    """Collect the replies, and count the exclusion reasons, from results of `reply_in`."""
    left_out: Counter[str] = Counter()
    replies: list[Reply] = []
    for each in found:
        if isinstance(each, str):
            left_out[each] += 1
        else:
            replies.append(each)
    return CollectedReplies(tuple(sorted(replies, key=lambda reply: reply.turn_id)), left_out)


def _same_prompt(replies: Sequence[Reply]) -> list[Reply]:
    """Return the replies to scripts for which every style used the same prompt.

    Otherwise, the prompt's effect could be mistaken for an effect of the voice.
    """
    instructions: dict[tuple[str, str], set[str]] = defaultdict(set)
    for reply in replies:
        instructions[reply.script_id, reply.source].add(reply.instructions)
    return [reply for reply in replies if len(instructions[reply.script_id, reply.source]) == 1]


def _together(measures: Sequence[Measure], replies: Sequence[Reply], seed: int) -> Measure:
    """Combine measures: average them after dividing each by its mean distance over the run."""
    scales = [_spread(measure, seed) for measure in measures]
    measurable = frozenset.intersection(*(measure.measurable for measure in measures))

    def distance(one: int, other: int) -> float:
        if len(measures) == 1:  # twice as fast
            return measures[0].distance(one, other) / scales[0]
        parts = [
            measure.distance(one, other) / scale for measure, scale in zip(measures, scales, strict=True)
        ]
        return sum(parts) / len(parts)

    needs = {what: count for measure in measures for what, count in measure.needs.items()}
    return Measure(
        "overall", "mean of the components, each divided by its scale", distance, measurable, needs
    )


def _spread(measure: Measure, seed: int) -> float:
    """Return the mean distance between random replies of the run; 1 if all replies are equal.

    Unlike the distance between replies to different scripts, it is not 0 if replies depend only on the voice.
    """
    places = sorted(measure.measurable)
    drawn = np.random.default_rng(seed).integers(0, max(1, len(places)), (len(places), NEIGHBOURS))
    distances = [
        measure.distance(place, places[number])
        for place, numbers in zip(places, drawn, strict=True)
        for number in numbers
        if places[number] != place
    ]
    return (float(np.mean(distances)) if distances else 0.0) or 1.0


def _by_attribute(scripts: Sequence[ScriptEffect], replies: Sequence[Reply], seed: int) -> dict[str, Effect]:
    written_for: dict[str, set[str]] = defaultdict(set)
    for reply in replies:
        if reply.attribute is not None:
            written_for[reply.attribute].add(reply.script_id)
    effects = {
        name: effect_over(
            [script for script in scripts if script.script_id in mine],
            f"fewer than {FEWEST_SCRIPTS} scripts",
            seed=seed,
        )
        for name, mine in sorted(written_for.items())
    }
    adjusted = holm([effect.p for effect in effects.values()])
    return {name: replace(effect, p=p) for (name, effect), p in zip(effects.items(), adjusted, strict=True)}


def _first(role: JudgeRole) -> str:
    """Return the first installed judge with a role, or else the role itself."""
    return next(iter(judges_with(role)), role.value)


def _notes(
    replies: Sequence[Reply], components: Sequence[str], embedder: Embedder | None, no_embedder: str
) -> list[str]:
    notes = []
    if components == (JudgeRole.PROSODY.value,):
        notes.append("no reply has a text, so only the delivery is compared")
    elif embedder is None and no_embedder:
        notes.append(
            f"replies are compared word by word ({no_embedder}): a sentence model (judge "
            f"{_first(JudgeRole.SENTENCE_EMBEDDING)}) would distinguish paraphrases from other replies"
        )
    if JudgeRole.PROSODY.value not in components:
        notes.append(
            "delivery is not compared: score the run with the judge "
            f"{_first(JudgeRole.PROSODY)} to include it"
        )
    heard: dict[str, set[str]] = defaultdict(set)
    for reply in replies:
        if reply.heard is not None:
            heard[reply.script_id].add(" ".join(words_of(reply.heard)))
    differing = sum(len(texts) > 1 for texts in heard.values())
    if differing:
        notes.append(
            f"in {differing} of {len(heard)} scripts, the endpoint's transcripts of the recordings differ: "
            "after a mishearing, a reply may change without an effect of the voice"
        )
    return notes
