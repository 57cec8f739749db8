"""Parallel workers: every batch gets an answer, even if its worker fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from live_eval.audio import Audio
from live_eval.judging import Failed, JudgedTurn, Need, Scored
from live_eval.scoring.judge_pool import JudgedBatch
from live_eval.scoring.judge_queue import JudgeBatch
from live_eval.scoring.judge_workers import WorkerGroup, WorkerPlace
from tests.unit.scoring.test_scoring_run import READER, a_case

TURNS = [JudgedTurn(turn_id=name, case=a_case(name), reply_text=name) for name in ("a", "bb")]


def letters(batch: JudgeBatch) -> JudgedBatch:
    scores = [Scored({"": float(len(turn.reply_text or ""))}) for turn in batch.turns]
    return JudgedBatch(scores, None, 0.0)


@dataclass(eq=False)
class FakeWorker:
    """A worker that judges by a function."""

    judging: Callable[[JudgeBatch], JudgedBatch]
    batches: list[JudgeBatch] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def judge(self, batch: JudgeBatch) -> JudgedBatch:
        self.batches.append(batch)
        return self.judging(batch)

    def end(self) -> None:
        self.ended.set()


def group_of(*starts: Callable[[threading.Event], FakeWorker]) -> tuple[WorkerGroup[FakeWorker], list[str]]:
    said: list[str] = []
    places = [WorkerPlace(f"node {number}", start) for number, start in enumerate(starts)]
    return WorkerGroup(places, said.append), said


def refuses(_: threading.Event) -> FakeWorker:
    raise RuntimeError("no memory")


def test_a_batch_that_kills_two_workers_fails_and_the_next_is_judged() -> None:
    started: list[FakeWorker] = []

    def dies_of_long_words(batch: JudgeBatch) -> JudgedBatch:
        if any(len(turn.reply_text or "") > 1 for turn in batch.turns):
            raise EOFError("killed")
        return letters(batch)

    def start(_: threading.Event) -> FakeWorker:
        started.append(FakeWorker(dies_of_long_words))
        return started[-1]

    group, _ = group_of(start)
    bad, good = group.submit(READER, "1", TURNS), group.submit(READER, "1", TURNS[:1])
    failed = Failed("lost 2 workers while judging it: killed")
    assert list(bad.result(10).judgements) == [failed, failed]
    assert list(good.result(10).judgements) == [Scored({"": 1.0})]
    group.close()
    assert len(started) == 3
    assert all(worker.ended.is_set() for worker in started)


def test_where_no_worker_starts_the_judge_cannot_run() -> None:
    group, said = group_of(refuses, refuses)
    answer = group.submit(READER, "1", TURNS).result(10)
    assert answer.judgements == ()
    assert answer.problem == "cannot start a worker for judges on node 1: no memory"
    assert said == [f"cannot start a worker for judges on node {number}: no memory" for number in (0, 1)]
    group.close()


def test_the_worker_that_was_asked_first_judges_too() -> None:
    worker = FakeWorker(letters)
    group, said = group_of(refuses, lambda _: worker)
    assert group.ask(lambda asked: asked) is worker
    assert said == ["cannot start a worker for judges on node 0: no memory"]
    assert group.submit(READER, "1", TURNS).result(10).problem is None
    group.close()
    assert len(worker.batches) == 1


def test_closing_ends_a_worker_that_hangs() -> None:
    begun = threading.Event()

    def hangs(batch: JudgeBatch) -> JudgedBatch:
        begun.set()
        worker.ended.wait(10)
        raise EOFError

    worker = FakeWorker(hangs)
    group, _ = group_of(lambda _: worker)
    group.submit(READER, "1", TURNS)
    assert begun.wait(10)
    group.close()
    assert worker.ended.is_set()


@pytest.mark.parametrize("needs", [{Need.REPLY_TEXT}, {Need.REPLY_AUDIO}])
def test_a_worker_gets_the_audio_that_its_judge_uses(needs: set[Need]) -> None:
    worker = FakeWorker(letters)
    group, _ = group_of(lambda _: worker)
    sound = Audio(np.zeros(10, np.float32), 16_000)
    turn = replace(TURNS[0], reply=sound, speaker=sound, reference=sound)
    group.submit(replace(READER, needs=frozenset(needs)), "1", [turn]).result(10)
    group.close()
    [sent] = worker.batches[0].turns
    assert (sent.reply is not None) is (Need.REPLY_AUDIO in needs)
    assert sent.speaker is None
    assert sent.reference is None
