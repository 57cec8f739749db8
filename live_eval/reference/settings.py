"""Define the settings of the reference endpoint: timing, behaviour in overlaps, and faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from live_eval.errors import UsageError
from live_eval.impair.language import BoundedValue, ValueUnit
from live_eval.reference.faults.catalogue import FaultLayer
from live_eval.reference.faults.fault_script import NO_FAULTS, FaultScript, parse_faults
from live_eval.text.suggestions import did_you_mean

__all__ = [
    "BOUNDS",
    "NEVER",
    "TOKEN_VARIABLE",
    "AfterStop",
    "Cadence",
    "IdleRtp",
    "OnBackchannel",
    "ReferenceSettings",
    "StopTime",
]

TOKEN_VARIABLE = "LIVE_EVAL_ENDPOINT_TOKEN"
"""Environment variable with the bearer token required by ``live-eval endpoint``."""

NEVER: Literal["never"] = "never"
"""Value of `ReferenceSettings.stop_ms` for replies that never stop."""

StopTime: TypeAlias = int | Literal["never"] | None


class Cadence(StrEnum):
    """The pace at which the rest of a reply is sent once it has started."""

    BURST = "burst"
    """The first chunk, then all others together after 2 ms."""
    REALTIME = "realtime"
    """Each chunk at its playback time, relative to the first chunk."""


class IdleRtp(StrEnum):
    """The packets that a media track sends between replies."""

    SILENCE = "silence"
    """A silent packet every 20 ms; a reply starts with the next packet."""
    NONE = "none"
    """No packets; a reply starts immediately."""


class OnBackchannel(StrEnum):
    """The endpoint's reaction to a backchannel (short user speech over a reply)."""

    STOP = "stop"
    """Stop the reply and respond to the user, as after any other speech."""
    IGNORE = "ignore"
    """Ignore it."""


class AfterStop(StrEnum):
    """The endpoint's action after the user has interrupted a reply."""

    ANSWER = "answer"
    """Respond to the user."""
    RESUME = "resume"
    """Play the rest of the stopped reply as a new response."""


_CHOICES: Mapping[str, type[StrEnum]] = {
    "cadence": Cadence,
    "idle_rtp": IdleRtp,
    "on_backchannel": OnBackchannel,
    "after_stop": AfterStop,
}
_OF_THE_PROCESS = ("calibrate", "faults", "session_limit_s", "notice_s")
_LABEL_CHARACTERS = 100


def _within(least: int, most: int) -> Mapping[str, tuple[int, int]]:
    return {"bounds": (least, most)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceSettings:
    """A session's settings: the process's defaults, overridden by the session's URL.

    Args:
        delay_ms: Delay from the end of the user's speech to the reply's first chunk. A reply that takes
            longer to generate is sent immediately.
        lead_silence_ms: Digital silence before the reply.
        chunk_ms: Duration of a reply audio chunk; media track packets are always 20 ms long.
        cadence: Pace at which chunks are sent. On a media track, it only affects events, since packets are
            sent in real time.
        calibrate: Whether to calibrate without models: speech ends when a marked sample arrives, and the
            reply is a synthetic signal.
        reply_ms: Duration of the synthetic reply, excluding lead silence and pause.
        reply_pause_ms: Digital silence in the middle of the synthetic reply.
        stall_ms: Duration of a stall. No session starts a reply during the first `stall_ms` of every
            `stall_every_ms` on the monotonic clock; delayed replies start when the stall ends.
        stall_every_ms: Stall period; 0 for no stalls.
        faults: The faults to inject.
        session_limit_s: Maximum duration of a session.
        notice_s: Time between the announcement of a session's end (Gemini's ``goAway``) and the end; 0 for no
            announcement.
        idle_rtp: Packets that a media track sends between replies.
        stop_ms: How long a reply continues after the first sample of overlapping user speech arrives; `NEVER`
            to complete the reply; None to stop when the endpoint detects the speech. If set, a response can
            be stopped until its audio has been played.
        on_backchannel: Reaction to speech shorter than `backchannel_ms` over a reply.
        backchannel_ms: Maximum duration of a backchannel.
        after_stop: What to do after the user has interrupted a reply.
        end_silence_ms: Silence that ends the user's turn; None to use the client's setting or the mark.
        talk_over_ms: Delay from the start of the user's speech (with no reply in progress) to the endpoint's
            response; None to wait until the user's turn ends.
        greeting_ms: Delay from session opening to the endpoint's greeting; None for no greeting.
        label: The client's label for the session. Logged with the true times, because not every dialect
            transmits a session ID.

    Raises:
        UsageError: A value is out of bounds, or two values conflict.
    """

    delay_ms: int = field(default=0, metadata=_within(0, 600_000))
    lead_silence_ms: int = field(default=0, metadata=_within(0, 60_000))
    chunk_ms: int = field(default=100, metadata=_within(1, 10_000))
    cadence: Cadence = Cadence.BURST
    calibrate: bool = False
    reply_ms: int = field(default=1000, metadata=_within(1, 600_000))
    reply_pause_ms: int = field(default=0, metadata=_within(0, 60_000))
    stall_ms: int = field(default=0, metadata=_within(0, 600_000))
    stall_every_ms: int = field(default=0, metadata=_within(0, 3_600_000))
    faults: FaultScript = NO_FAULTS
    session_limit_s: int = field(default=3600, metadata=_within(1, 86_400))
    notice_s: int = field(default=60, metadata=_within(0, 86_400))
    idle_rtp: IdleRtp = IdleRtp.SILENCE
    stop_ms: StopTime = field(default=None, metadata=_within(0, 60_000))
    on_backchannel: OnBackchannel = OnBackchannel.STOP
    backchannel_ms: int = field(default=1000, metadata=_within(1, 60_000))
    after_stop: AfterStop = AfterStop.ANSWER
    end_silence_ms: int | None = field(default=None, metadata=_within(20, 60_000))
    talk_over_ms: int | None = field(default=None, metadata=_within(0, 60_000))
    greeting_ms: int | None = field(default=None, metadata=_within(0, 60_000))
    label: str = ""

    def __post_init__(self) -> None:
        for name, (least, most) in BOUNDS.items():
            value = getattr(self, name)
            if value not in (None, NEVER) and not least <= value <= most:
                raise UsageError(f"{name}: expected {least} to {most}, got {value}")
        if self.stall_ms and self.stall_ms >= self.stall_every_ms:
            raise UsageError(
                f"stall_ms: expected less than stall_every_ms ({self.stall_every_ms}), got {self.stall_ms}"
            )
        if len(self.label) > _LABEL_CHARACTERS:
            raise UsageError(f"label: expected at most {_LABEL_CHARACTERS} characters, got {len(self.label)}")
        self._check_overlap()

    def _check_overlap(self) -> None:
        stop_ms = self.stop_ms
        if self.after_stop is AfterStop.RESUME and not isinstance(stop_ms, int):
            found = "nothing" if stop_ms is None else stop_ms
            raise UsageError(f"after_stop=resume: expected stop_ms in milliseconds, got {found}")
        if self.on_backchannel is OnBackchannel.IGNORE and (
            stop_ms is None or (isinstance(stop_ms, int) and stop_ms < self.backchannel_ms)
        ):
            raise UsageError(
                "on_backchannel=ignore: expected stop_ms=never or at least backchannel_ms "
                f"({self.backchannel_ms}), got {stop_ms}"
            )

    @property
    def scripted(self) -> bool:
        """Whether the settings change how the endpoint behaves while the user speaks or pauses."""
        return any(value is not None for value in (self.stop_ms, self.end_silence_ms, self.talk_over_ms))

    def of_reply(self, number: int) -> ReferenceSettings:
        """Return the settings for reply `number` (from 1), with only the faults that affect it."""
        return replace(self, faults=self.faults.in_reply(number)) if self.faults else self

    def after_stall(self, at_ns: int) -> int:
        """Return `at_ns` or, if it is within a stall, the end of the stall.

        >>> ReferenceSettings(stall_ms=200, stall_every_ms=1000).after_stall(3_050_000_000)
        3200000000
        """
        if not self.stall_ms:
            return at_ns
        into_ns = at_ns % (self.stall_every_ms * 1_000_000)
        return at_ns + max(0, self.stall_ms * 1_000_000 - into_ns)

    def overridden(self, query: Mapping[str, str]) -> ReferenceSettings:
        """Return these settings, overridden by a session's URL query such as ``?delay_ms=200``.

        ``fault`` replaces all faults except those on the TCP connection; ``fault=none`` removes them.

        Args:
            query: URL parameters, except the dialect's.

        Raises:
            UsageError: A key is unknown, or a value is not allowed.
        """
        changes: dict[str, Any] = {}
        for key, value in query.items():
            if key not in _PER_SESSION:
                raise UsageError(
                    f"unknown URL parameter {key!r}{did_you_mean(key, _PER_SESSION)}; "
                    f"expected one of: {', '.join(_PER_SESSION)}"
                )
            if key == "label":
                changes[key] = value
            elif key == "fault":
                changes["faults"] = self._faults_of_session(value)
            else:
                changes[key] = _read_setting(key, value)
        return replace(self, **changes)

    def _faults_of_session(self, text: str) -> FaultScript:
        script = parse_faults(text, self.faults.seed)
        if early := script.in_layers(FaultLayer.ACCEPT):
            raise UsageError(f"fault={early[0]}: this fault precedes the request; set it with --fault")
        return FaultScript((*self.faults.in_layers(FaultLayer.ACCEPT), *script), script.seed)


BOUNDS: Mapping[str, tuple[int, int]] = {
    each.name: each.metadata["bounds"] for each in fields(ReferenceSettings) if "bounds" in each.metadata
}
"""Minimum and maximum of each number, in the unit in its name."""
_PER_SESSION = (
    *(each.name for each in fields(ReferenceSettings) if each.name not in _OF_THE_PROCESS),
    "fault",
)


def _read_setting(name: str, text: str) -> int | StrEnum | Literal["never"]:
    """Parse a setting from a URL or a command line, or raise `UsageError`."""
    kind = _CHOICES.get(name)
    if kind is not None:
        allowed = BoundedValue(ValueUnit.CHOICE, choices=tuple(kind))
    else:
        allowed = BoundedValue(ValueUnit.NUMBER, *BOUNDS[name], (NEVER,) if name == "stop_ms" else ())
    try:
        value = allowed.read(text)
    except ValueError as error:
        raise UsageError(f"{name}: expected {error}") from None
    if kind is not None:
        return kind(str(value))
    return NEVER if value == NEVER else int(value)
