"""Read VStyle's published replies with human ratings, to audit judges of vocal style.

``VStyle-responses/LANGUAGE/metadata.jsonl`` lists the replies, next to them or to ``wav/``;
``VStyle-eval-results/human_eval_res/LANGUAGE/RATER.jsonl`` contains the ratings (``mos``), and
``model_eval_res/LANGUAGE_res.jsonl`` those of the publisher's judge (``gemini_score``). A rating belongs to
the reply with the same ``id`` and ``instruct_id``, as in the publisher's analysis.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from live_eval.data._rows import DamagedLine, inside, read_json_lines
from live_eval.data.benchmarks import BenchmarkSpec, PlacedBenchmark, benchmark_set, find_parts
from live_eval.data.dataset import DataOptions, DataSet
from live_eval.data.taxonomy import cue_of
from live_eval.errors import DataError
from live_eval.types import Case, Variant

__all__ = ["RatedReply", "find", "rated_replies"]

_LANGUAGES = ("en", "zh")

_RESPONSES = "VStyle-responses"
_RESULTS = "VStyle-eval-results"
_EMPATHY = "empathy"


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedReply:
    """A published reply with ratings.

    Args:
        case: The instruction; its cue is the user's emotion, or None except for empathy.
        ability: What the instruction asks for, such as ``empathy/anger``.
        audio: Path of the reply; None if it is missing or outside the folder.
        ratings: People's ratings, 1 to 5, by rater.
        published: Rating by the publisher's judge, or None.
    """

    case: Case
    ability: str
    audio: Path | None
    text: str | None
    ratings: Mapping[str, float] = field(default_factory=dict)
    published: float | None = None


def find(path: Path, spec: BenchmarkSpec) -> PlacedBenchmark | None:
    """Return VStyle at a path, its root or a language below it; None for any other path."""
    return find_parts(path, spec, os.path.isfile, _read)


def _read(root: Path, selected: str, spec: BenchmarkSpec, options: DataOptions) -> DataSet:
    """Return a data set without cases, whose note counts the replies."""
    damaged: dict[str, str] = {}
    count = len(rated_replies(root, selected, damaged))
    note = f"{count} replies with human ratings, for live-eval audit JUDGE --data {spec.name}"
    return replace(benchmark_set(spec, root, selected, [], {}, damaged=damaged), notes=(note,))


def rated_replies(root: Path, selected: str = "", damaged: dict[str, str] | None = None) -> list[RatedReply]:
    """Return the replies that people rated, in every language that is present, or in the selected one.

    Args:
        damaged: Lines that cannot be read are added, with reasons.

    Raises:
        DataError: No replies or no ratings are present, or a file cannot be read.
    """
    damaged = {} if damaged is None else damaged
    found: list[RatedReply] = []
    shown = selected or "LANGUAGE"
    for language in [selected] if selected else _LANGUAGES:
        listed = root / _RESPONSES / language / "metadata.jsonl"
        raters = sorted((root / _RESULTS / "human_eval_res" / language).glob("*.jsonl"))
        if not os.path.isfile(listed) or not raters:
            continue
        ratings: dict[str, dict[str, float]] = {}
        for file in raters:
            for key, row in _rows(file, damaged):
                if (value := _rating(row.get("mos"))) is not None:
                    ratings.setdefault(key, {})[file.stem] = value
        model = root / _RESULTS / "model_eval_res" / f"{language}_res.jsonl"
        published = {key: _rating(row.get("gemini_score")) for key, row in _rows(model, damaged)}
        for key, row in _rows(listed, damaged):
            if key in ratings:
                found.append(_reply(key, row, listed.parent, language, ratings[key], published.get(key)))
    if not found:
        raise DataError(
            f"{root}: expected replies in {_RESPONSES}/{shown}/metadata.jsonl with ratings in "
            f"{_RESULTS}/human_eval_res/{shown}, found none"
        )
    return found


def _reply(
    key: str,
    row: Mapping[str, Any],
    folder: Path,
    language: str,
    ratings: Mapping[str, float],
    published: float | None,
) -> RatedReply:
    ability, name = str(row.get("ability") or ""), str(row.get("response_audio_path") or "")
    kind, _, emotion = ability.partition("/")
    places = [path for base in (folder / "wav", folder) if name and (path := inside(base, name)) is not None]
    text = row.get("response_text")
    return RatedReply(
        case=Case(
            case_id=f"{language}/{key}",
            script_id=f"{language}/{row.get('instruct_id')}",
            variant=Variant.TARGET,
            audio_path=folder,
            text=str(row.get("instruct_text") or "") or None,
            cue=cue_of(emotion.replace("_", " and ")) if kind == _EMPATHY else None,
            language=language,
            source="vstyle",
        ),
        ability=ability,
        audio=next((path for path in places if os.path.isfile(path)), places[-1] if places else None),
        text=text.strip() if isinstance(text, str) else None,
        ratings=ratings,
        published=published,
    )


def _rows(path: Path, damaged: dict[str, str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the rows that identify a reply, with its key; none if the file is missing."""
    if not os.path.isfile(path):
        return
    for number, row in read_json_lines(path):
        if isinstance(row, DamagedLine):
            damaged[f"{path.parent.name}/{path.name}, line {number}"] = row.reason
        elif isinstance(row, dict) and row.get("id") is not None and row.get("instruct_id") is not None:
            yield f"{row['id']}_{row['instruct_id']}", row


def _rating(value: Any) -> float | None:
    """Return a rating, or None if it is not a number from 1 to 5."""
    try:
        number = float(value)
    except (OverflowError, TypeError, ValueError):
        return None
    return number if 1 <= number <= 5 and not isinstance(value, bool) else None
