"""Define the flags of ``live-eval live``, without importing what a conversation needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from live_eval.cli._flags import table_options
from live_eval.cli._help import Command

__all__ = ["command"]

_KEYS = {
    "endpoint": None,
    "task": ("prompt",),
    "turns": (
        "mode",
        "connect_timeout",
        "reply_timeout",
        "stall_timeout",
        "max_reply",
        "reply_silence",
        "greeting",
    ),
    "data": ("variants", "cues", "topics", "cases", "limit"),
    "judges": (
        "device",
        "options",
        "llm",
        "llm_base_url",
        "llm_model",
        "llm_key_variable",
        "llm_key_from",
        "llm_timeout",
        "max_calls",
        "max_tokens",
        "max_cost",
        "prices",
    ),
}
"""Run-file keys that have a flag in this command, by table; None for all keys except the name."""


def _live(**values: Any) -> None:
    from live_eval.cli._live_command import live_command  # importing it takes 20 times as long as this module

    live_command(**values)


def _offered(table: str, option: click.Parameter) -> bool:
    key, chosen = (option.name or "").rpartition("__")[2], _KEYS[table]
    return key != "name" and (chosen is None or key in chosen)


command = Command(
    "live",
    callback=_live,
    params=[
        click.Argument(["endpoints"], nargs=-1, metavar="[ENDPOINT]..."),
        click.Option(["--half-duplex"], is_flag=True, help="Mute the microphone during replies."),
        click.Option(
            ["--score"],
            is_flag=True,
            help="Score each reply after it ends, without delaying the next one, with the judges that need "
            "only the reply and no torch; --judges selects others.",
        ),
        click.Option(
            ["--judges", "judges__names"],
            metavar="A,B,…",
            help="Score each turn with these judges (`live-eval judges` lists them), each in a "
            "low-priority process.",
        ),
        click.Option(
            ["--out"],
            type=click.Path(path_type=Path, file_okay=False),
            help="Run folder. Default: a new one in recordings/.",
        ),
        *(option for table in _KEYS for option in table_options(table) if _offered(table, option)),
        click.Option(
            ["--from", "data"],
            metavar="DATA",
            help="Stream the recordings of a data set instead of your voice; both sides are audible.",
        ),
        click.Option(
            ["--perform", "scripts"],
            metavar="DATA",
            help="Perform the scripts of a data set in each style. Each take is checked before it is sent, "
            "and stored as a data set; --limit counts takes.",
        ),
        click.Option(
            ["--takes"],
            type=click.Path(path_type=Path, file_okay=False),
            help="Folder for the takes. Default: next to the run folder.",
        ),
        click.Option(
            ["--consent"],
            metavar="NAME",
            help="Name of the performer, who has agreed to be recorded. Default: ask.",
        ),
        click.Option(
            ["--blind"],
            is_flag=True,
            help="With several endpoints, shuffle them and show letters instead of names until the end.",
        ),
        click.Option(["--microphone"], metavar="NAME", help="Number or partial name of the input device."),
        click.Option(["--loudspeaker"], metavar="NAME", help="Number or partial name of the output device."),
        click.Option(["--list-devices", "lists"], is_flag=True, help="List audio devices, and exit."),
        click.Option(
            ["--loopback-test"],
            is_flag=True,
            help="Measure the delay of the audio devices with chirps, store it for later runs, and exit.",
        ),
        click.Option(
            ["--plain"], is_flag=True, help="Print lines instead of drawing a screen, as without a terminal."
        ),
    ],
    help="""Talk to ENDPOINT with a microphone and loudspeakers, or to two to four endpoints at once.

    Shows levels, the transcripts of both sides and the latencies of each turn, and records the conversation.
    Keys: m mutes the microphone; space or enter ends your turn (only with `--turn-mode manual`); h toggles
    half-duplex; r reconnects; q quits. With several endpoints (or run files), 1 to 4 choose which one you
    hear, 0 plays all in turn, and v followed by a number votes (v0: tie). Needs the extra `mic` and
    PortAudio.

    Examples:

    \b
      live-eval live reference
      live-eval live openai gemini-live --half-duplex
      live-eval live --loopback-test

    Exit status: 0; 2 if a device or the endpoint failed.""",
)
