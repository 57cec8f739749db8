"""How far a judge can be trusted: its repeats, known degradations, people's labels and other judges.

``docs/audit.md`` explains each metric.
"""

from live_eval.analysis.audit.auditor import PARTS, AuditPlan, audit_run

__all__ = ["PARTS", "AuditPlan", "audit_run"]
