"""Replies on a track and in a stream."""

from pathlib import Path

import numpy as np
import pytest

from live_eval.audio import Codec, CodecName
from live_eval.audio.codecs import OPUS_RATE_HZ, OggOpusEncoder, OpusEncoder
from live_eval.audio.rtp import RtpPacket
from live_eval.dialect import (
    Interrupted,
    PlaybackStarted,
    PlaybackStopped,
    ReplyAudio,
    ResponseDone,
    ResponseStarted,
    SessionReady,
    StreamAudio,
    StreamInterrupted,
    StreamText,
)
from live_eval.errors import FailureKind
from live_eval.recording.record import TurnRecord, finish
from live_eval.session.limits import SessionLimits
from live_eval.session.preroll import Preroll
from live_eval.session.turn import Turn
from live_eval.session.verdict import is_over
from live_eval.timing import (
    ResponseRecord,
    ResponseStatus,
    TurnTrace,
    headline_response,
    measure,
    play,
)
from live_eval.types import Case, Modality, Variant

MS, S = 1_000_000, 1_000_000_000
LIMITS = SessionLimits(reply_s=5, stall_s=2, max_reply_s=60, linger_s=0.3, silence_s=1.0)
OPUS = Codec(CodecName.OPUS, OPUS_RATE_HZ)
PCM = Codec(CodecName.PCM16, 24_000)
WIDE = Codec(CodecName.PCM16, OPUS_RATE_HZ)
NARROW = Codec(CodecName.PCM16, 8_000)
LOUD = 3_000
FRAME = 960


def on_track(modality: Modality = Modality.AUDIO) -> Turn:
    turn = Turn(LIMITS, modality, track=True)
    turn.on_event(SessionReady("s"), 0)
    return turn


def packets(turn: Turn, from_ms: int, to_ms: int, *, first: int = 0, slot: int = 0, level: int = 0) -> None:
    """Return packets 20 ms apart; `first` is the first sequence number, `level` the sample value."""
    for number, at_ms in enumerate(range(from_ms, to_ms, 20)):
        timestamp = (slot + number) * FRAME
        payload = np.full(FRAME, level, "<i2").tobytes()
        turn.on_packet(RtpPacket(at_ms * MS, first + number, timestamp, payload, WIDE))


def kept(turn: Turn, onset_ns: int | None = None) -> ResponseRecord:
    """Return the timestamps of the first response, as stored."""
    return finished(turn, onset_ns).trace.responses[0]


def finished(turn: Turn, onset_ns: int | None = None) -> TurnRecord:
    """Return the record of the turn."""
    turn.user.onset_ns = onset_ns
    case = Case(case_id="c", script_id="c", variant=Variant.TARGET, audio_path=Path())
    return finish(turn.captured(), case, None, repeat=0, attempt=1)


def arrivals_ms(turn: Turn) -> list[int]:
    return [at_ns // MS for at_ns in kept(turn).chunk_arrival_ns.tolist()]


def done(name: str = "r1", status: ResponseStatus = ResponseStatus.COMPLETED) -> ResponseDone:
    return ResponseDone(name, status)


def test_packets_between_the_events_are_the_reply_and_the_turn_ends_with_its_sound() -> None:
    turn = on_track()
    turn.user_done(0)
    turn.on_event(ResponseStarted("r1"), 900 * MS)
    turn.on_event(PlaybackStarted("r1"), 1_000 * MS)
    packets(turn, 1_000, 1_500)
    turn.on_event(done(), 1_100 * MS)
    assert not is_over(turn, 1_900 * MS)  # ended by an event, still playing
    turn.on_event(PlaybackStopped("r1"), 1_500 * MS)
    packets(turn, 1_500, 1_600, first=25, slot=25)
    assert is_over(turn, 1_900 * MS)
    assert turn.failure is None
    assert arrivals_ms(turn) == list(range(1_000, 1_600, 20))
    assert turn.responses[0].record.first_audio_ns == 1_000 * MS


def test_packets_that_overtake_the_event_belong_to_the_reply() -> None:
    turn = on_track()
    packets(turn, 1_000, 1_060, level=LOUD)
    turn.on_event(PlaybackStarted("r1"), 1_050 * MS)
    packets(turn, 1_060, 1_100, first=3, slot=3, level=LOUD)
    assert arrivals_ms(turn) == list(range(1_000, 1_100, 20))
    assert kept(turn).first_audio_ns == 1_000 * MS  # the sender was silent before: the reply began with it


def test_in_unbroken_silence_the_reply_begins_with_the_event() -> None:
    turn = on_track()
    packets(turn, 0, 2_000)
    turn.on_event(PlaybackStarted("r1"), 1_990 * MS)
    packets(turn, 2_000, 2_100, first=100, slot=100, level=LOUD)
    assert arrivals_ms(turn) == list(range(1_900, 2_100, 20))
    assert kept(turn).first_audio_ns == 2_000 * MS


@pytest.mark.parametrize("late_ms", [1_000, 3_000, 8_000])
def test_a_retransmitted_event_does_not_cut_the_onset(late_ms: int) -> None:
    turn = on_track()
    packets(turn, 0, 60)  # before the idle gap
    packets(turn, 2_000, 2_200, first=3, slot=100)  # the reply's lead silence
    packets(turn, 2_200, 2_000 + late_ms, first=13, slot=110, level=LOUD)
    turn.on_event(PlaybackStarted("r1"), (2_000 + late_ms) * MS)
    following = late_ms // 20
    packets(turn, 2_000 + late_ms, 2_060 + late_ms, first=3 + following, slot=100 + following, level=LOUD)
    assert arrivals_ms(turn) == list(range(2_000, 2_060 + late_ms, 20))
    assert kept(turn).first_audio_ns == 2_000 * MS


def test_in_unbroken_silence_a_late_event_finds_the_audible_onset() -> None:
    turn = on_track()
    packets(turn, 0, 300, level=LOUD)  # an unannounced greeting
    packets(turn, 300, 2_000, first=15, slot=15)
    packets(turn, 2_000, 3_000, first=100, slot=100, level=LOUD)
    turn.on_event(PlaybackStarted("r1"), 3_000 * MS)
    packets(turn, 3_000, 3_100, first=150, slot=150, level=LOUD)
    assert arrivals_ms(turn) == list(range(1_900, 3_100, 20))
    assert kept(turn).first_audio_ns == 2_000 * MS


def test_silence_from_before_the_users_speech_is_not_the_beginning_of_a_reply() -> None:
    turn = on_track()
    packets(turn, 0, 600)
    turn.on_event(PlaybackStarted("r1"), 600 * MS)
    packets(turn, 600, 700, first=30, slot=30, level=LOUD)
    assert kept(turn, onset_ns=50 * MS).first_audio_ns == 600 * MS


def test_a_reply_that_ended_before_its_event_is_complete() -> None:
    turn = on_track()
    turn.user_done(0)
    turn.on_event(ResponseStarted("r1"), 900 * MS)
    packets(turn, 1_000, 1_400, level=LOUD)
    for event in (PlaybackStarted("r1"), PlaybackStopped("r1"), done()):
        turn.on_event(event, 2_000 * MS)
    assert is_over(turn, 2_400 * MS)
    assert turn.failure is None
    assert arrivals_ms(turn) == list(range(1_000, 1_400, 20))
    assert kept(turn).first_audio_ns == 1_000 * MS


def test_in_continuous_sound_only_the_event_marks_the_beginning_of_the_reply() -> None:
    turn = on_track()
    packets(turn, 0, 12_000, level=LOUD)
    turn.on_event(PlaybackStarted("r1"), 12_000 * MS)
    packets(turn, 12_000, 12_100, first=600, slot=600, level=LOUD)
    assert turn.responses[0].preroll == Preroll(501, 12_000 * MS, after_idle=False)  # 10 s are kept
    assert arrivals_ms(turn) == list(range(11_900, 12_100, 20))
    assert kept(turn).first_audio_ns == 12_000 * MS


def test_what_follows_an_idle_gap_is_not_the_end_of_the_reply_before() -> None:
    turn = on_track()
    turn.on_event(PlaybackStarted("r1"), 1_000 * MS)
    packets(turn, 1_000, 1_100, level=LOUD)
    turn.on_event(PlaybackStopped("r1"), 1_100 * MS)
    packets(turn, 1_240, 1_300, first=5, slot=12, level=LOUD)
    turn.on_event(PlaybackStarted("r2"), 1_300 * MS)
    assert [len(response.chunks) for response in turn.responses] == [5, 3]


@pytest.mark.parametrize(
    ("until_ms", "carried"), [(1_400, [1_420, 1_480]), (1_440, [1_450, 1_520]), (1_560, [1_570, 1_600])]
)
def test_the_last_packets_of_a_reply_may_come_after_its_end(until_ms: int, carried: list[int]) -> None:
    """Audio continues for 200 ms, until the track is idle for 100 ms."""
    turn = on_track()
    turn.on_event(PlaybackStarted("r1"), 1_000 * MS)
    assert turn.source.carries(9_000 * MS)
    packets(turn, 1_000, until_ms)
    turn.on_event(PlaybackStopped("r1"), 1_400 * MS)
    assert [turn.source.carries(at_ms * MS) for at_ms in carried] == [True, True]
    late_ms = min(1_601, until_ms - 20 + 101)
    assert not turn.source.carries(late_ms * MS)


def test_an_announced_reply_without_packets_fails_as_no_rtp() -> None:
    turn = on_track()
    turn.user_done(0)
    turn.on_event(ResponseStarted("r1"), 900 * MS)
    turn.on_event(PlaybackStarted("r1"), 1_000 * MS)
    turn.on_event(done(), 1_100 * MS)
    assert not is_over(turn, 3_000 * MS)
    assert is_over(turn, 3_200 * MS)
    assert turn.failure is not None
    assert turn.failure.kind is FailureKind.NO_RTP


def test_a_reply_that_stalls_is_not_kept_alive_by_the_silence_of_its_track() -> None:
    turn = on_track()
    turn.user_done(0)
    turn.on_event(ResponseStarted("r1"), 900 * MS)
    turn.on_event(PlaybackStarted("r1"), 1_000 * MS)
    for number in range(25):
        packets(turn, 1_000 + 20 * number, 1_020 + 20 * number, first=number, slot=number, level=number + 1)
    packets(turn, 1_500, 3_600, first=25, slot=25)
    assert not is_over(turn, 3_500 * MS)
    assert is_over(turn, 3_600 * MS)
    assert turn.failure is not None
    assert turn.failure.kind is FailureKind.STALLED


def test_playback_without_a_packet_fails_as_no_rtp() -> None:
    turn = on_track()
    turn.user_done(0)
    turn.on_event(ResponseStarted("r1"), 900 * MS)
    turn.on_event(PlaybackStarted("r1"), 1_000 * MS)
    turn.on_event(done(), 1_100 * MS)
    turn.on_event(PlaybackStopped("r1"), 1_200 * MS)
    assert is_over(turn, 1_600 * MS)
    assert turn.failure is not None
    assert turn.failure.kind is FailureKind.NO_RTP


def test_an_event_long_after_the_last_packet_announces_a_reply_without_audio() -> None:
    turn = on_track()
    turn.user_done(0)
    packets(turn, 0, 2_000)
    turn.on_event(PlaybackStarted("r1"), 2_300 * MS)
    for event in (PlaybackStopped("r1"), done()):
        turn.on_event(event, 2_400 * MS)
    assert is_over(turn, 3_000 * MS)
    record = finished(turn)
    assert record.trace.responses[0].chunk_samples.tolist() == []
    assert record.failure is not None
    assert record.failure.kind is FailureKind.NO_RTP
    assert "r1" in record.failure.message


def test_a_response_that_is_never_audible_is_an_empty_reply() -> None:
    turn = on_track()
    turn.user_done(0)
    turn.on_event(ResponseStarted("r1"), 900 * MS)
    turn.on_event(done(), 1_000 * MS)
    assert not is_over(turn, 2_900 * MS)
    assert is_over(turn, 3_100 * MS)
    assert turn.failure is not None
    assert turn.failure.kind is FailureKind.EMPTY_REPLY


def test_a_small_gap_is_not_the_beginning_of_a_reply() -> None:
    turn = on_track()
    packets(turn, 0, 1_960)
    packets(turn, 1_980, 2_000, first=98, slot=100)  # two packets of silence were dropped
    turn.on_event(PlaybackStarted("r1"), 1_990 * MS)
    packets(turn, 2_000, 2_100, first=99, slot=101, level=LOUD)
    assert kept(turn).first_audio_ns == 2_000 * MS


def test_a_text_reply_needs_no_track() -> None:
    turn = on_track(Modality.TEXT)
    turn.user_done(0)
    turn.on_event(ResponseStarted("r1"), 900 * MS)
    turn.on_event(done(), 1_000 * MS)
    assert is_over(turn, 1_400 * MS)


def test_an_interruption_truncates_the_heard_audio() -> None:
    turn = on_track()
    turn.on_event(PlaybackStarted("r1"), 1_000 * MS)
    packets(turn, 1_000, 2_000)
    turn.on_event(PlaybackStopped("r1"), 1_500 * MS)
    turn.on_event(Interrupted("r1"), 1_500 * MS)
    assert turn.heard_ms("r1", 1_500 * MS) == 500


def test_packets_after_an_interruption_are_heard() -> None:
    turn = on_track()
    turn.on_event(PlaybackStarted("r1"), 1_000 * MS)
    packets(turn, 1_000, 1_500, level=LOUD)
    turn.on_event(PlaybackStopped("r1"), 1_500 * MS)
    turn.on_event(Interrupted("r1"), 1_500 * MS)
    packets(turn, 1_500, 1_560, first=25, slot=25, level=LOUD)
    assert play(kept(turn)).heard_samples == 28 * FRAME


def test_a_response_that_changes_its_rate_is_kept_completely() -> None:
    turn = Turn(LIMITS, Modality.AUDIO)
    turn.on_event(SessionReady("s"), 0)
    for number, codec in enumerate((PCM, PCM, WIDE, NARROW, PCM)):
        sound = np.full(codec.rate_hz // 10, LOUD, "<i2").tobytes()
        turn.on_event(ReplyAudio("r1", sound, codec), (1_000 + 100 * number) * MS)
    turn.on_event(done(), 2_000 * MS)
    record = finished(turn)
    [response] = record.trace.responses
    assert (response.rate_hz, response.chunk_samples.tolist()) == (24_000, [2_400] * 5)
    assert record.failure is None


def test_losses_are_concealed_in_the_next_chunk_and_idle_gaps_are_not_stalls() -> None:
    turn = on_track()
    turn.on_event(PlaybackStarted("r1"), 1_000 * MS)
    packets(turn, 1_000, 1_040)
    packets(turn, 1_080, 1_120, first=4, slot=4)
    packets(turn, 2_120, 2_160, first=6, slot=56)
    turn.on_event(done(), 2_200 * MS)
    (response,) = turn.responses
    assert response.concealed == (0, 0, 2 * FRAME, 0, 0, 0)
    assert response.record.chunk_samples.tolist() == [FRAME, FRAME, 3 * FRAME, FRAME, FRAME, FRAME]
    assert response.record.fresh_chunks == (0, 4)
    timing = measure(TurnTrace(dial_ns=0, responses=(response.record,)), [np.zeros(8 * FRAME, np.int16)])
    assert (timing.stalls, timing.stalled_ns) == (0, 0)
    assert play(response.record).stall_ns.tolist() == [40 * MS]  # the loss, not the gap
    assert turn.media is not None
    assert (turn.media.packets, turn.media.lost, turn.media.concealed_ns) == (6, 2, 40 * MS)


# -- A stream ------------------------------------------------------------------------------------------


def in_stream(*, track: bool = False) -> Turn:
    turn = Turn(LIMITS, Modality.AUDIO, track=track, continuous=True, transcribes=True)
    turn.on_event(SessionReady("s"), 0)
    turn.user_speaks(1_000 * MS, 2_000 * MS)
    turn.user_done(2_000 * MS)
    return turn


def stream(turn: Turn, from_ms: int, to_ms: int, *, loud: bool) -> None:
    for at_ms in range(from_ms, to_ms, 20):
        level = 3_000 if loud else 0
        turn.on_event(StreamAudio(np.full(480, level, "<i2").tobytes(), PCM), at_ms * MS)
        if at_ms >= 2_000 and is_over(turn, at_ms * MS):
            return


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("", "sent no audio, and no text"),
        ("Hm.", "sent 2.4 s of audio without an audible reply, and some text"),
    ],
)
def test_the_failure_of_a_stream_without_a_reply_describes_its_audio(said: str, words: str) -> None:
    turn = in_stream()
    if said:
        stream(turn, 0, 2_400, loud=False)
        turn.on_event(StreamText(said), 2_400 * MS)
    assert is_over(turn, 7_000 * MS)
    assert turn.failure is not None
    assert turn.failure.kind is FailureKind.NO_RESPONSE
    assert turn.failure.message.endswith(words)


def test_a_stream_that_reports_an_interruption_is_heard_until_its_last_sound() -> None:
    turn = in_stream()
    turn.on_event(StreamInterrupted(), 2_010 * MS)  # there is no reply yet
    stream(turn, 2_000, 2_400, loud=True)
    turn.on_event(StreamInterrupted(), 2_400 * MS)
    stream(turn, 2_400, 2_500, loud=True)
    stream(turn, 2_500, 5_000, loud=False)
    (response,) = turn.responses
    record = response.record
    assert (record.interrupted_ns, record.audio_began_ns) == (2_400 * MS, int(record.chunk_arrival_ns[0]))
    assert play(record).heard_samples == record.chunk_samples.sum()
    assert record.reason == "the endpoint stopped it"


def test_a_reply_that_continues_after_a_stop_is_the_answer() -> None:
    turn = in_stream()
    stream(turn, 2_000, 3_100, loud=True)
    turn.on_event(StreamInterrupted(), 3_100 * MS)
    stream(turn, 3_160, 4_000, loud=True)
    stream(turn, 4_000, 6_000, loud=False)
    (response,) = turn.responses
    assert (response.record.interrupted_ns, response.record.reason) == (None, "")
    assert is_over(turn, 6_500 * MS)
    assert turn.failure is None


def test_another_reply_is_awaited_after_a_stop() -> None:
    turn = in_stream()
    stream(turn, 2_000, 3_000, loud=True)
    turn.on_event(StreamInterrupted(), 3_000 * MS)
    stream(turn, 3_000, 6_000, loud=False)
    assert not is_over(turn, 6_000 * MS)
    stream(turn, 6_000, 7_000, loud=True)
    stream(turn, 7_000, 9_000, loud=False)
    assert is_over(turn, 9_500 * MS)
    assert turn.failure is None
    assert [each.record.interrupted_ns for each in turn.responses] == [3_000 * MS, None]


def test_a_greeting_before_an_unanswered_turn_is_named() -> None:
    turn = Turn(LIMITS, Modality.AUDIO, continuous=True)
    turn.on_event(SessionReady("s"), 0)
    stream(turn, 0, 2_000, loud=True)
    turn.user_speaks(3_000 * MS, 4_000 * MS)
    turn.user_done(4_000 * MS)
    stream(turn, 2_000, 9_000, loud=False)
    assert is_over(turn, 9_100 * MS)
    assert turn.failure is not None
    assert turn.failure.message.endswith(
        "sent 9.0 s of audio, with a greeting of 2.0 s and no reply, and no text"
    )


def test_energy_finds_the_reply_and_the_turn_ends_after_its_silence() -> None:
    turn = in_stream()
    stream(turn, 0, 2_400, loud=False)
    stream(turn, 2_400, 3_000, loud=True)
    stream(turn, 3_000, 6_000, loud=False)
    assert turn.failure is None
    (response,) = turn.responses
    assert response.record.status is ResponseStatus.COMPLETED
    assert response.record.created_ns == 2_420 * MS  # the second chunk makes it 30 ms
    assert response.record.done_ns == 3_980 * MS
    trace = TurnTrace(dial_ns=0, voice_end_ns=2_000 * MS, responses=(response.record,), continuous=True)
    pcm = np.concatenate([np.frombuffer(chunk, "<i2") for chunk in response.chunks])
    timing = measure(trace, [pcm])
    assert timing.voice_to_voice.ns == 400 * MS
    assert timing.first_byte.ns is None
    assert timing.first_byte.reason == "continuous media has no first byte"


def test_a_greeting_is_not_a_reply() -> None:
    turn = in_stream()
    stream(turn, 0, 600, loud=True)
    stream(turn, 600, 2_400, loud=False)
    stream(turn, 2_400, 3_000, loud=True)
    stream(turn, 3_000, 6_000, loud=False)
    greeting, reply = (response.record for response in turn.responses)
    assert (greeting.response_id, greeting.status) == ("reply_1", ResponseStatus.COMPLETED)
    assert greeting.done_ns is not None
    assert greeting.done_ns <= 1_000 * MS
    assert headline_response([greeting, reply], 1_000 * MS) == 1


@pytest.mark.parametrize(
    ("from_ms", "to_ms", "why"), [(500, 1_200, "before the user spoke"), (1_200, 1_500, "before the user's")]
)
def test_a_reply_that_the_user_spoke_over_is_cut_off(from_ms: int, to_ms: int, why: str) -> None:
    turn = in_stream()
    stream(turn, 0, from_ms, loud=False)
    stream(turn, from_ms, to_ms, loud=True)
    stream(turn, to_ms, 3_000, loud=False)
    stream(turn, 3_000, 3_600, loud=True)
    stream(turn, 3_600, 6_000, loud=False)
    first, second = turn.responses
    assert first.record.status is ResponseStatus.CANCELLED
    assert why.split(" the user")[0] in first.record.reason
    assert second.record.status is ResponseStatus.COMPLETED
    assert turn.failure is None


def test_an_answer_soon_after_a_murmur_is_a_separate_reply() -> None:
    turn = in_stream()
    stream(turn, 0, 1_400, loud=False)
    stream(turn, 1_400, 1_700, loud=True)
    stream(turn, 1_700, 2_300, loud=False)
    stream(turn, 2_300, 3_000, loud=True)
    stream(turn, 3_000, 6_000, loud=False)
    murmur, answer = turn.responses
    assert murmur.record.status is ResponseStatus.CANCELLED
    assert answer.record.status is ResponseStatus.COMPLETED
    assert answer.record.created_ns == 2_320 * MS
    assert turn.failure is None


def test_text_belongs_to_the_reply_in_progress_or_to_the_next() -> None:
    turn = in_stream()
    turn.on_event(StreamText("Well, "), 2_300 * MS)
    stream(turn, 2_400, 2_600, loud=True)
    turn.on_event(StreamText("hello."), 2_600 * MS)
    stream(turn, 2_600, 6_000, loud=False)
    (response,) = turn.responses
    assert response.record.text == "Well, hello."
    assert response.record.first_text_ns == 2_300 * MS


def test_final_text_replaces_the_fragments_of_its_reply_even_after_it() -> None:
    turn = in_stream()
    stream(turn, 2_400, 2_600, loud=True)
    turn.on_event(StreamText("It is ten."), 2_600 * MS)
    stream(turn, 2_600, 4_600, loud=False)
    turn.on_event(StreamText("It is", final=True), 4_600 * MS)
    turn.on_event(StreamText("Ten.", final=True), 4_610 * MS)  # another reply's text
    (response,) = turn.responses
    assert response.record.text == "It is"


def test_a_stream_that_changes_its_rate_is_heard_at_its_pace() -> None:
    turns = []
    for codec in (PCM, NARROW):
        turn = in_stream()
        stream(turn, 0, 2_400, loud=False)
        stream(turn, 2_400, 3_000, loud=True)
        for at_ms in range(3_000, 3_400, 20):
            sound = np.full(codec.rate_hz // 50, LOUD, "<i2").tobytes()
            turn.on_event(StreamAudio(sound, codec), at_ms * MS)
        stream(turn, 3_400, 5_000, loud=False)
        turns.append([(each.record.rate_hz, each.record.chunk_samples.tolist()) for each in turn.responses])
    assert turns[0] == turns[1]


def test_opus_on_a_track_may_be_a_stream_too() -> None:
    turn, encoder = in_stream(track=True), OpusEncoder(OPUS_RATE_HZ)
    loud = (8_000 * np.sin(np.arange(FRAME) / 9)).astype("<i2").tobytes()
    for number in range(200):
        frame = loud if 50 <= number < 80 else bytes(2 * FRAME)
        for payload in encoder.encode(frame):
            at_ms = 1_500 + 20 * number
            turn.on_packet(RtpPacket(at_ms * MS, number, number * FRAME, payload, OPUS))
            if is_over(turn, at_ms * MS):
                break
    (response,) = turn.responses
    assert turn.failure is None
    created_ns = response.record.created_ns
    assert created_ns is not None
    assert 2_500 * MS <= created_ns <= 2_540 * MS
    assert response.codec == Codec(CodecName.PCM16, OPUS_RATE_HZ)


def test_an_endpoint_without_any_packet_fails_as_no_rtp() -> None:
    turn = in_stream(track=True)
    assert not is_over(turn, 6_900 * MS)
    assert is_over(turn, 7_100 * MS)
    assert turn.failure is not None
    assert turn.failure.kind is FailureKind.NO_RTP


def test_a_turn_over_an_earlier_reply_that_continues_is_unanswered() -> None:
    """All packets belong to the interrupted reply."""
    turn = in_stream(track=True)
    assert is_over(turn, 7_100 * MS, 7_100 * MS)
    assert turn.failure is not None
    assert turn.failure.kind is FailureKind.NO_RESPONSE
    assert "its earlier reply continued for" in turn.failure.message


def test_undecodable_audio_fails_the_turn_at_its_end_and_keeps_the_reply() -> None:
    turn = Turn(LIMITS, Modality.AUDIO, continuous=True)
    turn.user_speaks(0, 0)
    turn.user_done(0)
    turn.on_event(StreamAudio(b"odd", PCM), 0)
    stream(turn, 2_000, 2_400, loud=True)
    stream(turn, 2_400, 6_000, loud=False)
    assert turn.failure is not None
    assert turn.failure.kind is FailureKind.MALFORMED_MESSAGE
    assert len(turn.responses) == 1


def test_reordered_ogg_pages_are_heard_and_fail_the_turn() -> None:
    turn, encoder = Turn(LIMITS, Modality.AUDIO, continuous=True), OggOpusEncoder(24_000)
    codec = Codec(CodecName.OGG_OPUS, OPUS_RATE_HZ)
    turn.user_speaks(0, 500 * MS)
    turn.user_done(500 * MS)
    turn.on_event(StreamAudio(encoder.headers(), codec), 0)
    tone = (8_000 * np.sin(np.arange(1_920) / 10)).astype("<i2").tobytes()
    pages = [encoder.encode(tone if 10 <= number < 22 else bytes(3_840)) for number in range(40)]
    for at in range(1, len(pages) - 1, 3):  # swap every third page with the next
        pages[at], pages[at + 1] = pages[at + 1], pages[at]
    for number, page in enumerate(pages):
        turn.on_event(StreamAudio(page, codec), (600 + 80 * number) * MS)
    assert is_over(turn, 5 * S)
    assert len(turn.responses) == 1
    assert turn.failure is not None
    assert turn.failure.kind is FailureKind.MALFORMED_AUDIO
