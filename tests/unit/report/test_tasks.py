"""Reports of runs with several tasks, of judges, and of unfinished runs."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval.cli import cli
from live_eval.data import cue_of
from live_eval.errors import FailureKind
from live_eval.judging import Failed, Scored, Unscored
from live_eval.recording import RunWriter, ScoreStore
from live_eval.report import open_runs, write_report
from live_eval.report.cells import Table
from live_eval.report.tables import cue_tables, judges_in_words
from live_eval.types import Case, Failure, Question, Task, Variant
from tests.support.records import TurnPlan, spoken_turn

SCRIPTS = 4


def a_case(task: Task, number: int) -> Case:
    asked = Question(
        question_id=f"q{number}",
        text="What?",
        options=(("A", "this"), ("B", "that")),
        answer="A",
        kind="gender",
    )
    return Case(
        case_id=f"{task}/{number}",
        script_id=f"id_{number}",
        variant=Variant.TARGET,
        audio_path=Path("x.wav"),
        cue=cue_of("sigh sound"),
        task=task,
        question=asked if task.asks else None,
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """An interrupted run of three tasks: the first conversation failed, the last is not judged."""
    path = tmp_path / "mine"
    tasks = (Task.UNDERSTANDING, Task.REASONING, Task.CONVERSATION)
    with RunWriter.create(path, {"turns": 20}) as writer, ScoreStore.open(path) as scores:
        for task in tasks:
            for number in range(SCRIPTS):
                case = a_case(task, number)
                failed = task is Task.CONVERSATION and number == 0
                failure = Failure(FailureKind.NO_RESPONSE, "none came") if failed else None
                writer.commit(
                    spoken_turn(
                        case, TurnPlan(first_byte_ms=None if failed else 500.0, reply_ms=200, failure=failure)
                    )
                )
                if task.asks:
                    right = 100.0 * (task is Task.REASONING)
                    scores.put("mcq", "3", case.case_id, Scored({"accuracy": right, "parsed": 100.0}))
                elif number == SCRIPTS - 1:
                    scores.put("rubric", "1+mine@here", case.case_id, Failed("no answer"))
                elif not failed:
                    values = {"c1": 4.0, "c2": 4.0, "c3": 4.0, "c4": 1.0 + number}
                    detail = {"model": "mine", "answered_by": "mine-2026"}
                    scores.put("rubric", "1+mine@here", case.case_id, Scored(values, detail))
                    scores.put("ves", "1", case.case_id, Unscored("needs the key GEMINI_API_KEY"))
        writer.end(finished=False)
    return path


def test_turns_by_cue_are_shown_for_each_task_with_their_counts(run: Path) -> None:
    with open_runs([run]) as opened:
        asked, reasoned, said = cue_tables([opened[0].view])
    assert [table.title for table in (asked, reasoned, said)] == [
        "understanding",
        "reasoning",
        "conversation",
    ]

    def first_row(table: Table) -> dict[str, str]:
        return {column.label: cell.text for column, cell in zip(table.columns, table.rows[0], strict=True)}

    assert first_row(asked) == {
        "turns by": "all target",
        "turns": "4",
        "failed": "0",
        "voice to voice, p50 ms": "580",
        "accuracy": "0.00",
        "replies that choose one option": "100.00",
    }
    assert first_row(reasoned)["accuracy"] == "100.00"
    told = first_row(said)
    assert (told["turns"], told["failed"]) == ("4", "1")
    assert told["voice to voice, p50 ms"] == "580", "of the three that were captured"
    assert told["C4 speech information relevance"] == "2.50 (n 2)"
    assert "accuracy" not in told


def test_the_page_and_markdown_have_a_table_by_cue_for_each_task(run: Path) -> None:
    page, text = write_report([run]), write_report([run], form="md")
    assert page is not None
    assert text is not None
    for task in ("understanding", "reasoning", "conversation"):
        assert f"## By cue: {task}\n" in text
        assert f"<caption>{task.capitalize()}: turns by variant and vocal cue</caption>" in page


def test_judges_are_named_with_version_and_model(run: Path, tmp_path: Path) -> None:
    words = "mcq, version 3; rubric by mine-2026, version 1+mine@here"
    for form in ("html", "md"):
        assert f"Judges: {words}." in (write_report([run], form="html" if form == "html" else "md") or "")
    shown = CliRunner().invoke(cli, ["show", str(run)], env={"COLUMNS": "200"}, catch_exceptions=False)
    assert f"judges: {words}" in shown.stdout
    other = tmp_path / "other"
    with RunWriter.create(other, {}) as writer:
        writer.commit(spoken_turn(a_case(Task.CONVERSATION, 1), TurnPlan(reply_ms=200)))
        writer.end(finished=True)
    with ScoreStore.open(other) as scores:
        scores.put("bleu", "2", "conversation/1", Scored({"": 1.0}))
    with open_runs([run, other]) as opened:
        told = judges_in_words([one.view for one in opened])
    assert told == [f"Judges of mine: {words}.", "Judges of other: bleu, version 2."]


def test_an_incomplete_run_is_marked_everywhere(run: Path) -> None:
    words = "incomplete: 12 of 20 turns recorded"
    for form in ("html", "md"):
        text = write_report([run], form="html" if form == "html" else "md")
        assert f"mine {words}." in (text or "")
    assert f"The run {words}." in CliRunner().invoke(cli, ["show", str(run)]).stdout
    for command in (["export"], ["cue-sensitivity", "--words", "--json"]):
        done = CliRunner().invoke(cli, [*command, str(run)], catch_exceptions=False)
        assert done.stderr == f"note: {run} {words}\n"


def test_where_no_question_was_answered_no_reply_could_be_unparsed(tmp_path: Path) -> None:
    run = tmp_path / "silent"
    failure = Failure(FailureKind.NO_RESPONSE, "none came")
    with RunWriter.create(run, {}) as writer, ScoreStore.open(run) as scores:
        for number in range(SCRIPTS):
            case = a_case(Task.UNDERSTANDING, number)
            writer.commit(spoken_turn(case, TurnPlan(first_byte_ms=None, failure=failure)))
            scores.put("mcq", "3", case.case_id, Unscored("the turn failed: no_response"))
        writer.end(finished=True)
    shown = CliRunner().invoke(cli, ["show", str(run)], catch_exceptions=False).stdout
    [row] = [line.split() for line in shown.splitlines() if line.startswith("understanding")]
    assert row[1:6] == ["4", "4", "4", "0", "0.0"], "asked, n, failed, excluded, accuracy"
    assert row[-2:] == ["–", "–"], "unparsed, refused"
