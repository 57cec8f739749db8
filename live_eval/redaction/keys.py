"""Read keys from the environment, a keyring or a private file, never from the command line."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from live_eval.errors import UsageError
from live_eval.extras import install_command
from live_eval.files import open_regular
from live_eval.redaction.redactor import SECRETS
from live_eval.redaction.secret_settings import host_of
from live_eval.types import Secret

__all__ = ["find_key", "has_key", "key_source", "key_variable", "recipient_in_words"]

_FILE, _KEYRING = "file:", "keyring:"
_FORMS = "file:PATH or keyring:SERVICE/NAME"
_MAX_BYTES = 65_536
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONG_PART = 12


def key_source(given: str) -> str:
    """Return `given` if it is a key source other than an environment variable.

    >>> key_source("keyring:live-eval/openai")
    'keyring:live-eval/openai'

    Raises:
        ValueError: `given` is anything else. It may be the key itself, so it is redacted from then on.
    """
    service, _, name = given.removeprefix(_KEYRING).rpartition("/")
    if given.startswith(_KEYRING) and service and name:
        return given
    if given.startswith(_FILE) and given != _FILE:
        return given
    SECRETS.learn(given)
    raise ValueError(
        f"expected {_FORMS}; to read a key from an environment variable, use --key-variable "
        "(key_variable in a run file)"
    )


def key_variable(given: str) -> str:
    """Return `given` if it is an environment variable name that does not look like a key.

    >>> key_variable("OPENAI_API_KEY")
    'OPENAI_API_KEY'

    Raises:
        ValueError: `given` is anything else. It may be the key itself, so it is redacted from then on.
    """
    if given in os.environ or (_NAME.fullmatch(given) and not _looks_like_key(given)):
        return given
    SECRETS.learn(given)
    raise ValueError(
        "expected the name of an environment variable (letters, digits, underscores) that contains the key; "
        "to read a key from another source, use key_from (--key-from)"
    )


def _looks_like_key(name: str) -> bool:
    """Return whether a name has a long part with mixed case or digits, unlike any word."""
    return any(
        len(part) >= _LONG_PART and not (part.isalpha() and (part.isupper() or part[1:].islower()))
        for part in name.split("_")
    )


def find_key(source: str) -> Secret | None:
    """Read a key from its source, and redact it everywhere from then on.

    Args:
        source: ``file:PATH``, ``keyring:SERVICE/NAME``, or the name of an environment variable.

    Returns:
        The key; None if the variable is not set.

    Raises:
        UsageError: The file or the keyring does not contain a key, or other users can read the file.
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
    """Return whether a key appears to exist, without reading files or querying a keyring."""
    if source.startswith(_FILE):
        return Path(source.removeprefix(_FILE)).expanduser().is_file()
    return source.startswith(_KEYRING) or bool(os.environ.get(source))


def recipient_in_words(source: str, url: str) -> str:
    """Describe which host receives a key.

    >>> recipient_in_words("OPENAI_API_KEY", "wss://api.openai.com/v1")
    'api.openai.com receives the key in OPENAI_API_KEY'

    Args:
        source: Source of the key; see `find_key`.
        url: URL to which the key is sent.
    """
    return f"{host_of(url)} receives the key in {source}"


def _from_file(path: Path) -> str:
    try:
        with open_regular(path, links=True) as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if os.name == "posix" and mode & 0o077:
                raise UsageError(
                    f"{path}: other users can read this key (mode {mode:o}): run chmod 600 {path}"
                )
            data = file.read(_MAX_BYTES)
    except OSError as error:
        raise UsageError(f"cannot read the key in {path}: {error.strerror}") from None
    try:
        lines = data.decode().split()
    except UnicodeDecodeError:
        lines = []
    if len(lines) != 1:
        raise UsageError(f"{path}: expected a single line with the key")
    return lines[0]


def _from_keyring(service: str, name: str) -> str:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        hint = install_command("keyring")
        raise UsageError(f"reading a key from a keyring needs the package keyring: {hint}") from None
    try:
        value = keyring.get_password(service, name)
    except KeyringError as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"cannot read the keyring: {why}") from None
    if not value:
        raise UsageError(f"the keyring has no key {name!r} for {service!r}: run keyring set {service} {name}")
    return value
