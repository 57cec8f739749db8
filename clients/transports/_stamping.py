"""Record the setup steps and kernel timestamps of socket transports."""

from __future__ import annotations

from collections.abc import Mapping

from live_eval.clients.transports._http_errors import load_system_tls
from live_eval.clock import Clock
from live_eval.dialect import Dial
from live_eval.sockets.stamps import ArrivalStamps


class StampingTransport:
    """Base class of transports with kernel arrival timestamps; `clock` stamps arrivals that have none."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._stamps = ArrivalStamps(clock)
        self._setup_ns: dict[str, int] = {}
        self._step_ns = 0

    @property
    def setup_ns(self) -> Mapping[str, int]:
        """The duration of each setup step, by name."""
        return self._setup_ns

    @property
    def stamp_error_ns(self) -> int:
        """The maximum error from mapping kernel timestamps to the monotonic clock."""
        return self._stamps.error_ns

    @property
    def clock_steps(self) -> int:
        """The number of times the wall clock was set."""
        return self._stamps.steps

    async def load(self, dial: Dial) -> None:
        """Load the system's trust store if `dial` uses TLS."""
        await load_system_tls(dial)

    def _stepped(self, step: str) -> None:
        """Record the end of a setup step."""
        now_ns = self._clock.now_ns()
        self._setup_ns[step] = now_ns - self._step_ns
        self._step_ns = now_ns
