"""The built-in reference endpoint: a realtime speech server with exact delays and ground-truth logs.

`engine` runs one session independently of any protocol, `protocols` translates its events into each dialect's
messages, `server` connects both to sockets and media tracks, and `responders` recognises speech and generates
replies.
"""

from __future__ import annotations

__all__ = ["REFERENCE"]

REFERENCE = "reference"
"""Name of the reference endpoint's client, and the default endpoint of a run."""
