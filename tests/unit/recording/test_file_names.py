"""The names of a run's files, and the patterns by which housekeeping recognises them."""

from hypothesis import given
from hypothesis import strategies as st

from live_eval.recording.file_names import (
    FILE_PATTERNS,
    cassette_name,
    file_stem,
    utterance_id,
    utterance_name,
)
from live_eval.recording.schema import AUDIO_FOLDER, USER_FOLDER, WIRE_FOLDER


@given(st.text(), st.integers(1, 9), st.sampled_from(("both", "reply", "response-0")))
def test_names_of_a_turn_match_their_pattern(turn_id: str, number: int, side: str) -> None:
    assert FILE_PATTERNS[AUDIO_FOLDER].fullmatch(f"{file_stem(turn_id, number)}.{side}.flac")
    assert FILE_PATTERNS[WIRE_FOLDER].fullmatch(cassette_name(turn_id, number))


@given(st.integers(1, 10**6))
def test_names_of_utterances_match_their_pattern(number: int) -> None:
    assert FILE_PATTERNS[USER_FOLDER].fullmatch(utterance_name(utterance_id(number)))
