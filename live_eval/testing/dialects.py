"""Check that a dialect conforms to the contract (`check_dialect`).

The suite replays cassettes (golden sessions). It checks that the dialect produces the expected messages and
events in order, never raises on an endpoint message in any state, closes the session, and logs neither audio
nor the API key.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import orjson

from live_eval.cassettes import Call, Cassette, Closed, Received
from live_eval.cassettes.player import (
    BASE_URL,
    KEY,
    ConformanceError,
    DialectFactory,
    Player,
    frame_pcm,
    play_cassette,
)
from live_eval.dialect import Close, EndpointProblem, Message, Output, Send, UnknownEvent
from live_eval.errors import FailureKind
from live_eval.types import Secret

__all__ = ["ConformanceError", "check_dialect", "play_cassette"]

_LOGGED_CHARACTERS = 2_000
_SAME_STEPS = 2
_FIRED_AT_MOST = 20
_Start: TypeAlias = Callable[..., Player]
_Path: TypeAlias = tuple[str | int, ...]
_Field: TypeAlias = tuple[bool, str, _Path]
"""The identity of a message field: whether a response had started, the message type, and the field path."""

_GARBAGE: tuple[Message, ...] = (
    "",
    "{",
    "null",
    "42",
    '"text"',
    "[]",
    "[" * 2_000,
    "{}",
    '{"type":null}',
    '{"type":{"type":"error"}}',
    '{"type":"no.such.event"}',
    '{"type":"error"}',
    '{"type":"error","error":"a string"}',
    "NaN",
    "\ufeff{}",
    '{"a":"\ud800"}',
    b"",
    b"\xff\xfe\x00",
    b'{"type":"error"}',
)
_WRONG_VALUES: tuple[object, ...] = (None, "", "x", -1, 1e308, True, [], [None], {}, {"x": None})


def check_dialect(
    factory: DialectFactory,
    cassettes: Iterable[Cassette],
    *,
    sent_audio: Callable[[Message], bytes] | None = None,
    frame_samples: int = 480,
) -> None:
    """Check that a dialect conforms to the contract.

    Args:
        factory: The dialect class, or another callable that creates a dialect.
        cassettes: Sessions to replay; at least one. Every message field is replaced with wrong values: with
            all of them when the field first occurs in a message type (before and again after the first
            response starts), and with one at later occurrences.
        sent_audio: Function that returns the PCM in a frame's message, for comparison with the frame; None
            for lossy codecs skips the comparison.
        frame_samples: Number of samples per frame: the specification's rate times its frame length.

    Raises:
        ConformanceError: The dialect violates the contract.

    ::

        check_dialect(MyDialect, [read_cassette(path) for path in Path("golden").glob("*.jsonl")])
    """
    count = 0
    tried: Counter[_Field] = Counter()
    start = partial(Player, factory, frame_samples=frame_samples)
    for count, cassette in enumerate(cassettes, 1):  # noqa: B007 (counted for the check below)
        _check_dial(factory, cassette)
        outputs = play_cassette(factory, cassette, frame_samples=frame_samples)
        if play_cassette(factory, cassette, frame_samples=frame_samples) != outputs:
            raise ConformanceError(f"{cassette.name}: two replays differ, so the dialect is not pure")
        clean = [output for output in outputs if not _is_malformed(output)]
        for state in _states(cassette):
            _check_calls(start, cassette, state)
            _check_garbage(start, cassette, state, clean)
        _check_mutants(start, cassette, tried)
        if sent_audio is not None:
            _check_frames(start, cassette, sent_audio, frame_samples)
    if count == 0:
        raise ConformanceError("expected at least one cassette")


def _check_dial(factory: DialectFactory, cassette: Cassette) -> None:
    dial = factory(cassette.endpoint_settings(BASE_URL, Secret(KEY))).dial()
    if dial.url.partition(":")[0] not in ("ws", "wss", "http", "https"):
        raise ConformanceError(f"{cassette.name}: dial returned no URL: {dial.url.partition('?')[0]!r}")
    if KEY in repr(dial):
        raise ConformanceError(f"{cassette.name}: the repr of Dial contains the key")


def _after(start: _Start, cassette: Cassette, state: int) -> Player:
    """Return a player that has replayed the first `state` steps."""
    player = start(cassette, reads_log=False)
    player.repeats = True
    for number, step in enumerate(cassette.steps[:state]):
        player.play(number, step)
    player.repeats = False
    return player


def _states(cassette: Cassette) -> Iterator[int]:
    """Yield the numbers of steps after which the dialect may be in a new state, until the connection ends.

    A step that has followed a step of the same kind twice is assumed to lead to a known state, since most
    steps are frames and audio chunks.
    """
    yield 0
    seen: Counter[tuple[object, object]] = Counter()
    before: object = None
    for number, step in enumerate(cassette.steps, 1):
        if isinstance(step, Closed):
            return
        if isinstance(step, Received | Call):
            kind = step.name if isinstance(step, Call) else _shape(step.message)
            seen[before, kind] += 1
            if seen[before, kind] <= _SAME_STEPS:
                yield number
            before = kind


def _shape(message: Message) -> object:
    """Return a message's type and fields or, for binary messages, the first byte."""
    try:
        value = orjson.loads(message)
    except orjson.JSONDecodeError:
        return message[:1]
    return value.get("type") if isinstance(value, dict) else None, tuple(_paths(value))


def _check_calls(start: _Start, cassette: Cassette, state: int) -> None:
    """Call each method that is valid in every state, ending with the close of the connection."""
    player = _after(start, cassette, state)
    for response_id in (*player.responses, "no-such-response"):
        for heard_ms in (0, 40, 10**9):
            player.call("interrupt", response_id=response_id, heard_ms=heard_ms)
    player.call("end_turn")
    player.call("timer", name="no-such-timer")
    player.call("frame", count=2)
    _check_leave(_after(start, cassette, state))
    for code, reason in ((None, ""), (4999, f"{KEY}\ud800" * 100)):
        _after(start, cassette, state).close(code, reason)


def _check_leave(player: Player) -> None:
    """Check that `finish` leads to `Close`, immediately or after timers, and is not reported as a failure."""
    outputs = list(player.call("finish"))
    for _ in range(_FIRED_AT_MOST):
        if any(isinstance(output, Close) for output in outputs) or not player.timers:
            break
        name = min(player.timers, key=lambda timer: player.timers[timer])
        player.now_ns = max(player.now_ns, player.timers[name])
        outputs.extend(player.fire(name))
    if not any(isinstance(output, Close) for output in outputs):
        raise player.fail("finish did not lead to Close")
    for output in player.close(1000, ""):
        if isinstance(output, EndpointProblem) and output.fatal:
            raise player.fail(f"the requested end was reported as a failure: {output}")


def _check_garbage(start: _Start, cassette: Cassette, state: int, clean: Sequence[Output]) -> None:
    """Check that garbage which is reported as malformed in this state has no other effect."""
    player = _after(start, cassette, state)
    for message in _GARBAGE:
        alone = player.receive(message)
        if not all(_is_malformed(output) for output in alone):
            player = _after(start, cassette, state)
    player.repeats = True  # equal to the clean outputs, by the comparison below
    for number, step in enumerate(cassette.steps[state:], state):
        player.play(number, step)
    if [output for output in player.outputs if not _is_malformed(output)] != clean:
        raise player.fail(f"garbage after step {state} changed later outputs")


def _is_malformed(output: Output) -> bool:
    if isinstance(output, UnknownEvent):
        return True
    return (
        isinstance(output, EndpointProblem)
        and output.kind is FailureKind.MALFORMED_MESSAGE
        and not output.fatal
    )


def _check_mutants(start: _Start, cassette: Cassette, tried: Counter[_Field]) -> None:
    """Check that slightly modified messages do not make the dialect raise."""
    player = start(cassette)
    for message in _GARBAGE:
        player.receive(message)
    for number, step in enumerate(cassette.steps):
        if isinstance(step, Closed):
            return
        if isinstance(step, Received):
            player.step = f"mutants of step {number + 1}"
            player.now_ns = step.at_ns
            for mutant in _mutants(step.message, tried, begun=bool(player.responses)):
                player.receive(mutant)
        player.play(number, step)


def _mutants(message: Message, tried: Counter[_Field], *, begun: bool) -> Iterator[Message]:
    """Yield variants of a message: truncated, and with each field removed or replaced.

    Args:
        tried: Number of replacements per field.
        begun: Whether a response has started.
    """
    for share in (1, 2, 3):
        yield message[: len(message) * share // 4]
    try:
        value = orjson.loads(message)
    except orjson.JSONDecodeError:
        return
    kind = str(value.get("type")) if isinstance(value, dict) else ""
    for path in _paths(value):
        yield orjson.dumps(_changed(value, path)).decode()
        times = tried[begun, kind, path]
        tried[begun, kind, path] += 1
        next_one = times % len(_WRONG_VALUES)
        for wrong in _WRONG_VALUES[next_one : next_one + 1] if times else _WRONG_VALUES:
            yield orjson.dumps(_changed(value, path, wrong)).decode()


def _paths(value: object, here: _Path = ()) -> Iterator[_Path]:
    """Yield the path of every field, at any depth."""
    inner: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for name, item in inner:
        yield (*here, name)
        yield from _paths(item, (*here, name))


def _changed(value: Any, path: _Path, *replacement: object) -> Any:
    """Return a copy with the field at `path` replaced, or removed if no replacement is given."""
    name, *rest = path
    copy = value.copy()
    if rest:
        copy[name] = _changed(value[name], tuple(rest), *replacement)
    elif replacement:
        copy[name] = replacement[0]
    else:
        del copy[name]
    return copy


def _check_frames(
    start: _Start,
    cassette: Cassette,
    sent_audio: Callable[[Message], bytes],
    frame_samples: int,
) -> None:
    """Check that a frame's samples are sent unchanged and its log entry is short."""
    state = next((number for number, step in enumerate(cassette.steps) if isinstance(step, Call)), None)
    if state is None:
        return
    player = _after(start, cassette, state)
    for number in range(3):
        pcm = frame_pcm(number, frame_samples)
        sends = [out.message for out in player.dialect.frame(pcm, 0) if isinstance(out, Send)]
        if b"".join(map(sent_audio, sends)) != pcm:
            raise player.fail("the dialect changed the samples of a frame")
        for message in sends:
            if len(json.dumps(player.dialect.redact(message))) > _LOGGED_CHARACTERS:
                raise player.fail("redact does not remove a frame's audio from the log")
