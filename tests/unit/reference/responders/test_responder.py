import asyncio
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from live_eval.audio import Audio, Codec, CodecName
from live_eval.reference.engine.conversation_items import ItemContent, Role
from live_eval.reference.engine.events import FindReply
from live_eval.reference.engine.reply_plan import GeneratedReply
from live_eval.reference.engine.signals import calibration_reply
from live_eval.reference.responders.responder import (
    NOTHING_HEARD,
    CascadeResponder,
    FileResponder,
    ReplyLine,
    Responder,
    ScriptReplier,
    ToneResponder,
    scripts_of,
)
from live_eval.reference.settings import ReferenceSettings
from live_eval.speech.synthesis import Voice
from live_eval.timing import audible_onset
from live_eval.types import Case, Variant

LINES = [
    ReplyLine("Good morning... I've got the report ready for review.", "Thanks, I will look at it."),
    ReplyLine("My new phone arrived in the mail this afternoon.", "Nice. Do you want help setting it up?"),
    ReplyLine("Dinner is on the table and the soup is still warm.", "I am coming."),
]


def user(text: str | None) -> ItemContent:
    return ItemContent(Role.USER, text)


async def reply(*said: ItemContent) -> str:
    return (await ScriptReplier(LINES).reply(said, "")).reply


async def test_the_most_similar_script_answers() -> None:
    assert await reply(user("my new phone arrived in the mail this afternoon")) == LINES[1].reply
    assert await reply(user("Dinner's on the table, and the soup is warm!")) == LINES[2].reply


async def test_an_unknown_utterance_is_repeated() -> None:
    assert "Where is the station?" in await reply(user("Where is the station?"))


async def test_silence_gets_an_apology() -> None:
    assert await reply(user("  ")) == NOTHING_HEARD


async def test_only_the_last_turn_is_answered() -> None:
    said = (user("Dinner is on the table."), ItemContent(Role.ASSISTANT, "I am coming."), user(LINES[1].text))
    assert await reply(*said) == LINES[1].reply


async def test_an_utterance_split_by_a_pause_is_joined() -> None:
    lines = [*LINES, ReplyLine("I've got the ready meal", "Enjoy.")]
    early = ItemContent(Role.ASSISTANT, "Good morning to", cut_off=True)
    said = (user("Good morning."), early, user("I've got the report ready for review."))
    assert (await ScriptReplier(lines).reply(said, "")).reply == LINES[0].reply


async def test_words_before_a_breath_are_answered() -> None:
    talked_over = ItemContent(Role.ASSISTANT, LINES[0].reply, cut_off=True)
    assert await reply(user(LINES[0].text), talked_over, user("")) == LINES[0].reply
    assert await reply(user(LINES[0].text), ItemContent(Role.ASSISTANT, "x"), user("")) == NOTHING_HEARD


async def test_without_recognition_scripts_answer_in_turn() -> None:
    replier = ScriptReplier(LINES)
    said = [user(None)]
    assert [(await replier.reply(said, "")).reply for _ in range(4)] == [
        LINES[0].reply,
        LINES[1].reply,
        LINES[2].reply,
        LINES[0].reply,
    ]


def test_neutral_replies_come_first_and_cases_without_reply_are_skipped() -> None:
    def case(variant: Variant, text: str | None, reference: str | None) -> Case:
        return Case(
            case_id=f"1/{variant}",
            script_id="1",
            variant=variant,
            audio_path=Path("x.wav"),
            text=text,
            reference_text=reference,
        )

    lines = scripts_of(
        [
            case(Variant.TARGET, "a", "target"),
            case(Variant.NEUTRAL, "a", "neutral"),
            case(Variant.TARGET, "b", None),
        ]
    )
    assert [line.reply for line in lines] == ["neutral", "target"]


def answer(*, wants_audio: bool = True, whole: bool = True) -> FindReply:
    return FindReply(
        "resp_1", (user(None),), "", wants_audio, Codec(CodecName.PCM16, 24_000), 1.0, whole=whole
    )


async def whole(responder: Responder, request: FindReply, settings: ReferenceSettings) -> GeneratedReply:
    (reply,) = [piece async for piece in responder.reply(request, settings)]
    return reply


class Sentences(Voice):
    """A voice that records its texts, and speaks a tone after half a second of silence."""

    def __init__(self) -> None:
        self.spoken: list[str] = []

    def sentences(self, text: str) -> list[str]:
        return text.split("|")

    def speak(self, text: str, *, speed: float = 1.0) -> Audio:
        self.spoken.append(text)
        tone = calibration_reply(100)
        silence = np.zeros(tone.rate_hz // 2, np.float32)
        return Audio(np.concatenate((silence, tone.samples)), tone.rate_hz)


async def test_a_voice_speaks_sentence_by_sentence() -> None:
    voice = Sentences()
    cascade = CascadeResponder(ScriptReplier([ReplyLine("a", "One.|Two.|Three.")]), voice, hears_words=False)
    pieces = cascade.reply(answer(whole=False), ReferenceSettings())
    first = await anext(pieces)
    assert (first.text, first.last, voice.spoken) == ("One.", False, ["One."])
    assert [(piece.text, piece.last) async for piece in pieces] == [(" Two.", False), (" Three.", True)]
    found = await whole(cascade, answer(), ReferenceSettings())
    assert (found.text, found.last) == ("One.|Two.|Three.", True)
    await cascade.close()


async def test_a_reply_starts_without_the_voices_silence() -> None:
    replier = ScriptReplier([ReplyLine("a", "One.|Two.")])
    cascade = CascadeResponder(replier, Sentences(), hears_words=False)
    pieces = cascade.reply(answer(whole=False), ReferenceSettings())
    leads = [audible_onset(piece.audio.int16(), 24_000) async for piece in pieces if piece.audio is not None]
    assert leads == [480, 12_000]
    await cascade.close()


async def test_without_a_voice_a_recording_or_a_tone_is_used(tmp_path: Path) -> None:
    sample = Path(__file__).parents[4] / "live_eval/data/sample/data_synthesis/audio/whisper"
    recording = sample / "le_103_whisper_technology_neutral_response.flac"
    settings = ReferenceSettings()
    for spoken, seconds in ((recording, None), (None, 1.0)):
        cascade = CascadeResponder(
            ScriptReplier([ReplyLine("a", "A reply.", spoken)]), None, hears_words=False
        )
        found = await whole(cascade, answer(), settings)
        assert found.text == "A reply."
        assert found.audio is not None
        assert seconds is None or len(found.audio.samples) == seconds * found.audio.rate_hz
        assert audible_onset(found.audio.int16(), found.audio.rate_hz) is not None
        assert (await whole(cascade, answer(wants_audio=False), settings)).audio is None
        await cascade.close()


async def test_the_tone_has_the_configured_length() -> None:
    found = await whole(ToneResponder(), answer(), ReferenceSettings(reply_ms=250))
    assert found.audio is not None
    assert found.audio.duration_ns == 250_000_000
    assert found.onset_sample == 0


async def test_a_recording_answers_everything() -> None:
    path = Path(__file__).parents[4] / "live_eval/data/sample/data_synthesis/audio/whisper"
    responder = await asyncio.to_thread(FileResponder, path / "le_103_whisper_technology_neutral.flac", 7)
    found = responder.fixed(ReferenceSettings())
    assert (found.onset_sample, found.onset_by) == (7, "given")
    assert (await whole(responder, answer(wants_audio=False), ReferenceSettings())).audio is None


@pytest.mark.slow
@pytest.mark.local
async def test_the_voice_speaks_the_text() -> None:
    pytest.importorskip("hibari")
    cascade = CascadeResponder(ScriptReplier(LINES), await asyncio.to_thread(Voice), hears_words=True)
    found = await whole(cascade, answer(), ReferenceSettings())
    assert found.audio is not None
    assert found.audio.duration_ns > 500_000_000
    await cascade.close()


async def test_on_request_it_repeats_the_whole_turn() -> None:
    replier = ScriptReplier(LINES)
    told = "Say back, word for word, what was said."
    said = (user("Good morning."), ItemContent(Role.ASSISTANT, "Good", cut_off=True), user("I've got it."))
    assert (await replier.reply(said, told)).reply == "Good morning. I've got it."
    assert (await replier.reply((user(" "),), told)).reply == NOTHING_HEARD


async def test_choices_are_uniform_and_repeatable() -> None:
    replier = ScriptReplier(LINES)
    counts: Counter[str] = Counter()
    for number in range(400):
        asked = f"Question {number}?\nA. Yes\nB. No\nC. Neither\nD. Both"
        reply = (await replier.reply((user("Hello."),), asked)).reply
        assert (await replier.reply((user("Hello."),), asked)).reply == reply
        counts[reply] += 1
    assert set(counts) == {f"The answer is: {letter}" for letter in "ABCD"}
    assert min(counts.values()) > 70


@pytest.mark.parametrize("told", ["A. Be kind.", "B. One\nC. Two", "Say A. or B. at will"])
async def test_other_lists_are_not_options(told: str) -> None:
    assert (await ScriptReplier(LINES).reply((user(LINES[1].text),), told)).reply == LINES[1].reply
