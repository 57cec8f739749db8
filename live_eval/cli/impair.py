"""Implement ``live-eval impair``."""

from __future__ import annotations

import json
import sys

import click

from live_eval.cli import _options
from live_eval.cli._damage import print_impairments
from live_eval.cli._help import Command
from live_eval.errors import UsageError
from live_eval.impair import Impairment, parse

__all__ = ["command"]

_PORT = 8766


@click.command(cls=Command)
@click.argument("specs", nargs=-1, metavar="[SPEC]…")
@click.option(
    "--list", "lists", is_flag=True, help="List every impairment, and every fault of the built-in endpoint."
)
@click.option("--to", "url", metavar="URL", help="Serve a proxy for this endpoint: scheme, host and port.")
@click.option(
    "--listen",
    "port",
    type=click.IntRange(0, 65_535),
    help=f"Port of the proxy, on 127.0.0.1; 0 picks a free one. Default: {_PORT}.",
)
@_options.seed_option
@_options.json_option
def command(
    specs: tuple[str, ...], lists: bool, url: str | None, port: int | None, seed: int, as_json: bool
) -> None:
    """List impairments, check an impairment and print its canonical form, or serve an impairing proxy.

    SPEC is NAME=VALUE,NAME=VALUE…, as for --impair of run, latency and duplex. A network parameter applies to
    both directions; the prefix up. or down. limits it to one, as in down.loss=5%.

    With --to, the proxy impairs any client of that HTTP or WebSocket endpoint: give the client the printed
    URL instead of the endpoint's. Ctrl-C stops the proxy.

    Examples:

    \b
      live-eval impair --list
      live-eval impair loss=5%,burst=3
      live-eval impair delay=100ms,jitter=20ms --to https://api.openai.com
    """
    if lists == bool(specs):
        raise UsageError("expected either --list or impairments")
    if lists and url is not None:
        raise UsageError("--to requires impairments, and cannot be combined with --list")
    if port is not None and url is None:
        raise UsageError("--listen requires --to")
    if specs:
        impairment = parse(specs, seed)
        if url is not None:
            _serve(url, impairment, _PORT if port is None else port, as_json=as_json)
        elif as_json:
            _options.print_json(impairment.as_json())
        else:
            click.echo(str(impairment))
        return
    print_impairments(as_json=as_json)


def _serve(url: str, impairment: Impairment, port: int, *, as_json: bool) -> None:
    from live_eval.clock import SystemClock
    from live_eval.http.connections import stop_event
    from live_eval.impair.proxy import ImpairingProxy
    from live_eval.session.event_loop import run

    async def serve() -> None:
        stop = stop_event()
        async with ImpairingProxy(url, impairment, SystemClock(), port=port) as proxy:
            if as_json:
                click.echo(json.dumps(impairment.as_json() | {"url": proxy.origin, "to": url}))
            else:
                click.echo(f"proxy: {proxy.origin} for {url}, with {impairment}")
            sys.stdout.flush()
            await stop.wait()

    run(serve())
