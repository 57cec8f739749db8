"""Machines of a cluster: names, shares of the work, and reasons for exclusion."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from live_eval.analysis.summary.run_summary import nodes_in_words
from live_eval.cluster.nodes import (
    Node,
    NodeReport,
    Software,
    calibration_refusal,
    living_nodes,
    round_robin,
    software,
    worker_shares,
    workers_for,
)
from live_eval.cluster.sessions import combine
from live_eval.recording.calibrations import KeptCalibration, kept_in

A, B = Node("1a", "a", 4, 1, "10.0.0.1"), Node("2b", "b", 2, 2, "10.0.0.2")


def listed(node_id: str, host: str, *, alive: bool = True, cpus: float = 4.0) -> dict[str, Any]:
    return {
        "NodeID": node_id,
        "Alive": alive,
        "NodeManagerHostname": host,
        "NodeManagerAddress": "10.0.0.1",
        "Resources": {"CPU": cpus} if cpus else {},
    }


def calibration(first_byte_ms: float) -> KeptCalibration:
    return KeptCalibration(
        date="2026-11-22T10:00:00+00:00",
        transport="websocket",
        sessions=10,
        noise=False,
        stamps="kernel",
        errors_p99_ms={"first_byte": first_byte_ms, "voice_to_voice": 0.1},
        floor_p99_ms=0.1,
        turns=50,
    )


def test_only_living_nodes_with_a_processor_are_used_and_their_names_are_unique() -> None:
    found = [
        listed("beef0001", "two"),
        listed("cafe0002", "two"),
        listed("f00d0003", "one"),
        listed("dead0004", "gone", alive=False),
        listed("head0005", "head", cpus=0),
    ]
    assert [node.name for node in living_nodes(found)] == ["one", "two/beef00", "two/cafe00"]


@pytest.mark.parametrize(
    ("sessions", "wanted", "workers"),
    [(4, 0, 2), (120, 0, 3), (1000, 0, 6), (4, 1, 1), (4, 5, 5), (4, 60, 6)],
)
def test_workers_are_as_many_as_wanted_or_as_the_sessions_take(
    sessions: int, wanted: int, workers: int
) -> None:
    assert workers_for(sessions, wanted, (A, B)) == workers


def test_workers_are_shared_by_processors() -> None:
    assert worker_shares(2, (A, B)) == {"a": 1, "b": 1}
    assert worker_shares(6, (A, B)) == {"a": 4, "b": 2}
    assert worker_shares(7, (A, B)) == {"a": 4, "b": 2}, "no more than there are processors"
    assert worker_shares(0, (A, B)) == {"a": 0, "b": 0}


def test_slots_are_taken_in_turn() -> None:
    assert round_robin({A: 1, B: 2}) == [A, B, B]
    assert round_robin({A: 0, B: 0}) == []


def test_a_node_beyond_the_bound_takes_no_timed_work() -> None:
    assert calibration_refusal(calibration(19.9), 0, 20.0) == ""
    late = calibration_refusal(calibration(20.1), 0, 20.0)
    assert late == "expected an error of first_byte of at most 20 ms (p99), got 20.1 ms"
    assert calibration_refusal(calibration(0.1), 2, 20.0) == "2 failed turns in the calibration"


def test_the_manifest_names_each_node_and_keeps_the_worst_calibration_in_use() -> None:
    reports = [
        NodeReport(node=A, workers=3, calibration=calibration(0.4).model_copy(update={"node": "a"})),
        NodeReport(node=B, workers=2, calibration=calibration(0.9).model_copy(update={"node": "b"})),
        NodeReport(node=replace(B, name="c"), workers=2, calibration=calibration(50), refused="too late"),
    ]
    facts = combine(reports)
    assert [(node["name"], node["workers"], node["refused"]) for node in facts["nodes"]] == [
        ("a", 3, ""),
        ("b", 2, ""),
        ("c", 0, "too late"),
    ]
    assert facts["processes"] == 5
    worst = kept_in({"machine": facts})
    assert worst is not None
    assert "calibrated on node b, the worst in use, on 2026-11-22" in worst.in_words()


def test_a_resumed_run_keeps_its_earlier_nodes_and_the_worst_calibration_of_all() -> None:
    late, early = calibration(0.9), calibration(0.2)
    before = combine(
        [
            NodeReport(node=A, workers=3, calibration=late.model_copy(update={"node": "a"})),
            NodeReport(node=B, workers=2, calibration=early),
            NodeReport(node=replace(B, name="c"), workers=2, refused="too late"),
        ]
    )["nodes"]
    resumed = combine(
        [
            NodeReport(node=A, workers=1, calibration=early),
            NodeReport(node=B, workers=2, refused="busy"),
            NodeReport(node=replace(B, name="c"), workers=1, calibration=early),
        ],
        before,
    )
    assert [(node["name"], node["workers"], node["refused"]) for node in resumed["nodes"]] == [
        ("b", 2, ""),
        ("a", 1, ""),
        ("b", 0, "busy"),
        ("c", 1, ""),
    ]
    assert resumed["processes"] == 2
    assert resumed["calibration"] == late.model_copy(update={"node": "a"}).model_dump()


def test_other_software_is_named() -> None:
    here = software()
    assert here == software()
    assert here.differs(here) == ""
    assert "expected live-eval" in here.differs(replace(here, live_eval="9.9"))
    assert here.differs(replace(here, python="3.99")) == f"expected Python {here.python}, got 3.99"
    assert "install the same code" in here.differs(Software(here.live_eval, "0" * 12, here.python))


def test_a_summary_states_where_sessions_were_run() -> None:
    nodes = [
        {"name": "a", "workers": 2, "refused": ""},
        {"name": "b", "workers": 0, "refused": "its error of first_byte is 30.0 ms (p99)"},
    ]
    assert nodes_in_words(nodes) == (
        "sessions ran on 1 node (a); b ran no timed sessions: its error of first_byte is 30.0 ms (p99)"
    )
    assert nodes_in_words(None) == nodes_in_words([]) == nodes_in_words([{"no": "name"}]) == ""
