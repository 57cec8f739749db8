"""Synthetic campaigns on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from live_eval.recording import RunWriter, TurnRecord
from live_eval.types import Case, Variant
from tests.support.records import TurnPlan, spoken_turn


def a_case(number: int, *, scripts: int = 1_000) -> Case:
    """Return a case; cases are spread over `scripts` scripts."""
    return Case(
        case_id=f"case-{number:03}",
        script_id=f"script-{number % scripts:03}",
        variant=Variant.TARGET,
        audio_path=Path("nowhere.wav"),
    )


def turns_at(first_byte_ms: Sequence[float], *, scripts: int = 1_000, **plan: Any) -> list[TurnRecord]:
    """Return a turn for each first-byte latency; other times are those of the plan."""
    return [
        spoken_turn(a_case(number, scripts=scripts), TurnPlan(first_byte_ms=at, **plan))
        for number, at in enumerate(first_byte_ms)
    ]


def point(name: str, role: str = "sweep", **facts: Any) -> dict[str, Any]:
    """Return the entry of a condition in campaign.json."""
    return {
        "name": name,
        "run": name,
        "role": role,
        "concurrency": 1,
        "arrivals": "closed",
        "input_s": None,
        "turn_detection": {},
        "turn_mode": "server_vad",
        "sessions": "cold",
        **facts,
    }


def write_campaign(
    folder: Path,
    points: Sequence[tuple[Mapping[str, Any], Sequence[TurnRecord]]],
    *,
    outages: Sequence[Mapping[str, Any]] = (),
    **facts: Any,
) -> Path:
    """Write a campaign and the runs of its conditions, each with these outages."""
    manifest = {"endpoint": {"name": "made up"}, "outages": list(outages)}
    folder.mkdir(parents=True)
    for entry, turns in points:
        with RunWriter.create(folder / str(entry["run"]), manifest) as writer:
            for turn in turns:
                writer.commit(turn)
            writer.end()
    campaign = {
        "schema": 1,
        "endpoint": "made up",
        "created": "2026-01-01T00:00:00+00:00",
        "arrivals": "closed",
        "points": [dict(entry) for entry, _ in points],
        "complete": True,
        "notes": [],
        "machine": {"priority": None, "calibration": None},
        **facts,
    }
    (folder / "campaign.json").write_text(json.dumps(campaign), "utf-8")
    return folder
