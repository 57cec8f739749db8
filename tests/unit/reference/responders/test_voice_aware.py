"""The replier that comments on the user's voice."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from live_eval.audio import Audio, Codec, CodecName
from live_eval.reference.engine.conversation_items import ItemContent, Role
from live_eval.reference.responders.responder import ReplyLine
from live_eval.reference.responders.voice_aware import NoticingReplier, measure_delivery, remark
from live_eval.run.prompts import instructions_for, load_prompt
from live_eval.testing.judges import speechlike
from live_eval.types import Case, Task, Variant

PCM = Codec(CodecName.PCM16, 24_000)


def voiced(seconds: float, hz: float, level: float) -> Audio:
    """Return a buzz of harmonics, modulated like syllables."""
    at = np.arange(round(seconds * 24_000)) / 24_000
    buzz = sum(np.sin(2 * np.pi * hz * k * at) / k for k in range(1, 12))
    sound = level * buzz / np.abs(buzz).max()
    return Audio(sound.astype(np.float32), 24_000)


@pytest.mark.parametrize("hz", [100, 180, 300])
def test_pitch_level_and_pace_are_measured(hz: int) -> None:
    quiet = np.zeros(24_000, np.float32)
    speech = voiced(2.0, hz, 0.2)
    delivery = measure_delivery(Audio(np.concatenate([quiet, speech.samples, quiet]), 24_000), words=8)
    assert delivery is not None
    assert delivery.pitch_hz == pytest.approx(hz, rel=0.03)
    assert delivery.words_per_s == pytest.approx(4, rel=0.05)
    expected = 10 * np.log10(np.mean(np.square(speech.samples)))
    assert delivery.level_dbfs == pytest.approx(expected, abs=0.5)


def test_silent_or_short_speech_has_no_delivery() -> None:
    assert measure_delivery(Audio(np.zeros(24_000, np.float32), 24_000), 1) is None
    assert measure_delivery(Audio(np.zeros(0, np.float32), 24_000), 1) is None
    assert measure_delivery(speechlike(0.1), 1) is None


class Says:
    """A responder with a constant reply."""

    def __init__(self) -> None:
        self.closed = False

    async def reply(self, said: Sequence[ItemContent], instructions: str) -> ReplyLine:
        return ReplyLine("", "All right.")

    async def close(self) -> None:
        self.closed = True


def told(audio: Audio, text: str = "one two three four", instructions: str = "") -> str:
    utterance = ItemContent(Role.USER, text, speech=((audio.int16().tobytes(), PCM),))
    return asyncio.run(NoticingReplier(Says()).reply([utterance], instructions)).reply


def test_the_same_words_in_another_voice_get_another_reply() -> None:
    plain = told(voiced(0.9, 180, 0.2))
    assert plain == "All right."
    assert told(voiced(0.9, 180, 0.01)) == "You speak so quietly. All right."
    assert told(voiced(2.4, 180, 0.2)) == "You speak so slowly. All right."
    assert told(voiced(0.5, 180, 0.2)) == "You speak so fast. All right."
    assert told(voiced(0.9, 100, 0.2)) == "You speak in such a low voice. All right."
    assert told(voiced(0.9, 300, 0.2)) == "You speak in such a high voice. All right."


def test_only_the_last_utterance_gets_a_comment() -> None:
    loud, quiet = (voiced(0.9, 180, level).int16().tobytes() for level in (0.2, 0.01))
    said = [
        ItemContent(Role.USER, "one two three four", speech=((quiet, PCM),)),
        ItemContent(Role.ASSISTANT, "Yes."),
        ItemContent(Role.USER, "one two", speech=((loud[: len(loud) // 2 // 2 * 2], PCM),)),
        ItemContent(Role.USER, "three four", speech=((loud[len(loud) // 2 // 2 * 2 :], PCM),)),
    ]
    assert asyncio.run(NoticingReplier(Says()).reply(said, "")).reply == "All right."
    assert asyncio.run(NoticingReplier(Says()).reply(said[:1], "")).reply.startswith("You speak so quietly")


def test_text_gets_no_comment() -> None:
    said = [ItemContent(Role.USER, "hello")]
    assert asyncio.run(NoticingReplier(Says()).reply(said, "")).reply == "All right."


def test_repetition_gets_no_comment() -> None:
    case = Case(
        case_id="t", script_id="t", variant=Variant.TARGET, audio_path=Path("x.wav"), task=Task.TRANSCRIPTION
    )
    instructions = instructions_for(case, load_prompt("no"))
    assert told(voiced(0.9, 180, 0.01), instructions=instructions) == "All right."
    assert told(voiced(0.9, 180, 0.01), instructions="A. yes\nB. no") == "All right."


def test_closing_closes_the_other_replier() -> None:
    other = Says()
    asyncio.run(NoticingReplier(other).close())
    assert other.closed


def test_a_remark_is_one_sentence() -> None:
    delivery = measure_delivery(voiced(3.0, 90, 0.01), words=4)
    assert delivery is not None
    assert remark(delivery) == "You speak so quietly and so slowly and in such a low voice."
