"""Read ``campaign.json``: a campaign's plan, settings and started conditions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from live_eval.campaigns.documents import LATENCY_CAMPAIGN, names_a_run
from live_eval.campaigns.latency.points import MOST_POINTS
from live_eval.errors import StoreError

__all__ = ["CAMPAIGN_FILE", "point_runs", "read_campaign_file"]

CAMPAIGN_FILE = LATENCY_CAMPAIGN.file_name


class _Point(BaseModel, strict=True):
    name: str | None = None
    role: str | None = None
    concurrency: int | None = None
    arrivals: str | None = None
    input_s: float | None = None
    turn_detection: dict[str, Any] | None = None
    turn_mode: str | None = None
    sessions: str | None = None


class _Facts(BaseModel, strict=True):
    points: list[_Point]
    arrivals: str | None = None


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
        raise StoreError(f"{path}: expected at most {MOST_POINTS} points, found {len(points)}")
    LATENCY_CAMPAIGN.check(path, facts, _Facts)
    if len({point["run"] for point in points}) < len(points):
        raise StoreError(f"{path}: expected points with different runs, found one twice")
    return facts
