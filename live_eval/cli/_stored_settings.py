"""Reuse the settings of a stored run in a later command.

A run folder may be untrusted, so its manifest must not control security-relevant settings: where keys are
sent, which files are read, and which cluster is joined. These come only from the command line and the user's
run file. See the table in docs/explanation/secrets.md.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from live_eval import registry
from live_eval.cli._flags import FLAGS, configured, overlay
from live_eval.data import SAMPLE, SAMPLE_DIALOGUES
from live_eval.errors import PluginError, UsageError
from live_eval.http.hosts import is_loopback
from live_eval.impair import PARAMETERS
from live_eval.judging import JudgeKind
from live_eval.recording import RunReader, part_of
from live_eval.redaction.secret_settings import public_settings
from live_eval.run.prompts import PROMPTS
from live_eval.run.redacted_settings import SettingPath, check_repeated
from live_eval.run.run_file import EndpointTable, JudgesTable
from live_eval.scoring.judge_runner import JudgeOptions, key_recipients
from live_eval.scoring.llm import OPENAI_BASE_URL, PRESETS

_REUSED_TABLES = ("endpoint", "data", "task", "turns", "impair", "judges")
_KEYS = ("key_from", "key_variable")
_PORTS = {"https": 443, "wss": 443, "http": 80, "ws": 80}
_ENCRYPTED = ("https", "wss")
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|[0-9a-f:.]+")


def judges_table(run: Path | None, flags: Mapping[str, Any], only: str | None = None) -> JudgesTable:
    """Return a run's judges and their options, overridden by flags.

    Args:
        run: The run; None for the flags alone.
        flags: The values of the flags that `live_eval.cli._flags.judge_flags` added.
        only: The only judge to use; None for the judges in the table.

    Raises:
        StoreError: The folder contains no run.
        UsageError: A value is not allowed, or the user must pass a setting again. The message names the
            setting.
    """
    flags = dict(flags)
    trusted = flags.pop("trusted", ())
    manifest: Mapping[str, Any] = {}
    if run is not None:
        with RunReader.open(run) as reader:
            manifest = reader.manifest
    given = overlay({}, flags)
    stored = stored_settings(manifest, given, trusted, tables=("judges",), only=only)
    stored["judges"].pop("jobs", None)  # specific to the machine that recorded the run
    return configured(stored, flags).judges


def stored_settings(
    manifest: Mapping[str, Any],
    given: Mapping[str, Any],
    trusted: Collection[str],
    *,
    tables: Sequence[str] = _REUSED_TABLES,
    only: str | None = None,
) -> dict[str, dict[str, Any]]:
    """Return the settings in a manifest that a command reuses.

    Security-relevant settings are omitted; the user must pass them again if the command needs them. Only
    addresses of the vendor or of a trusted host are returned, since any program may listen on a local
    address.

    Args:
        given: Tables and keys from the run file and flags.
        trusted: Hosts trusted by the user: ``HOST``, ``HOST:PORT`` or, without encryption, ``ws://HOST``.
        only: The only judge to use; None for the judges in the table.

    Raises:
        UsageError: The user must pass settings again. The message has a line for each setting, with the flag
            and the manifest's value.
    """
    config = part_of(manifest, "config")
    stored = {table: dict(part_of(config, table)) for table in tables}
    own = {table: dict(part_of(given, table)) for table in _REUSED_TABLES}
    for judges in (stored["judges"], own["judges"]):
        judges["options"] = _dotted(part_of(judges, "options"))
    stored["judges"].pop("recordings", None)  # only the user decides which keys may be sent
    names = (only,) if only is not None else own["judges"].get("names", stored["judges"].get("names", ()))
    names = [str(name) for name in names] if isinstance(names, list | tuple) else []
    needs = needs_for(names)
    check_repeated(manifest, given, FLAGS, lambda path: path[0] in tables and needs(path))
    hosts = frozenset(map(_usual, trusted))
    asked = [
        *(_endpoint(stored["endpoint"], own["endpoint"], hosts) if "endpoint" in tables else ()),
        *_files(stored, own),
        *_judges(stored["judges"], own["judges"], [name for name in names if _asks_a_model(name)], hosts),
        *_weights(stored["judges"]["options"], own["judges"]["options"], names),
    ]
    if asked:
        raise UsageError(
            "the run's manifest contains an address, a key source or a file that only you may choose. The "
            "values below are from the folder: check that you trust them, then pass them as flags:\n  "
            + "\n  ".join(dict.fromkeys(asked))
        )
    return stored


def needs_for(judges: Sequence[str]) -> Callable[[SettingPath], bool]:
    """Return a predicate for the settings that a run with these judges uses."""

    def needs(path: SettingPath) -> bool:
        table, key, *inner = path
        if table != "judges":
            return table != "output"
        if key == "options":
            return bool(inner) and inner[0].partition(".")[0] in judges
        return not key.startswith("llm_") or any(map(_asks_a_model, judges))

    return needs


def print_key(recipient: str | None) -> None:
    """Print the host that receives the endpoint's key (`Plan.key_recipient`)."""
    if recipient is not None:
        click.echo(f"note: {recipient}", err=True)


def print_judges_keys(names: Sequence[str], options: JudgeOptions) -> None:
    """Print the hosts that receive the API keys of judge models."""
    for line in key_recipients([registry.judge(name) for name in names], options):
        click.echo(f"note: {line}", err=True)


def _asks_a_model(name: str) -> bool:
    try:
        return registry.judge(name).kind is not JudgeKind.LOCAL
    except PluginError:
        return False  # reported when the judge is loaded


def _dotted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return judge options keyed by ``JUDGE.OPTION``, flattening options written as tables."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        inner = value.items() if isinstance(value, Mapping) else ()
        found |= {f"{name}.{option}": each for option, each in inner} or {name: value}
    return found


def _endpoint(stored: dict[str, Any], given: Mapping[str, Any], hosts: Collection[str]) -> list[str]:
    spec = registry.client(str(given.get("name", stored.get("name", EndpointTable().name))))
    asked = []
    for key in _KEYS:
        value = stored.pop(key, None)
        if value not in (None, spec.key_variable) and not any(name in given for name in _KEYS):
            asked.append(_flag(f"endpoint.{key}", value))
    url = stored.get("base_url")
    if url is not None and "base_url" not in given and not _same(url, spec.base_url):
        asked += _address("endpoint.base_url", url, hosts)
    servers = stored.pop("ice_servers", ())
    if servers and "ice_servers" not in given:
        asked.append(_flag("endpoint.ice_servers", ",".join(map(str, public_settings(_several(servers))))))
    return asked


def _files(stored: dict[str, dict[str, Any]], given: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Remove settings that contain file names; return the flags to pass instead."""
    asked = []
    inert: Mapping[tuple[str, str], Callable[[Any], bool]] = {
        ("data", "path"): lambda value: value in (SAMPLE, SAMPLE_DIALOGUES),
        ("data", "audio_root"): lambda value: value is None,
        ("task", "prompt"): lambda value: value in PROMPTS,
        ("impair", "specs"): lambda value: not (value and _reads_file(value)),
    }
    for (table, key), is_inert in inert.items():
        if key not in stored.get(table, ()) or is_inert(stored[table][key]):
            continue
        value = stored[table].pop(key)
        if key not in given[table]:
            asked += [_flag(f"{table}.{key}", each) for each in _several(value)]
    return asked


def _reads_file(specs: Any) -> bool:
    """Return whether impairments refer to a recording; malformed values are treated as references."""
    if not isinstance(specs, list | tuple) or not all(isinstance(spec, str) for spec in specs):
        return True
    for item in ",".join(specs).split(","):
        name, _, value = (part.strip() for part in item.partition("="))
        parameter = PARAMETERS.get(name)
        if parameter is not None and parameter.value.names_file(value):
            return True
    return False


def _judges(
    stored: dict[str, Any], given: Mapping[str, Any], askers: Sequence[str], hosts: Collection[str]
) -> list[str]:
    """Remove model addresses and keys that are not the vendor's; return the flags to pass instead."""
    asked = []
    own = given["options"]
    specs = [registry.judge(name) for name in askers]
    preset = PRESETS.get(str(given.get("llm", stored.get("llm"))))
    usual = [
        (preset.base_url, preset.key_variable)
        if preset is not None
        else (spec.base_url or OPENAI_BASE_URL, spec.key_variable)
        for spec in specs
    ]
    has_service = any(key in given for key in ("llm", "llm_base_url"))
    chooses_key = any(f"llm_{key}" in given for key in _KEYS)
    url = stored.pop("llm_base_url", None)
    is_vendors = url is None or all(_same(url, address) for address, _ in usual)
    addresses = {spec.name: address for spec, (address, _) in zip(specs, usual, strict=True)}
    all_vendors = is_vendors and all(
        _same((stored["options"] | own).get(f"{name}.base_url", address), address)
        for name, address in addresses.items()
    )
    for key in _KEYS:
        value = stored.pop(f"llm_{key}", None)
        is_default = all_vendors and all(value == variable for _, variable in usual)
        if value is not None and specs and not (has_service or chooses_key or is_default):
            asked.append(_flag(f"judges.llm_{key}", value))
    if has_service:
        stored.pop("llm", None)
    elif specs and not is_vendors:
        asked += _address("judges.llm_base_url", url, hosts)
        stored["llm_base_url"] = url
    of_all = given.get("llm_base_url", stored.get("llm_base_url"))
    for spec, (address, variable) in zip(specs, usual, strict=True):
        asked += _judge(
            spec.name, stored["options"], own, of_all, (address, variable), hosts, chooses_key=chooses_key
        )
    return asked


def _judge(
    name: str,
    options: dict[str, Any],
    given: Mapping[str, Any],
    of_all: str | None,
    usual: tuple[str, str | None],
    hosts: Collection[str],
    *,
    chooses_key: bool,
) -> list[str]:
    """Remove addresses and keys from one judge's options; return the flags to pass instead."""
    asked = []
    address, variable = usual
    chooses_key = chooses_key or any(f"{name}.{key}" in given for key in _KEYS)
    stored = options.pop(f"{name}.base_url", None)
    url = given.get(f"{name}.base_url", stored or of_all)
    is_vendors = url is None or _same(url, address)
    for key in _KEYS:
        value = options.pop(f"{name}.{key}", None)
        if value is not None and not chooses_key and not (is_vendors and value == variable):
            asked.append(_flag(f"judges.options.{name}.{key}", value))
    if stored is not None and f"{name}.base_url" not in given and not is_vendors:
        asked += _address(f"judges.options.{name}.base_url", stored, hosts)
        options[f"{name}.base_url"] = stored
    return asked


def _weights(stored: dict[str, Any], given: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Remove judge files and the options of unused judges; return the flags to pass instead."""
    asked = []
    for name, value in list(stored.items()):
        judge_name, _, option_name = name.partition(".")
        if judge_name not in names:
            del stored[name]
            continue
        option = next((each for each in registry.judge(judge_name).options if each.name == option_name), None)
        if option is None or not (option.is_file or option.weights):
            continue
        if value not in (option.default, *(weights.name for weights in option.weights)):
            del stored[name]
            if name not in given:
                asked.append(_flag(f"judges.options.{name}", value))
    return asked


def _address(key: str, url: Any, hosts: Collection[str]) -> list[str]:
    """Return the flag required to use a stored address, or [] if the host is trusted."""
    name = _host_name(str(url))
    if name is None:
        return [_flag(key, url)]
    return [] if name in hosts else [f"--trust-host {name}"]


def _host_name(url: str) -> str | None:
    """Return the ``--trust-host`` value for an address, or None if the address cannot be trusted.

    Addresses that parsers could read differently cannot be trusted. The value for an unencrypted address
    includes the scheme, unless the host is this machine.

    >>> _host_name("wss://Example.org:443/v1"), _host_name("http://example.org:8000/v1")
    ('example.org', 'http://example.org:8000')
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or "@" in parts.netloc or "\\" in url or not url.isprintable():
        return None
    if not _HOST.fullmatch(host):
        return None
    name = f"[{host}]" if ":" in host else host
    if port not in (None, _PORTS[parts.scheme]):
        name = f"{name}:{port}"
    plain = parts.scheme not in _ENCRYPTED and not is_loopback(host)
    return f"{parts.scheme}://{name}" if plain else name


def _usual(host: str) -> str:
    """Return a trusted host in the format of `_host_name`."""
    name = _host_name(host if "://" in host else f"https://{host}")
    if name is None:
        raise UsageError(f"--trust-host {host}: expected HOST, HOST:PORT or, without encryption, ws://HOST")
    return name


def _same(url: Any, default: str | None) -> bool:
    return default is not None and str(url).rstrip("/") == default.rstrip("/")


def _several(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _flag(key: str, value: Any) -> str:
    """Return a flag with its value, without credentials and quoted for a shell."""
    table, name, *inner = key.split(".", 2)
    public = public_settings(str(value))
    text = "".join(letter if letter.isprintable() else "?" for letter in public)
    return f"{FLAGS[f'{table}.{name}']} {shlex.quote(f'{inner[0]}={text}' if inner else text)}"
