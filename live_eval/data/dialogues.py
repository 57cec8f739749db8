"""Dialogues in a manifest: one row holds the turns of a session, and each turn becomes a case.

What the row says beside its turns (a topic, a language) holds for each of them that does not say otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from live_eval.types import Case

__all__ = ["TURNS", "DialogueTurn", "alone", "turns_of", "whole_dialogues"]

TURNS = "turns"
"""The field of a row that holds the turns of a dialogue."""


class DialogueTurn(NamedTuple):
    """A turn of a dialogue as its row has it.

    Args:
        record: Its fields, those of the row included.
        problem: What is wrong with it, or None.
    """

    record: Mapping[str, Any]
    problem: str | None


def turns_of(record: Mapping[str, Any]) -> tuple[DialogueTurn, ...] | None:
    """Return the turns that a row holds, or None where it is no dialogue.

    Args:
        record: The row.
    """
    if TURNS not in record:
        return None
    shared = {name: value for name, value in record.items() if name != TURNS}
    turns = record[TURNS]
    if not isinstance(turns, list) or not turns:
        return (DialogueTurn(shared, f"expected a list of turns under {TURNS!r}, but it is {turns!r:.80}"),)
    return tuple(
        DialogueTurn({**shared, **turn}, None)
        if isinstance(turn, Mapping)
        else DialogueTurn(shared, f"expected an object as turn {number}, but it is {turn!r:.80}")
        for number, turn in enumerate(turns, 1)
    )


def whole_dialogues(chosen: Iterable[Case], everything: Iterable[Case]) -> list[Case]:
    """Return chosen cases with the other turns of their dialogues: no turn stands without those before it.

    Args:
        chosen: The cases that are wanted, in any order.
        everything: All cases, in the order in which they are to be returned.
    """
    wanted = {case.dialogue_id or case.case_id for case in chosen}
    return [case for case in everything if (case.dialogue_id or case.case_id) in wanted]


def alone(case: Case) -> Case:
    """Return a case as one with a session of its own."""
    return replace(case, dialogue_id=None, turn_index=0)
