"""Define the conditions of a campaign: the load and settings of each run. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from typing import Any

from live_eval.campaigns.latency.arrivals import Arrivals
from live_eval.errors import UsageError
from live_eval.run.run_file import RunConfig
from live_eval.scoring.llm.budget import Price
from live_eval.types import TurnMode

__all__ = [
    "LONGEST_WARM",
    "MOST_POINTS",
    "CampaignPlan",
    "CampaignPoint",
    "CampaignStep",
    "PointRole",
    "SessionKind",
    "points_of",
    "steps_of",
]


LONGEST_WARM = 10
"""Maximum number of turns in a warm session."""
MOST_POINTS = 1_000
"""Maximum number of steps in a campaign; the page grows by 2 kB per step."""
_FLAGS = {
    "concurrency": "--concurrency",
    "inputs_s": "--input-s",
    "detections": "--turn-detection",
    "sessions": "--sessions",
}
"""The flags for the settings that vary between conditions."""
_LEAST_ROUNDS = 4  # rounds of sessions per half; with fewer, the time at full load is too short


class PointRole(StrEnum):
    """The purpose of a condition."""

    SWEEP = "sweep"
    """A combination of the varied settings."""
    SENTINEL = "sentinel"
    """A few fixed turns at the start, middle and end of the campaign, to detect drift."""
    ENDPOINTING = "endpointing"
    """The same recordings with one of the endpoint's detectors, or with manual turns."""


class SessionKind(StrEnum):
    """The number of turns per session."""

    COLD = "cold"
    """One turn per session."""
    WARM = "warm"
    """Several consecutive turns per session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPlan:
    """The plan of a campaign. A sweep runs every combination of the listed values.

    Args:
        config: Endpoint, data and turn settings; a condition replaces the settings that it varies.
        inputs_s: Speech lengths in seconds; empty to use the recordings unchanged.
        detections: Detector settings of the endpoint, as the vendor spells them.
        endpointing: Whether to run the same recordings with each detector and with manual turns; the sweep
            then uses the first detector only.
        sentinel_turns: Number of turns per drift check; 0 for none.
        price: Price of the endpoint's model; None if unknown.
        asserts: Assertions on the campaign, stored with it.
        uncertain: Whether to also run recordings with an uncertain end of speech, which have no latency.

    Raises:
        UsageError: The values are inconsistent.
    """

    config: RunConfig = field(default_factory=RunConfig)
    turns: int = 20
    concurrency: Sequence[int] = (1,)
    arrivals: Arrivals = field(default_factory=Arrivals)
    inputs_s: Sequence[float] = ()
    detections: Sequence[Mapping[str, Any]] = ({},)
    sessions: Sequence[SessionKind] = (SessionKind.COLD,)
    endpointing: bool = False
    sentinel_turns: int = 8
    price: Price | None = None
    asserts: Sequence[str] = ()
    uncertain: bool = False

    def __post_init__(self) -> None:
        if self.arrivals.open_loop and SessionKind.WARM in self.sessions:
            raise UsageError(
                f"arrivals {self.arrivals} begin a session for each turn, but warm sessions have several "
                "turns: expected closed arrivals or cold sessions"
            )
        if self.endpointing and self.config.turns.mode is TurnMode.MANUAL:
            raise UsageError(
                "--endpointing compares manual turns with the endpoint's detector, which is switched off"
            )
        for name, flag in _FLAGS.items():
            values = getattr(self, name)
            if any(value in values[:at] for at, value in enumerate(values)):
                raise UsageError(f"{flag}: expected different values, got {', '.join(map(str, values))}")
        most = max(self.concurrency)
        if most > self.turns and not self.arrivals.open_loop:
            raise UsageError(
                f"--concurrency {most}: expected no more sessions than turns (--turns {self.turns})"
            )
        if (points := len(steps_of(self))) > MOST_POINTS:
            raise UsageError(f"expected a campaign of at most {MOST_POINTS} conditions, got {points}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPoint:
    """A condition of a campaign, measured in one run.

    Args:
        name: Name of the condition and its run folder.
        input_s: Speech length in seconds; None for unchanged recordings.
        turn_mode: Turn mode; None for the endpoint's default.
    """

    name: str
    role: PointRole
    turns: int
    concurrency: int
    arrivals: Arrivals = field(default_factory=Arrivals)
    input_s: float | None = None
    turn_detection: Mapping[str, Any] = field(default_factory=dict)
    turn_mode: TurnMode | None = None
    sessions: SessionKind = SessionKind.COLD


@dataclass(frozen=True, slots=True)
class CampaignStep:
    """A step of a campaign: a whole condition, or only its first half."""

    point: CampaignPoint
    half: bool = False


def points_of(plan: CampaignPlan) -> list[CampaignPoint]:
    """Return the measured conditions in order, without drift checks."""
    points = []
    detections = plan.detections[:1] if plan.endpointing else plan.detections
    for concurrency, input_s, (number, detection), sessions in product(
        plan.concurrency, plan.inputs_s or (None,), enumerate(detections, 1), plan.sessions
    ):
        parts = [
            f"c{concurrency}",
            "" if input_s is None else f"in{input_s:g}s",
            f"vad{number}" if len(detections) > 1 else "",
            sessions.value if len(plan.sessions) > 1 else "",
        ]
        points.append(
            CampaignPoint(
                name="-".join(filter(None, parts)),
                role=PointRole.SWEEP,
                turns=plan.turns,
                concurrency=concurrency,
                arrivals=plan.arrivals,
                input_s=input_s,
                turn_detection=detection,
                turn_mode=plan.config.turns.mode,
                sessions=sessions,
            )
        )
    return [*points, *(_endpointing(plan) if plan.endpointing else ())]


def _endpointing(plan: CampaignPlan) -> list[CampaignPoint]:
    """Return the endpointing conditions: the same turns, ended manually or by each detector."""
    shared: dict[str, Any] = {
        "role": PointRole.ENDPOINTING,
        "turns": plan.turns,
        "concurrency": plan.concurrency[0],
    }
    return [
        CampaignPoint(name="endpointing-manual", turn_mode=TurnMode.MANUAL, **shared),
        *(
            CampaignPoint(
                name=f"endpointing-vad{number}",
                turn_mode=TurnMode.SERVER_VAD,
                turn_detection=detection,
                **shared,
            )
            for number, detection in enumerate(plan.detections, 1)
        ),
    ]


def steps_of(plan: CampaignPlan) -> list[CampaignStep]:
    """Return the steps: the conditions, with drift checks before, between and after them.

    With a single condition, the middle drift check runs between its halves, unless the halves are too short
    to reach the concurrency.
    """
    points = points_of(plan)
    if not plan.sentinel_turns:
        return [CampaignStep(point) for point in points]
    before, amid, after = (
        CampaignStep(
            CampaignPoint(
                name=f"sentinel-{when}",
                role=PointRole.SENTINEL,
                turns=plan.sentinel_turns,
                concurrency=1,
                turn_detection=plan.detections[0],
                turn_mode=plan.config.turns.mode,
            )
        )
        for when in ("start", "middle", "end")
    )
    if len(points) == 1:
        (only,) = points
        if not _has_long_halves(only):
            return [before, CampaignStep(only), after]
        return [before, CampaignStep(only, half=True), amid, CampaignStep(only), after]
    half = len(points) // 2
    return [before, *map(CampaignStep, points[:half]), amid, *map(CampaignStep, points[half:]), after]


def _has_long_halves(point: CampaignPoint) -> bool:
    """Return whether a break between the halves of a condition is negligible for its load."""
    sessions = point.turns // (LONGEST_WARM if point.sessions is SessionKind.WARM else 1)
    return sessions // 2 >= _LEAST_ROUNDS * point.concurrency
