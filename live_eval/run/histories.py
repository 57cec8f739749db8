"""Start a separate session for each turn of a dialogue, with the data's earlier turns as history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from live_eval.errors import UsageError
from live_eval.registry import ClientSpec, client
from live_eval.text.wording import alternatives
from live_eval.types import Case, History, ScoringRule, SpeechKind

__all__ = ["CasesWithHistory", "with_history"]


class CasesWithHistory(NamedTuple):
    """The cases to run, and the earlier turns of each by case ID."""

    cases: list[Case]
    earlier: Mapping[str, tuple[Case, ...]]


def with_history(spec: ClientSpec, history: History, cases: Sequence[Case]) -> CasesWithHistory:
    """Return the cases to run, each with its history.

    With injected history, earlier turns that a benchmark does not score are not run. A turn whose history is
    incomplete gets a `problem`.

    Raises:
        UsageError: The endpoint cannot begin a session with such a history, or no case has one.
    """
    if history is History.OWN:
        return CasesWithHistory(list(cases), {})
    if history not in spec.histories:
        if spec.agent_field and history in client(spec.name).histories:
            agent = f"the stored agent in endpoint.extra.{spec.agent_field}"
            raise UsageError(
                f"turns.history {history.value!r}: expected 'own', because {agent} accepts no earlier turns; "
                "remove one of them"
            )
        other = alternatives((History.OWN, *spec.histories))
        raise UsageError(f"turns.history {history.value!r}: expected {other} for {spec.name}")
    dialogues: dict[str, list[Case]] = {}
    for case in cases:
        if case.dialogue_id is not None:
            dialogues.setdefault(case.dialogue_id, []).append(case)
    if not dialogues:
        raise UsageError(f"turns.history {history.value!r}: expected dialogues, but no case is part of one")
    earlier: dict[str, tuple[Case, ...]] = {}
    chosen: list[Case] = []
    for case in cases:
        whole = sorted(dialogues.get(case.dialogue_id or "", ()), key=lambda turn: turn.turn_index)
        before = tuple(turn for turn in whole if turn.turn_index < case.turn_index)
        if case.item is not None and case.item.rule is ScoringRule.NONE and whole and whole[-1] is not case:
            continue
        said = tuple((turn.text or "", turn.reference_text or "") for turn in before)
        problem = case.problem or next(filter(None, (_problem(turn, history) for turn in before)), None)
        chosen.append(replace(case, dialogue_id=None, turn_index=0, history=said, problem=problem))
        earlier[case.case_id] = before
    broken = [case.problem for case in chosen if case.history and case.problem]
    if broken and len(broken) == sum(bool(case.history) for case in chosen):
        raise UsageError(
            f"turns.history {history.value!r}: no dialogue can be used; first reason: {broken[0]}"
        )
    return CasesWithHistory(chosen, earlier)


def _problem(turn: Case, history: History) -> str | None:
    """Return why a turn cannot be part of a history, or None if it can."""
    if turn.speech is not SpeechKind.TURN or turn.anchor is not None:
        return f"the turn {turn.case_id!r} has no reply of its own in the history"
    if not turn.reference_text:
        return f"the turn {turn.case_id!r} has no reference reply for the history"
    if not turn.text and history is History.INJECT_TEXT:
        return f"the turn {turn.case_id!r} has no transcript for the history"
    return None
