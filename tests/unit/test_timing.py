from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from live_eval.timing import (
    Latency,
    ResponseRecord,
    ResponseStatus,
    TurnTrace,
    audible_end,
    audible_onset,
    headline_response,
    measure,
    play,
)
from live_eval.types import StampKind

MS = 1_000_000
RATE = 24_000


def tone(ms: int, level_dbfs: float = -20.0, rate_hz: int = RATE) -> NDArray[np.int16]:
    """Return a 400 Hz sine with an RMS of `level_dbfs`."""
    n = ms * rate_hz // 1000
    wave = np.sin(2 * np.pi * 400 * (np.arange(n) + 1) / rate_hz)
    return np.asarray(np.rint(wave * 32768 * np.sqrt(2) * 10 ** (level_dbfs / 20)), np.int16)


def silence(ms: int, rate_hz: int = RATE) -> NDArray[np.int16]:
    return np.zeros(ms * rate_hz // 1000, np.int16)


def response(*chunks: tuple[int, int], rate_hz: int = RATE, **marks: object) -> ResponseRecord:
    """Return a response with chunks given as (arrival in ms, length in ms)."""
    return ResponseRecord(
        response_id="r",
        status=ResponseStatus.COMPLETED,
        chunk_arrival_ns=np.array([at * MS for at, _ in chunks], np.int64),
        chunk_samples=np.array([length * rate_hz // 1000 for _, length in chunks], np.int64),
        rate_hz=rate_hz,
        **marks,  # type: ignore[arg-type]
    )


def test_a_burst_is_heard_at_the_pace_of_speech() -> None:
    playout = play(response((100, 40), (101, 40), (102, 40)))
    assert playout.start_ns.tolist() == [100 * MS, 140 * MS, 180 * MS]
    assert len(playout.stall_ns) == 0
    assert playout.heard_ns(0) == 100 * MS
    assert playout.heard_ns(RATE * 60 // 1000) == 160 * MS


def test_a_late_chunk_is_a_stall_and_shifts_what_follows() -> None:
    playout = play(response((100, 40), (170, 40), (171, 40)))
    assert playout.start_ns.tolist() == [100 * MS, 170 * MS, 210 * MS]
    assert playout.stall_ns.tolist() == [30 * MS]


def test_a_jitter_buffer_removes_the_stall() -> None:
    playout = play(response((100, 40), (170, 40)), jitter_buffer_ns=40 * MS)
    assert playout.start_ns.tolist() == [140 * MS, 180 * MS]
    assert len(playout.stall_ns) == 0


def test_an_interruption_drops_unplayed_audio() -> None:
    playout = play(response((100, 40), (101, 40), interrupted_ns=150 * MS))
    assert playout.samples.tolist() == [RATE * 40 // 1000, RATE * 10 // 1000]
    with pytest.raises(IndexError):
        playout.heard_ns(RATE * 50 // 1000)


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(1, 200)), min_size=1, max_size=20))
def test_playout_follows_its_definition(gaps: list[tuple[int, int]]) -> None:
    arrivals = np.cumsum([gap for gap, _ in gaps]).tolist()
    marks = response(*zip(arrivals, [length for _, length in gaps], strict=True))
    playout = play(marks)
    heard_before: float | None = None  # heard(n) = max(arrival(n), heard(n-1) + 1/rate), sample by sample
    sample = 0
    for arrival, count in zip(marks.chunk_arrival_ns.tolist(), marks.chunk_samples.tolist(), strict=True):
        first = float(arrival) if heard_before is None else max(arrival, heard_before + 1e9 / RATE)
        assert playout.heard_ns(sample) == pytest.approx(first, abs=1000)
        heard_before = first + (count - 1) * 1e9 / RATE
        sample += count


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 24_000, 44_100, 48_000])
@pytest.mark.parametrize("lead_ms", [0, 7, 20, 333])
def test_the_onset_of_a_tone_is_found_to_a_fraction_of_a_millisecond(rate_hz: int, lead_ms: int) -> None:
    pcm = np.concatenate((silence(lead_ms, rate_hz), tone(100, rate_hz=rate_hz)))
    onset = audible_onset(pcm, rate_hz)
    assert onset is not None
    assert onset / rate_hz * 1000 == pytest.approx(lead_ms, abs=0.3)


def test_a_click_is_not_audible_speech() -> None:
    click = np.concatenate((silence(50), tone(15), silence(100), tone(60)))
    onset = audible_onset(click, RATE)
    assert onset is not None
    assert onset / RATE * 1000 == pytest.approx(165, abs=0.5)


@pytest.mark.parametrize(("level", "heard"), [(-49.0, True), (-51.0, False)])
def test_the_threshold_is_minus_50_dbfs(level: float, heard: bool) -> None:
    assert (audible_onset(tone(200, level), RATE) is not None) is heard


@pytest.mark.parametrize("pcm", [silence(0), silence(5), silence(500), tone(10)])
def test_silence_has_no_onset(pcm: NDArray[np.int16]) -> None:
    assert audible_onset(pcm, RATE) is None


def test_the_end_mirrors_the_onset() -> None:
    pcm = np.concatenate((silence(20), tone(100), silence(40)))
    end = audible_end(pcm, RATE)
    assert end is not None
    assert end / RATE * 1000 == pytest.approx(120, abs=0.3)


def trace(**changes: object) -> TurnTrace:
    base = TurnTrace(
        dial_ns=0,
        ready_ns=50 * MS,
        t0_ns=100 * MS,
        onset_ns=200 * MS,
        voice_end_ns=1_000 * MS,
        speech_stopped_ns=(1_300 * MS,),
        responses=(response((1_500, 100), created_ns=1_310 * MS, first_text_ns=1_450 * MS),),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def test_the_latencies_of_an_ordinary_turn() -> None:
    pcm = np.concatenate((silence(40), tone(60)))
    timing = measure(trace(), [pcm])
    assert timing.connect.ns == 50 * MS
    assert timing.endpointing.ns == 300 * MS
    assert timing.first_byte.ns == 500 * MS
    assert timing.transcript.ns == 450 * MS
    assert timing.voice_to_voice.ns == pytest.approx(540 * MS, abs=0.3 * MS)
    assert timing.lead_silence.ns == pytest.approx(40 * MS, abs=0.3 * MS)
    assert timing.barge_in_stop.ns is None
    assert timing.barge_in_stop.reason == "the user did not speak over the reply"
    assert (timing.stalls, timing.premature, timing.headline) == (0, 0, 0)


def test_negative_latencies_are_kept() -> None:
    early = response((900, 100), created_ns=850 * MS)
    timing = measure(trace(responses=(early,), speech_stopped_ns=(840 * MS,)), [tone(100)])
    assert timing.first_byte.ns == -100 * MS
    assert timing.endpointing.ns == -160 * MS


def test_a_reply_on_a_track_begins_with_its_own_audio_not_the_preroll() -> None:
    reply = response((1_220, 100), (1_320, 100), created_ns=1_301 * MS, first_audio_ns=1_330 * MS)
    timing = measure(trace(responses=(reply,)), [np.concatenate((silence(100), tone(100)))])
    assert timing.endpointing.ns == 300 * MS
    assert timing.first_byte.ns == 330 * MS


def test_the_headline_is_the_first_response_that_was_not_cut_off() -> None:
    cut = replace(
        response((700, 50), created_ns=690 * MS), status=ResponseStatus.CANCELLED, interrupted_ns=720 * MS
    )
    answer = response((1_600, 100), created_ns=1_550 * MS)
    stops = (680 * MS, 1_400 * MS)
    timing = measure(trace(responses=(cut, answer), speech_stopped_ns=stops), [tone(50), tone(100)])
    assert timing.headline == 1
    assert timing.premature == 1
    assert timing.first_byte.ns == 600 * MS
    assert timing.endpointing.ns == 400 * MS


def test_a_single_cancelled_response_is_not_premature() -> None:
    cut = replace(response((1_500, 50)), status=ResponseStatus.CANCELLED)
    timing = measure(trace(responses=(cut,)), [tone(50)])
    assert (timing.headline, timing.premature) == (0, 0)


def test_a_missing_latency_has_a_reason() -> None:
    silent = measure(trace(), [silence(100)])
    assert silent.first_byte.ns == 500 * MS
    assert silent.voice_to_voice == type(silent.voice_to_voice)(None, "no audible sample")
    nothing = measure(trace(responses=(), speech_stopped_ns=()), [])
    assert nothing.first_byte.reason == "no response"
    assert nothing.endpointing.reason == "the endpoint did not report that speech stopped"
    continuous = measure(trace(continuous=True), [tone(100)])
    assert continuous.first_byte.reason == "continuous media has no first byte"
    assert continuous.lead_silence.ns is None
    assert continuous.voice_to_voice.ns is not None
    unknown = measure(TurnTrace(dial_ns=0), [])
    assert unknown.connect.reason == "no session"


def test_a_commit_ends_a_manual_turn() -> None:
    timing = measure(trace(committed_ns=1_020 * MS, speech_stopped_ns=()), [tone(100)])
    assert timing.endpointing.ns == 20 * MS


def test_barge_in_stop_is_the_last_sample_heard_or_censored() -> None:
    spoken_over = response((1_500, 1_000), interrupted_ns=1_900 * MS)
    timing = measure(trace(responses=(spoken_over,), barge_in_ns=1_700 * MS), [tone(1_000)])
    assert timing.barge_in_stop.ns == pytest.approx(200 * MS, abs=0.3 * MS)
    ended = measure(trace(barge_in_ns=1_700 * MS), [tone(100)])
    assert ended.barge_in_stop.reason == "censored: the reply had already ended"


def test_an_uninterrupted_reply_has_no_barge_in_stop() -> None:
    ends_by_itself = response((1_500, 500))
    timing = measure(trace(responses=(ends_by_itself,), barge_in_ns=1_700 * MS), [tone(500)])
    assert timing.barge_in_stop == Latency(None, "censored: nothing stopped the reply")


@pytest.mark.parametrize(("heard_ms", "stop_ms"), [(1_200, 1_000), (2_100, 1_900), (2_400, None)])
def test_on_continuous_media_a_reply_is_stopped_that_ends_within_two_seconds(
    heard_ms: int, stop_ms: int | None
) -> None:
    goes_on = response((1_500, heard_ms))
    spoken_over = trace(responses=(goes_on,), barge_in_ns=1_700 * MS, continuous=True)
    found = measure(spoken_over, [tone(heard_ms)]).barge_in_stop
    if stop_ms is None:
        assert found == Latency(None, "censored: nothing stopped the reply")
    else:
        assert found.ns == pytest.approx(stop_ms * MS, abs=0.3 * MS)


def test_a_reply_is_not_asked_to_stop_by_a_backchannel() -> None:
    spoken_over = response((1_500, 1_000), interrupted_ns=1_900 * MS)
    timing = measure(trace(responses=(spoken_over,), barge_in_ns=1_700 * MS, backchannel=True), [tone(1_000)])
    assert timing.barge_in_stop == Latency(None, "the user's words over the reply did not ask it to stop")


def test_the_reply_that_is_heard_longest_has_the_barge_in_stop() -> None:
    long = response((1_500, 1_000), interrupted_ns=2_100 * MS)
    short = response((1_600, 150))
    timing = measure(trace(responses=(long, short), barge_in_ns=1_700 * MS), [tone(1_000), tone(150)])
    assert timing.barge_in_stop.ns == pytest.approx(400 * MS, abs=0.3 * MS)


def test_lag_counts_the_end_of_speech_and_the_loop_until_the_reply_is_heard() -> None:
    due = np.array([500, 900, 1_000], np.int64) * MS
    sent = due + np.array([90, 3, 7], np.int64) * MS  # the first is long before the end of speech
    probes = np.array([1_100, 1_500, 1_700], np.int64) * MS
    lags = np.array([2, 25, 99], np.int64) * MS  # the last is after the reply is heard
    timing = measure(
        trace(frame_deadline_ns=due, frame_sent_ns=sent, probe_at_ns=probes, probe_lag_ns=lags), [tone(100)]
    )
    assert timing.lag_ns == 25 * MS
    assert timing.flagged
    calm = measure(trace(frame_deadline_ns=due, frame_sent_ns=sent), [tone(100)])
    assert calm.lag_ns == 7 * MS
    assert not calm.flagged


def test_lag_includes_the_error_of_kernel_stamps() -> None:
    due = np.array([1_000], np.int64) * MS
    for error_ns, lag_ns in ((0, 7 * MS), (9_000, 7 * MS), (8 * MS, 8 * MS)):
        stamped = trace(
            frame_deadline_ns=due,
            frame_sent_ns=due + 7 * MS,
            stamps=StampKind.KERNEL,
            stamp_error_ns=error_ns,
        )
        assert measure(stamped, [tone(100)]).lag_ns == lag_ns


def test_lag_counts_the_frame_with_the_end_of_speech_and_those_until_the_response() -> None:
    due = np.array([960, 1_040, 1_120, 1_520], np.int64) * MS  # 80 ms each; speech ends at 1000 ms
    for late, lag_ms in (([0, 30, 0, 0], 30), ([0, 0, 40, 0], 40), ([0, 0, 0, 99], 0)):
        sent = due + np.array(late, np.int64) * MS  # the last is due after the response began
        timing = measure(trace(frame_deadline_ns=due, frame_sent_ns=sent), [tone(100)])
        assert timing.lag_ns == lag_ms * MS
    early = response((930, 100), created_ns=920 * MS)  # before the frame that contains the end was due
    sent = due + np.array([0, 30, 99, 0], np.int64) * MS
    timing = measure(trace(frame_deadline_ns=due, frame_sent_ns=sent, responses=(early,)), [tone(100)])
    assert timing.lag_ns == 30 * MS


def test_a_greeting_is_not_the_answer() -> None:
    greeting = response((120, 60), created_ns=110 * MS, done_ns=190 * MS)  # the user speaks from 200 ms on
    answer = response((1_500, 100), created_ns=1_310 * MS, done_ns=1_600 * MS)
    timing = measure(trace(responses=(greeting, answer)), [tone(60), tone(100)])
    assert (timing.headline, timing.premature) == (1, 0)
    assert timing.first_byte.ns == 500 * MS
    cut = replace(greeting, status=ResponseStatus.CANCELLED)
    assert measure(trace(responses=(cut, answer)), [tone(60), tone(100)]).premature == 0
    alone = measure(trace(responses=(greeting,)), [tone(60)])
    assert alone.headline is None
    assert alone.first_byte.reason == "no response"


def test_a_greeting_that_the_user_spoke_over_yields_to_what_follows() -> None:
    greeting = response((120, 60), created_ns=110 * MS, done_ns=900 * MS)
    answer = response((1_500, 100), done_ns=1_600 * MS)
    assert headline_response([greeting, answer], 200 * MS) == 1
    assert headline_response([greeting], 200 * MS) == 0
    stopped = replace(greeting, status=ResponseStatus.CANCELLED)
    assert measure(trace(responses=(stopped, answer)), [tone(60), tone(100)]).premature == 0


def test_on_continuous_media_a_stop_is_reported_until_the_reply_is_audible() -> None:
    """The record of a reply begins 100 ms before its onset."""
    marks = response((1_250, 200), created_ns=1_250 * MS)
    heard = np.concatenate((silence(100), tone(100)))
    assert measure(trace(responses=(marks,), continuous=True), [heard]).endpointing.ns == 300 * MS
    assert measure(trace(responses=(marks,)), [heard]).endpointing.ns is None


def test_silence_that_arrives_late_does_not_shift_an_onset() -> None:
    """Chunks of 20 ms: 60 ms of silence, the second chunk 15 ms late, a tone, a stall, another tone."""
    arrivals = [1_500, 1_535, 1_540, 1_560, 1_580, 1_600, 1_620, 1_640, 1_660, 1_680, 1_699, 1_700, 1_720]
    sounding = {3, 4, 12}
    pcm = np.concatenate([tone(20) if at in sounding else silence(20) for at in range(len(arrivals))])
    marks = response(*((at, 20) for at in arrivals))
    late = measure(trace(responses=(marks,)), [pcm])
    assert late.voice_to_voice.ns is not None
    assert late.voice_to_voice.ns // MS == 575  # messages may arrive ahead of playout, so nothing is dropped
    for paced in (
        trace(responses=(marks,), continuous=True),
        trace(responses=(replace(marks, first_audio_ns=1_560 * MS),)),
    ):
        onset = measure(paced, [pcm]).voice_to_voice.ns
        assert onset is not None
        assert onset // MS == 560
    playout = play(marks, stretches=[(3 * 480, 5 * 480), (12 * 480, 13 * 480)])
    assert [at // MS for at in playout.start_ns.tolist()][2:6] == [1_555, 1_560, 1_580, 1_600]
    assert playout.samples.tolist()[:4] == [480, 480, 5 * 24, 480]
    assert playout.heard_ns(12 * 480) == 1_720 * MS
    assert playout.end_sample == 13 * 480
    with pytest.raises(IndexError):
        playout.heard_ns(3 * 480 - 1)  # silence that was dropped
    assert [run.start_ns // MS for run in playout.runs()] == [1_500, 1_535, 1_560, 1_720]


def test_audio_after_an_interruption_is_not_a_stall() -> None:
    chunks = ((100, 20), (300, 20), (500, 20))
    assert len(play(response(*chunks)).stall_ns) == 2
    assert len(play(response(*chunks, interrupted_ns=310 * MS)).stall_ns) == 1
    assert len(play(response(*chunks, interrupted_ns=110 * MS)).stall_ns) == 0
    stalls = play(response(*chunks, interrupted_ns=250 * MS)).stall_ns
    assert stalls.tolist() == [130 * MS]  # from the end of the first chunk to the interruption


def test_no_audible_sample_is_dropped_to_catch_up() -> None:
    marks = response((100, 20), (135, 20), (140, 20), (160, 20))
    playout = play(marks, stretches=[(0, 2 * 480), (3 * 480, 4 * 480)])
    assert [at // MS for at in playout.start_ns.tolist()] == [100, 135, 155, 160]
    assert playout.samples.tolist() == [480, 480, 5 * 24, 480]
    playout = play(marks, stretches=[(0, 4 * 480)])
    assert playout.samples.tolist() == [480] * 4


@pytest.mark.parametrize("status", [ResponseStatus.CANCELLED, ResponseStatus.COMPLETED])
def test_a_barge_in_does_not_make_a_premature_response_the_answer(status: ResponseStatus) -> None:
    cut = ResponseStatus.CANCELLED
    premature = replace(response((-1_000, 100), done_ns=-700 * MS), status=cut)  # speech ends at 1000 ms
    late_detector = replace(response((900, 100), done_ns=1_150 * MS), status=cut)
    answer = response((1_600, 400), done_ns=2_000 * MS, interrupted_ns=2_000 * MS)
    answer = replace(answer, status=status)
    audio = [tone(100), tone(100), tone(400)]
    spoken_over = trace(
        responses=(premature, late_detector, answer), onset_ns=-2_000 * MS, barge_in_ns=1_900 * MS
    )
    timing = measure(spoken_over, audio)
    assert (timing.headline, timing.premature, timing.first_byte.ns) == (2, 2, 600 * MS)
    # It was not interrupted, and nothing followed: the answer is the one cut off after the end of speech.
    timing = measure(replace(spoken_over, responses=(premature, answer), barge_in_ns=None), audio[::2])
    assert (timing.headline, timing.first_byte.ns) == (1, 600 * MS)


EMPTY = ResponseRecord(response_id="e", status=ResponseStatus.COMPLETED)
FULL = response((1_500, 100))
TEXT = replace(EMPTY, first_text_ns=1)
FAILED = replace(EMPTY, status=ResponseStatus.FAILED)
CANCELLED = replace(FULL, status=ResponseStatus.CANCELLED)
INTERRUPTED = replace(FULL, interrupted_ns=1_550 * MS)
INCOMPLETE = replace(FULL, status=ResponseStatus.INCOMPLETE)


@pytest.mark.parametrize(
    ("responses", "headline"),
    [
        ([], None),
        ([FULL], 0),
        ([FAILED, FULL], 1),
        ([EMPTY, FULL], 1),
        ([FULL, EMPTY], 0),
        ([TEXT, FULL], 1),
        ([EMPTY, TEXT], 1),
        ([CANCELLED, FULL], 1),
        ([INTERRUPTED, FULL], 1),
        ([INTERRUPTED, CANCELLED], 0),
        ([CANCELLED, FAILED], 1),
        ([CANCELLED], 0),
        ([INCOMPLETE, FULL], 0),
        ([FAILED], 0),
    ],
)
def test_which_response_answers_a_turn(responses: list[ResponseRecord], headline: int | None) -> None:
    assert headline_response(responses) == headline


def test_only_responses_that_were_cut_off_count_as_premature() -> None:
    turn = trace(responses=(FAILED, INTERRUPTED, FULL), voice_end_ns=1_500 * MS)
    timing = measure(turn, [silence(0), tone(100), tone(100)])
    assert (timing.headline, timing.premature) == (2, 1)


@pytest.mark.parametrize(("began_ms", "headline", "premature"), [(1_001, 0, 0), (1_000, 1, 1)])
def test_a_response_that_begins_after_the_speech_answers_although_cancelled(
    began_ms: int, headline: int, premature: int
) -> None:
    cancelled = replace(
        response((began_ms, 100), done_ns=began_ms * MS + 50 * MS), status=ResponseStatus.CANCELLED
    )
    timing = measure(
        trace(responses=(cancelled, response((5_000, 100)))), [tone(100), tone(100)]
    )  # speech ends at 1,000 ms
    assert (timing.headline, timing.premature) == (headline, premature)
