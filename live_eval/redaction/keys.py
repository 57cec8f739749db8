"""Where keys come from: the environment, a keyring, or a private file. Never a command line."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from live_eval.errors import UsageError
from live_eval.redaction.redactor import SECRETS
from live_eval.types import Secret

__all__ = ["find_key", "has_key", "key_source"]

_FILE, _KEYRING = "file:", "keyring:"
_FORMS = "file:PATH or keyring:SERVICE/NAME"
_MOST_BYTES = 65_536


def key_source(given: str) -> str:
    """Return `given` if it says where a key is other than in the environment.

    >>> key_source("keyring:live-eval/openai")
    'keyring:live-eval/openai'

    Raises:
        ValueError: It is something else. It may be the key itself, so from here on it is redacted.
    """
    service, slash, name = given.removeprefix(_KEYRING).rpartition("/")
    if given.startswith(_KEYRING) and service and slash and name:
        return given
    if given.startswith(_FILE) and given != _FILE:
        return given
    SECRETS.learn(given)
    raise ValueError(f"expected {_FORMS}; to read a key from the environment, name its variable")


def find_key(source: str) -> Secret | None:
    """Return a key from where it is kept; from here on it is redacted everywhere.

    Args:
        source: ``file:PATH``, ``keyring:SERVICE/NAME``, or the name of an environment variable.

    Returns:
        The key; None if the variable is not set.

    Raises:
        UsageError: The file or the keyring does not hold one, or others can read the file.
    """
    if source.startswith(_FILE):
        value = _from_file(Path(source.removeprefix(_FILE)).expanduser())
    elif source.startswith(_KEYRING):
        value = _from_keyring(*source.removeprefix(_KEYRING).rsplit("/", 1))
    else:
        value = os.environ.get(source, "")
    SECRETS.learn(value)
    return Secret(value) if value else None


def has_key(source: str) -> bool:
    """Return whether `find_key` would return one, as far as that shows without asking a keyring."""
    if source.startswith(_FILE):
        return Path(source.removeprefix(_FILE)).expanduser().is_file()
    return source.startswith(_KEYRING) or bool(os.environ.get(source))


def _from_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"{path}: expected a file with a key")
            if os.name == "posix" and status.st_mode & 0o077:
                mode = stat.S_IMODE(status.st_mode)
                raise UsageError(f"{path}: others can read this key (mode {mode:o}): run chmod 600 {path}")
            data = file.read(_MOST_BYTES)
    except OSError as error:
        raise UsageError(f"{path}: expected a file with a key: {error.strerror}") from None
    try:
        lines = data.decode().split()
    except UnicodeDecodeError:
        lines = []
    if len(lines) != 1:
        raise UsageError(f"{path}: expected one line with a key, and nothing else")
    return lines[0]


def _from_keyring(service: str, name: str) -> str:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        hint = "pip install 'live-eval[keyring]'"
        raise UsageError(f"a key in a keyring needs the package keyring: {hint}") from None
    try:
        value = keyring.get_password(service, name)
    except KeyringError as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"the keyring cannot be read: {why}") from None
    if not value:
        raise UsageError(f"the keyring has no key {name!r} of {service!r}: run keyring set {service} {name}")
    return value
