"""Decode bytes as conversations: messages and calls, passed to a dialect and a session's log.

Each line is a step, whose kind is its first byte: ``<`` a text message, ``=`` a binary one, ``f`` a frame,
``e`` the end of the user's turn, ``i`` an interruption, ``t`` a timer, ``n`` a new turn. A line takes 20 ms.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Iterator, Sequence

from live_eval.cassettes import Call, Cassette, Received, Step, WireRecord, read_cassette
from live_eval.cassettes.player import ACTIONS, Player
from live_eval.dialect import Event, Message, Output
from live_eval.recording.record import finish
from live_eval.session.event_loop import ProbeReading
from live_eval.session.limits import SessionLimits
from live_eval.session.timeline import Timeline
from live_eval.session.turn import Turn
from live_eval.testing.fuzz import damaged_message
from live_eval.types import Case, Modality, TurnMode, Variant
from tests.support.bundled import DIALECTS, GOLDEN, SPECS, frame_samples

__all__ = ["converse", "message_count", "mutate_conversation", "seeds_of"]

_STEP_NS = 20_000_000
_MOST_STEPS = 200
_CASE = Case(case_id="fuzz", script_id="fuzz", variant=Variant.TARGET, audio_path=None)  # type: ignore[arg-type]
_MODES = tuple(TurnMode)
_LONG_TEXT = re.compile(rb'"([A-Za-z0-9+/]{256})[A-Za-z0-9+/]{200,}={0,2}"')


def converse(name: str, data: bytes) -> None:
    """Run a conversation with a client's dialect.

    Raises:
        ConformanceError: The dialect breaks the contract.
        Exception: The session's log rejects an event of the dialect.
    """
    head, *lines = data.split(b"\n")[:_MOST_STEPS]
    modes = SPECS[name].turn_modes
    mode = modes[head[0] % len(modes)] if head else modes[0]
    player = Player(
        DIALECTS[name],
        Cassette(name, "", (), {"turn_mode": mode}),
        reads_log=len(data) % 4 == 0,  # the slowest one
        frame_samples=frame_samples(name),
    )
    _Conversation(player, mode).hold(lines)


def message_count(data: bytes) -> int:
    """Return the number of endpoint messages in a conversation."""
    return sum(line[:1] in (b"<", b"=") for line in data.split(b"\n")[1:_MOST_STEPS])


class _Conversation:
    def __init__(self, player: Player, mode: TurnMode) -> None:
        self._player = player
        self._manual = mode is TurnMode.MANUAL
        new_turn = functools.partial(
            Turn,
            SessionLimits(),
            Modality.AUDIO,
            transcribes=True,
            continuous=player.dialect.continuous_media,
        )
        self._timeline = Timeline(WireRecord(keeps=True), new_turn, listens=True)
        self._timeline.on_track = player.dialect.dial().signalling is not None
        self._timeline.start(0, 1_750_000_000_000_000_000)
        self._note(player.opening)

    def hold(self, lines: Sequence[bytes]) -> None:
        """Run the steps, end the connection, and record the turns."""
        player = self._player
        for number, line in enumerate(lines):
            player.step = f"step {number + 1}"
            player.now_ns += _STEP_NS
            for name in player.due():
                self._note(player.fire(name))
            self._step(line[:1], line[1:])
            list(self._timeline.look(player.now_ns))
        self._note(player.close(1000, "bye"))
        self._timeline.end_turn(player.now_ns, ProbeReading(), None)
        for turn in self._timeline.release(0):
            finish(turn.captured(manual=self._manual), _CASE, None, repeat=0, attempt=1)

    def _step(self, kind: bytes, rest: bytes) -> None:
        player, now_ns = self._player, self._player.now_ns
        match kind:
            case b"<" | b"=":
                message: Message = rest.decode("utf-8", "replace") if kind == b"<" else rest
                self._timeline.message_received(message, now_ns)
                self._note(player.receive(message))
            case b"f":
                self._note(player.call("frame", count=1))
            case b"e":
                self._note(player.call("end_turn"))
            case b"i":
                names = [*player.responses, "no-such-response"]
                which = names[rest[0] % len(names)] if rest else names[0]
                self._note(player.call("interrupt", response_id=which, heard_ms=40))
            case b"t" if player.timers:
                self._note(player.fire(next(iter(player.timers))))
            case b"n":
                self._timeline.next_turn(now_ns, ProbeReading(), None)

    def _note(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            if not isinstance(output, ACTIONS):
                event: Event = output
                self._timeline.happened(event, self._player.now_ns)


def seeds_of(name: str) -> Iterator[bytes]:
    """Yield the golden sessions of a dialect as conversations, with shorter audio."""
    for path in sorted((GOLDEN / name).glob("*.jsonl")):
        yield b"\n".join([b"0", *map(_line, read_cassette(path).steps)])


def _line(step: Step) -> bytes:
    match step:
        case Received(message=str() as text):
            return b"<" + _LONG_TEXT.sub(rb'"\1"', text.replace("\n", " ").encode("utf-8", "replace"))
        case Received(message=bytes() as data):
            return b"=" + data.replace(b"\n", b" ")
        case Call(name="end_turn"):
            return b"e"
        case Call(name="interrupt"):
            return b"i0"
        case _:
            return b"f"


@functools.cache
def _messages(name: str) -> list[Received]:
    paths = sorted((GOLDEN / name).glob("*.jsonl"))
    return [step for path in paths for step in read_cassette(path).steps if isinstance(step, Received)]


def mutate_conversation(name: str, data: bytes, max_size: int, seed: int) -> bytes:
    """Return a conversation in which a message is damaged, repeated, moved or omitted."""
    pick = random.Random(seed)
    others = _messages(name)
    lines = data.split(b"\n")
    at = pick.randrange(len(lines))
    line = lines[at]
    match pick.randrange(6):
        case 0:
            lines.insert(at, _line(pick.choice(others)))
        case 1:
            del lines[at]
        case 2:
            lines.insert(pick.randrange(len(lines) + 1), line)
        case 3:
            lines.insert(at, pick.choice((b"f", b"e", b"i" + pick.randbytes(1), b"t", b"n")))
        case _ if line[:1] in (b"<", b"="):
            message: Message = line[1:].decode("utf-8", "replace") if line[:1] == b"<" else line[1:]
            changed = damaged_message(message, others, pick)
            text = isinstance(changed, str)
            raw = changed.encode("utf-8", "replace") if isinstance(changed, str) else changed
            lines[at] = (b"<" if text else b"=") + raw.replace(b"\n", b" ")
    made = b"\n".join(lines)
    return made if len(made) <= max_size else data[:max_size]
