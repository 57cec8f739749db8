"""Run the conversation of a page: WebRTC connection, live conversation, and stored run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from live_eval.audio.codecs import OPUS_RATE_HZ
from live_eval.clock import SystemClock
from live_eval.data import Consent, PerformedSet
from live_eval.errors import LiveEvalError, UsageError
from live_eval.judging import JudgeSpec
from live_eval.live import LiveConversation
from live_eval.live.parties import Parties
from live_eval.live.performance import Performance, TakeChoice
from live_eval.live.shared_conversation import SharedConversation
from live_eval.live.updates import FromEndpoint, State, StateChanged
from live_eval.run.plan import Plan
from live_eval.studio.answers import json_text
from live_eval.studio.library import ListedFolder
from live_eval.studio.talking.loudspeaker import TrackLoudspeaker
from live_eval.studio.talking.page_messages import as_json
from live_eval.webrtc.answering import OfferError, RtcConnection

__all__ = ["PageConversation"]

_CONNECT_NS = 15_000_000_000
_DELAY_NS = 120_000_000
"""The delay from the microphone to the session; a busy browser's packets are up to 80 ms late."""

_DEVICES = {"microphone": "browser"}

_log = logging.getLogger(__name__)


class PageConversation:
    """Runs a conversation between a page and one or several endpoints, and stores a run for each.

    The page sends ``{"type": …}`` on the connection's data channel: ``mute`` and ``half_duplex`` with
    ``on``, ``commit``, ``reconnect`` and ``end``; during a performance also ``take``, whose ``choice`` is
    ``end``, ``accept``, ``repeat`` or ``skip``; with several endpoints also ``hear`` and ``vote`` with the
    place of an ``endpoint``, or null for all in turn, or a tie. It receives messages built by
    `page_messages.as_json`, those of one of several endpoints with its place as ``endpoint``; ``failed``
    with a ``message`` if an error ends the conversation; and finally ``stored`` with the ID and the name of
    the ``run``. With several endpoints, ``stored`` has the ``runs`` in the order of presentation, and the
    command ``votes`` if there are any.

    Args:
        runs: Run of each of `parties.all`; its folder is created once the page is connected.
        votes: File to write the votes to.
        judges: Judges that score the turns, in order.
        missing: Reasons why some of the judges cannot run, by name.
        performed: Data set of the takes, for a performance with a single endpoint.
        consent: Consent of the performer.
    """

    def __init__(
        self,
        parties: Parties,
        runs: Sequence[ListedFolder],
        votes: ListedFolder,
        judges: Sequence[JudgeSpec],
        missing: Mapping[str, str],
        *,
        performed: PerformedSet | None = None,
        consent: Consent | None = None,
    ) -> None:
        self._parties = parties
        self._runs = runs
        self._votes = votes.path
        self._judges = judges
        self._missing = missing
        self._performed = performed
        self._consent = consent
        self._performance: Performance | None = None
        self._clock = SystemClock()
        self._connection = RtcConnection(self._clock)
        self._live: LiveConversation | SharedConversation | None = None
        self._stopped = False
        self._connected = self._left = False

    @property
    def connected(self) -> bool:
        """Whether the page has connected to the studio."""
        return self._connected

    @property
    def key_recipients(self) -> list[str]:
        """The recipients of the endpoints' keys; see `Plan.key_recipient`."""
        return [plan.key_recipient for plan in self._plans if plan.key_recipient is not None]

    @property
    def facts(self) -> dict[str, Any]:
        """The turn mode, the judges, and the labels of several endpoints, as JSON values."""
        facts: dict[str, Any] = {
            "turn_mode": self._plans[0].turn_mode.value,
            "judges": [
                {"name": spec.name, "title": spec.title, "missing": self._missing.get(spec.name)}
                for spec in self._judges
            ],
        }
        if len(self._runs) > 1:
            facts["endpoints"] = [each.label for each in self._parties.standings]
        return facts

    @property
    def _plans(self) -> list[Plan]:
        return [party.plan for party in self._parties.all]

    async def answer(self, offer: str) -> str:
        """Return the SDP answer to the page's offer. Call `run` next.

        Raises:
            UsageError: The SDP offer is refused.
        """
        try:
            return await self._connection.answer(offer)
        except OfferError as error:
            raise UsageError(str(error)) from None

    def stop(self) -> None:
        """End the conversation; `run` returns once every turn is stored, without waiting for scores."""
        self._stopped = True
        if self._live is not None:
            self._live.stop()

    async def run(self) -> None:
        """Run the conversation until the user ends it or the page is closed."""
        try:
            self._connected = await self._connection.connected(_CONNECT_NS)
            if self._connected:
                await self._store()
        except (LiveEvalError, OSError) as error:
            await self._send({"type": "failed", "message": str(error)})
        except Exception:
            _log.exception("a bug in live-eval")
            await self._send(
                {"type": "failed", "message": "a bug in live-eval; see the terminal for details"}
            )
        finally:
            await self.leave()

    async def leave(self) -> None:
        """Close the connection to the page."""
        await self._connection.close(1000, "")

    async def _store(self) -> None:
        """Run the live conversation, and end the stored runs in any case."""
        loudspeaker = TrackLoudspeaker(self._connection, self._clock)
        if self._performed is not None:
            self._performance = Performance(self._plans[0], self._performed, device_hz=OPUS_RATE_HZ)
            if self._consent is not None:
                await asyncio.to_thread(self._performed.begin, self._consent)
        stack = contextlib.ExitStack()
        try:
            opened = self._parties.conversation(
                loudspeaker,
                _DEVICES,
                performed=self._performed,
                performance=self._performance,
                votes=self._votes,
                device_hz=OPUS_RATE_HZ,
                delay_ns=_DELAY_NS,
                clock=self._clock,
            )
            live = await asyncio.to_thread(stack.enter_context, opened)
            await self._converse(live, loudspeaker)
        except LiveEvalError as error:
            await self._send({"type": "failed", "message": str(error)})
        finally:
            await asyncio.to_thread(stack.close)
            try:
                if len(self._parties.ballot):
                    await asyncio.to_thread(self._parties.ballot.write, self._votes)
            except UsageError as error:
                await self._send({"type": "failed", "message": str(error)})
            await self._send(self._stored())

    def _stored(self) -> dict[str, Any]:
        """Return the message about the runs."""
        parties = self._parties
        if len(self._runs) == 1:
            return {"type": "stored", "run": self._runs[0].id, "name": self._runs[0].path.name}
        each = zip(parties.all, parties.standings, self._runs, parties.ballot.wins, strict=True)
        runs = [
            {
                "run": run.id,
                "name": run.path.name,
                "endpoint": party.name,
                "label": standing.label,
                "turns": len(standing.turns),
                "votes": votes,
                "failure": None if standing.failure is None else standing.failure.message,
            }
            for party, standing, run, votes in each
        ]
        votes = parties.next_commands(self._votes).get("votes")
        return {"type": "stored", "runs": runs, "votes": votes}

    async def _converse(
        self, live: LiveConversation | SharedConversation, loudspeaker: TrackLoudspeaker
    ) -> None:
        self._live = live
        if self._stopped:
            live.stop()
        failure: LiveEvalError | None = None
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(self._pass_on(live))
            pumps = [
                tasks.create_task(work) for work in (loudspeaker.run(), self._listen(live), self._obey(live))
            ]
            try:
                await live.run()
            except LiveEvalError as error:
                failure = error
            await sending
            for pump in pumps:
                pump.cancel()
        if failure is not None:
            raise failure

    async def _listen(self, live: LiveConversation | SharedConversation) -> None:
        """Forward the page's microphone audio."""
        while (packet := await self._connection.hear()) is not None:
            live.push(np.frombuffer(packet.pcm, "<i2").astype(np.int16, copy=False), packet.at_ns)
        self._left = True
        live.stop()

    async def _obey(self, live: LiveConversation | SharedConversation) -> None:
        """Carry out the page's commands."""
        actions: dict[str, Callable[[], None]] = {
            "commit": live.commit,
            "reconnect": live.reconnect,
            "end": live.stop,
        }
        switches: dict[str, Callable[[bool], None]] = {"mute": live.mute, "half_duplex": live.half_duplex}
        while (arrival := await self._connection.receive()) is not None:
            try:
                message = orjson.loads(arrival.message)
                kind = message["type"]
                if kind == "take" and self._performance is not None:
                    choice = message["choice"]
                    if choice == "enter":
                        self._performance.enter()
                    elif choice == "end":
                        self._performance.end_take()
                    else:
                        self._performance.choose(TakeChoice(choice))
                elif kind in switches:
                    switches[kind](message["on"] is True)
                elif kind in ("hear", "vote") and isinstance(live, SharedConversation):
                    place = message["endpoint"]
                    if place is not None and (type(place) is not int or place < 0):
                        raise ValueError("expected the place of an endpoint or null")
                    (live.hear if kind == "hear" else live.vote)(place)
                else:
                    actions[kind]()
            except (ValueError, TypeError, KeyError):
                _log.warning("ignored a malformed message from the page: %.100r", arrival.message)

    async def _pass_on(self, live: LiveConversation | SharedConversation) -> None:
        async for update in live.updates():
            await self._send(as_json(update))
            update = update.update if isinstance(update, FromEndpoint) else update
            unwanted = self._left or self._stopped  # the page or the studio is closed
            if unwanted and isinstance(update, StateChanged) and update.state is State.SCORING:
                live.stop()

    async def _send(self, message: dict[str, Any]) -> None:
        if not self._connection.ended:
            await self._connection.send(json_text(message).encode())
