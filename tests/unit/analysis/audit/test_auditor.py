"""Audits of judges with known behaviour, on a synthetic run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from live_eval import registry
from live_eval.analysis.audit.auditor import AuditPlan, audit_run
from live_eval.analysis.summary.run_summary import summarise
from live_eval.audio import Audio
from live_eval.cli.audit import command
from live_eval.errors import DataError, FailureKind, JudgeError, PluginError, UsageError
from live_eval.judging import (
    ChatRequest,
    Failed,
    JudgedTurn,
    JudgeKind,
    Judgement,
    JudgeSpec,
    Need,
    OptionSpec,
    OutputSpec,
    Scored,
    Unscored,
)
from live_eval.recording import RunReader, RunWriter, ScoreReader
from live_eval.report.build import write_report
from live_eval.scoring.judge_runner import JudgeOptions
from live_eval.scoring.llm import LlmOptions
from live_eval.scoring.scoring_run import score_run
from live_eval.testing.judges import speechlike
from live_eval.types import Case, CoarseDimension, Cue, Failure, Variant
from tests.support.fake_model import PAIRWISE, FakeEndpoint
from tests.support.records import TurnPlan, spoken_turn

SCRIPTS = 9
CUES = ("happy", "sad", "angry")


class Toy:
    """A local judge that applies a function from a table."""

    judge: ClassVar[Callable[[JudgedTurn, int], Judgement]]
    batches: ClassVar[list[list[JudgedTurn]]]

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        self.batches.append(list(batch))
        return [type(self).judge(turn, len(batch)) for turn in batch]


def crossings(turn: JudgedTurn, company: int) -> Judgement:
    """A judge that detects hiss by its zero crossings, which neither clipping nor level changes affect."""
    assert turn.reply is not None
    signs = np.signbit(turn.reply.samples)
    return Scored({"": -100 * float(np.mean(signs[1:] != signs[:-1]))})


class Wording:
    """An LLM judge that asks how kind the text is."""

    def request(self, turn: JudgedTurn) -> ChatRequest:
        return ChatRequest(messages=[{"role": "user", "content": turn.reply_text}], model="toy")

    def parse(self, answer: str) -> Judgement:
        return Scored({"": float(answer)}) if answer.strip().isdigit() else Failed("expected a number")


LOCAL = JudgeSpec(
    name="toy",
    version="7",
    title="a toy",
    kind=JudgeKind.LOCAL,
    implementation=f"{__name__}:Toy",
    outputs=(OutputSpec(name="", title="toy"),),
    needs=frozenset({Need.REPLY_AUDIO}),
)
LLM = replace(
    LOCAL,
    kind=JudgeKind.LLM,
    implementation=f"{__name__}:Wording",
    needs=frozenset({Need.REPLY_TEXT}),
    model="toy",
)
OPTIONS = JudgeOptions(llm=LlmOptions(base_url="http://127.0.0.1:9/v1"))
SPECS: dict[str, JudgeSpec] = {}


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    Toy.judge, Toy.batches = staticmethod(crossings), []
    FakeEndpoint.answer, FakeEndpoint.calls = staticmethod(lambda content: "3"), []
    SPECS.clear()
    SPECS["toy"] = LOCAL
    known = registry.judge
    monkeypatch.setattr(registry, "judge", lambda name: SPECS.get(name) or known(name))
    monkeypatch.setattr("live_eval.scoring.llm.driver.ChatEndpoint", FakeEndpoint)
    # The vocoder is slow, and is tested with the degradations.
    for name in ("flatten", "resynthesise"):
        monkeypatch.setattr(f"live_eval.analysis.audit.probes.{name}", lambda reply: reply)


def words_of(script: int) -> str:
    return f"{CUES[script % 3]} reply number {script} with a few words in it"


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of nine scripts in two variants, and a turn that failed."""
    folder = tmp_path_factory.mktemp("captured")
    with RunWriter.create(folder / "run", {"seed": 1}) as run:
        for script in range(SCRIPTS):
            reference = folder / f"reference{script}.wav"
            soundfile.write(reference, speechlike(0.7 + 0.01 * script, 16_000).samples, 16_000)
            speaker = folder / f"speaker{script}.wav"
            soundfile.write(speaker, speechlike(0.8 + 0.01 * script, 16_000).samples, 16_000)
            attribute = CUES[script % 3]
            for variant in (Variant.TARGET, Variant.NEUTRAL):
                cue = Cue(f"{attribute} voice", attribute, "emotion", CoarseDimension.PARALINGUISTIC)
                case = Case(
                    case_id=f"{script}/{variant}",
                    script_id=str(script),
                    variant=variant,
                    audio_path=speaker,
                    text=f"Script {script}.",
                    cue=cue if variant is Variant.TARGET else None,
                    reference_text=f"A few words in a reference reply number {script}",
                    reference_audio_path=reference,
                )
                reply = speechlike(1.0 + 0.05 * script, 16_000)
                run.commit(
                    spoken_turn(case, TurnPlan(reply_text=words_of(script)), reply=reply, rate_hz=16_000)
                )
        case = replace(case, case_id="failed", script_id="failed")
        refused = Failure(FailureKind.CONNECTION_REFUSED, "nobody there")
        run.commit(spoken_turn(case, TurnPlan(first_byte_ms=None, failure=refused)))
        run.end(finished=True)
    return folder / "run"


@pytest.fixture
def run(captured: Path, tmp_path: Path) -> Path:
    return shutil.copytree(captured, tmp_path / "run")


def verdicts(report: Mapping[str, Any], output: str = "toy") -> dict[str, str]:
    return {
        name: one["outputs"][output]["verdict"] for name, one in report["sensitivity"]["degradations"].items()
    }


class TestLocal:
    def test_a_consistent_judge_that_is_deaf_to_clipping(self, run: Path) -> None:
        report = audit_run(run, "toy")
        assert (report["judge"], report["version"], report["kind"]) == ("toy", "7", "local")
        assert set(report) == {"judge", "version", "kind", "consistency", "sensitivity"}
        turns = report["consistency"]["turns"]
        assert (turns["total"], turns["asked"]) == (2 * SCRIPTS + 1, 2 * SCRIPTS)
        assert turns["skipped"] == {"the turn failed: connection_refused": 1}
        assert report["consistency"]["outputs"]["toy"]["identical"] == 1
        found = verdicts(report)
        assert found["noise_10db"] == found["noise_0db"] == "sees"
        assert found["clipping"] == "does not see"
        assert set(found) == {"noise_10db", "noise_0db", "clipping", "dropouts", "flat"}
        clipped = report["sensitivity"]["degradations"]["clipping"]["outputs"]["toy"]
        assert clipped["difference"]["value"] == 0
        assert clipped["n"] == 2 * SCRIPTS

    def test_flat_delivery_is_compared_with_the_vocoder(
        self, run: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def quieter(by: float) -> Callable[[Audio], Audio]:
            return lambda reply: Audio(reply.samples * np.float32(by), reply.rate_hz)

        monkeypatch.setattr("live_eval.analysis.audit.probes.flatten", quieter(0.25))
        monkeypatch.setattr("live_eval.analysis.audit.probes.resynthesise", quieter(0.5))

        def peak(turn: JudgedTurn, company: int) -> Judgement:
            assert turn.reply is not None
            return Scored({"": float(np.abs(turn.reply.samples).max())})

        Toy.judge = staticmethod(peak)
        report = audit_run(run, "toy", AuditPlan(parts=("sensitivity",)))
        flat = report["sensitivity"]["degradations"]["flat"]
        assert "artefacts" in flat["held_against"]
        assert flat["outputs"]["toy"]["difference"]["value"] == pytest.approx(-0.25 * 0.25, abs=1e-3)
        # Each turn unchanged, with five degradations, and the control.
        assert sum(map(len, Toy.batches)) == 7 * 2 * SCRIPTS

    def test_direction_turns_the_verdict(self, run: Path) -> None:
        SPECS["toy"] = replace(LOCAL, outputs=(replace(LOCAL.outputs[0], higher_is_better=False),))
        assert verdicts(audit_run(run, "toy"))["noise_0db"] == "prefers"

    def test_a_noisy_judge(self, run: Path) -> None:
        random = np.random.default_rng(0)
        Toy.judge = staticmethod(
            lambda turn, company: Scored({"": len(turn.turn_id) + random.normal(0, 0.5)})
        )
        plan = AuditPlan(parts=("consistency",), repeats=30)
        found = audit_run(run, "toy", plan)["consistency"]["outputs"]["toy"]
        assert found["identical"] == 0
        assert found["sd_within"] == pytest.approx(0.5, abs=0.04)
        assert found["worst"]["turn_id"].endswith(("target", "neutral"))

    def test_a_judge_whose_scores_depend_on_the_batch(self, run: Path) -> None:
        Toy.judge = staticmethod(lambda turn, company: Scored({"": float(company == 1)}))
        plan = AuditPlan(parts=("consistency",), repeats=2)
        assert audit_run(run, "toy", plan)["consistency"]["outputs"]["toy"]["identical"] == 0
        assert sorted({len(batch) for batch in Toy.batches}) == [1, 2, 16]

    def test_turns_are_chosen_evenly_by_script(self, run: Path) -> None:
        plan = AuditPlan(parts=("consistency",), limit=SCRIPTS + 2)
        report = audit_run(run, "toy", plan)
        asked = list(Toy.batches[0])
        scripts = [turn.case.script_id for turn in asked]
        assert len(asked) == report["consistency"]["turns"]["asked"] == SCRIPTS + 2
        assert len(set(scripts)) == SCRIPTS
        chosen = {turn.turn_id for turn in asked}
        Toy.batches = []
        audit_run(run, "toy", plan)
        assert {turn.turn_id for turn in Toy.batches[0]} == chosen
        Toy.batches = []
        audit_run(run, "toy", replace(plan, seed=1))
        assert {turn.turn_id for turn in Toy.batches[0]} != chosen

    def test_a_failed_turn_does_not_stop_the_audit(self, run: Path) -> None:
        def judge(turn: JudgedTurn, company: int) -> Judgement:
            if turn.turn_id == "3/target":
                raise ValueError("no")
            return crossings(turn, company) if turn.turn_id != "4/target" else Unscored("too odd")

        Toy.judge = staticmethod(judge)
        report = audit_run(run, "toy")
        for part in (report["consistency"], report["sensitivity"]["degradations"]["noise_0db"]):
            assert part["outputs"]["toy"]["n"] == 2 * SCRIPTS - 2
            assert part["reasons"]["too odd"] == part["n_unscored"]
            assert part["reasons"]["the judge raised ValueError: no"] == part["n_failed"]
        assert report["consistency"]["n_failed"] == 3
        assert verdicts(report)["noise_0db"] == "sees"

    def test_a_turn_that_is_not_always_scored_is_counted(self, run: Path) -> None:
        Toy.judge = staticmethod(lambda turn, company: Scored({"": 1.0}) if company > 1 else Failed("alone"))
        report = audit_run(run, "toy", AuditPlan(parts=("consistency",)))
        assert report["consistency"]["n_unsteady"] == 2 * SCRIPTS

    @pytest.mark.parametrize("sign", [1, -1])
    def test_an_output_without_direction_notices_any_change(self, run: Path, sign: int) -> None:
        def judge(turn: JudgedTurn, company: int) -> Judgement:
            heard = crossings(turn, company)
            assert isinstance(heard, Scored)
            return Scored({"": sign * heard.values[""]})

        Toy.judge = staticmethod(judge)
        SPECS["toy"] = replace(LOCAL, outputs=(replace(LOCAL.outputs[0], higher_is_better=None),))
        report = audit_run(run, "toy", AuditPlan(parts=("sensitivity",)))
        assert verdicts(report)["noise_0db"] == "sees"
        assert verdicts(report)["clipping"] == "does not see"
        hiss = report["sensitivity"]["degradations"]["noise_0db"]["outputs"]["toy"]
        assert sign * hiss["difference"]["value"] < 0
        assert hiss["worse"] is None
        shown = CliRunner().invoke(command, ["toy", str(run), "--parts", "sensitivity"], prog_name="audit")
        assert "noise 0 dB" in shown.stdout
        assert shown.exit_code == 0

    def test_parts_that_are_not_asked_for_are_kept(self, run: Path) -> None:
        audit_run(run, "toy", AuditPlan(parts=("consistency",)))
        report = audit_run(run, "toy", AuditPlan(parts=("sensitivity",)))
        assert {"consistency", "sensitivity"} < set(report)
        with ScoreReader.open(run) as scores:
            [audit] = scores.audits()
        assert audit.report == json.loads(json.dumps(report))
        SPECS["toy"] = replace(LOCAL, version="8")
        assert "sensitivity" not in audit_run(run, "toy", AuditPlan(parts=("consistency",)))


class TestBorrowing:
    def test_a_judge_of_the_cue_sees_a_wrong_one(self, run: Path) -> None:
        SPECS["toy"] = replace(LOCAL, needs=frozenset({Need.REPLY_TEXT, Need.CUE}))
        Toy.judge = staticmethod(
            lambda turn, company: Scored(
                {"": float((turn.reply_text or "").startswith(turn.case.cue.attribute))}
            )
        )
        report = audit_run(run, "toy", AuditPlan(parts=("sensitivity",)))
        # For most turns, the words of another script have another cue; the shuffle moves the first word.
        assert verdicts(report) == {
            "wrong_emotion": "sees",
            "other_words": "sees",
            "shuffled_words": "sees",
            "half_the_words": "does not see",
        }
        wrong = report["sensitivity"]["degradations"]["wrong_emotion"]["outputs"]["toy"]
        assert wrong["n"] == SCRIPTS  # turns with a cue
        assert wrong["difference"]["value"] == -1

    @pytest.mark.parametrize("hears", [False, True])
    def test_donated_inputs_are_from_one_turn(self, run: Path, hears: bool) -> None:
        uses = {Need.CUE, Need.REFERENCE_AUDIO, *([Need.SPEAKER_AUDIO] if hears else [])}
        SPECS["toy"] = replace(LOCAL, uses=frozenset(uses))
        Toy.judge = staticmethod(lambda turn, company: Scored({"": 1.0}))
        audit_run(run, "toy", AuditPlan(parts=("sensitivity",)))
        plain = {turn.turn_id: turn for turn in Toy.batches[0] + Toy.batches[-2]}
        lent = [
            turn
            for batch in Toy.batches
            for turn in batch
            if turn.case.cue and plain.get(turn.turn_id, turn).case.cue != turn.case.cue
        ]
        assert lent
        for turn in lent:
            assert turn.case.cue is not None
            script = int(turn.case.script_id)
            donor = Path(str(turn.case.reference_audio_path)).stem.removeprefix("reference")
            assert donor != str(script)
            assert CUES[int(donor) % 3] == turn.case.cue.attribute != CUES[script % 3]
            assert turn.reference is not None
            assert turn.reference.duration_ns == pytest.approx(0.7e9 + 1e7 * int(donor), abs=1e6)
            assert turn.case.text == f"Script {donor if hears else script}."
            assert (turn.speaker is not None) == hears
            if turn.speaker is not None:
                assert turn.speaker.duration_ns == pytest.approx(0.8e9 + 1e7 * int(donor), abs=1e6)

    def test_without_another_turn_there_is_no_donor(self, run: Path) -> None:
        SPECS["toy"] = replace(LOCAL, needs=frozenset({Need.HEARD_TEXT}), uses=frozenset({Need.CUE}))
        Toy.judge = staticmethod(lambda turn, company: Scored({"": float(len(turn.heard_text or ""))}))
        report = audit_run(run, "toy", AuditPlan(parts=("sensitivity",)))
        wrong = report["sensitivity"]["degradations"]["wrong_emotion"]
        assert wrong["reasons"] == {"no other turn for another turn's cue": SCRIPTS}
        assert verdicts(report)["half_the_words"] == "sees"
        assert verdicts(report)["wrong_emotion"] == "does not see"


class TestModels:
    def test_every_repeat_asks_the_model_and_a_second_audit_does_not(self, run: Path) -> None:
        SPECS["toy"] = LLM
        counted = {"n": 0}

        def answer(content: str) -> str:
            counted["n"] += 1
            return str(counted["n"] % 5)

        FakeEndpoint.answer = staticmethod(answer)
        plan = AuditPlan(parts=("consistency",), repeats=4, limit=SCRIPTS)
        first = audit_run(run, "toy", plan, options=OPTIONS)
        assert len(FakeEndpoint.calls) == 4 * SCRIPTS
        assert first["consistency"]["usage"]["calls"] == 4 * SCRIPTS
        assert first["consistency"]["outputs"]["toy"]["identical"] < 0.5
        second = audit_run(run, "toy", plan, options=OPTIONS)
        assert len(FakeEndpoint.calls) == 4 * SCRIPTS
        assert second["consistency"]["usage"]["cached"] == 4 * SCRIPTS
        assert second["consistency"]["outputs"] == first["consistency"]["outputs"]
        audit_run(run, "toy", replace(plan, again=True), options=OPTIONS)
        assert len(FakeEndpoint.calls) == 7 * SCRIPTS

    def test_the_first_repeat_reuses_the_answer_of_scoring(self, run: Path) -> None:
        SPECS["toy"] = LLM
        score_run(run, ["toy"], options=OPTIONS)
        scored = len(FakeEndpoint.calls)
        audit_run(run, "toy", AuditPlan(parts=("consistency",), repeats=2, limit=5), options=OPTIONS)
        assert len(FakeEndpoint.calls) == scored + 5

    def test_sensitivity_to_words(self, run: Path) -> None:
        SPECS["toy"] = LLM
        FakeEndpoint.answer = staticmethod(lambda content: str(len(content.split())))
        found = verdicts(audit_run(run, "toy", AuditPlan(parts=("sensitivity",)), options=OPTIONS))
        assert found["half_the_words"] == "sees"
        assert found["shuffled_words"] == "does not see"

    def test_a_spent_budget_is_reported(self, run: Path) -> None:
        SPECS["toy"] = LLM
        options = replace(OPTIONS, llm=replace(OPTIONS.llm, max_calls=3))
        report = audit_run(run, "toy", AuditPlan(parts=("consistency",)), options=options)
        assert len(FakeEndpoint.calls) == 3
        assert report["consistency"]["reasons"]["the budget is spent: 3 calls"] > 0

    def test_a_model_that_does_not_answer_in_json(self, run: Path) -> None:
        SPECS["toy"] = LLM
        FakeEndpoint.answer = staticmethod(lambda content: "well")
        report = audit_run(run, "toy", AuditPlan(parts=("consistency",), repeats=2, limit=3), options=OPTIONS)
        assert report["consistency"]["n_failed"] == 6
        assert report["consistency"]["outputs"]["toy"]["n"] == 0


class TestPairs:
    def test_a_judge_that_always_chooses_the_first(self, run: Path) -> None:
        SPECS["toy"] = PAIRWISE
        FakeEndpoint.answer = staticmethod(lambda content: "1")
        report = audit_run(run, "toy", options=OPTIONS)
        assert set(report) == {"judge", "version", "kind", "consistency", "order", "sensitivity"}
        order = report["order"]
        assert order["held_against"] == "the reference replies"
        assert (order["flipped"]["value"], order["position"]["value"]) == (1, 1)
        assert order["preference"]["value"] == 0
        assert report["consistency"]["outputs"]["toy"]["identical"] == 1
        assert set(verdicts(report).values()) == {"does not see"}

    def test_a_fair_judge_of_length(self, run: Path) -> None:
        def longer(content: str) -> str:
            first, second = map(len, map(str.split, content.split("|")))
            return str((first > second) - (first < second))

        SPECS["toy"] = PAIRWISE
        FakeEndpoint.answer = staticmethod(longer)
        report = audit_run(run, "toy", options=OPTIONS)
        assert report["order"]["flipped"]["value"] == 0
        assert report["order"]["preference"]["value"] == 1  # the reference replies are short
        found = verdicts(report)
        assert found["half_the_words"] == "sees"
        assert found["shuffled_words"] == "does not see"
        half = report["sensitivity"]["degradations"]["half_the_words"]["outputs"]["toy"]
        assert half["difference"]["value"] == -1

    def test_two_runs(self, run: Path, captured: Path) -> None:
        SPECS["toy"] = PAIRWISE
        FakeEndpoint.answer = staticmethod(lambda content: "0")
        plan = AuditPlan(parts=("order",), against_run=captured, limit=4)
        order = audit_run(run, "toy", plan, options=OPTIONS)["order"]
        assert (order["held_against"], order["n"], order["ties"]) == ("run", 4, 1)
        assert all(len(set(content.split("|"))) == 1 for content in FakeEndpoint.calls)

    def test_pairwise_judges_have_no_scores_to_compare(self, run: Path, tmp_path: Path) -> None:
        SPECS["toy"] = PAIRWISE
        for plan in (AuditPlan(against="bleu"), AuditPlan(labels=tmp_path / "labels.csv")):
            with pytest.raises(UsageError, match="compares replies"):
                audit_run(run, "toy", plan, options=OPTIONS)


class TestStored:
    def test_labels_and_another_judge(self, run: Path, tmp_path: Path) -> None:
        score_run(run, ["toy", "bleu"])
        with ScoreReader.open(run) as scores:
            given = {row.turn_id: row.values[""] for row in scores.read(["toy"]) if row.values}
        labels = tmp_path / "people.csv"
        rows = [f"{turn_id},{value}" for turn_id, value in given.items()]
        labels.write_text("\n".join(["turn_id,score", *rows, "elsewhere,3"]))
        Toy.batches = []
        plan = AuditPlan(parts=("agreement", "against"), labels=labels, against="bleu")
        report = audit_run(run, "toy", plan)
        assert Toy.batches == []  # no model was called
        people = report["agreement"]["outputs"]["toy"]
        assert people["spearman"]["value"] == pytest.approx(1)
        assert people["spearman"]["scripts"] == SCRIPTS
        assert report["agreement"]["n_unknown"] == 1
        assert report["against"]["judge"] == "bleu"
        assert report["against"]["pairs"][0]["outputs"] == ["toy", "bleu"]

    def test_mistakes_are_reported_before_any_request(self, run: Path, tmp_path: Path) -> None:
        labels = tmp_path / "people.csv"
        labels.write_text("turn_id,score\n0/target,good\n")
        with pytest.raises(UsageError, match="no scores from toy version 7; to add them: live-eval score"):
            audit_run(run, "toy", AuditPlan(labels=labels))
        score_run(run, ["toy"])
        Toy.batches = []
        with pytest.raises(DataError, match=r"people\.csv:2"):
            audit_run(run, "toy", AuditPlan(labels=labels))
        with pytest.raises(UsageError, match="has no scores from bleu"):
            audit_run(run, "toy", AuditPlan(against="bleu"))
        assert Toy.batches == []

    @pytest.mark.parametrize(
        ("plan", "problem"),
        [
            (AuditPlan(parts=("sense",)), "unknown part 'sense'; expected one of consistency, order"),
            (AuditPlan(parts=("order",)), "judges single turns"),
            (AuditPlan(parts=("agreement",)), "--labels"),
            (AuditPlan(parts=("against",)), "--against"),
            (AuditPlan(against_run=Path("x")), "judges single turns"),
            (AuditPlan(parts=("consistency",), repeats=1), "at least 2"),
        ],
    )
    def test_impossible_parts_are_refused(self, run: Path, plan: AuditPlan, problem: str) -> None:
        with pytest.raises(UsageError, match=problem):
            audit_run(run, "toy", plan)

    def test_impossible_judges_are_refused(self, run: Path) -> None:
        with pytest.raises(PluginError):
            audit_run(run, "nobody")
        SPECS["toy"] = replace(LOCAL, packages=("no_such_package",))
        with pytest.raises(JudgeError, match="cannot run here: missing package no_such_package"):
            audit_run(run, "toy")
        SPECS["toy"] = replace(LOCAL, options=(OptionSpec(name="odd", help=""),))
        with pytest.raises(JudgeError, match="cannot be loaded"):
            audit_run(run, "toy")


class TestReal:
    """Shipped judges, on audio that hardly resembles speech and on real text."""

    @pytest.mark.slow
    def test_dnsmos_hears_noise(self, run: Path) -> None:
        report = audit_run(run, "dnsmos", AuditPlan(repeats=2, limit=2))
        assert report["consistency"]["outputs"]["dnsmos.ovrl"]["identical"] == 1
        assert report["consistency"]["n_failed"] == 0
        found = report["sensitivity"]["degradations"]["noise_0db"]["outputs"]
        assert found["dnsmos.bak"]["difference"]["value"] < -0.5
        assert found["dnsmos.bak"]["worse"] == 1
        assert (found["dnsmos.p808"]["n"], found["dnsmos.p808"]["verdict"]) == (2, "too few to say")

    def test_bleu_reads_words_and_their_order(self, run: Path) -> None:
        report = audit_run(run, "bleu", AuditPlan(limit=0))
        assert report["consistency"]["outputs"]["bleu"]["identical"] == 1
        assert set(report["sensitivity"]["degradations"]) == {
            "other_words",
            "shuffled_words",
            "half_the_words",
        }
        assert verdicts(report, "bleu")["other_words"] == "sees"


class TestShown:
    def test_audits_are_shown_next_to_the_scores(self, run: Path) -> None:
        score_run(run, ["toy"])
        audit_run(run, "toy")
        with RunReader.open(run) as reader:
            found = summarise(reader).audits["toy"]
        assert found.repeats == f"identical ({2 * SCRIPTS} turns, 3 times)"
        assert "noise 10 dB, noise 0 dB" in found.sees
        assert "clipping 10 %" in found.does_not_see
        assert (found.order, found.labels, found.other_judge, found.n_failed) == ("–", "none", "–", 0)
        page, markdown = (write_report([run], form=form) for form in ("html", "md"))
        assert page is not None
        assert markdown is not None
        for text in (page, markdown):
            assert "Audits of the judges" in text
            assert found.sees in text
        as_json = write_report([run], form="json")
        assert as_json is not None
        assert json.loads(as_json)["runs"][0]["audits"]["toy"]["repeats"] == found.repeats

    def test_an_audit_of_an_older_version_is_not_shown(self, run: Path) -> None:
        audit_run(run, "toy", AuditPlan(parts=("consistency",)))
        SPECS["toy"] = replace(LOCAL, version="8")
        score_run(run, ["toy"])
        with RunReader.open(run) as reader:
            assert summarise(reader).audits == {}

    def test_the_command(self, run: Path) -> None:
        done = CliRunner().invoke(command, ["toy", str(run), "--limit", "12", "--parts", "consistency"])
        assert done.exit_code == 0, done.output
        assert "identical (12 turns, 3 times)" in done.stdout
        assert "12 of 19 turns, evenly by script" in done.stdout

    def test_the_command_as_json_with_failures(self, run: Path) -> None:
        Toy.judge = staticmethod(lambda turn, company: Failed("broken"))
        done = CliRunner().invoke(command, ["toy", str(run), "--json", "--seed", "4"])
        assert done.exit_code == 3, done.output
        report = json.loads(done.stdout)
        assert report["sensitivity"]["seed"] == 4
        assert verdicts(report)["clipping"] == "too few to say"

    def test_the_command_prints_the_detected_degradations(self, run: Path) -> None:
        done = CliRunner().invoke(command, ["toy", str(run), "--limit", str(SCRIPTS)])
        assert done.exit_code == 0, done.output
        assert "noise 0 dB" in done.stdout
        assert "does not see" in done.stdout
