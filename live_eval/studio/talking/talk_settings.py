"""List the endpoints available to a page. Their addresses and keys remain on the server."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from live_eval.dialect import TransportKind
from live_eval.errors import UsageError
from live_eval.http.hosts import is_url
from live_eval.judging import JudgeKind, Need
from live_eval.live.quick_scores import IN_CONVERSATION, live_options, unable_in_conversation
from live_eval.redaction import SECRETS, public_url
from live_eval.registry import (
    CLIENTS,
    ClientSpec,
    client,
    find_plugins,
    installed_judges,
    missing_requirements,
)

__all__ = ["TALK", "TalkSettings", "endpoint_choices", "judge_choices", "read_addresses"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkSettings:
    """Conversation settings from the studio's command line.

    Args:
        addresses: Endpoint addresses by endpoint name, replacing the defaults.
        note: Function that prints a line in the terminal.
    """

    addresses: Mapping[str, str] = field(default_factory=dict)
    note: Callable[[str], None] = lambda _line: None

    def address(self, name: str) -> str | None:
        """Return an endpoint's address, or None for its default.

        Raises:
            UsageError: The endpoint does not exist or has no address.
        """
        spec = client(name)
        if name not in self.addresses and spec.base_url is None and spec.launch is None:
            raise UsageError(f"{spec.title} has no default URL: start the studio with --endpoint {name}=URL")
        return self.addresses.get(name)


def _shown_address(spec: ClientSpec, addresses: Mapping[str, str]) -> str | None:
    """Return an endpoint's address without secrets; None if it has none or the studio starts the endpoint."""
    variable = spec.base_url_variable
    address = addresses.get(spec.name) or (os.environ.get(variable) if variable is not None else None)
    return public_url(address) if address else spec.base_url


TALK = web.AppKey("talk", TalkSettings)


def read_addresses(given: tuple[str, ...]) -> dict[str, str]:
    """Parse ``NAME=URL`` texts to a map from endpoint to address.

    Raises:
        UsageError: A text is malformed, or an endpoint is unknown or repeated.
    """
    addresses: dict[str, str] = {}
    for text in given:
        name, _, url = (part.strip() for part in text.partition("="))
        SECRETS.learn_url(url)
        if not name or not url:
            raise UsageError(f"--endpoint {text}: expected NAME=URL")
        if not is_url(url, ("ws", "wss", "http", "https")):
            raise UsageError(
                f"--endpoint {name}={public_url(url)}: expected an address such as ws://HOST:PORT or http://HOST:PORT"
            )
        client(name)
        if name in addresses:
            raise UsageError(f"--endpoint {name} is given twice")
        addresses[name] = url
    return addresses


def endpoint_choices(addresses: Mapping[str, str], *, sessions: bool) -> list[dict[str, Any]]:
    """List the endpoints and their requirements as JSON values.

    Args:
        addresses: Endpoint addresses by name; see `TalkSettings`.
        sessions: Whether to omit endpoints without sessions.
    """
    specs = [plugin.spec for plugin in find_plugins(CLIENTS)]
    return [
        {
            "name": spec.name,
            "title": spec.title,
            "base_url": _shown_address(spec, addresses),
            "needs_base_url": spec.name not in addresses and spec.base_url is None and spec.launch is None,
            "model": spec.model,
            "turn_modes": [mode.value for mode in spec.turn_modes],
            "missing": missing_requirements(spec),
        }
        for spec in specs
        if isinstance(spec, ClientSpec) and not (sessions and spec.transport_kind is TransportKind.HTTP)
    ]


def judge_choices(*, scripted: bool = False) -> list[dict[str, Any]]:
    """List the judges that can score conversation turns, with their missing requirements.

    Args:
        scripted: Whether the user performs scripts. Otherwise, judges that need references are omitted, and
            those that need a cue are listed as unable.
    """
    specs = [
        spec
        for spec in installed_judges()
        if spec.kind is not JudgeKind.PAIRWISE
        and spec.needs
        and (scripted or spec.needs <= IN_CONVERSATION | {Need.CUE})
    ]
    missing = unable_in_conversation(specs, live_options(), scripted=scripted)
    return [{"name": spec.name, "title": spec.title, "missing": missing.get(spec.name)} for spec in specs]
