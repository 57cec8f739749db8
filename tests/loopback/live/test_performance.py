"""A performance by a simulated person, over a real connection: takes, checks, replies and the data set."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.audio import read_audio, resample
from live_eval.data import Consent, PerformedSet, direction, load, performable, sample_path
from live_eval.errors import DataError, UsageError
from live_eval.live import LiveConversation, State
from live_eval.live.performance import Performance, TakeChoice, plan_performance
from live_eval.live.updates import StateChanged, TakeAsked, TakeChecked, TakeRepeated, Update
from live_eval.recording import RunReader, RunWriter, TurnRecord
from live_eval.reference.faults.fault_script import parse_faults
from live_eval.run.plan import make_plan
from live_eval.run.run_file import RunConfig, validate
from tests.support.live_user import BLOCK_MS, RATE_HZ, Loudspeaker
from tests.support.serving import reference

SAMPLE = sample_path() / "data_human"
CONSENT = Consent("May we?", "A. B.", "2026-11-28T12:00:00+00:00")
Pcm: TypeAlias = NDArray[np.int16]


@pytest.fixture(scope="module")
def voice() -> dict[tuple[str, str], Pcm]:
    """The recordings of the sample by text and direction, as spoken by the simulated person."""
    cases, _ = performable(load(SAMPLE).cases)
    return {
        (case.text or "", direction(case.cue) or ""): resample(
            read_audio(case.audio_path).audio, RATE_HZ
        ).int16()
        for case in cases
    }


class Person:
    """Speaks into a conversation's microphone as asked, and decides about takes."""

    def __init__(
        self,
        conversation: LiveConversation,
        performance: Performance,
        say: Callable[[TakeAsked], Pcm | None],
        decide: Callable[[TakeChecked], TakeChoice],
    ) -> None:
        self.updates: list[Update] = []
        self.conversation = conversation
        self._performance = performance
        self._say = say
        self._decide = decide
        self._pcm = np.empty(0, np.int16)

    async def perform(self) -> None:
        async for update in self.conversation.updates():
            self.updates.append(update)
            match update:
                case TakeAsked():
                    said = self._say(update)
                    if said is None:
                        self._performance.choose(TakeChoice.SKIP)
                    else:
                        self._pcm = np.concatenate((np.zeros(RATE_HZ // 4, np.int16), said))
                case TakeChecked() if not self._performance.unattended:
                    asyncio.get_running_loop().call_soon(self._performance.choose, self._decide(update))

    async def speak(self) -> None:
        """Push blocks ten times as fast as speech."""
        block = RATE_HZ * BLOCK_MS // 1000
        while True:
            await asyncio.sleep(BLOCK_MS / 10_000)
            piece, self._pcm = self._pcm[:block], self._pcm[block:]
            self.conversation.push(np.pad(piece, (0, block - len(piece))), time.monotonic_ns())


def config(address: str, *cases: str) -> RunConfig:
    return validate(
        {
            "endpoint": {"name": "reference", "base_url": f"ws://{address}/v1"},
            "data": {"path": str(SAMPLE), "cases": list(cases)},
            "turns": {"word_times": "off"},
        }
    )


@contextlib.asynccontextmanager
async def performing(
    folder: Path,
    say: Callable[[TakeAsked], Pcm | None],
    decide: Callable[[TakeChecked], TakeChoice] | None,
    *cases: str,
    people: list[Person] | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[Person, PerformedSet]]:
    """Run a performance to its end; `decide` is None for an unattended one."""
    takes = PerformedSet(folder / "takes")
    async with reference(reply_ms=300, **settings) as address:
        plan = await asyncio.to_thread(lambda: plan_performance(config(address, *cases), takes))
        await asyncio.to_thread(takes.begin, CONSENT)
        writer = await asyncio.to_thread(lambda: RunWriter.create(folder / "run", plan.manifest()))
        performance = Performance(plan, takes, device_hz=RATE_HZ)
        performance.unattended = decide is None
        conversation = LiveConversation(
            plan, writer, Loudspeaker(), device_hz=RATE_HZ, performance=performance
        )
        person = Person(conversation, performance, say, decide or (lambda _: TakeChoice.ACCEPT))
        if people is not None:
            people.append(person)
        speaking = asyncio.create_task(person.speak())
        performing = asyncio.create_task(person.perform())
        try:
            await conversation.run()
            await performing
            yield person, takes
        finally:
            speaking.cancel()
            await asyncio.to_thread(writer.end)


def stored(folder: Path) -> list[TurnRecord]:
    with RunReader.open(folder / "run") as run:
        return list(run.turns())


async def recordings(takes: PerformedSet) -> list[Path]:
    folder = takes.folder / "data_human" / "audio"
    found = await asyncio.to_thread(lambda: list(folder.iterdir()))
    return [path for path in found if not path.stem.endswith("_response")]


Voice: TypeAlias = dict[tuple[str, str], Pcm]


@pytest.mark.slow
async def test_takes_are_repeated_skipped_accepted_and_stored(tmp_path: Path, voice: Voice) -> None:
    attempts: list[tuple[int, int]] = []

    def say(asked: TakeAsked) -> Pcm | None:
        attempts.append((asked.number, asked.attempt))
        assert asked.total == 3
        return None if asked.number == 3 else voice[asked.text, asked.direction]

    def decide(_checked: TakeChecked) -> TakeChoice:
        return TakeChoice.REPEAT if attempts[-1] == (2, 1) else TakeChoice.ACCEPT

    async with performing(tmp_path, say, decide, "le_101") as (person, takes):
        assert attempts == [(1, 1), (2, 1), (2, 2), (3, 1)]
        checks = [update for update in person.updates if isinstance(update, TakeChecked)]
        assert [check.problems for check in checks] == [()] * 3
        assert checks[0].notes == ("words are not checked: turns.word_times is off",)
        found = await asyncio.to_thread(load, takes.folder)
        assert len(found.cases) == 2
        assert len(await recordings(takes)) == 2
        states = [update.state for update in person.updates if isinstance(update, StateChanged)]
        assert states.count(State.RECORDING) == 4
        repeated = [update for update in person.updates if isinstance(update, TakeRepeated)]
        assert repeated == [TakeRepeated(1, 2), TakeRepeated(2, 2)]
    turns = await asyncio.to_thread(stored, tmp_path)
    assert [turn.failure for turn in turns] == [None] * 4
    assert {turn.case.case_id for turn in turns} == {case.case_id for case in found.cases}
    assert {turn.repeat for turn in turns} == {0, 1}
    for turn in turns:
        assert turn.timing.voice_to_voice.ns is not None
        assert turn.case.dialogue_id is None
        assert turn.case.audio_path.is_relative_to(takes.folder)
    settings = {"endpoint": {"name": "reference"}, "data": {"path": str(takes.folder)}}
    again = await asyncio.to_thread(lambda: make_plan(validate(settings)))
    assert {job.turn_id for job in again.jobs} == {turn.turn_id for turn in turns if turn.repeat == 0}


@pytest.mark.slow
async def test_without_a_person_to_decide_bad_takes_are_repeated_and_skipped(
    tmp_path: Path, voice: Voice
) -> None:
    attempts: list[tuple[int, int]] = []

    def say(asked: TakeAsked) -> Pcm:
        attempts.append((asked.number, asked.attempt))
        said = voice[asked.text, asked.direction]
        return (
            np.clip(said.astype(np.int32) * 40, -32_768, 32_767).astype(np.int16)
            if asked.number == 2
            else said
        )

    async with performing(tmp_path, say, None, "le_101") as (person, takes):
        assert attempts == [(1, 1), (2, 1), (2, 2), (2, 3), (3, 1)]
        clipped = [check for check in person.updates if isinstance(check, TakeChecked) and check.problems]
        assert all("clipped" in check.problems[0] for check in clipped)
        assert len(await recordings(takes)) == 2


@pytest.mark.slow
async def test_a_performance_that_ends_early_keeps_only_accepted_takes(tmp_path: Path, voice: Voice) -> None:
    people: list[Person] = []

    def say(asked: TakeAsked) -> Pcm:
        return voice[asked.text, asked.direction]

    def decide(checked: TakeChecked) -> TakeChoice:
        (person,) = people
        if len([update for update in person.updates if isinstance(update, TakeChecked)]) == 2:
            person.conversation.stop()  # the second take is recorded, and nobody has accepted it
        return TakeChoice.ACCEPT

    async with performing(tmp_path, say, decide, "le_101", people=people) as (_, takes):
        assert len(await recordings(takes)) == 1
        found = await asyncio.to_thread(load, takes.folder)
        assert [case.case_id for case in found.cases] == ["le_101/target"]
    assert len(await asyncio.to_thread(stored, tmp_path)) == 1


@pytest.mark.slow
async def test_takes_survive_an_endpoint_that_fails(tmp_path: Path, voice: Voice) -> None:
    async with performing(
        tmp_path,
        lambda asked: voice[asked.text, asked.direction],
        lambda _: TakeChoice.ACCEPT,
        "le_101",
        faults=parse_faults("close"),
    ) as (_, takes):
        assert len(await recordings(takes)) == 3
    turns = await asyncio.to_thread(stored, tmp_path)
    assert len(turns) == 6
    assert all(turn.failure is not None for turn in turns)


async def test_a_take_that_cannot_be_stored_ends_the_performance(
    tmp_path: Path, voice: Voice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise DataError("cannot write the take: No space left on device")

    monkeypatch.setattr(PerformedSet, "record", full)
    with pytest.raises(DataError, match="No space left"):
        async with performing(
            tmp_path, lambda asked: voice[asked.text, asked.direction], lambda _: TakeChoice.ACCEPT, "le_101"
        ):
            pytest.fail("expected an error")


def test_scripts_need_no_recordings_but_a_cue_that_a_voice_can_perform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIVE_EVAL_REFERENCE_URL", "ws://127.0.0.1:1/v1")
    entry = {
        "case_id": "mine",
        "script": "I am home.",
        "spoken_info": "sound of raining",
        "target_audio_info": {"target_input_audio_file": "absent.wav"},
    }
    scripts = tmp_path / "script_info_mine.json"
    scripts.write_text(json.dumps([entry]))
    settings = validate({"endpoint": {"name": "reference"}, "data": {"path": str(scripts)}})
    with pytest.raises(UsageError, match=r"1 take omitted: a cue that no voice can perform"):
        plan_performance(settings, PerformedSet(tmp_path / "takes"))
    scripts.write_text(json.dumps([entry | {"spoken_info": "sigh sound"}]))
    plan = plan_performance(settings, PerformedSet(tmp_path / "takes"))
    assert [job.turn_id for job in plan.jobs] == ["mine/target", "mine/target#2"]
    assert plan.notes[-1] == "0 scripts in several styles: cue sensitivity requires at least 5"
    assert plan.base_url == "ws://127.0.0.1:1/v1", "from the environment"
    assert plan.data.root == scripts  # an endpoint that is launched answers these scripts
    assert plan.config.data.path == str(tmp_path / "takes")
    assert not (tmp_path / "takes").exists()
    both = [entry, entry | {"case_id": "sighs", "spoken_info": "sigh sound"}]
    scripts.write_text(json.dumps(both))
    one = settings.model_copy(update={"data": settings.data.model_copy(update={"limit": 1})})
    limited = plan_performance(one, PerformedSet(tmp_path / "takes"))
    assert {job.case.script_id for job in limited.jobs} == {"sighs"}
