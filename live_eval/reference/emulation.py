"""Look up the services that the reference endpoint emulates, as declared in client specifications."""

from __future__ import annotations

from live_eval.dialect import TransportKind
from live_eval.errors import UsageError
from live_eval.registry import CLIENTS, ClientSpec, Emulation, client, find_plugins

__all__ = ["address", "calibration_client", "emulated_clients", "emulation_of"]


def emulated_clients() -> dict[str, ClientSpec]:
    """Return the clients whose services the reference endpoint emulates, by name."""
    specs = (plugin.spec for plugin in find_plugins(CLIENTS))
    return {spec.name: spec for spec in specs if isinstance(spec, ClientSpec) and spec.emulation is not None}


def emulation_of(name: str) -> Emulation:
    """Return how the reference endpoint emulates a client's service, or raise `UsageError`."""
    emulation = client(name).emulation
    if emulation is None:
        raise UsageError(
            f"the reference endpoint does not emulate {name!r}; expected one of: "
            + ", ".join(sorted(emulated_clients()))
        )
    return emulation


def address(name: str, host: str, port: int, *, secure: bool = False) -> str:
    """Return the base URL of a client's emulated service, or raise `UsageError`."""
    scheme = "ws" if client(name).transport_kind is TransportKind.WEBSOCKET else "http"
    return f"{scheme}{'s' if secure else ''}://{host}:{port}{emulation_of(name).base_path}"


def calibration_client(kind: TransportKind) -> str:
    """Return the client that measures a transport's timing, or raise `UsageError`."""
    for name, spec in emulated_clients().items():
        if spec.transport_kind is kind and spec.emulation is not None and spec.emulation.calibrates:
            return name
    raise UsageError(f"no installed client calibrates {kind.value}")
