"""Define the flags of ``live-eval latency``, without importing what a campaign needs."""

from __future__ import annotations

from typing import Any

import click

from live_eval.cli._flags import campaign_options
from live_eval.cli._help import Command
from live_eval.cli._prices import price_option

__all__ = ["command"]

_OWN = (
    "endpoint.name",
    "endpoint.turn_detection",
    "turns.concurrency",
    "turns.processes",
    "turns.repeat",
    "turns.retries",
)
"""Run-file keys that the command sets."""


def _latency(**values: Any) -> None:
    from live_eval.cli._latency_command import (
        latency_command,  # importing it takes 20 times as long as this module
    )

    latency_command(**values)


command = Command(
    "latency",
    callback=_latency,
    params=[
        click.Argument(["endpoint"]),
        click.Option(
            ["--turns"], type=click.IntRange(1), default=20, show_default=True, help="Turns per condition."
        ),
        click.Option(
            ["--concurrency"],
            default="1",
            show_default=True,
            metavar="C,C2,…",
            help="Concurrent sessions; in an open loop, the maximum.",
        ),
        click.Option(
            ["--arrivals"],
            default="closed",
            show_default=True,
            metavar="closed|poisson:RATE|constant:RATE",
            help="Start a session whenever one ends (closed loop), or RATE times a second (open loop). "
            "An open loop also measures latencies from the intended start.",
        ),
        click.Option(
            ["--input-s"],
            default="",
            metavar="DURATION,…",
            help="Lengths of speech, cut from the recordings. Default: whole recordings.",
        ),
        click.Option(
            ["--turn-detection", "detections"],
            multiple=True,
            metavar="KEY=VALUE,…",
            help="Settings of the endpoint's detector, in the vendor's spelling; repeatable.",
        ),
        click.Option(
            ["--sessions"],
            default="cold",
            show_default=True,
            metavar="cold|warm|cold,warm",
            help="Cold: one turn per session. Warm: up to ten turns per session.",
        ),
        click.Option(
            ["--endpointing"],
            is_flag=True,
            help="Also measure the cost of endpointing: stream the same recordings with manual turns and "
            "with each detector. The other conditions use only the first detector.",
        ),
        click.Option(
            ["--assert", "asserts"],
            multiple=True,
            metavar="EXPRESSION",
            help="Check a metric of each condition, such as 'voice_to_voice.p95 < 1200ms'; repeatable.",
        ),
        *campaign_options(_OWN, drift_turns=8),
        click.Option(
            ["--uncertain"],
            is_flag=True,
            help="Also run recordings whose end of speech is uncertain; their turns have no latency.",
        ),
        price_option("the cost of a minute"),
        click.Option(
            ["--processes", "turns__processes"],
            type=click.IntRange(0, 64),
            help="Number of processes that run the sessions; 0 for the main process. Default: "
            "depends on the number of sessions and cores.",
        ),
    ],
    help="""Measure an endpoint's latency under controlled load.

    Runs turns with ENDPOINT at each of the given concurrencies, input lengths and detector settings; every
    combination is a condition, and each condition is stored as an ordinary run in the campaign folder. Failed
    turns are counted and not retried. If this machine cannot sustain the load, the command stops and reports
    the load reached.

    Examples:

    \b
      live-eval latency openai --turns 60 --concurrency 1,4,16
      live-eval latency openai --assert 'voice_to_voice.p95 < 1200ms'

    Exit status: 0; 4 if an assertion failed; 3 if turns failed or the load was not reached; 2 for
    wrong usage; 130 if interrupted.""",
)
