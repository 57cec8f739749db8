"""Cue sensitivity of endpoints whose hearing is known: deaf, deaf and talkative, hearing; too little data."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from live_eval.cli import cli
from live_eval.cue_sensitivity import Effect, Measure, Reply, cue_sensitivity, effect_of, read_measures
from live_eval.data import cue_of
from live_eval.errors import FailureKind
from live_eval.judging import Scored
from live_eval.store import RunReader, RunWriter, ScoreReader, ScoreStore
from live_eval.testing.records import TurnPlan, spoken_turn
from live_eval.types import Case, Failure, Variant

VARIANTS = ("target", "neutral", "alternative")


def replies_of(scripts: int, repeats: int = 3, variants: Sequence[str] = VARIANTS) -> list[Reply]:
    return [
        Reply(
            f"{script}/{variant}/{repeat}", str(script), variant, "sigh" if script % 2 else "sad", "x", None
        )
        for script in range(scripts)
        for variant in variants
        for repeat in range(repeats)
    ]


def measured(replies: Sequence[Reply], place_of: Callable[[Reply], float]) -> Effect:
    """The effect where each reply lies somewhere on a line."""
    places = [place_of(reply) for reply in replies]
    everywhere = frozenset(range(len(replies)))
    measure = Measure("line", "", lambda one, other: abs(places[one] - places[other]), everywhere)
    return effect_of(measure, replies)


def test_an_endpoint_that_hears_words_alone_scores_zero() -> None:
    effect = measured(replies_of(20), lambda reply: float(reply.script_id))
    assert effect.estimate.value == 0
    assert effect.estimate.interval is not None
    assert (effect.estimate.interval.low, effect.estimate.interval.high) == (0, 0)
    assert effect.p == 1
    assert (effect.between, effect.within, effect.scripts) == (0, 0, 20)


def test_an_endpoint_that_hears_the_style_does_not() -> None:
    effect = measured(
        replies_of(20), lambda reply: float(reply.script_id) + 3.0 * VARIANTS.index(reply.variant)
    )
    assert effect.estimate.value is not None
    assert effect.estimate.value > 0.3
    assert effect.estimate.interval is not None
    assert effect.estimate.interval.low > 0
    assert effect.p is not None
    assert effect.p < 0.001


def test_the_effect_is_one_where_voice_changes_as_much_as_words() -> None:
    random = np.random.default_rng(3)
    place: dict[tuple[str, str], float] = {}
    effect = measured(
        replies_of(300, repeats=2),
        lambda reply: place.setdefault((reply.script_id, reply.variant), float(random.normal())),
    )
    assert effect.estimate.value == pytest.approx(1.0, abs=0.12)


def test_a_talkative_deaf_endpoint_is_rarely_called_hearing() -> None:
    random = np.random.default_rng(11)
    replies = replies_of(10, repeats=2)
    called = 0
    for _ in range(60):
        effect = measured(replies, lambda reply: float(reply.script_id) + float(random.normal()))
        assert effect.p is not None
        called += effect.p < 0.05
    assert called <= 8, "of 60, 3 are expected"


@pytest.mark.parametrize(
    ("replies", "scripts"),
    [
        (replies_of(4), 4),
        (replies_of(20, repeats=1), 0),
        (replies_of(20, variants=("target",)), 0),
        ([], 0),
    ],
)
def test_too_little_is_said_in_words(replies: list[Reply], scripts: int) -> None:
    effect = measured(replies, lambda _: 0.0)
    assert effect.estimate.value is None
    assert effect.p is None
    assert "fewer than 5 scripts" in effect.estimate.reason
    assert effect.scripts == scripts


def test_a_constant_endpoint_scores_zero() -> None:
    effect = measured(replies_of(10), lambda _: 1.0)
    assert (effect.estimate.value, effect.p) == (0, 1)


def test_the_same_seed_says_the_same() -> None:
    random = np.random.default_rng(5)
    places = {reply.turn_id: float(random.normal()) for reply in replies_of(12)}
    one, other = (measured(replies_of(12), lambda reply: places[reply.turn_id]) for _ in range(2))
    assert one == other


class Bags:
    """Places a text by which of a few words it has."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        known = ("hush", "wow", "plain")
        rows = np.asarray([[1.0 + 9 * (word in text) for word in known] for text in texts])
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def a_run(path: Path, says: Callable[[Case], str], *, scripts: int = 8, repeats: int = 2) -> Path:
    with RunWriter.create(path, {}) as run, ScoreStore.open(path) as scores:
        for script in range(scripts):
            for variant in Variant:
                for repeat in range(repeats):
                    case = Case(
                        case_id=f"id_{script}/{variant}",
                        script_id=f"id_{script}",
                        variant=variant,
                        audio_path=Path("x.wav"),
                        script_cue=cue_of("sigh sound" if script % 2 else "shout"),
                    )
                    plan = TurnPlan(reply_ms=200, reply_text=says(case), heard_text=f"words {script}")
                    record = spoken_turn(case, plan, repeat=repeat)
                    run.commit(record)
                    pitch = 200.0 if "hush" in says(case) else 150.0
                    values = {
                        "pitch_hz": pitch,
                        "pitch_range": 5.0,
                        "level": -25.0,
                        "rate": 4.0,
                        "pauses": 3.0,
                    }
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


@pytest.mark.parametrize(("says", "hears"), [(deaf, False), (hearing, True)])
def test_a_whole_run(tmp_path: Path, says: Callable[[Case], str], hears: bool) -> None:
    path = a_run(tmp_path / "run", says)
    with RunReader.open(path) as run, ScoreReader.open(path) as scores:
        found = cue_sensitivity(run, scores, embedder=Bags())
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


def test_the_command_in_json_and_in_words(tmp_path: Path) -> None:
    path = a_run(tmp_path / "run", hearing)
    done = CliRunner().invoke(cli, ["cue-sensitivity", str(path), "--words", "--json"])
    assert done.exit_code == 0, done.output
    overall = json.loads(done.stdout)["overall"]
    assert overall["low"] <= overall["effect"] <= overall["high"]
    assert overall["p"] < 0.01
    assert overall["components"] == ["words", "prosody"]
    told = CliRunner().invoke(cli, ["cue-sensitivity", str(path), "--words"])
    assert "Replies change with the voice" in told.stdout
    once = a_run(tmp_path / "once", deaf, repeats=1)
    told = CliRunner().invoke(cli, ["cue-sensitivity", str(once), "--words"])
    assert told.exit_code == 0
    assert "Nothing can be said: fewer than 5 scripts" in told.stdout


def test_transcripts_that_differ_are_told(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with RunWriter.create(path, {}) as run:
        for variant in Variant:
            case = Case(case_id=f"a/{variant}", script_id="a", variant=variant, audio_path=Path("x.wav"))
            heard = "I scream" if variant is Variant.TARGET else "Ice cream!"
            run.commit(spoken_turn(case, TurnPlan(reply_ms=200, heard_text=heard)))
        run.end(finished=True)
    with RunReader.open(path) as reader, ScoreReader.open(path) as scores:
        notes = " ".join(cue_sensitivity(reader, scores).notes)
    assert "in 1 of 1 scripts the endpoint's transcriber heard other words" in notes


def test_words_are_compared_without_case_and_marks() -> None:
    texts = ("Oh, no!", "oh no", "Oh yes, indeed", None)
    replies = [Reply(str(place), "s", "v", None, text, None) for place, text in enumerate(texts)]
    [measure] = read_measures(replies, {}, None)
    assert measure.name == "words"
    assert measure.distance(0, 1) == 0
    assert measure.distance(0, 2) == pytest.approx(2 / 3)
    assert measure.there == {0, 1, 2}
