import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_eval.audio import frames_of
from live_eval.reference.engine.signals import (
    MARK,
    calibration_reply,
    calibration_speech,
    find_mark,
)
from live_eval.timing import audible_end, audible_onset, audible_stretches
from tests.support.marked_utterances import marked_utterance


@pytest.mark.parametrize("duration_ms", [1, 20, 333, 1000])
@pytest.mark.parametrize("frame_ms", [20, 80])
def test_the_mark_is_the_last_sample_of_a_frame_and_occurs_once(duration_ms: int, frame_ms: int) -> None:
    speech, voice_end_sample = calibration_speech(duration_ms, 24_000, frame_ms)
    pcm = speech.int16()
    frame = 24 * frame_ms
    assert voice_end_sample == len(pcm)
    assert len(pcm) % frame == 0
    assert 0 <= len(pcm) - duration_ms * 24 < frame
    assert np.flatnonzero(pcm == MARK).tolist() == [len(pcm) - 1]
    assert np.abs(pcm[:-1].astype(int)).max() < MARK // 4
    marked = [find_mark(data) for data in frames_of(pcm, frame)]
    assert marked == [None] * (len(pcm) // frame - 1) + [frame - 1]


@pytest.mark.parametrize("lossy", [False, True])
def test_every_onset_and_end_of_an_utterance_is_known(lossy: bool) -> None:
    utterance = marked_utterance([610, 400], [290], lossy=lossy)
    pcm = utterance.audio.int16()
    loud = np.flatnonzero(pcm)
    first, second = utterance.stretches
    tail = 240 if lossy else 0
    for stretch, begin, end in ((first, 0, first.end_sample), (second, first.end_sample, len(pcm))):
        sound = loud[(loud >= begin) & (loud < end)]
        assert (sound[0], sound[-1] + 1 + tail) == (stretch.onset_sample, stretch.end_sample)
        assert stretch.end_sample % 480 == 0
    assert second.onset_sample - first.end_sample == 300 * 24 - (not lossy)
    assert np.flatnonzero(pcm == MARK).tolist() == ([] if lossy else [len(pcm) - 1])


def test_every_frame_of_the_speech_is_audible() -> None:
    pcm = calibration_speech(1000).audio.int16()
    assert audible_onset(pcm, 24_000) == 0
    assert all(any(frame) for frame in frames_of(pcm, 480))


@pytest.mark.parametrize("rate_hz", [8_000, 24_000])
def test_the_reply_is_audible_from_its_first_sample_to_its_last(rate_hz: int) -> None:
    pcm = calibration_reply(400, rate_hz).int16()
    assert audible_onset(pcm, rate_hz) == 0
    assert (audible_end(pcm, rate_hz) or 0) >= len(pcm) - 3  # a zero crossing may be the very last


def test_a_pause_is_in_the_middle_of_the_reply() -> None:
    pcm = calibration_reply(400, pause_ms=800).int16()
    assert audible_stretches(pcm, 24_000) == [(0, 4_800), (24_000, 28_800)]


@given(st.lists(st.integers(-32_768, 32_767), max_size=50))
def test_the_mark_is_found_on_sample_boundaries_only(samples: list[int]) -> None:
    expected = samples.index(MARK) if MARK in samples else None
    assert find_mark(np.asarray(samples, "<i2").tobytes()) == expected


def test_bytes_across_samples_are_not_a_mark() -> None:
    assert find_mark(b"\x00\xff\x7f\x00") is None
    assert find_mark(b"\x00\xff\x7f\x00\xff\x7f") == 2
