import json
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from live_eval.audio import read_audio
from live_eval.data import QUESTION_TYPES, DataOptions, DataSet, check, load, locate, sample_path
from live_eval.types import Case, Task, Variant

SCRIPTS = Path(__file__).parents[3] / "scripts" / "sample.toml"
QUESTIONS = SCRIPTS.with_name("sample_questions.toml")


@pytest.fixture(scope="module")
def sample() -> DataSet:
    return load(sample_path(), DataOptions(neutral_rule=False))


@pytest.fixture(scope="module")
def entries() -> list[dict[str, Any]]:
    path = sample_path() / "data_synthesis" / "script_info_synthesis.json"
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
    return found


def samples_of(path: Path | None) -> np.ndarray[Any, np.dtype[np.float32]]:
    assert path is not None
    return read_audio(path).audio.samples


def level_db(sound: np.ndarray[Any, np.dtype[np.float32]]) -> float:
    """Return the RMS of the 10 ms frames above −60 dBFS: the README's level of audible speech."""
    frames = sound[: len(sound) // 240 * 240].reshape(-1, 240)
    power = np.mean(np.square(frames, dtype=np.float64), axis=1)
    return float(10 * np.log10(power[power > 1e-6].mean()))


def case_of(sample: DataSet, cue: str) -> Case:
    return next(case for case in sample.cases if case.cue is not None and case.cue.attribute == cue)


def test_sample_is_a_name() -> None:
    assert locate("sample") == sample_path()
    assert locate("./sample") == Path("sample")


def test_every_script_has_three_styles_and_spoken_replies(sample: DataSet) -> None:
    synthesis = [case for case in sample.cases if case.source == "synthesis"]
    human = [case for case in sample.cases if case.source == "human"]
    assert len({case.script_id for case in synthesis}) >= 6
    assert len({case.topic for case in synthesis}) >= 6
    assert len(human) == 6
    assert {case.script_id for case in human} < {case.script_id for case in synthesis}
    for part in (synthesis, human):
        assert len(part) == 3 * len({case.script_id for case in part})
    assert all(case.problem is None for case in sample.cases)
    assert all(case.text and case.topic and case.reference_text for case in sample.cases)
    assert all(case.reference_audio_path and case.reference_audio_path.is_file() for case in sample.cases)
    assert all(case.cue is not None and case.cue.attribute for case in sample.cases)
    assert sample.notes == ()


def test_every_file_is_flac_at_one_rate_and_all_are_small(sample: DataSet) -> None:
    report = check(sample)
    assert report.ok
    kinds = {(file.format, file.subtype, file.rate_hz, file.channels, file.notes) for file in report.files}
    assert kinds == {("FLAC", "PCM_16", 24_000, 1, ())}
    files = [path for path in sample_path().glob("data_*/**/*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 4_000_000
    assert {path for path in files if path.suffix == ".flac"} == {file.path for file in report.files}


def test_recordings_contain_their_scripts(entries: list[dict[str, Any]]) -> None:
    scripts = tomllib.loads(SCRIPTS.read_text("utf-8"))["script"]
    assert [(entry["case_id"], entry["script"], entry["topic"]) for entry in entries] == [
        (script["id"], script["text"], script["topic"]) for script in scripts
    ]
    for entry, script in zip(entries, scripts, strict=True):
        for variant in Variant:
            block = entry[f"{variant}_audio_info"]
            assert block[f"{variant}_spoken_info"] == script[variant]["say"]
            assert block[f"{variant}_response_text"] == script[variant]["reply"]


def test_backgrounds_are_mixed_with_the_clean_take_at_the_stated_snr(
    sample: DataSet, entries: list[dict[str, Any]]
) -> None:
    by_id = {case.case_id: case for case in sample.cases}
    mixes = 0
    for entry in entries:
        for variant in Variant:
            stated = entry[f"{variant}_audio_info"].get(f"{variant}_snr_db")
            case = by_id[f"{entry['case_id']}/{variant}"]
            assert (stated is None) == (case.clean_audio_path is None)
            if stated is None:
                continue
            mixes += 1
            assert case.clean_audio_path == by_id[f"{entry['case_id']}/neutral"].audio_path
            mix, clean = samples_of(case.audio_path), samples_of(case.clean_audio_path)
            assert len(mix) == len(clean)
            background = mix - clean
            snr_db = level_db(clean) - 10 * np.log10(np.mean(np.square(background, dtype=np.float64)))
            assert snr_db == pytest.approx(stated, abs=0.1)
            # The remainder is only background, without any of the speech.
            assert abs(np.corrcoef(background, clean)[0, 1]) < 0.05
    assert mixes >= 3


def test_styles_differ_audibly(sample: DataSet) -> None:
    def neutral_of(case: Case) -> Case:
        found = [each for each in sample.cases if each.case_id == f"{case.script_id}/neutral"]
        return found[0]

    def seconds(case: Case) -> float:
        loud = np.flatnonzero(np.abs(samples_of(case.audio_path)) > 0.003)
        return float(loud[-1] - loud[0]) / 24_000

    def gain_db(case: Case) -> float:
        return level_db(samples_of(case.audio_path)) - level_db(samples_of(neutral_of(case).audio_path))

    def pace(cue: str) -> float:
        case = case_of(sample, cue)
        return seconds(neutral_of(case)) / seconds(case)

    assert pace("fast pace") > 1.3
    assert pace("slow pace") < 0.75
    assert gain_db(case_of(sample, "shout")) > 8
    assert gain_db(case_of(sample, "whisper")) < -8
    # Both end with breath, long after the last word.
    assert pace("sigh") < 0.75
    assert pace("breathless") < 0.75


def test_pitch_rises_for_the_child_and_falls_for_the_others(sample: DataSet) -> None:
    child = case_of(sample, "child")
    neutral = next(case for case in sample.cases if case.case_id == f"{child.script_id}/neutral")
    male = case_of(sample, "male")
    twin = next(case for case in sample.cases if case.case_id == "human:le_101/neutral")
    own = next(case for case in sample.cases if case.case_id == "le_101/neutral")
    base = pitch_hz(neutral)
    assert 1.2 < pitch_hz(child) / base < 1.45
    assert 0.68 < pitch_hz(male) / base < 0.85
    assert 0.72 < pitch_hz(twin) / pitch_hz(own) < 0.9


def test_a_whisper_has_no_pitch(sample: DataSet) -> None:
    whisper = case_of(sample, "whisper")
    neutral = next(case for case in sample.cases if case.case_id == f"{whisper.script_id}/neutral")
    assert voicing(neutral)[0] > 0.75
    assert voicing(whisper)[0] < 0.5


def voicing(case: Case) -> tuple[float, float]:
    """Return the median height and pitch (Hz) of the autocorrelation's peak over the louder 40 ms frames."""
    frames = np.lib.stride_tricks.sliding_window_view(samples_of(case.audio_path), 960)[::240]
    power = np.square(frames).mean(axis=1)
    loud = frames[power > np.quantile(power, 0.6)] * np.hanning(960)
    spectrum = np.abs(np.fft.rfft(loud, 2_048, axis=1)) ** 2
    correlation = np.fft.irfft(spectrum, axis=1)[:, :480]
    window = np.fft.irfft(np.abs(np.fft.rfft(np.hanning(960), 2_048)) ** 2)[:480]
    normal = correlation / correlation[:, :1] / (window / window[0])
    lags = normal[:, 60:300]
    return float(np.median(lags.max(axis=1))), 24_000 / float(np.median(lags.argmax(axis=1) + 60))


def pitch_hz(case: Case) -> float:
    return voicing(case)[1]


def test_the_readme_states_that_the_voices_are_synthetic() -> None:
    text = (sample_path() / "README.md").read_text("utf-8")
    assert "No human speaks" in text
    assert "Apache-2.0" in text


@pytest.mark.slow
@pytest.mark.local
def test_the_recogniser_understands_every_style(sample: DataSet) -> None:
    pytest.importorskip("faster_whisper")
    jiwer = pytest.importorskip("jiwer")
    from whisper_normalizer.english import EnglishTextNormalizer

    from live_eval.speech.recognition import Recogniser

    recogniser, normalise = Recogniser(beam_size=1), EnglishTextNormalizer()
    errors = {}
    of_each_cue = {case.cue.attribute: case for case in reversed(sample.cases) if case.cue is not None}
    for case in of_each_cue.values():
        heard = recogniser.transcribe(read_audio(case.audio_path).audio, words=False).text
        errors[case.case_id] = jiwer.wer(normalise(case.text or ""), normalise(heard))
    assert {case_id: error for case_id, error in errors.items() if error > 0.3} == {}
    assert np.mean(list(errors.values())) < 0.05


@pytest.mark.parametrize("task", [Task.UNDERSTANDING, Task.REASONING])
def test_there_are_questions_of_every_type_and_no_letter_is_the_key_too_often(
    sample: DataSet, task: Task
) -> None:
    cases = sample.of(task)
    asked = [case.question for case in cases if case.question is not None]
    assert len(asked) == len(cases)
    assert {question.kind for question in asked} == set(QUESTION_TYPES[task])
    assert {case.source for case in cases} == {"synthesis", "human"}
    assert all(case.problem is None and case.audio_path.is_file() for case in cases)
    assert {case.script_id for case in cases} == {case.script_id for case in sample.cases}
    keys = Counter(question.answer for question in asked)
    assert set(keys) == set("ABCD")
    assert max(keys.values()) <= 0.4 * len(asked)
    recordings = {case.audio_path: case for case in sample.cases}
    for case in cases:
        twin = recordings[case.audio_path]
        assert (case.script_id, case.variant, case.text, case.cue, case.topic, case.source) == (
            *(twin.script_id, twin.variant, twin.text, twin.cue, twin.topic, twin.source),
        )


@pytest.mark.parametrize("task", [Task.UNDERSTANDING, Task.REASONING])
def test_the_questions_are_those_of_their_source(sample: DataSet, task: Task) -> None:
    source = tomllib.loads(QUESTIONS.read_text("utf-8"))[task]
    for part, wanted in (
        ("synthesis", source),
        ("human", [question for question in source if question.get("human")]),
    ):
        asked = [case for case in sample.of(task) if case.source == part]
        for case, question in zip(asked, wanted, strict=True):
            assert case.question is not None
            assert question["about"] == f"{case.script_id}/{case.variant}"
            assert case.question.text == question["ask"]
            options = dict(case.question.options)
            assert options[case.question.answer or ""] == question["right"]
            assert sorted(options.values()) == sorted([question["right"], *question["wrong"]])
