"""Parse impairments: ``loss=5%,burst=3,delay=80ms`` or ``noise=10dB``. Pure, except for path checks.

A network parameter applies to both directions; the prefix ``up.`` (to the endpoint) or ``down.`` selects one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from live_eval.errors import UsageError
from live_eval.impair.catalogue import PARAMETERS, ImpairedLayer, ImpairmentParameter
from live_eval.impair.language import DamageItem, items
from live_eval.text.suggestions import did_you_mean

__all__ = ["DIRECTIONS", "Impairment", "parse"]

DIRECTIONS = ("up", "down")
"""The directions: to the endpoint, and from it."""

_TCP_REPAIRS = "TCP repairs loss and reordering, which then appear as stalls: use stall=300ms,every=5s"
_WHY_NOT: Mapping[str, str] = {
    "websocket": _TCP_REPAIRS,
    "http": _TCP_REPAIRS,
    "http2": "the vendor's SDK owns the connection; impair the audio instead",
    "webrtc": "WebRTC sends datagrams, not a byte stream: use loss, delay or jitter",
}


@dataclass(frozen=True, slots=True)
class Impairment:
    """The impairment of a session's audio and traffic. Immutable and picklable.

    Create instances with `parse`. ``str()`` returns the canonical form, which `parse` accepts.

    Args:
        values: The values, including defaults, by keys such as ``"noise"`` or ``"up.loss"``: numbers in the
            parameter's unit, or texts.
    """

    values: Mapping[str, float | str] = field(default_factory=dict)
    seed: int = 0

    def __bool__(self) -> bool:
        return bool(self.values)

    def __str__(self) -> str:
        return ",".join(f"{key}={_parameter(key).value.shown(value)}" for key, value in self._merged())

    def __hash__(self) -> int:
        return hash((str(self), self.seed))

    @property
    def on_audio(self) -> bool:
        """Whether the user's audio is impaired."""
        return any(not _parameter(key).on_network for key in self.values)

    @property
    def on_network(self) -> bool:
        """Whether network traffic is impaired."""
        return any(_parameter(key).on_network for key in self.values)

    def for_session(self, name: str) -> Impairment:
        """Return the same impairment with a seed derived only from this seed and the session's name."""
        digest = hashlib.blake2b(f"{self.seed}/{name}".encode(), digest_size=8).digest()
        return replace(self, seed=int.from_bytes(digest, "big"))

    def on(self, layer: ImpairedLayer) -> Impairment:
        """Return the part that impairs a layer, with the same seed."""
        kept = {key: value for key, value in self.values.items() if layer in _parameter(key).layers}
        return replace(self, values=kept)

    def number(self, name: str, direction: str = "") -> float | None:
        """Return the value of a numeric parameter (in one direction, for the network), or None if not set."""
        value = self.values.get(_key(name, direction))
        assert not isinstance(value, str)
        return value

    def text(self, name: str) -> str | None:
        """Return the value of a choice or path parameter, or None if not set."""
        value = self.values.get(name)
        assert value is None or isinstance(value, str)
        return value

    def check_transport(self, kind: str) -> None:
        """Raise `UsageError` if transports of a `kind`, such as ``webrtc``, do not support the impairment."""
        layers = {ImpairedLayer(kind), *((ImpairedLayer.SIGNALLING,) if kind == "webrtc" else ())}
        for key in self.values:
            parameter = _parameter(key)
            if parameter.on_network and not layers.intersection(parameter.layers):
                why = _WHY_NOT[kind]
                raise UsageError(f"impairment {parameter.name!r} is not supported over {kind}: {why}")
        if kind == "http" and "echo" in self.values:
            raise UsageError("impairment 'echo' is not supported over http: no audio is sent during a reply")

    def as_json(self) -> dict[str, Any]:
        """Return the manifest entry."""
        return {"spec": str(self), "seed": self.seed}

    def _merged(self) -> Iterator[tuple[str, float | str]]:
        """Yield keys and values in canonical order; merge equal values of both directions."""
        for name, parameter in PARAMETERS.items():
            keys = [_key(name, direction) for direction in DIRECTIONS] if parameter.on_network else [name]
            found = [(key, self.values[key]) for key in keys if key in self.values]
            if len(found) == 2 and found[0][1] == found[1][1]:
                found = [(name, found[0][1])]
            yield from found


def parse(specs: str | Iterable[str], seed: int = 0) -> Impairment:
    """Parse impairments.

    >>> str(parse(["loss=5%,burst=3", "down.delay=0.08s"]))
    'loss=5%,burst=3,down.delay=80ms'

    Args:
        specs: Texts of the form ``NAME=VALUE,NAME=VALUE…``; `live_eval.impair.PARAMETERS` lists the names.

    Returns:
        The combined impairment, with defaults for omitted parameters; empty if `specs` is empty.

    Raises:
        UsageError: A name is unknown, repeated or conflicts with another, or a value is not allowed. The
            message lists the allowed names or values.
    """
    given: dict[str, float | str] = {}
    for item in items(specs):
        for key, value in _read(item):
            if key in given:
                raise UsageError(f"impairment {item.text!r}: {key} is repeated")
            given[key] = value
    for direction in ("", *DIRECTIONS):
        _complete(given, direction)
    return Impairment(given, seed)


def _as_value(name: str) -> str:
    """Return a hint on a parameter that accepts this or a similar name as its value, else nothing."""
    has = {choice: key for key, parameter in PARAMETERS.items() for choice in parameter.value.choices}
    near = [f"{key}={choice}" for choice, key in has.items() if did_you_mean(name, [choice])]
    return f" (did you mean {near[0]}?)" if near else ""


def _as_meant(parameter: ImpairmentParameter, text: str) -> str:
    """Return a hint on a value without its unit, or on a value of the parameter's companion, else nothing."""
    value = parameter.value
    with suppress(ValueError):
        meant = f"{text}{value.unit.value}"
        value.read(meant)
        return f" (did you mean {parameter.name}={meant}?)"
    for other in PARAMETERS.values():
        if other.needs == parameter.name and text in other.value.choices:
            example = value.shown((value.low + value.high) / 2)
            return f"; for example {parameter.name}={example},{other.name}={text}"
    return ""


def _read(item: DamageItem) -> Sequence[tuple[str, float | str]]:
    """Return the key and value of an item for each direction to which it applies."""
    direction, dot, rest = item.name.rpartition(".")
    parameter = PARAMETERS.get(rest if dot else item.name)
    if parameter is None or (dot and direction not in DIRECTIONS):
        near = did_you_mean(rest if dot else item.name, PARAMETERS) or _as_value(item.name)
        other = "" if item.name == item.text else f" {item.name!r}"
        raise UsageError(
            f"impairment {item.text!r}: unknown name{other}{near}; expected one of "
            f"{', '.join(PARAMETERS)} (live-eval impair --list explains them)"
        )
    if dot and not parameter.on_network:
        raise UsageError(
            f"impairment {item.text!r}: {parameter.name} impairs the user's audio and has no direction"
        )
    try:
        value = parameter.value.read(item.value or "")
    except ValueError as error:
        near = _as_meant(parameter, item.value or "")
        raise UsageError(f"impairment {item.text!r}: expected {parameter.name}={error}{near}") from None
    if not parameter.on_network:
        return [(parameter.name, value)]
    return [(_key(parameter.name, each), value) for each in ((direction,) if dot else DIRECTIONS)]


def _complete(given: dict[str, float | str], direction: str) -> None:
    """Add defaults, and check that the values for a direction or for the audio are consistent."""
    present = [
        parameter
        for parameter in PARAMETERS.values()
        if parameter.on_network is bool(direction) and _key(parameter.name, direction) in given
    ]
    names = {parameter.name for parameter in present}
    for parameter in present:
        clash = names.intersection(parameter.excludes)
        if clash:
            raise UsageError(f"impairments {parameter.name} and {clash.pop()} conflict: use only one of them")
        if parameter.needs and parameter.needs not in names:
            key = _key(parameter.name, direction)
            raise UsageError(f"impairment {key} requires {parameter.needs}")
    for parameter in PARAMETERS.values():
        key = _key(parameter.name, direction)
        default = parameter.value.default
        if default is None or parameter.needs not in names or key in given:
            continue
        if (
            PARAMETERS[parameter.needs].layers == parameter.layers
        ):  # skip parameters that apply only to some transports
            given[key] = parameter.value.read(default)
    loss, burst = (given.get(_key(name, direction)) for name in ("loss", "burst"))
    if isinstance(loss, float) and isinstance(burst, float) and loss > 100 * burst / (1 + burst):
        most = 100 * burst / (1 + burst)
        raise UsageError(
            f"impairment loss={loss:g}%: expected at most {most:.3g}%, the share that bursts of {burst:g} "
            "packets lose if a single packet separates them"
        )
    stall, every = (given.get(_key(name, direction)) for name in ("stall", "every"))
    if isinstance(stall, float) and isinstance(every, float) and stall >= every:
        raise UsageError(f"impairment stall={stall:g}ms: expected a stall shorter than every={every:g}ms")


def _key(name: str, direction: str) -> str:
    return f"{direction}.{name}" if direction else name


def _parameter(key: str) -> ImpairmentParameter:
    return PARAMETERS[key.rpartition(".")[2]]
