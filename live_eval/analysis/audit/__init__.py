"""How far a judge can be trusted, by its own repeats, known degradations, people and other judges.

The statistics are pure (`figures`, `agreement`); `audit_run` asks the judge and stores the result with the
scores, by judge and version. ``docs/audit.md`` explains each figure.
"""

from live_eval.analysis.audit.auditor import PARTS, AuditPlan, audit_run

__all__ = ["PARTS", "AuditPlan", "audit_run"]
