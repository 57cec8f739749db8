"""What a run or campaign is, for the list and for its progress."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from live_eval.analysis.turn_view import milliseconds
from live_eval.campaigns.documents import DUPLEX_CAMPAIGN
from live_eval.campaigns.latency.campaign_file import read_campaign_file
from live_eval.errors import SchemaVersionError, StoreError
from live_eval.recording import RunReader, is_being_written, part_of, text_of
from live_eval.studio.library import ListedFolder

__all__ = ["folder_facts", "run_progress"]


def folder_facts(folder: ListedFolder) -> dict[str, Any]:
    """Return a row of the list of runs; of what cannot be read, with the problem."""
    row: dict[str, Any] = {
        "id": folder.id,
        "name": folder.path.name,
        "kind": folder.kind,
        "campaign": folder.campaign,
        "endpoint": None,
        "model": None,
        "data": None,
        "created": None,
        "ended": None,
        "state": None,
        "finished": False,
        "turns": None,
        "planned": None,
        "failed": None,
        "schema_ok": True,
        "problem": None,
    }
    try:
        match folder.kind:
            case "run":
                with RunReader.open(folder.path) as run:
                    row |= _run(run)
            case "campaign":
                row |= _campaign(read_campaign_file(folder.path))
            case "duplex":
                row |= _campaign(DUPLEX_CAMPAIGN.read(folder.path))
    except SchemaVersionError as error:
        row |= {"schema_ok": False, "problem": str(error)}
    except (StoreError, OSError) as error:
        row["problem"] = str(error)
    return row


def run_progress(folder: Path, latest: int) -> dict[str, Any]:
    """Return how far a run is, and its latest turns, the newest first.

    Args:
        folder: The run's folder.
        latest: How many turns.

    Raises:
        StoreError: It cannot be read.
    """
    with RunReader.open(folder) as run:
        facts = _run(run)
        turns = list(run.turns(latest=latest))
    return {
        **{name: facts[name] for name in ("state", "turns", "planned", "failed")},
        "latest": [
            {
                "turn_id": turn.turn_id,
                "failure": None if turn.failure is None else turn.failure.kind.value,
                "voice_to_voice_ms": milliseconds(turn.timing.voice_to_voice.ns) if turn.captured else None,
            }
            for turn in reversed(turns)
        ],
    }


def _run(run: RunReader) -> dict[str, Any]:
    endpoint = part_of(run.manifest, "endpoint")
    planned = run.manifest.get("turns")
    # A run that died is still "running" in its database.
    died = run.state == "running" and not is_being_written(run.path)
    return {
        "endpoint": text_of(endpoint, "name"),
        "model": text_of(endpoint, "model"),
        "data": text_of(part_of(run.manifest, "data"), "name"),
        "created": run.started_at,
        "ended": run.ended_at,
        "state": "interrupted" if died else run.state,
        "finished": run.ended,
        "turns": len(run),
        "planned": planned if isinstance(planned, int) else None,
        "failed": run.failed_turns,
    }


def _campaign(facts: dict[str, Any]) -> dict[str, Any]:
    complete = facts.get("complete") is True
    return {
        "endpoint": text_of(facts, "endpoint"),
        "created": text_of(facts, "created"),
        "state": "finished" if complete else "incomplete",
        "finished": complete,
    }
