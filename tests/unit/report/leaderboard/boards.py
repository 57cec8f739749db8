"""Write runs of several models, and read cells of their leaderboards."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from live_eval.data import cue_of
from live_eval.errors import FailureKind
from live_eval.judging import (
    Failed,
    Scored,
    Unscored,
)
from live_eval.recording import RunWriter, ScoreStore
from live_eval.report.leaderboard import build_board
from live_eval.report.leaderboard.board import Board, BoardCell
from live_eval.types import Case, Failure, Question, Task, Variant
from tests.support.records import TurnPlan, spoken_turn


def conversation(number: int) -> Case:
    return Case(
        case_id=f"id_{number}/target",
        script_id=f"id_{number}",
        variant=Variant.TARGET,
        audio_path=Path("x.wav"),
        cue=cue_of("sigh sound" if number % 2 else "laughter sound"),
    )


def question(number: int, task: Task) -> Case:
    asked = Question(
        question_id=f"q{number}",
        text="What?",
        options=(("A", "this"), ("B", "that")),
        answer="A",
        kind="gender" if number % 2 else "voice style",
    )
    return Case(
        case_id=f"{task}/q{number}",
        script_id=f"id_{number}",
        variant=Variant.TARGET,
        audio_path=Path("x.wav"),
        task=task,
        question=asked,
    )


def written(
    path: Path,
    *,
    prompt: str = "basic",
    c4: float | None = 3.0,
    ves: float = 2.0,
    unanswered: int = 0,
    conversations: int = 10,
    manifest: Mapping[str, Any] | None = None,
    version: str = "1",
    model: str = "judge-model",
    ended: bool = True,
) -> Path:
    """Write a run of ten scripts: conversations with C4 and VES, and questions, half answered correctly."""
    manifest = manifest or {
        "endpoint": {"name": "reference"},
        "data": {"name": "sample"},
        "prompt": {"name": prompt, "text": "You hear {cue}." if prompt == "upper-bound" else ""},
    }
    cases = [conversation(number) for number in range(conversations)]
    asked = [question(number, Task.UNDERSTANDING) for number in range(10)]
    with RunWriter.create(path, manifest) as run:
        for case in (*cases, *asked[unanswered:]):
            run.commit(spoken_turn(case, TurnPlan(reply_ms=300)))
        for case in asked[:unanswered]:
            failure = Failure(FailureKind.NO_RESPONSE, "none came")
            run.commit(spoken_turn(case, TurnPlan(first_byte_ms=None, failure=failure)))
        run.end(finished=ended)
    with ScoreStore.open(path) as store:
        for number, case in enumerate(cases):
            step = 0.1 * (number - 4.5)
            if c4 is not None:
                values = {"c1": 4.0, "c2": 4.0, "c3": 4.0, "c4": c4 + step}
                judged = Scored(values, {"answered_by": model}) if number else Unscored("no reply text")
                store.put("rubric", version, case.case_id, judged)
            store.put("ves", "1", case.case_id, Scored({"": ves + step}) if number else Failed("quota"))
        for number, case in list(enumerate(asked))[unanswered:]:
            store.put("mcq", "1", case.case_id, Scored({"accuracy": 100.0 * (number % 2), "parsed": 100.0}))
    return path


def ours(path_or_paths: list[Path], table: int, **options: bool) -> list[tuple[str, str]]:
    board = build_board(path_or_paths, **options)
    sources = [row.source for row in board.tables[table].rows if not row.published]
    return [(source.name, f"{source.prompt}{', states the cue' * source.states_cue}") for source in sources]


def figure(board: Board, table: int, title: str, row: int = 0) -> BoardCell:
    found = board.tables[table]
    [cell] = [
        cell
        for column, cell in zip(found.columns, found.rows[row].cells, strict=True)
        if column.title == title
    ]
    return cell


def notes(board: Board, table: int) -> str:
    return " ".join(board.tables[table].notes)


def at(base_url: str | None, prompt: str = "basic") -> Mapping[str, Any]:
    """Return the manifest of a run at an address; None for the vendor's."""
    return {
        "endpoint": {"name": "openai"},
        "data": {"name": "sample"},
        "prompt": {"name": prompt, "text": ""},
        "config": {"endpoint": {"base_url": base_url}, "data": {"path": "sample"}},
        "turns": 30,
    }


def named(board: Board, label: str) -> Board:
    """Return the board with another name for our first row."""
    tables = [
        replace(
            table,
            rows=(
                replace(table.rows[0], source=replace(table.rows[0].source, model=label)),
                *table.rows[1:],
            ),
        )
        for table in board.tables
    ]
    return replace(board, tables=tuple(tables))
