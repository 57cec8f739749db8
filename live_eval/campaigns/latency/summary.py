"""The metrics of a campaign as one JSON object, printed by ``live-eval latency --json``.

`schema.json` next to this module describes it. Its keys are stable: new ones may be added.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from live_eval.analysis.greetings import greetings_of, summarise_greetings
from live_eval.analysis.latency.cost import cost_per_minute
from live_eval.analysis.latency.definitions import definitions_table
from live_eval.analysis.latency.delivery import delivery_rate, stalls
from live_eval.analysis.latency.drift import drift_metrics
from live_eval.analysis.latency.endpointing import endpointing_cost
from live_eval.analysis.latency.evidence import read_evidence
from live_eval.analysis.latency.latencies import METRICS, OUR_FAILURES, intended_delay, latency_metrics
from live_eval.analysis.latency.waterfall import waterfall, waterfall_total
from live_eval.analysis.statistics.intervals import quantile, rounded
from live_eval.analysis.summary.run import OutageSpan, outage_spans, outages_in_words
from live_eval.audio import Audio
from live_eval.campaigns.latency.campaign_file import CAMPAIGN_FILE, read_campaign_file
from live_eval.campaigns.latency.reply_words import ReplyWords
from live_eval.campaigns.latency.watch import queued
from live_eval.errors import FailureKind, StoreError, UsageError
from live_eval.recording import RunReader, TurnRecord, part_of
from live_eval.scoring.llm.budget import Price
from live_eval.speech.recognition import Recogniser, Word, available
from live_eval.text.wording import counted

__all__ = [
    "SUMMARY_SCHEMA",
    "CampaignRecord",
    "PointRecord",
    "campaign_summary",
    "point_metrics",
    "read_campaign",
    "summary_schema",
]

SUMMARY_SCHEMA = 1

_FACTS = (
    "name",
    "run",
    "role",
    "concurrency",
    "arrivals",
    "input_s",
    "turn_detection",
    "turn_mode",
    "sessions",
)
_UNANSWERED = (FailureKind.NO_RESPONSE, FailureKind.EMPTY_REPLY)
_MOST_DEFINED = 30
"""Maximum number of turns, evenly spaced, for which definitions are computed: recognition is slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRecord:
    """A stored condition of a campaign.

    Args:
        facts: Entry in campaign.json.
        path: Run folder.
        turns: Turns of the run, in commit order.
        started_at: Start of the run, ISO 8601 in UTC; empty if there is no run.
        outages: Note on outages of the endpoint; empty if there were none.
        outage_spans: Outages of the run.
        error: Reason why the run cannot be read; empty if it can.
    """

    facts: Mapping[str, Any]
    path: Path
    turns: tuple[TurnRecord, ...]
    started_at: str = ""
    outages: str = ""
    outage_spans: Sequence[OutageSpan] = ()
    error: str = ""

    @property
    def role(self) -> str:
        """``sweep``, ``sentinel`` or ``endpointing``."""
        return str(self.facts.get("role"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRecord:
    """A stored campaign: folder, content of campaign.json, and conditions in run order."""

    folder: Path
    facts: Mapping[str, Any]
    points: tuple[PointRecord, ...]

    def with_role(self, role: str) -> list[PointRecord]:
        """Return the conditions with a role."""
        return [point for point in self.points if point.role == role]


def summary_schema() -> dict[str, Any]:
    """Return the JSON schema of a summary (draft 2020-12)."""
    text = resources.files("live_eval.campaigns.latency").joinpath("schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def read_campaign(folder: Path) -> CampaignRecord:
    """Read a campaign, complete or not, with the turns of all conditions.

    Raises:
        StoreError: See `read_campaign_file`.
    """
    facts = read_campaign_file(folder)
    points = tuple(_read_point(folder, point) for point in facts["points"])
    return CampaignRecord(folder=folder, facts=facts, points=points)


def _read_point(folder: Path, facts: Mapping[str, Any]) -> PointRecord:
    path = folder / str(facts["run"])
    try:
        if path.is_symlink():
            raise StoreError(f"{path}: expected the folder of a run, found a link")
        with RunReader.open(path) as run:
            return PointRecord(
                facts=facts,
                path=path,
                turns=tuple(run.turns()),
                started_at=run.started_at,
                outages=outages_in_words(run.manifest.get("outages")),
                outage_spans=outage_spans(run.manifest.get("outages")),
            )
    except StoreError as error:
        return PointRecord(facts=facts, path=path, turns=(), error=str(error))


def campaign_summary(
    campaign: CampaignRecord, *, words: bool = True, keeps_words: bool = True
) -> dict[str, Any]:
    """Return all metrics of a campaign, complete or not.

    Args:
        campaign: Stored campaign.
        words: Whether to recognise reply words for definitions that need them, if the recogniser is
            installed.
        keeps_words: Whether to store the words in the folder, since recognition takes about a tenth of the
            replies' length.

    Returns:
        The object described by `summary_schema`, without asserts.
    """
    facts = campaign.facts
    turns = [turn for point in campaign.points for turn in point.turns]
    found = [note for point in campaign.points for note in _notes_on(point)]
    greetings = summarise_greetings([*greetings_of(turns)])
    stamped = _stamped_turns(campaign)
    return {
        "schema": SUMMARY_SCHEMA,
        "endpoint": facts.get("endpoint"),
        "campaign": str(campaign.folder),
        "created": facts.get("created"),
        "complete": facts.get("complete") is True,
        "arrivals": facts.get("arrivals"),
        "notes": [*(facts.get("notes") or ()), *found, *filter(None, [greetings.in_words()])],
        "greetings": greetings.as_json(),
        "stamps": max(stamped, default=None),  # "user" if this process stamped any turn
        "stamped_turns": stamped,
        "error_bar": {
            "lag_ms": _lag_ms(turns),
            "calibration": part_of(facts, "machine").get("calibration"),
        },
        "points": [point_metrics(point, _price(facts)) for point in campaign.points],
        "sentinel": _sentinel(campaign),
        "endpointing_cost": _endpointing(campaign),
        "definitions": _definitions(campaign, words=words, keeps_words=keeps_words),
        "asserts": [],
    }


def point_metrics(point: PointRecord, price: Price | None = None) -> dict[str, Any]:
    """Return the metrics of one condition; `price` is the price of the endpoint's model, if known."""
    turns = point.turns
    return {
        **{name: point.facts.get(name) for name in _FACTS},
        "error": point.error,
        "turns": _counts(turns),
        "lag_ms": _lag_ms(turns),
        "latencies": {name: latency_metrics(name, turns) for name in METRICS},
        "waterfall": waterfall(turns),
        "waterfall_total": waterfall_total(turns),
        "stalls": stalls(turns),
        "delivery_rate": delivery_rate(turns),
        "cost_per_minute": cost_per_minute(turns, price),
    }


def _counts(turns: Sequence[TurnRecord]) -> dict[str, Any]:
    captured = [turn for turn in turns if turn.captured]
    failed = Counter(turn.failure.kind for turn in turns if turn.failure is not None)
    return {
        "n": len(turns),
        "captured": len(captured),
        "failed": {kind.value: count for kind, count in failed.most_common()},
        "no_answer": sum(failed[kind] for kind in _UNANSWERED),
        "premature": sum(turn.timing.premature for turn in captured),
        "early": sum(_is_early(turn) for turn in captured),
        "flagged": sum(turn.timing.flagged for turn in captured),
        "uncertain": sum(turn.timing.uncertain for turn in captured),
    }


def _notes_on(point: PointRecord) -> Iterator[str]:
    """Yield notes on the turns of a condition, one sentence each."""
    name = point.facts.get("name")
    ours = Counter(
        turn.failure.kind.value
        for turn in point.turns
        if turn.failure is not None and turn.failure.kind in OUR_FAILURES
    )
    if ours:
        whose = "the fault of this machine or of live-eval, not of the endpoint; assertions leave them out"
        yield f"{name}: {counted(ours.total(), 'turn')} failed as {' or '.join(ours)}: {whose}"
    queued_ns: list[int] = []
    for turn in point.turns:
        delay_ns = intended_delay(turn.trace).ns
        if delay_ns is not None and not any(  # delayed by an outage, not by the session limit
            span.overlaps(turn.wall_ns - delay_ns, turn.wall_ns) for span in point.outage_spans
        ):
            queued_ns.append(delay_ns)
    queue = queued(queued_ns, int(point.facts.get("concurrency") or 1))
    if queue is not None:
        yield f"{name}: {queue}"
    if point.outages:
        yield f"{name}: {point.outages}"


def _is_early(turn: TurnRecord) -> bool:
    """Return whether the reply is known to have begun before the end of the user's speech."""
    ns = turn.timing.first_byte.ns if turn.timing.first_byte.ns is not None else turn.timing.voice_to_voice.ns
    return ns is not None and ns < 0 and not turn.timing.uncertain


def _stamped_turns(campaign: CampaignRecord) -> dict[str, int]:
    """Return the number of captured turns for each `live_eval.types.StampKind`."""
    turns = [turn for point in campaign.points for turn in point.turns]
    return Counter(turn.trace.stamps.value for turn in turns if turn.captured)


def _lag_ms(turns: Sequence[TurnRecord]) -> dict[str, float | None]:
    lags = [turn.timing.lag_ns / 1e6 for turn in turns if turn.captured]
    return {"p50": rounded(quantile(lags, 0.5), 3), "p99": rounded(quantile(lags, 0.99), 3)}


def _price(facts: Mapping[str, Any]) -> Price | None:
    """Return the price of the endpoint's model in US$ per million tokens, if campaign.json has it.

    Raises:
        UsageError: The stored price is invalid.
    """
    price = part_of(facts, "price")
    if not price:
        return None
    try:
        return Price(**price)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{CAMPAIGN_FILE}: price: {error}") from None


def _sentinel(campaign: CampaignRecord) -> list[dict[str, Any]]:
    sentinels = campaign.with_role("sentinel")
    return [
        {
            "name": point.facts.get("name"),
            "run": point.facts.get("run"),
            "started_at": point.started_at,
            "premature": sum(turn.timing.premature for turn in point.turns if turn.captured),
            **drift_metrics(point.turns, sentinels[0].turns),
        }
        for point in sentinels
    ]


def _endpointing(campaign: CampaignRecord) -> list[dict[str, Any]]:
    points = campaign.with_role("endpointing")
    manual = next((point for point in points if point.facts.get("turn_mode") == "manual"), None)
    if manual is None:
        return []
    return [
        {
            "name": point.facts.get("name"),
            "run": point.facts.get("run"),
            "manual": manual.facts.get("name"),
            "turn_detection": point.facts.get("turn_detection"),
            **endpointing_cost(point.turns, manual.turns),
        }
        for point in points
        if point.facts.get("turn_mode") != "manual"
    ]


def _definitions(campaign: CampaignRecord, *, words: bool, keeps_words: bool) -> list[dict[str, Any]]:
    """Return the published definitions, computed on the first condition of the sweep that has turns."""
    point = next((point for point in campaign.with_role("sweep") if point.turns), None)
    if point is None:
        return []
    captured = [turn for turn in point.turns if turn.captured]
    spread = captured[:: -(-len(captured) // _MOST_DEFINED) or 1]
    why = (available() or "") if words else "no words: they were not asked for"
    known = None if why else ReplyWords(campaign.folder, Recogniser(beam_size=1))
    with RunReader.open(point.path) as run:
        evidence = read_evidence(run, spread, _recogniser(point, known), no_words=why)
    if known is not None and keeps_words:
        known.keep()
    return [{**row, "run": point.facts.get("run")} for row in definitions_table(evidence)]


def _recogniser(
    point: PointRecord, words: ReplyWords | None
) -> Callable[[TurnRecord, Audio], tuple[Word, ...]] | None:
    if words is None:
        return None
    return lambda turn, reply: words.of((point.path.name, turn.turn_id), reply)
