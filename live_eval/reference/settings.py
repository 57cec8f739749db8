"""Settings of the reference endpoint: exact timing, behaviour over overlaps, and faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from live_eval.errors import UsageError
from live_eval.impair.language import BoundedValue, ValueUnit
from live_eval.reference.faults.catalogue import FaultLayer
from live_eval.reference.faults.script import NO_FAULTS, FaultScript, parse_faults

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
    "read_setting",
]

TOKEN_VARIABLE = "LIVE_EVAL_ENDPOINT_TOKEN"
"""Environment variable with the token that clients of ``live-eval endpoint`` must present."""

NEVER: Literal["never"] = "never"
"""The value of `ReferenceSettings.stop_ms` with which no reply stops."""

StopTime: TypeAlias = int | Literal["never"] | None


class Cadence(StrEnum):
    """How fast reply audio is sent once it has started."""

    BURST = "burst"
    """The first chunk, then after two milliseconds all others as fast as possible."""
    REALTIME = "realtime"
    """Each chunk when its audio would play, counted from the first."""


class IdleRtp(StrEnum):
    """What a media track carries between replies."""

    SILENCE = "silence"
    """A packet of silence every 20 ms, as from a microphone; a reply starts with the next packet."""
    NONE = "none"
    """No packets; a reply starts at once."""


class OnBackchannel(StrEnum):
    """What short speech over a reply does."""

    STOP = "stop"
    """The same as other speech: the reply stops, and the user is answered."""
    IGNORE = "ignore"
    """Nothing."""


class AfterStop(StrEnum):
    """What follows once the user who stopped a reply has spoken."""

    ANSWER = "answer"
    """An answer to what the user said."""
    RESUME = "resume"
    """The rest of the reply that was stopped, as a new response."""


BOUNDS: Mapping[str, tuple[int, int]] = {
    "delay_ms": (0, 600_000),
    "lead_silence_ms": (0, 60_000),
    "chunk_ms": (1, 10_000),
    "reply_ms": (1, 600_000),
    "reply_pause_ms": (0, 60_000),
    "stall_ms": (0, 600_000),
    "stall_every_ms": (0, 3_600_000),
    "session_limit_s": (1, 86_400),
    "notice_s": (0, 86_400),
    "stop_ms": (0, 60_000),
    "backchannel_ms": (1, 60_000),
    "patience_ms": (20, 60_000),
    "talk_over_ms": (0, 60_000),
    "greeting_ms": (0, 60_000),
}
"""Smallest and largest value of each number, in the unit of its name."""

_CHOICES: Mapping[str, type[StrEnum]] = {
    "cadence": Cadence,
    "idle_rtp": IdleRtp,
    "on_backchannel": OnBackchannel,
    "after_stop": AfterStop,
}
_PER_SESSION = (
    *("delay_ms", "lead_silence_ms", "chunk_ms", "reply_ms", "reply_pause_ms"),
    *("stall_ms", "stall_every_ms"),
    *("stop_ms", "backchannel_ms", "patience_ms", "talk_over_ms", "greeting_ms"),
    *_CHOICES,
    "fault",
    "label",
)
_LABEL_CHARACTERS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceSettings:
    """Behaviour of sessions: process-wide defaults, which a session's URL can override.

    Args:
        delay_ms: Delay from the end of the user's speech to the reply's first chunk. A reply that is ready
            later is sent at once.
        lead_silence_ms: Digital silence before the reply.
        chunk_ms: Length of a chunk of reply audio; packets of a media track are always 20 ms.
        cadence: How fast chunks are sent. On a media track it applies to events; packets always follow the
            pace of speech.
        calibrate: Load no models: the end of speech is the arrival of a marked sample, and the reply is a
            synthetic signal.
        reply_ms: Length of the synthetic reply, without lead silence and pause.
        reply_pause_ms: Digital silence in the middle of the synthetic reply, as between two sentences.
        stall_ms: Length of a stall: no reply begins in the first `stall_ms` of every `stall_every_ms` of the
            monotonic clock, in any session; those that fall due begin when the stall ends.
        stall_every_ms: Time from one stall to the next; 0 for no stalls.
        faults: The faults to inject.
        session_limit_s: Longest session.
        notice_s: How long before the end of a session to announce it, in dialects that can (Gemini's
            ``goAway``); 0 for no announcement.
        idle_rtp: What a media track carries between replies.
        stop_ms: How long a reply goes on once the user begins to speak over it, counted from the arrival of
            the user's first sample; `NEVER` if it is not to stop; None for as soon as the endpoint hears the
            user. If it is set, a response ends when its audio has been played, so that it can be stopped
            until then.
        on_backchannel: What speech over a reply that is shorter than `backchannel_ms` does.
        backchannel_ms: That length.
        after_stop: What follows once the user who stopped a reply has spoken.
        patience_ms: Silence that ends the user's turn, in place of what the client asks for and of the mark;
            None to leave that as it is.
        talk_over_ms: How long after the user begins to speak the endpoint begins to speak as well, when
            nothing is being said; that reply is the answer. None to wait for the end of the user's turn.
        greeting_ms: How long after the session opens the endpoint speaks first, before the user has said
            anything; None to wait for the user.
        label: The client's own label for the session, logged with its true times: not every dialect sends the
            client a session id.

    Raises:
        UsageError: A number is out of bounds, a stall is not shorter than the time to the next one, the
            label is too long, or what is to happen when the user speaks over a reply contradicts itself.
    """

    delay_ms: int = 0
    lead_silence_ms: int = 0
    chunk_ms: int = 100
    cadence: Cadence = Cadence.BURST
    calibrate: bool = False
    reply_ms: int = 1000
    reply_pause_ms: int = 0
    stall_ms: int = 0
    stall_every_ms: int = 0
    faults: FaultScript = NO_FAULTS
    session_limit_s: int = 3600
    notice_s: int = 60
    idle_rtp: IdleRtp = IdleRtp.SILENCE
    stop_ms: StopTime = None
    on_backchannel: OnBackchannel = OnBackchannel.STOP
    backchannel_ms: int = 1000
    after_stop: AfterStop = AfterStop.ANSWER
    patience_ms: int | None = None
    talk_over_ms: int | None = None
    greeting_ms: int | None = None
    label: str = ""

    def __post_init__(self) -> None:
        for name, (least, most) in BOUNDS.items():
            value = getattr(self, name)
            if value not in (None, NEVER) and not least <= value <= most:
                raise UsageError(f"{name}: expected {least} to {most}, but it is {value}")
        if self.stall_ms and self.stall_ms >= self.stall_every_ms:
            raise UsageError(
                f"stall_ms: expected less than stall_every_ms, {self.stall_every_ms}, "
                f"but it is {self.stall_ms}"
            )
        if len(self.label) > _LABEL_CHARACTERS:
            raise UsageError(
                f"label: expected at most {_LABEL_CHARACTERS} characters, but it has {len(self.label)}"
            )
        self._check_overlap()

    def _check_overlap(self) -> None:
        stop_ms = self.stop_ms
        if self.after_stop is AfterStop.RESUME and not isinstance(stop_ms, int):
            raise UsageError(f"after_stop=resume: expected stop_ms in milliseconds, but it is {stop_ms}")
        if self.on_backchannel is OnBackchannel.IGNORE and (
            stop_ms is None or (isinstance(stop_ms, int) and stop_ms < self.backchannel_ms)
        ):
            raise UsageError(
                f"on_backchannel=ignore: expected stop_ms=never or at least backchannel_ms, "
                f"{self.backchannel_ms}: speech is not known to be short earlier; but it is {stop_ms}"
            )

    @property
    def scripted(self) -> bool:
        """Whether the settings say what to do while the user speaks, or pauses."""
        return any(value is not None for value in (self.stop_ms, self.patience_ms, self.talk_over_ms))

    def of_reply(self, number: int) -> ReferenceSettings:
        """Return the settings of a session's reply, from 1, with the faults that affect it."""
        return replace(self, faults=self.faults.in_reply(number)) if self.faults else self

    def after_stall(self, at_ns: int) -> int:
        """Return when something that is due at `at_ns` happens: then, or at the end of the stall.

        >>> ReferenceSettings(stall_ms=200, stall_every_ms=1000).after_stall(3_050_000_000)
        3200000000
        """
        if not self.stall_ms:
            return at_ns
        into_ns = at_ns % (self.stall_every_ms * 1_000_000)
        return at_ns + max(0, self.stall_ms * 1_000_000 - into_ns)

    def overridden(self, query: Mapping[str, str]) -> ReferenceSettings:
        """Return these settings, overridden by a session's URL query such as ``?delay_ms=200``.

        Args:
            query: The URL parameters, without those of the dialect; ``fault`` replaces all faults
                of the process but those of the TCP connection, and ``fault=none`` turns them off.

        Raises:
            UsageError: A key is unknown or a value is not allowed; the message lists the allowed ones.
        """
        changes: dict[str, Any] = {}
        for key, value in query.items():
            if key not in _PER_SESSION:
                raise UsageError(f"unknown URL parameter {key!r}, expected one of: {', '.join(_PER_SESSION)}")
            if key == "label":
                changes[key] = value
            elif key == "fault":
                changes["faults"] = self._faults_of_session(value)
            else:
                changes[key] = read_setting(key, value)
        return replace(self, **changes)

    def _faults_of_session(self, text: str) -> FaultScript:
        script = parse_faults(text, self.faults.seed)
        if early := script.in_layers(FaultLayer.ACCEPT):
            raise UsageError(f"fault={early[0]}: it strikes before the request, so set it with --fault")
        return FaultScript((*self.faults.in_layers(FaultLayer.ACCEPT), *script), script.seed)


def read_setting(name: str, text: str) -> int | StrEnum | Literal["never"]:
    """Return the value of a setting, written as in a URL or on a command line.

    Raises:
        UsageError: It is not allowed.
    """
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
