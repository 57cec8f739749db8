"""``campaign.json``: what a campaign measures, with which settings, and which points it has begun."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from live_eval.campaigns.latency.points import MOST_POINTS, CampaignPlan
from live_eval.errors import StoreError
from live_eval.files import flattened
from live_eval.recording.campaign_documents import LATENCY_CAMPAIGN, names_a_run
from live_eval.redaction import SECRETS, public_settings
from live_eval.run.plan import Plan

__all__ = [
    "CAMPAIGN_FILE",
    "check_same_plan",
    "plan_as_json",
    "point_runs",
    "read_campaign_file",
    "write_campaign_file",
]

CAMPAIGN_FILE = LATENCY_CAMPAIGN.file_name

_PLAYED = ("endpoint", "data", "task", "turns")  # tables of the run file that say what is played


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
    endpoint: str | None = None
    created: str | None = None
    arrivals: str | None = None
    notes: list[str] | None = None


def point_runs(folder: Path) -> list[Path]:
    """Return the folders of the runs that a campaign has begun; of what cannot be read, none."""
    try:
        return [folder / point["run"] for point in read_campaign_file(folder)["points"]]
    except StoreError:
        return []


def read_campaign_file(folder: Path) -> dict[str, Any]:
    """Return what campaign.json says.

    Raises:
        StoreError: The folder holds no campaign, or campaign.json is damaged or of another schema.
    """
    facts = LATENCY_CAMPAIGN.read(folder)
    points = facts.get("points")
    if not isinstance(points, list) or not all(_names_a_run(point) for point in points):
        raise StoreError(
            f"{folder / CAMPAIGN_FILE}: expected a list of points, each with the folder name of its run"
        )
    if len(points) > MOST_POINTS:
        raise StoreError(
            f"{folder / CAMPAIGN_FILE}: expected at most {MOST_POINTS} points, found {len(points)}"
        )
    try:
        _Facts.model_validate(facts)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise StoreError(f"{folder / CAMPAIGN_FILE}: {where}: {first['msg']}") from None
    if len({point["run"] for point in points}) < len(points):
        raise StoreError(f"{folder / CAMPAIGN_FILE}: expected points with different runs, found one twice")
    return facts


def _names_a_run(point: object) -> bool:
    return isinstance(point, dict) and names_a_run(point.get("run"))


def write_campaign_file(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write campaign.json without secrets.

    Raises:
        StoreError: It cannot be written.
    """
    LATENCY_CAMPAIGN.write(folder, facts)


def plan_as_json(plan: CampaignPlan, base: Plan) -> dict[str, Any]:
    """Return everything that decides what a campaign plays, without secrets.

    Args:
        plan: What is asked for.
        base: The plan of a run with its shared settings.
    """
    manifest = base.manifest()
    return {
        "points": {
            "turns": plan.turns,
            "concurrency": list(plan.concurrency),
            "arrivals": str(plan.arrivals),
            "input_s": list(plan.inputs_s),
            "turn_detection": [public_settings(detection) for detection in plan.detections],
            "sessions": [kind.value for kind in plan.sessions],
            "endpointing": plan.endpointing,
            "sentinel_turns": plan.sentinel_turns,
        },
        "settings": {table: manifest["config"][table] for table in _PLAYED},
        "data": manifest["data"]["fingerprint"],
        "prompt": manifest["prompt"]["sha256"],
        "timing_version": manifest["timing_version"],
    }


def check_same_plan(folder: Path, before: object, now: Mapping[str, Any]) -> None:
    """Refuse to continue a campaign with another plan.

    Args:
        folder: Its folder.
        before: The plan in its campaign.json.
        now: The plan to continue with, as `plan_as_json` returns it.

    Raises:
        StoreError: They differ; says in what.
    """
    if not isinstance(before, dict):
        raise StoreError(f"{folder}: cannot resume this campaign: another version of live-eval began it")
    then, wanted = dict(flattened(before)), dict(flattened(json.loads(json.dumps(SECRETS.values(now)))))
    for name in dict.fromkeys((*then, *wanted)):
        if then.get(name) != wanted.get(name):
            raise StoreError(
                f"{folder}: cannot resume this campaign: its {name} was {then.get(name)!r}, but is now "
                f"{wanted.get(name)!r}"
            )
