"""The fuzzer finds planted defects and reproduces them by seed; a short run covers every dialect."""

from collections.abc import Sequence

import pytest

from live_eval.cassettes import Cassette, read_cassette
from live_eval.cassettes.player import Player
from live_eval.clients.dialects.openai_realtime import OpenAIRealtime
from live_eval.dialect import Message, Output, ReplyText, SessionReady
from live_eval.testing import ConformanceError
from live_eval.testing.fuzz import fuzz_dialect
from tests.support.bundled import DIALECTS, GOLDEN, SPECS, frame_samples

TURN = [read_cassette(GOLDEN / "openai" / "ordinary_turn.jsonl")]
GREAT = 10_000_000
FEW = ("openai", "gemini_live", "moshi", "twilio")
"""Dialects with JSON, JSON in binary, binary and telephony messages."""


@pytest.mark.parametrize("name", DIALECTS)
def test_damaged_sessions_break_no_rule(name: str) -> None:
    cassettes = [read_cassette(path) for path in sorted((GOLDEN / name).glob("*.jsonl"))]
    samples = frame_samples(name)
    played = fuzz_dialect(DIALECTS[name], cassettes, go_on=lambda count: count < 50, frame_samples=samples)
    assert played == 50


class Trusting(OpenAIRealtime):
    """A dialect that assumes that every message is an object with a type."""

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        if '"delta"' in str(message) and '"type"' not in str(message):
            raise KeyError("type")
        return super().received(message, at_ns)


class Repeating(OpenAIRealtime):
    """A dialect that reports every readiness event, including repeated ones."""

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        outputs = super().received(message, at_ns)
        if '"session.updated"' in str(message) and not outputs and self.ready:
            return [SessionReady()]
        return outputs


class Numbers(OpenAIRealtime):
    """A dialect that reports numbers instead of text."""

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        outputs = super().received(message, at_ns)
        return [
            ReplyText(output.response_id, 0.5)  # type: ignore[arg-type]
            if isinstance(output, ReplyText) and "0.5" in str(message)
            else output
            for output in outputs
        ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("defective", "words"),
    [
        (Trusting, "raised KeyError"),
        (Repeating, "ready twice"),
        (Numbers, r"ReplyText\.text to be <class 'str'>"),
    ],
)
def test_a_defect_is_found_and_found_again_by_its_seed(defective: type[OpenAIRealtime], words: str) -> None:
    with pytest.raises(ConformanceError, match=words) as found:
        fuzz_dialect(defective, TURN, go_on=lambda count: count < 20_000)
    seed = int(str(found.value).split(":")[0].removeprefix("seed "))
    with pytest.raises(ConformanceError) as again:
        fuzz_dialect(defective, TURN, go_on=lambda count: count < 1, seed=seed)
    assert str(again.value) == str(found.value)


@pytest.mark.parametrize(
    "name",
    [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in DIALECTS],
)
def test_a_message_of_10_mb_is_handled(name: str) -> None:
    mode = SPECS[name].turn_modes[0]
    for message in ('{"type":"' + "A" * GREAT + '"}', bytes(GREAT), '{"audio":"' + "A" * GREAT):
        player = Player(DIALECTS[name], Cassette(name, "", (), {"turn_mode": mode}))
        player.receive(message)
        player.close(1009, "message too big")
