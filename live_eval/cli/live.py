"""``live-eval live``: talk to an endpoint from the terminal."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import click

from live_eval.cli import _options
from live_eval.cli._flags import overlay, table_options
from live_eval.live.conversation import LiveConversation
from live_eval.live.devices import Devices, open_devices
from live_eval.live.lines import Lines
from live_eval.live.terminal import converse
from live_eval.recording import RunWriter
from live_eval.run.plan import Plan, make_live_plan
from live_eval.run.run_file import validate
from live_eval.session.event_loop import run as run_loop

__all__ = ["command"]

_TABLES = ("endpoint", "task", "turns")
_KEYS = (
    "task.prompt",
    "turns.mode",
    "turns.connect_timeout",
    "turns.reply_timeout",
    "turns.stall_timeout",
    "turns.max_reply",
    "turns.reply_silence",
)


def _live(
    endpoint: str,
    microphone: str | None,
    loudspeaker: str | None,
    half_duplex: bool,
    out: Path | None,
    **flags: Any,
) -> None:
    config = validate(overlay({"endpoint": {"name": endpoint}}, flags))
    plan = make_live_plan(config)
    folder = out or _options.new_folder(f"{endpoint}-live")
    with open_devices(microphone, loudspeaker) as devices:
        manifest = {**plan.manifest(), "source": "live"}
        with RunWriter.create(folder, manifest) as writer:
            try:
                run_loop(_converse(plan, writer, devices, half_duplex=half_duplex))
            finally:
                writer.end()
                click.echo(f"run: {folder}")


async def _converse(plan: Plan, writer: RunWriter, devices: Devices, *, half_duplex: bool) -> None:
    conversation = LiveConversation(plan, writer, devices, device_hz=devices.rate_hz, half_duplex=half_duplex)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, conversation.stop)
    await converse(conversation, devices, Lines(click.echo))


def _wanted(option: click.Parameter) -> bool:
    key = (option.name or "").replace("__", ".")
    return key != "endpoint.name" and (key.startswith("endpoint.") or key in _KEYS)


command = click.Command(
    "live",
    callback=_live,
    params=[
        click.Argument(["endpoint"]),
        click.Option(["--microphone"], metavar="NAME", help="Its number or a part of its name."),
        click.Option(["--loudspeaker"], metavar="NAME", help="Its number or a part of its name."),
        click.Option(["--half-duplex"], is_flag=True, help="Mute the microphone while a reply sounds."),
        click.Option(
            ["--out"],
            type=click.Path(path_type=Path, file_okay=False),
            help="Run folder. Default: a new one in recordings/.",
        ),
        *(option for table in _TABLES for option in table_options(table) if _wanted(option)),
    ],
    help="""Talk to ENDPOINT with a microphone and a loudspeaker.""",
)
