"""The metrics of a run, as ``show`` and the report print them and scripts read them.

Nothing is silently averaged over survivors. For every latency, the measured turns, the turns whose end of
speech is uncertain (with percentiles of their own) and the turns without it, by reason, add up to the turns
of the run; for every score, ``n + n_unscored + n_failed`` does. A failed turn has neither latency nor score
and counts in both sums.
"""

from live_eval.analysis.summary.audits import audit_in_words
from live_eval.analysis.summary.changes import DialogueFigures
from live_eval.analysis.summary.groups import Group
from live_eval.analysis.summary.latencies import LATENCIES, LatencySummary
from live_eval.analysis.summary.observations import Observation, TurnKey, latency
from live_eval.analysis.summary.run import (
    OutageSpan,
    RunSummary,
    outage_spans,
    outages_in_words,
    summarise,
    unfinished,
)
from live_eval.analysis.summary.score_table import (
    JudgeFacts,
    ScoreColumn,
    ScoreSummary,
    ScoreTable,
    judges_asked_for,
    read_scores,
)
from live_eval.analysis.summary.task_metrics import QuestionFigures, TaskFigures

__all__ = [
    "LATENCIES",
    "DialogueFigures",
    "Group",
    "JudgeFacts",
    "LatencySummary",
    "Observation",
    "OutageSpan",
    "QuestionFigures",
    "RunSummary",
    "ScoreColumn",
    "ScoreSummary",
    "ScoreTable",
    "TaskFigures",
    "TurnKey",
    "audit_in_words",
    "judges_asked_for",
    "latency",
    "outage_spans",
    "outages_in_words",
    "read_scores",
    "summarise",
    "unfinished",
]
