"""Read a campaign: ``campaign.json`` and the turns of its conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from live_eval.analysis.summary.run_summary import OutageSpan, outage_spans, outages_in_words
from live_eval.campaigns.documents import LATENCY_CAMPAIGN, names_a_run
from live_eval.campaigns.latency.points import MOST_POINTS, PointRole
from live_eval.errors import StoreError
from live_eval.recording import RunReader, TurnRecord

__all__ = [
    "CAMPAIGN_FILE",
    "CampaignRecord",
    "PointRecord",
    "StoredPoint",
    "point_runs",
    "read_campaign",
    "read_campaign_file",
]

CAMPAIGN_FILE = LATENCY_CAMPAIGN.file_name


class StoredPoint(BaseModel):
    """A condition's settings in ``campaign.json``. Settings that an older version did not store are None."""

    model_config = ConfigDict(strict=True, frozen=True)

    name: str | None = None
    run: str
    role: str | None = None
    concurrency: int | None = None
    arrivals: str | None = None
    input_s: float | None = None
    turn_detection: dict[str, Any] | None = None
    turn_mode: str | None = None
    sessions: str | None = None


class _Facts(BaseModel, strict=True):
    points: list[StoredPoint]
    arrivals: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRecord:
    """A stored condition of a campaign.

    Args:
        turns: Turns of the run, in commit order.
        started_at: Start of the run, ISO 8601 in UTC; empty if there is no run.
        outages: Note on outages of the endpoint; empty without outages.
        error: Reason why the run cannot be read; empty if it can.
    """

    stored: StoredPoint
    path: Path
    turns: tuple[TurnRecord, ...]
    started_at: str = ""
    outages: str = ""
    outage_spans: Sequence[OutageSpan] = ()
    error: str = ""

    @property
    def name(self) -> str:
        """The name of the condition."""
        return str(self.stored.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRecord:
    """A stored campaign: its folder, the contents of campaign.json, and the conditions in run order."""

    folder: Path
    facts: Mapping[str, Any]
    points: tuple[PointRecord, ...]

    def with_role(self, role: PointRole) -> list[PointRecord]:
        """Return the conditions with a role."""
        return [point for point in self.points if point.stored.role == role]


def point_runs(folder: Path) -> list[Path]:
    """Return the folders of a campaign's started runs; empty if campaign.json cannot be read."""
    try:
        return [folder / point["run"] for point in read_campaign_file(folder)["points"]]
    except StoreError:
        return []


def read_campaign_file(folder: Path) -> dict[str, Any]:
    """Return the content of campaign.json.

    Raises:
        StoreError: The folder contains no campaign, or campaign.json is damaged or has another schema
            version.
    """
    path = folder / CAMPAIGN_FILE
    facts = LATENCY_CAMPAIGN.read(folder)
    points = facts.get("points")
    if not isinstance(points, list) or not all(
        isinstance(point, dict) and names_a_run(point.get("run")) for point in points
    ):
        raise StoreError(f"{path}: expected a list of points, each with the folder name of its run")
    if len(points) > MOST_POINTS:
        raise StoreError(f"{path}: expected at most {MOST_POINTS} points, got {len(points)}")
    LATENCY_CAMPAIGN.check(path, facts, _Facts)
    if len({point["run"] for point in points}) < len(points):
        raise StoreError(f"{path}: expected points with different runs, got a duplicate run")
    return facts


def read_campaign(folder: Path) -> CampaignRecord:
    """Read a campaign, complete or not, with the turns of all conditions.

    Raises:
        StoreError: See `read_campaign_file`.
    """
    facts = read_campaign_file(folder)
    points = tuple(_read_point(folder, StoredPoint.model_validate(point)) for point in facts["points"])
    return CampaignRecord(folder=folder, facts=facts, points=points)


def _read_point(folder: Path, stored: StoredPoint) -> PointRecord:
    path = folder / stored.run
    try:
        if path.is_symlink():
            raise StoreError(f"{path}: expected a run folder, found a link")
        with RunReader.open(path) as run:
            return PointRecord(
                stored=stored,
                path=path,
                turns=tuple(run.turns()),
                started_at=run.started_at,
                outages=outages_in_words(run.manifest.get("outages")),
                outage_spans=outage_spans(run.manifest.get("outages")),
            )
    except StoreError as error:
        return PointRecord(stored=stored, path=path, turns=(), error=str(error))
