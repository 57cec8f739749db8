"""Cue sensitivity of runs with a known dependence on the voice, and the command's output for them."""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from live_eval.analysis.cue_sensitivity.effects import ScriptEffect, scripts_of
from live_eval.analysis.cue_sensitivity.measures import Measure, Reply
from live_eval.analysis.cue_sensitivity.sensitivity import collect_replies, cue_sensitivity, reply_in
from live_eval.analysis.statistics.intervals import Estimate
from live_eval.analysis.summary.run_summary import summarise
from live_eval.cli import cli
from live_eval.cli.cue_sensitivity import measured_sensitivity
from live_eval.data import cue_of
from live_eval.errors import FailureKind, UsageError
from live_eval.judging import Scored
from live_eval.recording import RunReader, RunWriter, ScoreStore
from live_eval.types import Case, Failure, Variant
from tests.support.records import TurnPlan, spoken_turn


class Bags:
    """A model that embeds a text by the presence of a few words."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        known = ("hush", "wow", "plain")
        rows = np.asarray([[1.0 + 9 * (word in text) for word in known] for text in texts])
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def a_run(
    path: Path,
    says: Callable[[Case], str],
    *,
    pitch: Callable[[Case], str] | None = None,
    scored: Callable[[Case], bool] = lambda _: True,
    told: Callable[[Case], str] = lambda _: "",
    repeats: int = 2,
    scripts: Sequence[int] = range(8),
) -> Path:
    """Write a run of eight scripts; the pitch is higher if `pitch`, or else `says`, returns a hush."""
    with RunWriter.create(path, {}) as run, ScoreStore.open(path) as scores:
        for script in scripts:
            for variant in Variant:
                for repeat in range(repeats):
                    case = Case(
                        case_id=f"id_{script}/{variant}",
                        script_id=f"id_{script}",
                        variant=variant,
                        audio_path=Path("x.wav"),
                        script_cue=cue_of("sigh sound" if script % 2 else "shout"),
                    )
                    case = replace(case, instructions=told(case))
                    plan = TurnPlan(reply_ms=200, reply_text=says(case), heard_text=f"words {script}")
                    record = spoken_turn(case, plan, repeat=repeat)
                    run.commit(record)
                    values = {
                        "pitch_hz": 200.0 if "hush" in (pitch or says)(case) else 150.0,
                        "pitch_range": 5.0,
                        "level": -25.0,
                        "pauses": 3.0,
                    }
                    if says(case):  # the pace needs a text
                        values["rate"] = 4.0
                    if scored(case):
                        scores.put("prosody", "1", record.turn_id, Scored(values))
        failed = Case(case_id="f/target", script_id="f", variant=Variant.TARGET, audio_path=Path("x.wav"))
        refused = Failure(FailureKind.CONNECTION_REFUSED, "nobody there")
        run.commit(spoken_turn(failed, TurnPlan(first_byte_ms=None, failure=refused)))
        run.end(finished=True)
    return path


def deaf(case: Case) -> str:
    return f"plain reply to {case.script_id}"


def hearing(case: Case) -> str:
    return {"target": "hush", "neutral": "plain", "alternative": "wow"}[case.variant] + f" {case.script_id}"


@pytest.fixture(scope="module")
def deaf_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a run whose replies depend only on the words."""
    return a_run(tmp_path_factory.mktemp("deaf") / "run", deaf)


@pytest.fixture(scope="module")
def hearing_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a run whose replies depend on the words and the voice."""
    return a_run(tmp_path_factory.mktemp("hearing") / "run", hearing)


def test_a_reply_to_a_part_of_the_recording_is_excluded() -> None:
    case = Case(case_id="id_0/target", script_id="id_0", variant=Variant.TARGET, audio_path=Path("x.wav"))
    turn = spoken_turn(case)
    answered_early = replace(turn, timing=replace(turn.timing, premature=1))
    found = collect_replies(map(reply_in, (turn, answered_early)))
    assert len(found.replies) == 1
    [(reason, count)] = found.left_out.items()
    assert count == 1
    assert "before the recording had ended" in reason


@pytest.mark.parametrize(("name", "hears"), [("deaf_run", False), ("hearing_run", True)])
def test_a_whole_run(request: pytest.FixtureRequest, name: str, hears: bool) -> None:
    path = request.getfixturevalue(name)
    with RunReader.open(path) as run:
        found = cue_sensitivity(run, embedder=Bags())
    assert found.components == ("meaning", "prosody")
    assert found.left_out == {"the turn failed": 1}
    assert set(found.attributes) == {"shout", "sigh"}
    assert found.attributes["sigh"].p is None, "four scripts are too few"
    assert found.overall.p is not None
    assert found.overall.estimate.value is not None
    assert (found.overall.p < 0.01) is hears
    assert (found.overall.estimate.value > 0.5) is hears
    if not hears:
        assert found.overall.estimate.value == pytest.approx(0, abs=1e-9)
    assert (found.measures["prosody"].p == 1) is not hears
    json.dumps(found.as_json(), allow_nan=False)


def test_replies_without_texts_are_compared_by_their_delivery(tmp_path: Path) -> None:
    path = a_run(tmp_path / "run", lambda _: "", pitch=hearing)
    with RunReader.open(path) as run:
        found = cue_sensitivity(run)
    assert found.components == ("prosody",)
    assert found.overall.p is not None
    assert found.overall.p < 0.01
    assert found.measures["words"].p is None
    assert found.notes == ("no reply has a text, so only the delivery is compared",)


def test_the_command_in_json_and_in_words(tmp_path: Path, hearing_run: Path) -> None:
    path = hearing_run
    done = CliRunner().invoke(cli, ["cue-sensitivity", str(path), "--words", "--seed", "7", "--json"])
    assert done.exit_code == 0, done.output
    assert [json.loads(done.stdout)[name] for name in ("run", "seed")] == [str(path), 7]
    done = CliRunner().invoke(cli, ["cue-sensitivity", str(path), "--words", "--json"])
    overall = json.loads(done.stdout)["overall"]
    assert overall["low"] <= overall["effect"] <= overall["high"]
    assert overall["p"] < 0.01
    assert overall["components"] == ["words", "prosody"]
    told = CliRunner().invoke(cli, ["cue-sensitivity", str(path), "--words"])
    printed = f"repeats of one recording: {overall['effect']:.2f} (95 % interval {overall['low']:.2f} to "
    assert f"Replies differ more between styles than between {printed}" in told.stdout
    assert "- 2 of 2 attributes are not shown: fewer than 5 scripts" in told.stdout
    assert "- 1 turn excluded: the turn failed" in told.stdout
    shown = CliRunner().invoke(cli, ["show", str(path), "--json"])
    found = json.loads(shown.stdout)["cue_sensitivity"]
    assert {name: found[name] for name in overall} == overall, "a page shows the value of this command"
    assert found["in_words"] in told.stdout
    once = a_run(tmp_path / "once", deaf, repeats=1)
    told = CliRunner().invoke(cli, ["cue-sensitivity", str(once), "--words"])
    assert told.exit_code == 0
    assert "No conclusion: fewer than 5 scripts have two replies to the same recording" in told.stdout


def test_the_order_of_turns_does_not_matter(tmp_path: Path) -> None:
    def says(case: Case) -> str:
        number = int(case.script_id.removeprefix("id_"))
        return hearing(case) if number % 3 else deaf(case)

    found = []
    for name, scripts in (("one", range(8)), ("other", (3, 7, 0, 5, 1, 6, 2, 4))):
        path = a_run(tmp_path / name, says, scripts=scripts)
        with RunReader.open(path) as run:
            found.append(cue_sensitivity(run, embedder=Bags()))
    assert found[0].overall.estimate.interval is not None
    assert (found[0].overall, found[0].measures) == (found[1].overall, found[1].measures)


def test_differing_transcripts_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with RunWriter.create(path, {"data": {"licence": "Under L."}}) as run:
        for variant in Variant:
            case = Case(case_id=f"a/{variant}", script_id="a", variant=variant, audio_path=Path("x.wav"))
            heard = "I scream" if variant is Variant.TARGET else "Ice cream!"
            run.commit(spoken_turn(case, TurnPlan(reply_ms=200, heard_text=heard)))
        run.end(finished=True)
    with RunReader.open(path) as reader:
        notes = " ".join(cue_sensitivity(reader).notes)
    assert "in 1 of 1 scripts, the endpoint's transcripts of the recordings differ" in notes
    assert measured_sensitivity(path, by_words=True)[0].notes[-1] == "Under L"


def by_voice(case: Case) -> str:
    return {"target": "hush now", "neutral": "plain words here", "alternative": "wow great"}[case.variant]


def test_a_run_of_replies_only_by_voice_is_noted(tmp_path: Path) -> None:
    path = a_run(tmp_path / "run", by_voice)
    told = CliRunner().invoke(cli, ["cue-sensitivity", str(path), "--words"])
    assert told.exit_code == 0, told.output
    assert (
        "Replies differ more between styles than between repeats of one recording. Size of the effect: "
        "undefined: replies do not depend on the words." in told.stdout
    )
    done = CliRunner().invoke(cli, ["cue-sensitivity", str(path), "--words", "--json"])
    overall = json.loads(done.stdout)["overall"]
    assert (overall["effect"], overall["low"], overall["high"]) == (None, None, None)
    assert overall["reason"] == "undefined: replies do not depend on the words"
    assert overall["p"] < 0.001


def test_a_component_that_follows_only_the_voice_counts(tmp_path: Path) -> None:
    # The words depend only on the script, the pitch only on the style.
    path = a_run(tmp_path / "run", lambda case: f"hush {case.script_id}", pitch=lambda case: by_voice(case))
    with RunReader.open(path) as run:
        found = cue_sensitivity(run)
    assert (found.measures["words"].estimate.value, found.measures["words"].p) == (0, 1)
    assert found.measures["prosody"].estimate.value is None
    assert found.overall.p is not None
    assert found.overall.p < 0.001
    # By hand: one pitch of three is higher, by 1 / √(2/9) standard deviations: B is 2/3 of that, D is 0. One
    # of two words depends on the script: D is 1/2. Each measure is divided by its mean over all pairs of 48
    # replies, of which the pitch differs in 2·16·32 of 48·47, and the script in 42 of 47.
    step = 1 / np.sqrt(2 / 9)
    pitch = (2 / 3 * step) / (step * 2 * 16 * 32 / (48 * 47))
    words = (1 / 2) / (1 / 2 * 42 / 47)
    assert found.overall.estimate.value == pytest.approx(pitch / words, rel=0.1), "12 pairs are drawn of each"


def test_a_version_of_a_judge_that_is_not_complete_does_not_count(deaf_run: Path, tmp_path: Path) -> None:
    path = shutil.copytree(deaf_run, tmp_path / "run")
    with RunReader.open(path) as run:
        turns = [turn.turn_id for turn in run.turns() if turn.captured]

    def estimate() -> Estimate:
        with RunReader.open(path) as run:
            return cue_sensitivity(run).measures["prosody"].estimate

    first = estimate()
    assert first.n == 8
    features = dict.fromkeys(("pitch_hz", "pitch_range", "level", "rate", "pauses"), 1.0)
    with ScoreStore.open(path) as scores:
        scores.put("prosody", "2", turns[0], Scored(features))
    assert estimate() == first


def test_a_measure_with_too_few_scores_draws_no_conclusion(tmp_path: Path) -> None:
    path = a_run(tmp_path / "run", hearing, scored=lambda case: case.script_id in ("id_0", "id_1"))
    told = CliRunner().invoke(cli, ["cue-sensitivity", str(path), "--words"])
    assert "No conclusion: only 12 of 48 replies have scores of prosody." in told.stdout
    assert told.stdout.count("12 of 48") == 1
    with RunReader.open(path) as run:
        found = cue_sensitivity(run)
    assert found.measures["words"].p is not None


@pytest.mark.parametrize(("apart", "left"), [(3, 5), (8, 0)])
def test_scripts_whose_prompts_differ_by_style_are_excluded(tmp_path: Path, apart: int, left: int) -> None:
    def told(case: Case) -> str:
        differs = int(case.script_id.removeprefix("id_")) < apart and case.variant is Variant.ALTERNATIVE
        return "It is a shout." if differs else "Reply."

    path = a_run(tmp_path / "run", hearing, told=told)
    with RunReader.open(path) as run:
        found = cue_sensitivity(run)
    reason = "the session's prompt differs between the styles of the script: run with --prompt no or basic"
    assert found.left_out == {"the turn failed": 1, reason: apart * 6}
    assert found.replies == left * 6
    assert found.overall.scripts == left
    if not left:
        assert found.overall.estimate.reason == reason


def test_a_negative_seed_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["cue-sensitivity", str(tmp_path), "--seed", "-1"])
    assert done.exit_code == 2
    assert "-1 is not in the range" in done.stderr


def test_without_the_sentence_model_a_note_gives_the_reason(
    deaf_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "live_eval.scoring.judge_runner.missing_requirements", lambda *_: "needs the weights of X"
    )
    asked = CliRunner().invoke(cli, ["cue-sensitivity", str(deaf_run), "--meaning"])
    assert isinstance(asked.exception, UsageError)
    assert str(asked.exception) == "--meaning: semsim cannot run here: needs the weights of X"
    done = CliRunner().invoke(cli, ["cue-sensitivity", str(deaf_run), "--json"])
    assert done.exit_code == 0
    assert "(semsim cannot run here: needs the weights of X)" in json.loads(done.stdout)["notes"][0]


def test_each_measure_is_computed_once_however_many_attributes_there_are(
    deaf_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: Counter[str] = Counter()

    def counted(
        measures: Sequence[Measure], replies: Sequence[Reply], *, seed: int
    ) -> list[list[ScriptEffect]]:
        computed.update(measure.name for measure in measures)
        return scripts_of(measures, replies, seed=seed)

    monkeypatch.setattr("live_eval.analysis.cue_sensitivity.sensitivity.scripts_of", counted)
    with RunReader.open(deaf_run) as run:
        found = cue_sensitivity(run)
    assert len(found.attributes) == 2
    assert computed == {"overall": 1, "words": 1, "prosody": 1}


def test_failed_conversations_have_a_reason_for_no_conclusion(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, {}) as run:
        failed = TurnPlan(first_byte_ms=None, failure=Failure(FailureKind.NO_RESPONSE, "no response"))
        case = Case(case_id="a/target", script_id="a", variant=Variant.TARGET, audio_path=Path("a.wav"))
        run.commit(spoken_turn(case, failed))
    with RunReader.open(tmp_path) as reader:
        found = summarise(reader).cue_sensitivity
    assert found is not None
    assert found.overall.in_words.startswith("No conclusion")
    assert found.remarks == ["1 turn excluded: the turn failed"]
    assert not collect_replies(["not a conversation"]).concern_conversations
