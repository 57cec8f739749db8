"""Define the specification of a client, and find and load plugins by entry point.

A client is an entry point in the group ``live_eval.clients`` that refers to a `ClientSpec`; a judge is an
entry point in the group ``live_eval.judges`` that refers to a `JudgeSpec`. Finding a plugin imports only its
specification; the implementation is imported on first use.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Self

from live_eval.dialect import TransportKind
from live_eval.errors import JudgeError, PluginError
from live_eval.extras import install_command
from live_eval.judging import JudgeKind, JudgeRole, JudgeSpec, OptionSpec
from live_eval.redaction import has_key
from live_eval.text.suggestions import did_you_mean
from live_eval.types import History, TurnMode
from live_eval.weights import recorded_weights

__all__ = [
    "CLIENTS",
    "JUDGES",
    "ClientSpec",
    "Emulation",
    "Plugin",
    "TriedWith",
    "client",
    "default_judges",
    "find_plugins",
    "installed_judges",
    "judge",
    "judges_with",
    "load",
    "missing_requirements",
    "package_clashes",
]

CLIENTS = "live_eval.clients"
JUDGES = "live_eval.judges"
_DISTRIBUTION = "live-eval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """The reference endpoint's emulation of a service, for tests and calibrations of its client.

    Args:
        base_path: Path of the base URL to give the client, such as ``"/v1"``.
        lossy_input: Whether the user's audio goes through a lossy codec.
        exclusive: Whether the service allows only one session at a time.
        calibrates: Whether `live-eval calibrate` uses this client to measure its transport kind.
    """

    base_path: str = ""
    lossy_input: bool = False
    exclusive: bool = False
    calibrates: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedWith:
    """Third-party programs that a client was tried with, and what it was never tried with.

    Programs "by hand" are in no test.

    Args:
        servers: Third-party agents or servers that the client talked to.
        clients: Third-party clients that talked to the reference endpoint's emulation.
        untried: What the client was never tried with; empty if nothing.
    """

    servers: str = ""
    clients: str = ""
    untried: str = "the vendor's service"

    @property
    def strangers(self) -> str:
        """The third-party programs; empty if there are none."""
        with_emulation = f"{self.clients} (as client of the built-in endpoint)" if self.clients else ""
        return "; ".join(filter(None, (self.servers, with_emulation)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSpec:
    """The specification of a client, referenced by an entry point; reading it does not load the client.

    Args:
        name: Client name for ``--endpoint``.
        title: Service name in reports.
        dialect: Dialect class, ``"module:Class"``, constructed with `EndpointSettings`.
        transport: Transport class, ``"module:Class"``, constructed with a `Clock`.
        transport_kind: Kind of the transport.
        base_url: Service URL; None if the user must pass a URL, or if `launch` starts the service.
        model: Default model, or None.
        voice: Default voice, or None.
        transcription_model: Default model for input transcription, or None.
        key_variable: Environment variable with the API key, or None if no key is needed.
        packages: Packages that must be importable; `extra` installs them.
        python: Oldest version of Python that `packages` support.
        key_id_variable, base_url_variable: Environment variables with the key's name and the URL, or None.
        key_token_variable: Environment variable with the session token of a temporary key, or None.
        input_rate_hz: Sample rate of the user's audio on the wire.
        output_rate_hz: Sample rate of the reply's audio.
        frame_ms: Length of a user audio frame.
        line: What alters the audio or its timing before or after the model, such as "8 kHz µ-law"; empty if
            nothing does.
        line_setting: Path of the setting in ``endpoint.extra`` that `line` states, as its name and value.
        turn_modes: Turn modes that the service supports; the first is the default.
        takes_instructions: Whether a session accepts a system prompt.
        agent_field: Field of ``endpoint.extra`` with the ID of a stored agent, which has its own model, voice
            and greeting; empty if the service has no such agents.
        histories: How a session can begin in the middle of a dialogue (`EndpointSettings.history`).
        session_limit_s: Session length after which the service ends a session, or None.
        sessions: Default limit on concurrent sessions, which also limits a run; None if unknown.
        greets: Whether the service speaks first, at `base_url` or as started by `launch`. None if unknown:
            the first sessions of a run wait for a greeting.
        input_audio_tokens_per_s: Tokens counted per second of the user's audio; None if unknown, 0 if none.
        output_audio_tokens_per_s: Tokens per second of a reply, or None.
        reply_speed: Seconds of reply audio that the service sends per second, or None if unknown.
        limits: Other limits, for users.
        docs_url: URL of the vendor's documentation.
        verified: Date of the last test against the vendor's service, or None.
        trial: What the client was tried with.
        launch: ``"module:function"`` that starts the service for a run without a base URL: called with the
            data set's folder and the log folder, it returns an asynchronous context manager of the base URL.
            None if the service cannot be started.
        emulation: Emulation by the reference endpoint, or None.
    """

    name: str
    title: str
    dialect: str
    transport: str
    base_url: str | None = None
    transport_kind: TransportKind = TransportKind.WEBSOCKET
    model: str | None = None
    voice: str | None = None
    transcription_model: str | None = None
    key_variable: str | None = None
    packages: tuple[str, ...] = ()
    extra: str | None = None
    python: tuple[int, int] = (3, 11)
    key_id_variable: str | None = None
    key_token_variable: str | None = None
    base_url_variable: str | None = None
    input_rate_hz: int = 24_000
    output_rate_hz: int = 24_000
    frame_ms: int = 20
    line: str = ""
    line_setting: tuple[str, ...] = ()
    turn_modes: tuple[TurnMode, ...] = (TurnMode.SERVER_VAD, TurnMode.MANUAL)
    takes_instructions: bool = True
    agent_field: str = ""
    histories: tuple[History, ...] = ()
    session_limit_s: int | None = None
    sessions: int | None = None
    greets: bool | None = None
    input_audio_tokens_per_s: float | None = None
    output_audio_tokens_per_s: float | None = None
    reply_speed: float | None = None
    limits: str = ""
    docs_url: str = ""
    verified: str | None = None
    trial: TriedWith = TriedWith()
    launch: str | None = None
    emulation: Emulation | None = None

    def with_extra(self, extra: Mapping[str, Any]) -> Self:
        """Return the specification of a session with these settings in the vendor's spelling.

        A stored agent replaces the default model and voice, and accepts no earlier turns. It may speak first,
        and so may any agent with further settings.
        """
        if not self.agent_field or not extra:
            return self
        value: Any = extra
        for name in self.line_setting:
            value = value.get(name) if isinstance(value, Mapping) else None
        line = f"{self.line_setting[-1]} {value}" if self.line_setting and value is not None else self.line
        found = replace(self, greets=self.greets or None, line=line)
        if not isinstance(extra.get(self.agent_field), str):
            return found
        transcriber = self.transcription_model and "built-in"
        return replace(found, model=None, voice=None, transcription_model=transcriber, histories=())


_SPECS: dict[str, type[ClientSpec] | type[JudgeSpec]] = {CLIENTS: ClientSpec, JUDGES: JudgeSpec}


@dataclass(frozen=True, slots=True)
class Plugin:
    """An installed plugin.

    Args:
        spec: Specification; None if the plugin is broken.
        problem: Why the plugin is broken, or None.
    """

    group: str
    name: str
    distribution: str
    spec: ClientSpec | JudgeSpec | None
    problem: str | None


@cache
def find_plugins(group: str) -> tuple[Plugin, ...]:
    """Return a group's plugins, sorted by name.

    Plugins of two distributions with the same name are both marked as broken.
    """
    found = sorted(metadata.entry_points(group=group), key=lambda entry: entry.name)
    names = [entry.name for entry in found]
    return tuple(_examine(entry, clash=names.count(entry.name) > 1) for entry in found)


def _examine(entry: metadata.EntryPoint, *, clash: bool) -> Plugin:
    distribution = entry.dist.name if entry.dist is not None else "unknown"
    spec: ClientSpec | JudgeSpec | None = None
    problem: str | None = None
    try:
        loaded = entry.load()
    except Exception as error:
        problem = f"cannot load {entry.value}: {type(error).__name__}: {error}"
    else:
        expected = _SPECS[entry.group]
        if not isinstance(loaded, expected):
            problem = f"expected {entry.value} to be a {expected.__name__}, got {type(loaded).__name__}"
        elif loaded.name != entry.name:
            problem = (
                f"expected the name {entry.name!r} of the entry point in its specification, got "
                f"{loaded.name!r}"
            )
        elif clash:
            problem = "more than one distribution has a plugin with this name"
        else:
            spec = loaded
    return Plugin(entry.group, entry.name, distribution, spec, problem)


def client(name: str) -> ClientSpec:
    """Return the specification of the client `name`.

    Raises:
        PluginError: The client is unknown or broken; the message lists the known names.
    """
    spec = _named(CLIENTS, name, "endpoint")
    assert isinstance(spec, ClientSpec)
    return spec


def judge(name: str) -> JudgeSpec:
    """Return the specification of the judge `name`.

    Raises:
        PluginError: The judge is unknown or broken; the message lists the known names.
    """
    spec = _named(JUDGES, name, "judge")
    assert isinstance(spec, JudgeSpec)
    return spec


def installed_judges() -> tuple[JudgeSpec, ...]:
    """Return the specifications of the installed judges that are not broken, sorted by name."""
    return tuple(plugin.spec for plugin in find_plugins(JUDGES) if isinstance(plugin.spec, JudgeSpec))


def judges_with(role: JudgeRole) -> tuple[str, ...]:
    """Return the names of the installed judges with a role."""
    return tuple(spec.name for spec in installed_judges() if spec.role is role)


def default_judges(*, pairwise: bool = False) -> tuple[str, ...]:
    """Return the names of the default judges for single replies or for pairs of replies, in order."""
    places = {
        spec.name: spec.default_place
        for spec in installed_judges()
        if spec.default_place is not None and (spec.kind is JudgeKind.PAIRWISE) is pairwise
    }
    return tuple(sorted(places, key=places.__getitem__))


def _named(group: str, name: str, what: str) -> ClientSpec | JudgeSpec:
    plugins = find_plugins(group)
    for plugin in plugins:
        if plugin.name == name:
            if plugin.spec is None:
                raise PluginError(f"{what} {name!r} (of {plugin.distribution}) is broken: {plugin.problem}")
            return plugin.spec
    names = [plugin.name for plugin in plugins]
    known = ", ".join(names) or "none; is live-eval installed?"
    raise PluginError(f"unknown {what} {name!r}{did_you_mean(name, names)}; expected one of {known}")


def load(reference: str) -> Any:
    """Return the object that ``"module:name"`` refers to.

    Raises:
        PluginError: The module cannot be imported or does not define the name.
    """
    module_name, _, name = reference.partition(":")
    try:
        return getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise PluginError(f"cannot load {reference}: {error}") from error


def missing_requirements(
    spec: ClientSpec | JudgeSpec, choices: Mapping[str, str] | None = None
) -> str | None:
    """Return the plugin's requirements that are missing here (a package, a key, weights, data), or None.

    Weights and files are not read; the judge checks them when it is loaded.

    Args:
        choices: The user's option values for a judge, by name; other options have their defaults.
    """
    missing: list[str | None] = []
    packages = dict.fromkeys(spec.packages)
    if isinstance(spec, JudgeSpec):
        values = {option.name: (choices or {}).get(option.name, option.default) for option in spec.options}
        for option in spec.options:
            packages |= dict.fromkeys(option.packages.get(values[option.name], ()))
    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    if absent:
        hint = install_command(spec.extra) if spec.extra else ""
        if isinstance(spec, ClientSpec) and sys.version_info < spec.python:
            needed, here = (".".join(map(str, version)) for version in (spec.python, sys.version_info[:2]))
            hint = f"needs Python {needed} or newer, this is {here}{f'; there: {hint}' if hint else ''}"
        missing.append(f"package {', '.join(absent)}{f' ({hint})' if hint else ''}")
    if spec.key_variable and not has_key(spec.key_variable):
        missing.append(f"API key (set {spec.key_variable})")
    if isinstance(spec, JudgeSpec):
        problems = [_missing_for_option(option, values[option.name]) for option in spec.options]
        if spec.machine_check is not None and not absent and not any(problems):
            problems.append(_run_machine_check(spec.machine_check, values))
        missing += problems
    return "; ".join(filter(None, missing)) or None


def _run_machine_check(check: str, values: Mapping[str, str]) -> str | None:
    try:
        problem: str | None = load(check)(**values)
    except PluginError as error:
        return str(error)
    return problem


def _missing_for_option(option: OptionSpec, value: str) -> str | None:
    """Describe the missing weights or file that an option's value refers to, if any."""
    known = {weights.name: weights for weights in option.weights}
    if value in known:
        try:
            if recorded_weights(known[value]) is None:
                return f"weights {value} (live-eval weights fetch {value})"
        except JudgeError as error:
            return f"weights {value} ({error})"
    # A default that is not in `weights` is part of a package.
    elif known and value != option.default and not Path(value).exists():
        return f"weights at {value} ({option.name}: {', '.join(known)}, or a path)"
    elif option.is_file and value and not Path(value).is_file():
        return f"file {value} ({option.name})"
    return None


def package_clashes() -> list[str]:
    """Return a warning for each other distribution with a package `live_eval`, which pip overwrites
    silently.
    """
    owners = set(metadata.packages_distributions().get("live_eval", ()))
    return [
        f"the package 'live_eval' is also installed by {owner}" for owner in sorted(owners - {_DISTRIBUTION})
    ]
