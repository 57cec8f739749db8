from collections import Counter
from pathlib import Path

import pytest

from live_eval.data import DataKind, DataSet, cue_of, load, sample_path, select
from live_eval.errors import UsageError
from live_eval.types import Case, Task, Variant


def case(script: str, variant: Variant, cue: str | None, topic: str | None) -> Case:
    return Case(
        case_id=f"{script}/{variant}",
        script_id=script,
        variant=variant,
        audio_path=Path("absent.wav"),
        cue=cue_of(cue) if cue else None,
        topic=topic,
    )


CASES = [
    case("a", Variant.TARGET, "sound of raining", "Work"),
    case("a", Variant.NEUTRAL, "neutral", "Work"),
    case("b", Variant.TARGET, "sigh sound", "family"),
    case("b", Variant.NEUTRAL, "neutral", "family"),
    case("b", Variant.ALTERNATIVE, "sound of sea waves", "family"),
    case("c", Variant.TARGET, "a hum nobody named", None),
    case("d", Variant.TARGET, None, None),
]


def ids(**criteria: object) -> list[str]:
    return [each.case_id for each in select(CASES, **criteria)]  # type: ignore[arg-type]


def test_everything_by_default() -> None:
    assert select(CASES) == CASES


@pytest.mark.parametrize(
    ("cue", "expected"),
    [
        ("rain", ["a/target"]),
        ("RAIN", ["a/target"]),
        ("sound of raining", ["a/target"]),
        ("raining", ["a/target"]),
        ("weather", ["a/target"]),
        ("Environment", ["a/target", "b/alternative"]),
        ("neutral", ["a/neutral", "b/neutral"]),
        ("A hum nobody named", ["c/target"]),
    ],
)
def test_cues_by_attribute_phrase_and_dimension(cue: str, expected: list[str]) -> None:
    assert ids(cues=[cue]) == expected


def test_values_of_a_criterion_are_alternatives_and_criteria_combine() -> None:
    assert ids(cues=["sigh", "rain"]) == ["a/target", "b/target"]
    assert ids(cues=["sigh", "rain"], topics=["WORK"]) == ["a/target"]
    assert ids(variants=["Neutral", Variant.ALTERNATIVE], topics=["family"]) == ["b/neutral", "b/alternative"]


def test_cases_by_their_own_id_or_their_script() -> None:
    assert ids(case_ids=["B", "a/neutral"]) == ["a/neutral", "b/target", "b/neutral", "b/alternative"]


def test_a_limit_takes_the_first() -> None:
    assert ids(variants=["target"], limit=2) == ["a/target", "b/target"]
    assert len(select(CASES, limit=99)) == len(CASES)


def test_a_limit_is_of_each_task() -> None:
    sample = load(sample_path())
    cases = [case for task in Task for case in sample.of(task)]
    chosen = select(cases, limit=3)
    assert Counter(case.task for case in chosen) == dict.fromkeys(Task, 3)
    assert [case for case in chosen if case.task is Task.CONVERSATION] == list(sample.cases[:3])
    transcribed = select(cases, topics=["work"], variants=["target"], limit=2)
    assert [case.case_id for case in transcribed if case.task is Task.TRANSCRIPTION] == [
        "transcription/le_101/target",
        "transcription/human:le_101/target",
    ]


@pytest.mark.parametrize(
    ("criteria", "message"),
    [
        (
            {"cues": ["yawn"]},
            "no case with the cue 'yawn'; expected one of rain, sound of raining, weather, environment",
        ),
        ({"topics": ["work", "sport"]}, "no case with the topic 'sport'; expected one of Work, family"),
        (
            {"variants": ["loud"]},
            "no case with the variant 'loud'; expected one of target, neutral, alternative",
        ),
        (
            {"case_ids": ["z"]},
            "no case with the case ID 'z'; expected one of a/target, a, a/neutral, b/target, b, … and ",
        ),
        ({"cues": ["sigh"], "topics": ["work"]}, "no case matches all of: cue sigh; topic work"),
        ({"limit": 0}, "expected a limit of at least 1, got 0"),
    ],
)
def test_unmatched_values_are_reported_with_the_existing_ones(
    criteria: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        ids(**criteria)
    assert message in str(caught.value)


def test_an_empty_data_set() -> None:
    with pytest.raises(UsageError, match="the data set has no cases"):
        select([])


class TestFingerprint:
    def of(self, *cases: Case) -> str:
        return DataSet(name="x", root=Path(), kind=DataKind.FOLDER, cases=cases).fingerprint

    def test_it_differs_for_other_data(self, tmp_path: Path) -> None:
        first = self.of(*CASES)
        assert first == self.of(*CASES)
        assert first != self.of(*CASES[1:])
        assert len(first) == 64

    def test_it_changes_with_the_size_of_a_recording(self, tmp_path: Path) -> None:
        path = tmp_path / "a.wav"
        one = Case(case_id="a", script_id="a", variant=Variant.TARGET, audio_path=path)
        absent = self.of(one)
        path.write_bytes(b"1")
        short = self.of(one)
        path.write_bytes(b"12")
        assert len({absent, short, self.of(one)}) == 3
