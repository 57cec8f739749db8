"""Store recorded sessions as cassettes, and replay them through a dialect."""

from live_eval.cassettes.format import (
    Call,
    Cassette,
    Closed,
    Expected,
    Received,
    Sent,
    SessionReport,
    Step,
    WireRecord,
    expected,
    read_cassette,
    write_cassette,
)

__all__ = [
    "Call",
    "Cassette",
    "Closed",
    "Expected",
    "Received",
    "Sent",
    "SessionReport",
    "Step",
    "WireRecord",
    "expected",
    "read_cassette",
    "write_cassette",
]
