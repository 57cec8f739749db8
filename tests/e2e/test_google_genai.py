"""The official `google-genai` SDK as a client of the reference endpoint's Gemini Live."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trustme

from tests.e2e.conftest import Talk
from tests.e2e.helpers import STRANGERS, two_turns

pytest.importorskip("faster_whisper")
pytest.importorskip("hibari")
pytestmark = [pytest.mark.local, pytest.mark.slow]


@asynccontextmanager
async def behind_tls(address: str, certificates: Path) -> AsyncIterator[str]:
    """Run a TLS proxy in front of a server and write the certificate authority to trust into a file.

    Args:
        address: Host and port of the server.
        certificates: The folder for the certificates.
    """
    authority = trustme.CA()
    authority.cert_pem.write_to_path(certificates)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    host, _, port = address.partition(":")

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(forward(reader, inner_writer), forward(inner_reader, writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("version", ["v1beta", "v1"])
async def test_a_live_session_of_two_turns(
    strangers_python: Path, reference: str, talk: Talk, tmp_path: Path, version: str
) -> None:
    """Google's SDK works with our Gemini Live: setup, two turns, transcripts, usage.

    Its peculiarities: it requires TLS, reads JSON from binary messages, and ends a turn's loop at
    `turnComplete`, so that nothing of a turn may follow it.
    """
    certificates = tmp_path / "authority.pem"
    async with behind_tls(reference, certificates) as url:
        client: list[str | Path] = [strangers_python, STRANGERS / "genai_client.py", url, version]
        trusted = {"SSL_CERT_FILE": str(certificates)}
        turns = await two_turns(client, talk, 16_000, reply_hz=24_000, environment=trusted)
    assert all(turn["complete"] for turn in turns), "generationComplete came before turnComplete"
    assert all(turn["tokens"] > 0 for turn in turns)
    assert [turn["rates"] for turn in turns] == [["audio/pcm;rate=24000"]] * 2
