"""Open the files of `live-eval export` with datasets and inspect_ai, and print their contents as JSON.

``python export_reader.py DATASET_FOLDER LOG_FILE``
"""

from __future__ import annotations

import io
import json
import math
import sys
from typing import Any

import datasets
import soundfile
from inspect_ai.log import read_eval_log, resolve_sample_attachments


def seen_by_datasets(folder: str) -> dict[str, Any]:
    loaded = datasets.load_dataset(folder)
    turns = loaded["test"]
    features = {name: type(turns.features[name]).__name__ for name in ("reply_audio", "both_sides_audio")}
    for name in features:
        turns = turns.cast_column(name, datasets.Audio(decode=False))
    frames = {
        name: {
            row["turn_id"]: soundfile.info(io.BytesIO(row[name]["bytes"])).frames
            for row in turns
            if row[name] is not None
        }
        for name in features
    }
    return {
        "splits": list(loaded),
        "features": features,
        "columns": turns.column_names,
        "frames": frames,
        "voice_to_voice": {row["turn_id"]: row["latency_ms.voice_to_voice"] for row in turns},
    }


def seen_by_inspect(file: str) -> dict[str, Any]:
    log = read_eval_log(file)
    samples = [resolve_sample_attachments(sample, "full") for sample in log.samples or ()]
    return {
        "status": log.status,
        "model": log.eval.model,
        "means": {
            score.name: score.metrics["mean"].value for score in log.results.scores if "mean" in score.metrics
        },
        "samples": {sample.metadata["turn_id"]: seen_of_sample(sample) for sample in samples},
    }


def seen_of_sample(sample: Any) -> dict[str, Any]:
    audio = [
        part.audio
        for message in sample.messages
        if not isinstance(message.content, str)
        for part in message.content
        if part.type == "audio"
    ]
    return {
        "epoch": sample.epoch,
        "error": None if sample.error is None else sample.error.message,
        "retries": [error.message for error in sample.error_retries or ()],
        "roles": [message.role for message in sample.messages],
        "completion": sample.output.completion,
        "audio": [text[:22] for text in audio],
        "scores": {
            name: None if math.isnan(score.as_float()) else score.as_float()
            for name, score in sample.scores.items()
        },
        "reasons": {name: score.explanation for name, score in sample.scores.items() if score.explanation},
    }


if __name__ == "__main__":
    folder, file = sys.argv[1:]
    json.dump({"datasets": seen_by_datasets(folder), "inspect": seen_by_inspect(file)}, sys.stdout)
