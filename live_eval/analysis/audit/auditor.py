"""Audit a judge on the turns of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from live_eval import registry
from live_eval.analysis.audit.asking import Asker
from live_eval.analysis.audit.experiments import (
    Experiments,
    ExperimentSettings,
    PairExperiments,
    SingleExperiments,
)
from live_eval.analysis.audit.labels import LabelTargets, against_json, agreement_json, read_labels
from live_eval.analysis.audit.sample import JudgeSample, Opponents
from live_eval.clock import Clock, SystemClock
from live_eval.errors import UsageError
from live_eval.judging import JudgeKind, JudgeSpec, Need
from live_eval.recording import RunReader, ScoreStore, StoredAudit
from live_eval.scoring.judge_runner import JudgeOptions, as_configured, check_options, scoring_version
from live_eval.text.suggestions import did_you_mean

__all__ = ["PARTS", "AuditPlan", "Progress", "audit_run"]

PARTS = ("consistency", "order", "sensitivity", "agreement", "against")
"""The parts of an audit."""

_ASKING = frozenset({"consistency", "order", "sensitivity"})

Progress: TypeAlias = Callable[[str, int, int], None]
"""Callback for the judge's name, the number of completed turns, and the number of turns to audit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """The plan of an audit.

    Args:
        parts: Parts to run, from `PARTS`; None for all possible parts.
        repeats: Number of repeats of each judgement.
        limit: Maximum number of turns to judge; 0 for all.
        seed: Seed of the random choices.
        again: Whether to repeat the calls of an earlier audit instead of reusing its answers.
        labels: CSV file with human labels, or None.
        against: Judge to compare with, or None.
        against_run: Run that pairwise judges compare replies with; None for the reference replies.
    """

    parts: tuple[str, ...] | None = None
    repeats: int = 3
    limit: int = 30
    seed: int = 0
    again: bool = False
    labels: Path | None = None
    against: str | None = None
    against_run: Path | None = None


def audit_run(
    path: Path,
    judge: str,
    plan: AuditPlan | None = None,
    *,
    options: JudgeOptions | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Audit a judge on the run in folder `path`, and store the result with its scores.

    If an earlier audit used the same judge version, its results for other parts are kept.

    Returns:
        The report printed by ``live-eval audit --json``; see ``docs/reference/audit.md``.

    Raises:
        PluginError: No judge has this name.
        UsageError: A requested part is not possible with this judge or plan.
        DataError: The labels are invalid.
        JudgeError: The judge cannot run here.
        StoreError: The run does not exist, or another process is writing its scores.
    """
    plan, options, clock = plan or AuditPlan(), options or JudgeOptions(), SystemClock()
    spec = registry.judge(judge)
    check_options([spec], options)
    spec = as_configured(spec, options)
    parts = _parts(spec, plan)
    with ExitStack() as stack:
        run = stack.enter_context(RunReader.open(path))
        store = stack.enter_context(ScoreStore.open(path))
        audit = _Audit(spec, scoring_version(spec, options), plan, options, parts, run, store, stack)
        # Use the stored scores first, to report errors in the labels before calling models.
        made = audit.stored() if {"agreement", "against"} & set(parts) else {}
        if _ASKING & set(parts):
            made |= audit.asked(progress or (lambda name, done, total: None), clock)
        kept = next(
            (a.report for a in store.audits() if (a.judge, a.version) == (spec.name, audit.version)), {}
        )
        report: dict[str, Any] = {"judge": spec.name, "version": audit.version, "kind": spec.kind.value}
        report |= {part: made.get(part, kept.get(part)) for part in PARTS if part in made or part in kept}
        store.put_audit(StoredAudit(spec.name, audit.version, clock.wall_ns(), report))
        return report


def _parts(spec: JudgeSpec, plan: AuditPlan) -> tuple[str, ...]:
    for part in plan.parts or ():
        if part not in PARTS:
            raise UsageError(
                f"unknown part {part!r}{did_you_mean(part, PARTS)}; expected one of {', '.join(PARTS)}"
            )
    impossible = {part: reason for part in PARTS if (reason := _why_impossible(part, spec, plan)) is not None}
    for part in plan.parts or ():
        if part in impossible:
            raise UsageError(f"{part}: {impossible[part]}")
    for given, part in ((plan.labels, "agreement"), (plan.against, "against"), (plan.against_run, "order")):
        if given is not None and part in impossible:
            raise UsageError(f"{given}: {impossible[part]}")
    return tuple(part for part in PARTS if part not in impossible and (not plan.parts or part in plan.parts))


def _why_impossible(part: str, spec: JudgeSpec, plan: AuditPlan) -> str | None:
    """Return the reason why a part is not possible, or None."""
    pairwise = spec.kind is JudgeKind.PAIRWISE
    if part == "consistency":
        return "expected at least 2 repeats" if plan.repeats < 2 else None
    if part == "order":
        return None if pairwise else f"judge {spec.name!r} judges single turns, which have no order"
    if part == "sensitivity":
        return None
    if pairwise:
        return f"judge {spec.name!r} compares replies and does not score single turns"
    if part == "agreement":
        return None if plan.labels is not None else "expected labels (--labels FILE)"
    return None if plan.against is not None else "expected another judge (--against JUDGE)"


@dataclass(frozen=True, slots=True, eq=False)
class _Audit:
    spec: JudgeSpec
    version: str
    plan: AuditPlan
    options: JudgeOptions
    parts: tuple[str, ...]
    run: RunReader
    store: ScoreStore
    stack: ExitStack

    def stored(self) -> dict[str, Any]:
        """Return the results of the parts that use stored scores."""
        spec, plan = self.spec, self.plan
        turns = LabelTargets.of(self.run)
        values = self._scores(spec.name, self.version)
        made: dict[str, Any] = {}
        if "agreement" in self.parts and plan.labels is not None:
            labels = read_labels(plan.labels, spec, turns)
            made["agreement"] = agreement_json(labels, spec, values, turns, seed=plan.seed)
        if "against" in self.parts and plan.against is not None:
            other = registry.judge(plan.against)
            version = self.store.versions().get(other.name, other.version)
            others = self._scores(other.name, version)
            pairs = against_json(spec, other, values, others, turns.scripts, seed=plan.seed)
            made["against"] = {"judge": other.name, "version": version, "pairs": pairs}
        return made

    def _scores(self, judge: str, version: str) -> dict[str, Mapping[str, float]]:
        scores = {
            row.turn_id: row.values
            for row in self.store.read([judge])
            if row.version == version and row.status == "scored"
        }
        if not scores:
            raise UsageError(
                f"the run has no scores from {judge} version {version}; to add them: "
                f"live-eval score {self.run.path} --judges {judge}"
            )
        return scores

    def asked(self, progress: Progress, clock: Clock) -> dict[str, Any]:
        """Run the parts that call the judge, and return their results."""
        began_ns = clock.now_ns()
        spec, plan = self.spec, self.plan
        opponents: Opponents | None = None
        if spec.kind is JudgeKind.PAIRWISE:
            opponents = Opponents(spec, plan.against_run, self.stack, self.options.recordings)
        also = frozenset[Need]() if opponents is None else opponents.looks_at
        picker = JudgeSample(
            self.run, spec, limit=plan.limit, seed=plan.seed, also=also, sendable=self.options.recordings
        )
        settings = ExperimentSettings(
            spec=spec, parts=self.parts, repeats=plan.repeats, donor=picker.donor, seed=plan.seed
        )
        asker = Asker(spec, self.options, self.stack, self.store, again=plan.again, seed=plan.seed)
        experiments: Experiments = (
            SingleExperiments(settings, asker)
            if opponents is None
            else PairExperiments(settings, asker, opponents)
        )
        progress(spec.name, 0, picker.planned)
        for turns in picker.chunks():
            experiments.take(turns)
            progress(spec.name, picker.asked, picker.planned)
        usage = asker.usage
        about = {
            "turns": {
                "total": picker.total,
                "limit": plan.limit,
                "asked": picker.asked,
                "skipped": dict(picker.skipped.most_common()),
            },
            "seed": plan.seed,
            "usage": {
                "seconds": round((clock.now_ns() - began_ns) / 1e9, 3),
                "calls": usage.calls,
                "cached": usage.cached,
                "cost": usage.cost if usage.calls else 0.0,
            },
        }
        return {part: {**about, **made} for part, made in experiments.as_json().items()}
