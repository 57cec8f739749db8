"""The built-in reference endpoint: a realtime speech server with exact delays and logged true times.

`engine` runs one session independently of any protocol; `protocols` translate it into the messages of each
dialect; `server` connects both to sockets and media tracks; `responders` recognise speech and find replies.
"""

from __future__ import annotations

__all__ = ["REFERENCE"]

REFERENCE = "reference"
"""The name of its client, and the default endpoint of a run."""
