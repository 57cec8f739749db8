import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from live_eval.analysis.summary.benchmark_parts import PartSummary
from live_eval.analysis.summary.run_summary import RunSummary
from live_eval.cli.show import print_summary
from live_eval.errors import FailureKind
from live_eval.judges.specs import BENCHMARK_MODEL, BENCHMARK_RULES
from live_eval.judging import Scored, Unscored
from live_eval.recording import RunWriter, ScoreStore
from live_eval.report.cells import interval
from live_eval.report.tables import RunView
from live_eval.report.tasks import benchmark_table
from live_eval.types import BenchmarkItem, Case, Failure, ScoringRule, Task, Variant
from tests.support.records import TurnPlan, spoken_turn
from tests.unit.report.pages import summary_of

LICENCE = "The recordings and reference texts are VoiceBench's, under Apache-2.0."


def criteria(number: int, count: int) -> Case:
    found = case("voice_editing", number, ScoringRule.RUBRICS)
    assert found.item is not None
    return replace(found, item=replace(found.item, details={"rubrics": ["x"] * count}))


def case(part: str, number: int, rule: ScoringRule) -> Case:
    item = BenchmarkItem(benchmark="voicebench", part=part, rule=rule, answer="A", details={"options": []})
    name = f"{part}/{number}"
    return Case(
        case_id=name,
        script_id=name,
        variant=Variant.TARGET,
        audio_path=Path("x.wav"),
        task=Task.BENCHMARK,
        item=item,
    )


@pytest.fixture
def summary(tmp_path: Path) -> RunSummary:
    path = tmp_path / "run"
    with RunWriter.create(path, {"data": {"licence": LICENCE}}) as run, ScoreStore.open(path) as store:

        def judged(
            case: Case, official: float, ours: float, *, read: bool = True, parsed: bool = True
        ) -> None:
            run.commit(spoken_turn(case, TurnPlan(reply_text="x")))
            values = {
                "official": official,
                "ours": ours,
                "official_parsed": 100.0 * read,
                "parsed": 100.0 * parsed,
            }
            store.put("benchmark_rules", BENCHMARK_RULES.version, case.case_id, Scored(values))

        def failed(case: Case, kind: FailureKind) -> None:
            run.commit(spoken_turn(case, TurnPlan(failure=Failure(kind, "x"), first_byte_ms=None)))

        choice = [case("openbookqa", number, ScoringRule.CHOICE) for number in range(12)]
        for each in choice[:8]:
            judged(each, 100.0, 100.0)
        judged(choice[8], 25.0, 0.0, read=False, parsed=False)
        judged(choice[9], 0.0, 100.0)
        failed(choice[10], FailureKind.NO_RESPONSE)
        failed(choice[11], FailureKind.AUDIO_MISSING)
        answered = case("navigate", 0, ScoringRule.FINAL_ANSWER)
        run.commit(spoken_turn(answered, TurnPlan(reply_text="x")))
        store.put(
            "benchmark_rules",
            BENCHMARK_RULES.version,
            answered.case_id,
            Scored({"ours": 100.0, "parsed": 100.0}),
        )
        failed(case("navigate", 1, ScoringRule.FINAL_ANSWER), FailureKind.NO_RESPONSE)
        rated = case("commoneval", 0, ScoringRule.RATING)
        run.commit(spoken_turn(rated, TurnPlan(reply_text="x")))
        store.put(
            "benchmark_rules",
            BENCHMARK_RULES.version,
            rated.case_id,
            Unscored("a language model rates this item"),
        )
        failed(case("commoneval", 1, ScoringRule.RATING), FailureKind.NO_RESPONSE)
        run.end(finished=True)
    return summary_of(path)


def test_each_part_is_scored_by_both_rules(summary: RunSummary) -> None:
    (task,) = summary.tasks
    choice, answered, rated = task.parts
    assert isinstance(choice, PartSummary)
    assert (choice.part, choice.items, choice.official.n) == ("openbookqa", 12, 11)
    # 8 right, a guess, one read differently, and one without a reply; the missing recording is excluded.
    assert choice.official.value == pytest.approx((800 + 25) / 11)
    assert choice.ours.value == pytest.approx(900 / 11)
    assert (choice.failed, choice.excluded, choice.official_unparsed, choice.unparsed) == (1, 1, 1, 1)
    interval = choice.official.interval
    assert interval is not None
    assert interval.low < (800 + 25) / 11 < interval.high
    assert (rated.items, rated.official.n, rated.unscored) == (2, 0, 1)
    assert rated.rated is not None
    assert (rated.rated.value, rated.rated.reason) == (None, "not judged")
    assert rated.reason == "a language model rates this item"
    assert (answered.ours.value, answered.ours.n, answered.failed) == (50.0, 2, 1)
    assert (answered.official.value, answered.official.n) == (None, 0)
    assert answered.official.reason == "the benchmark's own scorer is a language model"
    assert set(task.as_json()["parts"]) == {"openbookqa", "navigate", "commoneval"}


def test_the_table_and_the_note_on_the_licence(summary: RunSummary) -> None:
    table = benchmark_table([RunView(0, "run", summary)])
    cells = [[cell.text for cell in row] for row in table.rows]
    assert cells[0][:4] == ["openbookqa", "12", "11", "1"]
    assert (cells[0][6], cells[0][9]) == ("1 (10 %)", "1 (10 %)")
    assert cells[1][:5] == ["navigate", "2", "2", "1", "–"]
    assert cells[2] == ["commoneval", "2", "0", "1", *["–"] * 8]
    assert LICENCE.removesuffix(".") in summary.notes


def test_the_terminal_shows_each_interval(summary: RunSummary) -> None:
    shown = io.StringIO()
    print_summary(summary, console=Console(width=200, file=shown))
    row = next(line for line in shown.getvalue().splitlines() if line.startswith("openbookqa"))
    part = summary.tasks[0].parts[0]
    official, ours = interval(part.official, 1), interval(part.ours, 1)
    assert official != ours
    assert row.index(official) < row.index(ours)


def test_verifiable_instructions_are_pooled(tmp_path: Path) -> None:
    path = tmp_path / "run"
    followed = [(1, 1, 1), (3, 1, 3), (2, 0, 1)]
    with RunWriter.create(path, {}) as run, ScoreStore.open(path) as store:
        for number, (count, strict, loose) in enumerate(followed):
            each = case("ifeval", number, ScoringRule.INSTRUCTIONS)
            run.commit(spoken_turn(each, TurnPlan(reply_text="x")))
            values = {
                "official": 50.0,
                "ours": 100.0 * (loose == count),
                "official_parsed": 100.0,
                "parsed": 100.0,
            }
            detail = {"instructions": count, "strict": strict, "loose": loose}
            store.put("benchmark_rules", BENCHMARK_RULES.version, each.case_id, Scored(values, detail))
        run.end(finished=True)
    [part] = summary_of(path).tasks[0].parts
    assert part.official.value == pytest.approx(100 * (1 / 3 + 2 / 6 + 2 / 3 + 5 / 6) / 4)
    assert part.ours.value == pytest.approx(200 / 3)


def test_a_models_ratings_are_averaged(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with RunWriter.create(path, {}) as run, ScoreStore.open(path) as store:
        for number in range(9):
            rated = case("commoneval", number, ScoringRule.RATING)
            run.commit(spoken_turn(rated, TurnPlan(reply_text="x")))
            store.put("benchmark_model", "1", rated.case_id, Scored({"rating": 3.0 + number % 2}))
        compared = case("sd-qa", 0, ScoringRule.REFERENCE)
        run.commit(spoken_turn(compared, TurnPlan(reply_text="x")))
        store.put("benchmark_model", "1", compared.case_id, Scored({"correct": 100.0}))
        lost = TurnPlan(failure=Failure(FailureKind.NO_RESPONSE, "x"), first_byte_ms=None)
        run.commit(spoken_turn(case("commoneval", 9, ScoringRule.RATING), lost))
        run.commit(spoken_turn(case("sd-qa", 1, ScoringRule.REFERENCE), lost))
        run.end(finished=True)
    summary = summary_of(path)
    opened, compared_part = summary.tasks[0].parts
    assert opened.rated is not None
    assert opened.rated.value == pytest.approx((5 * 3 + 4 * 4 + 1) / 10)
    assert opened.rated.interval is not None
    assert (opened.failed, opened.ours.n, opened.official.n) == (1, 0, 0)
    assert compared_part.rated is not None
    assert (compared_part.rated.value, compared_part.rated.n) == (50.0, 2)
    cells = [[cell.text for cell in row] for row in benchmark_table([RunView(0, "run", summary)]).rows]
    assert cells[0][10] == "3.20 of 5"
    assert cells[1][10:] == ["50.0 %", "–"]


def test_items_with_criteria_have_a_share_that_passes_and_a_share_of_criteria(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with RunWriter.create(path, {}) as run, ScoreStore.open(path) as store:
        for number, (met, asked) in enumerate([(3, 3), (1, 3), (2, 2)]):
            earlier = replace(case("voice_editing", 100 + number, ScoringRule.NONE))
            run.commit(spoken_turn(earlier, TurnPlan(reply_text="x")))
            each = criteria(number, 3)
            run.commit(spoken_turn(each, TurnPlan(reply_text="x")))
            values = {"met": 100.0 * met / asked, "passed": 100.0 * (met == asked)}
            verdict = Scored(values, {"criteria": asked})
            store.put("benchmark_model", BENCHMARK_MODEL.version, each.case_id, verdict)
        lost = Failure(FailureKind.NO_RESPONSE, "x")
        run.commit(spoken_turn(criteria(9, 3), TurnPlan(failure=lost, first_byte_ms=None)))
    ((part,),) = (task.parts for task in summary_of(path).tasks)
    assert part.rated is not None
    assert part.met is not None
    # the third item has verdicts on two of its three criteria, and the fourth has no reply
    assert (part.items, part.rated.n) == (4, 3)
    assert part.rated.value == pytest.approx(100 / 3)
    assert part.met.value == pytest.approx((100 + 100 / 3) / 3)


def test_scores_of_parts_with_different_rules_are_not_pooled(summary: RunSummary) -> None:
    pooled = summary.scores["benchmark_rules.ours"].mean
    assert pooled.value is None
    assert pooled.n > 0
    assert pooled.reason.startswith("not pooled over ")
    assert pooled.reason.endswith(" scoring rules; see the parts")
