"""Present a turn on the page: its row in the table, and its details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from live_eval.analysis.statistics.intervals import rounded
from live_eval.analysis.summary.latencies import has_uncertain_start
from live_eval.analysis.summary.observations import Observation
from live_eval.analysis.summary.score_table import ScoreCell
from live_eval.analysis.summary.vocal_sounds import TITLES_OF_A_TURN
from live_eval.analysis.turn_view import TurnView, milliseconds
from live_eval.report.cells import number
from live_eval.report.embedded_audio import drawn_envelope
from live_eval.report.pages import script_json
from live_eval.report.tables import RunView
from live_eval.text.wording import counted, natural_order
from live_eval.types import Cue, Variant

__all__ = ["TurnRow", "turn_order", "turn_row"]

_EXCERPT = 110
_COARSE = 60  # waveform steps for a turn that is not streamed


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """The row of a turn in the page's table.

    Args:
        key: Key of the turn on the page.
        kinds: Status and badge kinds, for filtering the table.
        badges: Kind and text of each badge.
        values: Text and sort key of each value.
        search: Searchable text.
        details: Details of the turn as JSON.
    """

    key: str
    run: RunView
    turn_id: str
    text: str
    cue: str
    dimension: str
    variant: str
    task: str
    kinds: str
    badges: Sequence[tuple[str, str]]
    values: Sequence[tuple[str, float | None]]
    search: str
    details: Markup


def turn_order(turn: Observation) -> tuple[list[tuple[int, int, str]], int, str, int]:
    """Return a turn's sort key: script, variant, case, repetition, with numbers in names sorted by value."""
    return natural_order(turn.script_id), list(Variant).index(turn.variant), turn.case_id, turn.repeat


def turn_row(view: TurnView, run: RunView, key: str, shown: Sequence[str], *, steps: int | None) -> TurnRow:
    """Return the row of a turn.

    Args:
        key: Key of the turn on the page.
        shown: Scores that have a column.
        steps: Maximum number of waveform steps of a turn whose audio is streamed; None for other turns, whose
            waveform is coarse: a clip in the page has its own.
    """
    turn, scores, times = view.record, view.scores, view.counted_ms
    values: list[tuple[str, float | None]] = []
    for name in ("voice_to_voice", "first_byte"):
        ms = times[name]
        excluded = ms is not None and has_uncertain_start(turn.timing, name)
        # Without a sort key, the row is below those that the percentiles count.
        values.append((f"({number(ms)})", None) if excluded else (number(ms), rounded(ms, 2)))
    for name in shown:
        value = scores[name].value if name in scores else None
        values.append((number(value, 2), value))
    cue, dimension = _cue(turn.case.cue)
    said = [text for text in (turn.case.text or turn.heard_text, turn.reply_text) if text]
    badges = _badges(view)
    return TurnRow(
        key=key,
        run=run,
        turn_id=turn.turn_id,
        text=" → ".join(_excerpt(text) for text in said),
        cue=cue,
        dimension=dimension,
        variant="" if turn.case.source == "live" else turn.case.variant.value,  # free speech has no variant
        task=turn.case.task.value,
        kinds=" ".join(dict.fromkeys([view.status, *(kind for kind, _ in badges)])),
        badges=badges,
        values=values,
        search=" ".join([turn.turn_id, *_cue_words(turn.case.cue), turn.case.topic or "", *said]).lower(),
        details=script_json(_details(view, scores, steps)),
    )


def _score(cell: ScoreCell) -> list[float | str | None]:
    return [rounded(cell.value, 4), *filter(None, [cell.reason])]


def _cue(cue: Cue | None) -> tuple[str, str]:
    if cue is None:
        return "", ""
    return cue.name, cue.fine or (cue.coarse.value if cue.coarse else "")


def _cue_words(cue: Cue | None) -> list[str]:
    if cue is None:
        return []
    words = (cue.phrase, cue.attribute, cue.fine, cue.coarse.value if cue.coarse else None)
    return [word for word in words if word]


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _EXCERPT else line[: _EXCERPT - 1].rstrip() + "…"


def _badges(view: TurnView) -> list[tuple[str, str]]:
    turn = view.record
    answer = view.table.answer(turn.turn_id)
    unread = answer is not None and answer.status == "scored" and view.chosen is None
    badges = [
        turn.failure and ("failed", turn.failure.kind.value.replace("_", " ")),
        turn.timing.flagged and turn.captured and ("flagged", "lag"),
        turn.timing.uncertain and ("uncertain", "uncertain end"),
        unread and ("unparsed", "no choice"),
        turn.warnings and ("warned", counted(len(turn.warnings), "warning")),
    ]
    return [badge for badge in badges if badge]


def _details(view: TurnView, scores: Mapping[str, ScoreCell], steps: int | None) -> dict[str, Any]:
    turn = view.record
    failure = turn.failure
    return {
        "id": turn.turn_id,
        "texts": view.texts,
        "failure": [failure.kind.value, failure.message] if failure else None,
        "warnings": [[warning.kind.value, warning.message] for warning in turn.warnings],
        "latencies": [
            [TITLES_OF_A_TURN[name], rounded(milliseconds(found.ns), 1), found.reason]
            for name, found in view.shown_latencies.items()
            if name != "barge_in_stop" or found.ns is not None
        ],
        "lag": [rounded(turn.timing.lag_ns / 1e6, 1), turn.timing.flagged],
        "scores": [
            None if turn.case.task not in column.tasks else _score(cell)
            for column, cell in zip(view.table.columns, scores.values(), strict=True)
        ],
        "marks": [[mark.kind, mark.title, round(mark.at_s, 4)] for mark in view.marks],
        "seconds": round(view.seconds, 4),
        "envelope": None if turn.envelope is None else drawn_envelope(turn.envelope, steps=steps or _COARSE),
        "streamed": steps is not None,
        "responses": [[r.status.value, r.reason, r.text or "", r is turn.headline] for r in turn.responses]
        if len(turn.responses) > 1 or any(r.reason for r in turn.responses)
        else [],
        "facts": list(view.notes.items()),
    }
