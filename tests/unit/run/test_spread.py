import pytest

from live_eval.dialect import TransportKind
from live_eval.run.spread import default_processes, overload


@pytest.mark.parametrize(
    ("kind", "sessions", "processes"),
    [
        (TransportKind.WEBSOCKET, 1, 0),
        (TransportKind.WEBSOCKET, 4, 0),
        (TransportKind.WEBSOCKET, 50, 1),
        (TransportKind.WEBSOCKET, 100, 1),
        (TransportKind.WEBSOCKET, 300, 2),
        (TransportKind.WEBSOCKET, 1000, 2),  # at most the number of cores
        (TransportKind.WEBRTC, 10, 1),
        (TransportKind.WEBRTC, 40, 2),
    ],
)
def test_processes_follow_sessions_and_cores(kind: TransportKind, sessions: int, processes: int) -> None:
    assert default_processes(kind, sessions, cores=2) == processes


def test_an_overload_is_reported() -> None:
    assert overload(TransportKind.WEBSOCKET, 300, cores=2) == ""
    assert overload(TransportKind.WEBSOCKET, 301, cores=2).startswith(
        "301 concurrent sessions over websocket may not be timed accurately: 300 is the highest "
    )
    assert "40 is the highest number measured" in overload(TransportKind.WEBRTC, 41, cores=2)
    assert overload(TransportKind.HTTP2, 21, cores=2).endswith(
        "20 is an estimate for 2 cores; check the lag of the turns"
    )
