"""``live-eval studio``: view runs, listen to them and compare them in the browser."""

from __future__ import annotations

import os
import secrets
import sys
import threading
from functools import partial
from pathlib import Path

import click

from live_eval.cli._help import Command

__all__ = ["command"]


@click.command(cls=Command)
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8770,
    show_default=True,
    help="Port; 0 picks a free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to bind. If it is not loopback, others on the network can read the traffic, and browsers "
    "do not allow the microphone.",
)
@click.option(
    "--endpoint",
    "endpoints",
    multiple=True,
    metavar="NAME=URL",
    help="Address of an endpoint for Talk and new runs, instead of its default; repeatable. Pages cannot "
    "choose one.",
)
@click.option(
    "--data",
    multiple=True,
    metavar="PATH",
    type=click.Path(path_type=Path, exists=True),
    help="Data set that new runs may use, and whose recordings listening tests may play as reference "
    "replies; repeatable.",
)
@click.option("--no-browser", is_flag=True, help="Print the link without opening it.")
def command(
    folders: tuple[Path, ...],
    port: int,
    host: str,
    endpoints: tuple[str, ...],
    data: tuple[Path, ...],
    no_browser: bool,
) -> None:
    """View runs, listen to them and compare them in the browser.

    FOLDERS are folders of runs and campaigns, or folders that contain them. Default: recordings.

    Serves a web application on this machine, prints its link and opens it. The link contains a new token,
    which every request needs. A second link, for listeners, gives access to listening tests only. No request
    leaves the machine. Ctrl-C stops the server.
    """
    import webbrowser
    from urllib.parse import urlencode

    from live_eval.http.hosts import is_loopback
    from live_eval.session.event_loop import run
    from live_eval.studio.application import application, serve
    from live_eval.studio.security import TOKEN_PARAMETER, Guard
    from live_eval.studio.talking.talk_settings import TalkSettings, read_addresses
    from live_eval.types import Secret

    token, listeners = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    talk = TalkSettings(addresses=read_addresses(endpoints), note=partial(click.echo, err=True))

    def link_of(bound: int, token: str) -> str:
        name = f"[{host}]" if ":" in host else host
        return f"http://{name}:{bound}/?{urlencode({TOKEN_PARAMETER: token})}"

    def announce(bound: int) -> None:
        link = link_of(bound, token)
        click.echo(f"studio: {link}")
        click.echo(f"for listeners: {link_of(bound, listeners)}")
        sys.stdout.flush()
        if not no_browser:
            # Use a thread, since a browser in the terminal blocks until it is closed.
            threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()

    if not is_loopback(host):
        click.echo(f"warning: {host} can be reached from other machines, without encryption", err=True)
    guard = Guard(Secret(token), host, Secret(listeners))
    app = application(folders or (Path("recordings"),), guard, talk=talk, data=data)
    run(serve(app, host, port, announce))
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        # A normal exit would wait for threads, which may spend minutes on unneeded statistics.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
