"""A reply in pieces: sent, completed, interrupted and failed."""

from typing import Any

import pytest

from live_eval.reference.engine.engine import Engine, EngineConfig
from live_eval.reference.engine.events import (
    AudioPiece,
    DropUnplayed,
    FindReply,
    Output,
    ResponseEnded,
    TextPiece,
)
from live_eval.reference.engine.reply_plan import WireChunk, WireReply
from live_eval.reference.faults.fault_script import parse_faults
from live_eval.reference.settings import Cadence, ReferenceSettings
from live_eval.timing import ResponseStatus
from tests.support.marked_utterances import marked_utterance

MS = 1_000_000
ANSWERED_MS = 300


def piece(text: str, chunks: int = 10, *, last: bool = False) -> WireReply:
    return WireReply(text, (WireChunk(b"", 2_400),) * chunks, 24_000, 0, "detector", last=last)


class Host:
    """Return an engine whose user has just spoken."""

    def __init__(self, config: EngineConfig | None = None, **settings: Any) -> None:
        self.engine = Engine(
            "sess_0123456789abcdef",
            ReferenceSettings(calibrate=True, **settings),
            config,
            waits_for_words=False,
        )
        (self.asked,) = [each for each in self.speak(0) if isinstance(each, FindReply)]

    def speak(self, at_ms: int) -> list[Output]:
        pcm = marked_utterance((ANSWERED_MS,)).audio.int16().astype("<i2")
        return self.engine.audio(pcm.tobytes() + bytes(960), at_ms * MS)

    def take(self, reply: WireReply, at_ms: int) -> list[Output]:
        return self.engine.reply(self.asked.response_id, reply, at_ms * MS)

    def due(self, at_ms: int) -> list[Output]:
        out: list[Output] = []
        while self.engine.wake_ns is not None and self.engine.wake_ns <= at_ms * MS:
            out += self.engine.due(at_ms * MS)
        return out


def words(outputs: list[Output]) -> str:
    return "".join(output.text for output in outputs if isinstance(output, TextPiece))


def chunks(outputs: list[Output]) -> int:
    return sum(isinstance(output, AudioPiece) for output in outputs)


def statuses(outputs: list[Output]) -> list[ResponseStatus]:
    return [output.response.status for output in outputs if isinstance(output, ResponseEnded)]


def test_a_reply_is_sent_piece_by_piece() -> None:
    host = Host()
    assert not host.asked.whole
    host.take(piece("One two."), 10)
    sent = host.due(20)
    assert (words(sent), chunks(sent), statuses(sent)) == ("One two.", 10, [])
    assert host.engine.wake_ns is None  # nothing is due before the next piece
    assert host.take(piece(" Three.", last=True), 500) == []
    sent = host.due(500)
    assert (words(sent), chunks(sent), statuses(sent)) == (" Three.", 10, [ResponseStatus.COMPLETED])
    item = host.engine.conversation.get(host.engine.conversation.last_id or "")
    assert item is not None
    assert (item.parts[0].text, item.parts[0].audio_ms) == ("One two. Three.", 2_000)


def test_early_pieces_wait_until_they_are_due() -> None:
    host = Host(cadence=Cadence.REALTIME)
    host.take(piece("One."), 0)
    host.take(piece(" Two.", last=True), 5)
    assert chunks(host.due(950)) == 10
    assert host.engine.wake_ns == 1_000 * MS
    assert statuses(host.due(1_900)) == [ResponseStatus.COMPLETED]


def test_the_user_interrupts_between_two_pieces() -> None:
    host = Host()
    host.take(piece("One."), 0)
    host.due(10)
    stopped = host.speak(400)
    assert statuses(stopped) == [ResponseStatus.CANCELLED]
    assert any(isinstance(output, DropUnplayed) for output in stopped)
    assert host.take(piece(" Two.", last=True), 450) == []
    assert chunks(host.due(2_000)) == 0


def test_a_reply_can_fail_after_its_first_piece() -> None:
    host = Host()
    host.take(piece("One."), 0)
    host.due(10)
    failed = host.engine.reply_failed(host.asked.response_id, "voice_failed", "no voice")
    assert statuses(failed) == [ResponseStatus.FAILED]
    assert host.take(piece(" Two.", last=True), 20) == []


@pytest.mark.parametrize("settings", [{"faults": parse_faults("stall")}, {"stop_ms": 300}])
def test_settings_that_depend_on_the_length_need_a_whole_reply(settings: dict[str, Any]) -> None:
    assert Host(**settings).asked.whole
    assert Host(EngineConfig(max_output_tokens=50)).asked.whole
