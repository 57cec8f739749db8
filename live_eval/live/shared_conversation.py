"""Let a person talk to several endpoints at once, with one microphone and one output device.

Each endpoint has its own `LiveConversation`, which stores its own run. All use the same turn numbers, so the
runs can be compared. If one conversation ends or fails, the others continue.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from live_eval.clock import Clock, SystemClock
from live_eval.errors import FailureKind, LiveEvalError, UsageError
from live_eval.live.ballot import Ballot
from live_eval.live.captures import TurnNumbers
from live_eval.live.conversation import LiveConversation
from live_eval.live.reply import AudioSink
from live_eval.live.room import EndpointSink, Room
from live_eval.live.standings import Standing, common_state
from live_eval.live.updates import (
    FromEndpoint,
    HeardChanged,
    LatencyMeasured,
    Levels,
    RecordStored,
    SpeechDetected,
    StandingChanged,
    State,
    StateChanged,
    Update,
    UpdateQueue,
)
from live_eval.session.event_loop import ungrouped
from live_eval.types import Failure

__all__ = ["Join", "SharedConversation"]

_TICK_NS = 20_000_000

Join = Callable[[AudioSink, TurnNumbers], LiveConversation]
"""Function that returns a conversation with an endpoint, given its sink and the shared turn numbers."""


class SharedConversation:
    """Run conversations of one person with several endpoints; see `LiveConversation` for the methods.

    Args:
        joins: Functions that return the conversation with each endpoint, in the order of presentation.
        sink: Output device.
        ballot: Collects votes on the turns.
        standings: Collect each endpoint's state and values.
        blind: Whether to omit failure messages, which contain addresses, from the updates.
        votes: File to which votes are written as they are cast; None to write none.
    """

    def __init__(
        self,
        joins: Sequence[Join],
        sink: AudioSink,
        ballot: Ballot,
        standings: Sequence[Standing],
        *,
        blind: bool = False,
        votes: Path | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._room = Room(sink, lambda: [each.reply for each in self._conversations], self._clock.now_ns)
        numbers = TurnNumbers()
        self._conversations = [
            join(EndpointSink(self._room, place), numbers) for place, join in enumerate(joins)
        ]
        self._over: set[int] = set()
        self._set_audible()
        self._has_garbage = False
        for each in self._conversations:
            each.output = self._room.audio
            each.collect = self._collect_later
        self._ballot = ballot
        self._standings = standings
        self._blind = blind
        self._votes = votes
        self._voted = False  # whether a vote has yet to be written
        self._updates = UpdateQueue()
        self._errors: list[LiveEvalError] = []
        self._state: State | None = None

    # -- Control -----------------------------------------------------------------------------------------

    def push(self, pcm: NDArray[np.int16], at_ns: int) -> None:
        """See `LiveConversation.push`."""
        plays = self._room.plays(at_ns)
        for each in self._conversations:
            each.push(pcm, at_ns, reply_plays=plays)

    def mute(self, muted: bool) -> None:
        """See `LiveConversation.mute`."""
        for each in self._conversations:
            each.mute(muted)

    def half_duplex(self, on: bool) -> None:
        """Set whether the microphone is muted while any reply is audible."""
        for each in self._conversations:
            each.half_duplex(on)

    def commit(self) -> None:
        """See `LiveConversation.commit`."""
        for each in self._conversations:
            each.commit()

    def reconnect(self) -> None:
        """Start another session with each endpoint whose session has ended."""
        for each in self._conversations:
            each.reconnect()

    def stop(self) -> None:
        """See `LiveConversation.stop`."""
        for each in self._conversations:
            each.stop()

    def count_device_xruns(self, input: int, output: int) -> None:
        """See `LiveConversation.count_device_xruns`."""
        for each in self._conversations:
            each.count_device_xruns(input, output)

    def hear(self, place: int | None) -> None:
        """Select the endpoint to listen to, by its place; None for all in turn."""
        if place is None or place < len(self._conversations):
            self._room.choose(place)
            self._set_audible()
            self._updates.put(HeardChanged(place))

    def _set_audible(self) -> None:
        """Let one conversation search for echoes of everything that the room hears."""
        heard = self._room.heard
        searching = heard if heard is not None else next(iter(self._running), 0)
        for place, each in enumerate(self._conversations):
            each.audible = place == searching

    @property
    def quiet(self) -> bool:
        """Whether each connected endpoint is listening, and the room hears no reply."""
        return not self._room.plays(self._clock.now_ns()) and all(
            each.failure is not None or each.in_words == "listening" for each in self._standings
        )

    def vote(self, winner: int | None) -> None:
        """Vote for the best reply to the latest turn, by its place; None for a tie."""
        if winner is None or winner < len(self._conversations):
            self._updates.put(self._ballot.vote(winner))
            self._voted = True

    # -- Events ------------------------------------------------------------------------------------------

    def updates(self) -> AsyncIterator[Update]:
        """Yield updates until the conversation has ended.

        Updates of one endpoint are `FromEndpoint`. The other ones, such as levels and the state, concern the
        whole conversation.
        """
        return self._updates.read()

    async def run(self) -> None:
        """Run all conversations until `stop`.

        Raises:
            LiveEvalError: No conversation was possible. The first error is raised.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                ticking = tasks.create_task(self._tick())
                await asyncio.gather(
                    *(self._converse(place, each) for place, each in enumerate(self._conversations))
                )
                ticking.cancel()
        finally:
            self._updates.put(StateChanged(State.ENDED))
        if len(self._errors) == len(self._conversations):
            raise self._errors[0]

    async def _converse(self, place: int, conversation: LiveConversation) -> None:
        """Run a conversation and forward its updates; its failure does not end the others."""
        following = asyncio.ensure_future(self._follow(place, conversation))
        try:
            with ungrouped():
                await conversation.run()
        except LiveEvalError as error:
            self._errors.append(error)
            self._take(place, StateChanged(State.DISCONNECTED, Failure(FailureKind.INTERNAL, str(error))))
        finally:
            self._over.add(place)
            self._set_audible()
            await following

    async def _follow(self, place: int, conversation: LiveConversation) -> None:
        async for update in conversation.updates():
            self._take(place, update)

    def _take(self, place: int, update: Update) -> None:
        """Handle an endpoint's update, and forward it."""
        standing = self._standings[place]
        before = standing.in_words
        standing.follow(update)
        match update:
            case Levels():
                if place == self._shown_place:
                    speaks = self._room.speaks(self._clock.now_ns())
                    self._updates.put(replace(update, replying=speaks))
            case LatencyMeasured():
                self._ballot.replied(place, update)
            case SpeechDetected(True) if self._room.heard is None:
                self._room.silence()
        if not isinstance(update, Levels):
            update = _without_address(update) if self._blind else update
            self._updates.put(FromEndpoint(place, update))
        if standing.in_words != before:
            self._updates.put(StandingChanged(place, standing.in_words))
        if isinstance(update, StateChanged):
            if place == self._room.heard:
                self._leave_lost(place)
            state = common_state(self._standings)
            if state not in (self._state, State.ENDED):  # the end follows once all are stored
                self._state = state
                failure = update.failure if state is State.DISCONNECTED else None
                self._updates.put(StateChanged(state, failure))

    def _leave_lost(self, place: int) -> None:
        """Let the room hear a connected endpoint, if any, once the chosen one is disconnected."""
        connected = [each for each, standing in enumerate(self._standings) if standing.failure is None]
        if connected and place not in connected:
            self.hear(connected[0])

    @property
    def _shown_place(self) -> int:
        """The endpoint whose levels are shown: the audible one, or another one while it has ended."""
        place, running = self._room.current or 0, self._running
        return place if place in running or not running else running[0]

    @property
    def _running(self) -> list[int]:
        """The endpoints whose conversations have not ended."""
        return [place for place in range(len(self._conversations)) if place not in self._over]

    def _collect_later(self) -> None:
        self._has_garbage = True

    async def _tick(self) -> None:
        """Start the next reply once the previous one has ended, and write the votes.

        Collect garbage only while no reply is expected or arriving, since one endpoint's reply may end before
        another's begins.
        """
        due_ns = self._clock.now_ns()
        while True:
            due_ns = max(due_ns + _TICK_NS, self._clock.now_ns())
            await self._clock.sleep_until(due_ns)
            self._room.advance(due_ns)
            if self._voted and self._votes is not None and len(self._ballot):
                self._voted = False
                with contextlib.suppress(UsageError):  # the caller writes them again at the end
                    await asyncio.to_thread(self._ballot.write, self._votes)
            if self._has_garbage and not any(each.awaited or each.replying for each in self._standings):
                self._has_garbage = False
                gc.collect()


def _without_address(update: Update) -> Update:
    """Return an update without messages, which may contain the endpoint's address."""
    match update:
        case StateChanged():
            return replace(update, failure=_unnamed(update.failure))
        case LatencyMeasured() | RecordStored():
            record = replace(update.record, failure=_unnamed(update.record.failure))
            return replace(update, record=record)
    return update


def _unnamed(failure: Failure | None) -> Failure | None:
    return None if failure is None else replace(failure, message="the message is shown at the end")
