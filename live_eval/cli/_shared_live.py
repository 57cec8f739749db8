"""Implement conversations with several endpoints, and parts shared with conversations with one."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from live_eval.audio import Audio, read_audio, resample
from live_eval.cli import _options
from live_eval.cli._flags import reject_endpoint_flags
from live_eval.cli._listing import print_listing
from live_eval.cli._screen import console
from live_eval.cli._stored_settings import print_judges_keys, print_key
from live_eval.cli._targets import names_of, read_target
from live_eval.errors import UsageError
from live_eval.live.conversation import LiveConversation
from live_eval.live.devices import find_device, list_devices
from live_eval.live.lines import Lines
from live_eval.live.loopback import DeviceDelay, as_manifest, kept_delay
from live_eval.live.parties import MOST_ENDPOINTS, Parties, Party
from live_eval.live.quick_scores import live_judges, live_options, quick_judges, unable_in_conversation
from live_eval.live.screen import LiveScreen
from live_eval.live.shared_conversation import SharedConversation
from live_eval.live.sound_card import SoundCard, open_sound_card
from live_eval.live.stand_in import StandIn
from live_eval.live.standings import SPREAD, Standing
from live_eval.live.terminal import Screen, key_help
from live_eval.live.terminal import converse as converse_on_card
from live_eval.live.updates import AudioSide
from live_eval.run.plan import make_live_plan, make_plan
from live_eval.run.run_file import RunConfig
from live_eval.run.stop_signals import close_lost_terminal, stop_signals
from live_eval.scoring.judge_runner import JudgeOptions, check_device, judge_options
from live_eval.session.event_loop import run as run_loop

__all__ = [
    "HEADPHONES",
    "ChosenJudges",
    "converse",
    "judges_of",
    "print_missing",
    "spread_ns",
    "talk_to_several",
]

HEADPHONES = "Wear headphones: if the microphone picks up the reply, the reply is interrupted."
"""Advice printed before a conversation without half-duplex."""


def talk_to_several(
    targets: Sequence[str],
    microphone: str | None,
    loudspeaker: str | None,
    flags: Mapping[str, Any],
    *,
    half_duplex: bool,
    blind: bool,
    score: bool,
    plain: bool,
    out: Path | None,
    data: str | None,
) -> None:
    """Talk to several endpoints at once, recording a separate run for each.

    Args:
        data: Data set whose recordings replace the microphone, or None.
    """
    if len(targets) > MOST_ENDPOINTS:
        raise UsageError(f"expected at most {MOST_ENDPOINTS} endpoints, got {len(targets)}")
    reject_endpoint_flags(flags, "several endpoints")
    named: list[Party] = []
    missing: dict[str, str] = {}
    for name, target in zip(names_of(targets), targets, strict=True):
        config = read_target(target, flags)
        options = live_options(judge_options(config.judges), scripted=False)
        chosen = judges_of(config, options, score=score)
        missing |= chosen.missing
        folder = _options.new_folder(f"{name}-live") if out is None else out.with_name(f"{out.name}-{name}")
        named.append(Party(name, make_live_plan(config), folder, chosen.able, options))
    parties = Parties(named, blind=blind)
    print_missing(missing)
    for party in named:
        print_key(party.plan.key_recipient)
        print_judges_keys(party.judges, party.options)
    votes = _options.new_folder("votes.csv") if out is None else out.with_name(f"{out.name}-votes.csv")
    manual = parties.manual
    recordings = _recordings(read_target(targets[0], flags), data, loudspeaker) if data is not None else None
    with open_sound_card(microphone, loudspeaker, listens=recordings is None) as card:
        delay = kept_delay(card.microphone.name, card.loudspeaker.name) if card.microphone else None
        stand_in = None
        if recordings is not None:
            pcm = [resample(each, card.rate_hz).int16() for each in recordings]
            stand_in = StandIn(pcm, card.rate_hz)
        elif not half_duplex:
            click.echo(HEADPHONES, err=True)
        with parties.conversation(
            card,
            as_manifest(card, delay),
            device_hz=card.rate_hz,
            half_duplex=half_duplex,
            device_spread_ns=spread_ns(delay),
            spectra=not plain,
            votes=votes,
        ) as conversation:
            try:
                with _shared_screen(
                    parties.standings,
                    missing,
                    manual=manual,
                    plain=plain,
                    streams="the recordings" if stand_in is not None else "",
                ) as screen:
                    talk = converse(
                        conversation,
                        card,
                        screen,
                        manual=manual,
                        half_duplex=half_duplex,
                        stand_in=stand_in,
                    )
                    run_loop(talk)
            finally:
                _print_standings(parties, votes)


def _recordings(config: RunConfig, data: str, loudspeaker: str | None) -> list[Audio]:
    plan = make_plan(config.with_data(data))
    find_device(list_devices(), loudspeaker, AudioSide.REPLY)  # reading the recordings takes longer
    return [read_audio(job.case.audio_path).audio for job in plan.jobs]


@contextlib.contextmanager
def _shared_screen(
    standings: Sequence[Standing], missing: Mapping[str, str], *, manual: bool, plain: bool, streams: str
) -> Iterator[Screen]:
    if plain or not sys.stdout.isatty():
        yield Lines(click.echo, [each.label for each in standings], streams=streams)
        return
    keys = key_help(manual=manual, endpoints=len(standings))
    with LiveScreen(standings, keys, console(), missing=missing) as screen:
        yield screen


def _print_standings(parties: Parties, votes: Path) -> None:
    """Print each endpoint's name and metrics, and the next commands; then write the votes again."""
    rows = [
        {
            "label": "" if standing.label == party.name else standing.label,
            "name": party.name,
            "so_far": standing.so_far,
            "votes": str(won),
            "missing": standing.failure.message if standing.failure is not None else "",
            "run": str(party.folder),
        }
        for party, standing, won in zip(parties.all, parties.standings, parties.ballot.wins, strict=True)
    ]
    columns = {"label": "", "name": "endpoint", "so_far": f"voice to voice, {SPREAD}", "votes": "votes"}
    columns |= {"missing": "missing since", "run": "run"}
    shown = {key: heading for key, heading in columns.items() if any(row[key] for row in rows)}
    click.echo()
    print_listing(rows, shown, as_json=False)
    for subject, command in parties.next_commands(votes).items():
        click.echo(f"{subject}: {command}")
    if len(parties.ballot):
        parties.ballot.write(votes)


def spread_ns(delay: DeviceDelay | None) -> int:
    """Return the measured variation of the device delay; 0 if it was not measured."""
    return round(delay.spread_ms * 1e6) if delay is not None else 0


@dataclass(frozen=True, slots=True)
class ChosenJudges:
    """The judges of a conversation.

    Args:
        able: Names of those that can run, in execution order.
        missing: Reasons why the others cannot, by name.
    """

    able: list[str]
    missing: dict[str, str]


def judges_of(
    config: RunConfig, options: JudgeOptions, *, score: bool, scripted: bool = False
) -> ChosenJudges:
    """Return the judges of a conversation, which also takes place without those that cannot run."""
    named = config.judges.names if "names" in config.judges.model_fields_set else ()
    check_device(options)
    specs = live_judges([*named, *(quick_judges() if score else ())], options)
    missing = unable_in_conversation(specs, options, scripted=scripted, connects=True)
    return ChosenJudges([spec.name for spec in specs if spec.name not in missing], missing)


def print_missing(missing: Mapping[str, str]) -> None:
    """Print which judges do not score the conversation, and what they need."""
    for judge, reason in missing.items():
        click.echo(f"note: judge {judge} cannot score, missing: {reason}", err=True)


async def converse(
    conversation: LiveConversation | SharedConversation, card: SoundCard, screen: Screen, **settings: Any
) -> None:
    """Run a conversation through a sound card until a key or a signal ends it."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        close_lost_terminal()
        conversation.stop()

    for number in stop_signals():
        loop.add_signal_handler(number, stop)
    await converse_on_card(conversation, card, screen, **settings)
