"""Faults as users write them: ``close:1011@speech``, ``status:503@first=2``. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from live_eval.errors import UsageError
from live_eval.reference.faults.catalogue import (
    FAULTS,
    Argument,
    FaultDescription,
    FaultLayer,
    FaultName,
    Moment,
)

__all__ = ["NO_FAULTS", "Fault", "FaultScript", "parse_faults"]

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s)", re.ASCII)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)(B|kB|MB)", re.ASCII)
_SHARE = re.compile(r"(\d+(?:\.\d+)?)%", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
_FACTORS = {"ms": 1, "s": 1_000, "B": 1, "kB": 1_000, "MB": 1_000_000}
_MOST_MS = 3_600_000
_MOST_BYTES = 200_000_000
_WHEN = ("turn", "first", "every", "share")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of a script. ``str()`` gives its canonical form, which `parse_faults` reads.

    Args:
        name: Its name.
        value: Its argument: a number (milliseconds, bytes, a code, one in N), a share of 1, or a text; None
            for none.
        moment: When it strikes, if it happens once; None for a time.
        after_ms: That time, since the session began.
        turn: The only reply of a session, from 1, that it affects; None for all.
        first: Affects the first so many sessions only; None for all.
        every: Affects every so-manieth session only; None for all.
        share: Affects this share of sessions, of 1, drawn by the script's seed; None for all.
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
        if what.argument is Argument.MOMENT:
            text += f":{moment}"
        elif self.value is not None:
            text += f":{_shown(self.value, what)}"
        if what.moves and what.argument is not Argument.MOMENT and moment != Moment.REPLY:
            text += f"@{moment}"
        for name in _WHEN:
            value = getattr(self, name)
            if value is not None:
                text += f"@{name}={f'{100 * value:g}%' if name == 'share' else value}"
        return text

    @property
    def layer(self) -> FaultLayer:
        """Where it acts."""
        match self.moment:
            case Moment.ACCEPT:
                return FaultLayer.ACCEPT
            case Moment.REQUEST:
                return FaultLayer.REQUEST
        return FAULTS[self.name].layer

    @property
    def number(self) -> int:
        """Its argument, where that is a whole number."""
        assert isinstance(self.value, int | float)
        return round(self.value)


@dataclass(frozen=True, slots=True)
class FaultScript:
    """The faults of a process or of a session.

    Args:
        faults: The faults.
        seed: Seed of what is drawn.
    """

    faults: tuple[Fault, ...] = ()
    seed: int = 0

    def __bool__(self) -> bool:
        return bool(self.faults)

    def __iter__(self) -> Iterator[Fault]:
        return iter(self.faults)

    def __str__(self) -> str:
        return ",".join(map(str, self.faults))

    def get(self, name: FaultName) -> Fault | None:
        """Return the fault of a name, or None."""
        return next((fault for fault in self.faults if fault.name is name), None)

    def has(self, name: FaultName) -> bool:
        """Return whether it has a fault."""
        return self.get(name) is not None

    def at(self, moment: Moment) -> tuple[Fault, ...]:
        """Return the faults that strike once, at a moment."""
        return tuple(each for each in self.faults if each.moment is moment and FAULTS[each.name].moves)

    def timed(self) -> tuple[Fault, ...]:
        """Return the faults that strike at a time of the session, in order."""
        found = [fault for fault in self.faults if fault.after_ms is not None]
        return tuple(sorted(found, key=lambda fault: fault.after_ms or 0))

    def in_layers(self, *layers: FaultLayer) -> tuple[Fault, ...]:
        """Return the faults that act in these layers."""
        return tuple(fault for fault in self.faults if fault.layer in layers)

    def in_reply(self, number: int) -> FaultScript:
        """Return the faults that affect a reply of the session, from 1."""
        found = tuple(fault for fault in self.faults if fault.turn in (None, number))
        return FaultScript(found, self.seed)


NO_FAULTS = FaultScript()
"""A script without faults."""


def parse_faults(texts: str | Iterable[str], seed: int = 0) -> FaultScript:
    """Read faults of the form ``NAME[:ARGUMENT][@MOMENT][@turn=N][@first=N][@every=N][@share=P%]``.

    >>> str(parse_faults("reset:1.2s, close:4000@speech@every=3"))
    'reset:1200ms,close:4000@speech@every=3'

    Args:
        texts: One or several; a text may hold several, separated by commas. ``none`` is no fault.
        seed: Seed of what is drawn.

    Raises:
        UsageError: A name is unknown or given twice, or what follows it is not allowed.
    """
    parts = ",".join([texts] if isinstance(texts, str) else texts).split(",")
    found: dict[FaultName, Fault] = {}
    for text in filter(None, map(str.strip, parts)):
        if text == "none":
            continue
        fault = _parsed(text)
        if fault.name in found:
            raise UsageError(f"fault {text!r}: {fault.name} is given twice")
        found[fault.name] = fault
    return FaultScript(tuple(found.values()), seed)


def _parsed(text: str) -> Fault:
    head, *conditions = text.split("@")
    name, colon, argument = head.partition(":")
    try:
        what = FAULTS[FaultName(name)]
    except ValueError:
        raise UsageError(
            f"fault {text!r}: unknown name {name!r}; expected one of {', '.join(FaultName)} "
            "(live-eval endpoint --list-faults explains them)"
        ) from None
    if colon and (what.argument is Argument.NONE or not argument):
        expected = "no argument" if what.argument is Argument.NONE else f"{name}:{_expected(what)}"
        raise UsageError(f"fault {text!r}: expected {expected}")
    given: dict[str, Any] = {"name": what.name, "moment": Moment.REPLY}
    argument = argument or what.default
    if what.argument is Argument.MOMENT:
        given |= _moment(argument, what, text)
    elif argument:
        given["value"] = _value(argument, what, text)
    for condition in conditions:
        key, equals, value = condition.partition("=")
        if equals and key in _WHEN:
            given[key] = _condition(key, value, text)
        elif not equals and what.moves and what.argument is not Argument.MOMENT:
            given |= _moment(condition, what, text)
        else:
            moments = "a moment, " if what.moves and what.argument is not Argument.MOMENT else ""
            raise UsageError(
                f"fault {text!r}: expected {moments}turn=N, first=N, every=N or share=P% after '@', "
                f"but it is {condition!r}"
            )
    return Fault(**given)


def _moment(text: str, what: FaultDescription, whole: str) -> dict[str, Any]:
    everywhere = what.argument is Argument.MOMENT
    allowed = [each for each in Moment if everywhere or each not in (Moment.ACCEPT, Moment.REQUEST)]
    if text in allowed:
        return {"moment": Moment(text), "after_ms": None}
    match = _DURATION.fullmatch(text)
    if match is None:
        raise UsageError(
            f"fault {whole!r}: expected {', '.join(allowed)}, or a time since the session began such as "
            f"1.2s, but it is {text!r}"
        )
    return {"moment": None, "after_ms": round(_scaled(match, _MOST_MS, whole))}


def _value(text: str, what: FaultDescription, whole: str) -> float | str:
    match what.argument:
        case Argument.TEXT if text in what.choices:
            return text
        case Argument.DURATION if found := _DURATION.fullmatch(text):
            return round(_scaled(found, _MOST_MS, whole))
        case Argument.SIZE if found := _SIZE.fullmatch(text):
            return round(_scaled(found, _MOST_BYTES, whole))
        case Argument.SHARE if found := _SHARE.fullmatch(text):
            return _share(found, whole)
        case Argument.NUMBER if _NUMBER.fullmatch(text) and 1 <= int(text) <= what.most:
            return int(text)
    raise UsageError(f"fault {whole!r}: expected {what.name}:{_expected(what)}, but it is {text!r}")


def _condition(key: str, text: str, whole: str) -> float:
    if key == "share" and (found := _SHARE.fullmatch(text)):
        return _share(found, whole)
    if key != "share" and _NUMBER.fullmatch(text) and int(text) >= 1:
        return int(text)
    expected = "share=P%" if key == "share" else f"{key}=N, from 1"
    raise UsageError(f"fault {whole!r}: expected {expected}, but it is {key}={text}")


def _share(match: re.Match[str], whole: str) -> float:
    percent = float(match[1])
    if not 0 < percent <= 100:
        raise UsageError(f"fault {whole!r}: expected a share of more than 0 and at most 100 %")
    return percent / 100


def _scaled(match: re.Match[str], most: int, whole: str) -> float:
    value = float(match[1]) * _FACTORS[match[2]]
    if value > most:
        raise UsageError(f"fault {whole!r}: expected at most {most} {'B' if 'B' in match[2] else 'ms'}")
    return value


def _expected(what: FaultDescription) -> str:
    if what.argument is Argument.NUMBER:
        return f"N of 1 to {what.most}"
    examples = {
        Argument.DURATION: "a duration such as 1.2s",
        Argument.SIZE: "a size such as 17MB",
        Argument.SHARE: "a share such as 10%",
    }
    return examples.get(what.argument) or "|".join(what.choices)


def _shown(value: float | str, what: FaultDescription) -> str:
    match what.argument:
        case Argument.DURATION:
            return f"{value}ms"
        case Argument.SIZE:
            return f"{value}B"
        case Argument.SHARE:
            assert not isinstance(value, str)
            return f"{100 * value:g}%"
    return str(value)
