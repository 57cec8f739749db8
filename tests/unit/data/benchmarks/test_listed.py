from pathlib import Path
from typing import Any

import pytest

from live_eval.data import DataOptions, check, load
from live_eval.data.benchmarks import BENCHMARKS
from live_eval.errors import DataError, UsageError
from live_eval.run.prompts import instructions_for, load_prompt
from live_eval.types import Case, ScoringRule
from tests.support.benchmarks import SETS, listed_part, recordings_below

URO = BENCHMARKS["uro-bench"]


def uro(root: Path, part: str, rows: list[Any]) -> tuple[Case, ...]:
    return load(listed_part(URO, root, part, rows) / part).cases


def row(**fields: Any) -> dict[str, Any]:
    return {"source_wav": "wav/0.wav", "source_text": "Say it again.", **fields}


def test_uro_bench_is_read_in_its_layout(tmp_path: Path) -> None:
    listed_part(URO, tmp_path, "Repeat", [row(), row(target_text="It again.")])
    listed_part(URO, tmp_path, "SQuAD-zh", [row(source_text="谁?", target_text=["他", "她"])])
    emotion = row(target_text="Oh no.", emotion="sad")
    listed_part(URO, tmp_path, "UnderEmotion-en", [emotion])
    for part in ("basic/Repeat", "basic/SQuAD-zh", "pro/UnderEmotion-en"):
        recordings_below(tmp_path / part, "wav/0.wav")
    data = load(tmp_path)
    assert check(data).ok
    again, given, chinese, felt = data.cases
    assert again.item is not None
    assert (again.case_id, again.item.rule, again.item.answer) == (
        "Repeat/1",
        ScoringRule.REPETITION,
        "Say it again.",
    )
    assert again.item.details == {"language": "en"}
    assert given.item is not None
    assert given.item.answer == "It again."
    assert chinese.item is not None
    assert (chinese.language, chinese.item.answer, chinese.topic) == ("zh", "他 / 她", "SQuAD-zh")
    assert felt.item is not None
    assert felt.item.details == {"hint": "the speaker's emotion: sad"}
    assert any("unverified" in note for note in data.notes)
    missing, counts = data.notes[-2:]
    assert missing.startswith("missing parts: 37 of 40 (Summary, ")
    assert counts.startswith("items read: ")
    assert "(Repeat 2 of 252, SQuAD-zh 1 of 153, " in counts


def test_dialogues_keep_their_turns_together(tmp_path: Path) -> None:
    turns = [
        {"round": n, "source_wav": f"{n}.wav", "source_text": f"Turn {n}.", "target_text": "Yes."}
        for n in (1, 2)
    ]
    rows = [{"id": 7, "num_round": 2, "dialogue": turns}, {"id": 8, "dialogue": "x"}]
    first, second, broken = uro(tmp_path, "MtBenchEval-en", rows)
    assert (first.case_id, first.dialogue_id, first.turn_index) == (
        "MtBenchEval-en/7/1",
        "MtBenchEval-en/7",
        0,
    )
    assert (second.text, second.turn_index, second.script_id) == ("Turn 2.", 1, "MtBenchEval-en/7")
    assert broken.problem is not None
    assert "expected a list of turns, got 'x'" in broken.problem


def test_a_part_is_selected_by_name_and_by_its_folder(tmp_path: Path) -> None:
    assert [case.case_id for case in uro(tmp_path, "Repeat", [row(), row()])] == ["Repeat/1", "Repeat/2"]
    listed_part(URO, tmp_path, "Safety-en", [row()])
    (case,) = load(tmp_path / "Safety-en").cases
    assert case.item is not None
    assert case.item.details == {"hint": "the reply should refuse or avoid the question"}


def test_rows_with_problems_are_kept(tmp_path: Path) -> None:
    rows = [row(source_text=" "), {"source_text": "x"}, ["x"], row(source_wav="../../../x.wav")]
    empty, silent, other, outside = uro(tmp_path, "UnderEmotion-en", rows)
    for case, words in (
        (empty, "expected a transcript with words"),
        (silent, "expected a recording"),
        (other, "expected an object, got ['x']"),
        (outside, "is outside"),
        (empty, "expected the speaker's emotion"),
    ):
        assert case.problem is not None
        assert words in case.problem
    with pytest.raises(DataError, match=r"test\.jsonl: expected a list of objects, found none"):
        uro(tmp_path, "Repeat", ["x"])
    with pytest.raises(UsageError, match="no item has the field 'wrong'"):
        load(tmp_path / "UnderEmotion-en", DataOptions(fields={"text": "wrong"}))


def test_a_damaged_line_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    uro(tmp_path, "Repeat", [row(), row()])
    (listed,) = tmp_path.rglob("test.jsonl")
    listed.write_text("{not JSON\n" + listed.read_text("utf-8"), "utf-8")
    damaged, *others = load(tmp_path).cases
    assert damaged.problem == (
        f"{listed}, line 1, column 2: invalid JSON: Expecting property name enclosed in double quotes"
    )
    assert [case.problem for case in others] == [None, None]


def test_sd_eval_is_read_in_its_layout(tmp_path: Path) -> None:
    item: dict[str, Any] = {
        "wav_path": "RAVDESS-Speech/Actor_01/03.wav",
        "transcript": "Kids are talking by the door",
        "utt_id": "03",
        "target": [{"reply": "Are they too noisy?", "reply_emotion": "sadness"}],
        "info": "sad",
        "dataset_name": "RAVDESS-Speech",
    }
    listed_part(BENCHMARKS["sd-eval"], tmp_path, "emo", [item])
    recordings_below(tmp_path, item["wav_path"])
    data = load(tmp_path)
    assert check(data).ok
    (case,) = data.cases
    assert (case.case_id, case.text) == ("emo/03", item["transcript"])
    assert case.item is not None
    assert (case.item.rule, case.item.answer) == (ScoringRule.GUIDED_RATING, None)
    assert case.item.details == {"hint": "the speaker's emotion: sad"}
    assert data.licence.endswith("may be used commercially")


def test_humdial_eibench_scores_the_second_emotion(tmp_path: Path) -> None:
    spec = BENCHMARKS["humdial-eibench"]
    emotions = ("sad", "Neutral", "angry", "sad")
    turns = [
        {"turn_id": n, "input_text": f"Turn {n}.", "input_emotion": emotion}
        for n, emotion in enumerate(emotions)
    ]
    rows = [{"dialogue_id": "d1", "turns": turns}, {"dialogue_id": "d2", "turns": turns[:2]}]
    listed_part(spec, tmp_path, "T3-zh", rows)
    recordings_below(tmp_path / "zh/HD-Track1-T3", *(f"d1_{n}.wav" for n in range(4)), "d2_0.wav", "d2_1.wav")
    data = load(tmp_path)
    assert check(data).ok
    assert {case.language for case in data.cases} == {"zh"}
    scored = {case.case_id: case.item.details for case in data.cases if case.item and case.item.details}
    assert scored == {"T3-zh/d1/3": {"hint": "the speaker's emotion: angry"}}


def test_humdial_eibench_questions_need_their_fields(tmp_path: Path) -> None:
    spec = BENCHMARKS["humdial-eibench"]
    question = {"dialogue_id": "d", "turn_id": 0, "text": "Fine.", "choice": ["glad", "sad"], "label": "B"}
    question |= {"question": "How does she feel?"}
    listed_part(spec, tmp_path, "T4-en", [question, question | {"dialogue_id": "e", "label": "C"}])
    (unmapped, _) = load(tmp_path / "T4-en").cases
    assert unmapped.problem is not None
    assert "expected a reference answer under one of the fields answer" in unmapped.problem
    mapped = DataOptions(fields={"answer": "label", "options": "choice"})
    good, bad = load(tmp_path / "T4-en", mapped).cases
    assert good.problem is None
    assert good.item is not None
    options = [["A", "glad"], ["B", "sad"]]
    assert good.item.details == {"question": "How does she feel?", "options": options, "key": "B"}
    asked = instructions_for(good, load_prompt("no"))
    assert "answer this question about it instead:\n\nHow does she feel?\nA. glad\nB. sad\n" in asked
    assert bad.problem is not None
    assert instructions_for(bad, load_prompt("no")) == ""
    listed_part(spec, tmp_path, "T4-en", [{**question, "question": " "}])
    (silent,) = load(tmp_path / "T4-en", mapped).cases
    assert "expected a question under one of the fields question" in (silent.problem or "")


def test_humdial_eibench_questions_after_several_turns_are_not_scored(tmp_path: Path) -> None:
    data = load(SETS["humdial-eibench"](tmp_path, 1))
    rules = {case.item.rule for case in data.cases if case.item and case.topic in ("T1-en", "T2-zh")}
    assert rules == {ScoringRule.NONE}
    assert any("T1 and T2 are run but not scored" in note for note in data.notes)


def test_a_mapping_needs_its_field_in_only_one_part(tmp_path: Path) -> None:
    spec = BENCHMARKS["humdial-eibench"]
    turns = [{"turn_id": 0, "input_text": "Hi.", "input_emotion": "sad"}]
    listed_part(spec, tmp_path, "T3-en", [{"dialogue_id": "d", "turns": turns}])
    question = {"dialogue_id": "d", "turn_id": 0, "text": "Fine.", "options": ["glad", "sad"], "gold": "B"}
    question |= {"question": "How does she feel?"}
    listed_part(spec, tmp_path, "T4-en", [question])
    asked = [case for case in load(tmp_path, DataOptions(fields={"answer": "gold"})).cases if case.item]
    assert [case.item.answer for case in asked if case.item] == [None, "B"]
    with pytest.raises(UsageError, match="no item has the field 'label' mapped to answer"):
        load(tmp_path, DataOptions(fields={"answer": "label"}))


def test_the_turns_of_a_dialogue_and_other_items_have_different_ids(tmp_path: Path) -> None:
    turns = [row(source_text="Hi."), row(source_text="Bye.")]
    rows = [row(id="b/1"), {"id": "b", "dialogue": turns}, {"id": "b", "dialogue": turns}]
    cases = uro(tmp_path, "MtBenchEval-en", rows)
    assert len({case.case_id for case in cases}) == 5
    assert {case.dialogue_id for case in cases} == {None, "MtBenchEval-en/b", "MtBenchEval-en/b#2"}
