"""Listening tests: order of trials, stored votes, playback checks, and exports for other commands."""

from __future__ import annotations

import io
import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import soundfile
from click.testing import CliRunner

from live_eval import registry
from live_eval.audio import Audio, int16_to_float
from live_eval.audio.speech_level import speech_level
from live_eval.cli import cli
from live_eval.errors import FailureKind, SchemaVersionError, StoreError, UsageError
from live_eval.judges._asking import PROMPTS
from live_eval.judging import Scored, score_name
from live_eval.recording import AUDIO_FOLDER, RunReader, RunWriter, ScoreStore
from live_eval.scoring.judge_runner import JudgeOptions, scoring_version
from live_eval.studio.library import Library
from live_eval.studio.listening.clips import LEVEL_DBFS, RATE_HZ, case_context, reply_clip
from live_eval.studio.listening.plan import (
    ListenedCase,
    ListenedRun,
    ListeningKind,
    ListeningTest,
    ListeningTrial,
    ReferenceKind,
    rating_scales,
    trials_for,
)
from live_eval.studio.listening.results import results_json, votes_csv
from live_eval.studio.listening.setup import plan_test
from live_eval.studio.listening.trials import Opinion, TrialDesk, why_not_heard
from live_eval.studio.listening.votes import FOLDER, VoteFile
from live_eval.testing.clock import FakeClock
from live_eval.testing.records import TurnPlan, spoken_turn
from live_eval.types import Case, Failure, Variant
from tests.support.listening import played_in_full, vote_on_all, write_listened_run

AB, ABX, RATING = ListeningKind.PREFERENCE, ListeningKind.IDENTITY, ListeningKind.RATING
SCALES = tuple(rating_scales())
ONE = {"name": "one", "path": "../one"}
CASE = {"case_id": "id_0/target", "turn_id": "id_0/target", "script_id": "id_0"}


def header(**changed: object) -> bytes:
    return json.dumps({"listening": 1, "cases": [CASE], **changed}).encode() + b"\n"


def a_test(kind: ListeningKind = AB, cases: int = 10) -> ListeningTest:
    return ListeningTest(
        kind=kind,
        runs=(ListenedRun("one", "../one"), ListenedRun("two", "../two")),
        cases=tuple(ListenedCase(f"id_{n}/target", f"id_{n}/target", f"id_{n}") for n in range(cases)),
        scales=SCALES if kind is RATING else (),
        seed=5,
    )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("recordings")
    return write_listened_run(folder / "one", hz=220), write_listened_run(folder / "two", hz=330)


@pytest.fixture
def runs(recorded: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    one, two = (Path(shutil.copytree(run, tmp_path / run.name)) for run in recorded)
    return one, two


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def every_run(_run: Path) -> bool:
    """A studio that shows every run."""
    return True


@pytest.fixture
def desk(clock: FakeClock) -> TrialDesk:
    return TrialDesk(clock, every_run)


def new_file(
    runs: tuple[Path, ...],
    kind: ListeningKind = AB,
    reference: ReferenceKind = ReferenceKind.NONE,
    limit: int = 20,
) -> VoteFile:
    folder = runs[0].parent / FOLDER
    scales = SCALES if kind is RATING else ()
    test = plan_test(kind, runs, folder, limit=limit, scales=scales, reference=reference)
    return VoteFile.create(folder, test)


# -- The order --


@pytest.mark.parametrize("cases", [1, 2, 3, 7, 8, 20])
def test_positions_are_balanced_for_each_listener_and_swapped_for_the_next(cases: int) -> None:
    test = a_test(cases=cases)
    one, two = trials_for(test, 0), trials_for(test, 1)
    first = Counter(trial.runs[0] for trial in one)
    assert abs(first["one"] - first["two"]) <= 1
    assert [trial.case for trial in two] == [trial.case for trial in reversed(one)]
    turned = {trial.case: trial.runs for trial in two}
    assert all(turned[trial.case] == trial.runs[::-1] for trial in one)
    assert trials_for(test, 0) == one  # the same at every call
    assert {trial.case for trial in one} == set(test.cases)


def test_x_is_balanced_over_replies_and_positions() -> None:
    combinations = Counter((trial.runs, trial.x) for trial in trials_for(a_test(ABX, cases=12), 4))
    assert sorted(combinations.values()) == [3, 3, 3, 3]


def test_each_pair_of_listeners_has_its_own_order() -> None:
    test = a_test(cases=20)
    assert len({tuple(trial.case for trial in trials_for(test, listener)) for listener in range(6)}) == 6


def test_all_cases_are_rated_once_before_any_is_repeated() -> None:
    trials = trials_for(a_test(RATING), 0)
    assert len(trials) == 20
    assert len({trial.case for trial in trials[:10]}) == 10
    assert Counter(trial.runs for trial in trials[:10]) == {("one",): 5, ("two",): 5}
    assert len({trial.key for trial in trials}) == 20


# -- What was heard --


def test_a_vote_requires_every_reply_to_be_heard() -> None:
    lengths = {"A": 2.0, "B": 4.0}
    whole = {"A": [(0.0, 2.0)], "B": [(0.0, 4.0)]}
    assert why_not_heard(lengths, whole, 6.0) == ""
    assert why_not_heard(lengths, {**whole, "B": [(2.0, 4.0), (0.0, 2.1)]}, 7.0) == ""
    assert "B was not heard" in why_not_heard(lengths, {**whole, "B": [(0.0, 2.0), (3.0, 4.0)]}, 9.0)
    assert "B was not heard" in why_not_heard(lengths, {**whole, "B": [(0.0, 1.0)] * 9}, 9.0)
    assert "A was not heard" in why_not_heard(lengths, {"B": [(0.0, 4.0)]}, 9.0)
    assert "after 3.0 s" in why_not_heard(lengths, whole, 3.0)
    assert "A was not heard" in why_not_heard({"A": 2.0}, {"A": [(float("nan"), float("nan"))]}, 9.0)


# -- The file --


def a_trial(test: ListeningTest, number: int = 0) -> ListeningTrial:
    return trials_for(test, 0)[number]


def test_votes_are_stored_and_the_last_one_can_be_undone(tmp_path: Path) -> None:
    test = a_test()
    file = VoteFile.create(tmp_path, test)
    file.join("Ana", "now")
    file.join("Ana", "later")
    for number in range(3):
        file.vote("Ana", a_trial(test, number), "now", choice=number % 2)
    with pytest.raises(UsageError, match="already voted on this trial"):
        file.vote("Ana", a_trial(test, 0), "now", choice=1)
    assert file.undo("Ana", "now").votes[-1].vote == 2
    ballots = VoteFile(file.path).read()
    assert ballots.test == test
    assert ballots.listeners == ("Ana",)
    assert ballots.open_trials("Ana")[0] == a_trial(test, 2)
    assert file.vote("Ana", a_trial(test, 2), "now", choice=None).votes[-1].vote == 4
    file.undo("Ana", "now")
    file.undo("Ana", "now")
    file.undo("Ana", "now")
    with pytest.raises(UsageError, match="no vote of Ana"):
        file.undo("Ana", "now")
    assert len(file.path.read_bytes().splitlines()) == 10  # lines are never removed


def test_an_incomplete_line_is_replaced_by_the_next_vote(tmp_path: Path) -> None:
    test = a_test()
    file = VoteFile.create(tmp_path, test)
    file.join("Ana", "now")
    file.vote("Ana", a_trial(test, 0), "now", choice=0)
    whole = file.path.read_bytes()
    file.vote("Ana", a_trial(test, 1), "now", choice=0)
    after = file.path.read_bytes()
    for cut in (len(whole), len(whole) + 1, len(after) - 1):
        file.path.write_bytes(after[:cut])
        assert len(file.read().votes) == 1
        assert len(file.vote("Ana", a_trial(test, 1), "now", choice=0).votes) == 2
        assert file.path.read_bytes() == after


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "empty"),
        (b"[]\n", "expected a JSON object"),
        (b"nonsense\n", "expected JSON"),
        (b'{"listening": 1, "kind": "abc"}\n', "kind"),
        (b'{"listening": 2}\n', "version 1, found 2"),
        (header(kind="abx", runs=[ONE]), "expected 2 runs, found 1"),
        (header(kind="rating", runs=[]), "expected 1 or 2 runs, found 0"),
        (header(kind="ab", runs=[ONE, ONE]), "both runs are named 'one'"),
        (header(kind="ab", runs=[ONE, {"name": "two", "path": "a\0b"}]), "NUL character"),
        (header(kind="rating", runs=[ONE], scales=["rubric.c4"] * 2), "each once"),
    ],
)
def test_a_damaged_file_is_reported_with_its_line(tmp_path: Path, content: bytes, error: str) -> None:
    path = tmp_path / "ab-1.jsonl"
    path.write_bytes(content)
    with pytest.raises((StoreError, SchemaVersionError), match=error):
        VoteFile(path).read()


def test_a_vote_by_an_unknown_listener_is_damage(tmp_path: Path) -> None:
    file = VoteFile.create(tmp_path, a_test())
    with file.path.open("ab") as raw:
        raw.write(json.dumps({"vote": 1, "listener": "Bo", **CASE, "runs": ["one", "two"]}).encode() + b"\n")
    with pytest.raises(StoreError, match="who did not join"):
        file.read()


@pytest.mark.parametrize(
    ("kind", "changes", "error"),
    [
        (AB, {"choice": 7}, "choice: expected one of None, 0, 1, found 7"),
        (AB, {"x": 0}, "x: expected none, found 0"),
        (AB, {"turn_id": "b"}, "no case 'id_0/target'"),
        (AB, {"runs": ["one", "one"]}, "runs: expected both of one, two"),
        (AB, {"runs": ["one", "three"]}, "runs: expected both of one, two"),
        (AB, {"ratings": {"rubric.c4": 3}}, "ratings: expected 1 to 5 for each of no scale"),
        (ABX, {"choice": 0, "x": None}, "x: expected 0 or 1, found None"),
        (ABX, {"choice": 0, "x": -1}, "x: expected 0 or 1, found -1"),
        (ABX, {"x": 0}, "choice: expected one of 0, 1, found None"),
        (RATING, {"runs": ["one"], "ratings": {"rubric.c4": 6}}, "ratings: expected 1 to 5"),
        (RATING, {"runs": ["one", "two"]}, "runs: expected one of one, two"),
    ],
)
def test_a_vote_that_does_not_match_the_test_is_damage(
    tmp_path: Path, kind: ListeningKind, changes: dict[str, Any], error: str
) -> None:
    file = VoteFile.create(tmp_path, a_test(kind))
    file.join("Bo", "")
    vote = {"vote": 1, "listener": "Bo", **CASE, "runs": ["one", "two"], **changes}
    with file.path.open("ab") as raw:
        raw.write(json.dumps(vote).encode() + b"\n")
    with pytest.raises(StoreError, match=error):
        file.read()


def test_a_test_that_cannot_be_written_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        VoteFile.create(tmp_path, replace(a_test(), seed=10**25))
    assert not list(tmp_path.iterdir())


def test_a_foreign_test_cannot_play_runs_outside_the_studio(
    runs: tuple[Path, Path], clock: FakeClock, tmp_path: Path
) -> None:
    file = new_file(runs)
    (tmp_path / "apart").mkdir()
    library = Library([tmp_path / "apart"])
    with pytest.raises(StoreError, match="is not in a folder that this studio shows"):
        TrialDesk(clock, library.contains).next(file, "Ana")
    assert TrialDesk(clock, Library([tmp_path]).contains).next(file, "Ana")[1] is not None


# -- Setting up --


def test_cases_are_spread_over_scripts_and_paths_are_relative(runs: tuple[Path, Path]) -> None:
    file = new_file(runs, limit=4)
    test = file.read().test
    assert len(test.cases) == 4
    assert [run.path for run in test.runs] == ["../one", "../two"]
    assert new_file(runs, limit=4).path.name == "ab-2.jsonl"


def test_runs_that_are_not_comparable_are_refused(tmp_path: Path, runs: tuple[Path, Path]) -> None:
    folder = tmp_path / FOLDER

    def refused(*folders: Path, kind: ListeningKind = AB, match: str, **options: object) -> None:
        with pytest.raises(UsageError, match=match):
            plan_test(kind, folders, folder, **options)  # type: ignore[arg-type]

    refused(runs[0], match="expected 2 runs, found 1")
    refused(*runs, write_listened_run(tmp_path / "three", hz=1), match="expected 2 runs, found 3")
    refused(runs[0], runs[0], match="named twice")
    refused(*runs, scales=("rubric.c1",), match="expected none")
    refused(*runs, kind=RATING, match="expected some, each once, found none")
    refused(*runs, kind=RATING, scales=(SCALES[0],) * 2, match="expected some, each once")
    refused(*runs, kind=RATING, scales=("dnsmos.ovrl",), match="found dnsmos.ovrl")
    refused(runs[0], write_listened_run(tmp_path / "other" / "one", hz=1), match="rename one")
    shutil.rmtree(runs[1] / AUDIO_FOLDER)
    refused(*runs, match="one has 10 turns with audio, two has 0 turns with audio")
    stranger = tmp_path / "stranger"
    with RunWriter.create(stranger, {}) as run:
        case = Case(case_id="x", script_id="x", variant=Variant.TARGET, audio_path=Path("a.wav"))
        run.commit(spoken_turn(case))
        run.end()
    refused(runs[0], stranger, match="no case in common")


def test_turns_that_failed_or_have_no_audio_are_omitted(tmp_path: Path) -> None:
    def write(folder: Path, broken: int) -> Path:
        with RunWriter.create(folder, {}) as run:
            for number in range(4):
                name = f"id_{number}"
                case = Case(case_id=name, script_id=name, variant=Variant.TARGET, audio_path=Path("a.wav"))
                failure = Failure(FailureKind.NO_RESPONSE, "none")
                plan = TurnPlan(first_byte_ms=None, failure=failure) if number == broken else TurnPlan()
                run.commit(spoken_turn(case, plan))
                run.commit(spoken_turn(case, plan, repeat=1))
            run.end()
        return folder

    file = new_file((write(tmp_path / "one", 0), write(tmp_path / "two", 3)), limit=0)
    # Votes name cases, so a repeated case is heard once.
    assert sorted(case.turn_id for case in file.read().test.cases) == ["id_1", "id_2"]


# -- Sounds --


def test_all_replies_have_one_rate_and_one_level(tmp_path: Path) -> None:
    quiet = write_listened_run(tmp_path / "quiet", hz=300, cases=1, level=0.02)
    loud = write_listened_run(tmp_path / "loud", hz=300, cases=1, level=0.9)
    for run in (quiet, loud):
        pcm, rate_hz = soundfile.read(io.BytesIO(reply_clip(run, "id_0/target").wav), dtype="int16")
        assert rate_hz == RATE_HZ
        assert speech_level(Audio(int16_to_float(pcm), rate_hz)).dbfs == pytest.approx(LEVEL_DBFS, abs=0.2)


def test_the_context_depends_on_the_reference(runs: tuple[Path, Path]) -> None:
    nothing = case_context(runs[0], "id_0/target", ReferenceKind.NONE)
    assert (nothing.text, nothing.cue, nothing.user) == (None, None, None)
    heard = case_context(runs[0], "id_0/target", ReferenceKind.REPLY)
    assert (heard.text, heard.cue, heard.reference) == ("I missed the bus again.", "sigh sound", None)
    assert heard.user is not None
    assert heard.user.seconds == pytest.approx(1.1, abs=0.01)  # 800 ms of speech, 300 ms after it


# -- Voting --


def test_names_and_clips_do_not_reveal_the_run(runs: tuple[Path, Path], desk: TrialDesk) -> None:
    file = new_file(runs)
    _, given = desk.next(file, "Ana")
    assert given is not None
    assert desk.next(file, "Ana")[1] is given  # a reload shows the same trial
    names = [given.name, *given.sounds]
    assert len(set(names)) == len(names)
    assert all(len(name) == 32 for name in names)
    for clip in given.sounds.values():
        assert not any(word in clip.wav for word in (b"one", b"two", b"id_"))


def test_a_vote_before_the_end_is_refused(runs: tuple[Path, Path], desk: TrialDesk, clock: FakeClock) -> None:
    file = new_file(runs)
    _, given = desk.next(file, "Ana")
    assert given is not None
    opinion = Opinion(trial=given.name, choice="A", ratings={}, played=played_in_full(given))
    with pytest.raises(UsageError, match="the vote came after 0"):
        desk.vote(given, opinion)
    clock.advance(10_000_000_000)
    with pytest.raises(UsageError, match="B was not heard"):
        desk.vote(given, replace(opinion, played={"A": [(0.0, 1.0)]}))
    for choice in ("", "C", "one"):
        with pytest.raises(UsageError, match="expected one of A, B, tie"):
            desk.vote(given, replace(opinion, choice=choice))
    assert file.read().votes == ()
    assert len(desk.vote(given, opinion).votes) == 1
    assert desk.given(given.name) is None
    with pytest.raises(UsageError, match="already voted on this trial"):
        desk.vote(given, opinion)


def test_deleted_runs_and_lost_audio_are_reported_and_votes_are_kept(
    runs: tuple[Path, Path], desk: TrialDesk, clock: FakeClock
) -> None:
    file = new_file(runs)
    _, given = desk.next(file, "Ana")
    assert given is not None
    clock.advance(10_000_000_000)
    desk.vote(given, Opinion(trial=given.name, choice="B", ratings={}, played=played_in_full(given)))
    lost = file.read().open_trials("Ana")[0]
    with RunReader.open(runs[0]) as reader:
        sound = reader.turn(lost.case.turn_id).reply_file
    assert sound is not None
    sound.unlink()
    passed_over = TrialDesk(clock, every_run).next(file, "Ana")[1]
    assert passed_over is not None
    assert passed_over.trial.case != lost.case
    shutil.rmtree(runs[1])
    with pytest.raises(StoreError, match="9 trials cannot be played; the votes so far are kept"):
        TrialDesk(clock, every_run).next(file, "Ana")
    shown = results_json(file.read(), file.path.parent)
    assert shown["votes"] == 1
    assert "two" in shown["problems"][0]


# -- Exports and results --


def prefers_two(trial: ListeningTrial) -> str:
    return "AB"[trial.runs.index("two")]


def test_arena_imports_the_votes(runs: tuple[Path, Path], desk: TrialDesk, clock: FakeClock) -> None:
    file = new_file(runs)
    vote_on_all(desk, clock, file, "Ana", prefers_two)
    # A formula, and a name that CSV has to quote.
    vote_on_all(desk, clock, file, '=Bo, "B"', lambda trial: "tie" if trial.case.script_id < "id_3" else "A")
    ballots = file.read()
    path = file.path.with_suffix(".csv")
    path.write_text(votes_csv(ballots), "utf-8")
    command = ["arena", *map(str, runs), "--votes", str(path), "--no-judge", "--json"]
    done = CliRunner().invoke(cli, [*command, "--output", str(path.with_name("arena.jsonl"))])
    assert done.exit_code == 0, done.output
    people = json.loads(done.output)["people"]
    assert (people["votes"], people["raters"], people["n_unknown"], people["n_other"]) == (20, 2, 0, 0)
    shown = results_json(ballots, file.path.parent)
    assert shown["ratings"] == people["ratings"]
    assert shown["position"] == people["position"]
    assert shown["between_listeners"]["n"] == 10


def test_audit_imports_the_ratings(runs: tuple[Path, Path], desk: TrialDesk, clock: FakeClock) -> None:
    file = new_file(runs, RATING)

    def rating(trial: ListeningTrial) -> dict[str, int]:
        number = int(trial.case.script_id.removeprefix("id_"))
        return dict.fromkeys(SCALES, 1 + (number + (trial.runs == ("two",))) % 5)

    vote_on_all(desk, clock, file, "Ana", rating)
    vote_on_all(desk, clock, file, "Bo", rating)
    ballots = file.read()
    unjudged = results_json(ballots, file.path.parent)
    assert {(each["n"], each["n_unscored"]) for each in unjudged["agreement"].values()} == {(0, 20)}
    first = SCALES[0].partition(".")[0]
    assert f"live-eval score two --judges {first}" in unjudged["imports"]
    path = file.path.with_suffix(".csv")
    path.write_text(votes_csv(ballots, "two"), "utf-8")
    judges = {score.partition(".")[0] for score in SCALES}
    for name in judges:
        spec = registry.judge(name)
        with ScoreStore.open(runs[1]) as store:
            for case in ballots.test.cases:
                values = {output.name: float(2 + int(case.script_id[3:]) % 4) for output in spec.outputs}
                store.put(spec.name, scoring_version(spec, JudgeOptions()), case.turn_id, Scored(values))
        command = ["audit", name, str(runs[1]), "--parts", "agreement", "--labels", str(path), "--json"]
        done = CliRunner().invoke(cli, command)
        assert done.exit_code == 0, done.output
        agreement = json.loads(done.output)["agreement"]
        assert (agreement["raters"], agreement["n_unknown"]) == (2, 0)
        for output in spec.outputs:
            figures = agreement["outputs"][score_name(spec.name, output.name)]
            assert figures["n"] == 10
            assert figures["between_raters"]["alpha_interval"]["value"] == pytest.approx(1.0)
    shown = results_json(ballots, file.path.parent)
    assert f"live-eval score two --judges {first}" not in shown["imports"]
    at = shown["imports"].index(f"live-eval score one --judges {first}")
    assert shown["imports"][at + 1] == f"live-eval audit {first} one --labels FILE"
    assert set(shown["agreement"]) == set(SCALES)
    assert {each["n"] for each in shown["agreement"].values()} == {10}  # only one run was judged
    assert len(shown["means"]) == 2 * len(SCALES)


def test_results_compare_people_with_scores_and_arenas(
    runs: tuple[Path, Path], desk: TrialDesk, clock: FakeClock
) -> None:
    file = new_file(runs)
    turns = [case.turn_id for case in file.read().test.cases]
    for run, quality in zip(runs, (3.0, 4.0), strict=True):
        with ScoreStore.open(run) as store:
            for number, turn_id in enumerate(sorted(turns)):
                better = quality if number else 7 - quality  # reversed on one turn
                store.put("dnsmos", "1", turn_id, Scored({"ovrl": better}))
    heading = {"arena": 1, "runs": ["two", "one"], "judge": "toy", "version": "7"}
    verdicts = [{"turn_id": turn_id, "first": "two", "second": "one", "verdict": 1.0} for turn_id in turns]
    lines = "".join(json.dumps(row) + "\n" for row in (heading, *verdicts))
    (runs[0].parent / "arena-two-one.jsonl").write_text(lines, "utf-8")
    (runs[0].parent / "arena-else.jsonl").write_text("nonsense\n", "utf-8")
    vote_on_all(desk, clock, file, "Ana", prefers_two)
    judges = {row["judge"]: row["agreement"] for row in results_json(file.read(), file.path.parent)["judges"]}
    assert judges["dnsmos.ovrl"]["value"] == pytest.approx(0.9)
    assert judges["toy"]["value"] == 1.0
    assert judges["toy"]["interval"][0] < 1.0


def test_abx_counts_how_often_x_was_recognised(
    runs: tuple[Path, Path], desk: TrialDesk, clock: FakeClock
) -> None:
    file = new_file(runs, ABX)
    trials = vote_on_all(desk, clock, file, "Ana", lambda trial: "AB"[trial.x or 0])
    assert all(trial.x is not None for trial in trials)
    vote_on_all(desk, clock, file, "Bo", lambda trial: "A")
    shown = results_json(file.read(), file.path.parent)
    assert shown["by_listener"]["Ana"]["value"] == 1.0
    assert shown["by_listener"]["Bo"]["value"] == 0.5
    assert shown["correct"]["value"] == 0.75
    rows = votes_csv(file.read()).splitlines()
    assert len(rows) == 21
    assert rows[0] == "case_id,first,second,x,chosen,correct,rater,turn_id,at"


def test_commands_quote_the_names_of_runs(runs: tuple[Path, Path]) -> None:
    spaced = runs[0].rename(runs[0].with_name("the first"))
    file = new_file((spaced, runs[1]))
    shown = results_json(file.read(), file.path.parent)
    assert shown["imports"] == ["live-eval arena 'the first' two --votes FILE --no-judge"]


def test_results_without_votes_have_reasons(runs: tuple[Path, Path]) -> None:
    for kind in ListeningKind:
        file = new_file(runs, kind)
        shown = results_json(file.read(), file.path.parent)
        assert shown["votes"] == 0
    assert shown["agreement"] == {}


def test_rating_scales_use_the_questions_and_anchors_of_the_prompts() -> None:
    """Models and listeners answer the same question on the same scale."""
    prompts = "\n".join(path.read_text("utf-8") for path in PROMPTS.glob("*.md"))
    assert len(SCALES) == 5
    for output in rating_scales().values():
        assert output.by_people is not None
        assert (output.low, output.high) == (1, len(output.by_people.anchors))
        assert output.by_people.question in prompts
        assert output.by_people.note in prompts
        anchors = "\n".join(f"{n} - {anchor}" for n, anchor in enumerate(output.by_people.anchors, 1))
        assert anchors in prompts


def test_a_file_above_the_size_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ab-1.jsonl"
    with path.open("wb") as file:
        file.truncate(1 << 33)
    with pytest.raises(StoreError, match="expected at most"):
        VoteFile(path).read()
