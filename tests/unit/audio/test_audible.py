"""Detection of audible audio."""

import numpy as np

from live_eval.audio.audible import audible_end, audible_onset, audible_stretches


def test_a_stretch_begins_in_a_window_that_is_not_loud_as_a_whole() -> None:
    window = 160  # 10 ms
    pcm = np.zeros(12 * window, np.int16)
    begin = 3 * window - 18
    pcm[begin : begin + 18] = 300  # too short to make its window or the next one loud
    pcm[3 * window : 4 * window - 18] = 40
    pcm[4 * window - 18 : 4 * window] = 280
    pcm[4 * window : 9 * window] = 104  # just loud
    for sound in (pcm, pcm[::-1]):
        onset, end = audible_onset(sound, 16_000), audible_end(sound, 16_000)
        assert audible_stretches(sound, 16_000) == [(onset, end)]
    assert audible_onset(pcm, 16_000) == begin
