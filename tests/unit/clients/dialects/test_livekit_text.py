"""Transcripts in a LiveKit room."""

from __future__ import annotations

import base64

from live_eval.clients.dialects._livekit_text import TextStreams
from live_eval.clients.toolkit import Fields
from live_eval.dialect import InputTranscript, Output, StreamText

ME, AGENT = "live-eval", "a1"


def stream(*texts: str, sender: str, topic: str = "lk.transcription", **attributes: str) -> list[Output]:
    named = {f"lk.{name}": value for name, value in attributes.items()}
    header = {"stream_id": "s", "participant_identity": sender, "topic": topic, "attributes": named}
    streams = TextStreams()
    streams.began(Fields("stream_header", header), ME)
    outputs: list[Output] = []
    for text in texts:
        piece = {"stream_id": "s", "content": base64.b64encode(text.encode()).decode()}
        outputs += streams.piece(Fields("stream_chunk", piece), 0)
    return outputs + streams.ended(Fields("stream_trailer", {"stream_id": "s"}), 0)


def test_the_agents_text_arrives_in_pieces() -> None:
    assert stream("It is", " ten.", sender=AGENT) == [StreamText("It is"), StreamText(" ten.")]


def test_only_the_users_final_text_counts() -> None:
    assert stream("What", sender=ME, transcription_final="false", segment_id="SG_1") == []
    final = stream("What time", " is it?", sender=ME, transcription_final="true", segment_id="SG_1")
    assert final == [InputTranscript("What time is it?", True, "SG_1")]


def test_text_on_other_topics_is_ignored() -> None:
    assert stream("hi", sender=AGENT, topic="lk.chat") == []


def test_open_streams_are_limited() -> None:
    streams = TextStreams()
    for number in range(1_000):
        header = {"topic": "lk.transcription", "stream_id": f"s{number}", "participant_identity": AGENT}
        streams.began(Fields("stream_header", header), ME)
    piece = {"content": "aGk="}
    heard = [streams.piece(Fields("", piece | {"stream_id": f"s{number}"}), 0) for number in range(1_000)]
    assert sum(map(len, heard)) == 64
