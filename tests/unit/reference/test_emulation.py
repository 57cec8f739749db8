"""The services that the reference endpoint emulates, and their addresses."""

import re

import pytest
from click.testing import CliRunner

from live_eval.cli.endpoint import command
from live_eval.dialect import TransportKind
from live_eval.errors import UsageError
from live_eval.reference import REFERENCE
from live_eval.reference.emulation import address, calibration_client, emulated_clients, emulation_of
from live_eval.reference.server.app import ROUTES
from live_eval.registry import client
from tests.support.bundled import SPECS


def test_every_route_serves_a_client_that_declares_it() -> None:
    for route in ROUTES:
        spec = SPECS[route.dialect.replace("-", "_")]
        emulation = spec.emulation
        assert emulation is not None
        assert spec.transport_kind is TransportKind.WEBSOCKET
        assert route.path.startswith(emulation.base_path)
        assert (route.config.lossy_input, route.exclusive) == (emulation.lossy_input, emulation.exclusive)


@pytest.mark.parametrize("name", sorted(emulated_clients()))
def test_an_address_suits_the_client_and_is_in_the_help(name: str) -> None:
    websocket = client(name).transport_kind is TransportKind.WEBSOCKET
    base_url = address(name, "127.0.0.1", 8765)
    assert base_url.startswith("ws://" if websocket else "http://")
    if name == REFERENCE:
        return
    text = CliRunner().invoke(command, ["--help"]).output
    (line,) = (line for line in text.splitlines() if re.search(rf"(?<![\w-]){name}(?![\w-])", line))
    assert line.endswith(f" {base_url}")


def test_a_service_without_emulation_is_refused() -> None:
    with pytest.raises(
        UsageError, match="does not emulate 'hume'; expected one of: assemblyai, deepgram, elevenlabs"
    ):
        emulation_of("hume")


def test_each_realtime_transport_is_calibrated_by_one_client() -> None:
    calibrating = [
        spec.transport_kind
        for spec in emulated_clients().values()
        if spec.emulation is not None and spec.emulation.calibrates
    ]
    assert sorted(calibrating) == [TransportKind.WEBRTC, TransportKind.WEBSOCKET]
    assert calibration_client(TransportKind.WEBSOCKET) == REFERENCE
    with pytest.raises(UsageError, match="no installed client calibrates http"):
        calibration_client(TransportKind.HTTP)
