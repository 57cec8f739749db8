"""Provide a fake clock, in-memory connections and conformance suites for tests."""

from live_eval.cassettes import Cassette, read_cassette
from live_eval.testing.dialects import ConformanceError, check_dialect, play_cassette
from live_eval.testing.fake_clock import FakeClock
from live_eval.testing.judges import check_judge
from live_eval.testing.memory_transport import Link, MemoryPeer, MemoryTransport, memory_pair
from live_eval.testing.situations import Situation, situations_in

__all__ = [
    "Cassette",
    "ConformanceError",
    "FakeClock",
    "Link",
    "MemoryPeer",
    "MemoryTransport",
    "Situation",
    "check_dialect",
    "check_judge",
    "memory_pair",
    "play_cassette",
    "read_cassette",
    "situations_in",
]
