"""Implement ``live-eval endpoints``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from live_eval.cli import _options
from live_eval.cli._help import Command
from live_eval.cli._listing import fields_of, print_plugins

if TYPE_CHECKING:
    from live_eval.registry import Plugin

__all__ = ["command"]

_COLUMNS = {
    "name": "endpoint",
    "transport": "transport",
    "title": "service",
    "rates": "kHz in, out",
    "turn_modes": "turns",
    "key_variable": "API key",
    "strangers": "tried with",
    "untried": "never tried with",
}
_DETAILS = {
    "name": "endpoint",
    "title": "service",
    "transport": "transport",
    "base_url": "base URL",
    "model": "model",
    "voice": "voice",
    "transcription_model": "transcriber",
    "rates": "kHz in, out",
    "frame_ms": "frame, ms",
    "turn_modes": "turns",
    "histories": "dialogue history",
    "session_limit_s": "session limit, s",
    "sessions": "max sessions",
    "audio_tokens": "tokens per s in, out",
    "limits": "limits",
    "comparable": "latency comparable",
    "key_variable": "API key",
    "missing": "missing here",
    "verified": "tested with the vendor",
    "strangers": "tried with",
    "untried": "never tried with",
    "docs_url": "documentation",
}


@click.command(cls=Command)
@click.argument("name", required=False)
@_options.json_option
def command(name: str | None, as_json: bool) -> None:
    """List endpoints, or show one in detail.

    The --base-url flag of `run` replaces the default URL, and is required if there is none.

    Examples:

    \b
      live-eval endpoints
      live-eval endpoints openai
    """
    from live_eval.registry import CLIENTS, client, find_plugins

    if name is not None:
        client(name)  # raises if the endpoint is unknown or broken
    rows = [_row(plugin) for plugin in find_plugins(CLIENTS) if name in (None, plugin.name)]
    print_plugins(name, rows, _in_words, _COLUMNS, _DETAILS, as_json=as_json)
    if name is None and not as_json:
        for row in rows:
            if not row["ok"]:
                click.echo(f"{row['name']} is broken: {row['missing']}")
        if not any(row["verified"] for row in rows):
            click.echo(
                "\nNo endpoint has been tested against its vendor's service. Details: live-eval endpoints "
                "NAME"
            )


def _row(plugin: Plugin) -> dict[str, Any]:
    from live_eval.dialect import TransportKind
    from live_eval.registry import ClientSpec, missing_requirements

    spec = plugin.spec
    broken = not isinstance(spec, ClientSpec)
    if not isinstance(spec, ClientSpec):  # the row of a broken plugin has all keys, with empty values
        spec = ClientSpec(name=plugin.name, title="", dialect="", transport="", base_url=None, turn_modes=())
    return {
        **fields_of(spec, "name", "title", "base_url", "model", "voice", "transcription_model"),
        **fields_of(spec, "key_variable", "input_rate_hz", "output_rate_hz", "frame_ms", "session_limit_s"),
        **fields_of(spec, "input_audio_tokens_per_s", "output_audio_tokens_per_s"),
        **fields_of(spec, "sessions", "limits", "docs_url", "line"),
        "ok": not broken,
        "missing": plugin.problem if broken else missing_requirements(spec),
        "transport": spec.transport_kind.value,
        "turn_modes": [mode.value for mode in spec.turn_modes],
        "histories": [history.value for history in spec.histories],
        "comparable": spec.transport_kind is not TransportKind.HTTP,
        "verified": spec.verified or False,
        "strangers": spec.trial.strangers,
        "untried": spec.trial.untried,
    }


def _in_words(row: dict[str, Any]) -> dict[str, Any]:
    tokens = (row["input_audio_tokens_per_s"], row["output_audio_tokens_per_s"])
    return {
        "rates": f"{row['input_rate_hz'] / 1000:g}, {row['output_rate_hz'] / 1000:g}",
        "histories": row["histories"] or None,
        "comparable": row["comparable"] and (f"on the same line: {row['line']}" if row["line"] else True),
        "audio_tokens": ", ".join(f"{number:g}" for number in tokens if number is not None),
    }
