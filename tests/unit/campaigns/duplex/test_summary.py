"""The metrics of a campaign, from trials with hand-written conversations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from live_eval.analysis.turn_taking.outcomes import Outcome, Rule, judge
from live_eval.analysis.turn_taking.speech import AgentSpeech, Conversation
from live_eval.analysis.turn_taking.trial import Trial, TrialResult
from live_eval.analysis.turn_taking.trial_pairs import differences
from live_eval.campaigns.duplex.summary import DuplexRecord, compare_campaigns, duplex_summary, read_duplex
from live_eval.cli import cli
from live_eval.errors import StoreError, UsageError
from live_eval.types import SpeechKind
from tests.support import duplex_campaigns as written
from tests.unit.analysis.turn_taking.test_from_turns import turn
from tests.unit.analysis.turn_taking.test_outcomes import replies, says, talk

ONE_TRIAL = {"trial": "t-1", "probe": "pause", "condition": "300 ms", "meant": []}


def trial(
    probe: str,
    condition: str,
    number: int,
    conversation: Conversation,
    rule: Rule,
    *,
    playing: int = 0,
    correction: dict[str, bool | None] | None = None,
) -> TrialResult:
    meant = ("tuesday",) if correction is not None else ()
    return TrialResult(
        facts=Trial(trial_id=f"{probe}-{condition}-{number}", probe=probe, condition=condition, meant=meant),
        playing=playing,
        rule=rule,
        turns=(),
        conversation=conversation,
        judgement=judge(conversation, rule),
        failure=None,
        correction=correction or {},
    )


def interrupted(number: int, stop_ms: int, *, condition: str = "900 ms", playing: int = 0) -> TrialResult:
    """Return a reply that begins at 2 s and falls silent a given time after the user's onset at 3 s."""
    stopped = replies((2000, 3000 + stop_ms), cancelled_ns=3000 + stop_ms, completed=False)
    talked = talk([says((0, 1000)), says((3000, 4000))], [stopped])
    return trial("barge-in", condition, number, talked, Rule.INTERRUPTION, playing=playing)


def void(number: int) -> TrialResult:
    talked = talk([says((0, 1000)), says((3000, 4000))], [replies((2000, 3500))])
    return trial("barge-in", "900 ms", number, talked, Rule.INTERRUPTION)


def paused(gap_ms: int, number: int, *, waits: bool) -> TrialResult:
    user = says((0, 1000), (1000 + gap_ms, 2000 + gap_ms))
    onset_ms = 2500 + gap_ms if waits else 1100
    talked = talk([user], [replies((onset_ms, onset_ms + 1000))])
    return trial("pause", f"{gap_ms} ms", number, talked, Rule.PAUSE)


def noise(number: int, agent: list[AgentSpeech]) -> TrialResult:
    talked = talk([says((0, 20_000), kind=SpeechKind.NOISE)], agent)
    return trial("noise", "floor -30 dBFS", number, talked, Rule.FALSE_TRIGGER)


def figures(*trials: TrialResult, impaired: Sequence[TrialResult] = ()) -> dict[str, Any]:
    runs = {"clean": trials, **({"impaired": impaired} if impaired else {})}
    record = DuplexRecord(
        folder=Path("c"), facts={"endpoint": "e", "runs": {run: run for run in runs}}, trials=runs
    )
    found = duplex_summary(record).as_json()
    json.dumps(found, allow_nan=False)
    return found


def test_a_condition_has_its_outcomes_durations_and_share_of_passes() -> None:
    found = figures(*(interrupted(number, 300 + 10 * number) for number in range(9)), interrupted(9, 2500))
    (entry,) = found["probes"]
    assert (entry["probe"], entry["condition"], entry["run"]) == ("barge-in", "900 ms", "clean")
    assert entry["outcomes"] == {"yielded": 9, "kept_talking": 1}
    assert entry["passed"]["value"] == 90
    assert entry["passed"]["n"] == 10
    stop = entry["durations"]["audible_stop"]
    assert (stop["n"], stop["p50"], stop["max"]) == (10, 345, 2500)
    assert stop["interval"][0] < 345 < stop["interval"][1]
    assert stop["p95"] is None
    assert stop["reason"]["p95"] == "fewer than 30 values"
    assert entry["durations"]["new_reply"]["n"] == 0
    first = entry["trials"][0]
    assert first["marks"]["user_start"] == 3000
    assert first["durations_ms"]["audible_stop"] == 300


def repeats_of(recording: str, numbers: Sequence[int], stop_ms: int) -> list[TrialResult]:
    found = [interrupted(number, stop_ms) for number in numbers]
    return [replace(each, facts=replace(each.facts, recorded=recording)) for each in found]


def test_repeats_of_a_recording_are_resampled_together() -> None:
    stops = (300, 310, 320, 330, 340, 350, 2300, 2400)
    once = [repeats_of(f"own-{n}", [n], stop)[0] for n, stop in enumerate(stops)]
    eightfold = [
        each for n, stop in enumerate(stops) for each in repeats_of(f"own-{n}", range(8 * n, 8 * n + 8), stop)
    ]
    (alone,) = figures(*once)["probes"]
    (repeated,) = figures(*eightfold)["probes"]
    assert repeated["passed"]["n"] == 64
    assert repeated["passed"]["interval"] == alone["passed"]["interval"]
    assert repeated["talk_ratio"]["interval"] == alone["talk_ratio"]["interval"]
    median = repeated["durations"]["audible_stop"]
    assert median["interval"][1] > 2000
    pairs = differences(eightfold, repeats_of("own-0", range(64), 400))
    assert pairs[0].passed.clusters == 8


def test_repeats_of_fewer_than_eight_recordings_have_no_interval() -> None:
    (entry,) = figures(*repeats_of("own-1", range(10), 300), *repeats_of("own-2", range(10, 20), 2300))[
        "probes"
    ]
    assert (entry["passed"]["value"], entry["passed"]["interval"]) == (50, None)
    assert entry["passed"]["reason"] == "fewer than 8 recordings"
    assert entry["durations"]["audible_stop"]["reason"]["p50"] == "fewer than 8 recordings"


def test_thirty_trials_have_a_95th_percentile() -> None:
    (entry,) = figures(*(interrupted(number, 300) for number in range(30)))["probes"]
    assert entry["durations"]["audible_stop"]["p95"] == 300


def test_a_void_trial_counts_as_void_and_its_next_attempt_counts() -> None:
    (entry,) = figures(void(1), interrupted(1, 300, playing=1), void(2))["probes"]
    assert entry["void"] == 2
    assert entry["outcomes"] == {"yielded": 1, "natural_end": 1}
    assert (entry["passed"]["n"], entry["passed"]["value"]) == (1, 100)
    assert entry["durations"]["audible_stop"]["n"] == 1
    assert [each["void_reason"] is not None for each in entry["trials"]] == [True, False, True]


def test_false_triggers_are_counted_per_minute() -> None:
    agent = [replies((4000, 5000)), replies((9000, 9500))]
    (entry,) = figures(noise(1, agent), noise(2, []))["probes"]
    assert entry["false_triggers_per_minute"]["value"] == pytest.approx(3)  # two in 20 s, and none
    assert entry["passed"]["value"] == 50


def test_a_correction_is_counted_if_there_are_words() -> None:
    talked = talk(
        [says((0, 1000)), says((3000, 4000))], [replies((2000, 3300), cancelled_ns=3300, completed=False)]
    )
    trials = [
        trial(
            "correction", "900 ms", 1, talked, Rule.INTERRUPTION, correction={"reply": True, "heard": None}
        ),
        trial(
            "correction", "900 ms", 2, talked, Rule.INTERRUPTION, correction={"reply": False, "heard": None}
        ),
    ]
    (entry,) = figures(*trials)["probes"]
    assert (entry["correction"]["reply"]["value"], entry["correction"]["reply"]["n"]) == (50, 2)
    assert entry["correction"]["heard"]["value"] is None


def test_conditions_are_in_the_order_in_which_their_probe_lists_them() -> None:
    asked = ("floor -20 dBFS", "bursts over the reply", "floor -40 dBFS", "cough over the reply")
    talked = talk([says((0, 20_000), kind=SpeechKind.NOISE)], [])
    trials = [trial("noise", condition, 1, talked, Rule.FALSE_TRIGGER) for condition in asked]
    assert [entry["condition"] for entry in figures(*trials)["probes"]] == [
        *("cough over the reply", "bursts over the reply", "floor -40 dBFS", "floor -20 dBFS")
    ]


def test_conditions_are_in_the_order_of_their_numbers() -> None:
    trials = [paused(gap_ms, 1, waits=True) for gap_ms in (1000, 200, 3000)]
    assert [entry["condition"] for entry in figures(*trials)["probes"]] == ["200 ms", "1000 ms", "3000 ms"]


def test_an_endpoint_is_as_patient_as_the_longest_pause_before_the_first_that_breaks_it() -> None:
    trials = [
        *(paused(gap_ms, number, waits=True) for gap_ms in (200, 400) for number in (1, 2)),
        paused(600, 1, waits=True),
        paused(600, 2, waits=False),
        *(paused(800, number, waits=False) for number in (1, 2)),
        *(paused(1000, number, waits=True) for number in (1, 2)),
    ]
    pauses = figures(*trials)["profile"]["clean"]["pauses"]
    assert pauses["longest_pause_ms"] == 600
    assert {gap: share["value"] for gap, share in pauses["survived"].items()} == {
        "200 ms": 100,
        "400 ms": 100,
        "600 ms": 50,
        "800 ms": 0,
        "1000 ms": 100,
    }


def test_the_profile_contains_the_selectivity_of_an_endpoint() -> None:
    profile = figures(noise(1, [replies((4000, 5000))]), noise(2, []), interrupted(1, 300))["profile"][
        "clean"
    ]
    assert profile["selectivity"]["value"] == 50
    assert profile["yielding"]["value"] == 100
    assert profile["quickness"]["audible_stop"]["p50"] == 300
    assert profile["pauses"]["longest_pause_ms"] is None


def test_an_endpoint_that_never_speaks_is_not_selective() -> None:
    mute = figures(noise(1, []), noise(2, []))
    assert mute["profile"]["clean"]["selectivity"]["n"] == 0
    assert mute["probes"][0]["outcomes"] == {"ignored": 2}


def test_an_impaired_run_is_paired_with_the_clean_one() -> None:
    clean = [interrupted(number, 300) for number in range(10)]
    impaired = [*(interrupted(number, 350 + number) for number in range(9)), interrupted(9, 2500)]
    (row,) = figures(*clean, impaired=impaired)["paired"]
    assert row["pairs"] == 10
    assert row["outcomes"] == {"yielded → yielded": 9, "yielded → kept_talking": 1}
    assert row["passed"]["value"] == -10
    stop = row["durations"]["audible_stop"]
    assert (stop["first_p50"], stop["second_p50"]) == (300, 354.5)
    assert stop["difference"]["value"] == pytest.approx((9 * 54 + 2200) / 10)


def test_pairs_leave_out_void_and_missing_trials() -> None:
    (row,) = differences([interrupted(1, 300), void(2), interrupted(3, 300)], [interrupted(1, 310), void(2)])
    assert row.pairs == 1
    assert row.durations["audible_stop"].difference.n == 1


def test_a_comparison_notes_trials_with_different_recordings() -> None:
    def campaign(recording: str) -> DuplexRecord:
        played = turn()
        played = replace(played, case=replace(played.case, audio_path=Path(recording)))
        trials = [replace(interrupted(1, 300), turns=(played,)), interrupted(2, 300)]
        return DuplexRecord(folder=Path("c"), facts={"endpoint": "e"}, trials={"clean": trials})

    one, two = campaign("o/one.flac"), campaign("t/two.flac")
    assert compare_campaigns(one, one).notes == []
    assert compare_campaigns(one, two).notes == ["the recordings differ in 1 of 2 pairs"]
    licensed = replace(one, licences=["under L"])
    assert compare_campaigns(licensed, licensed).notes == ["under L"]


def test_a_campaign_is_not_compared_with_itself(tmp_path: Path) -> None:
    folder = written.write_duplex_campaign(tmp_path / "duplex", {"clean": []})
    done = CliRunner().invoke(cli, ["duplex", "compare", str(folder), f"{folder}/../duplex"])
    assert isinstance(done.exception, UsageError)
    assert str(done.exception) == "expected different campaigns, got a duplicate campaign"


def test_a_folder_without_a_campaign_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a duplex campaign"):
        read_duplex(tmp_path)
    (tmp_path / "duplex.json").write_text("{}", "utf-8")
    with pytest.raises(StoreError, match="schema version 1, got None"):
        read_duplex(tmp_path)
    (tmp_path / "duplex.json").write_text('{"schema": 1, "trials": [1], "runs": {}}', "utf-8")
    with pytest.raises(StoreError, match="expected a list of trials"):
        read_duplex(tmp_path)
    (tmp_path / "duplex.json").write_text(
        '{"schema": 1, "trials": [], "runs": {"clean": "../clean"}}', "utf-8"
    )
    with pytest.raises(StoreError, match="expected the folder names of the runs"):
        read_duplex(tmp_path)
    (tmp_path / "duplex.json").write_text('{"schema": 1, "trials": [], "runs": {}, "notes": 5}', "utf-8")
    with pytest.raises(StoreError, match=r"duplex\.json: notes: Input should be a valid list"):
        read_duplex(tmp_path)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"trials": [ONE_TRIAL, ONE_TRIAL]}, "duplicate run or trial"),
        ({"runs": {"clean": "clean", "impaired": "clean"}}, "duplicate run or trial"),
        ({"runs": {"clean": "a" * 256}}, "expected the folder names of the runs"),
        ({"endpoint": "\ud800"}, "expected JSON"),
    ],
)
def test_a_damaged_or_hostile_document_is_refused(
    tmp_path: Path, entry: dict[str, Any], message: str
) -> None:
    facts = {"schema": 1, "trials": [ONE_TRIAL], "runs": {}, **entry}
    (tmp_path / "duplex.json").write_text(json.dumps(facts), "utf-8")
    with pytest.raises(StoreError, match=message):
        read_duplex(tmp_path)


def test_the_keys_that_scripts_rely_on_stay() -> None:
    found = figures(interrupted(1, 300), impaired=[interrupted(1, 400)])
    assert {
        *("schema", "endpoint", "campaign", "created", "complete", "seed", "notes", "runs", "impairment"),
        *("rules_version", "definitions", "probes", "paired", "metrics", "profile", "sentinel"),
    } <= found.keys()
    entry = found["probes"][0]
    assert {
        *("probe", "condition", "run", "rule", "passes", "trials", "outcomes", "void", "passed"),
        *("durations", "talk_ratio"),
    } <= entry.keys()
    assert {
        *("trial", "playing", "run", "turns", "outcome", "passed", "reason", "void_reason", "failure"),
        *("durations_ms", "marks", "talk_ratio", "triggers", "correction", "lag_ms", "flagged"),
    } <= entry["trials"][0].keys()
    assert {"n", "p50", "interval", "p90", "p95", "max", "reason"} == entry["durations"][
        "audible_stop"
    ].keys()
    assert {"as_defined", "corrected", "difference"} <= found["metrics"]["clean"]["tau2.R_Y"].keys()
    assert {"pauses", "quickness", "selectivity", "yielding"} == found["profile"]["clean"].keys()
    assert {"probe", "condition", "pairs", "outcomes", "passed", "durations"} == found["paired"][0].keys()


def test_outages_are_noted_by_run(tmp_path: Path) -> None:
    outages = [{"since_wall_ns": 1, "seconds": 19.2, "over": True, "reason": "refused"}]
    trials = [("pause", "300 ms", written.pause("t", 300, waits=True))]
    folder = written.write_duplex_campaign(tmp_path / "c", {"clean": trials}, outages=outages)
    (note,) = duplex_summary(read_duplex(folder)).notes
    assert note == "clean: the endpoint was unreachable 1 time, for 19 s in total; the run paused"


@pytest.mark.parametrize(("frame_ms", "void"), [(20, True), (80, False)])
def test_an_answer_to_the_start_of_a_reply_may_be_two_frames_late(
    tmp_path: Path, frame_ms: int, void: bool
) -> None:
    first, second = written.streamed("t", [(0, 1000), (1580, 2600)], [[(1500, 2000)]], asked_ms=0)
    due_ns = np.arange(1, 20, dtype=np.int64) * frame_ms * 1_000_000
    trace = replace(second.trace, frame_deadline_ns=due_ns, frame_sent_ns=due_ns)
    trials = [("simultaneous", "0 ms", [first, replace(second, trace=trace)])]
    campaign = read_duplex(written.write_duplex_campaign(tmp_path / "c", {"clean": trials}))
    [trial] = campaign.trials["clean"]
    assert (trial.judgement.outcome is Outcome.ANCHOR_MISSED) is void


def test_a_trial_whose_user_missed_the_anchor_is_void_with_a_reason(tmp_path: Path) -> None:
    trials = [
        ("barge-in", f"{asked_ms} ms", written.barge_in(f"t-{asked_ms}", stop_ms=300, asked_ms=asked_ms))
        for asked_ms in (850, 900, 951, 1500)
    ]
    campaign = read_duplex(written.write_duplex_campaign(tmp_path / "c", {"clean": trials}))
    met, exact, missed, far = (trial.judgement for trial in campaign.trials["clean"])
    assert (met.outcome, exact.outcome) == (Outcome.YIELDED, Outcome.YIELDED)
    assert (missed.outcome, far.outcome) == (Outcome.ANCHOR_MISSED, Outcome.ANCHOR_MISSED)
    assert far.outcome.void
    assert far.reason == "the user began to speak 900 ms after the reply became audible instead of 1500 ms"
