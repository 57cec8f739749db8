"""``live-eval endpoints``."""

from __future__ import annotations

from typing import Any

import click

from live_eval.cli._listing import print_listing
from live_eval.dialect import ClientSpec
from live_eval.registry import CLIENTS, Plugin, find_plugins, lacks

__all__ = ["command"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """List the endpoints and what each lacks here."""
    rows = [_row(plugin) for plugin in find_plugins(CLIENTS)]
    columns = {
        "name": "endpoint",
        "title": "service",
        "model": "default model",
        "turn_modes": "turns",
        "key_variable": "key in",
        "verified": "tried against the vendor",
        "lacks": "lacks here",
    }
    print_listing(rows, columns, as_json=as_json)


def _row(plugin: Plugin) -> dict[str, Any]:
    spec = plugin.spec
    if not isinstance(spec, ClientSpec):
        keys = (
            "title transport base_url model voice key_variable input_rate_hz output_rate_hz frame_ms "
            "turn_modes session_limit_s docs_url verified"
        )
        return {"name": plugin.name, "ok": False, "lacks": plugin.problem, **dict.fromkeys(keys.split())}
    lacking = lacks(spec)
    return {
        "name": spec.name,
        "ok": lacking is None,
        "lacks": lacking,
        "title": spec.title,
        "transport": spec.transport.partition(":")[0].rpartition(".")[2],
        "base_url": spec.base_url,
        "model": spec.model,
        "voice": spec.voice,
        "key_variable": spec.key_variable,
        "input_rate_hz": spec.input_rate_hz,
        "output_rate_hz": spec.output_rate_hz,
        "frame_ms": spec.frame_ms,
        "turn_modes": [mode.value for mode in spec.turn_modes],
        "session_limit_s": spec.session_limit_s,
        "docs_url": spec.docs_url,
        "verified": spec.verified or "no",
    }
