"""Score turns during a conversation, one judge at a time, in a process with the lowest priority."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import multiprocessing
import os
import signal
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from live_eval.errors import LiveEvalError, UsageError
from live_eval.judging import JudgedTurn, JudgeKind, JudgeSpec, Need, score_name
from live_eval.live.updates import QuickScores
from live_eval.recording import ScoreReader
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
from live_eval.scoring.scoring_run import score_run
from live_eval.session.event_loop import describe

__all__ = [
    "IN_CONVERSATION",
    "QuickScorer",
    "live_judges",
    "live_options",
    "quick_judges",
    "unable_in_conversation",
]

_NICENESS = 19
IN_CONVERSATION = frozenset({Need.REPLY_AUDIO, Need.REPLY_TEXT, Need.SPEAKER_AUDIO})
"""What judges can use of a turn of a conversation without a script."""

_REPLY = {Need.REPLY_AUDIO, Need.REPLY_TEXT}
_LIMIT_S = 60.0  # time limit per judge and turn, including loading
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
    """Score the stored turns of one or several runs, judge by judge, and store the scores.

    Each judge is loaded once for all runs, and one judge runs at a time. The judges take turns, each with the
    newest turn; simultaneous turns of several runs alternate. A judge that exceeds `limit_s` or crashes the
    process is disabled.

    Args:
        judges: Judges in the order in which they run.
        options: Options from `live_options`; None for its default limits.
        limit_s: Time limit of a judge for a turn in seconds, including loading the judge.
    """

    def __init__(
        self,
        judges: Sequence[str],
        options: JudgeOptions | None = None,
        *,
        limit_s: float = _LIMIT_S,
    ) -> None:
        self._judges = list(judges)
        self._options = options or live_options(scripted=True)
        self._limit_s = limit_s
        self._queue = _JudgeQueue()
        self._disabled: dict[str, str] = {}  # reasons by judge
        self._locks: defaultdict[Path, asyncio.Lock] = defaultdict(asyncio.Lock)  # by run
        self._spent = Expense()  # kept across process restarts
        self._processes = multiprocessing.get_context("spawn")
        self._closed = False
        self._pid: int | None = None
        self._process = self._new_process()

    async def score(self, run: Path, turn_id: str, number: int, tell: Callable[[QuickScores], None]) -> None:
        """Score a stored turn, the conversation's `number`-th; call `tell` with each judge's scores."""
        for name in self._judges:
            if name not in self._disabled:
                async with self._queue.held(number, name), self._locks[run]:
                    if name not in self._disabled:  # by another turn in the meantime
                        tell(await self._judged(name, run, turn_id))
                        continue
            tell(QuickScores(turn_id, {}, {name: self._disabled[name]}, name))

    def paused(self, run: Path) -> contextlib.AbstractAsyncContextManager[None]:
        """Wait for the judge of the run's turn and block further ones, which lock the run's scores."""
        return self._locks[run]

    async def _judged(self, name: str, run: Path, turn_id: str) -> QuickScores:
        try:
            # Use a thread, because the first call starts the process, which is slow.
            scoring = await asyncio.to_thread(self._submit, name, run, turn_id)
            scored = await asyncio.wait_for(asyncio.wrap_future(scoring), self._limit_s)
        except TimeoutError:
            problem = f"no score after {self._limit_s:g} s; not run again in this conversation"
        except asyncio.CancelledError:  # until it ends, the process locks the run's scores
            await asyncio.to_thread(self._restart)
            raise
        except BrokenExecutor:
            problem = "the scoring process has died; not run again in this conversation"
        except Exception as error:  # a bug in a judge or in live-eval must not end the conversation
            return QuickScores(turn_id, {}, {name: describe(error)}, name)
        else:
            self._spent = scored.spent
            return scored.scores
        self._disabled[name] = problem
        await asyncio.to_thread(self._restart)
        return QuickScores(turn_id, {}, {name: problem}, name)

    def close(self) -> None:
        """End the process immediately, discard the score in progress, and wait for the end."""
        self._closed = True
        self._kill()
        self._process.shutdown(cancel_futures=True)

    def _submit(self, name: str, run: Path, turn_id: str) -> Future[_Scored]:
        process = self._process  # `_restart` may replace it while it starts
        pid = self._pid or process.submit(os.getpid).result()
        if process is self._process:
            self._pid = pid
        if self._closed:  # while the process started
            self._kill()
        return process.submit(_scores_of, run, name, turn_id)

    def _restart(self) -> None:
        self._kill()
        self._process.shutdown(cancel_futures=True)
        self._pid, self._process = None, self._new_process()

    def _kill(self) -> None:
        if self._pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)  # SIGKILL, since a judge may never return to Python

    def _new_process(self) -> ProcessPoolExecutor:
        given = (_NICENESS, self._options, self._spent)
        return ProcessPoolExecutor(1, self._processes, initializer=_initialise, initargs=given)


class _Waiting(NamedTuple):
    number: int
    judge: str
    free: asyncio.Future[None]


class _JudgeQueue:
    """A lock that the judges hold in turn, each for the newest turn that waits for it.

    A judge scores a turn of all runs before the next judge. The judge that held the lock least recently is
    next, so that a slow judge does not starve the others.
    """

    def __init__(self) -> None:
        self._taken = False
        self._waiting: list[_Waiting] = []
        self._held = 0
        self._last = (0, "")  # turn and judge
        self._held_at: dict[str, int] = {}  # by judge

    @contextlib.asynccontextmanager
    async def held(self, number: int, judge: str) -> AsyncIterator[None]:
        """Hold the lock for a judge and a turn."""
        if self._taken:
            free: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(_Waiting(number, judge, free))
            try:
                await free
            except asyncio.CancelledError:
                if not free.cancelled():
                    self._pass_on()
                raise
        self._taken = True
        self._held += 1
        self._last, self._held_at[judge] = (number, judge), self._held
        try:
            yield
        finally:  # later, so that the turn's next judge waits too
            asyncio.get_running_loop().call_soon(self._pass_on)

    def _pass_on(self) -> None:
        self._waiting = [each for each in self._waiting if not each.free.cancelled()]
        self._taken = bool(self._waiting)
        if self._waiting:
            chosen = max(self._waiting, key=self._urgency)
            self._waiting.remove(chosen)
            chosen.free.set_result(None)

    def _urgency(self, waiting: _Waiting) -> tuple[bool, int, int]:
        same = (waiting.number, waiting.judge) == self._last  # of another run
        return same, -self._held_at.get(waiting.judge, 0), waiting.number


class _KeptJudges:
    """Keep local judges loaded in this process between turns, as a `JudgePool`."""

    ahead = 0

    def __init__(self, options: JudgeOptions, spent: Expense) -> None:
        self.options = options
        self.budget = options.llm.budget()
        self.budget.spent = spent
        self._judges = LoadedJudges(options)

    def takes(self, spec: JudgeSpec) -> bool:
        return spec.kind is JudgeKind.LOCAL

    def missing(self, spec: JudgeSpec) -> str | None:
        return missing_requirements(spec, self.options)

    def submit(self, spec: JudgeSpec, turns: Sequence[JudgedTurn]) -> Future[JudgedBatch]:
        batch = self._judges.judge(spec.name, scoring_version(spec, self.options), turns)
        done: Future[JudgedBatch] = Future()
        done.set_result(batch)
        return done


_kept: list[_KeptJudges] = []  # used in the scoring process; at most one entry


def _initialise(niceness: int, options: JudgeOptions, spent: Expense) -> None:
    end_with_parent()
    for number in STOP_SIGNALS:  # ignored here: the conversation handles them and ends this process
        signal.signal(number, signal.SIG_IGN)
    os.environ["OMP_NUM_THREADS"] = "1"
    os.nice(niceness)
    with contextlib.suppress(ImportError):  # judges' progress bars would leak a system semaphore
        tqdm = importlib.import_module("tqdm").tqdm
        tqdm.set_lock(threading.RLock())
    _kept.append(_KeptJudges(options, spent))


@dataclass(frozen=True, slots=True)
class _Scored:
    """One judge's scores and the conversation's model usage so far."""

    scores: QuickScores
    spent: Expense


def _scores_of(run: Path, name: str, turn_id: str) -> _Scored:
    (kept,) = _kept
    return _Scored(_scores(kept, run, name, turn_id), kept.budget.spent)


def _scores(kept: _KeptJudges, run: Path, name: str, turn_id: str) -> QuickScores:
    try:
        summary = score_run(
            run, [name], options=kept.options, pool=kept, turn_ids=[turn_id], budget=kept.budget
        )
        (judged,) = summary.judges
        with ScoreReader.open(run) as scores:
            rows = list(scores.of_turns([turn_id], {name: judged.version}))
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
