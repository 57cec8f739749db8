"""Plan a run: its endpoint, its cases, and the settings of each session."""

from __future__ import annotations

import contextlib
import inspect
import os
import platform
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from live_eval import __version__
from live_eval.cassettes import Cassette, Step
from live_eval.data import DataKind, DataOptions, DataSet, check_readable, load, locate, select
from live_eval.dialect import EarlierTurn, EndpointSettings, TransportKind
from live_eval.errors import FailureKind, UsageError
from live_eval.http.hosts import is_loopback
from live_eval.impair import Impairment, parse
from live_eval.recording.calibrations import nearest
from live_eval.recording.record import TurnRecord, turn_id
from live_eval.redaction import find_key, recipient_in_words
from live_eval.redaction.secret_settings import host_of
from live_eval.registry import ClientSpec, client
from live_eval.registry import load as load_object
from live_eval.run.histories import with_history
from live_eval.run.prompts import SystemPrompt, instructions_for, load_prompt
from live_eval.run.redacted_settings import public_config, redacted_paths
from live_eval.run.run_file import ALL_TASKS, RunConfig
from live_eval.run.spread import default_processes
from live_eval.session.limits import SessionLimits
from live_eval.text.wording import alternatives, counted
from live_eval.timing import TIMING_VERSION
from live_eval.types import (
    RUN_TASKS,
    AnchorKind,
    Case,
    ScoringRule,
    Secret,
    SpeechKind,
    Task,
    TurnMode,
    Variant,
)

__all__ = ["Job", "Plan", "data_facts", "make_live_plan", "make_plan"]


@dataclass(frozen=True, slots=True)
class Job:
    """One turn to run and record."""

    case: Case
    repeat: int
    earlier: tuple[Case, ...] = ()  # the turns in the case's history

    @property
    def turn_id(self) -> str:
        """The turn's name in the run."""
        return turn_id(self.case, self.repeat)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The complete plan of a run."""

    config: RunConfig  # the run file, overridden by flags
    spec: ClientSpec
    data: DataSet
    prompt: SystemPrompt  # the prompt used in conversations
    notes: tuple[str, ...]  # one sentence each on the data and the selected cases
    jobs: tuple[Job, ...]  # the turns to run, in order
    turn_mode: TurnMode
    key: Secret | None
    impairment: Impairment | None = None
    preset: str = ""  # the user's settings override its values
    judges_left_out: Mapping[str, str] = field(default_factory=dict)  # reasons by judge
    simultaneous_with: tuple[str, ...] = ()  # names of the runs that stream each case at the same moment
    live_instructions: str = ""  # the system prompt of a session with a person
    results: Collection[FailureKind] = ()  # kinds of failures that the run measures and never retries

    @property
    def base_url(self) -> str | None:
        """The endpoint's base URL; None if an endpoint is launched for this run."""
        return self.config.endpoint.base_url or self.spec.base_url

    @property
    def recipient(self) -> str:
        """The endpoint's title and, if its address was given, the host."""
        url = self.config.endpoint.base_url
        return self.spec.title if url is None else f"{self.spec.title} at {host_of(url)}"

    @property
    def processes(self) -> int:
        """Number of session processes; 0 to run sessions in the run's own process."""
        turns = self.config.turns
        if turns.processes is not None:
            return turns.processes
        return default_processes(self.spec.transport_kind, turns.concurrency)

    @property
    def key_recipient(self) -> str | None:
        """The key's source and the host that receives it, as text; None if no key is sent."""
        if self.key is None or self.base_url is None:
            return None
        return recipient_in_words(_key_source(self.spec, self.config) or "", self.base_url)

    def settings(self, base_url: str, case: Case | None = None) -> EndpointSettings:
        """Return the endpoint settings for a case's session."""
        endpoint = self.config.endpoint
        transcriber = endpoint.transcription_model or self.spec.transcription_model
        return EndpointSettings(
            base_url=base_url,
            model=endpoint.model or self.spec.model,
            voice=endpoint.voice or self.spec.voice,
            instructions=case.instructions if case is not None else "",
            modality=endpoint.modality,
            turn_mode=self.turn_mode,
            turn_detection=endpoint.turn_detection,
            transcription_model=None if transcriber == "none" else transcriber,
            language=endpoint.language,
            max_output_tokens=endpoint.max_output_tokens,
            extra=endpoint.extra,
            ice_servers=endpoint.ice_servers,
            key=self.key,
            key_id=os.environ.get(self.spec.key_id_variable) if self.spec.key_id_variable else None,
            key_token=find_key(self.spec.key_token_variable) if self.spec.key_token_variable else None,
            ready_s=self.config.turns.connect_timeout,
            history=[EarlierTurn(text=text, reply=reply) for text, reply in case.history] if case else (),
        )

    def cassette(self, record: TurnRecord, sent: EndpointSettings, steps: Sequence[Step]) -> Cassette:
        """Return the cassette of a turn, with its session's settings but without the URL and the key."""
        settings = asdict(replace(sent, key=None, key_token=None))
        for private in ("base_url", "ice_servers", "key", "key_id", "key_token"):
            del settings[private]
        recorded = {
            "turn_id": record.turn_id,
            "attempt": record.attempt,
            "endpoint": self.spec.name,
            "limits": asdict(self.limits()),
            "origin_ns": record.trace.dial_ns,
        }
        title = f"turn {record.turn_id}, attempt {record.attempt}"
        return Cassette(record.turn_id, title, tuple(steps), settings, recorded)

    def limits(self) -> SessionLimits:
        """Return a turn's time limits."""
        turns = self.config.turns
        return SessionLimits(
            connect_s=turns.connect_timeout,
            ready_s=turns.connect_timeout,
            reply_s=turns.reply_timeout,
            stall_s=turns.stall_timeout,
            max_reply_s=turns.max_reply,
            silence_s=turns.reply_silence,
            listen_s=min(SessionLimits().listen_s, turns.reply_timeout),
        )

    def manifest(self) -> dict[str, Any]:
        """Return the run's manifest, without secrets."""
        config = self.config.model_dump(mode="json")
        public = public_config(config)
        data = {**data_facts(self.data), "notes": list(self.notes)}
        if self.data.licence:
            data["licence"] = self.data.licence
        if any(job.case.task.asks for job in self.jobs):
            data["questions_fingerprint"] = self.data.questions_fingerprint
        calibration = nearest(self.spec.transport_kind.value, self.config.turns.concurrency, self.processes)
        return {
            "live_eval": __version__,
            "timing_version": TIMING_VERSION,
            "config": public,
            "redacted": [list(path) for path in redacted_paths(config, public)],
            "endpoint": {
                "name": self.spec.name,
                "title": self.spec.title,
                "transport": self.spec.transport_kind.value,
                "comparable": self.spec.transport_kind is not TransportKind.HTTP,
                "model": self.config.endpoint.model or self.spec.model,
                "voice": self.config.endpoint.voice or self.spec.voice,
                "turn_mode": self.turn_mode.value,
                "line": self.spec.line,
                "verified": self.spec.verified,
            },
            "data": data,
            "prompt": {"name": self.prompt.name, "sha256": self.prompt.sha256, "text": self.prompt.text},
            "preset": self.preset,
            "judges_left_out": dict(self.judges_left_out),
            "simultaneous_with": list(self.simultaneous_with),
            "turns": len(self.jobs),
            "seed": self.config.turns.seed,
            "impairment": self.impairment.as_json() if self.impairment is not None else None,
            "machine": {
                "system": platform.platform(),
                "python": platform.python_version(),
                "processor": platform.machine(),
                "cpus": os.cpu_count(),
                "calibration": calibration.model_dump() if calibration is not None else None,
            },
            "packages": _packages(),
        }


def data_facts(data: DataSet) -> dict[str, Any]:
    """Return a data set's facts for the manifest."""
    return {
        "name": data.name,
        "kind": data.kind,
        "fingerprint": data.fingerprint,
        "cases": len(data.cases),
    }


def make_plan(
    config: RunConfig, *, needs_key: bool = True, needs_recordings: bool = True, has_flags: bool = True
) -> Plan:
    """Plan a run and check its requirements.

    Args:
        needs_key: Whether to require the endpoint's API key; False for an estimate.
        needs_recordings: Whether to require the data's recordings; False if a person performs the scripts.
        has_flags: Whether the error for a missing key may suggest command-line flags.

    Raises:
        UsageError: A name in the configuration is unknown, or options conflict.
        DataError: The data set cannot be used.
    """
    spec = client(config.endpoint.name).with_extra(config.endpoint.extra)
    config = _at_its_address(spec, config)
    _check_endpoint(spec, config)
    config, limit_notes = _within_session_limit(spec, config)
    table = config.data
    options = DataOptions(
        neutral_rule=table.neutral_rule,
        flawed_takes=table.flawed_takes,
        fields=table.fields,
        audio_root=table.audio_root,
    )
    data = load(locate(table.path), options)
    if any(case.item is not None and case.item.rule is ScoringRule.TURN_TAKING for case in data.cases):
        raise UsageError(
            f"{data.name} measures turn-taking: use live-eval duplex {config.endpoint.name} --probe own "
            f"--data {table.path}"
        )
    if data.kind is DataKind.BENCHMARK and not data.cases:
        raise UsageError(f"{data.name} has no items to run: {data.notes[-1]}")
    data.check_syntax()
    prompt = _prompt(config)
    offered = _cases_of(data, config, prompt)
    cases = select(
        offered,
        part=table.part,
        cues=table.cues,
        topics=table.topics,
        variants=table.variants,
        case_ids=table.cases,
        limit=table.limit,
    )
    cases, earlier = with_history(spec, config.turns.history, cases)
    missing: list[str] = []
    if needs_recordings:
        missing = data.check_recordings(cases)
        check_readable(data, cases, max_s=table.max_recording)
    _check_instructions(spec, cases)
    _check_dialogues(spec, config, cases)
    turn_mode = config.turns.mode or spec.turn_modes[0]
    _check_scripts(turn_mode, cases)
    jobs = [
        Job(case, repeat, earlier.get(case.case_id, ()))
        for repeat in range(config.turns.repeat)
        for case in cases
    ]
    _check_turn_ids(jobs)
    if config.turns.shuffle:
        random.Random(config.turns.seed).shuffle(jobs)
    plan = Plan(
        config=config,
        spec=spec,
        data=data,
        prompt=prompt,
        notes=(*data.notes, *missing, *_omitted_tasks(data, config, offered, cases), *limit_notes),
        jobs=tuple(jobs),
        turn_mode=turn_mode,
        key=None,
        impairment=_impairment(spec, config),
    )
    _load(plan)
    return replace(plan, key=_key(spec, config, has_flags=has_flags)) if needs_key else plan


def make_live_plan(config: RunConfig, *, has_flags: bool = True) -> Plan:
    """Plan a conversation with a person, which has no test cases, and check its requirements.

    Args:
        has_flags: Whether the error for a missing key may suggest command-line flags.

    Raises:
        UsageError: A name in the configuration is unknown, or options conflict.
    """
    spec = client(config.endpoint.name).with_extra(config.endpoint.extra)
    config = _at_its_address(spec, config)
    _check_endpoint(spec, config)
    if spec.transport_kind is TransportKind.HTTP:
        raise UsageError(f"{spec.name} makes one request per turn and has no session for a live conversation")
    config = config.with_data(DataKind.LIVE.value)
    prompt = _prompt(config)
    case = Case(case_id="live", script_id="live", variant=Variant.TARGET, audio_path=Path())
    plan = Plan(
        config=config,
        spec=spec,
        data=DataSet(name=DataKind.LIVE, root=locate("sample"), kind=DataKind.LIVE, cases=()),
        prompt=prompt,
        notes=(),
        jobs=(),
        turn_mode=config.turns.mode or spec.turn_modes[0],
        key=None,
        live_instructions=prompt.fill(case),
    )
    if plan.live_instructions and not spec.takes_instructions:
        raise UsageError(f"{spec.name} does not accept instructions: omit the prompt")
    _load(plan)
    return replace(plan, key=_key(spec, config, has_flags=has_flags))


def _at_its_address(spec: ClientSpec, config: RunConfig) -> RunConfig:
    """Return the configuration; if it has no address, with the one that the environment sets."""
    variable = spec.base_url_variable
    url = os.environ.get(variable) if variable and config.endpoint.base_url is None else None
    return config.with_base_url(url) if url else config


def _load(plan: Plan) -> None:
    """Import the dialect and the transport before the event loop runs; raise if the settings are invalid."""
    try:
        load_object(plan.spec.dialect)(plan.settings(plan.base_url or "ws://127.0.0.1"))
    except UsageError as error:
        variable, url = plan.spec.base_url_variable, plan.config.endpoint.base_url
        if variable is None or os.environ.get(variable) != url:
            raise
        raise UsageError(str(error).replace("endpoint.base_url", variable, 1)) from None
    load_object(plan.spec.transport)


def _key_source(spec: ClientSpec, config: RunConfig) -> str | None:
    return config.endpoint.key_from or config.endpoint.key_variable or spec.key_variable


def _key(spec: ClientSpec, config: RunConfig, *, has_flags: bool = True) -> Secret | None:
    """Return the endpoint's key; None if no key is needed, for example for a local endpoint."""
    variable = _key_source(spec, config)
    if variable is None:
        return None
    key = find_key(variable)
    try:
        host = urlsplit(config.endpoint.base_url or "").hostname or ""
    except ValueError:
        host = ""
    if key is not None:
        named = spec.key_id_variable is None or os.environ.get(spec.key_id_variable)
        is_token = key.reveal().count(".") == 2  # a JSON Web Token contains the name
        if not (named or is_token or is_loopback(host)):
            raise UsageError(
                f"{spec.title}: a key has two parts; besides {variable}, set the environment variable "
                f"{spec.key_id_variable}, the name of the key"
            )
        return key
    if is_loopback(host) or (config.endpoint.base_url and not host):  # the dialect rejects a URL without host
        return None
    flags = ", name another variable with --key-variable, or a file or keyring with --key-from"
    raise UsageError(
        f"{spec.title} requires an API key: set the environment variable "
        f"{variable}{flags if has_flags else ''}"
    )


def _impairment(spec: ClientSpec, config: RunConfig) -> Impairment | None:
    impairment = parse(config.impair.specs, config.turns.seed)
    if not impairment:
        return None
    impairment.check_transport(spec.transport_kind.value)
    if not impairment.on_network:
        return impairment
    if "impairment" not in inspect.signature(load_object(spec.transport)).parameters:
        raise UsageError(f"{spec.name}: network impairments are not supported over {spec.transport}")
    if any(server.startswith("turn") for server in config.endpoint.ice_servers):
        raise UsageError("traffic through a TURN relay cannot be impaired: remove it from the ICE servers")
    return impairment


def _within_session_limit(spec: ClientSpec, config: RunConfig) -> tuple[RunConfig, tuple[str, ...]]:
    """Reduce the default concurrency to the endpoint's session limit, and add a note."""
    limit, asked = spec.sessions, config.turns.concurrency
    if limit is None or asked <= limit:
        return config, ()
    takes = f"{spec.name} supports {counted(limit, 'concurrent session')}"
    if "concurrency" in config.turns.model_fields_set:  # some servers can be configured to run more sessions
        note = f"{takes} by default; turns.concurrency is {asked}, so turns may wait for a free session"
        return config, (note,)
    turns = config.turns.model_copy(update={"concurrency": limit})
    note = f"{takes}: turns.concurrency is reduced from {asked} to {limit}"
    return config.model_copy(update={"turns": turns}), (note,)


def _prompt(config: RunConfig) -> SystemPrompt:
    if not config.endpoint.instructions:
        return load_prompt(config.task.prompt)
    if config.task.prompt != "no":
        raise UsageError(
            f"endpoint.instructions and task.prompt = {config.task.prompt!r} conflict: set only one of them"
        )
    return SystemPrompt("instructions", config.endpoint.instructions)


def _cases_of(data: DataSet, config: RunConfig, prompt: SystemPrompt) -> list[Case]:
    """Return the requested tasks' cases, each with its system prompt."""
    table = config.task
    cases = [
        case
        for task in _tasks(config)
        for case in data.of(task, transcribe=table.transcription_variants or tuple(Variant))
    ]
    if not cases:
        absences = "; ".join(data.absence(task) for task in _tasks(config))
        raise UsageError(f"{data.root} has no case for the task {table.name}: {absences}")
    return [replace(case, instructions=instructions_for(case, prompt)) for case in cases]


def _omitted_tasks(
    data: DataSet, config: RunConfig, offered: Sequence[Case], chosen: Sequence[Case]
) -> Iterator[str]:
    """Yield a note with the reason for each requested task that the run omits."""
    available, selected = {case.task for case in offered}, {case.task for case in chosen}
    if available == {Task.BENCHMARK}:  # a benchmark's items count as conversations
        available, selected = {Task.CONVERSATION}, {Task.CONVERSATION}
    for task in _tasks(config):
        if task in available and task not in selected:
            yield f"the task {task} is omitted: no case matches the selection"
        elif task not in available and task not in data.unread:  # the data set's notes report unread tasks
            yield f"the task {task} is omitted: {data.absence(task)}"


def _tasks(config: RunConfig) -> tuple[Task, ...]:
    return RUN_TASKS if config.task.name == ALL_TASKS else (Task(config.task.name),)


def _check_instructions(spec: ClientSpec, cases: Sequence[Case]) -> None:
    case = next((case for case in cases if case.instructions), None)
    if case is not None and not spec.takes_instructions:
        raise UsageError(
            f"{spec.name} does not accept instructions, but case {case.case_id!r} requires them: run "
            "conversations without a prompt"
        )


def _check_dialogues(spec: ClientSpec, config: RunConfig, cases: Sequence[Case]) -> None:
    instructions: dict[str, str] = {}
    for case in cases:
        name = case.dialogue_id
        if name is None:
            continue
        if spec.transport_kind is TransportKind.HTTP:
            raise UsageError(
                f"{spec.name} makes one request per turn and has no session for dialogue {name!r}"
            )
        if config.output.record_wire:
            raise UsageError(
                f"--record-wire supports only single turns; {case.case_id!r} is a turn of dialogue {name!r}"
            )
        if instructions.setdefault(name, case.instructions) != case.instructions:
            raise UsageError(
                f"task.prompt = {config.task.prompt!r} depends on the cue, which changes during dialogue "
                f"{name!r}: choose a prompt that does not depend on the cue, such as basic"
            )


def _check_scripts(turn_mode: TurnMode, cases: Sequence[Case]) -> None:
    """Raise if turns are manual and cases require an endpoint that detects turns."""
    if turn_mode is not TurnMode.MANUAL:
        return
    for case in cases:
        if case.speech is not SpeechKind.TURN:
            what = f"is {case.speech}, which expects no answer"
        elif case.anchor is not None and case.anchor.kind is AnchorKind.UTTERANCE_ENDED:
            what = f"begins at {case.anchor}, before the endpoint may answer"
        else:
            continue
        raise UsageError(
            f"turns.mode is manual, so each utterance is committed for an answer, but case {case.case_id!r} "
            f"{what}: choose a mode in which the endpoint detects turns"
        )


def _check_turn_ids(jobs: Sequence[Job]) -> None:
    """Raise if two turns have the same name, which can occur if a case ID ends in a repeat number."""
    found: dict[str, Job] = {}
    for job in jobs:
        other = found.setdefault(job.turn_id, job)
        if other is not job:
            first, second = other.case.case_id, job.case.case_id
            raise UsageError(
                f"turns.repeat: cases {first!r} and {second!r} would both record turn {job.turn_id!r}; "
                "use case IDs that do not end in '#' and a number"
            )


def _check_endpoint(spec: ClientSpec, config: RunConfig) -> None:
    if spec.base_url is None and config.endpoint.base_url is None and spec.launch is None:
        rule = f" ({spec.limits})" if spec.limits and not spec.base_url_variable else ""
        variable = f", or set {spec.base_url_variable}" if spec.base_url_variable else ""
        raise UsageError(f"{spec.name} has no default URL: pass --base-url with its address{variable}{rule}")
    mode = config.turns.mode
    if mode is not None and mode not in spec.turn_modes:
        raise UsageError(
            f"turns.mode {mode.value!r}: expected {alternatives(spec.turn_modes)} for {spec.name}"
        )
    if config.endpoint.ice_servers and spec.transport_kind is not TransportKind.WEBRTC:
        raise UsageError(
            f"endpoint.ice_servers: expected a WebRTC endpoint, got {spec.name} ({spec.transport_kind}); "
            "`live-eval endpoints` lists them"
        )


def _packages() -> dict[str, str]:
    names = ("websockets", "numpy", "soundfile", "soxr", "onnxruntime", "jiwer", "nltk", "faster-whisper")
    versions: dict[str, str] = {}
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions
