"""Find the settings that the user must pass again because the manifest omits their secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from live_eval.errors import UsageError
from live_eval.redaction import MASK, SECRETS, public_settings

__all__ = ["SettingPath", "check_repeated", "public_config", "redacted_paths"]

SettingPath: TypeAlias = tuple[str, ...]
"""A setting's path: table, key, and keys in nested tables."""


def public_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's settings as JSON values without secrets."""
    public = {table: public_settings(config[table]) for table in ("endpoint", "judges")}
    return dict(SECRETS.values({**config, **public}))


def redacted_paths(config: Mapping[str, Any], public: Mapping[str, Any]) -> list[SettingPath]:
    """Return the paths of settings that `public_config` changed.

    >>> redacted_paths({"endpoint": {"base_url": "ws://me:pw@host"}}, {"endpoint": {"base_url": "ws://host"}})
    [('endpoint', 'base_url')]
    """
    return [path for path, value in _leaves(config, ()) if _at(public, path) != value]


def check_repeated(
    manifest: Mapping[str, Any],
    given: Mapping[str, Any],
    flags: Mapping[str, str],
    needs: Callable[[SettingPath], bool],
) -> None:
    """Check that the user has passed again every required setting that an earlier run's manifest redacts.

    Args:
        given: The user's tables and keys.
        flags: Each run-file key's flag.
        needs: Function that returns whether a setting is used.

    Raises:
        UsageError: A setting is missing. The message lists the flags to pass.
    """
    config = manifest.get("config", {})
    paths = manifest.get("redacted")
    if paths is None:  # a run recorded with an earlier version
        paths = [path for path, value in _leaves(config, ()) if _is_masked(value)]
    named = [tuple(map(str, path)) for path in paths if len(path) > 1] if _is_paths(paths) else []
    missing = [path for path in named if not _is_given(given, path) and needs(path)]
    if missing:
        repeat = ", ".join(dict.fromkeys(_flag(path, flags) for path in missing))
        raise UsageError(f"the run's settings are reused, but secrets are not stored: pass {repeat} again")


def _is_paths(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(path, list | tuple) for path in value)


def _is_given(given: Mapping[str, Any], path: SettingPath) -> bool:
    """Return whether the user passed a setting or a table that contains it."""
    value: Any = given
    for depth, key in enumerate(path):
        if not isinstance(value, Mapping):
            break
        if key not in value:
            return depth > 2
        value = value[key]
    return not _is_masked(value)


def _flag(path: SettingPath, flags: Mapping[str, str]) -> str:
    table, key, *inner = path
    flag = flags.get(f"{table}.{key}", f"{table}.{key}")
    if not inner:
        return flag
    return f"{flag} {'.'.join(inner) if table == 'judges' else inner[0]}=…"


def _leaves(value: Any, path: SettingPath) -> Iterator[tuple[SettingPath, Any]]:
    """Yield the settings in tables; a list counts as one setting."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, str(key)))
    else:
        yield path, value


def _at(value: Any, path: SettingPath) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _is_masked(value: Any) -> bool:
    match value:
        case str():
            return MASK in value
        case list() | tuple():
            return any(map(_is_masked, value))
    return False
