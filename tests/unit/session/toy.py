"""A dialect whose messages are single words, and its endpoint, for tests of the session."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from live_eval.audio import Codec, CodecName
from live_eval.dialect import (
    Close,
    Committed,
    Dial,
    EndpointProblem,
    Message,
    Output,
    ReplyAudio,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    Send,
    SessionReady,
    SetTimer,
    SpeechStopped,
)
from live_eval.errors import FailureKind, TransportClosedError
from live_eval.session import Utterance
from live_eval.session.limits import SessionLimits
from live_eval.testing.fake_clock import FakeClock
from live_eval.testing.memory_transport import MemoryPeer
from live_eval.timing import ResponseStatus
from live_eval.types import SpeechBoundaries

MS = 1_000_000
FRAME = bytes([1, 0]) * 480
TURN = Utterance(
    frames=[FRAME] * 50,
    frame_ns=20 * MS,
    boundaries=SpeechBoundaries(onset_ns=100 * MS, voice_end_ns=900 * MS),
)
LIMITS = SessionLimits(ready_s=2, reply_s=5, stall_s=3, max_reply_s=20, linger_s=0.2)
_T = TypeVar("_T")


class Heard(list[tuple[int, Message]]):
    """The messages that the endpoint has received, with their arrival times."""

    def __init__(self) -> None:
        super().__init__()
        self._more = asyncio.Event()

    @property
    def messages(self) -> list[Message]:
        return [message for _, message in self]

    def take(self, at_ns: int, message: Message) -> None:
        self.append((at_ns, message))
        self._more.set()
        self._more = asyncio.Event()

    async def until(self, enough: Callable[[], bool]) -> None:
        """Wait for further messages until `enough`."""
        while not enough():
            await self._more.wait()


Endpoint = Callable[[MemoryPeer, FakeClock, Heard], Coroutine[Any, Any, None]]


class ToyDialect:
    """Words as messages (``ready``, ``stopped``, ``begin``, …); frames are bytes."""

    def __init__(self, *, continuous: bool = False, poll_ns: int | None = None) -> None:
        self.needs_continuous_input = continuous
        self.continuous_media = False
        self.secrets = {"hush"}
        self._poll_ns = poll_ns

    def dial(self) -> Dial:
        return Dial("memory://", {"Authorization": "Bearer hush"})

    def opened(self, at_ns: int) -> Sequence[Output]:
        timers = [SetTimer("poll", at_ns + self._poll_ns)] if self._poll_ns is not None else []
        return [Send("hello"), *timers]

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        outputs: dict[Message, Output] = {
            "ready": SessionReady("session", "toy"),
            "stopped": SpeechStopped(),
            "committed": Committed(),
            "begin": ResponseStarted("r"),
            "audio": ReplyAudio("r", bytes(4800), Codec(CodecName.PCM16, 24_000)),
            "text": ReplyText("r", "hi"),
            "end": ResponseDone("r", ResponseStatus.COMPLETED),
            "fatal": EndpointProblem(FailureKind.ENDPOINT_ERROR, "it broke", True),
        }
        return [outputs[message]]

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        return [Send(pcm)]

    def end_turn(self, at_ns: int) -> Sequence[Output]:
        return [Send("commit")]

    def interrupt(self, response_id: str, heard_ms: int, at_ns: int) -> Sequence[Output]:
        return []

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        return [Send(f"timer {name}")]

    def finish(self, at_ns: int) -> Sequence[Output]:
        return [Send("bye"), Close()]

    def closed(self, code: int | None, reason: str, at_ns: int) -> Sequence[Output]:
        return []

    def redact(self, message: Message) -> dict[str, Any]:
        return {"type": message if isinstance(message, str) else "frame"}


async def ears(peer: MemoryPeer, heard: Heard) -> None:
    while True:
        try:
            arrival = await peer.receive()
        except TransportClosedError:
            return
        heard.take(arrival.at_ns, arrival.message)


async def beside(session: Coroutine[Any, Any, _T], *others: Coroutine[Any, Any, None]) -> _T:
    """Run a session while `others` run, cancel them at its end, and return its result."""
    tasks = [asyncio.create_task(other) for other in others]
    try:
        return await session
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def answers(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
    """An endpoint that is ready after 30 ms and answers 400 ms after the 45th frame."""
    await clock.sleep_until(30 * MS)
    peer.send("ready")
    await heard.until(lambda: sum(isinstance(message, bytes) for message in heard.messages) >= 45)
    await clock.sleep_until(clock.now_ns() + 300 * MS)
    peer.send("stopped")
    await clock.sleep_until(clock.now_ns() + 100 * MS)
    for message in ("begin", "text", "audio", "audio", "end"):
        peer.send(message)
