"""Run a pairwise judge on the turns of every pair of runs, in both orders."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from live_eval import registry
from live_eval.analysis.audit.asking import Asker, Pair, swapped
from live_eval.analysis.audit.auditor import Progress
from live_eval.analysis.audit.sample import JudgeSample, turn_in_other
from live_eval.errors import UsageError
from live_eval.judging import Failed, JudgedTurn, JudgeKind, JudgeSpec, Scored
from live_eval.recording import RunReader, ScoreStore
from live_eval.scoring.judge_runner import JudgeOptions, as_configured, check_options, scoring_version
from live_eval.scoring.llm import LlmUsage

__all__ = ["ArenaPlan", "JudgedPair", "PairVerdicts", "judge_pairs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArenaPlan:
    """The plan of an arena: up to `limit` turns per pair of runs (0 for all), spread evenly over scripts."""

    judge: str
    limit: int = 100
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPair:
    """The verdicts on two runs' replies to one turn.

    `forward` is the verdict with the first run's reply presented first: 1 if this reply is better, −1 if the
    other is, 0 for a tie. `backward` is the verdict with the second run's reply presented first: 1 if that
    reply is better. `reasons` contains the judge's reason for each order.
    """

    turn_id: str
    case_id: str
    script_id: str
    first: str
    second: str
    forward: float
    backward: float
    reasons: tuple[str, str] = ("", "")

    @property
    def verdict(self) -> float:
        """The mean of both orders, from the first run's perspective."""
        return (self.forward - self.backward) / 2


@dataclass(slots=True, kw_only=True)
class PairVerdicts:
    """All verdicts of a judge.

    Args:
        version: Judge version, including the options that affect verdicts.
        pairs: Pairs with a verdict in both orders.
        asked: Number of reply pairs submitted to the judge.
        n_failed: Number of pairs with a failed answer in at least one order.
        skipped: Number of turns that could not be judged and pairs without a verdict, by reason.
        usage: Model usage.
    """

    judge: str
    version: str
    pairs: list[JudgedPair] = field(default_factory=list)
    asked: int = 0
    n_failed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    usage: LlmUsage = field(default_factory=LlmUsage)


def judge_pairs(
    runs: Mapping[str, Path],
    plan: ArenaPlan,
    options: JudgeOptions,
    *,
    progress: Progress = lambda name, done, total: None,
) -> PairVerdicts:
    """Run a pairwise judge on every pair of runs, in both orders.

    The model's answers are stored with the first run's scores and reused.

    Args:
        runs: Run folders by name, all with the same data.
        options: Judge options; the judge's defaults apply to omitted options.
        progress: Callback with the names of both runs, the number of completed turns, and the maximum number.

    Raises:
        UsageError: The judge is not pairwise, or an option does not exist.
        JudgeError: The judge cannot run here.
        StoreError: A run does not exist, or another process is writing its scores.
    """
    spec = registry.judge(plan.judge)
    if spec.kind is not JudgeKind.PAIRWISE:
        raise UsageError(f"expected a pairwise judge, but judge {spec.name!r} judges single turns")
    check_options([spec], options)
    spec = as_configured(spec, options)
    judged = PairVerdicts(judge=spec.name, version=scoring_version(spec, options))
    with ExitStack() as stack:
        readers = {name: stack.enter_context(RunReader.open(path)) for name, path in runs.items()}
        answers = stack.enter_context(ScoreStore.open(next(iter(runs.values()))))
        asker = Asker(spec, options, stack, answers, again=False)
        for one, two in itertools.combinations(readers, 2):
            picker = JudgeSample(
                readers[one], spec, limit=plan.limit, seed=plan.seed, sendable=options.recordings
            )
            progress(f"{one} – {two}", 0, picker.planned)
            for turns in picker.chunks():
                _judge(
                    judged,
                    asker,
                    (one, two),
                    list(_pairs(judged, spec, turns, readers[two], options.recordings)),
                )
                progress(f"{one} – {two}", picker.asked, picker.planned)
            judged.skipped.update(picker.skipped)
        judged.usage = asker.usage
    return judged


def _pairs(
    judged: PairVerdicts,
    spec: JudgeSpec,
    turns: Sequence[JudgedTurn],
    other: RunReader,
    sendable: Sequence[Path],
) -> Iterator[Pair]:
    """Pair each turn with the same turn of the other run, if both can be judged."""
    for turn in turns:
        theirs = turn_in_other(other, turn.turn_id, spec, sendable)
        if isinstance(theirs, JudgedTurn):
            yield turn, theirs
        else:
            judged.skipped[theirs.reason] += 1


def _judge(judged: PairVerdicts, asker: Asker, names: tuple[str, str], pairs: Sequence[Pair]) -> None:
    judged.asked += len(pairs)
    for (turn, _), ahead, behind in zip(pairs, asker.judge(pairs), asker.judge(swapped(pairs)), strict=True):
        unjudged = [verdict for verdict in (ahead, behind) if not isinstance(verdict, Scored)]
        if unjudged or not (isinstance(ahead, Scored) and isinstance(behind, Scored)):
            judged.n_failed += any(isinstance(verdict, Failed) for verdict in unjudged)
            judged.skipped[unjudged[0].reason] += 1
            continue
        judged.pairs.append(
            JudgedPair(
                turn_id=turn.turn_id,
                case_id=turn.case.case_id,
                script_id=turn.case.script_id,
                first=names[0],
                second=names[1],
                forward=next(iter(ahead.values.values())),
                backward=next(iter(behind.values.values())),
                reasons=(str(ahead.detail.get("reason", "")), str(behind.detail.get("reason", ""))),
            )
        )
