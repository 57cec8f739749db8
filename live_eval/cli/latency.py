"""``live-eval latency``: profile an endpoint's latency under controlled load."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from live_eval.campaigns.latency.arrivals import Arrivals
from live_eval.campaigns.latency.assertions import check_campaign, parse_assertion
from live_eval.campaigns.latency.campaign import LatencyCampaign
from live_eval.campaigns.latency.points import CampaignPlan, SessionKind
from live_eval.campaigns.latency.summary import CampaignRecord, campaign_summary, read_campaign
from live_eval.cli._campaigns import campaign_folder, campaign_options, played, print_ended
from live_eval.cli._flags import overlay, parse_pairs
from live_eval.cli._latency import print_campaign
from live_eval.errors import UsageError
from live_eval.run.run_file import validate
from live_eval.run.stop_signals import StopSignals
from live_eval.scoring.llm.budget import Price

__all__ = ["command"]

T = TypeVar("T")

_PRICES = ("input", "output")
_OTHER_PRICES = ("audio_input", "audio_output", "cached_input")

_OWN = (
    "endpoint.name",
    "endpoint.turn_detection",
    "turns.concurrency",
    "turns.processes",
    "turns.repeat",
    "turns.retries",
)
"""Keys of the run file that the command sets itself."""


def _latency(
    endpoint: str,
    turns: int,
    concurrency: str,
    arrivals: str,
    input_s: str,
    detections: Sequence[str],
    sessions: str,
    endpointing: bool,
    sentinel_turns: int,
    price: str,
    asserts: Sequence[str],
    out: Path | None,
    resume: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    stop = click.get_current_context().with_resource(StopSignals())
    assertions = [parse_assertion(text) for text in asserts]  # before anything is played
    plan = CampaignPlan(
        config=validate(overlay({"endpoint": {"name": endpoint}}, flags)),
        turns=turns,
        concurrency=_listed("--concurrency", concurrency, _sessions_at_a_time),
        arrivals=Arrivals.parse(arrivals),
        inputs_s=_listed("--input-s", input_s, _seconds) if input_s else (),
        detections=[_detection(endpoint, text) for text in detections] or ({},),
        sessions=_listed("--sessions", sessions, _session_kind),
        endpointing=endpointing,
        sentinel_turns=sentinel_turns,
        price=_price(price) if price else None,
    )
    folder = campaign_folder(out, f"{endpoint}-latency", resume=resume)
    campaign = LatencyCampaign(plan, folder, resume=resume)
    known = campaign.notes
    outcome = played(campaign, stop)
    record = read_campaign(folder)
    summary = campaign_summary(record)
    checked = check_campaign(assertions, summary)
    summary["asserts"] = [each.as_json() for each in checked]
    status = print_ended(
        campaign,
        outcome,
        known,
        summary,
        print_campaign,
        lambda: _page(record, summary),
        as_json=as_json,
        checked=checked,
    )
    sys.exit(status)


def _page(campaign: CampaignRecord, summary: Mapping[str, Any]) -> Path:
    from live_eval.report.latency import write_campaign_page

    return write_campaign_page(campaign, summary)


def _listed(flag: str, text: str, read: Callable[[str], T]) -> list[T]:
    """Return the values of a list ``A,B,…``.

    Raises:
        UsageError: It is empty, or a value cannot be read.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError(f"{flag}: expected a list A,B,…; found {text!r}")
    try:
        return [read(part) for part in parts]
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None


def _sessions_at_a_time(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= 1000):
        raise ValueError(f"expected whole numbers of 1 to 1000; found {text!r}")
    return int(text)


def _session_kind(text: str) -> SessionKind:
    if text not in tuple(SessionKind):
        raise ValueError(f"expected cold or warm; found {text!r}")
    return SessionKind(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 300:
        raise ValueError(f"expected seconds of 0.1 to 300; found {text!r}")
    return seconds


def _detection(endpoint: str, text: str) -> dict[str, Any]:
    """Return the settings of a detector, validated as those of a run are: their secrets are redacted."""
    settings = parse_pairs("--turn-detection", text.split(",")) if text.strip() else {}
    table = {"name": endpoint, "turn_detection": settings}
    return validate({"endpoint": table}).endpoint.turn_detection


def _price(text: str) -> Price:
    """Return the price that ``KEY=USD,…`` states.

    Raises:
        UsageError: It states none; says what was expected and what came.
    """
    expected = f"input=USD,output=USD, and where they differ {' and '.join(_OTHER_PRICES)}"
    prices = parse_pairs("--price", filter(None, map(str.strip, text.split(","))))
    for name, value in prices.items():
        if name not in (*_PRICES, *_OTHER_PRICES):
            raise UsageError(f"--price: expected {expected}; found {name!r}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise UsageError(
                f"--price: {name}: expected US dollars per million tokens, 0 or more; found {value!r}"
            )
    missing = [name for name in _PRICES if name not in prices]
    if missing:
        raise UsageError(f"--price: expected {expected}; {' and '.join(missing)} is missing in {text!r}")
    return Price(**prices)


command = click.Command(
    "latency",
    callback=_latency,
    params=[
        click.Argument(["endpoint"]),
        click.Option(
            ["--turns"], type=click.IntRange(1), default=20, show_default=True, help="Turns of each point."
        ),
        click.Option(
            ["--concurrency"],
            default="1",
            show_default=True,
            metavar="C,C2,…",
            help="Sessions at a time; of an open loop, at most.",
        ),
        click.Option(
            ["--arrivals"],
            default="closed",
            show_default=True,
            metavar="closed|poisson:RATE|constant:RATE",
            help="Begin a session when one ends (closed loop), or RATE times a second whatever the "
            "endpoint does (open loop): delays also count from when a session was due.",
        ),
        click.Option(
            ["--processes", "turns__processes"],
            type=click.IntRange(0, 64),
            help="Processes that hold the sessions; 0 to hold them in this one. Default: by the sessions and "
            "the cores.",
        ),
        click.Option(
            ["--input-s"],
            default="",
            metavar="S,S2,…",
            help="Seconds of speech, cut from the recordings. Default: the recordings as they are.",
        ),
        click.Option(
            ["--turn-detection", "detections"],
            multiple=True,
            metavar="KEY=VALUE,…",
            help="Settings of the endpoint's detector, as its vendor spells them; repeatable.",
        ),
        click.Option(
            ["--sessions"],
            default="cold",
            show_default=True,
            metavar="cold|warm|cold,warm",
            help="A session for each turn, or one for up to ten turns.",
        ),
        click.Option(
            ["--endpointing"],
            is_flag=True,
            help="Also play the same recordings with manual turns and with each detector: what it costs to "
            "find the end of the turn. The sweep uses the first detector only.",
        ),
        click.Option(
            ["--sentinel-turns"],
            type=click.IntRange(0),
            default=8,
            show_default=True,
            help="Turns of the sentinel at the start, the middle and the end, which shows drift; 0 for none.",
        ),
        click.Option(
            ["--assert", "asserts"],
            multiple=True,
            metavar="EXPRESSION",
            help="Check a figure of each point, such as 'voice_to_voice.p95 < 1200ms'; repeatable.",
        ),
        click.Option(
            ["--price"],
            default="",
            metavar="input=USD,output=USD,…",
            help="US dollars per million tokens: what a minute costs. Also audio_input and audio_output, "
            "needed where the endpoint counts tokens of sound, and cached_input.",
        ),
        *campaign_options(_OWN),
    ],
    help="""Measure an endpoint's latency under controlled load.

    Plays turns to ENDPOINT at each of the given concurrencies, input lengths and detector settings; every
    combination is a point, and each point an ordinary run in the campaign's folder. Failed turns are counted
    and not tried again. Stops, and says what could be held, where this machine cannot sustain the load.

    Exit status: 0; 4 if an assertion does not hold; 3 if turns failed or the load could not be held; 2 for
    wrong usage; 130 if interrupted.""",
)
