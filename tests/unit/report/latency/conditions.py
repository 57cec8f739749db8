"""Conditions with turns of known latencies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from live_eval.campaigns.latency.campaign_file import PointRecord, StoredPoint
from live_eval.campaigns.latency.point_metrics import point_metrics
from live_eval.errors import FailureKind
from live_eval.recording import TurnRecord
from live_eval.report.latency.point_view import PointView
from live_eval.types import Failure
from tests.support.campaigns import a_case
from tests.support.records import TurnPlan, spoken_turn

TIMES = [500.0 + 7 * number for number in range(40)]


SLOWER = [at + 200 + number for number, at in enumerate(TIMES)]


HOSTILE = "a&b</script><script>alert(1)</script>'\"#? +é"


def failed(number: int) -> TurnRecord:
    return spoken_turn(
        a_case(number), TurnPlan(first_byte_ms=None, failure=Failure(FailureKind.NO_RESPONSE, HOSTILE))
    )


def view_of(entry: dict[str, Any], turns: Sequence[TurnRecord]) -> PointView:
    """A condition of a page without a folder."""
    record = PointRecord(
        stored=StoredPoint.model_validate(entry),
        path=Path("campaign") / str(entry["run"]),
        turns=tuple(turns),
    )
    return PointView(0, record, point_metrics(record))


def turn_of(href: str) -> str:
    return parse_qs(urlsplit(href).fragment)["turn"][0]
