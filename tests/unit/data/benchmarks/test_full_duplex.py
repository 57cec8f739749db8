import json
import math
from pathlib import Path
from typing import Any

import pytest
import soundfile

from live_eval.analysis.turn_taking.outcomes import Rule, rule_of
from live_eval.campaigns.duplex.probes import trials_of
from live_eval.campaigns.duplex.probes.own_recordings import own_probe
from live_eval.campaigns.duplex.stimuli import write_stimuli
from live_eval.data import DataSet, check, load
from live_eval.data.benchmarks import BENCHMARKS
from live_eval.data.benchmarks.full_duplex import AFTER
from live_eval.errors import DataError, UsageError
from live_eval.run.plan import make_plan
from live_eval.run.run_file import RunConfig
from live_eval.types import Case, SpeechKind
from tests.support.benchmarks import recordings_below

FDB, HUMDIAL = BENCHMARKS["full-duplex-bench"], BENCHMARKS["humdial-fdbench"]
WORDS = [{"text": "I", "timestamp": [0.2, 0.4]}, {"text": "do", "timestamp": [0.9, 1.2]}]
OVERLAP = {"context_text": "Where?", "current_turn_text": "Mm-hmm.", "timestamps": [0.8, 1.4]}


def write(folder: Path, *recordings: str, **annotations: Any) -> None:
    recordings_below(folder, *recordings)
    for name, content in annotations.items():
        (folder / f"{name}.json").write_text(json.dumps(content), "utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    pause = [{"text": "[PAUSE]", "timestamp": [0.4, 0.9]}]
    write(tmp_path / "v1_0/synthetic_pause_handling/1", "input.wav", pause=pause, transcription=WORDS)
    said = [{"speaker": 0, "item": WORDS}]
    write(tmp_path / "v1_0/candor_pause_handling/1", "input.wav", pause=pause, transcription=said)
    turn = [{"text": "[TURN-TAKING]", "timestamp": [1.2, 1.5]}]
    write(tmp_path / "v1_0/candor_turn_taking/1", "input.wav", turn_taking=turn, transcription=said)
    cut_in = [{"context": "Where?", "interrupt": "No, when?", "timestamp": [5.0, 6.0]}]
    files = ("input.wav", "context.wav", "interrupt.wav")
    write(tmp_path / "v1_0/synthetic_user_interruption/1", *files, interrupt=cut_in)
    for part in ("user_interruption", "user_backchannel", "talking_to_other", "background_speech"):
        write(tmp_path / "v1_5" / part / "7", "input.wav", "clean_input.wav", metadata=OVERLAP)
    return tmp_path


def sessions(data: DataSet) -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for case in data.cases:
        found.setdefault(case.topic or "", []).append(case)
    return found


def test_full_duplex_bench_is_read_in_its_layout(root: Path) -> None:
    data = load(root)
    assert check(data).ok
    assert data.licence.endswith("may be used commercially.")
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
    segments = [{"xmin": 0.1, "xmax": 0.8, "text": "去哪"}, {"xmin": 0.9, "xmax": 1.5, "text": "嗯"}]
    for scene in ("ask", "backchannel", "talk_to_others", "pause"):
        folder = tmp_path / "test/cn_test_nondev" / scene
        recordings_below(folder, "3.wav", "clean_3.wav")
        (folder / "3.json").write_text(
            json.dumps({"speech_segments": segments, "final_duration": 2}), "utf-8"
        )
    data = load(tmp_path)
    assert {case.language for case in data.cases} == {"zh"}
    found = sessions(data)
    assert {part: rule_of(cases) for part, cases in found.items()} == {
        "ask-zh": Rule.INTERRUPTION,
        "backchannel-zh": Rule.BACKCHANNEL,
        "talk_to_others-zh": Rule.BACKCHANNEL,
        "pause-zh": Rule.ANSWER,  # the pause of 100 ms is too short
    }
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
    with pytest.raises(UsageError, match=r"measures turn-taking: use live-eval duplex reference --data"):
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
        "unexpected annotations: KeyError: 'timestamps'",
        "expected 0 <= begin < end",
        "metadata.json",
    ):
        assert any(words in problem for problem in problems)
    (tmp_path / "v1_5/talking_to_other").mkdir()
    with pytest.raises(DataError, match="expected the items of Full-Duplex-Bench"):
        load(tmp_path / "talking_to_other")
