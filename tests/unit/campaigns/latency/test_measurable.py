from collections.abc import Iterator
from pathlib import Path

import pytest

from live_eval.campaigns.latency.measurable import choose_measurable
from live_eval.errors import FailureKind, TurnError, UsageError
from live_eval.types import Case, SpeechBoundaries, Variant

CASES = [Case(case_id=name, script_id=name, variant=Variant.TARGET, audio_path=Path()) for name in "abcd"]
CERTAIN = SpeechBoundaries(onset_ns=0, voice_end_ns=1)
MISSING = TurnError(FailureKind.AUDIO_MISSING, "no such file")


def uncertain(ms: int) -> SpeechBoundaries:
    reason = f"sound continues for {ms} ms after the last word"
    return SpeechBoundaries(onset_ns=0, voice_end_ns=1, uncertain=True, reason=reason)


def test_recordings_with_an_uncertain_end_are_excluded_with_reasons() -> None:
    chosen = choose_measurable(CASES, [uncertain(140), CERTAIN, uncertain(320), CERTAIN], 2)
    assert chosen.case_ids == {"b", "d"}
    assert chosen.notes == (
        "2 of 4 recordings excluded, because the end of speech is uncertain (2: sound continues after the "
        "last word); --uncertain includes them",
    )


def test_too_few_recordings_are_repeated() -> None:
    chosen = choose_measurable(CASES, [CERTAIN, uncertain(140), CERTAIN, CERTAIN], 32)
    assert chosen.notes[1:] == (
        "the end of speech is certain in 3 recordings, which are repeated for 32 turns",
    )


def test_boundaries_are_found_only_until_there_are_enough() -> None:
    def found() -> Iterator[SpeechBoundaries]:
        yield CERTAIN
        raise AssertionError("not needed")

    chosen = choose_measurable(CASES, found(), 1)
    assert (set(chosen.case_ids), tuple(chosen.notes)) == ({"a"}, ())


def test_an_unusable_recording_fails_in_the_run() -> None:
    chosen = choose_measurable(CASES, [MISSING, CERTAIN, CERTAIN, CERTAIN], 4)
    assert (set(chosen.case_ids), tuple(chosen.notes)) == ({"a", "b", "c", "d"}, ())


def test_only_uncertain_recordings_are_refused() -> None:
    with pytest.raises(
        UsageError, match=r"found none in 4 recordings \(4: sound continues .*--uncertain runs"
    ):
        choose_measurable(CASES, [uncertain(200)] * 4, 4)
