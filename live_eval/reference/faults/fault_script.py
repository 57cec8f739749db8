"""Parse faults such as ``close:1011@speech`` or ``status:503@first=2``, and select the ones that apply."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from live_eval.errors import UsageError
from live_eval.impair.language import BoundedValue, DamageItem, ValueUnit, items
from live_eval.reference.faults.catalogue import FAULTS, MOMENT, SHARE, FaultLayer, FaultName, Moment
from live_eval.text.suggestions import did_you_mean

if TYPE_CHECKING:
    from live_eval.audio import Codec

__all__ = ["NO_FAULTS", "Fault", "FaultSchedule", "FaultScript", "parse_faults"]

_COUNT = BoundedValue(ValueUnit.NUMBER, 1, 999_999_999)
_CONDITIONS = {"turn": _COUNT, "first": _COUNT, "every": _COUNT, "share": SHARE}
_LATER = replace(MOMENT, choices=(Moment.OPEN, Moment.SPEECH, Moment.REPLY))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault in a script. ``str()`` returns the canonical form that `parse_faults` accepts.

    Args:
        value: Argument: a number (milliseconds, bytes, a code, one in N or percent), text, or None.
        moment: Event that triggers a one-time fault; None if a session time triggers it.
        after_ms: Time at which a one-time fault occurs, in ms since the session opened.
        turn: Number, from 1, of the only affected reply; None for all replies.
        first: Affect only the first N sessions; None for all sessions.
        every: Affect only every N-th session; None for all sessions.
        share: Percentage of affected sessions, drawn with the script's seed; None for all sessions.
    """

    name: FaultName
    value: float | str | None = None
    moment: Moment | None = Moment.REPLY
    after_ms: int | None = None
    turn: int | None = None
    first: int | None = None
    every: int | None = None
    share: float | None = None

    def __str__(self) -> str:
        what = FAULTS[self.name]
        text = self.name.value
        moment = f"{self.after_ms}ms" if self.after_ms is not None else (self.moment or "")
        if what.value is MOMENT:
            text += f":{moment}"
        elif what.value is not None and self.value is not None:
            text += f":{what.value.shown(self.value)}"
        if what.moves and what.value is not MOMENT and moment != Moment.REPLY:
            text += f"@{moment}"
        given = [(name, kind, getattr(self, name)) for name, kind in _CONDITIONS.items()]
        return text + "".join(f"@{name}={kind.shown(to)}" for name, kind, to in given if to is not None)

    @property
    def layer(self) -> FaultLayer:
        """The layer on which the fault acts."""
        match self.moment:
            case Moment.ACCEPT:
                return FaultLayer.ACCEPT
            case Moment.REQUEST:
                return FaultLayer.REQUEST
        return FAULTS[self.name].layer

    @property
    def number(self) -> int:
        """The argument as an integer."""
        assert isinstance(self.value, int | float)
        return round(self.value)


@dataclass(frozen=True, slots=True)
class FaultScript:
    """The faults of a process or session, and the seed for random draws."""

    faults: tuple[Fault, ...] = ()
    seed: int = 0

    def __bool__(self) -> bool:
        return bool(self.faults)

    def __iter__(self) -> Iterator[Fault]:
        return iter(self.faults)

    def __str__(self) -> str:
        return ",".join(map(str, self.faults))

    def get(self, name: FaultName) -> Fault | None:
        """Return the fault with this name, or None."""
        return next((fault for fault in self.faults if fault.name is name), None)

    def has(self, name: FaultName) -> bool:
        """Return whether a fault is in the script."""
        return self.get(name) is not None

    @property
    def pace(self) -> float:
        """Rate of timestamps relative to real time; 1.0 without `FaultName.SKEW`."""
        skew = self.get(FaultName.SKEW)
        return 1.0 if skew is None else 1.0 + float(skew.value or 0) / 100

    def codec(self, agreed: Codec) -> Codec:
        """Return `agreed`, with the sample rate from `FaultName.AUDIO_RATE` if set."""
        fault = self.get(FaultName.AUDIO_RATE)
        if fault is None or agreed.name != "pcm16":
            return agreed
        return replace(agreed, rate_hz=fault.number)

    def at(self, moment: Moment) -> tuple[Fault, ...]:
        """Return the one-time faults that occur at `moment`."""
        return tuple(each for each in self.faults if each.moment is moment and FAULTS[each.name].moves)

    def timed(self) -> tuple[Fault, ...]:
        """Return the faults that occur at a session time, in order."""
        found = [fault for fault in self.faults if fault.after_ms is not None]
        return tuple(sorted(found, key=lambda fault: fault.after_ms or 0))

    def in_layers(self, *layers: FaultLayer) -> tuple[Fault, ...]:
        """Return the faults that act on the given layers."""
        return tuple(fault for fault in self.faults if fault.layer in layers)

    def in_reply(self, number: int) -> FaultScript:
        """Return the faults that affect reply `number` of the session, counted from 1."""
        found = tuple(fault for fault in self.faults if fault.turn in (None, number))
        return FaultScript(found, self.seed)


NO_FAULTS = FaultScript()


class FaultSchedule:
    """Count connections and sessions to select the ones that each fault affects.

    Faults on `FaultLayer.ACCEPT` count TCP connections; all other faults count sessions.
    """

    def __init__(self) -> None:
        self._met: Counter[Fault] = Counter()

    def of_connection(self, script: FaultScript) -> FaultScript:
        """Return the faults that affect a new TCP connection."""
        return self._drawn(script, accepting=True)

    def of_session(self, script: FaultScript) -> FaultScript:
        """Return the faults that affect a new session."""
        return self._drawn(script, accepting=False)

    def _drawn(self, script: FaultScript, *, accepting: bool) -> FaultScript:
        could = [fault for fault in script if (fault.layer is FaultLayer.ACCEPT) is accepting]
        return FaultScript(tuple(each for each in could if self._strikes(each, script.seed)), script.seed)

    def _strikes(self, fault: Fault, seed: int) -> bool:
        self._met[fault] += 1
        number = self._met[fault]
        if fault.first is not None and number > fault.first:
            return False
        if fault.every is not None and number % fault.every:
            return False
        return fault.share is None or random.Random(f"{seed}/{fault}/{number}").random() < fault.share / 100


def parse_faults(texts: str | Iterable[str], seed: int = 0) -> FaultScript:
    """Parse faults in the form ``NAME[:VALUE][@MOMENT][@turn=N][@first=N][@every=N][@share=P%]``.

    >>> str(parse_faults("reset:1.2s, close=4000@speech@every=3"))
    'reset:1200ms,close:4000@speech@every=3'

    Args:
        texts: One or more texts, each with one or more comma-separated faults; ``none`` means no fault.
        seed: Seed for random draws.

    Raises:
        UsageError: A name is unknown or repeated, or its value or a condition is not allowed.
    """
    found: dict[FaultName, Fault] = {}
    for item in items(texts, conditional=True):
        if item.text == "none":
            continue
        fault = _parsed(item)
        if fault.name in found:
            raise UsageError(f"fault {item.text!r}: duplicate fault {fault.name}")
        found[fault.name] = fault
    return FaultScript(tuple(found.values()), seed)


def _parsed(item: DamageItem) -> Fault:
    where = f"fault {item.text!r}: expected "
    try:
        what = FAULTS[FaultName(item.name)]
    except ValueError:
        near = did_you_mean(item.name, FaultName)
        raise UsageError(
            f"fault {item.text!r}: unknown name {item.name!r}{near}; expected one of {', '.join(FaultName)} "
            "(live-eval endpoint --list-faults explains them)"
        ) from None
    moves = what.moves and what.value is not MOMENT
    given: dict[str, Any] = {"name": what.name}
    try:
        if what.value is None and item.value is not None:
            raise ValueError("no value")
        text = what.value.default if what.value is not None and item.value is None else item.value
        if what.value is not None and text is not None:
            value = what.value.read(text)
            given |= _moment(value) if what.value is MOMENT else {"value": _whole(value, what.value)}
        for condition in item.conditions:
            key, equals, text = condition.partition("=")
            if equals and key in _CONDITIONS:
                where = f"fault {item.text!r}: expected {key}="
                given[key] = _whole(_CONDITIONS[key].read(text), _CONDITIONS[key])
            elif not equals and moves:
                given |= _moment(_LATER.read(condition))
            else:
                moments = "a moment, " if moves else ""
                raise ValueError(
                    f"{moments}turn=N, first=N, every=N or share=P% after '@', got {condition!r}"
                )
    except ValueError as error:
        raise UsageError(f"{where}{error}") from None
    return Fault(**given)


def _moment(value: float | str) -> dict[str, Any]:
    if isinstance(value, str):
        return {"moment": Moment(value), "after_ms": None}
    return {"moment": None, "after_ms": round(value)}


def _whole(value: float | str, kind: BoundedValue) -> float | str:
    return value if isinstance(value, str) or kind.unit is ValueUnit.PERCENT else round(value)
