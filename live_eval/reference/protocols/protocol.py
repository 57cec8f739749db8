"""The contract of server protocols: how the server speaks one dialect. Pure, like the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import pybase64

from live_eval.reference.engine.engine import Engine
from live_eval.reference.engine.events import CloseConnection, Event, Output, TrackPlayback

__all__ = ["ServerProtocol"]


class ServerProtocol(ABC):
    """One session in one dialect. No method raises on a client's input.

    Args:
        engine: The engine of the session; the host passes it the results of models directly.
    """

    decoder_delay_samples: ClassVar[int] = 0
    """Delay of a listener's decoder, in samples at the output's rate: of codecs with look-ahead."""

    audio_in_base64: ClassVar[bool] = True
    """Whether messages contain audio as base64."""

    reports_stops: ClassVar[bool] = False
    """Whether the client hears of a reply that is stopped, and drops what it has not played."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def opened(self) -> Sequence[Output]:
        """Start the session on an open connection. By default, the client starts."""
        return ()

    @abstractmethod
    def received(self, message: str | bytes, at_ns: int) -> Sequence[Output]:
        """Take a message: text as `str`, binary as `bytes`."""

    def expires_soon(self, left_s: int) -> Sequence[Output]:
        """Announce that the session ends in `left_s` seconds, if the dialect can."""
        return ()

    @abstractmethod
    def expired(self) -> Sequence[Output]:
        """Close the session because its time is up; end with `CloseConnection`."""

    @abstractmethod
    def render(self, event: Event) -> Sequence[bytes | CloseConnection]:
        """Encode an event as messages, in order; `CloseConnection` where the dialect closes instead."""

    def deciding_message(self, event: Event) -> int:
        """Return which message of `render` says what a client acts on; the first by default."""
        return 0

    @classmethod
    def encode(cls, audio: bytes) -> bytes:
        """Encode a chunk of audio for `AudioPiece.payload`. Thread-safe."""
        return pybase64.b64encode(audio) if cls.audio_in_base64 else audio

    def playback(self, playback: TrackPlayback) -> Sequence[Output]:
        """Report playback of a response on a media track; the rest of a cleared one was not heard.

        Such a session uses Opus (`live_eval.reference.protocols.webrtc.TRACK`).
        """
        return ()
