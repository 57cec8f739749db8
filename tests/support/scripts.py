"""Create manifests of scripts, and read their turns."""

import json
from pathlib import Path
from typing import Any

from live_eval.data import load
from live_eval.types import Case

PARTS: list[dict[str, Any]] = [
    {"onset_ms": 120, "end_ms": 870.5, "text": "I would like"},
    {"onset_ms": 1_870, "end_ms": 2_400},
]


def script(tmp_path: Path, *turns: dict[str, Any]) -> tuple[Case, ...]:
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"id": "d", "turns": [{"audio": "a.wav", **turn} for turn in turns]}), "utf-8")
    return load(path).cases


def row(tmp_path: Path, **fields: Any) -> Case:
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"audio": "a.wav", **fields}), "utf-8")
    (case,) = load(path).cases
    return case
