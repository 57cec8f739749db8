import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.session.reply_detection import Chunk, EnergySegmenter

RATE_HZ = 24_000
MS = 1_000_000
CHUNK_MS = 20


def sound(*stretches: tuple[int, bool]) -> NDArray[np.int16]:
    """Return stretches of these lengths in ms, each a tone or digital silence."""
    pieces = []
    for ms, loud in stretches:
        time_s = np.arange(RATE_HZ * ms // 1000) / RATE_HZ
        pieces.append((3_000 * np.cos(2 * np.pi * 300 * time_s) * loud).astype(np.int16))
    return np.concatenate(pieces)


def cut(
    pcm: NDArray[np.int16],
    chunk_ms: int = CHUNK_MS,
    silence_ms: int = 500,
    voice_end_ms: int | None = None,
) -> EnergySegmenter:
    segmenter = EnergySegmenter(RATE_HZ, silence_ms * MS)
    segmenter.voice_end_ns = None if voice_end_ms is None else voice_end_ms * MS
    step = RATE_HZ * chunk_ms // 1000
    for number, at in enumerate(range(0, len(pcm), step), 1):
        segmenter.push(Chunk(number * chunk_ms * MS, pcm[at : at + step]))
    return segmenter


def test_a_stretch_of_sound_includes_a_margin_before_and_after() -> None:
    pcm = sound((500, False), (600, True), (900, False))
    segmenter = cut(pcm)
    (stretch,) = segmenter.stretches
    assert stretch.ended_ns is not None
    assert 500 * MS < stretch.began_ns <= 560 * MS
    assert stretch.audible_ns == 1_100 * MS
    assert stretch.ended_ns == 1_600 * MS
    kept = np.concatenate([chunk.pcm for chunk in stretch.chunks])
    assert np.count_nonzero(kept) == np.count_nonzero(pcm)
    assert stretch.chunks[1].at_ns >= stretch.began_ns - 100 * MS
    assert stretch.chunks[-1].at_ns == 1_300 * MS


def test_the_chunk_in_which_the_sound_began_is_kept_even_if_long_and_late() -> None:
    pcm = sound((482, False), (400, True), (218, False))
    segmenter = EnergySegmenter(RATE_HZ, 500 * MS)
    arrivals_ms = (100, 200, 300, 400, 499, 601, 700, 800, 900, 1_000, 1_100)
    step = RATE_HZ // 10
    for at_ms, at in zip(arrivals_ms, range(0, len(pcm), step), strict=True):
        segmenter.push(Chunk(at_ms * MS, pcm[at : at + step]))
    (stretch,) = segmenter.stretches
    kept = np.concatenate([chunk.pcm for chunk in stretch.chunks])
    assert np.count_nonzero(kept) == np.count_nonzero(pcm)
    assert stretch.began_ns == 601 * MS  # 18 ms of it came before, too short to distinguish from a click


def test_a_pause_within_a_reply_is_part_of_it() -> None:
    segmenter = cut(sound((300, True), (400, False), (300, True), (600, False)))
    (stretch,) = segmenter.stretches
    assert len(stretch.chunks) * CHUNK_MS == 300 + 400 + 300 + 200


def test_a_longer_pause_separates_two_replies() -> None:
    segmenter = cut(sound((300, True), (700, False), (300, True), (600, False)))
    first, second = segmenter.stretches
    assert first.ended_ns is not None
    assert first.ended_ns < second.began_ns
    assert second.ended_ns is not None


@pytest.mark.parametrize(
    ("pause_ms", "voice_end_ms", "stretches"),
    [(400, 500, 2), (400, 690, 2), (400, 200, 1), (400, 1_000, 1), (200, 400, 1)],
)
def test_a_sound_during_the_users_speech_ends_after_a_breath(
    pause_ms: int, voice_end_ms: int, stretches: int
) -> None:
    pcm = sound((300, True), (pause_ms, False), (300, True), (600, False))
    assert len(cut(pcm, voice_end_ms=voice_end_ms).stretches) == stretches


def test_a_click_is_not_a_reply() -> None:
    assert cut(sound((300, False), (20, True), (300, False))).stretches == []


def test_a_pause_without_chunks_counts_as_silence() -> None:
    segmenter = cut(sound((300, True)))
    assert segmenter.open is not None
    segmenter.tick(799 * MS)
    assert segmenter.open is not None
    segmenter.tick(800 * MS)
    assert segmenter.open is None


def test_the_size_of_the_chunks_changes_nothing_but_the_grid() -> None:
    pcm = sound((500, False), (600, True), (900, False))
    for chunk_ms in (3, 7, 80, 200):
        (stretch,) = cut(pcm, chunk_ms).stretches
        assert 500 * MS < stretch.began_ns <= (540 + 2 * chunk_ms) * MS
        kept = np.concatenate([chunk.pcm for chunk in stretch.chunks])
        assert np.count_nonzero(kept) == np.count_nonzero(pcm)
