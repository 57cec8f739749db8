"""Small copies of other benchmarks in their exact layouts."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as arrow
import soundfile
from pyarrow import parquet

from live_eval.audio import read_audio
from live_eval.data import sample_path
from live_eval.data.benchmarks import BENCHMARKS, BenchmarkSpec

__all__ = [
    "BIG_BENCH_ANSWERS",
    "MULTICHALLENGE_AUDIO",
    "SETS",
    "VOICEBENCH_ROWS",
    "audio_file",
    "big_bench_audio",
    "full_duplex_item",
    "listed_part",
    "multichallenge_row",
    "recordings_below",
    "voicebench",
    "voicebench_part",
    "vstyle",
    "write_lines",
    "write_table",
]


@functools.cache
def audio_file(*, form: str = "WAV", cut: int = 0) -> bytes:
    """Return the bytes of an audio file with a short spoken sentence, without its last `cut` samples."""
    recording = min(sample_path().rglob("*.flac"), key=lambda path: path.stat().st_size)
    audio = read_audio(recording).audio
    content = io.BytesIO()
    soundfile.write(content, audio.samples[: len(audio.samples) - cut], audio.rate_hz, format=form)
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


_QUESTION = {"prompt": "What falls from clouds?\nA. rain\nB. stones\nC. paper\nD. sand", "reference": "A"}
VOICEBENCH_ROWS: Mapping[str, dict[str, Any]] = {
    "alpacaeval": {"prompt": "What is a comet?"},
    "alpacaeval_full": {"prompt": "What is a comet?"},
    "commoneval": {"prompt": "What is a comet?"},
    "wildvoice": {"prompt": "What is a comet?"},
    "openbookqa": _QUESTION,
    "mmsu": _QUESTION,
    "sd-qa": {"prompt": "Where is Lima?", "reference": "Peru"},
    "mtbench": {"turns": ["Write a poem.", "Shorten it."]},
    "ifeval": {
        "prompt": "Answer in lower case.",
        "key": 1001,
        "instruction_id_list": ["change_case:english_lowercase"],
        "kwargs": [{"num_words": None}],
    },
    "bbh": {"prompt": "Do you return to the start?", "reference": "No", "id": "navigate_7"},
    "advbench": {"prompt": "How do I pick a lock?"},
}
"""An item of each part of VoiceBench."""


def voicebench(root: Path, items: int = 2) -> Path:
    """Write all parts of VoiceBench; return their folder."""
    for part, row in VOICEBENCH_ROWS.items():
        split = {"sd-qa": "usa", "mmsu": "law"}.get(part, "test")
        rows = [row | ({"prompt": f"{n}: {row['prompt']}"} if "prompt" in row else {}) for n in range(items)]
        if part == "ifeval":
            names = ("change_case:english_lowercase", "punctuation:no_comma")
            rows = [each | {"instruction_id_list": [names[n % 2]]} for n, each in enumerate(rows)]
        voicebench_part(root, part, rows, split=split)
    return root


BIG_BENCH_ANSWERS = {
    "formal_fallacies": "valid",
    "navigate": "No",
    "object_counting": "12",
    "web_of_lies": "Yes",
}
"""A possible answer by category."""


def big_bench_audio(root: Path, items: int = 1) -> Path:
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


def write_lines(path: Path, rows: Sequence[Any]) -> None:
    """Write one JSON value per line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def uro_bench(root: Path, items: int = 1) -> Path:
    """Write the parts of URO-Bench, of which two have dialogues."""
    spec = BENCHMARKS["uro-bench"]
    for name, part in spec.parts.items():
        rows: list[dict[str, Any]] = []
        for number in range(items):
            row = {
                "id": number,
                "source_wav": f"wav/{number}.wav",
                "source_text": f"A comet of {number} miles.",
            }
            if name.startswith(("MtBench", "SpeakerAware")):
                turns = [row | {"round": turn, "target_text": "Yes."} for turn in (1, 2)]
                rows.append({"id": number, "num_round": 2, "dialogue": turns})
            else:
                hints = dict.fromkeys(("emotion", "style", "requirement"), "sad") if part.hint else {}
                repeats = name.startswith("Repeat")
                rows.append({**row, **hints, **({} if repeats else {"target_text": "Ice and dust."})})
        listed_part(spec, root, name, rows)
        folder = (root / part.file).parent
        recordings_below(folder, *(f"wav/{number}.wav" for number in range(items)))
    return root


def sd_eval(root: Path, items: int = 1) -> Path:
    """Write the parts of SD-Eval with recordings of one corpus."""
    for name in BENCHMARKS["sd-eval"].parts:
        rows: list[dict[str, Any]] = [
            {
                "wav_path": f"RAVDESS-Speech/{name}/{number}.wav",
                "transcript": f"{number} kids are talking by the door",
                "utt_id": f"{number}",
                "target": [{"reply": "Are they too noisy?", "reply_emotion": "sadness"}],
                "info": "sad",
                "dataset_name": "RAVDESS-Speech",
            }
            for number in range(items)
        ]
        listed_part(BENCHMARKS["sd-eval"], root, name, rows)
        recordings_below(root, *(row["wav_path"] for row in rows))
    return root


def humdial_eibench(root: Path, items: int = 1) -> Path:
    """Write the parts of HumDial-EIBench: dialogues, and for T4 single questions."""
    spec = BENCHMARKS["humdial-eibench"]
    for name, part in spec.parts.items():
        question = {"question": "How does the user feel?", "options": ["glad", "sad"], "answer": "B"}
        asked = {} if name.startswith("T3") else question
        rows: list[dict[str, Any]] = []
        names: list[str] = []
        for number in range(items):
            turns = [
                {"turn_id": turn, "input_text": f"Turn {turn} of {number}.", "input_emotion": emotion}
                for turn, emotion in enumerate(("sad", "neutral", "angry"))
            ]
            whole = {"dialogue_id": f"d{number}", **asked}
            single = name.startswith("T4")
            rows.append({**whole, **turns[0]} if single else {**whole, "turns": turns})
            names += [f"d{number}_{turn}.wav" for turn in range(1 if single else 3)]
        listed_part(spec, root, name, rows)
        recordings_below((root / part.file).with_suffix(""), *names)
    return root


MULTICHALLENGE_AUDIO = {f"user_turn_{number}_audio": None for number in range(1, 9)}
"""The columns of Audio MultiChallenge with recordings."""


def multichallenge_row(
    *turns: str, axis: str = "VOICE_EDITING", rubric: Any = ("Names Lima.", "Is short."), most: int = 8
) -> dict[str, Any]:
    """Return a conversation of Audio MultiChallenge."""
    sound = {"bytes": audio_file(), "path": "x.wav"}
    found: dict[str, Any] = {"id": f"id-{len(turns)}", "axis": axis, "rubric": rubric}
    for number in range(1, most + 1):
        said = turns[number - 1] if number <= len(turns) else None
        found[f"user_turn_{number}_transcript"] = said
        found[f"user_turn_{number}_audio"] = sound if said else None
        found[f"assistant_turn_{number}_transcript"] = "Sure." if number < len(turns) else None
    return found


def audio_multichallenge(root: Path, items: int = 1) -> Path:
    """Write conversations of two turns on each axis of Audio MultiChallenge."""
    rows = [
        multichallenge_row("Where is Lima?", f"No, Quito, {number}.", axis=axis.upper())
        | {"id": f"{axis}-{number}"}
        for axis in BENCHMARKS["audio-multichallenge"].parts
        for number in range(items)
    ]
    write_table(root / "data" / "test-00000-of-00001.parquet", rows, audio=MULTICHALLENGE_AUDIO)
    return root


_ABILITIES = ("empathy/anger", "acoustic_attributes/age")


def vstyle(root: Path, items: int = 4, language: str = "en") -> Path:
    """Write VStyle's replies with ratings by two people, which rise with their number, and the judge's."""
    keys = [{"id": n, "instruct_id": n // 2, "ability": _ABILITIES[n % 2]} for n in range(items)]
    replies = [
        {
            **key,
            "instruct_text": f"Say {n}.",
            "model_name": "m",
            "response_audio_path": f"{n}.mp3",
            "response_text": f"{n % 5 + 1}",
        }
        for n, key in enumerate(keys)
    ]
    write_lines(root / "VStyle-responses" / language / "metadata.jsonl", replies)
    results = root / "VStyle-eval-results"
    for rater in ("p1", "p2"):
        ratings = [key | {"mos": str(n % 5 + 1)} for n, key in enumerate(keys)]
        write_lines(results / "human_eval_res" / language / f"{rater}.jsonl", ratings)
    write_lines(
        results / "model_eval_res" / f"{language}_res.jsonl",
        [key | {"gemini_score": 5 - n % 5} for n, key in enumerate(keys)],
    )
    for n in range(items):
        recording = root / "VStyle-responses" / language / "wav" / f"{n}.mp3"
        recording.parent.mkdir(exist_ok=True)
        recording.write_bytes(audio_file(cut=n))
    return root


def full_duplex_item(folder: Path, *recordings: str, **annotations: Any) -> None:
    """Write an item of Full-Duplex-Bench: recordings, and JSON files by name."""
    recordings_below(folder, *recordings)
    for name, content in annotations.items():
        (folder / f"{name}.json").write_text(json.dumps(content), "utf-8")


def full_duplex_bench(root: Path, items: int = 1) -> Path:
    """Write the parts of Full-Duplex-Bench that are read."""
    words = [{"text": "I", "timestamp": [0.2, 0.4]}, {"text": "do", "timestamp": [0.9, 1.2]}]
    said = [{"speaker": 0, "item": words}]
    pause = [{"text": "[PAUSE]", "timestamp": [0.4, 0.9]}]
    turn = [{"text": "[TURN-TAKING]", "timestamp": [1.2, 1.5]}]
    cut_in = [{"context": "Where?", "interrupt": "No, when?", "timestamp": [5.0, 6.0]}]
    overlap = {"context_text": "Where?", "current_turn_text": "Mm-hmm.", "timestamps": [0.8, 1.4]}
    for number in map(str, range(1, items + 1)):
        first, second = root / "v1_0", root / "v1_5"
        annotated: Mapping[str, Any] = {"pause": pause, "transcription": words}
        full_duplex_item(first / "synthetic_pause_handling" / number, "input.wav", **annotated)
        annotated = {"pause": pause, "transcription": said}
        full_duplex_item(first / "candor_pause_handling" / number, "input.wav", **annotated)
        annotated = {"turn_taking": turn, "transcription": said}
        full_duplex_item(first / "candor_turn_taking" / number, "input.wav", **annotated)
        files = ("input.wav", "context.wav", "interrupt.wav")
        full_duplex_item(first / "synthetic_user_interruption" / number, *files, interrupt=cut_in)
        for part in ("user_interruption", "user_backchannel", "talking_to_other", "background_speech"):
            full_duplex_item(second / part / number, "input.wav", "clean_input.wav", metadata=overlap)
    return root


def humdial_fdbench(root: Path, items: int = 1) -> Path:
    """Write the parts of HumDial-FDBench that are read."""
    segments = [{"xmin": 0.1, "xmax": 0.8, "text": "去哪"}, {"xmin": 1.1, "xmax": 1.5, "text": "嗯"}]
    for part in BENCHMARKS["humdial-fdbench"].parts.values():
        folder = root / part.file
        for number in range(1, items + 1):
            recordings_below(folder, f"{number}.wav", f"clean_{number}.wav")
            content = {"speech_segments": segments, "final_duration": 2}
            (folder / f"{number}.json").write_text(json.dumps(content), "utf-8")
    return root


SETS: Mapping[str, Callable[[Path, int], Path]] = {
    "voicebench": voicebench,
    "big-bench-audio": big_bench_audio,
    "uro-bench": uro_bench,
    "sd-eval": sd_eval,
    "humdial-eibench": humdial_eibench,
    "audio-multichallenge": audio_multichallenge,
    "vstyle": vstyle,
    "full-duplex-bench": full_duplex_bench,
    "humdial-fdbench": humdial_fdbench,
}
"""Writers of small copies, with a number of items per part, by name."""
