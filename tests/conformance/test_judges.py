"""Every shipped judge passes the conformance suite, and the suite finds defects."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from live_eval import registry
from live_eval.audio import Audio
from live_eval.judges.specs import BLEU
from live_eval.judging import (
    ChatRequest,
    Failed,
    JudgedTurn,
    JudgeKind,
    Judgement,
    JudgeSpec,
    Need,
    OutputSpec,
    Scored,
    Unscored,
)
from live_eval.scoring.judge_runner import JudgeOptions, load_judge
from live_eval.speech.recognition import Recogniser, Transcript
from live_eval.testing.judges import GARBAGE, check_judge
from live_eval.text.quoting import quoted

SHIPPED = [
    plugin.name for plugin in registry.find_plugins(registry.JUDGES) if plugin.distribution == "live-eval"
]

# Networks that take seconds to load.
HEAVY = {
    "distillmos": [pytest.mark.slow],
    "dnsmos": [pytest.mark.slow],
    "meteor": [pytest.mark.slow],
    "semsim": [pytest.mark.slow],  # tests/unit/judges/test_semsim.py checks its contract
    "transcription_semsim": [pytest.mark.slow],  # the same network
    "wer_spoken": [pytest.mark.slow, pytest.mark.local],
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=HEAVY.get(name, [])) for name in SHIPPED],
)
def test_a_shipped_judge_keeps_the_contract(name: str) -> None:
    spec = replace(registry.judge(name), key_variable=None)  # no model is called here
    lacking = registry.missing_requirements(spec)
    if lacking is not None:
        pytest.skip(f"lacks {lacking}")
    check_judge(spec, load_judge(spec, JudgeOptions()))


@pytest.mark.slow
@pytest.mark.local
def test_the_transcribing_judge_keeps_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cache transcripts, so that each recording is transcribed once; this takes a quarter of the time."""
    transcripts: dict[tuple[bytes, int], Transcript] = {}
    transcribe = Recogniser.transcribe

    def once(self: Recogniser, audio: Audio, **options: Any) -> Transcript:
        key = (audio.samples.tobytes(), audio.rate_hz)
        if key not in transcripts:
            transcripts[key] = transcribe(self, audio, **options)
        return transcripts[key]

    monkeypatch.setattr(Recogniser, "transcribe", once)
    test_a_shipped_judge_keeps_the_contract("wer_spoken")
    assert len(transcripts) >= 4


def length(turn: JudgedTurn) -> Judgement:
    """A trivial judge: the number of letters in the reply, at most 100."""
    return Scored({"": float(min(100, len(turn.reply_text or "")))})


class Local:
    """A judge that applies a function to each turn."""

    def __init__(self, judge: Callable[[JudgedTurn], Any]) -> None:
        self.judge = judge

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        return [self.judge(turn) for turn in batch]


class Moody(Local):
    """Gives a different score each time."""

    def __init__(self) -> None:
        self.moods = 0
        super().__init__(self._mood)

    def _mood(self, _: JudgedTurn) -> Judgement:
        self.moods = (self.moods + 1) % 50
        return Scored({"": float(self.moods)})


class Relative(Local):
    """Gives ranks within the batch instead of scores."""

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        order = sorted(len(turn.reply_text or "") for turn in batch)
        return [Scored({"": float(order.index(len(turn.reply_text or "")))}) for turn in batch]


class Forgetful(Local):
    """Returns no judgement for turns that it cannot judge."""

    def score(self, batch: Sequence[JudgedTurn]) -> list[Judgement]:
        return [self.judge(turn) for turn in batch if len(turn.reply_text or "") > 5]


def test_a_plain_judge_passes() -> None:
    check_judge(BLEU, Local(length))


@pytest.mark.parametrize(
    ("judge", "complaint"),
    [
        (Moody(), "repeated in another order"),
        (Relative(length), "expected"),
        (Forgetful(length), "judgements for"),
        (Local(lambda _: Scored({"": math.nan})), "got nan"),
        (Local(lambda _: Scored({"": 100.5})), "expected a finite number from 0 to 100"),
        (Local(lambda _: Scored({"bleu": 1.0})), "outputs"),
        (Local(lambda _: Scored({"": 1.0, "more": 1.0})), "outputs"),
        (Local(lambda _: Scored({"": 1.0}, {"at": {1, 2}})), "JSON"),
        (Local(lambda _: Unscored("never does")), "expected a score"),
        (Local(lambda turn: length(turn) if "ordinary" in turn.turn_id else Failed(" ")), "reason"),
        (Local(lambda _: None), "NoneType"),
    ],
)
def test_a_local_judge_that_breaks_the_contract_is_found(judge: Local, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_judge(BLEU, judge)


LLM = JudgeSpec(
    name="toy",
    version="1",
    title="a toy",
    kind=JudgeKind.LLM,
    implementation="nowhere:Nothing",
    outputs=(OutputSpec(name="", title="toy", low=1.0, high=5.0),),
    needs=frozenset({Need.REPLY_TEXT}),
)


class Asking:
    """A toy judge that parses {"score": 1 to 5}."""

    def request(self, turn: JudgedTurn) -> ChatRequest:
        return ChatRequest(messages=[{"role": "user", "content": quoted(turn.reply_text)}], model="toy-1")

    def parse(self, answer: str) -> Judgement:
        try:
            score = json.loads(answer)["score"]
            if isinstance(score, float | int) and 1 <= score <= 5:
                return Scored({"": float(score)})
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        return Failed(f"expected a score from 1 to 5, got {answer[:40]!r}")


class Trusting(Asking):
    """A judge that parses any text other than JSON as a 3."""

    def parse(self, answer: str) -> Judgement:
        judgement = super().parse(answer)
        return Scored({"": 3.0}) if isinstance(judgement, Failed) else judgement


class Chatty(Asking):
    """Sends a different prompt each time."""

    def __init__(self) -> None:
        self.asked = 0

    def request(self, turn: JudgedTurn) -> ChatRequest:
        self.asked += 1
        return ChatRequest(messages=[{"role": "user", "content": f"{self.asked}"}], model="toy-1")


class Raw(Asking):
    """Puts bytes into its request."""

    def request(self, turn: JudgedTurn) -> ChatRequest:
        return ChatRequest(messages=[{"role": "user", "content": b"sound"}], model="toy-1")


class Closable(Asking):
    """Puts the reply between delimiters that the reply can close."""

    def request(self, turn: JudgedTurn) -> ChatRequest:
        content = f"<reply>{turn.reply_text}</reply>"
        return ChatRequest(messages=[{"role": "user", "content": content}], model="toy-1")


class HalfQuoting(Asking):
    """Escapes only what JSON escapes."""

    def request(self, turn: JudgedTurn) -> ChatRequest:
        return ChatRequest(messages=[{"role": "user", "content": json.dumps(turn.reply_text)}], model="toy-1")


def test_an_llm_judge_is_checked_with_bad_and_good_answers() -> None:
    check_judge(LLM, Asking(), good_answers={'{"score": 4}': 4.0, '{"score": 1.5}': 1.5})
    assert len(GARBAGE) == len(set(GARBAGE))


@pytest.mark.parametrize(
    ("judge", "complaint"),
    [
        (Trusting(), "expected Failed"),
        (Chatty(), "an equal request on repetition"),
        (Raw(), "JSON values"),
        (Closable(), "'closing mark' only as a JSON string"),
        (HalfQuoting(), "only as a JSON string"),
    ],
)
def test_an_llm_judge_that_breaks_the_contract_is_found(judge: Asking, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_judge(LLM, judge)


class Comparing(Asking):
    """A toy judge of which reply is kinder; it rejects pairs that differ only in punctuation."""

    def request(self, first: JudgedTurn, second: JudgedTurn) -> ChatRequest:  # type: ignore[override]
        text = f"{quoted(first.reply_text)} or {quoted(second.reply_text)}?"
        return ChatRequest(messages=[{"role": "user", "content": text}], model="toy-1")

    def unscorable(self, turn: JudgedTurn) -> Unscored | None:
        return Unscored("no words") if "punctuation" in turn.turn_id else None


class Aloof(Comparing):
    """Rejects every pair."""

    def unscorable(self, turn: JudgedTurn) -> Unscored | None:
        return Unscored("not now")


class Terse(Comparing):
    """Gives no reason."""

    def unscorable(self, turn: JudgedTurn) -> Unscored | None:
        return Unscored(" ") if "long" in turn.turn_id else None


def test_a_pairwise_judge_follows_the_same_rules() -> None:
    pairwise = replace(LLM, kind=JudgeKind.PAIRWISE)
    check_judge(pairwise, Comparing(), good_answers={'{"score": 4}': 4.0})
    with pytest.raises(AssertionError, match="expected a request for"):
        check_judge(pairwise, Aloof())
    with pytest.raises(AssertionError, match="expected a reason"):
        check_judge(pairwise, Terse())


def test_misreading_a_good_answer_is_found() -> None:
    with pytest.raises(AssertionError, match=r"expected 5\.0, got 4\.0"):
        check_judge(LLM, Asking(), good_answers={'{"score": 4}': 5.0})
