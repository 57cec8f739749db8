"""The tasks of a run and the relations between its levels, compared with values computed by hand."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import spearmanr

from live_eval.analysis.comparison.series import series_of
from live_eval.analysis.statistics.intervals import MIN_CLUSTERS
from live_eval.analysis.summary.observations import read_observations
from live_eval.analysis.summary.run_summary import RunSummary, summarise
from live_eval.analysis.summary.task_metrics import TaskSummary
from live_eval.analysis.task_levels import ASKS_FOR, TaskLevels, relate_levels
from live_eval.cli import cli
from live_eval.data import cue_of
from live_eval.errors import FAILURE_CAUSES, FailureCause, FailureKind
from live_eval.judging import TURN_FAILED, Judgement, Scored, Unscored
from live_eval.recording import RunReader, RunWriter, ScoreStore
from live_eval.report import write_report
from live_eval.report.cells import Cell
from live_eval.report.leaderboard import build_board
from live_eval.report.plots import level_plots
from live_eval.scoring.scoring_run import score_run
from live_eval.types import Case, Failure, Question, Task, Variant
from tests.support.records import TurnPlan, spoken_turn

SCRIPTS = 12
CUES = ("sigh sound", "laughter sound", "whisper", "shout", "child", "sound of raining")
RNG = np.random.default_rng(5)
SKILL = RNG.permutation(SCRIPTS)
C4 = [round(float(3 + 0.1 * SKILL[number] + 0.05 * RNG.normal()), 3) for number in range(SCRIPTS)]


def case(task: Task, number: int, *, source: str = "synthesis", place: int = 0, kind: str = "") -> Case:
    prefix = "human:" if source == "human" else ""
    question = Question(
        question_id=f"q{number}_{place}",
        text="What?",
        options=(("A", "this"), ("B", "that")),
        answer="A",
        kind=kind or "coarse-grained",
    )
    cue = cue_of(CUES[number % len(CUES)])
    return Case(
        case_id=f"{prefix}{task}/{number}_{place}",
        script_id=f"id_{number}",
        variant=Variant.TARGET,
        audio_path=Path("x.wav"),
        text="a b c d",
        cue=cue,
        script_cue=cue,
        source=source,
        task=task,
        question=question if task.asks else None,
    )


def answered(right: bool, *, parsed: bool = True, refused: bool = False) -> Scored:
    values = {"accuracy": 100.0 * right, "parsed": 100.0 * parsed, "refused": 100.0 * refused}
    return Scored(values)


def said_back(errors: int, words: int) -> Scored:
    rate, counts = 100.0 * errors / words, {"errors": errors, "words": words}
    return Scored({"normalized": rate, "raw": rate}, {"normalized": counts, "raw": counts})


def rubric(c4: float) -> Scored:
    return Scored({"c1": 4.0, "c2": 4.0, "c3": 4.0, "c4": c4})


def summary_of(path: Path, turns: Sequence[tuple[Case, str, Judgement]]) -> RunSummary:
    with RunWriter.create(path, {}) as run:
        for each, _, _ in turns:
            run.commit(spoken_turn(each, TurnPlan(reply_ms=100)))
        run.end(finished=True)
    with ScoreStore.open(path) as store:
        for each, judge, judgement in turns:
            store.put(judge, "1", each.case_id, judgement)
    with RunReader.open(path) as reader:
        return summarise(reader)


def right(number: int, place: int) -> bool:
    """Return whether a question is answered correctly: scripts with better replies have more such answers."""
    return bool(SKILL[number] > 3 * (place + 1) - 1)


def whole(scripts: int = SCRIPTS) -> list[tuple[Case, str, Judgement]]:
    turns: list[tuple[Case, str, Judgement]] = []
    for number in range(scripts):
        for place in range(3):
            turns.append(
                (case(Task.UNDERSTANDING, number, place=place), "mcq", answered(right(number, place)))
            )
        turns.append((case(Task.CONVERSATION, number), "rubric", rubric(C4[number])))
        human = case(Task.CONVERSATION, number, source="human")
        turns.append((human, "rubric", rubric(C4[number] - 0.5)))
    return turns


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("levels") / "whole"


@pytest.fixture(scope="module")
def summary(run: Path) -> RunSummary:
    return summary_of(run, whole())


@pytest.fixture(scope="module")
def levels(summary: RunSummary) -> TaskLevels:
    return relate_levels(summary)


def of_task(summary: RunSummary, task: Task) -> TaskSummary:
    return next(figures for figures in summary.tasks if figures.task is task)


# -- Tasks -------------------------------------------------------------------------------------------------


def test_accuracy_is_reported_by_type_and_replies_without_a_choice_are_counted(tmp_path: Path) -> None:
    kinds = ("gender", "gender", "voice style", "voice style", "voice style", "of their own")
    cases = [case(Task.UNDERSTANDING, number, kind=kind) for number, kind in enumerate(kinds)]
    judgements: list[Judgement] = [
        answered(True),
        answered(False),
        answered(True),
        answered(False, parsed=False, refused=True),
        answered(False, parsed=False),
        Unscored("the question has no answer key"),
    ]
    summary = summary_of(
        tmp_path / "run", [(each, "mcq", made) for each, made in zip(cases, judgements, strict=True)]
    )
    [figures] = summary.tasks
    everything, gender, style, own = figures.questions
    assert (everything.asked, everything.accuracy.n, everything.unparsed, everything.refused) == (6, 5, 2, 1)
    assert everything.accuracy.value == pytest.approx(40)
    assert everything.unparsed_share == pytest.approx(40)
    assert [each.kind for each in (gender, style, own)] == ["gender", "voice style", "of their own"]
    assert (gender.accuracy.value, style.accuracy.n) == (50.0, 3)
    assert (own.asked, own.accuracy.value, own.unparsed_share) == (1, None, None)
    told = summary.as_json()["tasks"]["understanding"]
    assert told["kinds"]["voice style"]["unparsed"] == 2
    json.dumps(told, allow_nan=False)


def test_word_errors_are_averaged_and_pooled(tmp_path: Path) -> None:
    counts = [(0, 10), (5, 10), (30, 100)]
    turns: list[tuple[Case, str, Judgement]] = [
        (case(Task.TRANSCRIPTION, number), "transcription", said_back(*each))
        for number, each in enumerate(counts)
    ]
    normalized, raw = of_task(summary_of(tmp_path / "run", turns), Task.TRANSCRIPTION).errors
    assert (normalized.how, raw.how) == ("normalized", "raw")
    assert normalized.mean.value == pytest.approx((0 + 50 + 30) / 3)
    assert normalized.pooled.value == pytest.approx(100 * 35 / 120)
    assert normalized.pooled.interval is None, "three scripts are too few"


def test_characters_are_apart_from_words(tmp_path: Path) -> None:
    chinese = Scored({"characters": 20.0}, {"characters": {"errors": 1, "words": 5}})
    turns: list[tuple[Case, str, Judgement]] = [
        (case(Task.TRANSCRIPTION, 0), "transcription", said_back(5, 10)),
        (case(Task.TRANSCRIPTION, 1), "transcription", chinese),
    ]
    errors = of_task(summary_of(tmp_path / "both", turns), Task.TRANSCRIPTION).errors
    assert [(each.how, each.mean.value, each.pooled.value) for each in errors] == [
        ("normalized", 50.0, 50.0),
        ("raw", 50.0, 50.0),
        ("characters", 20.0, 20.0),
    ]
    [only] = of_task(summary_of(tmp_path / "zh", turns[1:]), Task.TRANSCRIPTION).errors
    assert only.how == "characters"


def test_a_question_whose_turn_failed_is_wrong_in_every_output(tmp_path: Path) -> None:
    cases = [case(Task.UNDERSTANDING, number) for number in range(3)]
    path = tmp_path / "run"
    failures = [None, Failure(FailureKind.NO_RESPONSE, "none came"), Failure(FailureKind.AUDIO_MISSING, "x")]
    with RunWriter.create(path, {}) as run:
        for each, failure in zip(cases, failures, strict=True):
            plan = TurnPlan(first_byte_ms=None, failure=failure) if failure else TurnPlan(reply_ms=100)
            run.commit(spoken_turn(each, plan))
        run.end(finished=True)
    with ScoreStore.open(path) as store:
        store.put("mcq", "1", cases[0].case_id, answered(True))
    with RunReader.open(path) as reader:
        summary = summarise(reader)
    [figures] = summary.tasks
    assert (figures.turns, figures.captured) == (3, 1)
    [everything, _] = figures.questions
    # No judge is called for missing data.
    assert (everything.asked, everything.accuracy.n, everything.failed) == (3, 2, 1)
    assert (everything.accuracy.value, everything.of_answered) == (50.0, 100.0)
    assert everything.unparsed_share == 0.0
    assert summary.scores["mcq.accuracy"].mean == everything.accuracy
    assert (summary.scores["mcq.accuracy"].n_unscored, summary.scores["mcq.parsed"].n) == (1, 1)
    values = series_of(summary.turns, summary.table)["mcq.accuracy"].values
    assert list(values.values()) == [100.0, 0.0, None]


def unanswered_run(path: Path) -> Path:
    """A run in which every question failed at the endpoint."""
    with RunWriter.create(path, {}) as run:
        for number in range(SCRIPTS):
            failure = Failure(FailureKind.NO_RESPONSE, "none came")
            run.commit(
                spoken_turn(case(Task.UNDERSTANDING, number), TurnPlan(first_byte_ms=None, failure=failure))
            )
        run.end(finished=True)
    return path


def test_unanswered_questions_are_wrong_in_every_output(tmp_path: Path) -> None:
    path = unanswered_run(tmp_path / "run")
    score_run(path, ["mcq"])
    with RunReader.open(path) as reader:
        summary = summarise(reader)
    everything = summary.tasks[0].questions[0]
    accuracy = everything.accuracy
    assert (accuracy.value, accuracy.n) == (0.0, SCRIPTS)
    assert accuracy.interval is not None
    assert accuracy.interval.low == 0.0
    assert accuracy.interval.high == pytest.approx(100 * (1 - 0.025 ** (1 / SCRIPTS)))
    assert (everything.failed, everything.of_answered) == (SCRIPTS, None)
    assert summary.scores["mcq.accuracy"].mean == accuracy
    assert set(series_of(summary.turns, summary.table)["mcq.accuracy"].values.values()) == {0.0}
    [row] = [row for row in build_board([path]).tables[0].rows if not row.published]
    told = [cell.estimate for cell in row.cells if cell.estimate is not None and cell.estimate.n]
    assert [(each.value, each.n) for each in told] == [(0.0, SCRIPTS)]
    page = write_report([path])
    assert page is not None
    assert "no question was answered" in page


OURS = [kind for kind, cause in FAILURE_CAUSES.items() if cause is not FailureCause.ENDPOINT]


@pytest.mark.parametrize(
    ("heard", "cause"), [(True, FailureCause.ENDPOINT), (False, FailureCause.NO_SESSION)]
)
@pytest.mark.parametrize("kind", [FailureKind.UNAVAILABLE, FailureKind.SERVER_ERROR])
def test_an_error_of_the_server_counts_once_it_was_sent_the_turn(
    kind: FailureKind, heard: bool, cause: FailureCause
) -> None:
    turn = spoken_turn(case(Task.UNDERSTANDING, 0), failing(kind))
    if not heard:
        turn = replace(turn, trace=replace(turn.trace, t0_ns=None))
    [facts] = read_observations([turn])
    assert facts.failed_by is cause


@pytest.mark.parametrize("judged", [True, False], ids=["one answered", "none answered"])
def test_failures_unrelated_to_the_model_are_excluded_everywhere(tmp_path: Path, judged: bool) -> None:
    path = tmp_path / "run"
    asked = [case(Task.UNDERSTANDING, number) for number in range(len(OURS) + 2)]
    with RunWriter.create(path, {}) as run:
        run.commit(spoken_turn(asked[0], TurnPlan(reply_ms=100) if judged else failing(OURS[0])))
        run.commit(spoken_turn(asked[1], failing(FailureKind.NO_RESPONSE)))
        for each, kind in zip(asked[2:], OURS, strict=True):
            run.commit(spoken_turn(each, failing(kind)))
        run.end(finished=True)
    with ScoreStore.open(path) as store:
        for each in asked[0 if not judged else 1 :]:
            store.put("mcq", "1", each.case_id, Unscored(f"{TURN_FAILED}: some kind"))
        if judged:
            store.put("mcq", "1", asked[0].case_id, answered(True))
    with RunReader.open(path) as reader:
        summary = summarise(reader)
    expected = (50.0, 2) if judged else (0.0, 1)
    everything = summary.tasks[0].questions[0]
    assert (everything.accuracy.value, everything.accuracy.n) == expected
    assert (everything.failed, everything.excluded) == (1, len(OURS) + (not judged))
    assert everything.as_json()["excluded"] == everything.excluded
    score = summary.scores["mcq.accuracy"]
    assert score.mean == everything.accuracy
    reasons = {cause: sum(each is cause for each in FAILURE_CAUSES.values()) for cause in FailureCause}
    assert score.reasons[f"{TURN_FAILED} (live-eval)"] == reasons[FailureCause.HARNESS]
    assert score.reasons[f"{TURN_FAILED} (no session)"] == reasons[FailureCause.NO_SESSION]
    assert TURN_FAILED not in score.reasons, "the endpoint's own failure is a wrong answer"
    values = series_of(summary.turns, summary.table)["mcq.accuracy"].values
    assert [value for value in values.values() if value is not None] == [100.0, 0.0][not judged :]
    [row] = [row for row in build_board([path]).tables[0].rows if not row.published]
    told = [cell.estimate for cell in row.cells if cell.estimate is not None and cell.estimate.n]
    assert [(each.value, each.n) for each in told] == [expected]


def failing(kind: FailureKind) -> TurnPlan:
    return TurnPlan(first_byte_ms=None, failure=Failure(kind, "why"))


@pytest.mark.parametrize(
    ("first", "excluded"), [(FailureKind.PROCESS_DIED, 2), (FailureKind.STALLED, 0), (None, 0)]
)
def test_turns_after_a_failed_turn_have_its_cause(
    tmp_path: Path, first: FailureKind | None, excluded: int
) -> None:
    asked = [
        replace(case(Task.UNDERSTANDING, number), dialogue_id="d", turn_index=number) for number in range(2)
    ]
    with RunWriter.create(tmp_path / "run", {}) as run:
        run.commit(spoken_turn(asked[0], failing(first) if first else TurnPlan(reply_ms=100)))
        run.commit(spoken_turn(asked[1], failing(FailureKind.DIALOGUE_ENDED)))
        run.end(finished=True)
    with RunReader.open(tmp_path / "run") as reader:
        summary = summarise(reader)
    assert sum(turn.is_excluded for turn in summary.turns) == excluded
    assert summary.turns[1].unanswered == (excluded == 0)


def test_unjudged_questions_have_no_accuracy(tmp_path: Path) -> None:
    path = unanswered_run(tmp_path / "run")
    with RunReader.open(path) as reader:
        assert summarise(reader).tasks[0].questions[0].accuracy.value is None
    with ScoreStore.open(path) as store:
        store.put("mcq", "1", case(Task.UNDERSTANDING, 0).case_id, Unscored("the judge cannot run"))
    with RunReader.open(path) as reader:
        assert summarise(reader).tasks[0].questions[0].accuracy.value is None


# -- Levels ------------------------------------------------------------------------------------------------


def test_levels_are_related_on_the_same_recordings_by_script(levels: TaskLevels) -> None:
    accuracy = [np.mean([right(number, place) for place in range(3)]) for number in range(SCRIPTS)]
    found = {(each.first, each.second, each.unit): each.correlation for each in levels.relations}
    by_script = found["understanding", "C4", "script"]
    assert by_script.value == pytest.approx(spearmanr(accuracy, C4).statistic)
    assert by_script.n == SCRIPTS
    assert by_script.interval is not None
    assert found["understanding", "C1", "script"].value is None
    assert found["understanding", "C1", "script"].reason == "all values of one side are equal"
    by_attribute = found["understanding", "C4", "attribute"]
    assert (by_attribute.value, by_attribute.n) == (None, len(CUES))
    assert by_attribute.reason == f"too few: {len(CUES)} attributes, expected at least {MIN_CLUSTERS}"
    assert not any("reasoning" in key for key in found), "nothing was asked of it"


def test_replies_are_compared_by_whether_the_cue_was_recognised(tmp_path: Path) -> None:
    scripts = 2 * SCRIPTS
    turns: list[tuple[Case, str, Judgement]] = []
    for number in range(scripts):
        known = number < SCRIPTS
        turns.append((case(Task.UNDERSTANDING, number), "mcq", answered(known)))
        # Questions that are not about the cue are excluded.
        kind = "speech emotion"
        turns.append((case(Task.UNDERSTANDING, number, place=1, kind=kind), "mcq", answered(not known)))
        turns.append((case(Task.CONVERSATION, number), "rubric", rubric(C4[number % SCRIPTS] + 0.3 * known)))
    found = {each.measure: each for each in relate_levels(summary_of(tmp_path / "run", turns)).cue_recognised}
    c4 = found["C4"]
    assert c4.recognised.value == pytest.approx(np.mean(C4) + 0.3)
    assert c4.missed.value == pytest.approx(np.mean(C4))
    assert (c4.recognised.n, c4.missed.n) == (SCRIPTS, SCRIPTS)
    assert c4.difference.value == pytest.approx(0.3)
    assert c4.difference.interval is not None
    assert c4.difference.interval.low < 0.3 < c4.difference.interval.high


def test_which_types_ask_for_a_cue_is_a_parameter(tmp_path: Path) -> None:
    turns: list[tuple[Case, str, Judgement]] = []
    for number in range(2 * SCRIPTS):
        asked = case(Task.UNDERSTANDING, number, kind="speaking pace")
        turns.append((asked, "mcq", answered(number < SCRIPTS)))
        turns.append((case(Task.CONVERSATION, number), "rubric", rubric(3.0)))
    summary = summary_of(tmp_path / "run", turns)

    def recognised(asks_for: Mapping[str, frozenset[str]]) -> int:
        found = {each.measure: each for each in relate_levels(summary, asks_for=asks_for).cue_recognised}
        return found["C4"].recognised.n

    assert recognised(ASKS_FOR) == 0, "no cue of these is one of pace"
    fine = {turn.cue.fine for turn in summary.turns if turn.cue is not None and turn.cue.fine is not None}
    assert recognised(dict.fromkeys(fine, frozenset({"speaking pace"}))) == SCRIPTS


def test_too_few_replies_on_one_side_give_a_reason(levels: TaskLevels) -> None:
    c4 = next(each for each in levels.cue_recognised if each.measure == "C4")
    assert c4.difference.value is None
    assert c4.difference.reason.startswith("too few: 3 scripts, expected at least 8 with the cue recognised")
    told = levels.as_json()
    json.dumps(told, allow_nan=False)


def test_the_gap_between_sources_is_paired(levels: TaskLevels) -> None:
    gap = next(each for each in levels.speech_source if each.score == "rubric.c4")
    assert gap.task is Task.CONVERSATION
    assert gap.difference.value == pytest.approx(-0.5)
    assert gap.difference.n == SCRIPTS
    assert (gap.difference.interval, gap.difference.reason) == (None, "all values are equal")
    assert gap.human == pytest.approx(np.mean(C4) - 0.5)
    assert gap.unpaired == 0


def test_recordings_without_a_partner_are_counted(tmp_path: Path) -> None:
    turns = [turn for turn in whole() if not (turn[0].source == "human" and turn[0].script_id == "id_3")]
    gap = next(
        each
        for each in relate_levels(summary_of(tmp_path / "run", turns)).speech_source
        if each.score == "rubric.c4"
    )
    assert (gap.difference.n, gap.unpaired) == (SCRIPTS - 1, 1)


def test_a_gap_from_few_scripts_is_withheld(tmp_path: Path) -> None:
    gap = next(each for each in relate_levels(summary_of(tmp_path / "run", whole(3))).speech_source)
    assert gap.difference.value is None
    assert "too few: 3 scripts" in gap.difference.reason


def test_neutral_recordings_have_no_cue_to_recognise(tmp_path: Path) -> None:
    neutral = cue_of("neutral")
    turns = [
        (replace(each, cue=neutral, variant=Variant.NEUTRAL), judge, made) for each, judge, made in whole()
    ]
    levels = relate_levels(summary_of(tmp_path / "run", turns))
    assert all(each.recognised.n == each.missed.n == 0 for each in levels.cue_recognised)
    units = {each.unit: each.correlation.n for each in levels.relations}
    assert units == {"script": SCRIPTS, "attribute": 0}


def test_turns_of_dialogues_are_excluded(tmp_path: Path, levels: TaskLevels) -> None:
    first = case(Task.CONVERSATION, 0)
    said = replace(first, case_id="d/1", dialogue_id="d", turn_index=1)
    assert relate_levels(summary_of(tmp_path / "run", [*whole(), (said, "rubric", rubric(1.0))])) == levels


def test_a_run_of_one_level_has_no_relations(tmp_path: Path) -> None:
    turns: list[tuple[Case, str, Judgement]] = [(case(Task.CONVERSATION, 1), "rubric", rubric(3.0))]
    assert relate_levels(summary_of(tmp_path / "run", turns)) == TaskLevels((), (), ())


# -- Where it is shown -------------------------------------------------------------------------------------


def test_the_report_and_show_contain_it(run: Path, summary: RunSummary) -> None:
    page, text = write_report([run]), write_report([run], form="md")
    assert page is not None
    assert text is not None
    for title in ("Multiple choice by type of question", "Correlation of the levels"):
        assert f"## {title}" in text
        assert title in page
    assert "too few: 6 attributes, expected at least 8" in text
    assert "Human and synthetic speech" in text
    told = json.loads(CliRunner().invoke(cli, ["show", str(run), "--json"]).output)
    assert told["tasks"]["understanding"]["n"] == 3 * SCRIPTS
    assert told["levels"]["speech_source"]
    shown = CliRunner().invoke(cli, ["show", str(run)]).output
    assert "coarse-grained" in shown


def test_levels_are_plotted_with_a_dot_for_each_attribute(tmp_path: Path) -> None:
    cues = (*CUES, "yawn sound", "cough sound", "sound of wind blowing")
    turns = [
        (replace(each, cue=cue_of(cues[number]), script_id=f"id_{number}"), judge, made)
        for number in range(len(cues))
        for each, judge, made in (
            (case(Task.UNDERSTANDING, number), "mcq", answered(number % 2 == 0)),
            (case(Task.CONVERSATION, number), "rubric", rubric(1 + number / 4)),
        )
    ]
    levels = relate_levels(summary_of(tmp_path / "run", turns))
    [plot] = level_plots([(Cell("mine", run=2), levels)])
    assert (plot.title, len(plot.dots)) == ("C4 speech information relevance by understanding", len(cues))
    assert [dot.across for dot in plot.dots] == [100.0 * (number % 2 == 0) for number in range(len(cues))]
    assert [dot.up for dot in plot.dots] == pytest.approx([6.25 * number for number in range(len(cues))])
    assert plot.dots[1].title == "mine: laughter, understanding 0, C4 speech information relevance 1.25"
    assert [tick.label for tick in plot.up_ticks] == ["1", "2", "3", "4", "5"]
    page = write_report([tmp_path / "run"])
    assert page is not None
    assert "C4 speech information relevance by understanding" in page


def test_a_run_of_only_conversations_shows_no_tasks(tmp_path: Path) -> None:
    turns: list[tuple[Case, str, Judgement]] = [(case(Task.CONVERSATION, 1), "rubric", rubric(3.0))]
    summary_of(tmp_path / "run", turns)
    page = write_report([tmp_path / "run"])
    assert page is not None
    assert "Tasks and levels" not in page


def test_questions_and_chosen_options_are_shown(tmp_path: Path) -> None:
    cases = [case(Task.UNDERSTANDING, number) for number in range(2)]
    read_as = Scored({"accuracy": 0.0, "parsed": 100.0}, {"chosen": "B", "answer": "A"})
    unread = Scored({"accuracy": 0.0, "parsed": 0.0}, {"chosen": None, "answer": "A"})
    turns = [
        (cases[0], "mcq", read_as),
        (cases[1], "mcq", unread),
        (case(Task.CONVERSATION, 3), "ves", Scored({"": 3.0})),
    ]
    summary_of(tmp_path / "run", turns)
    done = CliRunner().invoke(cli, ["export", str(tmp_path / "run")])
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["chosen"] for row in rows] == ["B", None, None]
    assert [row["case"]["task"] for row in rows] == ["understanding", "understanding", "conversation"]
    assert rows[0]["case"]["question"] == {
        "question_id": "q0_0",
        "kind": "coarse-grained",
        "text": "What?",
        "options": ["A. this", "B. that"],
        "answer": "A",
    }
    assert set(rows[2]["case"]["question"].values()) == {None}
    page = write_report([tmp_path / "run"])
    assert page is not None
    assert '["Question","What? A. this B. that (key: A)"]' in page
    assert '["Read as","B"]' in page
    assert '["Read as","no single option"]' in page
    assert page.count("no choice</span>") == 1
    assert '<select name="task">' in page
