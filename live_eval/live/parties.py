"""Prepare a conversation with one or several endpoints: for each a run and a `LiveConversation`.

Endpoints with the same judges share a scorer.
"""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from live_eval.data import PerformedSet
from live_eval.errors import UsageError
from live_eval.live.ballot import Ballot
from live_eval.live.captures import TurnNumbers
from live_eval.live.conversation import LiveConversation
from live_eval.live.quick_scores import QuickScorer
from live_eval.live.reply import AudioSink
from live_eval.live.shared_conversation import SharedConversation
from live_eval.live.standings import Standing
from live_eval.recording import RunWriter
from live_eval.run.plan import Plan, data_facts
from live_eval.scoring.judge_runner import JudgeOptions
from live_eval.types import TurnMode

__all__ = ["MOST_ENDPOINTS", "Parties", "Party"]

MOST_ENDPOINTS = 4


@dataclass(frozen=True, slots=True)
class Party:
    """An endpoint in a conversation.

    Args:
        name: Name of the endpoint, different from the other parties' names.
        folder: Folder of the run to store.
        judges: Judges that score its turns, in the order in which they run.
    """

    name: str
    plan: Plan
    folder: Path
    judges: Sequence[str]
    options: JudgeOptions

    def scored_as(self, other: Party) -> bool:
        """Return whether the same judges with the same options score both endpoints, in one process."""
        return (self.judges, self.options) == (other.judges, other.options)


class Parties:
    """The endpoints of a conversation in the order of presentation, with their votes and values.

    Args:
        blind: Whether to shuffle the endpoints and to label them with letters.

    Raises:
        UsageError: There are too many endpoints, or they end turns in different ways.
    """

    def __init__(self, parties: Sequence[Party], *, blind: bool = False) -> None:
        if len(parties) > MOST_ENDPOINTS:
            raise UsageError(f"expected at most {MOST_ENDPOINTS} endpoints, got {len(parties)}")
        modes = {party.plan.turn_mode for party in parties}
        if len(modes) > 1:
            raise UsageError("the endpoints end turns in different ways: pass --turn-mode")
        self.manual = modes == {TurnMode.MANUAL}
        """Whether the user ends turns."""
        self.blind = blind
        self.all = list(parties)
        """The endpoints in the order of presentation."""
        if blind:
            random.SystemRandom().shuffle(self.all)
        names = [party.name for party in self.all]
        labels = ascii_uppercase[: len(names)] if blind else names
        self.ballot = Ballot([party.folder.name for party in self.all])
        self.standings = [Standing(label) for label in labels]

    @contextlib.contextmanager
    def conversation(
        self,
        sink: AudioSink,
        devices: Mapping[str, Any],
        *,
        performed: PerformedSet | None = None,
        votes: Path | None = None,
        **settings: Any,
    ) -> Iterator[LiveConversation | SharedConversation]:
        """Create the runs and yield the conversation; end the runs afterwards.

        Args:
            devices: Description of the audio devices for the runs.
            performed: Data set of the takes, for a performance with a single endpoint.
            votes: File to which votes are written as they are cast; None to write none.
            settings: Further arguments of each `LiveConversation`.
        """
        writers: list[tuple[Plan, RunWriter]] = []
        joins: list[Callable[..., LiveConversation]] = []
        scorers: dict[str, QuickScorer] = {}
        with contextlib.ExitStack() as stack:
            for party in self.all:
                others = tuple(each.name for each in self.all if each is not party)
                plan = replace(party.plan, simultaneous_with=others)
                manifest = {**plan.manifest(), "source": "live", "devices": devices}
                writer = stack.enter_context(RunWriter.create(party.folder, manifest))
                stack.callback(_end, writer, performed)
                writers.append((plan, writer))
            for party, (plan, writer) in zip(self.all, writers, strict=True):  # scorers end before all runs
                first = next(each for each in self.all if each.scored_as(party))
                if first is party and party.judges:
                    scorers[party.name] = QuickScorer(party.judges, party.options)
                    stack.callback(scorers[party.name].close)
                scorer = scorers.get(first.name)
                joins.append(functools.partial(_join, plan, writer, scorer=scorer, **settings))
            if len(joins) == 1:
                yield joins[0](sink)
            else:
                yield SharedConversation(
                    joins, sink, self.ballot, self.standings, blind=self.blind, votes=votes
                )

    @property
    def spoken(self) -> list[Party]:
        """The endpoints with at least one turn, whose runs can be compared."""
        return [party for party, each in zip(self.all, self.standings, strict=True) if each.turns]

    def next_commands(self, votes: Path) -> dict[str, str]:
        """Return the commands that compare the runs, by subject: ``differences`` and, after votes, ``votes``.

        Args:
            votes: File with the votes.
        """
        folders = " ".join(str(party.folder) for party in self.spoken)
        commands = {}
        if len(self.spoken) > 1:
            commands["differences"] = f"live-eval compare {folders} --common"
        if len(self.ballot):
            commands["votes"] = f"live-eval arena {folders} --common --no-judge --votes {votes}"
        return commands


def _join(
    plan: Plan, writer: RunWriter, sink: AudioSink, numbers: TurnNumbers | None = None, **settings: Any
) -> LiveConversation:
    return LiveConversation(plan, writer, sink, numbers=numbers, **settings)


def _end(writer: RunWriter, performed: PerformedSet | None) -> None:
    """End a stored run, and describe the data set recorded for it."""
    takes = performed.load() if performed is not None else None
    if takes is not None:
        writer.describe_data(data_facts(takes))
    writer.end()
