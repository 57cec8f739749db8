"""A call over real sockets: the client plays Twilio, and an imitation of an agent answers."""

from __future__ import annotations

import base64
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from live_eval.audio import Codec, CodecName, decode, encode, frames_of
from live_eval.clients.dialects.twilio import Twilio
from live_eval.clients.specs import TWILIO
from live_eval.clients.transports.websocket import WebSocketTransport
from live_eval.clock import SystemClock
from live_eval.dialect import EndpointSettings
from live_eval.errors import FailureKind
from live_eval.recording.record import TurnRecord, finish
from live_eval.session import Session, Utterance
from live_eval.session.limits import SessionLimits
from live_eval.timing import ResponseStatus
from live_eval.types import Case, Secret, SpeechBoundaries, Variant
from tests.support.serving import listening
from tests.support.sounds import tone

MS = 1_000_000
PHONE = Codec(CodecName.PCMU, 8_000)
REPLY_MS = 800
LIMITS = SessionLimits(connect_s=5, ready_s=5, reply_s=1.5, stall_s=3, silence_s=0.4)
SIGNED = "X-Twilio-Signature"


class Agent:
    """A phone agent that answers speech with a tone, sent in one burst, and a mark; speech interrupts it.

    Args:
        stream: Address in the TwiML; None for the agent's own.
        answers: Whether the agent answers.
    """

    def __init__(self, *, stream: str | None = None, answers: bool = True, status: int = 200) -> None:
        self._stream, self._answers, self._status = stream, answers, status
        self.headers: list[str | None] = []
        self.form: dict[str, str] = {}
        self.start: dict[str, Any] = {}
        self.events: list[str] = []
        self.media_s: list[float] = []
        self.answered_s: list[float] = []
        self.marked_s: list[float] = []

    async def voice(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(request.headers.get(SIGNED))
        self.form = {name: str(value) for name, value in (await request.post()).items()}
        stream = f"ws://{request.host}/media" if self._stream is None else self._stream
        parameter = '<Parameter name="a" value="b"/>'
        twiml = f'<Response><Connect><Stream url="{stream}">{parameter}</Stream></Connect></Response>'
        return web.Response(text=twiml, content_type="text/xml", status=self._status)

    async def media(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(request.headers.get(SIGNED))
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        with contextlib.suppress(ConnectionError):
            await self._talk(socket)
        return socket

    async def _talk(self, socket: web.WebSocketResponse) -> None:
        loud, quiet, replies_until_s = False, 0, 0.0
        async for message in socket:
            event = message.json()
            kind = event["event"]
            if kind == "start":
                self.start = event["start"]
            if kind == "mark":
                self.marked_s.append(time.monotonic())
            if kind != "media":
                self.events.append(kind)
                continue
            self.media_s.append(time.monotonic())
            pcm = decode(base64.b64decode(event["media"]["payload"]), PHONE)
            assert len(pcm) == 160
            if np.abs(pcm).max() > 1_000:
                if quiet > 5 and time.monotonic() < replies_until_s:
                    await socket.send_json({"event": "clear", "streamSid": event["streamSid"]})
                    replies_until_s = 0.0
                loud, quiet = True, 0
                continue
            quiet += 1
            if loud and quiet == 10 and self._answers:
                loud = False
                self.answered_s.append(time.monotonic())
                replies_until_s = self.answered_s[-1] + REPLY_MS / 1000
                sid = event["streamSid"]
                payload = base64.b64encode(encode(tone(8_000, REPLY_MS), PHONE)).decode()
                await socket.send_json({"event": "media", "streamSid": sid, "media": {"payload": payload}})
                await socket.send_json({"event": "mark", "streamSid": sid, "mark": {"name": "said"}})


@asynccontextmanager
async def answering(agent: Agent) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_post("/voice", agent.voice)
    application.router.add_get("/media", agent.media)
    async with listening(application) as address:
        yield address


async def call(base_url: str, *, again_after_ms: int | None = None, key: str | None = None) -> TurnRecord:
    """Call an agent and speak once, or also interrupt the reply with the same speech."""
    clock, mode = SystemClock(), TWILIO.turn_modes[0]
    settings = EndpointSettings(base_url=base_url, turn_mode=mode, key=Secret(key) if key else None)
    session = Session(Twilio(settings), WebSocketTransport, clock, turn_mode=mode, limits=LIMITS)
    frames = frames_of(tone(8_000, 400), 160)
    if again_after_ms is not None:
        frames = [*frames, *[bytes(320)] * (again_after_ms // 20), *frames]
    boundaries = SpeechBoundaries(onset_ns=0, voice_end_ns=len(frames) * 20 * MS, method="annotation")
    utterance = Utterance(frames=frames, frame_ns=20 * MS, boundaries=boundaries)
    (capture,) = await session.converse([utterance])
    case = Case(case_id="c", script_id="c", variant=Variant.NEUTRAL, audio_path=Path("c.wav"))
    return finish(capture, case, None, repeat=0, attempt=1)


async def test_a_call() -> None:
    agent = Agent()
    async with answering(agent) as address:
        record = await call(f"ws://{address}/media")
    assert record.failure is None
    assert [response.status for response in record.responses] == [ResponseStatus.COMPLETED]
    assert agent.headers == [None]
    assert agent.events == ["connected", "start", "mark", "stop"]
    assert agent.start["mediaFormat"] == {"encoding": "audio/x-mulaw", "sampleRate": 8_000, "channels": 1}
    assert record.timing.first_byte.ns is None
    assert record.timing.voice_to_voice.ns is not None
    assert 190 < record.timing.voice_to_voice.ns / MS < 1_000
    sent_s = agent.media_s[-1] - agent.media_s[0]
    assert sent_s > 0.018 * (len(agent.media_s) - 1), "not faster than it is spoken"
    # The reply arrived in one burst; the line plays it, and echoes the mark at its end.
    assert REPLY_MS / 1000 <= agent.marked_s[0] - agent.answered_s[0] < REPLY_MS / 1000 + 0.3
    heard = record.responses[0].heard_ns
    assert heard is not None
    assert (heard[-1][1] - heard[0][0]) / MS == pytest.approx(REPLY_MS, abs=25)


async def test_the_agent_clears_its_reply() -> None:
    """The user speaks again while the reply plays: unplayed audio is never heard."""
    agent = Agent()
    async with answering(agent) as address:
        record = await call(f"ws://{address}/media", again_after_ms=400)
    assert record.failure is None
    assert [response.status for response in record.responses] == [
        ResponseStatus.CANCELLED,
        ResponseStatus.COMPLETED,
    ]
    assert agent.events.count("mark") == 2
    cut, whole = (response.heard_ns for response in record.responses)
    assert cut is not None
    assert whole is not None
    assert 150 < (cut[-1][1] - cut[0][0]) / MS < 350
    assert (whole[-1][1] - whole[0][0]) / MS == pytest.approx(REPLY_MS, abs=25)


async def test_a_call_by_the_webhook() -> None:
    agent = Agent()
    async with answering(agent) as address:
        record = await call(f"http://{address}/voice", key="token")
    assert record.failure is None
    assert "webhook" in record.trace.setup_ns
    assert len(set(agent.headers)) == 2, "each request has its own signature"
    assert None not in agent.headers
    assert agent.start["callSid"] == agent.form["CallSid"]
    assert agent.start["customParameters"] == {"a": "b"}


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (
            Agent(stream="https://127.0.0.1/media"),
            "expected a URL such as wss://HOST/PATH, got scheme 'https'",
        ),
        (Agent(stream="ws://user:pw@127.0.0.1/media"), "with a login"),
        (Agent(stream=""), "expected TwiML with <Connect><Stream url=…>"),
        (Agent(status=404), "got 404"),
        (Agent(status=403), "check the key"),
    ],
)
async def test_a_webhook_without_a_usable_stream(agent: Agent, words: str) -> None:
    async with answering(agent) as address:
        record = await call(f"http://{address}/voice")
    assert record.failure is not None
    assert words in record.failure.message
    assert "pw" not in record.failure.message


async def test_an_agent_that_never_sends_anything() -> None:
    agent = Agent(answers=False)
    async with answering(agent) as address:
        record = await call(f"ws://{address}/media")
    assert record.failure is not None
    assert record.failure.kind is FailureKind.NO_RESPONSE
    assert "sent no audio" in record.failure.message
    assert agent.events[-1] == "stop"
