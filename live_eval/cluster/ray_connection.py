"""Connect to a Ray cluster, or start one."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import signal
import socket
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from live_eval.cluster.nodes import Node, living_nodes
from live_eval.cluster.prompt_exit import prompt_exit
from live_eval.errors import LiveEvalError, UsageError
from live_eval.extras import install_command
from live_eval.files import open_regular
from live_eval.redaction import SECRETS
from live_eval.run.stop_signals import STOP_SIGNALS

__all__ = ["AUTO", "Cluster", "connected", "error_text"]

AUTO = "auto"
"""The cluster that this machine belongs to, or a new single-machine cluster."""

_REACH_S = 5.0
_TOKEN = Path("~/.ray/auth_token")
_MAX_CHARACTERS = 300
_LOCAL = "local"
_MIN_VERSION = (2, 52)
"""The first Ray version with tokens; without one, anyone who can reach a cluster can run code on it."""
_VARIABLES = {
    "RAY_worker_niceness": "0",  # by default, workers yield to all other programs
    "RAY_USAGE_STATS_ENABLED": "0",
}


class Cluster:
    """A connected Ray cluster; see `connected`."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self.nodes: tuple[Node, ...] = living_nodes(ray.nodes())
        """The nodes that were alive when the cluster was joined."""
        here = ray.util.get_node_ip_address()
        self.is_one_machine = all(node.address == here for node in self.nodes)
        """Whether this machine is the cluster's only node."""

    def call(self, function: Callable[..., Any], *arguments: object, node: Node) -> Any:
        """Call a function in a separate process on a node; return an awaitable of its result."""
        return self._ray.remote(function).options(**self._at(node, 1), max_retries=0).remote(*arguments)

    def actor(self, actor_class: type, *, node: Node, cpus: int = 1, gpus: int = 0, **options: int) -> Any:
        """Start an actor on a node, with dedicated CPUs and GPUs; return its handle.

        The actor is not restarted if it dies. `options` are additional Ray options.
        """
        fixed = {**self._at(node, cpus), "num_gpus": gpus, "max_restarts": 0, "max_task_retries": 0}
        return self._ray.remote(actor_class).options(**fixed, **options).remote()

    def end(self, actor: Any) -> None:
        """Kill an actor immediately."""
        with contextlib.suppress(Exception):  # the actor or Ray has died
            self._ray.kill(actor)

    def _at(self, node: Node, cpus: float) -> dict[str, Any]:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return {
            "num_cpus": cpus,
            "scheduling_strategy": NodeAffinitySchedulingStrategy(node.node_id, soft=False),
        }


@contextlib.contextmanager
def connected(address: str) -> Iterator[Cluster]:
    """Connect to a Ray cluster, and disconnect at the end of the block. Call it in the main thread.

    Args:
        address: ``HOST:PORT`` of the head node, or `AUTO`.

    Raises:
        UsageError: Ray is missing or too old, the address is unusable, or other users can read the token.
        LiveEvalError: The cluster is unreachable, or runs another version of Ray or Python.
    """
    _check(address)
    address_for_ray = _address_for_ray(address)
    with _environment(_variables(address_for_ray)):  # Ray reads some of them when it is imported
        ray = _imported()
        try:
            with prompt_exit(), _signal_handlers_restored():
                _join(ray, address, address_for_ray)
                cluster = Cluster(ray)
            if not cluster.nodes:
                raise LiveEvalError(f"the Ray cluster at {address} has no node with a CPU")
            yield cluster
        finally:
            with prompt_exit():
                ray.shutdown()


def _imported() -> Any:
    try:
        import ray
    except ImportError:
        raise UsageError(f"--ray needs Ray: {install_command('ray')}") from None
    found = tuple(int(part) for part in re.findall(r"\d+", ray.__version__)[:2])
    if found < _MIN_VERSION:
        least = ".".join(map(str, _MIN_VERSION))
        raise UsageError(
            f"--ray needs Ray {least}, which supports tokens, got {ray.__version__}: {install_command('ray')}"
        )
    return ray


def _join(ray: Any, address: str, address_for_ray: str) -> None:
    try:
        ray.init(
            address=address_for_ray,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
        )
    except Exception as error:  # Ray raises RuntimeError, ConnectionError, ValueError, AssertionError, …
        hint = "" if _has_token() else f"; it may require a token in {_TOKEN} or RAY_AUTH_TOKEN"
        raise LiveEvalError(f"cannot use the Ray cluster at {address}: {error_text(error)}{hint}") from error


def _address_for_ray(address: str) -> str:
    """Return the address of a cluster for Ray, or `_LOCAL` to start one."""
    if address != AUTO:
        return address
    named = os.environ.get("RAY_ADDRESS")
    if named and named != AUTO:  # for "auto", Ray would trust an address that any user can store
        return named
    try:  # after a crash, the stored address may belong to a dead cluster, which Ray would retry for minutes
        stored = _stored_address()
        host, _, port = stored.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), _REACH_S).close()
    except (OSError, ValueError):
        return _LOCAL
    return stored


def _stored_address() -> str:
    """Return the cluster address that Ray has stored in /tmp, if this user or root wrote it.

    Raises:
        OSError: The file is missing, or another user wrote it.
        ValueError: The file is not text.
    """
    path = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray/ray_current_cluster")
    with open_regular(path) as file:
        if os.name == "posix" and os.fstat(file.fileno()).st_uid not in (0, os.geteuid()):
            raise OSError(errno.EPERM, "another user wrote it", str(path))
        return file.read(_MAX_CHARACTERS).decode().strip()


def _has_token() -> bool:
    named = (os.environ.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
    return any(named) or _TOKEN.expanduser().is_file()


def _variables(address: str) -> dict[str, str | None]:
    """Return the environment variables for Ray; None removes a variable."""
    if address == _LOCAL:
        # Create a token for this cluster only, since Ray would store one in a world-readable file.
        token = secrets.token_hex(32)
        SECRETS.learn(token)
        return {
            **{name: os.environ.get(name, value) for name, value in _VARIABLES.items()},
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": token,
            "RAY_AUTH_TOKEN_PATH": None,
            "RAY_ADDRESS": None,
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # all its servers listen on the loopback interface
        }
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    if not os.environ.get("RAY_AUTH_TOKEN"):
        _check_private(Path(named) if named else _TOKEN.expanduser())
    # Clusters that Ray starts require a token, but Ray sends it only in this mode.
    wanted = {**_VARIABLES, **({"RAY_AUTH_MODE": "token"} if _has_token() else {})}
    return {name: os.environ.get(name, value) for name, value in wanted.items()}


def _check_private(token: Path) -> None:
    try:
        mode = stat.S_IMODE(token.stat().st_mode)
    except OSError:
        return
    if os.name == "posix" and mode & 0o077:
        raise UsageError(f"{token}: other users can read this token (mode {mode:o}): run chmod 600 {token}")


def error_text(error: BaseException) -> str:
    """Return the message of a Ray error or of its cause on another machine, on one line."""
    cause = getattr(error, "cause", None)
    error = cause if isinstance(cause, Exception) else error
    text = " ".join(f"{error}".split()) or type(error).__name__
    return f"{text[:_MAX_CHARACTERS]}…" if len(text) > _MAX_CHARACTERS else text


def _check(address: str) -> None:
    """Raise an error if nothing responds at an address; Ray itself would retry for minutes."""
    if address == AUTO:
        address = os.environ.get("RAY_ADDRESS", AUTO)
    if address in (AUTO, _LOCAL):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise UsageError(
            f"--ray {address}: expected HOST:PORT of the head node, or no value for this machine's cluster; "
            "ray:// is not supported: run the command on a node of the cluster"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACH_S).close()
    except OSError as error:
        raise LiveEvalError(
            f"no Ray cluster responds at {address}: {error}; start one there with `ray start --head`"
        ) from None


@contextlib.contextmanager
def _signal_handlers_restored() -> Iterator[None]:
    """Restore the signal handlers that Ray replaces in the block."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def _environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables in the block, and remove those whose value is None."""
    before = {name: os.environ.get(name) for name in variables}
    _set(variables)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
