"""A turn on the page: a row of the table, and the details that the page opens on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from live_eval.analysis.greetings import greetings_of
from live_eval.analysis.summary import ScoreColumn, ScoreTable, TurnFacts, latency
from live_eval.recording import RunReader, TurnRecord
from live_eval.report.pages import script_json
from live_eval.report.tables import LATENCY_TITLES, RunView, number
from live_eval.report.waveforms import drawn_envelope, length_s
from live_eval.text.wording import counted, natural_order
from live_eval.types import Cue, Question, Variant

__all__ = ["TurnRow", "turn_marks", "turn_notes", "turn_order", "turn_row"]

_EXCERPT = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """A turn as the table shows it.

    Args:
        dimension: The dimension of the cue, as fine as it is known.
        badges: Its remarks: the kind of its failure, flagged, uncertain, warnings.
        figures: Voice to voice, first byte and the scores, as text and as numbers to sort by.
        search: What a search looks through, in lower case.
        details: The rest, as JSON that is safe within a page.
    """

    key: str
    run: RunView
    turn_id: str
    text: str
    cue: str
    dimension: str
    variant: str
    task: str
    status: str
    badges: tuple[tuple[str, str], ...]
    figures: tuple[tuple[str, float | None], ...]
    search: str
    details: Markup


def turn_order(turn: TurnFacts) -> tuple[list[tuple[int, int, str]], int, str, int]:
    """Return what to sort turns by: script, variant, repetition. Numbers in names count as numbers."""
    return natural_order(turn.script_id), list(Variant).index(turn.variant), turn.case_id, turn.repeat


def turn_row(reader: RunReader, view: RunView, facts: TurnFacts, key: str, shown: Sequence[str]) -> TurnRow:
    """Read a turn and return its row on the page."""
    turn = reader.turn(facts.turn_id)
    table = view.summary.table
    columns = {column.name: column for column in table.columns}
    figures: list[tuple[str, float | None]] = []
    for name in ("voice_to_voice", "first_byte"):
        value = facts.milliseconds(name)
        figures.append((number(value), value))
    for name in shown:
        column = columns.get(name)
        value = (
            table.cell(turn.turn_id, turn.case.task, column).value
            if column is not None and turn.captured
            else None
        )
        figures.append((number(value, 2), value))
    cue, dimension = _cue(turn.case.cue)
    said = [text for text in (turn.case.text, turn.reply_text) if text]
    return TurnRow(
        key=key,
        run=view,
        turn_id=turn.turn_id,
        text=" → ".join(_excerpt(text) for text in said),
        cue=cue,
        dimension=dimension,
        variant=turn.case.variant.value,
        task=turn.case.task.value,
        status="captured" if turn.captured else "failed",
        badges=_badges(turn, table),
        figures=tuple(figures),
        search=" ".join([turn.turn_id, *_cue_words(turn.case.cue), turn.case.topic or "", *said]).lower(),
        details=script_json(_details(reader, turn, facts, table)),
    )


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


def _badges(turn: TurnRecord, table: ScoreTable) -> tuple[tuple[str, str], ...]:
    badges = []
    if turn.failure is not None:
        badges.append(("failed", turn.failure.kind.value.replace("_", " ")))
    if turn.timing.flagged and turn.captured:
        badges.append(("flagged", "lag"))
    if turn.timing.uncertain:
        badges.append(("uncertain", "uncertain end"))
    answer = table.answer(turn.turn_id)
    if answer is not None and answer.status == "scored" and table.chosen(turn.turn_id) is None:
        badges.append(("unparsed", "no choice"))
    if turn.warnings:
        badges.append(("warned", counted(len(turn.warnings), "warning")))
    return tuple(badges)


def _details(reader: RunReader, turn: TurnRecord, facts: TurnFacts, table: ScoreTable) -> dict[str, Any]:
    case, timing = turn.case, turn.timing
    envelope = reader.envelope(turn.turn_id)
    seconds = 0.0 if envelope is None else length_s(envelope)
    return {
        "id": turn.turn_id,
        "texts": [
            [title, text]
            for title, text in (
                ("Script", case.text),
                ("Question", _question(case.question)),
                ("Heard by the endpoint's transcriber", turn.heard_text),
                ("Reply", turn.reply_text),
                ("Read as", _read_as(turn, table)),
                ("Reference reply", case.reference_text),
            )
            if text
        ],
        "failure": [turn.failure.kind.value, turn.failure.message] if turn.failure else None,
        "warnings": [[warning.kind.value, warning.message] for warning in turn.warnings],
        "latencies": [
            [title, None if (found := latency(timing, name)).ns is None else found.ns / 1e6, found.reason]
            for name, title in LATENCY_TITLES.items()
        ],
        "lag": [timing.lag_ns / 1e6, timing.flagged],
        "scores": [_score(table, turn, column) for column in table.columns],
        "marks": turn_marks(turn),
        "seconds": seconds,
        "envelope": None if envelope is None else drawn_envelope(envelope),
        "responses": [[r.status.value, r.reason, r.text or "", r is turn.headline] for r in turn.responses]
        if len(turn.responses) > 1 or any(r.reason for r in turn.responses)
        else [],
        "facts": [[name, text] for name, text in turn_notes(reader, turn).items() if text],
    }


def _question(question: Question | None) -> str | None:
    if question is None:
        return None
    options = " ".join(f"{letter}. {text}" for letter, text in question.options)
    return f"{question.text} {options} (key: {question.answer or 'none'})"


def _read_as(turn: TurnRecord, table: ScoreTable) -> str | None:
    row = table.answer(turn.turn_id)
    if row is None or row.status != "scored":
        return None
    return table.chosen(turn.turn_id) or "no single option"


def _score(table: ScoreTable, turn: TurnRecord, column: ScoreColumn) -> list[Any]:
    cell = table.cell(turn.turn_id, turn.case.task, column)
    return [column.name, cell.value, column.unit, cell.reason, column.title]


def turn_marks(turn: TurnRecord) -> list[list[Any]]:
    """Return the kind, title and second of each mark, from the session's sample 0, in the order of time."""
    trace, timing = turn.trace, turn.timing
    if trace.t0_ns is None:
        return []
    marks: list[tuple[str, str, int | None]] = [("end", "end of speech", trace.voice_end_ns)]
    if trace.voice_end_ns is not None:
        marks += [
            (kind, title, None if found.ns is None else trace.voice_end_ns + found.ns)
            for kind, title, found in (
                ("endpointing", "endpoint heard the end", timing.endpointing),
                ("byte", "first byte", timing.first_byte),
                ("audible", "first audible sample", timing.voice_to_voice),
            )
        ]
    marks.append(("barge", "user barges in", trace.barge_in_ns))
    if timing.headline is not None:
        response = trace.responses[timing.headline]
        marks += [
            ("interrupted", "interrupted", response.interrupted_ns),
            ("done", "response done", response.done_ns),
        ]
    placed = [(kind, title, (at - trace.t0_ns) / 1e9) for kind, title, at in marks if at is not None]
    return [list(mark) for mark in sorted(placed, key=lambda mark: mark[2])]


def turn_notes(reader: RunReader, turn: TurnRecord) -> Mapping[str, str]:
    """Return facts about a turn by name, in words; empty where there is nothing to say."""
    case = turn.case
    phrase = case.cue.phrase if case.cue else ""
    return {
        "cue": phrase,
        "topic": case.topic or "",
        "attempt": str(turn.attempt) if turn.attempt > 1 else "",
        "playout underruns": f"{turn.timing.stalls}, {turn.timing.stalled_ns / 1e6:.0f} ms"
        if turn.timing.stalls
        else "",
        "greeting": _greeting(turn),
        "premature responses": str(turn.timing.premature) if turn.timing.premature else "",
        "frames late": str(turn.late_speech_frames) if turn.late_speech_frames else "",
        "packets": f"{turn.media.packets}, {turn.media.lost} lost" if turn.media is not None else "",
        "setup": ", ".join(f"{name} {ns / 1e6:.0f} ms" for name, ns in turn.trace.setup_ns.items()),
        "session": turn.session_id or "",
        "model": turn.model or "",
        # The page must not reveal where the data is stored on this machine.
        "recording": Path(*case.audio_path.parts[-2:]).as_posix(),
        "both sides": turn.both_file.relative_to(reader.path).as_posix() if turn.both_file else "",
        "reply": turn.reply_file.relative_to(reader.path).as_posix() if turn.reply_file else "",
        "audio lost": reader.lost_audio().get(turn.turn_id, ""),
    }


def _greeting(turn: TurnRecord) -> str:
    greeting = next(greetings_of([turn]), None)
    if greeting is None:
        return ""
    over = ", the user spoke over it" if greeting.spoken_over else ""
    return f"the endpoint spoke first, for {greeting.heard_s:.1f} s{over}"
