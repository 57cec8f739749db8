"""LiveKit's messages as JSON."""

import json
import sys

import pytest

from live_eval.errors import PluginError
from live_eval.webrtc.livekit_messages import as_json, from_json, load_protocol, with_member
from tests.support.extras import needs

pytestmark = needs("livekit", extra="livekit")


def test_a_signal() -> None:
    rtc = load_protocol().rtc
    text = '{"type": "subscription", "track_sids": ["TR_1"], "subscribe": true}'
    request = from_json(text, rtc.SignalRequest)
    assert request == rtc.SignalRequest(
        subscription=rtc.UpdateSubscription(track_sids=["TR_1"], subscribe=True)
    )
    assert json.loads(as_json(request) or "") == json.loads(text)


def test_a_packet_has_its_sender() -> None:
    rtc, models = load_protocol()
    packet = models.DataPacket(
        participant_identity="a1",
        stream_chunk=models.DataStream.Chunk(stream_id="s", content=b"hi"),
    )
    text = as_json(packet)
    assert text is not None
    whole = {"type": "stream_chunk", "participant_identity": "a1", "stream_id": "s", "content": "aGk="}
    assert json.loads(text) == whole
    assert from_json(text, rtc.SignalRequest, models.DataPacket) == packet


def test_a_description_has_a_separate_type() -> None:
    rtc = load_protocol().rtc
    offer = with_member(rtc.SignalRequest, "offer", {"type": "offer", "sdp": "v=0", "id": 3})
    assert (offer.offer.type, offer.offer.sdp, offer.offer.id) == ("offer", "v=0", 3)


def test_content_that_is_not_an_object() -> None:
    rtc = load_protocol().rtc
    assert as_json(rtc.SignalResponse(refresh_token="secret")) is None
    assert as_json(rtc.SignalResponse(pong=1)) is None
    assert as_json(rtc.SignalResponse()) is None


@pytest.mark.parametrize("text", ['{"type": "pirouette"}', '{"type": "leave", "steps": 3}', "{", "{}", "[]"])
def test_json_that_is_not_a_message(text: str) -> None:
    with pytest.raises(ValueError, match=r"pirouette|steps|unexpected|expected a JSON object"):
        from_json(text, load_protocol().rtc.SignalRequest)


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "livekit.protocol", None)
    with pytest.raises(PluginError, match="LiveKit rooms need the package livekit-protocol: pip install"):
        load_protocol()
