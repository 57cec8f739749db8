"""Run a judge: resolve its options and its version, load it, and judge turns.

Scoring and auditing pass turns to a `JudgeRunner`, whether the judge is local or calls a model. Errors in a
judge are not raised; they become a `Failed` with the reason.
"""

from __future__ import annotations

import asyncio
import importlib.util
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from live_eval import registry
from live_eval.clock import SystemClock
from live_eval.errors import JudgeError, LiveEvalError, UsageError
from live_eval.extras import install_command
from live_eval.http.hosts import is_loopback
from live_eval.judging import (
    Failed,
    JudgedTurn,
    JudgeKind,
    Judgement,
    JudgeSpec,
    LlmJudge,
    LocalJudge,
    Need,
    OptionSpec,
    PairwiseJudge,
    check_judgement,
)
from live_eval.redaction import key_source, key_variable, recipient_in_words
from live_eval.run.run_file import PRICE_FORM, JudgesTable
from live_eval.scoring.judge_pool import JudgedBatch
from live_eval.scoring.llm import AnswerCache, Budget, LlmDriver, LlmOptions, LlmUsage, Price
from live_eval.text.suggestions import did_you_mean
from live_eval.weights import file_sha256, find_weights, weights_at

__all__ = [
    "JudgeOptions",
    "JudgeRunner",
    "LlmJudgeRunner",
    "LoadedJudges",
    "as_configured",
    "check_device",
    "check_named",
    "check_options",
    "judge_batch",
    "judge_options",
    "key_recipients",
    "llm_options",
    "load_judge",
    "load_judge_runner",
    "missing_requirements",
    "option_values",
    "scoring_version",
    "unable_judges",
]

_LLM_CHOICES = frozenset({"base_url", "model", "key_variable", "key_from"})
"""The options of every LLM judge besides those in its specification."""

_HASH_DIGITS = 12
_CONNECT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions:
    """The user's options of judges; the judges' defaults apply to other options."""

    device: str = "cpu"
    """The device for judges that use torch: ``cpu`` or ``cuda``."""
    choices: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The values by judge and option."""
    llm: LlmOptions = field(default_factory=LlmOptions)
    recordings: Sequence[Path] = ()
    """The folders, besides the run's own, whose recordings may be sent to models."""


class JudgeRunner(Protocol):
    """A loaded judge, local or LLM."""

    @property
    def usage(self) -> LlmUsage:
        """The model usage so far."""
        ...

    def judge(self, turns: Sequence[JudgedTurn]) -> list[Judgement]:
        """Return a valid judgement for each turn; the turns must meet the judge's needs."""
        ...


def judge_options(table: JudgesTable) -> JudgeOptions:
    """Return the judge options in a run file.

    Raises:
        UsageError: A value is invalid; the message identifies it.
    """
    choices: dict[str, dict[str, str]] = {}
    for name, value in table.options.items():
        if isinstance(value, dict):
            choices.setdefault(name, {}).update({option: _as_text(inner) for option, inner in value.items()})
            continue
        judge, _, option = name.partition(".")
        if not (judge and option):
            raise UsageError(f"judges.options: {name!r}: expected JUDGE.OPTION")
        choices.setdefault(judge, {})[option] = _as_text(value)
    return JudgeOptions(
        device=table.device,
        choices=choices,
        recordings=table.recordings,
        llm=LlmOptions(
            preset=table.llm,
            base_url=table.llm_base_url,
            model=table.llm_model,
            key_variable=table.llm_key_from or table.llm_key_variable,
            concurrency=table.llm_concurrency,
            timeout_s=table.llm_timeout,
            attempts=table.llm_attempts,
            samples=table.samples,
            temperature=table.temperature,
            max_calls=table.max_calls,
            max_tokens=table.max_tokens,
            max_cost=table.max_cost,
            prices={model: _price(model, price) for model, price in table.prices.items()},
        ),
    )


def _as_text(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _price(model: str, price: Mapping[str, float]) -> Price:
    try:
        return Price.of(price)
    except ValueError as error:
        raise UsageError(f"judges.prices {model}: {error}; expected {PRICE_FORM}") from None


def llm_options(spec: JudgeSpec, options: JudgeOptions) -> LlmOptions:
    """Return the model options for a judge; its own options take precedence."""
    mine = options.choices.get(spec.name, {}) if spec.kind is not JudgeKind.LOCAL else {}
    llm = options.llm
    if "base_url" in mine:  # overrides the service selected for all judges
        llm = replace(llm, preset=None, base_url=mine["base_url"])
    return replace(
        llm,
        model=mine.get("model", llm.model),
        key_variable=_key_source(mine) or llm.key_variable,
    )


def _key_source(choices: Mapping[str, str]) -> str | None:
    """Return the source of the API key in a judge's own options, or None."""
    for name, check in (("key_from", key_source), ("key_variable", key_variable)):
        if name in choices:
            try:
                return check(choices[name])
            except ValueError as error:
                raise UsageError(f"judge option {name}: {error}") from None
    return None


def option_values(spec: JudgeSpec, options: JudgeOptions) -> dict[str, str]:
    """Return the values of all options of a judge.

    Raises:
        UsageError: An option is unknown or has an invalid value.
    """
    mine = options.choices.get(spec.name, {})
    known = {option.name: option for option in spec.options}
    for name, value in mine.items():
        if name in known:
            choices = known[name].choices
            if choices and value not in choices:
                raise UsageError(
                    f"{spec.name}.{name} = {value!r}{did_you_mean(value, choices)}: "
                    f"expected one of {', '.join(choices)}"
                )
        elif name not in _LLM_CHOICES or spec.kind is JudgeKind.LOCAL:
            raise UsageError(
                f"judge {spec.name!r} has no option {name!r}{did_you_mean(name, known)}; "
                + (f"expected one of {', '.join(known)}" if known else "it has no options")
            )
    return {option.name: mine.get(option.name, option.default) for option in spec.options}


def as_configured(spec: JudgeSpec, options: JudgeOptions) -> JudgeSpec:
    """Return a judge's specification without the needs that the user's options remove.

    >>> from live_eval.judges.specs import VES
    >>> as_configured(VES, JudgeOptions()).uses
    frozenset()
    """
    values = option_values(spec, options)
    spared = frozenset[Need]().union(*(option.spares.get(values[option.name], ()) for option in spec.options))
    return replace(spec, uses=spec.uses - spared)


def check_options(specs: Sequence[JudgeSpec], options: JudgeOptions) -> None:
    """Check the options of all judges before judging starts.

    Raises:
        UsageError: A judge or an option is unknown, a value is invalid, or the cost is limited but a price is
            unknown.
    """
    for name in options.choices:
        spec = registry.judge(name)
        values = option_values(spec, options)
        llm_options(spec, options)
        for option in spec.options:
            value = values[option.name]
            if option.is_file and value and not Path(value).is_file():
                raise UsageError(f"{name}.{option.name} = {value!r}: expected a file, found none")
    for spec in specs:
        if spec.kind is not JudgeKind.LOCAL:
            llm_options(spec, options).settings_for(spec)


def key_recipients(specs: Sequence[JudgeSpec], options: JudgeOptions) -> list[str]:
    """Describe the hosts that receive API keys for the judges' models.

    Raises:
        UsageError: The cost is limited, but the model's price is unknown.
    """
    found: dict[str, None] = {}
    for spec in specs:
        if spec.kind is JudgeKind.LOCAL:
            continue
        llm = llm_options(spec, options)
        settings = llm.settings_for(spec)
        if settings.key is not None:
            found[recipient_in_words(llm.key_variable_of(spec) or "", settings.base_url)] = None
    return list(found)


def missing_requirements(spec: JudgeSpec, options: JudgeOptions) -> str | None:
    """Return the requirement that a judge is missing with these options, or None."""
    if spec.kind is not JudgeKind.LOCAL:
        spec = replace(spec, key_variable=llm_options(spec, options).key_variable_of(spec))
    return registry.missing_requirements(spec, option_values(spec, options))


def unable_judges(
    specs: Sequence[JudgeSpec], options: JudgeOptions, *, connects: bool = False
) -> dict[str, str]:
    """Return the judges that cannot run on this machine, with the reasons.

    Args:
        connects: Whether to check that model servers on this machine accept connections.
    """
    missing = {
        spec.name: missing_requirements(spec, options)
        or (_stopped_server(spec, options) if connects else None)
        for spec in specs
    }
    return {name: reason for name, reason in missing.items() if reason is not None}


def _stopped_server(spec: JudgeSpec, options: JudgeOptions) -> str | None:
    """Describe a judge's model server if it is on this machine and refuses connections, or return None."""
    if spec.kind is JudgeKind.LOCAL:
        return None
    parts = urlsplit(llm_options(spec, options).settings_for(spec).base_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if parts.hostname is None or not is_loopback(parts.hostname):
        return None
    try:
        socket.create_connection((parts.hostname, port), timeout=_CONNECT_S).close()
    except OSError as error:
        return f"a server at {parts.hostname}:{port} ({error.strerror or 'no answer'})"
    return None


def check_device(options: JudgeOptions) -> None:
    """Check that the selected device exists on this machine.

    Raises:
        UsageError: The device is unavailable; the message contains the reason.
    """
    if options.device != "cuda":
        return
    reason = f"torch is not installed ({install_command('torch')})"
    if importlib.util.find_spec("torch") is not None:
        import torch

        if torch.cuda.is_available():
            return
        reason = f"torch {torch.__version__} finds no CUDA device; use cpu"
    raise UsageError(f"judges.device 'cuda': {reason}")


def check_named(specs: Sequence[JudgeSpec], options: JudgeOptions) -> None:
    """Check that the selected device exists on this machine and that judges requested by name can run.

    Raises:
        UsageError: The device is missing, or a judge cannot run; the message lists the missing requirements.
    """
    check_device(options)
    if unable := unable_judges(specs, options, connects=True):
        reasons = "\n".join(f"  {name}: {reason}" for name, reason in unable.items())
        raise UsageError(f"these judges cannot run on this machine; missing:\n{reasons}")


def scoring_version(spec: JudgeSpec, options: JudgeOptions) -> str:
    """Return the version under which a judge's scores are stored.

    It consists of the judge's version and everything else that affects its scores: a different model, several
    samples, non-default options, and hashes of files and weights that the specification does not pin.

    >>> from live_eval.judges.specs import BLEU
    >>> scoring_version(BLEU, JudgeOptions(llm=LlmOptions(model="mine"))) == BLEU.version
    True
    """
    parts = [spec.version]
    if spec.kind is not JudgeKind.LOCAL:
        parts += llm_options(spec, options).version_parts(spec)
    for option in spec.options:
        value = option_values(spec, options)[option.name]
        if (part := _version_part(option, value)) is not None:
            parts.append(f"{option.name}={part}")
    return "+".join(parts)


def _version_part(option: OptionSpec, value: str) -> str | None:
    """Return the version suffix for an option's value; None for a pinned default."""
    known = {weights.name: weights for weights in option.weights}
    try:
        if value in known:
            if known[value].pinned:
                return None if value == option.default else value
            return f"{value}@{find_weights(known[value]).sha256[:_HASH_DIGITS]}"
        if value == option.default:
            return None
        if option.weights:
            return f"@{weights_at(Path(value)).sha256[:_HASH_DIGITS]}"
        return f"@{file_sha256(Path(value))[:_HASH_DIGITS]}" if option.is_file else value
    except (JudgeError, OSError):
        return None if value == option.default else value  # the error is reported when the judge is loaded


def load_judge(spec: JudgeSpec, options: JudgeOptions) -> Any:
    """Construct a judge.

    Raises:
        LiveEvalError: A requirement is missing, or the judge cannot be loaded.
    """
    arguments = dict(option_values(spec, options))
    if spec.on_device:
        arguments["device"] = options.device
    try:
        return registry.load(spec.implementation)(**arguments)
    except LiveEvalError:
        raise
    except Exception as error:
        raise JudgeError(f"cannot be loaded: {type(error).__name__}: {error}") from error


def load_judge_runner(
    spec: JudgeSpec,
    options: JudgeOptions,
    stack: ExitStack,
    *,
    answers: AnswerCache | None = None,
    budget: Budget | None = None,
) -> JudgeRunner:
    """Load a judge, and return its runner; `stack` closes its resources.

    An LLM judge reuses responses in `answers` and spends from `budget`.

    Raises:
        LiveEvalError: A requirement is missing, or the judge cannot be loaded.
    """
    judge = load_judge(spec, options)
    if spec.kind is JudgeKind.LOCAL:
        return _LocalJudgeRunner(spec, judge)
    settings = llm_options(spec, options).settings_for(spec)
    return LlmJudgeRunner(judge, LlmDriver(settings, answers=answers, budget=budget), stack)


def judge_batch(load: Callable[[], JudgeRunner], turns: Sequence[JudgedTurn]) -> JudgedBatch:
    """Judge turns and measure the time; `load` returns the judge's runner."""
    clock = SystemClock()
    began_ns = clock.now_ns()
    judgements: Sequence[Judgement] = ()
    problem = None
    try:
        runner = load()
    except LiveEvalError as error:
        problem = str(error)
    else:
        judgements = runner.judge(turns)
    return JudgedBatch(judgements, problem, (clock.now_ns() - began_ns) / 1e9)


class LoadedJudges:
    """The local judges in a worker, each of which is loaded for its first batch."""

    def __init__(self, options: JudgeOptions) -> None:
        self._options = options
        self._runners: dict[str, JudgeRunner] = {}

    def judge(self, name: str, version: str, turns: Sequence[JudgedTurn]) -> JudgedBatch:
        """Judge turns for scores stored under `version`."""
        return judge_batch(partial(self._loaded, name, version), turns)

    def _loaded(self, name: str, version: str) -> JudgeRunner:
        if name in self._runners:
            return self._runners[name]
        spec = as_configured(registry.judge(name), self._options)
        here = scoring_version(spec, self._options)
        if here != version:
            raise LiveEvalError(
                f"expected version {version!r} of the judge on the node, got {here!r}: install the same "
                "weights on both machines"
            )
        return self._runners.setdefault(name, load_judge_runner(spec, self._options, ExitStack()))


class _LocalJudgeRunner:
    """Runs a local judge; if the judge fails on a batch, its turns are judged individually."""

    def __init__(self, spec: JudgeSpec, judge: LocalJudge) -> None:
        self._spec = spec
        self._judge = judge
        self.usage = LlmUsage()

    def judge(self, turns: Sequence[JudgedTurn]) -> list[Judgement]:
        try:
            judgements = list(self._judge.score(turns))
        except Exception as error:
            problem = f"the judge raised {type(error).__name__}: {error}"
        else:
            if len(judgements) == len(turns):
                return [check_judgement(self._spec, judgement) for judgement in judgements]
            problem = f"the judge returned {len(judgements)} judgements for {len(turns)} turns"
        if len(turns) == 1:
            return [Failed(problem)]
        return [judgement for turn in turns for judgement in self.judge([turn])]


class LlmJudgeRunner:
    """Runs an LLM judge of turns or pairs, with its driver in a separate event loop."""

    def __init__(self, judge: LlmJudge | PairwiseJudge, driver: LlmDriver, stack: ExitStack) -> None:
        self._judge = judge
        self._driver = driver
        self._runner = stack.enter_context(asyncio.Runner())
        stack.callback(lambda: self._runner.run(driver.close()))

    @property
    def usage(self) -> LlmUsage:
        """The model usage so far."""
        return self._driver.usage

    def judge(self, asked: Sequence[JudgedTurn | tuple[JudgedTurn, JudgedTurn]]) -> list[Judgement]:
        """Return a valid judgement for each turn or pair; see `LlmDriver.judge`."""
        return self._runner.run(self._driver.judge(self._judge, asked))
