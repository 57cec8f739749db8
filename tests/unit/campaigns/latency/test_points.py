import pytest

from live_eval.campaigns.latency.arrivals import Arrivals
from live_eval.campaigns.latency.points import CampaignPlan, PointRole, SessionKind, points_of, steps_of
from live_eval.errors import UsageError
from live_eval.run.run_file import validate
from live_eval.types import TurnMode


def names(plan: CampaignPlan) -> list[str]:
    return [f"{step.point.name}{'/2' * step.half}" for step in steps_of(plan)]


def test_a_long_single_condition_has_a_drift_check_between_its_halves() -> None:
    halved = ["sentinel-start", "c4/2", "sentinel-middle", "c4", "sentinel-end"]
    assert names(CampaignPlan(concurrency=(4,), turns=32)) == halved
    assert names(CampaignPlan(concurrency=(4,), turns=320, sessions=(SessionKind.WARM,))) == halved


@pytest.mark.parametrize(
    ("turns", "sessions"), [(6, SessionKind.COLD), (31, SessionKind.COLD), (319, SessionKind.WARM)]
)
def test_a_single_condition_with_short_halves_is_run_whole(turns: int, sessions: SessionKind) -> None:
    plan = CampaignPlan(concurrency=(4,), turns=turns, sessions=(sessions,))
    assert names(plan) == ["sentinel-start", "c4", "sentinel-end"]


def test_a_closed_loop_needs_a_turn_for_each_session() -> None:
    with pytest.raises(UsageError, match="--concurrency 7: expected no more sessions than turns"):
        CampaignPlan(concurrency=(2, 7), turns=6)
    CampaignPlan(concurrency=(7,), turns=6, arrivals=Arrivals.parse("poisson:1"))


def test_the_drift_check_runs_before_between_and_after_the_conditions() -> None:
    plan = CampaignPlan(concurrency=(1, 2, 4))
    assert names(plan) == ["sentinel-start", "c1", "sentinel-middle", "c2", "c4", "sentinel-end"]
    assert all(
        step.point.concurrency == 1 for step in steps_of(plan) if step.point.role is PointRole.SENTINEL
    )


def test_without_a_drift_check_conditions_are_run_whole() -> None:
    assert names(CampaignPlan(concurrency=(1,), sentinel_turns=0)) == ["c1"]


def test_a_sweep_runs_every_combination_under_a_unique_name() -> None:
    plan = CampaignPlan(
        concurrency=(1, 8),
        inputs_s=(2, 7.5),
        detections=({"silence_duration_ms": 200}, {"silence_duration_ms": 500}),
        sessions=(SessionKind.COLD, SessionKind.WARM),
    )
    points = points_of(plan)
    assert len(points) == len({point.name for point in points}) == 16
    last = points[-1]
    assert last.name == "c8-in7.5s-vad2-warm"
    assert (last.concurrency, last.input_s, last.sessions) == (8, 7.5, SessionKind.WARM)
    assert last.turn_detection == {"silence_duration_ms": 500}


def test_endpointing_runs_the_same_turns_manually_and_with_each_detector() -> None:
    plan = CampaignPlan(
        concurrency=(2, 4),
        detections=({"type": "semantic_vad"}, {}),
        arrivals=Arrivals.parse("poisson:1"),
        endpointing=True,
    )
    paired = [point for point in points_of(plan) if point.role is PointRole.ENDPOINTING]
    assert [(point.turn_mode, dict(point.turn_detection)) for point in paired] == [
        (TurnMode.MANUAL, {}),
        (TurnMode.SERVER_VAD, {"type": "semantic_vad"}),
        (TurnMode.SERVER_VAD, {}),
    ]
    assert {(point.concurrency, str(point.arrivals)) for point in paired} == {(2, "closed")}
    sweep = [point for point in points_of(plan) if point.role is PointRole.SWEEP]
    assert [(point.name, dict(point.turn_detection)) for point in sweep] == [
        ("c2", {"type": "semantic_vad"}),
        ("c4", {"type": "semantic_vad"}),
    ]


def test_inconsistent_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="expected closed arrivals or cold sessions"):
        CampaignPlan(arrivals=Arrivals.parse("constant:1"), sessions=(SessionKind.WARM,))
    with pytest.raises(UsageError, match="detector, which is switched off"):
        CampaignPlan(config=validate({"turns": {"mode": "manual"}}), endpointing=True)
    with pytest.raises(UsageError, match="expected a campaign of at most 1000 conditions, got 1001"):
        CampaignPlan(inputs_s=range(1, 999))
    with pytest.raises(UsageError, match="concurrency: expected different values"):
        CampaignPlan(concurrency=(2, 2))
