"""Run judges in local processes (``--jobs N``), to use all cores and GPUs.

The parent process reads the run, calls models and writes the scores.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from live_eval.errors import LiveEvalError
from live_eval.judging import JudgedTurn
from live_eval.redaction import SECRETS, Redactor
from live_eval.run.spread import core_count
from live_eval.scoring.judge_pool import JudgedBatch, JudgePool
from live_eval.scoring.judge_queue import JudgeBatch
from live_eval.scoring.judge_runner import JudgeOptions, missing_requirements
from live_eval.scoring.judge_workers import WorkerGroup, WorkerPlace, WorkerPool

__all__ = ["JudgingSettings", "judge_processes"]

_PROGRAM = "from live_eval.scoring.judge_process import main; main()"
# A judge takes about a tenth of the reply's length and seconds to load, but much longer on a busy machine.
_HUNG_S = 600.0
_HUNG_PER_AUDIO_S = 20.0
_LINES, _LINE_BYTES = 3, 300
_LAST_WORDS_S = 1.0
# Environment variables that numerical libraries read at import.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgingSettings:
    """The settings of a process, which are the first object that it receives."""

    options: JudgeOptions
    secrets: Redactor = field(repr=False)


@contextlib.contextmanager
def judge_processes(
    jobs: int,
    options: JudgeOptions,
    announce: Callable[[str], None],
    *,
    hung_s: float = _HUNG_S,
) -> Iterator[JudgePool]:
    """Run local judges in separate processes on this machine, which end when the block exits.

    Args:
        jobs: Number of processes, among which the cores are divided. With ``device="cuda"``, there is an
            additional process per GPU for judges that use torch.
        announce: Called with a message if no process starts, possibly from several threads.
        hung_s: Time limit per batch, in addition to 20 times its audio length; a slower process is replaced.
    """
    threads = str(max(1, core_count() // jobs))
    plain = {**os.environ, **dict.fromkeys(_THREADS, threads)}

    def place(environment: Mapping[str, str]) -> WorkerPlace[_JudgeProcess]:
        return WorkerPlace("this machine", lambda _: _JudgeProcess(options, hung_s, environment))

    cores = [place(plain) for _ in range(jobs)]
    gpus = _gpus() if options.device == "cuda" else ()
    graphics = [place({**plain, "CUDA_VISIBLE_DEVICES": gpu}) for gpu in gpus]
    with contextlib.ExitStack() as stack:
        on_cores, on_gpus = (
            stack.enter_context(contextlib.closing(WorkerGroup(places, announce)))
            for places in (cores, graphics)
        )
        yield WorkerPool(on_cores, on_gpus, options, lambda _, spec: missing_requirements(spec, options))


def _gpus() -> list[str]:
    """Return the GPUs, named as in ``CUDA_VISIBLE_DEVICES``."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [gpu for gpu in chosen.split(",") if gpu]
    import torch

    return [str(number) for number in range(torch.cuda.device_count())]


class _JudgeProcess:
    """A `JudgeWorker` that runs in a separate process."""

    def __init__(self, options: JudgeOptions, hung_s: float, environment: Mapping[str, str]) -> None:
        self._hung_s = hung_s
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _PROGRAM],  # -P: do not import from the current folder
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    start_new_session=True,  # Ctrl-C must reach only the parent, which then ends the worker
                    env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                )
            except OSError as error:
                ours.close()
                raise LiveEvalError(f"cannot start a process for judges: {error}") from None
        self._printed: deque[str] = deque(maxlen=_LINES)
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()
        self._connection = Connection(ours.detach())
        self._connection.send(JudgingSettings(options=options, secrets=SECRETS.copy()))

    def judge(self, batch: JudgeBatch) -> JudgedBatch:
        """See `JudgeWorker`."""
        try:
            self._connection.send((batch.spec.name, batch.version, batch.turns))
            limit_s = self._hung_s + _HUNG_PER_AUDIO_S * _audio_s(batch.turns)
            if not self._connection.poll(limit_s):
                raise LiveEvalError(
                    self._with_output(f"a judge process did not respond within {limit_s:.0f} s")
                )
            answer: JudgedBatch = self._connection.recv()
        except (EOFError, OSError):
            how = self._exit_in_words()
            self._reader.join(_LAST_WORDS_S)
            raise LiveEvalError(self._with_output(how)) from None
        return answer

    def end(self) -> None:
        """See `JudgeWorker`."""
        self._process.kill()
        self._process.wait()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            while line := stream.readline(_LINE_BYTES):
                self._printed.append(line.decode(errors="replace").strip())

    def _with_output(self, how: str) -> str:
        """Append the last lines of the process's output, redacted, to an error message."""
        return SECRETS.text(": ".join([how, " | ".join(filter(None, self._printed))]).removesuffix(": "))

    def _exit_in_words(self) -> str:
        try:
            status = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return "a judge process closed its connection"
        if status == -signal.SIGKILL:
            return "a judge process was killed (signal 9), possibly because the machine ran out of memory"
        return f"a judge process ended with {f'signal {-status}' if status < 0 else f'status {status}'}"


def _audio_s(turns: Sequence[JudgedTurn]) -> float:
    recordings = (audio for turn in turns for audio in (turn.reply, turn.reference, turn.speaker))
    return sum(audio.duration_ns for audio in recordings if audio is not None) / 1e9
