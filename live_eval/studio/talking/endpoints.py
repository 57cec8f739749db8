"""The endpoints that a page may talk to. Their keys stay in the server's environment."""

from __future__ import annotations

from typing import Any

from live_eval.dialect import ClientSpec, TransportKind
from live_eval.registry import CLIENTS, find_plugins, missing_requirements

__all__ = ["talkable_endpoints"]


def talkable_endpoints() -> list[dict[str, Any]]:
    """Return the endpoints that have sessions to talk in, and what each needs, as JSON values."""
    specs = [plugin.spec for plugin in find_plugins(CLIENTS)]
    return [
        {
            "name": spec.name,
            "title": spec.title,
            "base_url": spec.base_url,
            "needs_base_url": spec.base_url is None and spec.launch is None,
            "model": spec.model,
            "turn_modes": [mode.value for mode in spec.turn_modes],
            "missing": missing_requirements(spec),
        }
        for spec in specs
        if isinstance(spec, ClientSpec) and spec.transport_kind is not TransportKind.HTTP
    ]
