"""The limits of a conversation."""

from live_eval.audio import Codec, CodecName
from live_eval.reference.engine.conversation_items import Item, ItemHistory, Part, PartKind, Role
from tests.support.openai_client import HALF_SECOND, OpenAiClient, error_of

PCM = Codec(CodecName.PCM16, 24_000)


def written(name: str, text: str = "x") -> Item:
    return Item(name, Role.USER, [Part(PartKind.TEXT, text)])


def spoken(name: str, samples: int = 100) -> Item:
    return Item(name, Role.USER, [Part.speech(bytes(2 * samples), PCM)])


def test_spoken_items_displace_the_oldest_items() -> None:
    history = ItemHistory(most_items=3)
    for name in "abc":
        assert history.has_room(written(name))
        history.append(written(name))
    assert not history.has_room(written("d"))
    assert history.append(spoken("e")) == "c"
    assert [item.item_id for item in history] == ["b", "c", "e"]


def test_the_size_of_a_conversation_is_limited() -> None:
    history = ItemHistory(most_bytes=400)
    for name in "abc":
        history.append(spoken(name))
    assert [item.item_id for item in history] == ["b", "c"]
    assert not history.has_room(written("d"))
    history.append(spoken("long", 1_000))
    assert [item.item_id for item in history] == ["long"], "the newest item is kept"


def test_a_written_item_that_exceeds_the_limit_is_refused() -> None:
    client = OpenAiClient(calibrate=True)
    client.manual()
    client.engine.conversation = ItemHistory(most_items=1)
    client.append(HALF_SECOND)
    client.send("input_audio_buffer.commit")
    text = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "d"}]}
    error = error_of(client.send("conversation.item.create", item=text))
    assert error["code"] == "conversation_full"
    assert "delete items first" in error["message"]
