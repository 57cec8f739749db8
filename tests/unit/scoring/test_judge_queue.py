"""The assignment of batches to workers, and the batches of lost workers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from live_eval.scoring.judge_queue import JudgeBatch, JudgeQueue
from tests.unit.scoring.test_scoring_run import READER


def batch_of(judge: str, **facts: Any) -> JudgeBatch:
    return JudgeBatch(replace(READER, name=judge, **facts), "1", ())


def queue_of(*judges: str) -> tuple[JudgeQueue, list[JudgeBatch]]:
    queue, tasks = JudgeQueue(), [batch_of(judge) for judge in judges]
    for task in tasks:
        queue.add(task)
    return queue, tasks


def test_a_worker_keeps_to_the_judges_that_it_has_loaded() -> None:
    queue, tasks = queue_of("dnsmos", "bleu", "dnsmos", "bleu")
    assert queue.next_for("one") is tasks[0]
    assert queue.next_for("two") is tasks[1]
    assert queue.finished("one") is tasks[0]
    assert queue.next_for("one") is tasks[2]
    assert queue.pending == 3
    queue.finished("one")
    assert queue.next_for("one") is tasks[3], "rather another judge than nothing"
    queue.finished("one")
    assert queue.next_for("one") is None


def test_the_batch_of_a_lost_worker_is_next_and_is_judged_once() -> None:
    queue, tasks = queue_of("dnsmos", "bleu")
    queue.next_for("one")
    assert queue.lost("one") is None
    assert queue.next_for("two") is tasks[0]
    queue.finished("two")
    queue.next_for("two")
    queue.finished("two")
    assert queue.pending == 0


def test_a_batch_that_loses_two_workers_fails() -> None:
    queue, tasks = queue_of("dnsmos")
    queue.next_for("one")
    assert queue.lost("one") is None
    queue.next_for("two")
    assert queue.lost("two") is tasks[0]
    assert queue.pending == 0
    assert queue.lost("two") is None, "it has nothing"


def test_a_batch_that_a_worker_could_not_begin_is_not_a_loss() -> None:
    queue, tasks = queue_of("dnsmos", "bleu")
    queue.next_for("one")
    queue.returned("one")
    assert tasks[0].losses == 0
    assert queue.abandoned() == tasks
    assert queue.pending == 0


def test_workers_load_different_judges_the_longest_first_and_then_those_of_the_same_packages() -> None:
    torch, onnx = ("torch",), ("onnxruntime",)
    queue = JudgeQueue()
    for judge, packages, effort in (
        ("bleu", (), 0.0),
        ("nisqa", torch, 0.1),
        ("distillmos", torch, 0.8),
        ("dnsmos", onnx, 0.6),
        ("prosody", onnx, 0.07),
    ):
        queue.add(batch_of(judge, packages=packages, effort=effort))

    def next_of(worker: str) -> str:
        task = queue.next_for(worker)
        assert task is not None
        queue.finished(worker)
        return task.spec.name

    assert [next_of(worker) for worker in ("one", "two", "one", "two", "one")] == [
        "distillmos",
        "dnsmos",
        "nisqa",
        "prosody",
        "bleu",
    ]
