"""Whether a voice is audible."""

import numpy as np
from numpy.typing import NDArray

from live_eval.live.audible_voice import AudibleVoice

RATE = 24_000
BLOCK = 7 * RATE // 1_000


def sound(ms: int, dbfs: float) -> NDArray[np.int16]:
    return np.full(RATE * ms // 1_000, 32_768 * 10 ** (dbfs / 20), np.int16)


def changes_ms(*parts: NDArray[np.int16]) -> list[int]:
    """Return the times at which the voice becomes audible or inaudible, each at the end of a 7 ms block."""
    voice, pcm, found = AudibleVoice(), np.concatenate(parts), []
    for end in range(BLOCK, len(pcm), BLOCK):
        before = voice.audible
        voice.push(pcm[end - BLOCK : end], RATE)
        if voice.audible is not before:
            found.append(1_000 * end // RATE)
    return found


def test_a_voice_begins_after_30_ms_and_ends_after_60_ms() -> None:
    assert changes_ms(sound(200, -90), sound(500, -20), sound(300, -90)) == [231, 763]


def test_closures_within_words_and_clicks_do_not_count() -> None:
    assert changes_ms(sound(500, -20), sound(50, -90), sound(500, -20)) == [35]
    assert changes_ms(sound(200, -90), sound(20, -5), sound(200, -90)) == []


def test_a_click_after_a_voice_does_not_extend_it() -> None:
    click = sound(30, -90), sound(20, -20), sound(300, -90)
    assert changes_ms(sound(500, -20), *click) == changes_ms(sound(500, -20), sound(350, -90)) == [35, 560]


def test_steady_noise_is_not_a_voice() -> None:
    assert changes_ms(sound(4_000, -45), sound(500, -30), sound(1_000, -45))[1:] == [3_052, 4_032, 4_564]
