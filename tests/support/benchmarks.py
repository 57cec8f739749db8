"""Small copies of other benchmarks in their exact layouts."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as arrow
import soundfile
from pyarrow import parquet

from live_eval.audio import read_audio
from live_eval.data import sample_path
from live_eval.data.benchmarks import BenchmarkSpec

__all__ = [
    "BIG_BENCH_ANSWERS",
    "audio_file",
    "big_bench_audio",
    "listed_part",
    "recordings_below",
    "voicebench_part",
    "write_table",
]


def audio_file(*, form: str = "WAV") -> bytes:
    """Return the bytes of an audio file with a short spoken sentence of the bundled sample."""
    recording = min(sample_path().rglob("*.flac"), key=lambda path: path.stat().st_size)
    audio = read_audio(recording).audio
    content = io.BytesIO()
    soundfile.write(content, audio.samples, audio.rate_hz, format=form)
    return content.getvalue()


def write_table(
    path: Path, rows: Sequence[Mapping[str, Any]], *, audio: Mapping[str, bytes | None], group_rows: int = 2
) -> None:
    """Write a Parquet table as the datasets library does: audio columns are structs of bytes and path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
    columns: dict[str, Any] = {}
    for name, content in audio.items():
        cells = [
            row.get(name, {"bytes": content, "path": f"{number}.wav"}) for number, row in enumerate(rows)
        ]
        columns[name] = arrow.array(cells, kind)
    for name in dict.fromkeys(key for row in rows for key in row if key not in audio):
        columns[name] = arrow.array([row.get(name) for row in rows])
    parquet.write_table(arrow.table(columns), path, row_group_size=group_rows)


def voicebench_part(
    root: Path, part: str, rows: Sequence[Mapping[str, Any]], *, split: str = "test", shards: int = 1
) -> Path:
    """Write a part of VoiceBench; return its folder."""
    sound = audio_file()
    size = -(-len(rows) // shards)
    for number in range(shards):
        write_table(
            root / part / f"{split}-{number:05}-of-{shards:05}.parquet",
            rows[number * size : (number + 1) * size],
            audio={"audio": sound},
        )
    return root / part


BIG_BENCH_ANSWERS = {
    "formal_fallacies": "valid",
    "navigate": "No",
    "object_counting": "12",
    "web_of_lies": "Yes",
}
"""A possible answer by category."""


def big_bench_audio(root: Path, *, items: int = 1) -> Path:
    """Write Big Bench Audio with some items of each category; return its folder."""
    sound = audio_file(form="MP3")
    (root / "data").mkdir(parents=True)
    lines: list[str] = []
    for category, answer in BIG_BENCH_ANSWERS.items():
        for _ in range(items):
            number = len(lines)
            file = f"data/question_{number}.mp3"
            (root / file).write_bytes(sound)
            row = {"category": category, "official_answer": answer, "file_name": file, "id": number}
            lines.append(json.dumps(row))
    (root / "metadata.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return root


def listed_part(spec: BenchmarkSpec, root: Path, part: str, rows: Sequence[Any]) -> Path:
    """Write a part of a benchmark that lists its items in a JSON file, without recordings."""
    path = root / spec.parts[part].file
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = json.dumps(rows) if path.suffix == ".json" else "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(lines, "utf-8")
    return root


def recordings_below(folder: Path, *names: str) -> None:
    """Write the same short recording under each name."""
    sound = audio_file()
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(sound)
