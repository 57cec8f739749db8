"""Compute the metrics of a campaign, and the JSON object printed by ``live-eval latency --json``.

`schema.json` next to this module describes the object. Its keys are stable; new ones may be added.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from live_eval.analysis.assertions import CheckedAssertion
from live_eval.analysis.greeting_summary import GreetingSummary, greetings_of, summarise_greetings
from live_eval.analysis.latency.assertions import parse_assertion
from live_eval.analysis.latency.campaign_latencies import OUR_FAILURES, intended_delay
from live_eval.analysis.latency.definitions import DefinedLatency, definitions_table
from live_eval.analysis.latency.drift import DriftCheck, drift_check
from live_eval.analysis.latency.endpointing import EndpointingCost, endpointing_cost
from live_eval.analysis.latency.evidence import read_evidence
from live_eval.analysis.summary.latencies import Lag, lag_of
from live_eval.audio import Audio
from live_eval.campaigns.documents import LATENCY_CAMPAIGN
from live_eval.campaigns.latency.assertions import check_campaign
from live_eval.campaigns.latency.campaign_file import CAMPAIGN_FILE, CampaignRecord, PointRecord, StoredPoint
from live_eval.campaigns.latency.point_metrics import (
    PointMetrics,
    point_metrics,
)
from live_eval.campaigns.latency.points import PointRole
from live_eval.campaigns.latency.reply_words import ReplyWords
from live_eval.campaigns.latency.watch import queued
from live_eval.errors import UsageError
from live_eval.recording import RunReader, TurnRecord, part_of
from live_eval.scoring.llm.budget import Price
from live_eval.speech.recognition import Recogniser, Word, available
from live_eval.text.wording import counted
from live_eval.types import TurnMode

__all__ = [
    "SUMMARY_SCHEMA",
    "CampaignSummary",
    "DefinedLatencies",
    "DetectorCost",
    "SentinelDrift",
    "campaign_summary",
    "summary_schema",
]

SUMMARY_SCHEMA = 1

_MOST_DEFINED = 30
"""Maximum number of turns, evenly spaced, for which definitions are computed, because recognition is slow."""


@dataclass(frozen=True, slots=True)
class SentinelDrift:
    """A drift check of a campaign, with its number of premature turns."""

    run: str
    premature: int
    drift: DriftCheck

    def as_json(self) -> dict[str, Any]:
        """Return the check as printed by ``live-eval latency --json``."""
        return {
            "run": self.run,
            "started_at": self.drift.started_at,
            "premature": self.premature,
            **self.drift.as_json(),
        }


@dataclass(frozen=True, slots=True)
class DetectorCost:
    """The endpointing cost of a detector, relative to the condition with manual turns."""

    stored: StoredPoint
    manual: StoredPoint
    cost: EndpointingCost

    def as_json(self) -> dict[str, Any]:
        """Return the cost as printed by ``live-eval latency --json``."""
        return {
            "name": self.stored.name,
            "run": self.stored.run,
            "manual": self.manual.name,
            "turn_detection": self.stored.turn_detection,
            **self.cost.as_json(),
        }


@dataclass(frozen=True, slots=True)
class DefinedLatencies:
    """The published definitions over the turns of one run; `run` is its folder name, None without turns."""

    run: str | None
    latencies: Sequence[DefinedLatency]

    def as_json(self) -> list[dict[str, Any]]:
        """Return the definitions as printed by ``live-eval latency --json``."""
        return [{**each.as_json(), "run": self.run} for each in self.latencies]


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignSummary:
    """All metrics of a campaign.

    Args:
        notes: Notes on the campaign and its turns, one sentence each.
        stamped: Number of captured turns for each `live_eval.types.StampKind`.
        lag: Lag of all captured turns.
        points: Metrics of the conditions, in run order.
    """

    campaign: CampaignRecord
    notes: Sequence[str]
    greetings: GreetingSummary
    stamped: Mapping[str, int]
    lag: Lag
    points: Sequence[PointMetrics]
    sentinel: Sequence[SentinelDrift]
    endpointing: Sequence[DetectorCost]
    definitions: DefinedLatencies
    asserts: Sequence[CheckedAssertion] = ()

    @property
    def arrivals(self) -> str | None:
        """The arrival process of the sessions; None if it is not stored."""
        found: str | None = self.campaign.facts.get("arrivals")
        return found

    @property
    def complete(self) -> bool:
        """Whether all conditions were run."""
        return self.campaign.facts.get("complete") is True

    def as_json(self) -> dict[str, Any]:
        """Return the object described by `summary_schema`."""
        facts = self.campaign.facts
        return {
            "schema": SUMMARY_SCHEMA,
            "endpoint": facts.get("endpoint"),
            "campaign": str(self.campaign.folder),
            "created": facts.get("created"),
            "complete": self.complete,
            "arrivals": self.arrivals,
            "notes": list(self.notes),
            "greetings": self.greetings.as_json(),
            "stamps": max(self.stamped, default=None),  # "user" if this process stamped any turn
            "stamped_turns": dict(self.stamped),
            "error_bar": {
                "lag_ms": self.lag.percentiles_json(),
                "calibration": part_of(facts, "machine").get("calibration"),
            },
            "points": [each.as_json() for each in self.points],
            "sentinel": [each.as_json() for each in self.sentinel],
            "endpointing_cost": [each.as_json() for each in self.endpointing],
            "definitions": self.definitions.as_json(),
            "asserts": [each.as_json() for each in self.asserts],
        }


def summary_schema() -> dict[str, Any]:
    """Return the JSON schema of a summary (draft 2020-12)."""
    text = resources.files("live_eval.campaigns.latency").joinpath("schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def campaign_summary(
    campaign: CampaignRecord, *, definitions: bool = True, keeps_words: bool = True
) -> CampaignSummary:
    """Return all metrics of a campaign, complete or not, and the results of its assertions.

    Args:
        definitions: Whether to compute the published definitions, which takes seconds: they need the voice
            activity of both sides and, if the recogniser is installed, the words of the replies.
        keeps_words: Whether to cache the words in the campaign folder; recognition takes about a tenth of the
            replies' length.

    Raises:
        StoreError: An assertion in the campaign is invalid.
    """
    facts = campaign.facts
    turns = [turn for point in campaign.points for turn in point.turns]
    found = [note for point in campaign.points for note in _notes_on(point)]
    greetings = summarise_greetings([*greetings_of(turns)])
    price = _price(facts)
    points = [point_metrics(point, price) for point in campaign.points]
    asserted = LATENCY_CAMPAIGN.assertions(campaign.folder, facts, parse_assertion)
    return CampaignSummary(
        campaign=campaign,
        notes=[*(facts.get("notes") or ()), *found, *filter(None, [greetings.in_words()])],
        greetings=greetings,
        stamped=Counter(turn.trace.stamps.value for turn in turns if turn.captured),
        lag=lag_of(turn.timing for turn in turns if turn.captured),
        points=points,
        sentinel=_sentinel(campaign),
        endpointing=_endpointing(campaign),
        definitions=_definitions(campaign, keeps_words) if definitions else DefinedLatencies(None, ()),
        asserts=check_campaign(asserted, points),
    )


def _notes_on(point: PointRecord) -> Iterator[str]:
    name = point.stored.name
    ours = Counter(
        turn.failure.kind.value
        for turn in point.turns
        if turn.failure is not None and turn.failure.kind in OUR_FAILURES
    )
    if ours:
        whose = "not caused by the endpoint, and excluded from assertions"
        yield f"{name}: {counted(ours.total(), 'turn')} failed as {' or '.join(ours)}: {whose}"
    queued_ns: list[int] = []
    for turn in point.turns:
        delay_ns = intended_delay(turn.trace).ns
        if delay_ns is not None and not any(  # an outage caused the delay, not the session limit
            span.overlaps(turn.wall_ns - delay_ns, turn.wall_ns) for span in point.outage_spans
        ):
            queued_ns.append(delay_ns)
    queue = queued(queued_ns, point.stored.concurrency or 1)
    if queue is not None:
        yield f"{name}: {queue}"
    if point.outages:
        yield f"{name}: {point.outages}"


def _price(facts: Mapping[str, Any]) -> Price | None:
    """Return the price of the endpoint's model in US$ per million tokens; None if campaign.json has none."""
    price = part_of(facts, "price")
    if not price:
        return None
    try:
        return Price(**price)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{CAMPAIGN_FILE}: price: {error}") from None


def _sentinel(campaign: CampaignRecord) -> list[SentinelDrift]:
    sentinels = campaign.with_role(PointRole.SENTINEL)
    return [
        SentinelDrift(
            point.stored.run,
            sum(turn.timing.premature for turn in point.turns if turn.captured),
            drift_check(point.name, point.turns, sentinels[0].turns, started_at=point.started_at),
        )
        for point in sentinels
    ]


def _endpointing(campaign: CampaignRecord) -> list[DetectorCost]:
    points = campaign.with_role(PointRole.ENDPOINTING)
    manual = next((point for point in points if point.stored.turn_mode == TurnMode.MANUAL), None)
    if manual is None:
        return []
    return [
        DetectorCost(point.stored, manual.stored, endpointing_cost(point.turns, manual.turns))
        for point in points
        if point.stored.turn_mode != TurnMode.MANUAL
    ]


def _definitions(campaign: CampaignRecord, keeps_words: bool) -> DefinedLatencies:
    """Return the published definitions, computed on the first condition of the sweep that has turns."""
    point = next((point for point in campaign.with_role(PointRole.SWEEP) if point.turns), None)
    if point is None:
        return DefinedLatencies(None, ())
    captured = [turn for turn in point.turns if turn.captured]
    spread = captured[:: -(-len(captured) // _MOST_DEFINED) or 1]
    why = available() or ""
    known = None if why else ReplyWords(campaign.folder, Recogniser(beam_size=1))
    with RunReader.open(point.path) as run:
        evidence = read_evidence(run, spread, _recogniser(point, known), no_words=why)
    if known is not None and keeps_words:
        known.keep()
    return DefinedLatencies(point.stored.run, definitions_table(evidence))


def _recogniser(
    point: PointRecord, words: ReplyWords | None
) -> Callable[[TurnRecord, Audio], tuple[Word, ...]] | None:
    if words is None:
        return None
    return lambda turn, reply: words.of((point.path.name, turn.turn_id), reply)
