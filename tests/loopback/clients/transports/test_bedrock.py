"""Bedrock's transport: Amazon's SDK against an imitation of Bedrock (HTTP/2 and TLS; Python 3.12 only)."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from live_eval.audio import frames_of
from live_eval.clients.dialects.nova_sonic import NovaSonic
from live_eval.clients.specs import NOVA_SONIC
from live_eval.clock import SystemClock
from live_eval.dialect import Dial, EndpointSettings
from live_eval.errors import ConnectError, FailureKind, PluginError, TransportClosedError
from live_eval.recording.record import finish
from live_eval.registry import load
from live_eval.session import Session, Utterance
from live_eval.session.limits import SessionLimits
from live_eval.transport import Arrival
from live_eval.types import Case, Secret, SpeechBoundaries, StampKind, TurnMode, Variant
from tests.support.bedrock import Bedrock, Refused, Sonic, serving_bedrock
from tests.support.sounds import main_tone_hz, tone

THERE = all(importlib.util.find_spec(name) for name in ("aws_sdk_bedrock_runtime", "awscrt", "h2"))
needs_sdk = pytest.mark.skipif(not THERE, reason="needs Python 3.12, the extra `nova-sonic` and h2")
SPEC = NOVA_SONIC
MS = 1_000_000
TEXT = ("contentStart", "textInput", "contentEnd")
SECRET, TOKEN = "wJalrX-secret-key", "FwoG-session-token"


def settings(base_url: str, **values: Any) -> EndpointSettings:
    keys = {"key": Secret(SECRET), "key_id": "AKIAEXAMPLE7", "key_token": Secret(TOKEN)}
    return EndpointSettings(**{"base_url": base_url, "model": SPEC.model, **keys, **values})


def dial(bedrock: Bedrock, monkeypatch: pytest.MonkeyPatch) -> Dial:
    monkeypatch.setenv("SSL_CERT_FILE", str(bedrock.authorities))
    return NovaSonic(settings(bedrock.url)).dial()


def event(kind: str, **fields: object) -> str:
    return json.dumps({"event": {kind: fields}})


def echo(said: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield said


async def after_headers(transport: Any) -> Arrival:
    """Return the next arrival that is not the response's headers."""
    arrival: Arrival = await transport.receive()
    return await after_headers(transport) if arrival.message == '{"response":{}}' else arrival


@pytest.mark.skipif(THERE, reason="the SDK is installed")
def test_without_the_sdk_the_message_names_the_python_version_and_the_extra() -> None:
    with pytest.raises(PluginError, match=r"needs (Python 3\.12 or newer, .*, and )?Amazon's SDK"):
        load(SPEC.transport)


@needs_sdk
async def test_events_travel_both_ways_signed_and_stamped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = load(SPEC.transport)(SystemClock())
    async with serving_bedrock(tmp_path, lambda: echo) as bedrock:
        await transport.connect(dial(bedrock, monkeypatch), 5)
        assert list(transport.setup_ns) == ["tls", "stream"]
        for number in range(3):
            before_ns = time.monotonic_ns()
            await transport.send(event("audioInput", content=f"{number}"))
            arrival = await after_headers(transport)
            assert json.loads(arrival.message) == {"event": {"audioInput": {"content": f"{number}"}}}
            assert before_ns < arrival.at_ns <= time.monotonic_ns()
        await transport.close()
    (headers,) = bedrock.headers
    assert headers[":path"] == "/model/amazon.nova-2-sonic-v1%3A0/invoke-with-bidirectional-stream"
    assert "Credential=AKIAEXAMPLE7/" in headers["authorization"]
    assert "/us-east-1/bedrock/aws4_request" in headers["authorization"]
    assert headers["x-amz-security-token"] == TOKEN
    assert SECRET not in str(headers)
    assert bedrock.signatures == 4  # three events and the end
    with pytest.raises(TransportClosedError):
        await transport.receive()


@needs_sdk
async def test_a_certificate_that_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transport = load(SPEC.transport)(SystemClock())
    async with serving_bedrock(tmp_path, lambda: echo) as bedrock:
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        with pytest.raises(ConnectError, match="TLS failed") as caught:
            await transport.connect(NovaSonic(settings(bedrock.url)).dial(), 1)
    assert caught.value.kind is FailureKind.TLS


@needs_sdk
async def test_an_exception_of_the_service_is_the_last_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(said: dict[str, Any]) -> Iterable[Exception]:
        return [Exception("validationException", "Timed out waiting for input events")]

    transport = load(SPEC.transport)(SystemClock())
    async with serving_bedrock(tmp_path, lambda: fail) as bedrock:
        await transport.connect(dial(bedrock, monkeypatch), 5)
        await transport.send(event("sessionStart"))
        found = json.loads((await after_headers(transport)).message)["exception"]
        assert found == {"type": "ValidationException", "message": "Timed out waiting for input events"}
        with pytest.raises(TransportClosedError, match="the endpoint ended the stream"):
            await after_headers(transport)
        with pytest.raises(TransportClosedError):
            await transport.send(event("sessionStart"))
        await transport.close()


@needs_sdk
@pytest.mark.parametrize(
    ("refused", "kind"),
    [
        (Refused(403, "UnrecognizedClientException", "The token is invalid."), FailureKind.AUTHENTICATION),
        (Refused(403, "AccessDeniedException", f"No access with {SECRET}."), FailureKind.AUTHENTICATION),
        (Refused(404, "ResourceNotFoundException", "No such model."), FailureKind.UNKNOWN_MODEL),
        (Refused(429, "ThrottlingException", "Too many requests."), FailureKind.RATE_LIMITED),
    ],
    ids=lambda value: value.name if isinstance(value, Refused) else "",
)
async def test_a_request_that_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Refused, kind: FailureKind
) -> None:
    transport = load(SPEC.transport)(SystemClock())
    async with serving_bedrock(tmp_path, lambda: echo, refused=refused) as bedrock:
        await transport.connect(dial(bedrock, monkeypatch), 5)
        arrival = await after_headers(transport)
        await transport.close()
    assert SECRET not in arrival.message
    (found,) = NovaSonic(settings(bedrock.url)).received(arrival.message, 0)
    assert (getattr(found, "kind", None), getattr(found, "fatal", None)) == (kind, True)


@needs_sdk
async def test_an_event_that_the_sdk_does_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def surprise(said: dict[str, Any]) -> Iterable[Exception]:
        return [Exception("someNewException", "Surprise.")]

    transport = load(SPEC.transport)(SystemClock())
    async with serving_bedrock(tmp_path, lambda: surprise) as bedrock:
        await transport.connect(dial(bedrock, monkeypatch), 5)
        await transport.send(event("sessionStart"))
        with pytest.raises(TransportClosedError, match=r"the stream broke: KeyError: 'someNewException'"):
            await after_headers(transport)
        await transport.close()


@needs_sdk
async def test_a_connection_that_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reset(said: dict[str, Any]) -> Iterable[dict[str, Any]]:
        raise ConnectionResetError

    transport = load(SPEC.transport)(SystemClock())
    async with serving_bedrock(tmp_path, lambda: reset) as bedrock:
        await transport.connect(dial(bedrock, monkeypatch), 5)
        await transport.send(event("sessionStart"))
        with pytest.raises(TransportClosedError, match="the stream broke: "):
            await after_headers(transport)
        await transport.close()


@needs_sdk
async def test_a_server_without_http_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving_bedrock(tmp_path, lambda: echo, alpn="http/1.1") as bedrock:
        with pytest.raises(ConnectError, match=r"expected a server with HTTP/2") as caught:
            await load(SPEC.transport)(SystemClock()).connect(dial(bedrock, monkeypatch), 5)
    assert caught.value.kind is FailureKind.HANDSHAKE


@needs_sdk
async def test_a_port_without_a_listener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving_bedrock(tmp_path, lambda: echo) as bedrock:
        to = dial(bedrock, monkeypatch)
    with pytest.raises(ConnectError) as caught:
        await load(SPEC.transport)(SystemClock()).connect(to, 5)
    assert caught.value.kind is FailureKind.CONNECTION_REFUSED


class Renewed(NovaSonic):
    """Renews its session after each reply."""

    renew_ns = 0


@needs_sdk
async def test_a_session_is_renewed_after_each_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = frames_of(tone(16_000, 300), 320)
    end_ns = len(frames) * 20 * MS
    spoken = SpeechBoundaries(onset_ns=0, voice_end_ns=end_ns, method="annotation")
    said = Utterance(frames=frames, frame_ns=20 * MS, boundaries=spoken)
    mode, limits = TurnMode.SERVER_VAD, SessionLimits(connect_s=5, ready_s=5, reply_s=5, stall_s=5)
    async with serving_bedrock(tmp_path, Sonic) as bedrock:
        monkeypatch.setenv("SSL_CERT_FILE", str(bedrock.authorities))
        dialect = Renewed(settings(bedrock.url, instructions="Be brief."))
        session = Session(dialect, load(SPEC.transport), SystemClock(), turn_mode=mode, limits=limits)
        captures = await session.converse([said, said])
    case = Case(case_id="c", script_id="c", variant=Variant.NEUTRAL, audio_path=Path("c.wav"))
    for capture in captures:
        record = finish(capture, case, None, repeat=0, attempt=1)
        assert record.captured
        assert main_tone_hz(record.audio[0], 24_000) == pytest.approx(440, abs=5)
        assert record.trace.stamps is StampKind.USER
    kinds = [next(iter(each)) for each in bedrock.events]
    assert kinds[:7] == ["sessionStart", "promptStart", *TEXT, "contentStart", "audioInput"]
    texts = [each["textInput"]["content"] for each in bedrock.events if "textInput" in each]
    assert texts[:4] == ["Be brief.", "Be brief.", "Hello.", "A tone."]
    assert len(bedrock.headers) == 3


@needs_sdk
async def test_missing_credentials() -> None:
    to = NovaSonic(settings("https://127.0.0.1:9", key=None)).dial()
    with pytest.raises(ConnectError, match=r"expected AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY") as caught:
        await load(SPEC.transport)(SystemClock()).connect(to, 5)
    assert caught.value.kind is FailureKind.NO_KEY


@needs_sdk
async def test_closing_ends_the_stream_even_if_the_endpoint_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = load(SPEC.transport)(SystemClock())
    async with serving_bedrock(tmp_path, lambda: lambda said: ()) as bedrock:
        await transport.connect(dial(bedrock, monkeypatch), 5)
        waiting = asyncio.create_task(after_headers(transport))
        await transport.send(event("sessionEnd"))
        await asyncio.wait_for(transport.close(), 5)
        with pytest.raises(TransportClosedError):
            await waiting
    assert bedrock.events == [{"sessionEnd": {}}]
