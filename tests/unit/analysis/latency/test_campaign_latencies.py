"""The latencies of a condition: percentiles, tails, waterfalls, delivery and cost."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_eval.analysis.latency.campaign_latencies import (
    METRICS,
    campaign_latency,
    latency_of,
    latency_values,
    tail,
)
from live_eval.analysis.latency.cost import cost_per_minute
from live_eval.analysis.latency.delivery import (
    DeliveryRate,
    StallRate,
    delivery_rate,
    delivery_rate_of,
    stalls,
)
from live_eval.analysis.latency.waterfall import (
    WaterfallStep,
    WaterfallTotal,
    waterfall,
    waterfall_of,
    waterfall_total,
)
from live_eval.errors import FailureKind
from live_eval.recording import TurnRecord
from live_eval.scoring.llm.budget import Price
from live_eval.timing import ResponseRecord, measure
from live_eval.types import Failure, Usage
from tests.support.campaigns import a_case, turns_at
from tests.support.records import TurnPlan, spoken_turn

MS = 1_000_000


def with_trace(turn: TurnRecord, **marks: object) -> TurnRecord:
    """Return the turn with other timestamps and recomputed latencies."""
    trace = replace(turn.trace, **marks)  # type: ignore[arg-type]
    return replace(turn, trace=trace, timing=measure(trace, turn.audio))


def with_headline(turn: TurnRecord, **marks: object) -> TurnRecord:
    assert turn.headline is not None
    return with_trace(turn, responses=(replace(turn.headline, **marks),))  # type: ignore[arg-type]


def test_percentiles_have_intervals_and_p95_is_withheld_below_30_turns() -> None:
    few = campaign_latency("first_byte", turns_at([500.0 + number for number in range(29)]))
    assert few.measured.n == 29
    assert few.measured["p50"].value == pytest.approx(514)
    assert few.measured["p50"].interval is not None
    low, high = few.measured["p50"].interval
    assert low < 514 < high
    assert few.measured["p95"].value is None
    assert few.measured["p95"].reason == "fewer than 30 values"
    enough = campaign_latency("first_byte", turns_at([500.0 + number for number in range(30)]))
    assert enough.measured["p95"].value == pytest.approx(np.quantile(np.arange(500, 530), 0.95))
    assert enough.measured["max"].value == pytest.approx(529)


def test_intervals_resample_turns_if_there_are_too_few_scripts() -> None:
    values = [500.0 + number for number in range(24)]
    of_few = campaign_latency("first_byte", turns_at(values, scripts=3))
    of_many = campaign_latency("first_byte", turns_at(values, scripts=12))
    assert (of_few.measured.drawn_as, of_many.measured.drawn_as) == ("turns", "scripts")
    assert of_few.measured["p50"].interval is not None
    too_few = campaign_latency("first_byte", turns_at(values[:7]))
    assert (too_few.measured.drawn_as, too_few.measured["p50"].reason) == ("turns", "fewer than 8 turns")


def test_turns_without_a_latency_are_counted_by_reason() -> None:
    turns = turns_at([400.0, 600.0])
    lost = TurnPlan(first_byte_ms=None, failure=Failure(FailureKind.NO_RESPONSE, "nothing"))
    turns += [
        spoken_turn(a_case(7), lost),
        spoken_turn(a_case(8), TurnPlan(uncertain=True, first_byte_ms=9_000)),
        spoken_turn(a_case(9), TurnPlan(first_byte_ms=-150.0)),  # negative latencies stay
    ]
    metrics = campaign_latency("first_byte", turns)
    assert sorted(latency_values("first_byte", turns).values()) == pytest.approx([-150, 400, 600])
    assert metrics.uncertain == 1
    assert metrics.measured.missing == {"the turn failed": 1}
    assert campaign_latency("start_delay", turns).measured.missing["no intended start"] == 4


def test_a_turn_that_failed_after_connecting_counts_only_in_connect() -> None:
    def failed(number: int, kind: FailureKind, **marks: object) -> TurnRecord:
        plan = TurnPlan(first_byte_ms=None, failure=Failure(kind, "no"))
        return with_trace(spoken_turn(a_case(number), plan), **marks)

    turns = [
        *turns_at([500.0]),
        failed(1, FailureKind.NO_RESPONSE),
        failed(2, FailureKind.NO_RESPONSE, ready_ns=None),  # a later turn of a session
        failed(3, FailureKind.DIALOGUE_ENDED, ready_ns=None, t0_ns=None),
        failed(4, FailureKind.PROCESS_DIED),
    ]
    connect = campaign_latency("connect", turns)
    assert sorted(latency_values("connect", turns).values()) == pytest.approx([90, 90])
    assert connect.unanswered == 0
    assert campaign_latency("first_byte", turns).unanswered == 3
    refused = failed(5, FailureKind.CONNECTION_REFUSED, ready_ns=None, t0_ns=None)
    assert campaign_latency("connect", [*turns, refused]).unanswered == 1


def test_every_metric_has_a_value_or_a_reason() -> None:
    turn = spoken_turn(a_case(0))
    for name in METRICS:
        found = latency_of(turn, name)
        assert (found.ns is None) == bool(found.reason), name
    assert latency_of(turn, "complete").ns == pytest.approx(513 * MS, abs=5 * MS)


@given(st.lists(st.floats(-1e4, 1e5), min_size=1, max_size=300))
def test_the_tail_has_measured_values_at_increasing_percentiles(values: list[float]) -> None:
    pairs = tail(values)
    percentiles, at = zip(*pairs, strict=True)
    assert list(percentiles) == sorted(set(percentiles))
    assert (percentiles[-1], at[-1]) == (100, round(max(values), 3))
    expected = np.quantile(values, np.asarray(percentiles) / 100, method="inverted_cdf")
    assert at == pytest.approx(expected, abs=0.0005)
    assert all((100 - percentile) * len(values) >= 100 - 1e-6 for percentile in percentiles[:-1])


def test_the_contributions_of_a_turn_add_up_to_its_total_exactly() -> None:
    turn = spoken_turn(a_case(0), TurnPlan(endpointing_ms=310, first_byte_ms=500, text_ms=450))
    turn = with_trace(turn, setup_ns={"dns": 3 * MS, "tcp": 11 * MS, "tls": 20 * MS, "first_rtp": 400 * MS})
    parts = waterfall_of(turn)
    assert parts is not None
    assert list(parts) == [
        "dns",
        "tcp",
        "tls",
        "session",
        "endpointing",
        "first_byte",
        "first_audible",
        "transcript",
        "complete",
    ]
    assert parts["session"] == 56 * MS  # the remainder of 90 ms
    assert parts["transcript"] == 0  # it came before the first audio
    complete_ns = latency_of(turn, "complete").ns
    audible_ns = turn.timing.voice_to_voice.ns
    assert turn.timing.connect.ns is not None
    assert complete_ns is not None
    assert audible_ns is not None
    assert sum(parts.values()) == turn.timing.connect.ns + max(complete_ns, audible_ns)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.floats(-400, 900), st.floats(-400, 3000), st.floats(0, 900), st.floats(-400, 4000)),
        min_size=1,
        max_size=6,
    )
)
def test_mean_contributions_add_up_to_the_mean_total(times: list[tuple[float, float, float, float]]) -> None:
    turns = [
        spoken_turn(
            a_case(number),
            TurnPlan(endpointing_ms=stopped, first_byte_ms=first, lead_silence_ms=lead, text_ms=text),
        )
        for number, (stopped, first, lead, text) in enumerate(times)
    ]
    totals = [sum(parts.values()) / 1e6 for turn in turns if (parts := waterfall_of(turn)) is not None]
    rows = waterfall(turns)
    total = waterfall_total(turns)
    assert total.n == len(turns)
    assert total.mean_ms == pytest.approx(np.mean(totals), abs=0.001)
    assert sum(row.mean_ms for row in rows) == pytest.approx(total.mean_ms, abs=0.01)
    shares = [row.share for row in rows if row.share is not None]
    assert len(shares) < len(rows) or sum(shares) == pytest.approx(1, abs=1e-4)


def test_a_turn_in_an_open_session_has_no_setup_and_uncertain_turns_no_waterfall() -> None:
    later = with_trace(spoken_turn(a_case(0)), ready_ns=None)
    parts = waterfall_of(later)
    assert parts is not None
    assert next(iter(parts)) == "endpointing"
    rows = waterfall([later, spoken_turn(a_case(1))])
    assert rows[0] == WaterfallStep("session", 45.0, 45.0, rows[0].share)
    assert waterfall([spoken_turn(a_case(2), TurnPlan(uncertain=True))]) == []
    assert waterfall_total([]) == WaterfallTotal(0, None, None)


def reply(arrivals_ms: list[float], *, fresh: tuple[int, ...] = ()) -> ResponseRecord:
    """Return a turn with a reply in chunks of 20 ms."""
    return ResponseRecord(
        response_id="r",
        chunk_arrival_ns=np.asarray([at * MS for at in arrivals_ms], np.int64),
        chunk_samples=np.full(len(arrivals_ms), 480, np.int64),
        rate_hz=24_000,
        fresh_chunks=fresh,
    )


def test_the_rate_of_delivery_is_1_at_the_pace_of_speech() -> None:
    assert delivery_rate_of(reply([0, 20, 40, 60])) == pytest.approx(1)
    assert delivery_rate_of(reply([0, 10, 20, 30])) == pytest.approx(2)
    assert delivery_rate_of(reply([0, 20, 540, 560], fresh=(2,))) == pytest.approx(1)
    assert delivery_rate_of(reply([0, 0])) == float("inf")
    assert delivery_rate_of(reply([0])) is None
    burst = with_headline(spoken_turn(a_case(0)), chunk_arrival_ns=np.full(11, 5 * MS, np.int64))
    at_once = "at least half of the replies arrived in one burst"
    assert delivery_rate([burst]) == DeliveryRate(1, None, None, at_once)
    assert delivery_rate([]) == DeliveryRate(0, None, None, "no reply of at least two chunks")


def test_a_deeper_jitter_buffer_stalls_less() -> None:
    turn = spoken_turn(a_case(0), TurnPlan(reply_ms=1_000, lead_silence_ms=0, chunk_ms=100))
    assert turn.headline is not None
    late = turn.headline.chunk_arrival_ns[0] + np.arange(10) * 100 * MS
    late[5] += 50 * MS  # one chunk comes 50 ms late
    rows = stalls([with_headline(turn, chunk_arrival_ns=late)])
    assert [(row.buffer_ms, row.per_minute) for row in rows] == [
        (0, 60.0),
        (20, 60.0),
        (40, 60.0),
        (60, 0.0),
        (100, 0.0),
        (200, 0.0),
    ]
    assert rows[0].ms_per_minute == pytest.approx(3_000)  # 50 ms in a second of reply
    assert stalls([])[0] == StallRate(0, None, None)


def test_the_cost_of_a_minute_follows_from_usage_and_price() -> None:
    usage = Usage(input_tokens=1_000, output_tokens=500, input_audio_tokens=800, cached_tokens=0)
    turn = with_headline(spoken_turn(a_case(0), TurnPlan(first_byte_ms=500, reply_ms=2_000)), usage=usage)
    seconds = 0.8 + 0.5 + 0.08 + 2.0  # speech, wait, lead silence and audible reply
    metrics = cost_per_minute([turn], Price(input=4, output=64, audio_input=32))
    assert metrics.minutes == pytest.approx(seconds / 60, abs=0.001)
    assert metrics.tokens_per_minute == pytest.approx(1_500 * 60 / seconds, rel=0.001)
    assert metrics.usd == pytest.approx((200 * 4 + 800 * 32 + 500 * 64) / 1e6 * 60 / seconds, rel=0.001)
    spoken = with_headline(turn, usage=replace(usage, output_audio_tokens=400))
    unknown = cost_per_minute([spoken], Price(input=4, output=16, audio_input=32))
    assert unknown.usd is None
    assert unknown.reason == "the price of output audio is unknown (audio_output)"
    metrics = cost_per_minute([spoken], Price(input=4, output=16, audio_input=32, audio_output=64))
    dollars = (200 * 4 + 800 * 32 + 100 * 16 + 400 * 64) / 1e6
    assert metrics.usd == pytest.approx(dollars * 60 / seconds, rel=0.001)
    assert cost_per_minute([turn]).reason == "the price of the model is unknown"
    without = with_headline(turn, usage=None)
    assert cost_per_minute([without]).reason == "the endpoint reports no usage"


def test_latencies_from_the_intended_start_include_the_wait_for_a_session() -> None:
    on_time, late = (spoken_turn(a_case(number), TurnPlan(first_byte_ms=500)) for number in range(2))
    turns = [
        with_trace(turn, intended_ns=turn.trace.dial_ns - delay_ms * MS)
        for turn, delay_ms in ((on_time, 0), (late, 4_000))
    ]
    metrics = {name: campaign_latency(name, turns) for name in METRICS}
    assert metrics["start_delay"].measured["max"].value == 4_000
    assert metrics["first_byte"].measured["max"].value == 500
    assert metrics["first_byte_from_intended"].measured["max"].value == 4_500
    assert metrics["voice_to_voice_from_intended"].measured["max"].value == pytest.approx(4_580, abs=0.1)
