"""Score turns during a conversation, in a process with the lowest priority."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from multiprocessing.synchronize import Event
from pathlib import Path

from live_eval.errors import LiveEvalError
from live_eval.judging import JudgeKind, Need, score_name
from live_eval.live.updates import QuickScores
from live_eval.recording import ScoreReader
from live_eval.registry import installed_judges
from live_eval.run.stop_signals import STOP_SIGNALS
from live_eval.scoring.judge_runner import JudgeOptions, missing_requirements
from live_eval.scoring.scoring_run import score_run
from live_eval.session.event_loop import describe

__all__ = ["QuickScorer", "quick_judges"]

_NICENESS = 19
_REPLY = {Need.REPLY_AUDIO, Need.REPLY_TEXT}


def quick_judges() -> tuple[str, ...]:
    """Return the installed judges that need only the reply and do not need torch."""
    return tuple(
        spec.name
        for spec in installed_judges()
        if spec.kind is JudgeKind.LOCAL
        and spec.needs
        and spec.needs <= _REPLY
        and not spec.on_device
        and not missing_requirements(spec, JudgeOptions())
    )


class QuickScorer:
    """Score stored turns, and store the scores."""

    def __init__(self, run: Path, judges: Sequence[str]) -> None:
        self._run = run
        self._judges = tuple(judges)
        processes = multiprocessing.get_context("spawn")
        self._abandoned = processes.Event()
        self._process = ProcessPoolExecutor(
            1, processes, initializer=_initialise, initargs=(_NICENESS, self._abandoned)
        )

    async def score(self, turn_id: str) -> QuickScores:
        """Score a stored turn, and earlier turns without scores."""
        try:
            # In a thread, because the first call starts the process, which is slow.
            scoring = await asyncio.to_thread(
                lambda: self._process.submit(_scores_of, self._run, self._judges, turn_id)
            )
            return await asyncio.wrap_future(scoring)
        except BrokenExecutor:
            return QuickScores(turn_id, {}, {"scoring": "the scoring process has died"})
        except Exception as error:  # a bug in a judge or in live-eval costs the score, not the conversation
            return QuickScores(turn_id, {}, {"scoring": describe(error)})

    def abandon(self) -> None:
        """End the process at once and discard the score in progress."""
        self._abandoned.set()

    def close(self) -> None:
        """End the process after the score in progress."""
        self._process.shutdown(cancel_futures=True)


def _initialise(niceness: int, abandoned: Event) -> None:
    for number in STOP_SIGNALS:  # handled by the conversation, which ends this process
        signal.signal(number, signal.SIG_IGN)
    os.environ["OMP_NUM_THREADS"] = "1"
    os.nice(niceness)
    with contextlib.suppress(ImportError):  # the judges' progress bars would leak a system semaphore
        tqdm = importlib.import_module("tqdm").tqdm
        tqdm.set_lock(threading.RLock())
    threading.Thread(target=_exit_once, args=(abandoned,), daemon=True).start()


def _exit_once(abandoned: Event) -> None:
    abandoned.wait()
    os._exit(1)


def _scores_of(run: Path, judges: Sequence[str], turn_id: str) -> QuickScores:
    try:
        score_run(run, judges)
        with ScoreReader.open(run) as scores:
            rows = [row for row in scores.read(judges) if row.turn_id == turn_id]
    except LiveEvalError as error:
        return QuickScores(turn_id, {}, {"scoring": str(error)})
    values = {score_name(row.judge, name): value for row in rows for name, value in row.values.items()}
    return QuickScores(turn_id, values, {row.judge: row.reason for row in rows if row.status == "failed"})
