import json
import math
from pathlib import Path

import numpy as np
import pytest
import soundfile

from live_eval.analysis.licences import licence_of
from live_eval.analysis.turn_taking.outcomes import Rule, rule_of
from live_eval.audio import read_audio
from live_eval.campaigns.duplex.campaign import DuplexCampaign, DuplexPlan
from live_eval.campaigns.duplex.probes import trials_of
from live_eval.campaigns.duplex.probes.own_recordings import own_probe
from live_eval.campaigns.duplex.stimuli import write_stimuli
from live_eval.data import DataOptions, DataSet, check, load
from live_eval.data.benchmarks import BENCHMARKS
from live_eval.data.benchmarks.full_duplex import AFTER
from live_eval.errors import DataError, TurnError, UsageError
from live_eval.run.plan import make_plan
from live_eval.run.run_file import DataTable, RunConfig
from live_eval.speech.boundaries import case_boundaries
from live_eval.types import Case, SpeechKind
from tests.support.benchmarks import SETS, recordings_below
from tests.support.benchmarks import full_duplex_item as write

FDB, HUMDIAL = BENCHMARKS["full-duplex-bench"], BENCHMARKS["humdial-fdbench"]
OVERLAP = {"context_text": "Where?", "current_turn_text": "Mm-hmm.", "timestamps": [0.8, 1.4]}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return SETS["full-duplex-bench"](tmp_path, 1)


def sessions(data: DataSet) -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for case in data.cases:
        found.setdefault(case.topic or "", []).append(case)
    return found


def test_full_duplex_bench_is_read_in_its_layout(root: Path) -> None:
    data = load(root)
    assert check(data).ok
    assert data.licence.endswith("may be used commercially")
    found = sessions(data)
    assert set(found) == set(FDB.parts)
    expected = {
        "synthetic_pause_handling": Rule.PAUSE,
        "candor_pause_handling": Rule.PAUSE,
        "candor_turn_taking": Rule.ANSWER,
        "synthetic_user_interruption": Rule.INTERRUPTION,
        "user_interruption": Rule.INTERRUPTION,
        "user_backchannel": Rule.BACKCHANNEL,
        "talking_to_other": Rule.BACKCHANNEL,
        "background_speech": Rule.BACKCHANNEL,
    }
    assert {part: rule_of(cases) for part, cases in found.items()} == expected
    first, second = found["user_backchannel"]
    assert (first.text, second.text, second.anchor) == ("Where?", "Mm-hmm.", AFTER)
    assert second.boundaries is not None
    assert (second.boundaries.onset_ns, second.boundaries.voice_end_ns) == (800_000_000, 1_400_000_000)


def test_humdial_is_read_in_its_layout(tmp_path: Path) -> None:
    data = load(SETS["humdial-fdbench"](tmp_path, 1))
    assert check(data).ok
    found = sessions(data)
    assert set(found) == set(HUMDIAL.parts)
    assert {case.language for case in found["ask-zh"]} == {"zh"}
    rules = {part: rule_of(cases) for part, cases in found.items()}
    assert (rules["ask-zh"], rules["backchannel-zh"]) == (Rule.INTERRUPTION, Rule.BACKCHANNEL)
    assert (rules["talk_to_others-en"], rules["pause-zh"]) == (Rule.BACKCHANNEL, Rule.PAUSE)
    assert found["talk_to_others-zh"][1].speech is SpeechKind.NON_DIRECTED
    assert HUMDIAL.items == 4_700


def test_stretches_are_cut_for_the_campaign_and_runs_are_refused(root: Path, tmp_path: Path) -> None:
    probe = own_probe(load(root))
    assert {condition.name for condition in probe.conditions} == set(FDB.parts)
    manifest = write_stimuli(trials_of([probe], 1, 0), tmp_path / "stimuli")
    rows = [json.loads(line) for line in manifest.read_text("utf-8").splitlines()]
    (row,) = (row for row in rows if row["turns"][-1].get("text") == "Mm-hmm." and "backchannel" in row["id"])
    context, overlap = (soundfile.info(manifest.parent / turn["audio"]).duration for turn in row["turns"])
    assert 0 < context <= 0.8
    assert 0 < overlap <= 0.6
    with pytest.raises(
        UsageError, match=r"measures turn-taking: use live-eval duplex reference --probe own --data"
    ):
        make_plan(RunConfig.model_validate({"endpoint": {"name": "reference"}, "data": {"path": str(root)}}))


def test_bad_annotations_are_named(tmp_path: Path) -> None:
    write(tmp_path / "v1_5/user_backchannel/1", "input.wav", metadata={"context_text": "x"})
    write(tmp_path / "v1_5/user_backchannel/2", "input.wav", metadata=OVERLAP | {"timestamps": [2, 1]})
    write(tmp_path / "v1_5/user_backchannel/3", "input.wav")
    for name, end in (("4", 10**400), ("5", math.inf), ("6", math.nan)):
        endless = OVERLAP | {"timestamps": [2, end]}
        write(tmp_path / f"v1_5/user_backchannel/{name}", "input.wav", metadata=endless)
    problems = [case.problem or "" for case in load(tmp_path / "user_backchannel").cases]
    for words in (
        "unexpected annotations: expected the field 'timestamps', found none",
        "expected 0 <= begin < end",
        "metadata.json",
    ):
        assert any(words in problem for problem in problems)
    (tmp_path / "v1_5/talking_to_other").mkdir()
    with pytest.raises(DataError, match="expected the items of Full-Duplex-Bench"):
        load(tmp_path / "talking_to_other")


def test_bad_excerpts_fail_their_turn_and_not_the_campaign(tmp_path: Path) -> None:
    folder = tmp_path / "v1_5" / "user_backchannel"
    good = [0.8, 1.4]
    for number, times in enumerate([good, good, [0.8, 99.0], good, good, [0, 1.4]], 1):
        said = {"context_text": f"{number} first", "current_turn_text": f"{number} second"}
        write(folder / str(number), "input.wav", metadata={**said, "timestamps": times})
    (folder / "2" / "input.wav").write_bytes(b"RIFF, but no audio")
    soundfile.write(folder / "4" / "input.wav", np.zeros(48_000, np.float32), 24_000)
    (folder / "5" / "input.wav").unlink()
    data = load(tmp_path)
    manifest = write_stimuli(trials_of([own_probe(data)], 1, 0), tmp_path / "stimuli")
    failed: dict[str, str] = {}
    for case in load(manifest).cases:
        try:
            case_boundaries(case, read_audio(case.audio_path).audio)
        except TurnError as error:
            failed[case.text or ""] = error.kind.value
    assert failed == {
        "2 first": "audio_unreadable",
        "2 second": "audio_unreadable",
        "3 second": "case_unusable",
        "4 first": "audio_empty",
        "4 second": "audio_empty",
        "5 first": "audio_missing",
        "5 second": "audio_missing",
    }
    assert "expected 0 <= begin < end" in (data.cases[-1].problem or "")


def test_a_file_and_a_folder_of_one_name_are_two_items(tmp_path: Path) -> None:
    write(tmp_path / "v1_5/user_backchannel/1", "input.wav", metadata=OVERLAP)
    recordings_below(tmp_path / "v1_5/user_backchannel", "1.wav")
    assert len({case.case_id for case in load(tmp_path).cases}) == 3


def test_fields_cannot_be_mapped_and_a_folder_of_recordings_is_ignored(root: Path) -> None:
    with pytest.raises(UsageError, match=r"the fields of Full-Duplex-Bench .* cannot be mapped, got text"):
        load(root, DataOptions(fields={"text": "question"}))
    notes = load(root, DataOptions(audio_root=root)).notes
    assert any(note.startswith("audio_root is ignored") for note in notes)


def test_a_part_without_items_is_left_out(tmp_path: Path) -> None:
    root = SETS["humdial-fdbench"](tmp_path, 1)
    for file in (root / "test/en_test_nondev/ask").iterdir():
        file.unlink()
    assert list(load(root).damaged) == ["ask-en"]
    with pytest.raises(DataError, match="expected the items of HumDial-FDBench, found none"):
        load(root / "ask-en")


def test_words_of_the_other_speaker_are_not_the_users(tmp_path: Path) -> None:
    def said(speaker: int, *times: tuple[float, float]) -> dict[str, object]:
        return {"speaker": speaker, "item": [{"text": "x", "timestamp": list(each)} for each in times]}

    user = said(0, (0.2, 0.4), (0.9, 1.2))
    pause = [{"text": "[PAUSE]", "timestamp": [0.4, 0.9]}]
    after, within, around = (1.3, 6.4), (0.5, 0.8), ((0.0, 0.3), (1.0, 1.4))
    folder = tmp_path / "v1_0/candor_pause_handling"
    for number, other in enumerate(([after], [(0.0, 0.1), within, after], around)):
        write(folder / str(number), "input.wav", pause=pause, transcription=[said(1, *other), user])
    later, answering, unclear = load(tmp_path).cases
    for case in (later, answering):
        parts = [(part.onset_ns / 1e9, part.end_ns / 1e9) for part in case.parts]
        assert parts == [(0.2, 0.4), (0.9, 1.2)]
    assert "expected one speaker with words around the pauses, got 2" in (unclear.problem or "")


def test_utterances_without_text_are_counted(tmp_path: Path) -> None:
    write(tmp_path / "v1_5/user_backchannel/1", "input.wav", metadata=OVERLAP | {"context_text": " "})
    assert "utterances without text: 1; they are run" in load(tmp_path).notes


def test_a_campaign_notes_the_licence_and_what_is_unverified(root: Path, tmp_path: Path) -> None:
    config = RunConfig(data=DataTable(path=str(root)))
    plan = DuplexPlan(config=config, probes=["own"], repeat=1, sentinel_turns=0)
    campaign = DuplexCampaign(plan, tmp_path / "campaign")
    licence, unverified, *others = campaign.notes
    assert licence.endswith("may be used commercially")
    assert unverified == FDB.unverified
    assert any("0.3 s after the reply becomes audible" in each for each in others)
    assert not any(each.endswith(".") for each in campaign.notes)
    (planned,) = campaign._plans.values()
    assert licence_of(planned.manifest()) == licence
