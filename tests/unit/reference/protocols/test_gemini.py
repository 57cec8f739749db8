"""The server's side of Gemini Live. No sockets, no clock."""

import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_eval.audio import Codec, CodecName
from live_eval.reference.engine.conversation_items import ItemContent, Role
from live_eval.reference.engine.endpointer import WINDOW_MS
from live_eval.reference.engine.engine import Engine
from live_eval.reference.engine.events import (
    CloseConnection,
)
from live_eval.reference.engine.reply_plan import GeneratedReply
from live_eval.reference.engine.signals import calibration_reply
from live_eval.reference.faults.fault_script import parse_faults
from live_eval.reference.protocols.gemini import GEMINI_CONFIG, GeminiProtocol, SessionStore
from live_eval.reference.server.client_session import packer
from live_eval.reference.settings import Cadence, ReferenceSettings
from tests.support.protocol_client import ProtocolClient

MS = 1_000_000
VOICED, SILENT = 0.9, 0.0
AUDIO_ONLY = {"responseModalities": ["AUDIO"]}
MANUAL = {"automaticActivityDetection": {"disabled": True}}

Json = dict[str, Any]


class Client(ProtocolClient[GeminiProtocol]):
    def __init__(
        self, shelf: SessionStore | None = None, session_id: str = "sess_first", **settings: Any
    ) -> None:
        engine = Engine(session_id, ReferenceSettings(**settings), GEMINI_CONFIG, waits_for_words=True)
        self.shelf = shelf or SessionStore()
        super().__init__(GeminiProtocol(engine, self.shelf))
        assert self.greeting == []

    def send(self, **message: Any) -> list[Json]:
        return self.take(self.protocol.received(json.dumps(message), self.at_ns))

    def begin(self, **setup: Any) -> list[Json]:
        return self.send(setup={"model": "models/m", "generationConfig": AUDIO_ONLY, **setup})

    def append(self, pcm: bytes, rate_hz: int = 16_000) -> list[Json]:
        blob = {"data": base64.b64encode(pcm).decode(), "mimeType": f"audio/pcm;rate={rate_hz}"}
        return self.send(realtimeInput={"audio": blob})

    def say(self, pattern: Sequence[float] = (SILENT,) * 10 + (VOICED,) * 20 + (SILENT,) * 16) -> list[Json]:
        """Append audio, one window for each of the detector's speech probabilities."""
        messages: list[Json] = []
        for probability in pattern:
            self.at_ns += WINDOW_MS * MS
            messages += self.append(bytes(32 * WINDOW_MS))
            messages += self.take(self.engine.heard(self.epoch, [probability], self.at_ns))
        return messages

    def recognise(self, text: str = "hello") -> list[Json]:
        work = self.listens.pop()
        return self.take(self.engine.recognised(work.item_id, work.part, text))

    def answer(self) -> list[Json]:
        """Provide the reply, 200 ms of audio."""
        answer = self.answers.pop()
        tone = calibration_reply(200)
        audio = tone if answer.wants_audio else None
        wire = packer(self.protocol, answer.codec).pack(GeneratedReply("Hello to you, my friend.", audio, 0))
        return self.take(self.engine.reply(answer.response_id, wire, self.at_ns))

    def play(self, until_ms: int = 10_000) -> list[Json]:
        messages: list[Json] = []
        while (wake_ns := self.engine.wake_ns) is not None and wake_ns <= self.at_ns + until_ms * MS:
            messages += self.take(self.engine.due(wake_ns))
        return messages

    def whole_turn(self) -> list[Json]:
        return [*self.say(), *self.recognise(), *self.answer(), *self.play()]


def kinds(messages: Sequence[Json]) -> list[str]:
    """Return the type of each message; for server content, the type of the content."""
    found: list[str] = []
    for message in messages:
        content = message.get("serverContent")
        found.append("+".join(content) if content is not None else next(iter(message)))
    return found


def test_the_setup_is_confirmed_with_the_session_id() -> None:
    client = Client()
    assert client.begin() == [{"setupComplete": {"sessionId": "sess_first"}}]
    assert client.closed is None


def test_the_messages_of_a_turn_are_in_order() -> None:
    client = Client()
    client.begin(inputAudioTranscription={}, outputAudioTranscription={})
    messages = client.whole_turn()
    assert kinds(messages) == [
        "inputTranscription",
        "outputTranscription",
        "outputTranscription",
        "modelTurn",
        "modelTurn",
        "generationComplete",
        "turnComplete+interactionStatus",
    ]
    assert messages[0]["serverContent"]["inputTranscription"] == {"text": "hello", "finished": True}
    blob = messages[3]["serverContent"]["modelTurn"]["parts"][0]["inlineData"]
    assert blob["mimeType"] == "audio/pcm;rate=24000"
    assert len(base64.b64decode(blob["data"])) == 4_800
    usage = messages[-1]["usageMetadata"]
    assert usage["totalTokenCount"] == usage["promptTokenCount"] + usage["responseTokenCount"]
    assert {each["modality"] for each in usage["responseTokensDetails"]} == {"AUDIO", "TEXT"}


def test_transcripts_are_sent_only_on_request() -> None:
    client = Client()
    client.begin()
    assert set(kinds(client.whole_turn())) == {
        "modelTurn",
        "generationComplete",
        "turnComplete+interactionStatus",
    }


def test_a_reply_in_text() -> None:
    client = Client()
    client.begin(generationConfig={"responseModalities": ["TEXT"]})
    messages = client.whole_turn()
    texts = [
        part["text"]
        for message in messages
        for part in message["serverContent"].get("modelTurn", {}).get("parts", [])
    ]
    assert "".join(texts) == "Hello to you, my friend."


def test_speech_interrupts_a_reply() -> None:
    client = Client(cadence=Cadence.REALTIME, chunk_ms=20)
    client.begin()
    client.say()
    client.recognise()
    client.answer()
    assert kinds(client.play(until_ms=60))[0] == "modelTurn"
    assert kinds(client.say((VOICED,) * 4)) == ["interrupted", "turnComplete+interactionStatus"]


def test_interruption_can_be_disabled() -> None:
    client = Client(cadence=Cadence.REALTIME, chunk_ms=20)
    client.begin(realtimeInputConfig={"activityHandling": "NO_INTERRUPTION"})
    client.say()
    client.recognise()
    client.answer()
    assert client.say((VOICED,) * 4) == []


def test_a_manual_turn_contains_the_audio_between_start_and_end() -> None:
    client = Client()
    client.begin(realtimeInputConfig=MANUAL)
    client.append(bytes(32_000))
    client.send(realtimeInput={"activityStart": {}})
    client.append(bytes(16_000))
    client.send(realtimeInput={"activityEnd": {}})
    assert len(client.listens[0].audio) == 16_000
    messages = [*client.recognise(), *client.answer(), *client.play()]
    assert kinds(messages)[-1] == "turnComplete+interactionStatus"


def test_a_manual_start_interrupts() -> None:
    client = Client(cadence=Cadence.REALTIME, chunk_ms=20)
    client.begin(realtimeInputConfig=MANUAL)
    client.append(bytes(16_000))
    client.send(realtimeInput={"activityEnd": {}})
    client.recognise()
    client.answer()
    client.play(until_ms=60)
    told = client.send(realtimeInput={"activityStart": {}})
    assert kinds(told) == ["interrupted", "turnComplete+interactionStatus"]


def test_the_end_of_the_stream_ends_the_current_turn() -> None:
    client = Client()
    client.begin()
    assert client.send(realtimeInput={"audioStreamEnd": True}) == []
    assert not client.listens
    client.say((VOICED,) * 20)
    client.send(realtimeInput={"audioStreamEnd": True})
    client.recognise()
    assert client.answers


def test_snake_case_is_accepted() -> None:
    client = Client()
    setup = {"model": "models/m", "generation_config": {"response_modalities": ["AUDIO"]}}
    setup["realtime_input_config"] = {"automatic_activity_detection": {"silence_duration_ms": 320}}
    client.send(setup=setup)
    assert client.engine.config.detection is not None
    assert client.engine.config.detection.silence_ms == 320
    blob = {"data": base64.b64encode(bytes(640)).decode(), "mime_type": "audio/pcm"}
    client.send(realtime_input={"audio": blob})
    assert client.closed is None


def test_settings_reach_the_engine() -> None:
    client = Client()
    slow = {
        "startOfSpeechSensitivity": "START_SENSITIVITY_LOW",
        "endOfSpeechSensitivity": "END_SENSITIVITY_LOW",
    }
    client.begin(
        systemInstruction={"parts": [{"text": "Be brief."}, {"text": "Be kind."}]},
        generationConfig={**AUDIO_ONLY, "maxOutputTokens": 9, "temperature": 0.5},
        realtimeInputConfig={"automaticActivityDetection": slow},
    )
    config = client.engine.config
    assert config.instructions == "Be brief.\n\nBe kind."
    assert config.max_output_tokens == 9
    assert config.detection is not None
    assert (config.detection.threshold, config.detection.silence_ms) == (0.7, 1_000)


def test_audio_at_another_rate_is_accepted() -> None:
    client = Client()
    client.begin()
    client.append(bytes(4_800), rate_hz=24_000)
    assert client.engine.config.input_codec == Codec(CodecName.PCM16, 24_000)


def test_url_safe_base64_without_padding_is_accepted() -> None:
    client = Client()
    client.begin(realtimeInputConfig=MANUAL)
    pcm = b"\xfb\xef\xff\xfe" * 1_001
    data = base64.urlsafe_b64encode(pcm).decode().rstrip("=")
    assert "-" in data
    assert "_" in data
    client.send(realtimeInput={"audio": {"data": data, "mimeType": "audio/pcm"}})
    client.send(realtimeInput={"activityEnd": {}})
    assert client.listens[0].audio == pcm


def test_initial_history_is_not_answered() -> None:
    client = Client()
    client.begin(historyConfig={"initialHistoryInClientContent": True})
    turns = [{"role": "user", "parts": [{"text": "Hi."}]}, {"role": "model", "parts": [{"text": "Hello."}]}]
    client.send(clientContent={"turns": turns, "turnComplete": True})
    assert not client.answers
    client.send(clientContent={"turns": turns[:1], "turnComplete": True})
    assert len(client.answers[0].said) == 3


def test_written_messages_are_answered() -> None:
    client = Client()
    client.begin()
    turns = [{"role": "user", "parts": [{"text": "Hi."}]}, {"role": "model", "parts": [{"text": "Hello."}]}]
    client.send(clientContent={"turns": turns, "turnComplete": False})
    assert not client.answers
    client.send(realtimeInput={"text": "And now?"})
    assert client.answers[0].said == (
        ItemContent(Role.USER, "Hi."),
        ItemContent(Role.ASSISTANT, "Hello."),
        ItemContent(Role.USER, "And now?"),
    )


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("{", "Invalid JSON payload received."),
        ("[]", "Invalid value at ''"),
        ('{"setups":{}}', 'Unknown name "setups": Cannot find field.'),
        ('{"setup":{"model":"m","voice":"x"}}', "Unknown name \"voice\" at 'setup': Cannot find field."),
        ('{"realtimeInput":{}}', "Expected 'setup' as the first message."),
        ('{"setup":{"generationConfig":{"responseModalities":["SMELL"]}}}', "responseModalities"),
        ('{"setup":{"generationConfig":{"responseModalities":["TEXT","AUDIO"]}}}', "at most one"),
    ],
)
def test_an_invalid_first_message_closes_with_a_reason(message: str, reason: str) -> None:
    client = Client()
    assert client.take(client.protocol.received(message, 0)) == []
    assert client.closed is not None
    assert client.closed.code == 1007
    assert reason in client.closed.reason
    assert len(client.closed.reason.encode()) <= 123


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"setup": {"model": "m"}}, "only as the first"),
        ({}, "Expected one of"),
        ({"realtimeInput": {"activityStart": {}}}, "Explicit activity control"),
        ({"realtimeInput": {"audio": {"data": "AA==", "mimeType": "audio/pcm;rate=16000"}}}, "whole 16-bit"),
        ({"realtimeInput": {"audio": {"data": "!", "mimeType": "audio/pcm;rate=16000"}}}, "base64"),
        ({"realtimeInput": {"audio": {"data": "", "mimeType": "audio/ogg"}}}, "audio/ogg"),
        ({"realtimeInput": {"audio": {"data": "", "mimeType": "audio/pcm;rate=96000"}}}, "rate=R"),
    ],
)
def test_an_invalid_message_closes_with_a_reason(message: Json, reason: str) -> None:
    client = Client()
    client.begin()
    client.send(**message)
    assert client.closed is not None
    assert client.closed.code == 1007
    assert reason in client.closed.reason


def test_an_activity_without_audio_is_refused() -> None:
    client = Client()
    client.begin(realtimeInputConfig=MANUAL)
    client.send(realtimeInput={"activityStart": {}})
    client.send(realtimeInput={"activityEnd": {}})
    assert client.closed is not None
    assert "buffer too small" in client.closed.reason


def test_a_failed_reply_closes_the_connection() -> None:
    client = Client()
    client.begin()
    client.say()
    client.recognise()
    answer = client.answers.pop()
    client.take(client.engine.reply_failed(answer.response_id, "voice_failed", "no voice"))
    assert client.closed == CloseConnection(1011, "Internal error encountered.")


def test_expiry_is_announced_and_closes_the_connection() -> None:
    client = Client()
    client.begin()
    assert client.take(client.protocol.expires_soon(50)) == [{"goAway": {"timeLeft": "50s"}}]
    client.take(client.protocol.expired())
    assert client.closed is not None
    assert client.closed.code == 1008


def handle_in(messages: Sequence[Json]) -> str:
    """Return the last handle."""
    updates = [each["sessionResumptionUpdate"] for each in messages if "sessionResumptionUpdate" in each]
    assert updates[-1]["resumable"] is True
    handle: str = updates[-1]["newHandle"]
    return handle


def test_a_session_resumes_in_the_state_of_its_handle() -> None:
    first = Client()
    first.begin(sessionResumption={})
    first.say()
    updates = first.recognise("one")
    updates += [*first.answer(), *first.play()]
    handle = handle_in(updates)
    first.say()
    first.recognise("this one is lost")
    second = Client(first.shelf, "sess_second")
    told = second.begin(sessionResumption={"handle": handle})
    assert told[0] == {"setupComplete": {"sessionId": "sess_first"}}
    assert handle_in(told) != handle
    second.say()
    second.recognise("two")
    assert [each.text for each in second.answers[0].said] == ["one", "Hello to you, my friend.", "two"]
    names = [item.item_id for item in second.engine.conversation]
    assert len(set(names)) == len(names)


def test_the_client_is_told_whether_a_session_can_be_resumed() -> None:
    client = Client()
    told = client.begin(sessionResumption={})
    assert kinds(told) == ["setupComplete", "sessionResumptionUpdate"]
    updates = [
        each["sessionResumptionUpdate"]["resumable"]
        for each in client.whole_turn()
        if "sessionResumptionUpdate" in each
    ]
    assert updates == [False, True]


def test_an_unknown_handle_is_refused() -> None:
    client = Client()
    client.begin(sessionResumption={"handle": "nobody's"})
    assert client.closed == CloseConnection(1008, "BidiGenerateContent session not found")


def test_the_store_drops_the_oldest_sessions() -> None:
    shelf = SessionStore()
    engine = Client().engine
    oldest = shelf.put(engine)
    handles = [shelf.put(engine) for _ in range(256)]
    assert shelf.get(oldest) is None
    assert all(shelf.get(handle) is not None for handle in handles)


def test_faults_use_events_of_the_dialect() -> None:
    client = Client(faults=parse_faults("unknown_event"))
    client.begin()
    assert "interpretiveDance" in kinds(client.whole_turn())
    client = Client(faults=parse_faults("error_event"))
    client.begin()
    client.whole_turn()
    assert client.closed == CloseConnection(1011, "This endpoint reports an error on purpose.")
    client = Client(faults=parse_faults("malformed"))
    client.begin()
    with pytest.raises(json.JSONDecodeError):
        client.whole_turn()


VALUE: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.text(max_size=8) | st.integers() | st.just({}) | st.just([])
)
BLOB = st.fixed_dictionaries(
    {},
    optional={"data": VALUE, "mimeType": st.sampled_from(["audio/pcm", "audio/pcm;rate=8000"]) | VALUE},
)
INPUT = st.dictionaries(
    st.sampled_from(["audio", "activityStart", "activity_end", "audioStreamEnd", "text", "mediaChunks"]),
    VALUE | BLOB | st.lists(BLOB, max_size=2),
    max_size=3,
)
MESSAGE = st.one_of(
    st.fixed_dictionaries({"realtimeInput": INPUT}),
    st.fixed_dictionaries(
        {"clientContent": st.dictionaries(st.sampled_from(["turns", "turnComplete"]), VALUE)}
    ),
    st.fixed_dictionaries({"setup": st.dictionaries(st.sampled_from(["model", "tools", "x"]), VALUE)}),
    VALUE,
)


@given(st.lists(MESSAGE, max_size=6), st.booleans())
def test_no_message_breaks_the_protocol(messages: list[Any], manual: bool) -> None:
    client = Client()
    client.begin(realtimeInputConfig=MANUAL if manual else {})
    for message in messages:
        client.take(client.protocol.received(json.dumps(message), 0))


@given(st.text() | st.binary())
def test_no_text_breaks_the_protocol(message: str | bytes) -> None:
    client = Client()
    client.take(client.protocol.received(message, 0))


@pytest.mark.parametrize(
    "content",
    [{str(number): 1 for number in range(30_000)}, {"turns": [{"parts": [{"text": "x" * (1 << 20)}]}]}],
)
def test_a_message_that_is_too_large_closes_the_connection(content: Json) -> None:
    client = Client()
    client.begin()
    client.send(clientContent=content)
    assert client.closed is not None
    assert (client.closed.code, "Expected a message of at most" in client.closed.reason) == (1007, True)
