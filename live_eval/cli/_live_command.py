"""Implement ``live-eval live``: talk to an endpoint from the terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from live_eval.cli import _options
from live_eval.cli._errors import print_notes
from live_eval.cli._performance import print_outcome
from live_eval.cli._progress import RunProgress
from live_eval.cli._screen import console
from live_eval.cli._shared_live import (
    HEADPHONES,
    converse,
    judges_of,
    print_missing,
    spread_ns,
    talk_to_several,
)
from live_eval.cli._stored_settings import print_judges_keys, print_key
from live_eval.cli._targets import names_of, read_target
from live_eval.data import Consent, PerformedSet, consent_question
from live_eval.errors import UsageError
from live_eval.live.closing_lines import ClosingLines
from live_eval.live.devices import WITHOUT_DEVICES, find_device, list_devices
from live_eval.live.lines import Lines
from live_eval.live.loopback import DeviceDelay, as_manifest, keep_delay, kept_delay, measure_delay
from live_eval.live.parties import Parties, Party
from live_eval.live.performance import Performance, plan_performance
from live_eval.live.quick_scores import live_options
from live_eval.live.recorded_user import RecordedUser, load_recorded_users
from live_eval.live.screen import LiveScreen
from live_eval.live.sound_card import SoundCard, open_sound_card
from live_eval.live.standings import Standing
from live_eval.live.terminal import Screen, key_help
from live_eval.live.updates import AudioSide
from live_eval.run.plan import Plan, make_live_plan, make_plan
from live_eval.run.run_file import RunConfig
from live_eval.scoring.judge_runner import judge_options
from live_eval.session.event_loop import run as run_loop
from live_eval.text.wording import counted
from live_eval.types import TurnMode

__all__ = ["live_command"]

_SLOW_DEVICES_MS = 300


def live_command(
    endpoints: tuple[str, ...],
    microphone: str | None,
    loudspeaker: str | None,
    lists: bool,
    loopback_test: bool,
    data: str | None,
    scripts: str | None,
    takes: Path | None,
    consent: str | None,
    half_duplex: bool,
    blind: bool,
    score: bool,
    plain: bool,
    out: Path | None,
    **flags: Any,
) -> None:
    """Run ``live-eval live`` with the values of its flags."""
    if lists:
        _print_devices()
        return
    if loopback_test:
        _test_loopback(microphone, loudspeaker)
        return
    _check_flags(endpoints, data, scripts, blind=blind, takes=takes is not None or consent is not None)
    if len(endpoints) > 1:
        talk_to_several(
            endpoints,
            microphone,
            loudspeaker,
            flags,
            half_duplex=half_duplex,
            blind=blind,
            score=score,
            plain=plain,
            out=out,
            data=data,
        )
        return
    [endpoint] = endpoints
    config = read_target(endpoint, flags)
    options = live_options(judge_options(config.judges), scripted=bool(scripts or data))
    judges = judges_of(config, options, score=score, scripted=bool(scripts or data))
    folder = out or _options.new_folder(f"{names_of(endpoints)[0]}-live")
    if scripts is not None:
        performed = PerformedSet(takes or folder.with_name(f"{folder.name}-takes"))
        planned = _Planned(plan=plan_performance(config.with_data(scripts), performed), performed=performed)
        print_notes(planned.plan.notes)
        find_device(list_devices(), microphone, AudioSide.USER)
        if not _consents(planned.plan, performed, consent):
            click.echo("Nothing is recorded or sent without consent.")
            return
    else:
        planned = _planned(config, data, loudspeaker)
    print_key(planned.plan.key_recipient)
    print_judges_keys(judges.able, options)
    print_missing(judges.missing)
    with open_sound_card(microphone, loudspeaker, listens=planned.recorded is None) as card:
        if planned.recorded is None and planned.performed is None and not half_duplex:
            click.echo(HEADPHONES, err=True)
        party = Party(names_of(endpoints)[0], planned.plan, folder, judges.able, options)
        _talk(party, planned, card, judges.missing, half_duplex=half_duplex, plain=plain)
    taken = planned.performed
    if taken is not None and (data_set := taken.load()) is not None:
        click.echo(f"takes: {taken.folder} ({counted(len(data_set.cases), 'recording')})")
        click.echo(f"other endpoints: live-eval run ENDPOINT --data {taken.folder} --repeat 2\n")
        print_outcome(folder)


def _check_flags(
    endpoints: Sequence[str], data: str | None, scripts: str | None, *, blind: bool, takes: bool
) -> None:
    """Raise a `UsageError` if flags contradict each other; `takes` is whether a flag of takes is given."""
    if not endpoints:
        raise UsageError("expected an ENDPOINT; `live-eval endpoints` lists them")
    if len(endpoints) > 1 and scripts is not None:
        raise UsageError("--perform requires a single endpoint")
    if len(endpoints) == 1 and blind:
        raise UsageError("--blind requires several endpoints")
    if scripts is not None and data is not None:
        raise UsageError("expected either --perform or --from, got both")
    if takes and scripts is None:
        raise UsageError("--takes and --consent require --perform")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """What a conversation plays or performs, besides the user's own speech."""

    plan: Plan
    recorded: list[RecordedUser] | None = None
    performed: PerformedSet | None = None


def _planned(config: RunConfig, data: str | None, loudspeaker: str | None) -> _Planned:
    """Return the plan and, if `data` is given, the recordings to stream instead of the user's speech."""
    if data is None:
        return _Planned(plan=make_live_plan(config))
    plan = make_plan(config.with_data(data))
    find_device(list_devices(), loudspeaker, AudioSide.REPLY)  # reading the recordings takes longer
    with RunProgress() as progress:
        return _Planned(plan=plan, recorded=run_loop(load_recorded_users(plan, progress.preparing)))


def _talk(
    party: Party,
    planned: _Planned,
    card: SoundCard,
    missing: Mapping[str, str],
    *,
    half_duplex: bool,
    plain: bool,
) -> None:
    """Run the conversation, and record it."""
    plan, performed = planned.plan, planned.performed
    delay = kept_delay(card.microphone.name, card.loudspeaker.name) if card.microphone else None
    performance = Performance(plan, performed, device_hz=card.rate_hz) if performed else None
    with Parties([party]).conversation(
        card,
        as_manifest(card, delay),
        performed=performed,
        device_hz=card.rate_hz,
        half_duplex=half_duplex,
        recorded=planned.recorded,
        performance=performance,
        device_spread_ns=spread_ns(delay),
        spectra=not plain,
    ) as conversation:
        manual = plan.turn_mode is TurnMode.MANUAL
        closing = ClosingLines()
        try:
            with _screen(planned, missing, plain=plain) as screen:
                talk = converse(
                    conversation,
                    card,
                    closing.before(screen),
                    manual=manual,
                    half_duplex=half_duplex,
                    performance=performance,
                )
                run_loop(talk)
        finally:
            for line in closing.lines:
                click.echo(line)
            click.echo(f"run: {party.folder}")
            if closing.lines:
                click.echo(f"page with audio: live-eval report {party.folder} --short")


def _consents(plan: Plan, performed: PerformedSet, given_by: str | None) -> bool:
    """Ask for the person's consent, and start the data set if they consent; return whether they did.

    `given_by` is the name of a person who has already consented, or None.
    """
    question = consent_question(performed.folder, plan.recipient)
    click.echo(question, err=True)
    if given_by is None:
        if not sys.stdin.isatty():
            raise UsageError("expected the speaker's consent: pass --consent NAME, or run in a terminal")
        given_by = click.prompt(
            "To consent, type your name or initials; to decline, press enter",
            "",
            show_default=False,
            err=True,
        )
    if not given_by.strip():
        return False
    given_at = datetime.now(UTC).isoformat(timespec="seconds")
    performed.begin(Consent(question, given_by.strip(), given_at, plan.recipient))
    return True


@contextlib.contextmanager
def _screen(planned: _Planned, missing: Mapping[str, str], *, plain: bool) -> Iterator[Screen]:
    plan, performs = planned.plan, planned.performed is not None
    if plain or not sys.stdout.isatty():
        recorded = "the recordings" if planned.recorded is not None else ""
        yield Lines(click.echo, streams="the take" if performs else recorded)
        return
    keys = key_help(manual=plan.turn_mode is TurnMode.MANUAL, performs=performs)
    standing = Standing(f"{plan.spec.name} · {plan.turn_mode.value}")
    with LiveScreen([standing], keys, console(), missing=missing) as screen:
        yield screen


def _print_devices() -> None:
    devices = list_devices()
    if not devices:
        raise UsageError(
            f"this machine has no audio device: connect one, or stream recordings: {WITHOUT_DEVICES}"
        )
    for each in devices:
        sides = [f"{each.inputs} in"] * bool(each.inputs) + [f"{each.outputs} out"] * bool(each.outputs)
        default = [
            name for name, is_it in (("microphone", each.is_input), ("loudspeaker", each.is_output)) if is_it
        ]
        marks = f"  (default {' and '.join(default)})" if default else ""
        click.echo(f"{each.number:3}  {each.name}, {each.host}: {', '.join(sides)}{marks}")


def _test_loopback(microphone: str | None, loudspeaker: str | None) -> None:
    with open_sound_card(microphone, loudspeaker) as card:
        click.echo("Playing chirps: place the microphone next to the loudspeaker …", err=True)
        delay = run_loop(measure_delay(card))
        xruns = card.input_xruns + card.output_xruns
    path = keep_delay(delay)
    click.echo(_in_words(delay))
    if xruns:
        click.echo(f"note: audio was lost {xruns} times; close other programs and rerun", err=True)
    click.echo(f"stored: {path}")


def _in_words(delay: DeviceDelay) -> str:
    slow = (
        f" A delay above {_SLOW_DEVICES_MS} ms is noticeable: use wired devices instead of Bluetooth."
        if delay.delay_ms > _SLOW_DEVICES_MS
        else ""
    )
    return (
        f"{delay.loudspeaker} to {delay.microphone}: {delay.delay_ms:.1f} ms ± {delay.spread_ms:.1f} "
        f"(median and spread of {delay.repeats} chirps)\n"
        f"These devices add {delay.delay_ms:.0f} ms to your wait for each reply; latencies exclude it, and "
        f"the spread widens their error bars by {delay.spread_ms:.1f} ms.{slow}"
    )
