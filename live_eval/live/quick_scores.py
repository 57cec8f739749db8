"""Score turns during a conversation, with each judge in a process of the lowest priority."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import multiprocessing
import os
import signal
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import ParamSpec, TypeVar

from live_eval.errors import LiveEvalError, UsageError
from live_eval.judging import JudgedTurn, JudgeKind, JudgeSpec, Need, score_name
from live_eval.live.judge_rotation import JudgeRotation
from live_eval.live.updates import QuickScores
from live_eval.recording import PendingScores, ScoreReader
from live_eval.redaction import SECRETS, Redactor
from live_eval.registry import installed_judges, judge
from live_eval.run.stop_signals import STOP_SIGNALS, end_with_parent
from live_eval.scoring.judge_pool import JudgedBatch
from live_eval.scoring.judge_runner import (
    JudgeOptions,
    LoadedJudges,
    check_options,
    missing_requirements,
    scoring_version,
    unable_judges,
)
from live_eval.scoring.llm import Expense
from live_eval.scoring.scoring_run import JudgeSummary, score_run
from live_eval.session.event_loop import describe

__all__ = [
    "IN_CONVERSATION",
    "QuickScorer",
    "live_judges",
    "live_options",
    "quick_judges",
    "unable_in_conversation",
]

P = ParamSpec("P")
T = TypeVar("T")

_NICENESS = 19
IN_CONVERSATION = frozenset({Need.REPLY_AUDIO, Need.REPLY_TEXT, Need.SPEAKER_AUDIO})
"""What judges can use of a turn of a conversation without a script."""

_REPLY = {Need.REPLY_AUDIO, Need.REPLY_TEXT}
_LIMIT_S = 120.0  # time limit per judge and turn, including loading, which is slow on a busy machine
_PATIENCE_S = 3.0
_LLM_TIMEOUT_S = 20.0
_LLM_ATTEMPTS = 2  # few enough to finish within a judge's time limit
_LLM_CALLS = 200


def quick_judges() -> tuple[str, ...]:
    """Return the installed judges that need only the reply and do not use torch."""
    return tuple(
        spec.name
        for spec in installed_judges()
        if spec.kind is JudgeKind.LOCAL
        and spec.needs
        and spec.needs <= _REPLY
        and not spec.on_device
        and not missing_requirements(spec, JudgeOptions())
    )


def live_options(options: JudgeOptions | None = None, *, scripted: bool = False) -> JudgeOptions:
    """Return judge options with limits for a conversation: a short timeout for model calls, and a budget.

    The budget is 200 calls unless the options limit calls, tokens or cost.

    Args:
        scripted: Whether the user's speech is from a data set, with cues and references.
    """
    options = options or JudgeOptions()
    if not scripted:
        options = replace(options, choices=_in_conversation(options.choices))
    llm = options.llm
    limited = any(limit is not None for limit in (llm.max_calls, llm.max_tokens, llm.max_cost))
    llm = replace(
        llm,
        timeout_s=min(llm.timeout_s, _LLM_TIMEOUT_S),
        attempts=min(llm.attempts, _LLM_ATTEMPTS),
        max_calls=llm.max_calls if limited else _LLM_CALLS,
    )
    return replace(options, llm=llm)


def _in_conversation(given: Mapping[str, Mapping[str, str]]) -> dict[str, Mapping[str, str]]:
    """Return options by judge, with the defaults for an unscripted conversation."""
    choices = dict(given)
    for spec in installed_judges():
        usual = {option.name: option.in_conversation for option in spec.options if option.in_conversation}
        if usual:
            choices[spec.name] = usual | dict(given.get(spec.name, {}))
    return choices


def live_judges(names: Sequence[str], options: JudgeOptions) -> list[JudgeSpec]:
    """Return turn judges by name: fast ones first, then those that call a model.

    Raises:
        PluginError: A judge is unknown.
        UsageError: A judge compares runs instead of turns, or an option is invalid.
    """
    specs = [judge(name) for name in dict.fromkeys(names)]
    for spec in specs:
        if spec.kind is JudgeKind.PAIRWISE:
            raise UsageError(f"judge {spec.name!r} compares two replies and cannot score a single turn")
    check_options(specs, options)
    return sorted(specs, key=lambda spec: (spec.kind is not JudgeKind.LOCAL, spec.effort))


def unable_in_conversation(
    specs: Sequence[JudgeSpec], options: JudgeOptions, *, scripted: bool, connects: bool = False
) -> dict[str, str]:
    """Return the judges that cannot score a conversation's turns on this machine, with the reasons.

    Args:
        scripted: Whether the user's speech is from a data set, with cues and references.
        connects: Whether to check that model servers on this machine accept connections.
    """
    missing = unable_judges(specs, options, connects=connects)
    for spec in specs if not scripted else ():
        if absent := sorted(need.value.replace("_", " ") for need in spec.needs - IN_CONVERSATION):
            wanted = f"{', '.join(absent)} (only in performed scripts)"
            missing[spec.name] = "; ".join(filter(None, (wanted, missing.get(spec.name))))
    return missing


class QuickScorer:
    """Score the stored turns of one or several runs, and store the scores.

    Each judge has its own process, in which it stays loaded for all runs. The judges take turns, each with
    the newest turn, and simultaneous turns of several runs alternate; judges that call a model take turns
    separately. If a judge takes longer than `patience_s`, the others continue. A judge that exceeds
    `limit_s` or crashes its process is disabled.

    Args:
        judges: Judges in the order in which they run.
        options: Options from `live_options`; None for its default limits.
        limit_s: Time limit of a judge for a turn in seconds, including loading the judge.
        patience_s: Time after which the next judge starts, in seconds.
    """

    def __init__(
        self,
        judges: Sequence[str],
        options: JudgeOptions | None = None,
        *,
        limit_s: float = _LIMIT_S,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        options = options or live_options(scripted=True)
        self._processes = {name: _JudgeProcess(name, options) for name in judges}
        on_cores, models = JudgeRotation(patience_s), JudgeRotation(patience_s)
        self._rotations = {
            name: on_cores if judge(name).kind is JudgeKind.LOCAL else models for name in judges
        }
        self._limit_s = limit_s
        self._disabled: dict[str, str] = {}  # reasons by judge
        self._locks: defaultdict[Path, asyncio.Lock] = defaultdict(asyncio.Lock)  # by run
        self._replaced: Counter[tuple[Path, str]] = Counter()  # by run and turn
        self._spent = Expense()  # by all judges

    async def score(self, run: Path, turn_id: str, number: int, tell: Callable[[QuickScores], None]) -> None:
        """Score a stored turn, the conversation's `number`-th; call `tell` with each judge's scores."""
        async with asyncio.TaskGroup() as group:
            for name in self._processes:
                group.create_task(self._score(name, run, turn_id, number, tell))

    async def _score(
        self, name: str, run: Path, turn_id: str, number: int, tell: Callable[[QuickScores], None]
    ) -> None:
        if name not in self._disabled:
            async with self._rotations[name].held(number, name):
                if name not in self._disabled:  # by another turn in the meantime
                    scores = await self._judged(name, run, turn_id)
                    if scores is not None:
                        tell(scores)
                    return
        tell(QuickScores(turn_id, {}, {name: self._disabled[name]}, name))

    def paused(self, run: Path) -> contextlib.AbstractAsyncContextManager[None]:
        """Store no scores of a run, for example while a turn is replaced."""
        return self._locks[run]

    def replaced(self, run: Path, turn_id: str) -> None:
        """Discard judgements of the earlier turn that are not stored yet; call it while paused."""
        self._replaced[run, turn_id] += 1

    async def _judged(self, name: str, run: Path, turn_id: str) -> QuickScores | None:
        """Judge a turn, and store its scores; return None if the turn has been replaced meanwhile."""
        process, replaced = self._processes[name], self._replaced[run, turn_id]
        try:
            async with asyncio.timeout(self._limit_s):
                used = await process.run(_judge, run, turn_id, self._spent)
                self._spent += used
                async with self._locks[run]:
                    if replaced != self._replaced[run, turn_id]:
                        return None
                    return await process.run(_store)
        except TimeoutError:
            problem = f"no score after {self._limit_s:g} s; not run again in this conversation"
        except BrokenExecutor:
            problem = "the scoring process has died; not run again in this conversation"
        except Exception as error:  # a bug in a judge or in live-eval must not end the conversation
            return QuickScores(turn_id, {}, {name: describe(error)}, name)
        self._disabled[name] = problem
        return QuickScores(turn_id, {}, {name: problem}, name)

    def close(self) -> None:
        """End the processes immediately, discard the scores in progress, and wait for the end."""
        for process in self._processes.values():
            process.end()


class _JudgeProcess:
    """A process with one judge, started when it is used."""

    def __init__(self, name: str, options: JudgeOptions) -> None:
        self._given = (name, options)
        self._changes = threading.Lock()  # held while the process starts
        self._executor: ProcessPoolExecutor | None = None
        self._pid = 0

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in the process; if the call is cancelled, end the process.

        Raises:
            BrokenExecutor: The process has died.
        """
        try:
            # Use a thread, because the first call starts the process, which is slow.
            future = await asyncio.to_thread(lambda: self._submit(function, *args, **kwargs))
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:  # the judge may never return, or may lock the run's scores
            await asyncio.to_thread(self.end)
            raise

    def _submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        with self._changes:
            if self._executor is None:
                context = multiprocessing.get_context("spawn")
                given = (*self._given, SECRETS.copy())
                self._executor = ProcessPoolExecutor(1, context, _initialise, given)
                self._pid = self._executor.submit(os.getpid).result()
            return self._executor.submit(function, *args, **kwargs)

    def end(self) -> None:
        """End the process immediately, and wait for its end; the next call starts another one."""
        with self._changes:
            if self._executor is None:
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)  # SIGKILL, since a judge may never return to Python
            self._executor.shutdown(cancel_futures=True)
            self._executor = None


class _KeptJudge:
    """The judge of this process, a `JudgePool` that keeps it loaded between turns unless it calls a model."""

    ahead = 0

    def __init__(self, name: str, options: JudgeOptions) -> None:
        self._name = name
        self._options = options
        self._budget = options.llm.budget()
        self._loaded = LoadedJudges(options)
        self._store: Callable[[], QuickScores] | None = None

    def judge(self, run: Path, turn_id: str, spent: Expense) -> Expense:
        """Judge a turn without locking the run's scores, and return the model usage.

        Args:
            spent: The usage of all judges in the conversation so far.
        """
        self._budget.spent = spent
        try:
            with PendingScores.open(run) as scores:
                (judged,) = score_run(
                    run,
                    [self._name],
                    options=self._options,
                    pool=self,
                    turn_ids=[turn_id],
                    budget=self._budget,
                    into=scores,
                ).judges
        except LiveEvalError as error:
            problem = str(error)
            self._store = lambda: QuickScores(turn_id, {}, {self._name: problem}, self._name)
        else:
            self._store = lambda: _stored(scores, judged, turn_id)
        return self._budget.spent - spent

    def store(self) -> QuickScores:
        """Store the scores of the judged turn, and return them."""
        assert self._store is not None
        return self._store()

    def takes(self, spec: JudgeSpec) -> bool:
        return spec.kind is JudgeKind.LOCAL

    def missing(self, spec: JudgeSpec) -> str | None:
        return missing_requirements(spec, self._options)

    def submit(self, spec: JudgeSpec, turns: Sequence[JudgedTurn]) -> Future[JudgedBatch]:
        batch = self._loaded.judge(spec.name, scoring_version(spec, self._options), turns)
        done: Future[JudgedBatch] = Future()
        done.set_result(batch)
        return done


def _stored(scores: PendingScores, judged: JudgeSummary, turn_id: str) -> QuickScores:
    name = judged.name
    try:
        scores.write()
        with ScoreReader.open(scores.path) as reader:
            rows = list(reader.of_turns([turn_id], {name: judged.version}))
    except LiveEvalError as error:
        return QuickScores(turn_id, {}, {name: str(error)}, name)
    values: dict[str, float | str] = {
        score_name(row.judge, key): value for row in rows for key, value in row.values.items()
    }
    for row in rows:
        for key in judge(row.judge).classes:
            if isinstance(found := row.detail.get(key), Mapping):
                values[f"{row.judge}:{key}"] = f"{found['emotion']}, {100 * found['confidence']:.0f} %"
    problems = {row.judge: row.reason for row in rows if row.status != "scored"}
    return QuickScores(turn_id, values, problems, name, judged.seconds)


_kept: list[_KeptJudge] = []  # used in a judge's process; at most one entry


def _initialise(name: str, options: JudgeOptions, secrets: Redactor) -> None:
    end_with_parent()
    SECRETS.learn_all(secrets)  # masks them in the scores' reasons
    for number in STOP_SIGNALS:  # ignored here: the conversation handles them and ends this process
        signal.signal(number, signal.SIG_IGN)
    os.environ["OMP_NUM_THREADS"] = "1"
    os.nice(_NICENESS)
    with contextlib.suppress(ImportError):  # judges' progress bars would leak a system semaphore
        tqdm = importlib.import_module("tqdm").tqdm
        tqdm.set_lock(threading.RLock())
    _kept.append(_KeptJudge(name, options))


def _judge(run: Path, turn_id: str, spent: Expense) -> Expense:
    return _kept[0].judge(run, turn_id, spent)


def _store() -> QuickScores:
    return _kept[0].store()
