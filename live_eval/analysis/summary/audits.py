"""Describe the audits of a run's judges, for display next to their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from live_eval.recording import ScoreReader, StoredAudit, decoding, part_of

__all__ = ["AuditSummary", "audit_in_words", "read_audits"]

NONE = "–"

_SEES, _BLIND, _PREFERS, _TOO_FEW = "sees", "does not see", "prefers", "too few to say"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSummary:
    """The reliability of a judge as text; a dash means that the part was not audited.

    Args:
        repeats: Agreement of the judge with itself.
        sees: Degradations that the judge detects, with the detecting outputs unless all detect them.
        does_not_see: Degradations that the judge misses or prefers, or for which there are too few turns.
        order: Order effect, for pairwise judges.
        labels: Agreement with human labels.
        other_judge: Agreement with another judge.
        n_failed: Number of failed judgements in the audit.
    """

    judge: str
    version: str
    repeats: str
    sees: str
    does_not_see: str
    order: str
    labels: str
    other_judge: str
    n_failed: int


def read_audits(scores: ScoreReader) -> dict[str, AuditSummary]:
    """Return each judge's audit, for the version with the latest scores or else the latest audit."""
    versions = scores.versions()
    found: dict[str, AuditSummary] = {}
    for audit in scores.audits():
        if versions.get(audit.judge, audit.version) == audit.version:
            with decoding(f"{scores.path}: the audit of {audit.judge}"):
                found[audit.judge] = audit_in_words(audit)
    return found


def audit_in_words(audit: StoredAudit) -> AuditSummary:
    """Describe an audit as text."""
    report = audit.report
    parts = {name: part_of(report, name) for name in ("consistency", "order", "sensitivity")}
    degradations = part_of(parts["sensitivity"], "degradations")
    return AuditSummary(
        judge=audit.judge,
        version=audit.version,
        repeats=_repeats(parts["consistency"], audit.judge),
        sees=_seen(degradations, _SEES, audit.judge) or (NONE if not degradations else "nothing"),
        does_not_see=_not_seen(degradations, audit.judge),
        order=_order(parts["order"]),
        labels=_labels(part_of(report, "agreement"), audit.judge),
        other_judge=_other(part_of(report, "against"), audit.judge),
        n_failed=sum(part.get("n_failed", 0) for part in (*parts.values(), *degradations.values())),
    )


def _repeats(part: Mapping[str, Any], judge: str) -> str:
    if not part:
        return NONE
    outputs = {name: one for name, one in part_of(part, "outputs").items() if one["n"]}
    if not outputs:
        return "not scored twice"
    turns = max(one["n"] for one in outputs.values())
    times = f"{turns} turns, {part['repeats']} times"
    if all(one["identical"] == 1 for one in outputs.values()):
        return f"identical ({times})"
    said = [
        f"{_short(name, judge)}identical {_percent(one['identical'])}, ICC {_estimate(one['icc'])}, "
        f"sd {_number(one['sd_within'])} within a turn, {_number(one['sd_between'])} between"
        for name, one in outputs.items()
    ]
    return f"{'; '.join(said)} ({times})"


def _seen(degradations: Mapping[str, Any], verdict: str, judge: str) -> str:
    said: list[str] = []
    for one in degradations.values():
        outputs = part_of(one, "outputs")
        such = [name for name, output in outputs.items() if output["verdict"] == verdict]
        if such:
            some = len(such) < len(outputs)
            which = f" ({', '.join(_short(name, judge).rstrip(': ') for name in such)})" if some else ""
            said.append(f"{one['title']}{which}")
    return ", ".join(said)


def _not_seen(degradations: Mapping[str, Any], judge: str) -> str:
    if not degradations:
        return NONE
    said = [_seen(degradations, _BLIND, judge)]
    for verdict in (_PREFERS, _TOO_FEW):
        such = _seen(degradations, verdict, judge)
        said.append(f"{verdict}: {such}" if such else "")
    return "; ".join(part for part in said if part) or NONE


def _order(part: Mapping[str, Any]) -> str:
    if not part:
        return NONE
    if not part["n"]:
        return "no pair was judged in both orders"
    return (
        f"{_percent(part['flipped']['value'])} of {part['n']} verdicts flip; "
        f"preference for the first {_estimate(part['position'])}"
    )


def _labels(part: Mapping[str, Any], judge: str) -> str:
    outputs = part_of(part, "outputs")
    if not outputs:
        return "none"
    said = []
    for name, one in outputs.items():
        people = one["between_raters"]
        words = f"{_short(name, judge)}Spearman {_estimate(one['spearman'])}, n {one['n']}"
        if people["raters"] > 1:
            words += f"; {people['raters']} raters, alpha {_estimate(people['alpha_ordinal'])}"
        said.append(words)
    return "; ".join(said)


def _other(part: Mapping[str, Any], judge: str) -> str:
    pairs: Sequence[Mapping[str, Any]] = part.get("pairs", ())
    said = [
        f"{' with '.join(pair['outputs'])}: Spearman {_estimate(pair['spearman'])}, n {pair['n']}"
        for pair in pairs
    ]
    return "; ".join(said) or NONE


def _short(name: str, judge: str) -> str:
    """Return the prefix ``ovrl: `` for the score ``judge.ovrl``; empty for a judge's only output."""
    return "" if name == judge else f"{name.removeprefix(judge + '.')}: "


def _percent(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.0f} %"


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.2g}".replace("-", "−")


def _estimate(estimate: Mapping[str, Any]) -> str:
    if estimate["value"] is None:
        return f"{NONE} ({estimate['reason']})"
    text = f"{estimate['value']:.2f}"
    if estimate["interval"] is not None:
        low, high = estimate["interval"]
        text += f" ({low:.2f} to {high:.2f})"
    return text.replace("-", "−")
