"""Scoring a run: the judges' input, the stored scores, and errors in judges."""

import json
import math
import re
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from live_eval import registry
from live_eval.analysis.summary.run_summary import summarise
from live_eval.audio import Audio, write_flac
from live_eval.cli import cli
from live_eval.cli.score import command
from live_eval.data import sample_path
from live_eval.errors import FailureKind, JudgeError, PluginError, StoreError, UsageError
from live_eval.extras import install_command
from live_eval.judging import (
    Failed,
    JudgedTurn,
    JudgeKind,
    Judgement,
    JudgeSpec,
    Need,
    OptionSpec,
    OutputSpec,
    Scored,
    Unscored,
)
from live_eval.recording import RunReader, RunWriter, ScoreReader, ScoreRow, TurnRecord
from live_eval.scoring.judge_runner import JudgeOptions
from live_eval.scoring.scoring_run import before_asking, read_turn, score_run
from live_eval.types import Case, Failure, Variant
from tests.support.records import TurnPlan, spoken_turn, tone


class Toy:
    """A judge that applies a function set by the test, and records its input."""

    batches: list[list[JudgedTurn]]
    judge: Callable[[JudgedTurn], Any]
    problem: Exception | None

    def __init__(self) -> None:
        if self.problem is not None:
            raise self.problem

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        self.batches.append(list(batch))
        return [type(self).judge(turn) for turn in batch]


class Listener(Toy):
    """A toy judge of audio."""


class Reader(Toy):
    """A toy judge of text."""


def letters(turn: JudgedTurn) -> Judgement:
    return Scored({"": float(len(turn.reply_text or ""))}, {"text": turn.reply_text})


def seconds(turn: JudgedTurn) -> Judgement:
    assert turn.reply is not None
    return Scored({"length": turn.reply.duration_ns / 1e9})


LISTENER = JudgeSpec(
    name="listener",
    version="1",
    title="length of the reply",
    kind=JudgeKind.LOCAL,
    implementation=f"{__name__}:Listener",
    outputs=(OutputSpec(name="length", title="length", unit="s", low=0.0, high=100.0),),
    needs=frozenset({Need.REPLY_AUDIO}),
)
READER = replace(
    LISTENER,
    name="reader",
    implementation=f"{__name__}:Reader",
    outputs=(OutputSpec(name="", title="letters", low=0.0),),
    needs=frozenset({Need.REPLY_TEXT}),
)
SPECS: dict[str, JudgeSpec] = {}


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    for toy, judge in ((Listener, seconds), (Reader, letters)):
        toy.batches, toy.problem = [], None
        toy.judge = staticmethod(judge)
    SPECS.clear()
    SPECS.update(listener=LISTENER, reader=READER)
    known = registry.judge
    monkeypatch.setattr(registry, "judge", lambda name: SPECS.get(name) or known(name))


def a_case(name: str, **changes: Any) -> Case:
    case = Case(
        case_id=name,
        script_id=name,
        variant=Variant.TARGET,
        audio_path=Path("x.wav"),
        text="Hello there.",
        reference_text="Hello you.",
    )
    return replace(case, **changes)


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of five turns: two good, one without text, one without audio, one that failed."""
    refused = Failure(FailureKind.CONNECTION_REFUSED, "nobody there")
    plans = {
        "a": TurnPlan(reply_text="yes", reply_ms=500),
        "b": TurnPlan(reply_text="no no", reply_ms=900),
        "mute": TurnPlan(reply_text=None),
        "text": TurnPlan(first_byte_ms=None, reply_text="hm"),
        "failed": TurnPlan(first_byte_ms=None, failure=refused),
    }
    return written(tmp_path_factory.mktemp("captured") / "run", plans)


@pytest.fixture
def run(captured: Path, tmp_path: Path) -> Path:
    """A private copy of `run`: copying is faster than writing, since a store syncs."""
    return shutil.copytree(captured, tmp_path / "run")


def written(path: Path, plans: dict[str, TurnPlan]) -> Path:
    with RunWriter.create(path, {"seed": 1}) as run:
        for name, plan in plans.items():
            run.commit(spoken_turn(a_case(name), plan))
        run.end(finished=True)
    return path


def rows(run: Path, judge: str) -> dict[str, ScoreRow]:
    with ScoreReader.open(run) as scores:
        return {row.turn_id: row for row in scores.read([judge])}


def test_each_turn_is_scored_or_says_why_not(run: Path) -> None:
    summary = score_run(run, ["listener", "reader"])
    listener, reader = summary.judges
    assert summary.turns == 5
    assert (listener.name, listener.version, listener.reason) == ("listener", "1", None)
    assert (listener.n, listener.n_unscored, listener.n_failed, listener.judged) == (3, 2, 0, 3)
    # Lead silence of 80 ms belongs to the reply.
    assert listener.audio_seconds == pytest.approx(0.58 + 0.98 + 1.08)
    assert listener.seconds > 0
    assert (listener.calls, listener.cost) == (0, 0.0)
    assert (reader.n, reader.n_unscored, reader.audio_seconds) == (2, 3, 0.0)

    kept = rows(run, "reader")
    assert kept["a"].values == {"": 3.0}
    assert kept["a"].detail == {"text": "yes"}
    assert {name: row.reason for name, row in kept.items() if row.status == "unscored"} == {
        "mute": "no reply text",
        "text": "no reply text",
        "failed": "the turn failed: connection_refused",
    }
    assert rows(run, "listener")["text"].reason == "no reply audio"


def test_judges_are_given_the_turn_as_it_was_captured(run: Path) -> None:
    score_run(run, ["listener"])
    [[first, *_]] = Listener.batches
    with RunReader.open(run) as reader:
        reply = reader.reply("a")
    assert reply is not None
    assert first.reply is not None
    np.testing.assert_array_equal(first.reply.samples, reply.samples)
    assert (first.turn_id, first.case.text, first.heard_text) == ("a", "Hello there.", "hello there")


def everything(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as db:
        return list(db.iterdump())


def test_a_second_scoring_does_nothing_and_again_does_all(run: Path) -> None:
    [before] = score_run(run, ["reader"]).judges
    kept = everything(run / "scores.sqlite")
    [again] = score_run(run, ["reader"]).judges
    assert everything(run / "scores.sqlite") == kept
    assert len(Reader.batches) == 1
    assert (again.judged, again.seconds) == (0, 0.0)
    assert (again.n, again.n_unscored) == (before.n, before.n_unscored)
    assert score_run(run, ["reader"], again=True).judges[0].judged == 2
    assert len(Reader.batches) == 2


def test_another_version_is_scored_next_to_the_old_one(run: Path) -> None:
    score_run(run, ["reader"])
    SPECS["reader"] = replace(READER, version="2")
    assert score_run(run, ["reader"]).judges[0].judged == 2
    with ScoreReader.open(run) as scores:
        versions = [row.version for row in scores.read() if row.turn_id == "a"]
    assert sorted(versions) == ["1", "2"]


def test_only_the_turn_that_breaks_the_judge_fails(run: Path) -> None:
    def breaking(turn: JudgedTurn) -> Judgement:
        if turn.turn_id == "b":
            raise ZeroDivisionError("by length")
        return seconds(turn)

    Listener.judge = staticmethod(breaking)
    [summary] = score_run(run, ["listener"]).judges
    assert (summary.n, summary.n_failed) == (2, 1)
    kept = rows(run, "listener")
    assert kept["b"].status == "failed"
    assert kept["b"].reason == "the judge raised ZeroDivisionError: by length"
    assert [len(batch) for batch in Listener.batches] == [3, 1, 1, 1]

    Listener.judge = staticmethod(seconds)
    Listener.batches.clear()
    [summary] = score_run(run, ["listener"]).judges
    assert (summary.n, summary.n_failed, summary.judged) == (3, 0, 1), "what failed is tried again, alone"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (Scored({"length": math.nan}), "for length, got nan"),
        (Scored({"length": math.inf}), "for length, got inf"),
        (Scored({"length": 101.0}), r"expected a finite number from 0 to 100 for length, got 101\.0"),
        (Scored({"size": 1.0}), "expected the outputs"),
        (Scored({}), "expected the outputs"),
        (None, "expected a judgement, got NoneType"),
        (Failed("could not"), "could not"),
    ],
)
def test_an_invalid_score_is_a_failure(run: Path, given: Any, reason: str) -> None:
    Listener.judge = staticmethod(lambda _: given)
    [summary] = score_run(run, ["listener"]).judges
    assert (summary.n, summary.n_failed) == (0, 3)
    row = rows(run, "listener")["a"]
    assert row.status == "failed"
    assert row.values == {}
    assert re.search(reason, row.reason)


def test_a_judge_that_skips_a_turn_fails_on_it(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Listener, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        return [seconds(turn) for turn in batch if turn.turn_id != "b"]

    monkeypatch.setattr(Listener, "score", forgetful)
    [summary] = score_run(run, ["listener"]).judges
    assert (summary.n, summary.n_failed) == (2, 1)
    assert rows(run, "listener")["b"].reason == "the judge returned 0 judgements for 1 turns"


def test_a_judge_scores_nothing_until_its_requirements_are_met(run: Path) -> None:
    SPECS["listener"] = replace(LISTENER, packages=("no_such_package",), extra="torch")
    listener, reader = score_run(run, ["listener", "reader"]).judges
    assert listener.reason == f"missing package no_such_package ({install_command('torch')})"
    assert (listener.n, listener.n_unscored, listener.judged) == (0, 5, 0)
    assert reader.n == 2
    assert {row.reason for row in rows(run, "listener").values()} == {listener.reason}
    with ScoreReader.open(run) as scores:
        assert [(found.judge, found.reason) for found in scores.problems()] == [("listener", listener.reason)]

    SPECS["listener"] = LISTENER
    [listener] = score_run(run, ["listener"]).judges
    assert (listener.n, listener.n_unscored, listener.reason) == (3, 2, None)
    with ScoreReader.open(run) as scores:
        assert scores.problems() == []


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (JudgeError("weights.onnx: expected weights, got no file"), "weights.onnx: expected weights"),
        (RuntimeError("odd"), "cannot be loaded: RuntimeError: odd"),
    ],
)
def test_a_judge_that_cannot_be_loaded_has_a_reason(run: Path, problem: Exception, reason: str) -> None:
    Listener.problem = problem
    [summary] = score_run(run, ["listener"]).judges
    assert summary.reason is not None
    assert summary.reason.startswith(reason)
    assert (summary.n, summary.n_unscored) == (0, 5)
    assert rows(run, "listener")["a"].reason == summary.reason
    assert CliRunner().invoke(cli, ["score", str(run), "--judges", "listener"]).exit_code == 3


def test_a_judge_without_its_key_is_not_loaded(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOY_KEY", raising=False)
    SPECS["reader"] = replace(READER, key_variable="TOY_KEY")
    [summary] = score_run(run, ["reader"]).judges
    assert summary.reason == "missing API key (set TOY_KEY)"
    assert Reader.batches == []


def test_a_reply_is_decoded_once_for_all_judges(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SPECS["other"] = replace(LISTENER, name="other")
    decoded: list[str] = []
    reply = RunReader.reply

    def counting(self: RunReader, turn: str | TurnRecord) -> Audio | None:
        decoded.append(turn if isinstance(turn, str) else turn.turn_id)
        return reply(self, turn)

    monkeypatch.setattr(RunReader, "reply", counting)
    score_run(run, ["listener", "other", "reader"])
    assert sorted(decoded) == ["a", "b", "mute"]
    decoded.clear()
    score_run(run, ["reader"], again=True)
    score_run(run, ["listener"])
    assert decoded == [], "nobody needs to hear it"


def test_a_batch_has_at_most_64_turns(tmp_path: Path) -> None:
    run = written(tmp_path / "run", {f"{n:03}": TurnPlan(reply_ms=100) for n in range(130)})
    seen: list[tuple[str, int, int]] = []
    score_run(run, ["listener"], progress=lambda *told: seen.append(told))
    assert [len(batch) for batch in Listener.batches] == [64, 64, 2]
    assert seen == [("listener", 64, 130), ("listener", 128, 130), ("listener", 130, 130)]
    assert [turn.turn_id for batch in Listener.batches for turn in batch] == [f"{n:03}" for n in range(130)]


@pytest.mark.slow
def test_a_batch_ends_after_five_minutes_of_audio(tmp_path: Path) -> None:
    run = written(tmp_path / "run", {str(n): TurnPlan(reply_ms=160_000) for n in range(3)})
    score_run(run, ["listener"])
    assert [len(batch) for batch in Listener.batches] == [2, 1]


def test_an_unreadable_reply_fails_judges_that_need_it(run: Path) -> None:
    with RunReader.open(run) as reader:
        path = reader.turn("a").reply_file
    assert path is not None
    path.write_bytes(b"no sound")
    listener, reading = score_run(run, ["listener", "reader"]).judges
    assert (listener.n, listener.n_failed) == (2, 1)
    assert rows(run, "listener")["a"].reason.startswith("reply audio cannot be read:")
    assert (reading.n, reading.n_failed) == (2, 0)


def test_reference_audio_is_read_if_needed(tmp_path: Path) -> None:
    sound = tone(300)
    there = tmp_path / "reference.flac"
    write_flac(there, sound.int16(), sound.rate_hz)
    paths = {"there": there, "gone": tmp_path / "gone.flac", "none": None}
    with RunWriter.create(tmp_path / "run", {}) as run:
        for name, path in paths.items():
            run.commit(spoken_turn(a_case(name, reference_audio_path=path)))
        run.end(finished=True)

    def reference(turn: JudgedTurn) -> Judgement:
        assert turn.reference is not None
        return Scored({"length": turn.reference.duration_ns / 1e9})

    Listener.judge = staticmethod(reference)
    SPECS["listener"] = replace(LISTENER, needs=frozenset({Need.REFERENCE_AUDIO}))
    [summary] = score_run(tmp_path / "run", ["listener"]).judges
    assert (summary.n, summary.n_unscored, summary.n_failed) == (1, 1, 1)
    kept = rows(tmp_path / "run", "listener")
    assert kept["there"].values == {"length": pytest.approx(0.3)}
    assert kept["none"].reason == "no reference audio"
    assert "gone.flac: no such file" in kept["gone"].reason


def test_an_empty_run_is_scored_at_once(tmp_path: Path) -> None:
    run = written(tmp_path / "run", {})
    summary = score_run(run, ["listener"])
    assert (summary.turns, summary.judges[0].n) == (0, 0)


def test_a_judge_named_twice_judges_once(run: Path) -> None:
    assert [judge.name for judge in score_run(run, ["reader", "reader"]).judges] == ["reader"]


def test_an_unknown_judge_and_an_absent_run_are_wrong_usage(run: Path, tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="unknown judge 'nobody'"):
        score_run(run, ["nobody"])
    with pytest.raises(StoreError):
        score_run(tmp_path / "nowhere", ["reader"])


def test_an_old_score_stays_if_the_new_attempt_gives_none(run: Path) -> None:
    score_run(run, ["reader"])
    Reader.judge = staticmethod(lambda _: Failed("today it does not"))
    [summary] = score_run(run, ["reader"], again=True).judges
    assert (summary.n_failed, summary.reasons["today it does not"]) == (2, 2)
    assert rows(run, "reader")["a"].values == {"": 3.0}


def test_turns_come_from_the_shortest_reply_to_the_longest(tmp_path: Path) -> None:
    lengths = {"long": 2000.0, "short": 400.0, "none": None, "middle": 900.0}
    plans = {
        name: TurnPlan(reply_ms=length) if length else TurnPlan(first_byte_ms=None)
        for name, length in lengths.items()
    }
    run = written(tmp_path / "run", plans)
    with RunReader.open(run) as reader:
        assert list(reader.tasks_by_reply_length()) == ["none", "short", "middle", "long"]
    score_run(run, ["listener"])
    assert [turn.turn_id for turn in Listener.batches[0]] == ["short", "middle", "long"]


def test_the_users_audio_is_read_for_judges_that_use_it(tmp_path: Path) -> None:
    asked = tmp_path / "asked.flac"
    write_flac(asked, tone(700).int16(), 24_000)
    path = tmp_path / "run"
    with RunWriter.create(path, {}) as writer:
        writer.commit(spoken_turn(a_case("there", audio_path=asked)))
        writer.commit(spoken_turn(a_case("moved", audio_path=tmp_path / "gone.wav")))
        writer.end(finished=True)
    SPECS["listener"] = replace(LISTENER, uses=frozenset({Need.SPEAKER_AUDIO}))
    SPECS["reader"] = replace(READER, needs=frozenset({Need.SPEAKER_AUDIO}))
    listener, reader = score_run(path, ["listener", "reader"]).judges
    heard = {turn.turn_id: turn.speaker for turn in Listener.batches[0]}
    assert heard["moved"] is None, "it can do without"
    assert heard["there"] is not None
    assert heard["there"].duration_ns == 700_000_000
    assert (listener.n, reader.n, reader.n_failed) == (2, 1, 1)
    assert "gone.wav" in rows(path, "reader")["moved"].reason


@pytest.mark.parametrize("stated", ["x", -1, 1e9, None, [1], True])
def test_a_manifest_without_a_usable_length_costs_only_what_needs_one(tmp_path: Path, stated: object) -> None:
    asked = tmp_path / "asked.flac"
    write_flac(asked, tone(700).int16(), 24_000)
    path = tmp_path / "run"
    with RunWriter.create(path, {"config": {"data": {"max_recording": stated}}}) as writer:
        writer.commit(spoken_turn(a_case("a", audio_path=asked)))
        writer.end(finished=True)
    SPECS["listener"] = replace(LISTENER, needs=frozenset({Need.SPEAKER_AUDIO}))
    listener, reader = score_run(path, ["listener", "reader"]).judges
    assert reader.n == 1
    if stated is not True:
        assert listener.n_failed == 1
        [reason] = listener.reasons
        assert f"{path}: data.max_recording of the manifest: " in reason
        assert f"got {str(stated)!r}" in reason


@pytest.mark.parametrize("need", [Need.SPEAKER_AUDIO, Need.REFERENCE_AUDIO])
def test_a_model_gets_recordings_of_the_run_and_of_folders_that_the_user_names(
    tmp_path: Path, need: Need
) -> None:
    run, home = tmp_path / "run", tmp_path / "home"
    (home / "data").mkdir(parents=True)
    for path in (home / "private.flac", home / "data" / "a.flac"):
        write_flac(path, tone(200).int16(), 24_000)
    name = {Need.SPEAKER_AUDIO: "audio_path", Need.REFERENCE_AUDIO: "reference_audio_path"}[need]
    places = {
        "own": run / "user" / "turn.flac",
        "linked": run / "user" / "link.flac",
        "above": run / ".." / "home" / "private.flac",
        "private": home / "private.flac",
        "data": home / "data" / "a.flac",
        "sample": next(sample_path().rglob("*.flac")),
    }
    with RunWriter.create(run, {}) as writer:
        for case_id, place in places.items():
            writer.commit(spoken_turn(a_case(case_id, **{name: place})))
        writer.end(finished=True)
    (run / "user").mkdir()
    write_flac(run / "user" / "turn.flac", tone(200).int16(), 24_000)
    (run / "user" / "link.flac").symlink_to(home / "private.flac")
    asks = replace(LISTENER, kind=JudgeKind.LLM, uses=frozenset({need}))
    sent: dict[str, list[str]] = {}
    with RunReader.open(run) as reader:
        for sendable in ((), (home / "data",)):
            items = [
                read_turn(reader, turn, frozenset({need, *asks.needs}), sendable) for turn in reader.turns()
            ]
            verdicts = {item.turn.turn_id: before_asking(asks, item) for item in items}
            sent[str(len(sendable))] = [turn_id for turn_id, verdict in verdicts.items() if verdict is None]
            assert all(before_asking(LISTENER, item) is None for item in items), "judged on this machine"
    assert sent == {"0": ["own", "sample"], "1": ["own", "data", "sample"]}
    assert verdicts["private"] == Unscored(
        f"recordings in {home} are not sent to a model, because only the run refers to them; "
        "to send them, pass the folder with --recordings"
    )


class Choosy(Listener):
    """A toy judge that may use the user's audio."""

    def __init__(self, *, speaker_audio: str) -> None:
        super().__init__()


@pytest.mark.parametrize(("choice", "read"), [("no", False), ("yes", True)])
def test_the_users_audio_is_not_read_if_an_option_makes_it_unnecessary(
    choice: str, read: bool, tmp_path: Path
) -> None:
    asked = tmp_path / "asked.flac"
    write_flac(asked, tone(700).int16(), 24_000)
    path = tmp_path / "run"
    with RunWriter.create(path, {}) as writer:
        writer.commit(spoken_turn(a_case("there", audio_path=asked)))
        writer.end(finished=True)
    option = OptionSpec(
        name="speaker_audio", help="", default="no", spares={"no": frozenset({Need.SPEAKER_AUDIO})}
    )
    implementation = f"{__name__}:Choosy"
    uses = frozenset({Need.SPEAKER_AUDIO})
    SPECS["listener"] = replace(LISTENER, implementation=implementation, uses=uses, options=(option,))
    options = JudgeOptions(choices={"listener": {"speaker_audio": choice}})
    assert score_run(path, ["listener"], options=options).judges[0].n == 1
    assert (Choosy.batches[0][0].speaker is not None) is read


def test_a_judge_that_compares_cannot_score(run: Path) -> None:
    SPECS["reader"] = replace(READER, kind=JudgeKind.PAIRWISE)
    with pytest.raises(UsageError, match="compares two replies"):
        score_run(run, ["reader"])


def test_the_shipped_text_judges_score_a_run(tmp_path: Path) -> None:
    plan = TurnPlan(reply_text="Hello you.", heard_text="hello there")
    run = written(tmp_path / "run", {"a": plan})
    judges = score_run(run, ["bleu", "rouge_l", "wer_heard"]).judges
    assert [(judge.name, judge.n, judge.reason) for judge in judges] == [
        ("bleu", 1, None),
        ("rouge_l", 1, None),
        ("wer_heard", 1, None),
    ]
    assert rows(run, "rouge_l")["a"].values == {"": pytest.approx(100)}
    assert rows(run, "wer_heard")["a"].values == {"raw": 100.0, "normalized": 0.0}


def test_the_command_prints_a_row_for_each_judge(run: Path) -> None:
    done = CliRunner().invoke(command, [str(run), "--judges", "listener, reader", "--json"])
    assert done.exit_code == 0, done.output
    first, second = json.loads(done.stdout)
    assert {"name", "n", "n_unscored", "n_failed", "seconds", "audio_seconds", "calls", "cost"} <= set(first)
    assert (first["name"], first["n"], second["name"], second["n"]) == ("listener", 3, "reader", 2)
    table = CliRunner().invoke(command, [str(run), "--judges", "reader"])
    assert table.exit_code == 0
    assert "reader" in table.stdout


def test_a_judge_of_other_tasks_has_nothing_to_do_and_is_not_shown(run: Path) -> None:
    seen: list[str] = []
    summary = score_run(run, ["reader", "mcq"], progress=lambda judge, done, total: seen.append(judge))
    assert set(seen) == {"reader"}
    mcq = summary.judges[1]
    assert (mcq.n, mcq.n_unscored, mcq.n_failed, mcq.reason) == (0, 0, 0, None)
    with RunReader.open(run) as reader:
        assert list(summarise(reader).scores) == ["reader"]
    assert "mcq" not in CliRunner().invoke(cli, ["score", str(run), "--judges", "reader,mcq"]).output


def test_the_exit_status_reports_failures(run: Path) -> None:
    Reader.judge = staticmethod(lambda _: Failed("no"))
    done = CliRunner().invoke(cli, ["score", str(run), "--judges", "reader", "--json"])
    assert done.exit_code == 3
    assert json.loads(done.stdout)[0]["n_failed"] == 2


def test_a_judge_may_report_a_turn_as_unscored(run: Path) -> None:
    Reader.judge = staticmethod(lambda _: Unscored("too dull"))
    [summary] = score_run(run, ["reader"]).judges
    assert (summary.n, summary.n_unscored, summary.reason) == (0, 5, None)
    assert rows(run, "reader")["a"].reason == "too dull"
