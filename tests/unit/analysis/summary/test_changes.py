"""Whether replies follow a change of the cue within a dialogue, compared with values computed by hand."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval.analysis.summary.changes import DialogueSummary
from live_eval.analysis.summary.run_summary import RunSummary, summarise
from live_eval.cli import cli
from live_eval.data import cue_of
from live_eval.errors import FailureKind
from live_eval.judging import Scored
from live_eval.recording import RunReader, RunWriter, ScoreStore
from live_eval.report import write_report
from live_eval.types import Case, Failure, Variant
from tests.support.records import TurnPlan, spoken_turn

CUES = ("neutral", "whisper", "whisper")


def turn_of(dialogue: int, index: int, cues: tuple[str, ...] = CUES) -> Case:
    return Case(
        case_id=f"d{dialogue}/{index + 1}",
        script_id=f"d{dialogue}",
        variant=Variant.TARGET,
        audio_path=Path("x.wav"),
        text="a b c d",
        cue=cue_of(cues[index]),
        dialogue_id=f"d{dialogue}",
        turn_index=index,
    )


def summary_of(path: Path) -> RunSummary:
    with RunReader.open(path) as reader:
        return summarise(reader)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten dialogues; C4 is 4.5 before the change, and 2 or (in every fifth dialogue) 4 at the change."""
    path = tmp_path_factory.mktemp("changes") / "run"
    with RunWriter.create(path, {}) as writer:
        for dialogue in range(10):
            for index in (2, 0, 1):  # the order of the store is not that of the dialogue
                writer.commit(spoken_turn(turn_of(dialogue, index), TurnPlan(reply_ms=100)))
        failed = Failure(FailureKind.DIALOGUE_ENDED, "it ended")
        writer.commit(spoken_turn(turn_of(10, 0), TurnPlan(reply_ms=100)))
        writer.commit(spoken_turn(turn_of(10, 1), TurnPlan(first_byte_ms=None, failure=failed)))
        writer.end(finished=True)
    with ScoreStore.open(path) as store:
        for dialogue in range(10):
            for index, c4 in enumerate((4.5, 4.0 if dialogue % 5 == 0 else 2.0, 1.0)):
                scores = {"c1": 3.0, "c2": 3.0, "c3": 3.0, "c4": c4}
                store.put("rubric", "1", f"d{dialogue}/{index + 1}", Scored(scores))
    return path


@pytest.fixture(scope="module")
def figures(run: Path) -> DialogueSummary:
    found = summary_of(run).dialogues
    assert found is not None
    return found


def test_replies_at_the_change_are_compared_with_those_before(figures: DialogueSummary) -> None:
    assert (figures.dialogues, figures.turns, figures.changes) == (11, 32, 11)
    c4 = next(each for each in figures.scores if each.score == "rubric.c4")
    assert c4.before.value == pytest.approx(4.5)
    assert c4.at.value == pytest.approx(2.4)
    assert c4.difference.value == pytest.approx(-2.1)
    assert (c4.difference.n, c4.difference.clusters) == (10, 10)
    assert c4.difference.interval is not None
    assert c4.difference.interval.high < 0


def test_a_reply_that_considers_the_cue_has_followed_the_change(figures: DialogueSummary) -> None:
    assert figures.followed.n == 11, "one did not reply"
    assert figures.followed.value == pytest.approx(100 * 2 / 11)


@pytest.mark.parametrize(
    ("cues", "changes", "followed"),
    [
        (("whisper", "neutral"), 1, 0),
        (("neutral", "whisper"), 1, 1),
        (("sad", "sad-toned expressive voice"), 0, 0),
    ],
)
def test_a_change_to_neutral_cannot_be_followed(
    tmp_path: Path, cues: tuple[str, str], changes: int, followed: int
) -> None:
    with RunWriter.create(tmp_path / "run", {}) as writer:
        for index in range(2):
            writer.commit(spoken_turn(turn_of(0, index, cues), TurnPlan(reply_ms=100)))
        writer.end(finished=True)
    with ScoreStore.open(tmp_path / "run") as store:
        for index in range(2):
            store.put("rubric", "1", f"d0/{index + 1}", Scored({"c1": 3.0, "c2": 3.0, "c3": 3.0, "c4": 5.0}))
    found = summary_of(tmp_path / "run").dialogues
    assert found is not None
    assert (found.changes, found.followed.n) == (changes, followed)


def test_dialogues_whose_cue_stays_have_no_change(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", {}) as writer:
        for index in range(2):
            writer.commit(spoken_turn(turn_of(0, index, ("whisper", "whisper")), TurnPlan(reply_ms=100)))
        writer.end(finished=True)
    found = summary_of(tmp_path / "run").dialogues
    assert found is not None
    assert (found.changes, found.scores) == (0, ())
    assert found.followed.value is None


def test_a_run_without_dialogues_has_no_summary_of_them(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", {}) as writer:
        alone = Case(
            case_id="a",
            script_id="a",
            variant=Variant.TARGET,
            audio_path=Path("x.wav"),
            text="a",
            cue=cue_of("whisper"),
        )
        writer.commit(spoken_turn(alone, TurnPlan(reply_ms=100)))
        writer.end(finished=True)
    summary = summary_of(tmp_path / "run")
    assert summary.dialogues is None
    assert summary.as_json()["dialogues"] is None


def test_the_report_and_show_contain_it(run: Path) -> None:
    page, text = write_report([run]), write_report([run], form="md")
    assert page is not None
    assert text is not None
    assert "Changes of the cue within a dialogue" in page
    assert "| followed, % of changes to a cue | – | 18.2 |" in text
    shown = CliRunner().invoke(cli, ["show", str(run)]).output
    assert "replies followed it (C4 of 4 or more) in 18 % of 11" in " ".join(shown.split())
    told = json.loads(CliRunner().invoke(cli, ["show", str(run), "--json"]).output)
    assert told["dialogues"]["scores"]["rubric.c4"]["difference"]["value"] == pytest.approx(-2.1)
