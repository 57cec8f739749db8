"""Cassettes: sessions recorded on the wire, to be played to a dialect again."""

from live_eval.cassettes.format import (
    Call,
    Cassette,
    Closed,
    Expected,
    Received,
    Sent,
    Step,
    TurnReport,
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
    "Step",
    "TurnReport",
    "expected",
    "read_cassette",
    "write_cassette",
]
