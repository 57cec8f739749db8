"""Distinguish endpoints, run files and addresses in command arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from live_eval.cli._flags import configured
from live_eval.errors import UsageError
from live_eval.redaction import public_url
from live_eval.registry import CLIENTS, find_plugins
from live_eval.run.run_file import RunConfig, read_run_file

__all__ = ["check_endpoint", "names_of", "read_target", "run_file_of"]


def run_file_of(target: str) -> Path | None:
    """Return the run file that a target names, or None for an endpoint.

    Raises:
        UsageError: The target is an address.
    """
    if "://" in target:
        raise UsageError(
            f"{public_url(target)}: expected an endpoint or a run file; pass an address with --base-url"
        )
    path = Path(target)
    is_endpoint = any(plugin.name == target for plugin in find_plugins(CLIENTS))
    is_file = not is_endpoint and (path.name != target or path.suffix or path.exists())
    return path if is_file else None


def check_endpoint(target: str) -> str:
    """Check that a target is an endpoint, for commands that do not support run files, and return it.

    Raises:
        UsageError: The target is an address or a run file.
    """
    if "://" in target:
        raise UsageError(f"{public_url(target)}: expected an endpoint; pass an address with --base-url")
    if run_file_of(target) is not None:
        raise UsageError(f"{target}: expected an endpoint, not a run file; pass its settings as flags")
    return target


def read_target(target: str, flags: Mapping[str, Any]) -> RunConfig:
    """Return the settings of an endpoint or a run file, overridden by flags."""
    path = run_file_of(target)
    return configured({"endpoint": {"name": target}} if path is None else read_run_file(path), flags)


def names_of(targets: Sequence[str]) -> list[str]:
    """Return a name for each of several endpoints or run files.

    Raises:
        UsageError: Two targets have the same name.
    """
    names = [target if (path := run_file_of(target)) is None else path.stem for target in targets]
    if len(set(names)) < len(names):
        raise UsageError(f"expected endpoints or run files with different names, got {', '.join(targets)}")
    return names
