"""Read Full-Duplex-Bench (v1.0, v1.5) and HumDial-FDBench as dialogues for ``live-eval duplex``.

Both benchmarks stream one recording with events at fixed times. Here, an overlapping utterance begins `AFTER`
the reply becomes audible, so that it overlaps the reply of every endpoint; pauses are as annotated. An
utterance that is a stretch of a longer recording has that stretch as its boundaries and the detail
``excerpt``. The layouts follow the publishers' descriptions and are not verified with the data.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from live_eval.data._rows import parse_json, unique
from live_eval.data.benchmarks import (
    BenchmarkSpec,
    PlacedBenchmark,
    benchmark_set,
    find_parts,
    read_parts,
)
from live_eval.data.dataset import DataOptions, DataSet
from live_eval.errors import DataError
from live_eval.files import read_text
from live_eval.types import (
    Anchor,
    BenchmarkItem,
    Case,
    ScoringRule,
    SpeechBoundaries,
    SpeechKind,
    SpokenPart,
    Task,
    Variant,
)

__all__ = ["AFTER", "find"]

AFTER = Anchor.parse("reply_audible+300ms")
"""The start of an overlapping utterance: before the first pause or the end of most replies."""


_NOTE = (
    "overlapping utterances begin 0.3 s after the reply becomes audible in live-eval duplex, not at the "
    "benchmark's fixed times"
)


class _Utterance(NamedTuple):
    """An utterance of an item: a whole recording, or a stretch of one from `begin` to `end` in seconds.

    `text` is None if the benchmark publishes none.
    """

    file: str
    text: str | None = None
    begin: float | None = None
    end: float | None = None
    speech: SpeechKind = SpeechKind.TURN
    parts: Sequence[tuple[float, float]] = ()


def find(path: Path, spec: BenchmarkSpec) -> PlacedBenchmark | None:
    """Return the benchmark at a path, its root or a part's name below it; None for any other path."""
    return find_parts(path, spec, os.path.isdir, _read)


def _read(root: Path, selected: str, spec: BenchmarkSpec, options: DataOptions) -> DataSet:
    here = [name for name in spec.parts if os.path.isdir(root / spec.parts[name].file)]
    cases: list[Case] = []
    taken: set[str] = set()
    counts: dict[str, int] = {}
    damaged: dict[str, str] = {}

    def read(name: str) -> list[Path]:
        folder = root / spec.parts[name].file
        items = sorted(folder.glob("*.wav") if spec.name == _HUMDIAL else folder.iterdir())
        items = [item for item in items if item.is_dir() or item.suffix == ".wav"]
        items = [item for item in items if not item.name.startswith((".", "clean_"))]
        if not items:
            raise DataError(f"{folder}: expected the items of {spec.title}, found none")
        return items

    for name, items in read_parts([selected] if selected else here, read, damaged):
        for item in items:
            item_name = f"{name}/{item.stem if item.suffix == '.wav' else item.name}"
            cases.extend(_item(name, item, unique(item_name, taken), spec))
        counts[name] = len(items)
    wordless = sum(case.text == "" for case in cases)
    notes = [_NOTE, *([f"utterances without text: {wordless}; they are run"] if wordless else [])]
    return benchmark_set(spec, root, selected, cases, counts, notes, damaged)


_HUMDIAL = "humdial-fdbench"


def _item(part: str, item: Path, name: str, spec: BenchmarkSpec) -> Iterator[Case]:
    utterances: Sequence[_Utterance] = [_Utterance(item.name)]
    problem = None
    try:
        utterances = _humdial(part, item) if spec.name == _HUMDIAL else _READERS[part](item)
    except DataError as error:
        problem = str(error)
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
        problem = f"{item}: unexpected annotations: {_in_words(error)}"
    folder = item if item.is_dir() else item.parent
    for index, said in enumerate(utterances):
        cut = said.begin is not None and said.end is not None
        yield Case(
            case_id=f"{name}/{index + 1}" if len(utterances) > 1 else name,
            script_id=name,
            variant=Variant.TARGET,
            audio_path=folder / said.file,
            text=None if said.text is None else said.text.strip(),
            topic=part,
            source=spec.name,
            language=spec.parts[part].language,
            task=Task.BENCHMARK,
            problem=problem,
            boundaries=_boundaries(said.begin, said.end) if cut else None,
            parts=tuple(SpokenPart(_ns(begin), _ns(end)) for begin, end in said.parts),
            dialogue_id=name if len(utterances) > 1 else None,
            turn_index=index,
            speech=said.speech,
            anchor=AFTER if index else None,
            item=BenchmarkItem(
                benchmark=spec.name,
                part=part,
                rule=ScoringRule.TURN_TAKING,
                details={"excerpt": True} if cut else {},
            ),
        )


def _in_words(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"expected the field {error}, found none"
    if isinstance(error, IndexError):
        return "expected an entry in every list, got an empty list"
    if isinstance(error, (AttributeError, TypeError)):
        return f"expected another type of value ({error})"
    return str(error)


def _boundaries(begin: float | None, end: float | None) -> SpeechBoundaries:
    return SpeechBoundaries(onset_ns=_ns(begin or 0), voice_end_ns=_ns(end or 0), method="annotation")


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _json(path: Path) -> Any:
    return parse_json(read_text(path, links=True), str(path))


def _times(begin: Any, end: Any) -> tuple[float, float]:
    begin, end = float(begin), float(end)
    if not 0 <= begin < end < math.inf:
        raise ValueError(f"expected 0 <= begin < end in seconds, got {begin} to {end}")
    return begin, end


def _words(item: Path, pauses: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the word times of the speaker who pauses, in order of start.

    ``transcription.json`` lists words, or speakers with their words. Only the user is in the recording: the
    one speaker with words before and after the pauses and none within them.
    """
    speakers: dict[Any, list[tuple[float, float]]] = {}
    for entry in _json(item / "transcription.json"):
        for word in entry.get("item", [entry]):
            speakers.setdefault(entry.get("speaker"), []).append(_stretch(word))
    if len(speakers) > 1:
        speakers = {name: words for name, words in speakers.items() if _pauses_at(words, pauses)}
    if len(speakers) != 1:
        raise ValueError(f"expected one speaker with words around the pauses, got {len(speakers)}")
    (words,) = speakers.values()
    return sorted(words)


def _pauses_at(words: Sequence[tuple[float, float]], pauses: Sequence[tuple[float, float]]) -> bool:
    """Return whether the words surround all pauses, and none has its middle in a pause."""
    middles = [(begin + end) / 2 for begin, end in words]
    within = any(begin < middle < end for middle in middles for begin, end in pauses)
    return min(middles) < pauses[0][0] and max(middles) > pauses[-1][1] and not within


def _stretch(entry: Mapping[str, Any]) -> tuple[float, float]:
    begin, end = entry["timestamp"]
    return _times(begin, end)


def _pauses(item: Path) -> list[_Utterance]:
    """Return an utterance with the annotated pauses."""
    pauses = [_stretch(entry) for entry in _json(item / "pause.json")]
    words = _words(item, pauses)
    bounds = [words[0][0], *(time for pause in pauses for time in pause), max(end for _, end in words)]
    parts = [(bounds[at], bounds[at + 1]) for at in range(0, len(bounds), 2)]
    if any(begin >= end for begin, end in parts):
        raise ValueError("expected every pause between words")
    return [_Utterance("input.wav", parts=parts)]


def _turn_end(item: Path) -> list[_Utterance]:
    """Return an utterance up to the annotated end of the turn."""
    end, _ = _stretch(_json(item / "turn_taking.json")[0])
    _times(0, end)
    return [_Utterance("input.wav", begin=0.0, end=end, parts=[(0.0, end)])]


def _interruption(item: Path) -> list[_Utterance]:
    said = _json(item / "interrupt.json")[0]
    return [
        _Utterance("context.wav", str(said["context"])),
        _Utterance("interrupt.wav", str(said["interrupt"])),
    ]


def _overlap(item: Path, speech: SpeechKind) -> list[_Utterance]:
    said = _json(item / "metadata.json")
    begin, end = _stretch({"timestamp": said["timestamps"]})
    _times(0, begin)
    return [
        _Utterance("input.wav", str(said["context_text"]), 0.0, begin),
        _Utterance("input.wav", str(said["current_turn_text"]), begin, end, speech),
    ]


_READERS: Mapping[str, Callable[[Path], Sequence[_Utterance]]] = MappingProxyType(
    {
        "candor_pause_handling": _pauses,
        "synthetic_pause_handling": _pauses,
        "candor_turn_taking": _turn_end,
        "synthetic_user_interruption": _interruption,
        "user_interruption": partial(_overlap, speech=SpeechKind.TURN),
        "user_backchannel": partial(_overlap, speech=SpeechKind.BACKCHANNEL),
        "talking_to_other": partial(_overlap, speech=SpeechKind.NON_DIRECTED),
        "background_speech": partial(_overlap, speech=SpeechKind.NON_DIRECTED),
    }
)


def _humdial(part: str, item: Path) -> list[_Utterance]:
    """Return the first speech segment, and the last as the event; for pauses, all segments."""
    scene = part.rpartition("-")[0]
    segments = [
        (*_times(each["xmin"], each["xmax"]), str(each.get("text") or ""))
        for each in _json(item.with_suffix(".json"))["speech_segments"]
    ]
    if len(segments) < 2:
        raise ValueError(f"expected at least 2 speech segments, got {len(segments)}")
    if scene == "pause":
        text = " ".join(text for _, _, text in segments)
        return [_Utterance(item.name, text, parts=[(begin, end) for begin, end, _ in segments])]
    (begin, end, text), last = segments[0], segments[-1]
    speech = {"backchannel": SpeechKind.BACKCHANNEL}.get(
        scene, SpeechKind.NON_DIRECTED if "others" in scene else SpeechKind.TURN
    )
    return [
        _Utterance(item.name, text, begin, end),
        _Utterance(item.name, last[2], last[0], last[1], speech),
    ]
