"""The endpoints that a page may talk to. Their addresses and keys are the server's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from live_eval.dialect import ClientSpec, TransportKind
from live_eval.errors import UsageError
from live_eval.redaction import SECRETS, public_url
from live_eval.registry import CLIENTS, client, find_plugins, missing_requirements

__all__ = ["TalkSettings", "read_addresses", "talkable_endpoints"]


def _ignore(_line: str) -> None:
    """Print nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkSettings:
    """What was decided about conversations when the studio was started.

    Args:
        addresses: Addresses of endpoints, by name, in place of their own.
        note: Called with a line for the terminal.
    """

    addresses: Mapping[str, str] = field(default_factory=dict)
    note: Callable[[str], None] = _ignore


def read_addresses(given: tuple[str, ...]) -> dict[str, str]:
    """Return addresses by endpoint from texts of the form ``NAME=URL``.

    Raises:
        UsageError: One is something else, or an endpoint does not exist, is given twice or has no sessions.
    """
    addresses: dict[str, str] = {}
    for text in given:
        name, _, url = (part.strip() for part in text.partition("="))
        SECRETS.learn_url(url)
        if not name or not url:
            raise UsageError(f"--endpoint {text}: expected NAME=URL")
        if client(name).transport_kind is TransportKind.HTTP:
            raise UsageError(f"--endpoint {name}: it makes one request for each turn, without a session")
        if name in addresses:
            raise UsageError(f"--endpoint {name}: given twice")
        addresses[name] = url
    return addresses


def talkable_endpoints(addresses: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the endpoints that have sessions to talk in, and what each needs, as JSON values.

    Args:
        addresses: The addresses that the studio was started with.
    """
    specs = [plugin.spec for plugin in find_plugins(CLIENTS)]
    return [
        {
            "name": spec.name,
            "title": spec.title,
            "base_url": public_url(addresses[spec.name]) if spec.name in addresses else spec.base_url,
            "needs_base_url": spec.name not in addresses and spec.base_url is None and spec.launch is None,
            "model": spec.model,
            "turn_modes": [mode.value for mode in spec.turn_modes],
            "missing": missing_requirements(spec),
        }
        for spec in specs
        if isinstance(spec, ClientSpec) and spec.transport_kind is not TransportKind.HTTP
    ]
