"""The protocols with a media track: playback events, and clearing the track."""

from typing import Any

import orjson
import pytest

from live_eval.reference.engine.conversation_items import Item, Part, PartKind, Role
from live_eval.reference.engine.engine import Engine
from live_eval.reference.engine.events import (
    DropUnplayed,
    Output,
    PlaybackState,
    SendMessage,
    ServerResponse,
    TrackPlayback,
)
from live_eval.reference.protocols.protocol import MessageError
from live_eval.reference.protocols.webrtc import TRACK, OpenAiWebRtcProtocol, WebRtcBotProtocol
from live_eval.reference.settings import ReferenceSettings

Json = dict[str, Any]


def engine() -> Engine:
    return Engine("sess_1", ReferenceSettings(calibrate=True), TRACK, waits_for_words=False)


def protocol() -> OpenAiWebRtcProtocol:
    return OpenAiWebRtcProtocol(engine(), "m", 0)


def said(outputs: list[Output]) -> list[Json]:
    assert all(isinstance(output, SendMessage) for output in outputs)
    return [orjson.loads(output.message) for output in outputs if isinstance(output, SendMessage)]


def spoken(of: Engine, audio_ms: int = 900) -> ServerResponse:
    """Return a completed response of three words."""
    item = Item("item_1", Role.ASSISTANT, [Part(PartKind.AUDIO, "one two three", audio_ms=audio_ms)])
    of.conversation.append(item)
    return ServerResponse("resp_1", "item_1", True, TRACK.output_codec, None, "", item=item)


@pytest.mark.parametrize("state", [PlaybackState.STARTED, PlaybackState.STOPPED])
def test_playback_is_reported(state: PlaybackState) -> None:
    speaker = protocol()
    (event,) = said([*speaker.playback(TrackPlayback(state, spoken(speaker.engine), 0))])
    assert event["type"] == f"output_audio_buffer.{state}"
    assert event["response_id"] == "resp_1"


@pytest.mark.parametrize(("played_ms", "end_ms", "left"), [(320, 320, "one"), (9_000, 900, "one two three")])
def test_a_cleared_response_is_truncated(played_ms: int, end_ms: int, left: str) -> None:
    speaker = protocol()
    response = spoken(speaker.engine)
    playback = TrackPlayback(PlaybackState.CLEARED, response, played_ms)
    cleared, truncated = said([*speaker.playback(playback)])
    assert cleared["type"] == "output_audio_buffer.cleared"
    assert (truncated["type"], truncated["item_id"]) == ("conversation.item.truncated", "item_1")
    assert truncated["audio_end_ms"] == end_ms
    assert response.item is not None
    assert response.item.parts[0].text == left
    bot = WebRtcBotProtocol(engine())
    assert bot.playback(TrackPlayback(PlaybackState.CLEARED, spoken(bot.engine), played_ms)) == ()
    heard = bot.engine.conversation.get("item_1")
    assert heard is not None
    assert heard.parts[0].text == left


def test_a_response_outside_the_conversation_is_not_truncated() -> None:
    speaker = protocol()
    response = ServerResponse("resp_1", "item_1", True, TRACK.output_codec, None, "")
    (event,) = said([*speaker.playback(TrackPlayback(PlaybackState.CLEARED, response, 0))])
    assert event["type"] == "output_audio_buffer.cleared"


def test_formats_of_events_do_not_change_the_track() -> None:
    speaker = protocol()
    mulaw = {"format": {"type": "audio/pcmu"}}
    pcm = {"format": {"type": "audio/pcm", "rate": 24_000}}
    update = {
        "type": "session.update",
        "session": {"type": "realtime", "audio": {"input": pcm, "output": mulaw}},
    }
    (updated,) = said([*speaker.received(orjson.dumps(update).decode(), 0)])
    assert updated["session"]["audio"]["output"]["format"] == {"type": "audio/pcmu"}
    create = {"type": "response.create", "response": {"audio": {"output": mulaw}}}
    speaker.received(orjson.dumps(create).decode(), 0)
    active = speaker.engine.active
    assert active is not None
    assert active.codec == speaker.engine.config.output_codec == TRACK.output_codec
    assert speaker.engine.config.input_codec == TRACK.input_codec


def test_the_client_may_clear_the_track() -> None:
    assert protocol().received('{"type":"output_audio_buffer.clear"}', 0) == [DropUnplayed()]


@pytest.mark.parametrize("session", [None, [], "x", {}, {"type": "realtime", "voice": 3}])
def test_settings_in_an_offer_are_validated(session: object) -> None:
    with pytest.raises(MessageError) as refused:
        protocol().begin(session)
    param = refused.value.problem.param
    assert param is not None
    assert param.startswith("session")


def test_a_bot_answers_the_greetings_of_both_kinds_of_client() -> None:
    bot = WebRtcBotProtocol(engine())
    (ready,) = said([*bot.received('{"label":"rtvi-ai","type":"client-ready","id":"7"}', 0)])
    assert ready == {"label": "rtvi-ai", "type": "bot-ready", "id": "7", "data": {"version": "1.0.0"}}
    (log,) = said([*bot.received("handshake", 0)])
    assert log == {"type": "log", "data": "Server received: handshake"}


@pytest.mark.parametrize("message", ["ping: 1", "{", "[]", b"\x00", '{"type":"client-ready"}'])
def test_a_bot_ignores_other_messages(message: str | bytes) -> None:
    bot = WebRtcBotProtocol(engine())
    assert bot.received(message, 0) == ()
    assert bot.opened() == bot.expires_soon(5) == ()
