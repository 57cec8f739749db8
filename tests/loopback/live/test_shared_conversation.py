"""Conversations of one person with several endpoints, over real connections, without a sound card."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.analysis.arena.outcome import run_arena
from live_eval.analysis.comparison.series import read_runs
from live_eval.audio import read_audio, resample
from live_eval.errors import LiveEvalError
from live_eval.live import LiveConversation, State
from live_eval.live.ballot import Ballot
from live_eval.live.captures import TurnNumbers
from live_eval.live.reply import AudioSink
from live_eval.live.shared_conversation import Join, SharedConversation
from live_eval.live.standings import Standing
from live_eval.live.updates import FromEndpoint, LatencyMeasured, RecordStored, StateChanged, Update, Voted
from live_eval.recording import RunReader, RunWriter, TurnRecord
from live_eval.reference.faults.fault_script import parse_faults
from live_eval.run.plan import Plan, make_live_plan
from live_eval.run.run_file import validate
from live_eval.scoring.judge_runner import JudgeOptions
from tests.support.live_user import RATE_HZ, Loudspeaker, Seen, speak
from tests.support.serving import reference

Speech: TypeAlias = NDArray[np.int16]

SPEECH = Path("live_eval/data/sample/data_human/audio/fast/le_101_fast_work_target.flac")


@pytest.fixture(scope="module")
def utterance() -> Speech:
    return resample(read_audio(SPEECH).audio, RATE_HZ).int16()


def silence(seconds: float) -> Speech:
    return np.zeros(round(seconds * RATE_HZ), np.int16)


def stored(folder: Path) -> list[TurnRecord]:
    with RunReader.open(folder) as run:
        return list(run.turns())


class SeenOf(Seen):
    """The updates of a shared conversation so far."""

    async def until_each(self, kind: type[Update], places: Sequence[int], number: int = 1) -> None:
        """Wait until each endpoint has sent `number` updates of a kind."""

        def complete() -> bool:
            return all(len(self.at(place, kind)) >= number for place in places)

        async with asyncio.timeout(20), self._news:
            await self._news.wait_for(complete)

    def at(self, place: int, kind: type[Any]) -> list[Any]:
        """Return one endpoint's updates of a kind."""
        found = [each.update for each in self.of(FromEndpoint) if each.place == place]
        return [update for update in found if isinstance(update, kind)]


@dataclass
class Shared:
    conversation: SharedConversation
    ballot: Ballot
    loudspeaker: Loudspeaker
    seen: SeenOf


def planned(address: str) -> Plan:
    return make_live_plan(validate({"endpoint": {"name": "reference", "base_url": f"ws://{address}/v1"}}))


@asynccontextmanager
async def conversing(
    folders: Sequence[Path], speech: list[Speech], endpoints: Sequence[dict[str, Any] | None]
) -> AsyncIterator[Shared]:
    """Talk to reference endpoints with these settings; None for an address where nothing listens."""
    loudspeaker, seen, ballot = Loudspeaker(), SeenOf(), Ballot([folder.name for folder in folders])
    joins: list[Join] = []
    async with AsyncExitStack() as stack:
        writers: list[RunWriter] = []
        for folder, settings in zip(folders, endpoints, strict=True):
            address = "127.0.0.1:9"
            if settings is not None:
                address = await stack.enter_async_context(reference(**settings))
            plan = await asyncio.to_thread(planned, address)
            manifest = await asyncio.to_thread(plan.manifest)
            writers.append(await asyncio.to_thread(RunWriter.create, folder, manifest))

            def join(
                sink: AudioSink, numbers: TurnNumbers, plan: Plan = plan, writer: RunWriter = writers[-1]
            ) -> LiveConversation:
                return LiveConversation(plan, writer, sink, device_hz=RATE_HZ, numbers=numbers)

            joins.append(join)
        standings = [Standing(folder.name) for folder in folders]
        conversation = SharedConversation(joins, loudspeaker, ballot, standings)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(seen.follow(conversation))  # type: ignore[arg-type]
            running = tasks.create_task(conversation.run())
            speaking = tasks.create_task(speak(conversation, speech))  # type: ignore[arg-type]
            try:
                yield Shared(conversation, ballot, loudspeaker, seen)
            finally:
                conversation.stop()
                await asyncio.wait((running, following))
                speaking.cancel()
        for writer in writers:
            await asyncio.to_thread(writer.end)
            await asyncio.to_thread(writer.close)


async def test_every_reply_is_stored_one_is_heard_and_votes_are_read_by_arena(
    tmp_path: Path, utterance: Speech
) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    said = [silence(0.5), utterance, silence(3), utterance]
    quick, slow = {"reply_ms": 400}, {"reply_ms": 700, "delay_ms": 900}
    async with conversing(folders, said, [quick, slow]) as shared:
        await shared.seen.until_each(LatencyMeasured, [0, 1])
        shared.conversation.vote(1)
        heard = sum(samples for _, samples in shared.loudspeaker.played)
        shared.conversation.hear(1)
        await shared.seen.until_each(RecordStored, [0, 1], 2)
        shared.conversation.vote(None)
        await shared.seen.until(Voted, 2)
    assert [vote.number for vote in shared.seen.of(Voted)] == [1, 2]
    turns = [await asyncio.to_thread(stored, folder) for folder in folders]
    for each in turns:
        assert [turn.case.case_id for turn in each] == ["turn-0001", "turn-0002"]
        assert [turn.failure for turn in each] == [None, None]
    first, second = (each[0].timing.voice_to_voice.ns or 0 for each in turns)
    assert second > first
    rate_hz = turns[0][0].responses[0].rate_hz or 0
    assert heard == pytest.approx(0.4 * rate_hz, rel=0.1)
    assert sum(samples for _, samples in shared.loudspeaker.played) == pytest.approx(1.1 * rate_hz, rel=0.1)
    votes = tmp_path / "votes.csv"
    await asyncio.to_thread(shared.ballot.write, votes)
    arena = await asyncio.to_thread(
        lambda: run_arena(read_runs(folders), None, JudgeOptions(), votes=votes).as_json()
    )
    [pair] = arena["people"]["ratings"]["pairs"]
    assert (pair["first"], pair["wins"], pair["ties"], pair["losses"]) == ("one", 0, 1, 1)


async def test_all_replies_are_heard_one_after_the_other(tmp_path: Path, utterance: Speech) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    said = [silence(0.5), utterance]
    async with conversing(folders, said, [{"reply_ms": 700}, {"reply_ms": 500}]) as shared:
        shared.conversation.hear(None)
        await shared.seen.until_each(RecordStored, [0, 1])
        await asyncio.sleep(0.5)
    turns = [await asyncio.to_thread(stored, folder) for folder in folders]
    rate_hz = turns[0][0].responses[0].rate_hz or 0
    heard = sum(samples for _, samples in shared.loudspeaker.played)
    assert heard == pytest.approx(1.2 * rate_hz, rel=0.1)


@pytest.mark.slow
async def test_a_dead_endpoint_does_not_end_the_conversation(tmp_path: Path, utterance: Speech) -> None:
    folders = [tmp_path / name for name in ("alive", "dead", "dies")]
    said = [silence(0.5), utterance, silence(2), utterance]
    settings = [{"reply_ms": 300}, None, {"reply_ms": 600, "faults": parse_faults("close")}]
    async with conversing(folders, said, settings) as shared:
        await shared.seen.until_each(RecordStored, [0], 2)
    for place in (1, 2):
        states: list[StateChanged] = shared.seen.at(place, StateChanged)
        assert [each.state for each in states][-2:] == [State.DISCONNECTED, State.ENDED]
    assert shared.seen.states == [State.STARTING, State.TALKING, State.ENDED]
    assert [turn.failure for turn in await asyncio.to_thread(stored, folders[0])] == [None, None]
    assert not await asyncio.to_thread(stored, folders[1])
    [failed] = await asyncio.to_thread(stored, folders[2])
    assert failed.failure is not None


async def test_the_conversation_reports_that_no_endpoint_is_left(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    async with conversing(folders, [silence(0.1)], [None, None]) as shared:
        await shared.seen.until(StateChanged, 2)
    assert shared.seen.states == [State.STARTING, State.DISCONNECTED, State.ENDED]


async def test_an_endpoint_that_cannot_be_launched_is_reported(
    tmp_path: Path, utterance: Speech, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = LiveConversation.run
    broken: list[LiveConversation] = []

    async def fail_first(self: LiveConversation) -> None:
        broken.append(self)
        if self is broken[0]:
            self._updates.put(StateChanged(State.ENDED))
            raise LiveEvalError("cannot launch")
        await run(self)

    monkeypatch.setattr(LiveConversation, "run", fail_first)
    folders = [tmp_path / "one", tmp_path / "two"]
    async with conversing(folders, [silence(0.5), utterance], [{}, {"reply_ms": 300}]) as shared:
        await shared.seen.until_each(RecordStored, [1])
    failures = [each.failure for each in shared.seen.at(0, StateChanged) if each.failure is not None]
    assert [failure.message for failure in failures] == ["cannot launch"]
