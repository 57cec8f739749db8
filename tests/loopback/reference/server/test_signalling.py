"""The reference endpoint over WebRTC, with a plain aiortc client."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from aiortc.exceptions import OperationError
from numpy.typing import NDArray

from live_eval.reference.engine.signals import calibration_speech
from live_eval.reference.faults.fault_script import parse_faults
from live_eval.reference.server import signalling
from live_eval.reference.truth import TrueReply, read_truth
from tests.support.rtc_client import Json, Stranger, calling, offered
from tests.support.serving import reference

SESSION = {"type": "realtime", "instructions": "Be brief."}
MANUAL = {"type": "realtime", "audio": {"input": {"turn_detection": None}}}
TONE = 5_000
"""A level that only the reply's tone exceeds."""


class Served:
    """A running endpoint.

    Args:
        origin: Its address.
        truth: The file of its truth.
    """

    def __init__(self, origin: str, truth: Path) -> None:
        self.origin = origin
        self.url = f"{origin}/v1"
        self.truth = truth

    async def turns(self) -> list[TrueReply]:
        return await asyncio.to_thread(lambda: read_truth(self.truth).replies)

    async def sessions(self) -> int:
        async with aiohttp.ClientSession() as http, http.get(f"{self.origin}/healthz") as answer:
            return int((await answer.json())["sessions"])


@asynccontextmanager
async def endpoint(folder: Path, *, token: str | None = None, **settings: Any) -> AsyncIterator[Served]:
    """Serve in this process; the truth is complete when the context has ended."""
    path = folder / "truth.jsonl"
    async with reference(token=token, truth=path, calibrate=True, **{"reply_ms": 200, **settings}) as address:
        yield Served(f"http://{address}", path)


def speech(duration_ms: int = 300) -> NDArray[np.int16]:
    return calibration_speech(duration_ms, 48_000, lossy=True).audio.int16()


def types(events: list[Json]) -> list[str]:
    return [each["type"] for each in events]


# -- OpenAI --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("idle_rtp", ["silence", "none"])
async def test_a_turn_by_detection(tmp_path: Path, idle_rtp: str) -> None:
    query: Json = {"delay_ms": 80, "lead_silence_ms": 30, "idle_rtp": idle_rtp, "label": "turn-7"}
    async with endpoint(tmp_path) as served, calling(served.url, **query) as client:
        (created,) = await client.event("session.created")
        assert created["session"]["model"] == "m"
        client.microphone.say(speech())
        events = await client.event("output_audio_buffer.stopped")
        assert client.loudest > TONE
    told = types(events)
    assert told[:6] == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "response.created",
    ]
    assert "response.output_audio.delta" not in told
    order = ["response.content_part.added", "output_audio_buffer.started", "response.done"]
    assert sorted(order, key=told.index) == order
    (turn,) = await served.turns()
    done = next(each["response"] for each in events if each["type"] == "response.done")
    assert {each["response_id"] for each in events if each["type"].startswith("output_audio_buffer")} == {
        turn.response_id,
        done["id"],
    }
    assert done["status"] == "completed"
    assert done["audio"]["output"]["format"] == {"type": "audio/pcm", "rate": 24_000}
    assert (turn.session_id, turn.label) == (created["session"]["id"], "turn-7")
    assert turn.voice_end_by == "energy"
    assert turn.rate_hz == 48_000
    # 230 ms of reply plus Opus's 6.5 ms delay, in packets of 20 ms.
    assert turn.chunk_samples == (960,) * 12
    assert turn.onset_sample == 30 * 48 + 312
    assert turn.first_byte_ns is not None
    assert turn.voice_to_voice_ns is not None
    assert turn.first_byte_ns >= 80_000_000
    assert turn.voice_end_ns is not None
    # The onset is 792 samples into the second packet, at which playout restarts.
    assert turn.voice_to_voice_ns == turn.chunk_sent_ns[1] + 16_500_000 - turn.voice_end_ns
    assert turn.ended_ns is not None
    assert turn.ended_ns < turn.chunk_sent_ns[-1]


async def test_no_packets_are_sent_in_silence_with_dtx(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as served, calling(served.url, idle_rtp="none") as client:
        await client.event("session.created")
        client.microphone.say(speech())
        await client.event("output_audio_buffer.stopped")
        assert await client.packets_received() == 11


async def test_a_manual_turn(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as served, calling(served.url) as client:
        await client.event("session.created")
        client.send(type="session.update", session=MANUAL)
        (updated,) = await client.event("session.updated")
        assert updated["session"]["audio"]["input"]["turn_detection"] is None
        client.microphone.say(speech())
        await client.microphone.said()
        client.send(type="input_audio_buffer.commit")
        client.send(type="response.create")
        events = await client.event("output_audio_buffer.stopped")
        assert client.loudest > TONE
    assert types(events)[0] == "input_audio_buffer.committed"
    (turn,) = await served.turns()
    assert turn.voice_end_by == "energy"
    assert turn.status == "completed"


async def test_barge_in_clears_and_truncates(tmp_path: Path) -> None:
    async with endpoint(tmp_path, reply_ms=3_000) as served, calling(served.url) as client:
        await client.event("session.created")
        client.microphone.say(speech())
        first = await client.event("output_audio_buffer.started")
        await client.hears(TONE)
        client.microphone.say(speech(500))
        cleared = await client.event("output_audio_buffer.cleared")
        (truncated,) = await client.event("conversation.item.truncated")
        second = await client.event("output_audio_buffer.started")
    assert "response.done" in types(first + cleared + second)  # it was generated faster than it was played
    assert cleared[-1]["response_id"] == first[-1]["response_id"] != second[-1]["response_id"]
    assert 0 < truncated["audio_end_ms"] < 3_000
    before, _ = await served.turns()
    assert before.status == "completed"
    assert abs(len(before.chunk_sent_ns) * 20 - truncated["audio_end_ms"]) <= 20


async def test_a_client_stops_playback(tmp_path: Path) -> None:
    async with (
        endpoint(tmp_path, reply_ms=3_000, cadence="realtime") as served,
        calling(served.url) as client,
    ):
        await client.event("session.created")
        client.microphone.say(speech())
        await client.event("output_audio_buffer.started")
        client.send(type="response.cancel")
        client.send(type="output_audio_buffer.clear")
        events = await client.event("output_audio_buffer.cleared")
    done = next(each["response"] for each in events if each["type"] == "response.done")
    assert done["status_details"]["reason"] == "client_cancelled"
    (turn,) = await served.turns()
    assert len(turn.chunk_sent_ns) < 50


async def test_errors_are_reported_and_the_session_continues(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as served, calling(served.url) as client:
        await client.event("session.created")
        for sent, told in (
            ({"type": "nonsense"}, "'output_audio_buffer.clear'"),
            ({"type": "input_audio_buffer.append", "audio": "AAAA"}, "travels on the media track"),
            ({"type": "response.cancel"}, "no active response"),
        ):
            client.send(**sent)
            (error,) = await client.event("error")
            assert told in error["error"]["message"]
        assert client.channel is not None
        client.channel.send(b"\x00")
        (error,) = await client.event("error")
        client.microphone.say(speech())
        assert (await client.event("response.done"))[-1]["response"]["status"] == "completed"


async def test_a_session_ends_by_its_limit_and_by_its_client(tmp_path: Path) -> None:
    async with endpoint(tmp_path, session_limit_s=1) as served:
        async with calling(served.url) as client:
            assert await served.sessions() == 1
            (*_, error) = await client.event("error")
            assert error["error"]["code"] == "session_expired"
            await client.becomes("closed")
        async with calling(served.url) as client:
            await client.event("session.created")
    assert await served.turns() == []


async def test_a_form_carries_settings_and_the_offer(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as served:
        async with calling(served.url, form={"session": json.dumps({**SESSION, "model": "n"})}) as client:
            (created,) = await client.event("session.created")
        assert created["session"]["model"] == "n"
        assert created["session"]["instructions"] == "Be brief."
        wrong = {**SESSION, "output_modalities": ["smell"]}
        with pytest.raises(AssertionError, match="'text' or 'audio'"):
            async with calling(served.url, form={"session": json.dumps(wrong)}):
                pass


NO_AUDIO = "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n"
NO_OPUS = re.compile(r" opus/48000/2")


@pytest.mark.parametrize(
    ("body", "content_type", "told"),
    [
        ("", "application/sdp", "with an 'm=audio' section"),
        (NO_AUDIO, "application/sdp", "with an 'm=audio' section"),
        ("m=audio 9 nonsense\r\n", "application/sdp", "that offers Opus"),
        ("OFFER", "application/sdp", "that offers Opus"),
        ("UNENCRYPTED", "application/sdp", "'a=fingerprint:' with sha-256"),
        (b"\xff\xfe", "application/sdp", "in UTF-8"),
        (b"v=0", "application/sdp; charset=none", "with an 'm=audio' section"),
        (
            b'--x\r\nContent-Disposition: form-data; name="sdp"\r\n\r\n\xff\r\n--x--\r\n',
            "multipart/form-data; boundary=x",
            "the part 'sdp'; ",
        ),
        ("{}", "application/json", "expected application/sdp or multipart/form-data"),
        (b"--x\r\n\r\n--x--\r\n", "multipart/form-data; boundary=x", "the part 'sdp'; "),
        (
            b'--x\r\nContent-Disposition: form-data; name="other"\r\n\r\n\r\n--x--\r\n',
            "multipart/form-data; boundary=x",
            "the part 'sdp' in",
        ),
    ],
)
async def test_unusable_offers(tmp_path: Path, body: str | bytes, content_type: str, told: str) -> None:
    stranger = Stranger()
    if body == "OFFER":
        body = NO_OPUS.sub(" speex/16000", await stranger.offer())
    elif body == "UNENCRYPTED":
        body = re.sub("a=fingerprint:.*\r\n", "", await stranger.offer())
    async with endpoint(tmp_path) as served:
        url = f"{served.url}/realtime/calls"
        answer = await offered(url, body, {"Content-Type": content_type})
        assert answer.status == 400
        error = json.loads(answer.text)["error"]
        assert (error["code"], told in error["message"]) == ("invalid_offer", True)
        assert await served.sessions() == 0
    await stranger.close()


async def test_authority(tmp_path: Path) -> None:
    async with endpoint(tmp_path, token="right") as served:
        calls, secrets = f"{served.url}/realtime/calls", f"{served.url}/realtime/client_secrets"
        for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer ek_made_up"}):
            assert (await offered(calls, "", given)).status == 401
            assert (await offered(secrets, "", given)).status == 401
        headers = {"Authorization": "Bearer right", "Content-Type": "application/json"}
        issued = json.loads((await offered(secrets, json.dumps({"session": SESSION}), headers)).text)
        assert issued["value"].startswith("ek_")
        bearer = {"Authorization": f"Bearer {issued['value']}", "Origin": "http://page.example"}
        async with calling(served.url, headers=bearer) as client:
            (created,) = await client.event("session.created")
        assert created["session"]["instructions"] == "Be brief."


async def test_client_secrets_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signalling, "_MOST_SECRETS", 2)
    json_type = {"Content-Type": "application/json"}
    async with endpoint(tmp_path) as served:
        secrets = f"{served.url}/realtime/client_secrets"
        large = json.dumps({"session": {**SESSION, "instructions": "x" * 70_000}})
        assert (await offered(secrets, large, json_type)).status == 413
        larger = await offered(secrets, "x" * 300_000, json_type)
        assert (larger.status, json.loads(larger.text)["error"]["code"]) == (413, "request_too_large")
        statuses = [(await offered(secrets, "{}", json_type)).status for _ in range(3)]
    assert statuses == [200, 200, 429]


async def test_a_missing_body_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signalling, "_BODY_S", 0.1)

    async def drops() -> AsyncIterator[bytes]:
        yield b"v=0"
        await asyncio.sleep(2)

    async with endpoint(tmp_path) as served, aiohttp.ClientSession() as http:
        headers = {"Content-Type": "application/sdp"}
        async with http.post(f"{served.url}/realtime/calls", data=drops(), headers=headers) as answer:
            assert answer.status == 408


async def test_only_pages_from_this_machine_may_call(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as served:
        calls = f"{served.url}/realtime/calls"
        assert (await offered(calls, "", {"Origin": "http://page.example"})).status == 403
        async with aiohttp.ClientSession() as http, http.options(calls) as preflight:
            assert preflight.status == 204
            assert "Authorization" in preflight.headers["Access-Control-Allow-Headers"]
        answer = await offered(calls, "", {"Origin": "http://localhost:3000"})
        assert (answer.status, answer.allowed_origin) == (400, "*")


# -- Faults --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["refuse_sdp", "status:401", "rate_limit:1s"])
async def test_an_injected_refusal(tmp_path: Path, fault: str) -> None:
    statuses = {"refuse_sdp": 400, "status:401": 401, "rate_limit:1s": 429}
    async with endpoint(tmp_path, faults=parse_faults(fault)) as served:
        stranger = Stranger()
        answer = await offered(f"{served.url}/realtime/calls", await stranger.offer())
        assert answer.status == statuses[fault]
        await stranger.close()


async def test_an_answer_with_a_codec_that_was_not_offered(tmp_path: Path) -> None:
    async with endpoint(tmp_path, faults=parse_faults("no_codec")) as served:
        with pytest.raises(OperationError, match="audio"):
            async with calling(served.url):
                pass


async def test_an_ice_candidate_without_a_listener(tmp_path: Path) -> None:
    async with endpoint(tmp_path, faults=parse_faults("bad_candidates")) as served:
        stranger = Stranger()
        offer = await stranger.offer()
        answer = (await offered(f"{served.url}/realtime/calls", offer)).text
        await stranger.close()
    assert re.findall(r"^a=candidate:.*$", answer, re.MULTILINE) == [
        "a=candidate:1 1 udp 2130706431 127.0.0.1 9 typ host\r"
    ] * answer.count("m=")


async def test_announced_audio_that_never_arrives(tmp_path: Path) -> None:
    async with endpoint(tmp_path, faults=parse_faults("no_rtp")) as served, calling(served.url) as client:
        await client.event("session.created")
        client.microphone.say(speech())
        assert "output_audio_buffer.started" in types(await client.event("output_audio_buffer.stopped"))
        assert await client.packets_received() == 0


async def test_every_tenth_packet_is_lost(tmp_path: Path) -> None:
    query: Json = {"idle_rtp": "none", "reply_ms": 600}
    async with (
        endpoint(tmp_path, faults=parse_faults("missing:10")) as served,
        calling(served.url, **query) as client,
    ):
        await client.event("session.created")
        client.microphone.say(speech())
        await client.event("output_audio_buffer.stopped")
        assert await client.packets_received() == 31 - 3
    (turn,) = await served.turns()
    assert len(turn.chunk_sent_ns) == 31


async def test_only_the_data_channel_closes(tmp_path: Path) -> None:
    async with (
        endpoint(tmp_path, faults=parse_faults("close_channel")) as served,
        calling(served.url) as client,
    ):
        client.microphone.say(speech())
        await client.channel_closed.wait()
        assert client.peer.connectionState == "connected"
        told = [client.events.get_nowait()["type"] for _ in range(client.events.qsize())]
        assert "output_audio_buffer.started" in told
        assert "response.done" not in told


@pytest.mark.parametrize("fault", ["close:1011", "stall", "silent"])
async def test_endless_replies(tmp_path: Path, fault: str) -> None:
    async with endpoint(tmp_path, faults=parse_faults(fault)) as served, calling(served.url) as client:
        await client.event("session.created")
        client.microphone.say(speech())
        if fault == "silent":
            await client.event("conversation.item.done")
        else:
            await client.event("output_audio_buffer.started")
        if fault == "close:1011":
            await client.becomes("closed")
    turns = await served.turns()
    assert [turn.status for turn in turns] == ([] if fault == "silent" else ["open"])
    assert all(len(turn.chunk_sent_ns) <= 6 for turn in turns)


# -- Bots ----------------------------------------------------------------------------------------------


async def post(url: str, body: object, method: str = "POST") -> tuple[int, Json]:
    async with aiohttp.ClientSession() as http, http.request(method, url, json=body) as answer:
        found: Json = await answer.json()
        return answer.status, found


@pytest.mark.parametrize(("path", "label"), [("/api/offer", None), ("/webrtc/offer", "text")])
async def test_a_bot_replies_without_events(tmp_path: Path, path: str, label: str | None) -> None:
    async with endpoint(tmp_path, delay_ms=50) as served:
        stranger = Stranger(label)
        body = {"sdp": await stranger.offer(), "type": "offer", "webrtc_id": "x"}
        status, answer = await post(f"{served.origin}{path}?label=bot", body)
        assert (status, answer["type"]) == (200, "answer")
        if path == "/api/offer":
            line = re.findall(r"^a=(candidate:.*?)\r$", body["sdp"], re.MULTILINE)[0]
            candidates = [{"candidate": line, "sdp_mid": "0", "sdp_mline_index": 0}]
            patch = {"pc_id": answer["pc_id"], "candidates": candidates}
            status, told = await post(f"{served.origin}{path}", patch, "PATCH")
            assert (status, told) == (200, {"status": "success"})
            for wrong, expected in (
                ({"pc_id": "made_up", "candidates": []}, 404),
                ({**patch, "candidates": [{"candidate": line}]}, 400),
                ({**patch, "candidates": [{**candidates[0], "candidate": "nonsense"}]}, 400),
                ({**patch, "candidates": None}, 400),
            ):
                assert (await post(f"{served.origin}{path}", wrong, "PATCH"))[0] == expected
        else:
            assert "pc_id" not in answer
        await stranger.accept(answer["sdp"])
        await stranger.becomes("connected")
        if stranger.channel is not None:
            await stranger.channel_open.wait()
            stranger.channel.send("ping")
        stranger.microphone.say(speech())
        await stranger.hears(TONE)
        await stranger.close()
        assert stranger.events.empty()
    (turn,) = await served.turns()
    assert (turn.label, turn.voice_end_by) == ("bot", "energy")
    assert turn.voice_to_voice_ns is not None
    assert turn.voice_to_voice_ns >= 50_000_000


@pytest.mark.parametrize("body", [[], {}, {"sdp": "x", "type": "answer"}, {"sdp": "x", "type": "offer"}])
async def test_a_bot_refuses_invalid_offers(tmp_path: Path, body: object) -> None:
    async with endpoint(tmp_path) as served:
        status, answer = await post(f"{served.origin}/api/offer", body)
        assert (status, answer["error"]["code"]) == (400, "invalid_offer")
