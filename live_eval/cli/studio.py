"""Implement ``live-eval studio``: view runs, listen to them and compare them in the browser."""

from __future__ import annotations

import os
import secrets
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from live_eval.cli._help import Command
from live_eval.errors import UsageError

if TYPE_CHECKING:
    from live_eval.http.encryption import Encryption

__all__ = ["command"]


@click.command(cls=Command)
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--data",
    multiple=True,
    metavar="PATH",
    help="Data set that new runs may use, and whose recordings listening tests may play as reference "
    "replies: a path, or the name of a benchmark; repeatable. The sample is always available.",
)
@click.option(
    "--endpoint",
    "endpoints",
    multiple=True,
    metavar="NAME=URL",
    help="Address of an endpoint for Talk and new runs, instead of its default; repeatable. Pages cannot "
    "set addresses.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to bind; 0.0.0.0 serves phones and other devices on the network.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8770,
    show_default=True,
    help="Port; 0 picks a free one.",
)
@click.option(
    "--tls/--no-tls",
    default=None,
    help="Encrypt the traffic. Default: only if --host is not loopback, since others on the network could "
    "otherwise read the traffic, and browsers would not allow the microphone.",
)
@click.option(
    "--certificate",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="PEM file with the TLS certificate. Default: a new self-signed certificate, about which browsers "
    "warn.",
)
@click.option(
    "--certificate-key",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="PEM file with the certificate's private key, if --certificate does not contain it.",
)
@click.option("--no-browser", is_flag=True, help="Print the link without opening it.")
def command(
    folders: tuple[Path, ...],
    port: int,
    host: str,
    tls: bool | None,
    certificate: Path | None,
    certificate_key: Path | None,
    endpoints: tuple[str, ...],
    data: tuple[str, ...],
    no_browser: bool,
) -> None:
    """View, compare and start runs, and talk to endpoints, in the browser.

    Pages: runs, turns and reports; comparison by ear; new runs; listening tests; conversations (Talk, Stage)
    and performances (Perform).

    FOLDERS are folders of runs and campaigns, or folders that contain them. Default: recordings.

    The command serves a web application on this machine, prints its link and opens it. The link contains a
    new token, which every request needs. A second link, for listeners, gives access only to listening tests.
    Pages load nothing from other servers; conversations and runs connect to the endpoints and judges that you
    choose. Ctrl-C stops the server.

    With --host 0.0.0.0, a terminal also shows the link as a QR code for phones.

    Examples:

    \b
      live-eval studio
      live-eval studio recordings --endpoint vllm-omni=ws://127.0.0.1:8000/v1
    """
    import webbrowser
    from urllib.parse import urlencode

    from live_eval.http.hosts import address_for_others, is_any, is_loopback
    from live_eval.session.event_loop import run
    from live_eval.studio.application import application, serve
    from live_eval.studio.security import TOKEN_PARAMETER, Guard
    from live_eval.studio.talking.talk_settings import TalkSettings, read_addresses
    from live_eval.types import Secret

    token, listeners = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    talk = TalkSettings(addresses=read_addresses(endpoints), note=partial(click.echo, err=True))
    name = address_for_others() if is_any(host) else host
    encryption = _encryption(tls, certificate, certificate_key, host, name)
    scheme = "http" if encryption is None else "https"

    def link_of(bound: int, token: str) -> str:
        where = f"[{name}]" if ":" in name else name
        return f"{scheme}://{where}:{bound}/?{urlencode({TOKEN_PARAMETER: token})}"

    def announce(bound: int) -> None:
        link = link_of(bound, token)
        click.echo(f"studio: {link}")
        click.echo(f"for listeners: {link_of(bound, listeners)}")
        if not is_loopback(name) and sys.stdout.isatty():
            import segno

            segno.make(link).terminal(sys.stdout, compact=True)
        if encryption is not None and encryption.made_here:
            click.echo(
                "Browsers warn about the self-signed certificate. "
                f"Continue if its SHA-256 is\n{encryption.fingerprint}"
            )
        sys.stdout.flush()
        if not no_browser:
            # Use a thread because a browser that runs in the terminal blocks until it is closed.
            threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()

    if encryption is None and not is_loopback(host):
        click.echo(
            f"warning: {host} can be reached from other machines without encryption; browsers there do not "
            "allow the microphone",
            err=True,
        )
    guard = Guard(Secret(token), host, Secret(listeners))
    app = application(folders or (Path("recordings"),), guard, talk=talk, data=_found(data))
    run(serve(app, host, port, announce, tls=None if encryption is None else encryption.context))
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        # A normal exit would wait for threads, which may spend minutes on unneeded statistics.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _found(names: Sequence[str]) -> list[Path]:
    """Return the paths of data sets, without the bundled ones, which pages always offer."""
    from live_eval.data import SAMPLE, SAMPLE_DIALOGUES, locate

    paths = {name: locate(name) for name in names if name not in (SAMPLE, SAMPLE_DIALOGUES)}
    for name, path in paths.items():
        if not path.exists():
            raise UsageError(
                f"--data {name!r}: not found; expected a path, {SAMPLE} or a name of `live-eval data list`"
            )
    return list(paths.values())


def _encryption(
    tls: bool | None, certificate: Path | None, key: Path | None, *names: str
) -> Encryption | None:
    """Return the TLS settings for a host, or None without TLS."""
    from live_eval.http.encryption import read_certificate, self_signed
    from live_eval.http.hosts import is_any, is_loopback

    if key is not None and certificate is None:
        raise UsageError("--certificate-key requires --certificate")
    if certificate is not None:
        if tls is False:
            raise UsageError("--certificate and --no-tls conflict: pass only one of them")
        return read_certificate(certificate, key)
    if tls or (tls is None and not all(map(is_loopback, names))):
        named = [each for each in names if not is_any(each)]
        return self_signed(*dict.fromkeys([*named, "localhost", "127.0.0.1", "::1"]))
    return None
