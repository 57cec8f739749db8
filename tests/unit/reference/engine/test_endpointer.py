import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_eval.reference.engine.endpointer import (
    WINDOW_MS,
    Detection,
    Endpointer,
    SpeechChange,
    SpeechChangeKind,
)

VOICED, SILENT = 0.9, 0.0


def changes(probabilities: list[float], detection: Detection | None = None) -> list[SpeechChange]:
    detector = Endpointer(detection or Detection())
    found = [detector.feed(probability) for probability in probabilities]
    return [edge for edge in found if edge is not None]


def test_a_turn_starts_pauses_and_stops() -> None:
    found = changes([SILENT] * 10 + [VOICED] * 20 + [SILENT] * 20)
    assert [edge.kind for edge in found] == [
        SpeechChangeKind.STARTED,
        SpeechChangeKind.PAUSED,
        SpeechChangeKind.STOPPED,
    ]
    started, paused, stopped = found
    assert started == SpeechChange(SpeechChangeKind.STARTED, 10 * WINDOW_MS, 13 * WINDOW_MS)
    assert paused == SpeechChange(SpeechChangeKind.PAUSED, 30 * WINDOW_MS, 35 * WINDOW_MS)
    assert stopped == SpeechChange(
        SpeechChangeKind.STOPPED, 30 * WINDOW_MS, 46 * WINDOW_MS
    )  # 16 windows: first past 500 ms


def test_a_click_is_not_speech() -> None:
    assert changes(([VOICED] * 2 + [SILENT]) * 20) == []


def test_speech_continues_below_the_threshold_with_hysteresis() -> None:
    assert len(changes([VOICED] * 3 + [0.36] * 50)) == 1
    assert len(changes([VOICED] * 3 + [0.34] * 50)) == 3


def test_a_pause_is_reported_once_and_again_after_more_speech() -> None:
    found = changes([VOICED] * 3 + [SILENT] * 8 + [VOICED] + [SILENT] * 8)
    assert [edge.kind for edge in found] == [
        SpeechChangeKind.STARTED,
        SpeechChangeKind.PAUSED,
        SpeechChangeKind.PAUSED,
    ]


@pytest.mark.parametrize("silence_ms", [0, 32, 100, 1200])
def test_the_configured_silence_ends_a_turn(silence_ms: int) -> None:
    stopped = changes([VOICED] * 3 + [SILENT] * 50, Detection(silence_ms=silence_ms))[-1]
    assert stopped.kind is SpeechChangeKind.STOPPED
    assert silence_ms <= stopped.heard_ms - stopped.speech_ms < silence_ms + 2 * WINDOW_MS


@given(st.lists(st.floats(0, 1), max_size=300), st.floats(0, 1), st.integers(0, 800))
def test_starts_and_stops_alternate_in_time(
    probabilities: list[float], threshold: float, silence_ms: int
) -> None:
    found = changes(probabilities, Detection(threshold=threshold, silence_ms=silence_ms))
    turns = [edge.kind for edge in found if edge.kind is not SpeechChangeKind.PAUSED]
    assert turns == ([SpeechChangeKind.STARTED, SpeechChangeKind.STOPPED] * len(turns))[: len(turns)]
    assert all(0 <= edge.speech_ms <= edge.heard_ms for edge in found)
    heard = [edge.heard_ms for edge in found]
    assert heard == sorted(heard)
