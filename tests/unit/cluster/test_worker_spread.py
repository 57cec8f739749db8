"""The number of sessions per node, after some nodes were refused."""

from __future__ import annotations

from live_eval.cluster.nodes import Node, NodeReport
from live_eval.cluster.worker_spread import Load, WorkerSpread

A, B, C = (Node(f"1{name}", name, cpus, 0, "10.0.0.1") for name, cpus in (("a", 4), ("b", 2), ("c", 2)))


def test_the_others_take_over_the_sessions_of_a_refused_node_and_are_examined_again() -> None:
    spread = WorkerSpread((A, B, C), sessions=120, wanted=4)
    assert spread.loads == spread.not_examined == {A: Load(2, 60), B: Load(1, 30), C: Load(1, 30)}
    for node, load in spread.loads.items():
        spread.record(NodeReport(node=node, workers=load.workers, refused="" if node != C else "late"), load)
    assert spread.loads == {A: Load(3, 90), B: Load(1, 30)}
    assert spread.not_examined == {A: Load(3, 90)}, "b gets no more than it was examined with"
    spread.record(NodeReport(node=A, workers=3, refused="late"), Load(3, 90))
    assert spread.not_examined == {B: Load(2, 120)}
    spread.record(NodeReport(node=B, workers=2), Load(2, 120))
    assert not spread.not_examined
    assert [(report.node, report.workers, report.refused) for report in spread.reports] == [
        (A, 0, "late"),
        (B, 2, ""),
        (C, 0, "late"),
    ]


def test_a_spare_node_replaces_a_refused_one() -> None:
    spread = WorkerSpread((A, B), sessions=4, wanted=1)
    assert spread.loads == {A: Load(1, 4)}
    spread.record(NodeReport(node=A, workers=1, refused="late"), Load(1, 4))
    assert spread.not_examined == {B: Load(1, 4)}
    spread.record(NodeReport(node=B, workers=1, refused="late"), Load(1, 4))
    assert not spread.loads


def test_a_node_gets_no_more_workers_than_it_can_start() -> None:
    spread = WorkerSpread((A, B), sessions=60, wanted=6)
    for node, load in spread.loads.items():
        spread.record(NodeReport(node=node, workers=load.workers), load)
    spread.limit(A, 2, "no processor is free")
    assert spread.loads == {A: Load(2, 30), B: Load(2, 30)}
    assert spread.not_examined == {B: Load(2, 30)}, "its two workers were examined with 20 sessions"
    spread.limit(A, 0, "no processor is free")
    assert spread.loads == {B: Load(2, 60)}
    assert [report.refused for report in spread.reports] == ["no processor is free", ""]
