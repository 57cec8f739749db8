"""Define the run file: a run's settings as TOML. Most ``live-eval run`` flags have a key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo

from live_eval.audio import MAX_RECORDING_S
from live_eval.errors import RunFileError, UsageError
from live_eval.redaction import MASK, SECRETS, key_source, key_variable
from live_eval.reference import REFERENCE
from live_eval.registry import default_judges
from live_eval.run._expectation import expectation
from live_eval.run.retries import PATIENCE_S
from live_eval.text.durations import seconds_of
from live_eval.text.suggestions import did_you_mean
from live_eval.timing import LAG_BOUND_NS
from live_eval.types import History, Modality, OnGreeting, TurnMode, Variant

__all__ = [
    "ALL_TASKS",
    "PRICE_FORM",
    "ClusterTable",
    "DataTable",
    "EndpointTable",
    "ImpairTable",
    "JudgesTable",
    "OutputTable",
    "RunConfig",
    "TaskTable",
    "TurnsTable",
    "is_duration",
    "located",
    "read_run_file",
    "validate",
]

ALL_TASKS = "all"

PRICE_FORM = "US dollars per million tokens in and out, as 2.5,10 or {input = 2.5, output = 10.0}"
"""The form of a model price."""

_AUTHENTICATES = ("endpoint", "judges")
"""The tables whose URLs and settings may contain secrets."""

_KEY_SOURCES = ("key_variable", "key_from")  # users may paste the key itself here by mistake


_KEY = re.compile(r"[a-z]+\.[a-z_]+")
"""A run-file key at the start of a message."""


def _seconds(value: Any) -> Any:
    return seconds_of(value) if isinstance(value, str) else value


def _price(value: Any) -> Any:
    """Parse "2.5,10" as input and output prices."""
    if isinstance(value, dict):
        return value
    parts = str(value).split(",")
    if len(parts) != 2:
        raise ValueError(f"expected {PRICE_FORM}")
    return dict(zip(("input", "output"), parts, strict=True))


_Price: TypeAlias = Annotated[dict[str, float], BeforeValidator(_price)]
_Duration: TypeAlias = Annotated[float, BeforeValidator(_seconds)]


def _ice_server(text: str) -> str:
    if not re.match(r"(?:stun|turn)s?:.", text):
        raise ValueError("expected stun:HOST:PORT or turn:USER:PASSWORD@HOST:PORT")
    return text


_IceServer: TypeAlias = Annotated[str, AfterValidator(_ice_server)]
_KeySource: TypeAlias = Annotated[str, AfterValidator(key_source)]
_KeyVariable: TypeAlias = Annotated[str, AfterValidator(key_variable)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _not_empty(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse empty text, such as that of an unset shell variable: an empty path is the current folder."""
        if isinstance(value, str) and not value.strip() and info.field_name != "instructions":
            raise ValueError("expected a value, got an empty one")
        return value


class EndpointTable(_Table):
    """``[endpoint]``: the endpoint and its session settings."""

    name: str = Field(
        REFERENCE,
        description="an endpoint listed by `live-eval endpoints`; in a run file, reference by default",
    )
    base_url: str | None = Field(None, description="base URL. Default: the vendor's")
    model: str | None = Field(None, description="model. Default: the endpoint's")
    voice: str | None = Field(None, description="voice. Default: the endpoint's")
    instructions: str = Field("", description="system prompt")
    modality: Modality = Field(Modality.AUDIO, description="modality of replies")
    transcription_model: str | None = Field(
        None, description="model that transcribes the input, or 'none'. Default: the endpoint's"
    )
    language: str | None = Field(None, description="language of the speech, as a hint to the transcriber")
    max_output_tokens: int | None = Field(None, ge=1, description="maximum number of tokens in a reply")
    key_variable: _KeyVariable | None = Field(None, description="environment variable with the API key")
    key_from: _KeySource | None = Field(
        None, description="another source of the API key: file:PATH (mode 600) or keyring:SERVICE/NAME"
    )
    turn_detection: dict[str, Any] = Field(
        default_factory=dict, description="turn detection settings, in the vendor's spelling"
    )
    extra: dict[str, Any] = Field(
        default_factory=dict, description="further session settings, in the vendor's spelling"
    )
    ice_servers: tuple[_IceServer, ...] = Field(
        (), description="STUN and TURN servers for WebRTC, as stun:HOST:PORT"
    )


class DataTable(_Table):
    """``[data]``: the data set and which of its cases to run."""

    path: str = Field(
        "sample",
        description="EchoMind folder, manifest, folder of recordings, benchmark of `live-eval data list`, "
        "'sample' or 'sample-dialogues'",
    )
    part: Literal["synthesis", "human"] | None = Field(
        None, description="only this part of EchoMind, if the folder contains both"
    )
    variants: tuple[Variant, ...] = Field((), description="only these variants")
    cues: tuple[str, ...] = Field((), description="only these cues (attribute, fine or coarse dimension)")
    topics: tuple[str, ...] = Field((), description="only these topics")
    cases: tuple[str, ...] = Field((), description="only these cases")
    limit: int | None = Field(None, ge=1, description="maximum number of cases of each task")
    neutral_rule: bool = Field(
        True, description="skip neutral variants if the cue is the speaker's sex or age"
    )
    flawed_takes: bool = Field(
        True, description="include performed takes that the performer accepted despite problems"
    )
    fields: dict[str, str] = Field(
        default_factory=dict, description="field names of live-eval, mapped to those of the data"
    )
    audio_root: Path | None = Field(
        None, description="folder that audio paths are relative to. Default: depends on the data set"
    )
    max_recording: _Duration = Field(
        MAX_RECORDING_S, gt=0, le=7200, description="maximum length of a recording"
    )


class TaskTable(_Table):
    """``[task]``: the endpoint's task."""

    name: Literal["conversation", "transcription", "understanding", "reasoning", "all"] = Field(
        "conversation", description="the task"
    )
    prompt: str = Field(
        "no",
        description="system prompt of conversations: no, basic, enhance, upper-bound, a list A,B,… (a run "
        "for each), or a text file",
    )
    transcription_variants: tuple[Variant, ...] = Field(
        (), description="transcribe only these variants. Default: all"
    )


class TurnsTable(_Table):
    """``[turns]``: turn settings."""

    mode: TurnMode | None = Field(None, description="turn mode. Default: the endpoint's")
    history: History = Field(
        History.OWN,
        description="earlier replies of a dialogue: the endpoint's own, or the data's, sent before each turn "
        "as text, or with the user's recordings",
    )
    concurrency: int = Field(4, ge=1, le=1000, description="number of concurrent sessions")
    processes: int | None = Field(
        None,
        ge=0,
        le=64,
        description="number of processes that run the sessions; 0 for the main process; by default chosen "
        "from the number of sessions and cores",
    )
    repeat: int = Field(1, ge=1, description="number of times to run each case")
    retries: int = Field(2, ge=0, description="further attempts after a temporary failure")
    patience: _Duration = Field(
        PATIENCE_S,
        ge=0,
        description="maximum total wait of a turn (for rate limits, for a free session, between attempts), "
        "and maximum length of an outage",
    )
    connect_timeout: _Duration = Field(15.0, gt=0, description="maximum wait for the connection")
    reply_timeout: _Duration = Field(30.0, gt=0, description="maximum wait for a response to begin")
    stall_timeout: _Duration = Field(15.0, gt=0, description="maximum wait for the next part of a response")
    max_reply: _Duration = Field(120.0, gt=0, description="maximum length of a response")
    reply_silence: _Duration = Field(
        1.5, gt=0, description="silence that ends a reply, if the endpoint does not report its end"
    )
    pause: _Duration = Field(
        0.6, ge=0, description="time from the end of a reply, as heard, to the next turn of a dialogue"
    )
    greeting: OnGreeting | None = Field(
        None,
        description="wait for the endpoint's greeting, or ignore it; by default, wait if it greets the "
        "first sessions within 3 seconds",
    )
    word_times: Literal["auto", "on", "off"] = Field(
        "auto", description="refine speech boundaries with the offline recogniser's word times"
    )
    shuffle: bool = Field(False, description="run turns in random order")
    seed: int = Field(0, description="random seed")


class ImpairTable(_Table):
    """``[impair]``: impairments of the user's audio and of traffic."""

    specs: tuple[str, ...] = Field(
        (), description="impairments, as NAME=VALUE,…; repeatable; `live-eval impair --list` lists them"
    )


class ClusterTable(_Table):
    """``[cluster]``: the machines that run sessions and judges."""

    ray: str | None = Field(
        None,
        description="use a Ray cluster: HOST:PORT of its head node, or 'auto' for this machine's cluster, "
        "or a new one of this machine only",
    )
    timing_bound: float = Field(
        LAG_BOUND_NS / 1e6, gt=0, description="maximum error (p99) of a calibrated node in ms"
    )


class JudgesTable(_Table):
    """``[judges]``: the judges that score the recorded run."""

    names: tuple[str, ...] = Field(
        default_factory=default_judges, description="judges to run (`live-eval judges` lists them), or none"
    )
    device: Literal["cpu", "cuda"] = Field("cpu", description="device for judges that use torch")
    jobs: int | None = Field(
        None,
        ge=0,
        le=1000,
        description="number of processes that run local judges; 0 for the main process; by default one "
        "per core",
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="judge options, as JUDGE.OPTION=VALUE; `live-eval judges JUDGE` lists them",
    )
    recordings: tuple[Path, ...] = Field(
        (),
        description="folders, besides those of the run and its data, whose recordings judges may send to "
        "models",
    )
    llm: str | None = Field(None, description="service for LLM judges: `openai` or `gemini`")
    llm_base_url: str | None = Field(None, description="OpenAI-compatible base URL of the judge model")
    llm_model: str | None = Field(None, description="the judge model")
    llm_key_variable: _KeyVariable | None = Field(
        None, description="environment variable with the judge model's API key"
    )
    llm_key_from: _KeySource | None = Field(
        None, description="another source of that key: file:PATH (mode 600) or keyring:SERVICE/NAME"
    )
    llm_concurrency: int = Field(
        8, ge=1, le=1000, description="number of concurrent calls to the judge model"
    )
    llm_timeout: _Duration = Field(60.0, gt=0, description="timeout of a call to the judge model")
    llm_attempts: int = Field(5, ge=1, le=100, description="maximum number of attempts per call")
    samples: int = Field(1, ge=1, le=100, description="number of calls to the judge model per question")
    temperature: float | None = Field(None, ge=0, le=2, description="sampling temperature. Default: 0")
    max_calls: int | None = Field(None, ge=0, description="maximum number of model calls")
    max_tokens: int | None = Field(None, ge=0, description="maximum number of tokens, sent and received")
    max_cost: float | None = Field(
        None, ge=0, description="maximum cost in US dollars; needs the model's price"
    )
    prices: dict[str, _Price] = Field(default_factory=dict, description=f"prices by model: {PRICE_FORM}")

    @field_validator("names", mode="before")
    @classmethod
    def _names(cls, names: Any) -> Any:
        """Parse "none" as no judges."""
        if not isinstance(names, list | tuple) or "none" not in names:
            return names
        if len(names) > 1:
            raise ValueError("none cannot be combined with other judges")
        return ()


class OutputTable(_Table):
    """``[output]``: the run folder and its report."""

    out: Path | None = Field(None, description="run folder. Default: a new one in recordings/")
    resume: bool = Field(False, description="continue the run in --out")
    retry_failed: bool = Field(
        False, description="rerun the failed turns of the run in --out, with its settings"
    )
    record_wire: bool = Field(
        False, description="record every message with its timestamps, to replay the run"
    )
    report: bool = Field(True, description="write report.html into the run folder")
    open_report: bool = Field(False, description="open report.html in the browser")


class RunConfig(_Table):
    """A whole run file."""

    endpoint: EndpointTable = Field(default_factory=EndpointTable)
    data: DataTable = Field(default_factory=DataTable)
    task: TaskTable = Field(default_factory=TaskTable)
    turns: TurnsTable = Field(default_factory=TurnsTable)
    impair: ImpairTable = Field(default_factory=ImpairTable)
    cluster: ClusterTable = Field(default_factory=ClusterTable)
    judges: JudgesTable = Field(default_factory=JudgesTable)
    output: OutputTable = Field(default_factory=OutputTable)

    def with_data(self, path: str) -> Self:
        """Return a copy with another data set."""
        return self.model_copy(update={"data": self.data.model_copy(update={"path": path})})

    def with_base_url(self, url: str) -> Self:
        """Return a copy with the address of the endpoint."""
        return self.model_copy(update={"endpoint": self.endpoint.model_copy(update={"base_url": url})})


def read_run_file(path: Path) -> dict[str, Any]:
    """Read a run file without validating its values.

    Raises:
        RunFileError: The file is missing or is not valid TOML.
    """
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RunFileError(f"cannot read run file {path}: {reason}") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RunFileError(f"{path}: not valid TOML: {error}") from None


def is_duration(field: FieldInfo) -> bool:
    """Return whether a key accepts a duration with a unit."""
    return any(isinstance(each, BeforeValidator) and each.func is _seconds for each in field.metadata)


def validate(
    values: dict[str, Any], path: Path | None = None, *, flags: Mapping[str, str] | None = None
) -> RunConfig:
    """Validate a run file's values, overridden by flags; errors report line numbers in `path`.

    Args:
        path: The run file, if it contains all the values.
        flags: Each key's flag, if the values include flags; errors then name the flag.

    Raises:
        RunFileError: A key is unknown or a value is not allowed. The message lists what is allowed.
    """
    for table in _AUTHENTICATES:
        SECRETS.learn_settings(values.get(table))
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        text = path.read_text("utf-8-sig") if path is not None else ""
        mistakes = [_explain(dict(each), values, text, path, flags or {}) for each in error.errors()]
        raise RunFileError("\n".join(mistakes)) from None


@contextmanager
def located(path: Path | None, flags: Mapping[str, Any], key: str = "") -> Iterator[None]:
    """Convert a `UsageError` in the block to a `RunFileError` with its key's line.

    The error is raised unchanged if no line sets the key or if a flag overrides it.

    Args:
        flags: Flag values by destination: ``table__key``.
        key: The key that caused the error. Default: the key at the start of its message.
    """
    try:
        yield
    except UsageError as error:
        start = _KEY.match(key or str(error))
        if path is None or start is None or flags.get(start[0].replace(".", "__")) not in (None, ()):
            raise
        line = _line_of(start[0].split("."), path.read_text("utf-8-sig"))
        if line is None:
            raise
        message = f"{key}: {error}" if key else str(error)
        raise RunFileError(f"{path}:{line}: {message}") from None


def _explain(
    mistake: dict[str, Any], values: Mapping[str, Any], text: str, path: Path | None, flags: Mapping[str, str]
) -> str:
    keys = [str(part) for part in mistake["loc"] if isinstance(part, str)]
    key = ".".join(keys)
    line = _line_of(keys, text)
    where = f"{path}:{line}: " if path is not None and line else f"{path}: " if path is not None else ""
    if mistake["type"] == "extra_forbidden":
        allowed = list(_table_of(keys[:-1]))
        hint = did_you_mean(keys[-1], allowed)
        return f"{where}unknown key {key!r}{hint}; allowed here: {', '.join(allowed)}"
    fields = _table_of(keys[:1])
    field = fields.get(keys[1]) if len(keys) > 1 else None
    about = f" ({field.description})" if field is not None else ""
    if field is not None and is_duration(field):  # pydantic's input is in seconds
        mistake["input"] = values[keys[0]][keys[1]]
    expected = expectation(mistake, in_seconds=field is not None and is_duration(field))
    shown = MASK if keys[-1:] and keys[-1].endswith(_KEY_SOURCES) else repr(mistake["input"])
    if (flag := flags.get(".".join(keys[:2]))) is not None:
        if isinstance(mistake["input"], list) and all(isinstance(each, str) for each in mistake["input"]):
            shown = repr(",".join(mistake["input"]))
        return f"{flag} {'.'.join(keys[2:]) + ' ' if keys[2:] else ''}{shown}: {expected}"
    return f"{where}{key} = {shown}: {expected}{about}"


def _table_of(tables: list[str]) -> dict[str, FieldInfo]:
    """Return the keys in a table or in the whole file."""
    model: Any = RunConfig
    for table in tables:
        model = model.model_fields[table].annotation
    return dict(model.model_fields)


def _line_of(keys: list[str], text: str) -> int | None:
    """Return the line number of `keys` or, if they are missing, of the nearest enclosing table."""
    table: list[str] = []
    deepest: tuple[int, int] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[\[?\s*([^\]]+?)\s*\]", line)
        assignment = re.match(r"\s*([\w.\"'-]+)\s*=", line)
        if header:
            table = _parts(header[1])
            full = table
        elif assignment:
            full = table + _parts(assignment[1])
        else:
            continue
        if full == keys[: len(full)] and (deepest is None or len(full) > deepest[0]):
            deepest = (len(full), number)
    return deepest[1] if deepest is not None else None


def _parts(dotted: str) -> list[str]:
    return [part.strip().strip("\"'") for part in dotted.split(".")]
