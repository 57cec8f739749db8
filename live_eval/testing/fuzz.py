"""Fuzz dialects with randomly mutated golden sessions.

``python -m live_eval.testing.fuzz openai --golden FOLDER --seconds 60`` replays mutated sessions to a
client's dialect (by default, the dialect of every client with a folder) and checks every output against the
contract. An error message contains the session's seed, which reproduces the mutation for the same golden
sessions.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import orjson

from live_eval.cassettes import Cassette, Closed, Received, Step, read_cassette
from live_eval.cassettes.player import ConformanceError, DialectFactory, Player
from live_eval.clock import SystemClock
from live_eval.dialect import Message
from live_eval.registry import client, load

__all__ = ["damaged_message", "fuzz_dialect"]

_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**63, -(2**70), 1e308, 0.1, "", "x", "\x00", "\ud800", "é" * 1_000, [], {}),
    *([[]], {"": {}}, {"type": "error"}, "A" * 4_001, "AAA=", "not base64!", "2026-11-21T00:00:00Z", "-5s"),
    *(math.nan, math.inf, -0.0, "NaN", "\u2028", "0" * 400, ["x"] * 300, {"type": ["error"]}),
    {"id": {"id": 1}},
)
_GREAT = ("A" * 1_000_000, [0] * 100_000)
_BYTES_AT_ONCE = 8


def fuzz_dialect(
    factory: DialectFactory,
    cassettes: Iterable[Cassette],
    *,
    go_on: Callable[[int], bool],
    seed: int = 0,
    frame_samples: int = 480,
) -> int:
    """Replay mutated sessions through a dialect; return the number of sessions.

    Args:
        factory: The dialect class, or another callable that creates a dialect.
        cassettes: Sessions to mutate; at least one.
        go_on: Function that takes the number of replayed sessions and returns whether to continue.
        seed: Random seed; session n is mutated with ``seed + n``.
        frame_samples: Number of samples per frame of the user's audio.

    Raises:
        ConformanceError: The dialect violates the contract; the message contains the seed.
    """
    pool = list(cassettes)
    came = [[step for step in cassette.steps if isinstance(step, Received)] for cassette in pool]
    others = [step for steps in came for step in steps]
    count = 0
    while go_on(count):
        pick = random.Random(seed + count)
        number = pick.randrange(len(pool))
        try:
            player = Player(factory, pool[number], frame_samples=frame_samples)
            _play(player, list(_damaged(came[number], others, pick)), pick)
        except ConformanceError as error:
            raise ConformanceError(f"seed {seed + count}: {error}") from error
        count += 1
    return count


def _play(player: Player, steps: Sequence[Step], pick: random.Random) -> None:
    for number, step in enumerate(steps):
        player.play(number, step)
        match pick.randrange(12):
            case 0:
                player.call("frame", count=1)
            case 1:
                player.call("end_turn")
            case 2:
                names = [*player.responses, "no-such-response"]
                player.call("interrupt", response_id=pick.choice(names), heard_ms=pick.randrange(5_000))
            case 3 if player.timers:
                player.fire(pick.choice(list(player.timers)))
    if pick.random() < 0.5:
        player.call("finish")
    player.play(len(steps), Closed(player.now_ns, pick.choice((None, 1000, 1008, 4000)), "gone"))


def _damaged(
    steps: Sequence[Received], others: Sequence[Received], pick: random.Random
) -> Iterator[Received]:
    """Yield the steps, with some omitted, repeated, mutated or replaced by others."""
    for step in steps:
        match pick.randrange(10):
            case 0:
                continue
            case 1:
                yield step
                yield step
            case 2:
                yield replace(pick.choice(others), at_ns=step.at_ns)
            case 3 | 4 | 5:
                yield replace(step, message=damaged_message(step.message, others, pick))
            case _:
                yield step


def damaged_message(message: Message, others: Sequence[Received], pick: random.Random) -> Message:
    """Randomly mutate a message's bytes or one of its JSON values.

    Parts of `others` may replace parts of the message; `pick` is the random generator.
    """
    chance = pick.random()
    if chance < 0.03:  # text instead of binary, or vice versa
        return message.decode("latin-1") if isinstance(message, bytes) else message.encode("utf-8", "replace")
    if chance < 0.04:
        return ("[" if pick.random() < 0.5 else '{"type":') * pick.choice((100, 1_000, 100_000))
    try:
        value = orjson.loads(message)
    except orjson.JSONDecodeError:
        return _bytes_changed(message, pick)
    if chance < 0.3:
        return _bytes_changed(message, pick)
    changed = json.dumps(_value_changed(value, others, pick))
    return changed.encode() if isinstance(message, bytes) else changed


def _odd_value(others: Sequence[Received], pick: random.Random) -> Any:
    """Return a value from another message, an unusual value or, rarely, a huge value."""
    chance = pick.random()
    if chance < 0.005:
        return pick.choice(_GREAT)
    if chance < 0.05:
        value: Any = 1
        for _ in range(pick.choice((10, 200, 900))):
            value = [value] if pick.random() < 0.5 else {"type": value}
        return value
    if chance < 0.3:
        try:
            return _part(orjson.loads(pick.choice(others).message), pick)
        except orjson.JSONDecodeError:
            pass
    return pick.choice(_VALUES)


def _part(value: Any, pick: random.Random) -> Any:
    """Return a random part of a value."""
    inner = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(inner, list) or not inner or pick.random() >= 0.8:
        return value
    return _part(pick.choice(inner), pick)


def _value_changed(value: Any, others: Sequence[Received], pick: random.Random) -> Any:
    """Return a copy with one value replaced, removed or added."""
    if isinstance(value, dict) and value and pick.random() < 0.85:
        name = pick.choice(list(value))
        rest = {other: inner for other, inner in value.items() if other != name}
        match pick.randrange(8):
            case 0:
                return rest
            case 1:
                return {**value, pick.choice(list(value)): value[name]}
        return {**rest, name: _value_changed(value[name], others, pick)}
    if isinstance(value, list) and value and pick.random() < 0.85:
        at = pick.randrange(len(value))
        return [*value[:at], _value_changed(value[at], others, pick), *value[at + 1 :]]
    return _odd_value(others, pick)


def _bytes_changed(message: Message, pick: random.Random) -> Message:
    data = bytearray(message if isinstance(message, bytes) else message.encode("utf-8", "surrogatepass"))
    for _ in range(pick.randint(1, _BYTES_AT_ONCE)):
        at = pick.randrange(len(data) + 1)
        match pick.randrange(4):
            case 0:
                data[at:at] = pick.randbytes(pick.randint(1, 4))
            case 1:
                del data[at : at + pick.randint(1, 16)]
            case 2 if at < len(data):
                data[at] ^= 1 << pick.randrange(8)
            case 3:
                del data[at:]
    if isinstance(message, bytes) or pick.random() < 0.05:
        return bytes(data)
    return data.decode("utf-8", "replace")


@click.command()
@click.argument("names", nargs=-1)
@click.option("--golden", type=click.Path(path_type=Path, exists=True, file_okay=False), required=True)
@click.option("--seconds", type=float, default=10.0, show_default=True, help="Time for each client.")
@click.option("--seed", type=int, default=0, show_default=True)
def _main(names: tuple[str, ...], golden: Path, seconds: float, seed: int) -> None:
    """Fuzz the dialects of these clients, or of all of them, with the golden sessions in GOLDEN/<name>."""
    clock = SystemClock()
    for name in names or sorted(folder.name.replace("_", "-") for folder in golden.iterdir()):
        spec = client(name)
        folder = golden / name.replace("-", "_")
        paths = sorted(folder.glob("*.jsonl"))
        if not paths:
            raise click.UsageError(f"{folder}: expected golden sessions (*.jsonl)")

        def has_time(_: int, end_ns: int = clock.now_ns() + round(seconds * 1e9)) -> bool:
            return clock.now_ns() < end_ns

        count = fuzz_dialect(
            load(spec.dialect),
            map(read_cassette, paths),
            go_on=has_time,
            seed=seed,
            frame_samples=spec.input_rate_hz * spec.frame_ms // 1000,
        )
        click.echo(f"{name}: {count} sessions, no violations")


if __name__ == "__main__":
    _main()
