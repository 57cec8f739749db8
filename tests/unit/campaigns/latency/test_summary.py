"""The summary of a campaign: drift check, endpointing cost, and JSON that matches its schema."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from live_eval.analysis.latency.drift import CaseAnswers, drift_check
from live_eval.analysis.latency.endpointing import endpointing_cost
from live_eval.audio import Audio
from live_eval.campaigns.latency.campaign_file import read_campaign
from live_eval.campaigns.latency.reply_words import WORDS_FILE, ReplyWords
from live_eval.campaigns.latency.summary import CampaignSummary, campaign_summary, summary_schema
from live_eval.cli._latency_command import print_campaign
from live_eval.errors import FailureKind, StoreError, UsageError
from live_eval.recording import TurnRecord
from live_eval.report.latency import write_campaign_page
from live_eval.speech.recognition import Recogniser, Transcript, Word
from live_eval.timing import measure
from live_eval.types import Failure
from tests.support.campaigns import a_case, point, turns_at, write_campaign
from tests.support.records import TurnPlan, spoken_turn, tone

TIMES = [500.0 + 7 * number for number in range(12)]


def valid(summary: CampaignSummary) -> Mapping[str, Any]:
    """Return the summary's JSON form after validating it."""
    found = summary.as_json()
    jsonschema.Draft202012Validator(summary_schema()).validate(found)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


def later(times: Sequence[float], ms: float) -> list[float]:
    """Return times that are later by `ms`, each slightly more than the previous one."""
    return [at + ms + number for number, at in enumerate(times)]


def test_without_captured_turns_there_are_no_stamps_and_process_deaths_are_noted(tmp_path: Path) -> None:
    died = TurnPlan(first_byte_ms=None, failure=Failure(FailureKind.PROCESS_DIED, "signal 9"))
    folder = write_campaign(tmp_path / "campaign", [(point("c1"), [spoken_turn(a_case(1), died)])])
    summary = campaign_summary(read_campaign(folder), definitions=False)
    assert valid(summary)["stamps"] is None
    assert summary.notes == [
        "c1: 1 turn failed as process_died: not caused by the endpoint, and excluded from assertions"
    ]
    print_campaign(summary)
    write_campaign_page(summary)


def test_outages_are_noted_by_condition(tmp_path: Path) -> None:
    outages = [{"since_wall_ns": 1, "seconds": 19.2, "over": True, "reason": "refused"}]
    folder = write_campaign(tmp_path / "campaign", [(point("c1"), turns_at(TIMES[:1]))], outages=outages)
    (note,) = campaign_summary(read_campaign(folder), definitions=False).notes
    assert note == "c1: the endpoint was unreachable 1 time, for 19 s in total; the run paused"


def test_a_delay_by_an_outage_is_not_attributed_to_the_session_limit(tmp_path: Path) -> None:
    def due_s_before(late: Sequence[float], outages: Sequence[Mapping[str, Any]]) -> list[str]:
        turns = [
            replace(turn, trace=replace(turn.trace, intended_ns=turn.trace.dial_ns - round(seconds * 1e9)))
            for turn, seconds in zip(turns_at(TIMES), late, strict=True)
        ]
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        c8 = point("c8", concurrency=8, arrivals="constant:2")
        write_campaign(folder, [(c8, turns)], outages=outages)
        return list(campaign_summary(read_campaign(folder), definitions=False).notes)

    wall_ns = turns_at(TIMES)[0].wall_ns
    away = {"since_wall_ns": wall_ns - 21 * 10**9, "seconds": 19.2, "over": True, "open_loop": True}
    outage = (
        "c8: the endpoint was unreachable 1 time, for 19 s in total; sessions due during that time began late"
    )
    assert due_s_before([9.0] * 12, [away]) == [outage]
    queue, then = due_s_before([9.0] * 8 + [1.0] * 4, [away])
    assert "began 1,000 ms after their due time at p95, with at most 8 concurrent" in queue
    assert then == outage
    (queue,) = due_s_before([9.0] * 12, [])
    assert "began 9,000 ms after their due time" in queue


def test_a_whole_campaign_fits_the_schema(tmp_path: Path) -> None:
    slow = turns_at(later(TIMES, 200))
    failed = spoken_turn(
        a_case(50), TurnPlan(first_byte_ms=None, failure=Failure(FailureKind.NO_RESPONSE, "nothing"))
    )
    odd = [
        spoken_turn(a_case(60), TurnPlan(first_byte_ms=-200.0, cut_off=1, frame_late_ns=30_000_000)),
        spoken_turn(a_case(61), TurnPlan(first_byte_ms=-200.0, uncertain=True)),
    ]
    folder = write_campaign(
        tmp_path / "campaign",
        [
            (point("sentinel-start", "sentinel"), turns_at(TIMES)),
            (point("c1"), [*turns_at(TIMES), failed, *odd]),
            (point("c8", concurrency=8, turn_detection={"type": "server_vad"}), slow),
            (point("manual", "endpointing", turn_mode="manual"), turns_at(TIMES)),
            (point("vad", "endpointing", turn_detection={"silence_duration_ms": 500}), slow),
            (point("sentinel-end", "sentinel"), turns_at(later(TIMES, 40))),
        ],
        machine={"priority": {}, "calibration": {"date": "2026-01-01"}},
        price={"input": 4, "output": 64},
        notes=["a note"],
    )
    summary = valid(campaign_summary(read_campaign(folder), definitions=False))
    assert (summary["endpoint"], summary["complete"], summary["stamps"]) == ("made up", True, "user")
    assert summary["stamped_turns"] == {"user": 74}
    assert summary["error_bar"] == {
        "lag_ms": {"p50": pytest.approx(0.3), "p99": pytest.approx(0.3, abs=20)},
        "calibration": {"date": "2026-01-01"},
    }
    assert [each["name"] for each in summary["points"]][1:3] == ["c1", "c8"]
    first = summary["points"][1]
    assert first["turns"] == {
        "n": 15,
        "captured": 14,
        "failed": {"no_response": 1},
        "no_answer": 1,
        "premature": 1,
        "early": 1,
        "flagged": 1,
        "uncertain": 1,
    }
    assert first["latencies"]["first_byte"]["n"] == 13
    assert first["cost_per_minute"]["usd"] > 0
    (cost,) = summary["endpointing_cost"]
    assert (cost["name"], cost["manual"]) == ("vad", "manual")
    assert cost["difference_ms"] == pytest.approx(205.5)
    drift = summary["sentinel"][1]["metrics"]
    assert drift["voice_to_voice"]["difference_ms"] == pytest.approx(45.5)
    assert drift["lag"]["difference_ms"] == 0
    assert summary["definitions"] == []


def test_an_interrupted_campaign_has_a_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("live_eval.campaigns.latency.summary.available", lambda: "no recogniser in this test")
    entries = [(point("c1"), turns_at(TIMES[:2]))]
    folder = write_campaign(tmp_path / "campaign", entries, complete=False)
    campaign = json.loads((folder / "campaign.json").read_text("utf-8"))
    campaign["points"].append(point("c8"))
    (folder / "campaign.json").write_text(json.dumps(campaign), "utf-8")
    summary = valid(campaign_summary(read_campaign(folder)))
    assert summary["complete"] is False
    assert {row["run"] for row in summary["definitions"]} == {"c1"}
    played, lost = summary["points"]
    assert (played["error"], played["turns"]["n"]) == ("", 2)
    assert "not found" in lost["error"]
    assert lost["turns"]["n"] == 0
    assert lost["latencies"]["first_byte"]["reason"]["p50_ms"] == "no values"
    empty = write_campaign(tmp_path / "empty", [])
    assert valid(campaign_summary(read_campaign(empty)))["definitions"] == []


def test_a_run_with_every_kind_of_turn_has_metrics(run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "campaign").mkdir()
    shutil.copytree(run_folder, tmp_path / "campaign" / "c1")
    facts = {"schema": 1, "points": [point("c1")], "complete": True}
    (tmp_path / "campaign" / "campaign.json").write_text(json.dumps(facts), "utf-8")
    summary = valid(campaign_summary(read_campaign(tmp_path / "campaign"), definitions=False))
    (figures,) = summary["points"]
    assert figures["turns"] == {
        "n": 24,
        "captured": 22,
        "failed": {"no_response": 1, "closed": 1},
        "no_answer": 1,
        "premature": 1,
        "early": 0,
        "flagged": 1,
        "uncertain": 3,
    }
    heard = figures["latencies"]["voice_to_voice"]
    assert heard["n"] + heard["uncertain"] + sum(heard["missing"].values()) == 24


def odd_turn(kind: str) -> TurnRecord:
    """Return a turn with an unusual reply."""
    match kind:
        case "silence":
            return spoken_turn(a_case(0), reply=Audio(np.zeros(24_000, np.float32), 24_000))
        case "ten minutes":
            reply = tone(600_000, rate_hz=8_000)
            return spoken_turn(a_case(0), TurnPlan(chunk_ms=1_000), reply=reply, rate_hz=8_000)
        case "full duplex":
            turn = spoken_turn(a_case(0))
            trace = replace(turn.trace, continuous=True)
            return replace(turn, trace=trace, timing=measure(trace, turn.audio))
        case "early":
            return spoken_turn(a_case(0), TurnPlan(first_byte_ms=-300, endpointing_ms=-400, text_ms=-350))
    return spoken_turn(a_case(0), TurnPlan(first_byte_ms=None))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["silence", "ten minutes", "full duplex", "early", "nothing"])
def test_unusual_replies_have_values_or_reasons(kind: str, tmp_path: Path) -> None:
    folder = write_campaign(tmp_path / "campaign", [(point("c1"), [odd_turn(kind)])])
    (figures,) = valid(campaign_summary(read_campaign(folder), definitions=False))["points"]
    for name, latency in figures["latencies"].items():
        assert (latency["n"] == 1) != bool(latency["missing"]), name
    assert figures["turns"]["early"] == (kind == "early")
    if kind == "early":
        assert sum(row["mean_ms"] for row in figures["waterfall"]) == pytest.approx(90 - 220, abs=1)
    if kind == "silence":
        assert figures["latencies"]["voice_to_voice"]["missing"] == {"no audible sample": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "is not a campaign: cannot read campaign.json: No such file"),
        ("{", "expected JSON"),
        ("[]", "expected a campaign with schema version 1, got 'list'"),
        ('{"schema": 2}', "expected a campaign with schema version 1, got 2"),
        ('{"schema": 1, "points": [{"run": "../elsewhere"}]}', "each with the folder name of its run"),
    ],
)
def test_a_folder_without_a_campaign_is_refused(tmp_path: Path, text: str | None, expected: str) -> None:
    if text is not None:
        (tmp_path / "campaign.json").write_text(text, "utf-8")
    with pytest.raises(StoreError, match=expected.replace("[", r"\[").replace(".", r"\.")):
        read_campaign(tmp_path)


def test_an_invalid_price_is_refused(tmp_path: Path) -> None:
    folder = write_campaign(tmp_path / "campaign", [(point("c1"), [])], price={"input": -1, "output": 2})
    with pytest.raises(UsageError, match="price"):
        campaign_summary(read_campaign(folder))


def test_drift_is_the_paired_difference_from_the_first_drift_check() -> None:
    start = turns_at(TIMES)
    end = turns_at(later(TIMES, 100))
    difference = drift_check("end", end, start).metrics["first_byte"].difference
    assert difference.value == pytest.approx(105.5)
    assert difference.interval is not None
    assert 100 <= difference.interval.low < 105.5 < difference.interval.high <= 111
    assert drift_check("start", start, start).metrics["first_byte"].difference.value is None
    silent = spoken_turn(a_case(0), TurnPlan(first_byte_ms=None))
    assert drift_check("end", [silent, *end[1:3]], start).answers[0] == CaseAnswers("case-000", 1, 0)


def test_the_endpointing_cost_is_paired_by_case_and_leaves_uncertain_turns_out() -> None:
    manual = turns_at(TIMES, endpointing_ms=20.0)
    detector = turns_at(later(TIMES, 480), endpointing_ms=500.0)
    uncertain = spoken_turn(a_case(3), TurnPlan(first_byte_ms=9_000, uncertain=True))
    cut_off = spoken_turn(a_case(4), TurnPlan(first_byte_ms=later(TIMES, 480)[4], cut_off=2))
    slow = TurnPlan(endpointing_ms=500.0, first_byte_ms=later(TIMES, 480)[5], frame_late_ns=30_000_000)
    late = spoken_turn(a_case(5), slow)
    detector[3:6] = [uncertain, cut_off, late]
    cost = endpointing_cost(detector, manual)
    pairs = [number for number in range(12) if number != 3]
    difference, clear = cost.headline.paired.difference, cost.headline.without_flagged.difference
    assert difference.n == 11
    assert difference.value == pytest.approx(480 + sum(pairs) / 11, abs=0.01)
    assert difference.value is not None
    assert difference.interval is not None
    assert 480 <= difference.interval.low < difference.value < difference.interval.high <= 491
    assert clear.n == 10
    assert clear.value == pytest.approx(480 + (sum(pairs) - 5) / 10, abs=0.01)
    endpointing = cost.metrics["endpointing"].paired.difference
    assert endpointing.value == pytest.approx(480 - 200 / 11, abs=0.01)
    assert (cost.premature, cost.unpaired) == (2, 1)
    assert endpointing_cost([], manual).headline.paired.difference.reason == "no values"


def test_silence_after_the_speech_is_not_part_of_the_endpointing_cost() -> None:
    def waits(turn: TurnRecord, tail_ms: int) -> TurnRecord:
        end_ns = turn.trace.voice_end_ns
        assert end_ns is not None
        due = end_ns + np.array([-15, 5, 5 + tail_ms, 5 + tail_ms + 20], np.int64) * 1_000_000
        return replace(turn, trace=replace(turn.trace, frame_deadline_ns=due, user_done_ns=int(due[2])))

    detector = turns_at(later(TIMES, 480))
    manual = [waits(turn, 330) for turn in turns_at([at + 330 for at in TIMES])]
    found, known = (endpointing_cost(detector, each).headline.paired for each in (manual, turns_at(TIMES)))
    assert found.difference.value == pytest.approx(known.difference.value, abs=0.01)
    assert found.manual == pytest.approx(known.manual, abs=0.01)


class CountingRecogniser:
    """A recogniser that counts its calls."""

    identity = "counting 1"
    calls = 0

    def transcribe(self, audio: object) -> Transcript:
        self.calls += 1
        return Transcript("hi", (Word("hi", 0, 200, 0.9),), "en")


def test_words_are_recognised_once_and_kept_with_the_campaign(tmp_path: Path) -> None:
    recogniser = CountingRecogniser()

    def words_of(audio_ms: float, path: Path = tmp_path) -> tuple[Word, ...]:
        words = ReplyWords(path, recogniser)  # type: ignore[arg-type]
        found = words.of(("c1", "case-1"), tone(audio_ms))
        words.keep()
        return found

    assert words_of(100) == words_of(100) == (Word("hi", 0, 200, 0.9),)
    assert recogniser.calls == 1
    words_of(200)  # played again
    assert recogniser.calls == 2
    (tmp_path / WORDS_FILE).write_text("{", "utf-8")  # damaged
    words_of(100)
    assert recogniser.calls == 3
    assert words_of(100, tmp_path / "missing") == (Word("hi", 0, 200, 0.9),)  # cannot be kept


@pytest.mark.slow
@pytest.mark.local
def test_the_definitions_table_recognises_words(tmp_path: Path) -> None:
    turns: list[TurnRecord] = [
        spoken_turn(replace(a_case(number), script_id="s"), TurnPlan(first_byte_ms=500, reply_ms=1_200))
        for number in range(2)
    ]
    folder = write_campaign(tmp_path / "campaign", [(point("c1"), turns)])
    summary = valid(campaign_summary(read_campaign(folder)))
    (row,) = (row for row in summary["definitions"] if row["name"] == "fdb_latency")
    assert row["n"] + sum(row["missing"].values()) == 2
    assert not any("recognis" in reason for reason in row["missing"])
    assert Recogniser().identity in (folder / WORDS_FILE).read_text("utf-8")
