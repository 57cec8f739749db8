"""Run the reference endpoint in a separate process to avoid disturbing the measurement."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import BinaryIO, Self

import orjson

from live_eval.clock import SystemClock
from live_eval.errors import LiveEvalError
from live_eval.files import private_folder, private_opener
from live_eval.reference.settings import TOKEN_VARIABLE

__all__ = ["LOG_NAME", "ReferenceProcess", "launch"]

LOG_NAME = "reference-endpoint.log"
"""Log file for the process's standard error."""

_log = logging.getLogger(__name__)

_NICENESS = 10
_RESTART_INTERVAL_NS = 2_000_000_000
_STOP_TIMEOUT_S = 10.0
_TAIL_CHARACTERS = 2_000


class ReferenceProcess:
    """Run ``live-eval endpoint`` in a context. The process ignores Ctrl-C and exits with its parent.

    Args:
        log_folder: Folder for the log; created if missing.
        calibrate: Whether to use calibration signals instead of models; see `ReferenceSettings`.
        truth: File for the true times, or None.
        data: Data set whose scripts the endpoint answers in addition to the bundled sample.
        arguments: Additional flags of ``live-eval endpoint``.
        start_timeout_s: Startup timeout.
    """

    def __init__(
        self,
        *,
        log_folder: Path,
        calibrate: bool = False,
        truth: Path | None = None,
        data: Path | None = None,
        arguments: Sequence[str] = (),
        start_timeout_s: float = 60.0,
    ) -> None:
        self._log = log_folder / LOG_NAME
        self._command = [
            *(sys.executable, "-P", "-m", "live_eval"),  # -P: do not import from the current folder
            *("endpoint", "--until-stdin-ends"),
            *(("--calibrate",) if calibrate else ()),
            *(() if truth is None else ("--truth", str(truth))),
            *(() if data is None else ("--data", str(data))),
            *arguments,
        ]
        # Keep the models from competing with the measuring process for CPU time.
        self._low_priority = not calibrate
        self._start_timeout_s = start_timeout_s
        self._process: asyncio.subprocess.Process | None = None
        self._port: int | None = None

    @property
    def base_url(self) -> str:
        """The base URL, for example ``"ws://127.0.0.1:40123/v1"``; see `origin`."""
        return f"{self.origin}/v1"

    @property
    def origin(self) -> str:
        """The URL without a path, for dialects with other paths; raises `LiveEvalError` before startup."""
        if self._port is None:
            raise LiveEvalError("the reference endpoint has not been started: enter the context first")
        return f"ws://127.0.0.1:{self._port}"

    @property
    def process_id(self) -> int:
        """The process ID, once started."""
        assert self._process is not None
        return self._process.pid

    async def __aenter__(self) -> Self:
        """Start the process and wait until it is ready.

        Raises:
            LiveEvalError: The process exited or timed out; the message contains the end of its log.
        """
        self._port = await self._start()
        return self

    async def _start(self) -> int:
        """Start a process on the previous process's port, if any, and return the port."""
        log = await asyncio.to_thread(self._open_log)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(*self._command, "--port", str(self._port or 0)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # only the parent may receive Ctrl-C, to complete its turns
                env={
                    # Clients send no token.
                    **{name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE},
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                    "PYTHONUNBUFFERED": "1",
                },
            )
        finally:
            await asyncio.to_thread(log.close)
        if self._low_priority:
            _lower_priority(self._process.pid)
        try:
            return await self._ready(self._process)
        except BaseException:
            await self._stop(self._process)
            raise

    async def keep_running(self) -> None:
        """Restart the process at its address whenever it exits, until cancelled; retry failed restarts."""
        assert self._process is not None
        clock, warned = SystemClock(), False
        while True:
            await self._process.wait()
            try:
                await self._start()
                warned = False
            except LiveEvalError as error:
                if not warned:
                    _log.warning("cannot restart the endpoint, retrying: %s", error)
                warned = True
            await clock.sleep_until(clock.now_ns() + _RESTART_INTERVAL_NS)

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Stop the process; raise `LiveEvalError` if it exited early and no other error is pending."""
        process = self._process
        assert process is not None
        died = process.returncode
        await self._stop(process)
        if died is not None and error is None:
            raise await self._failure(f"exited unexpectedly with status {died}")

    async def _ready(self, process: asyncio.subprocess.Process) -> int:
        assert process.stdout is not None
        try:
            async with asyncio.timeout(self._start_timeout_s):
                line = await process.stdout.readline()
                status = None if line else await process.wait()
        except TimeoutError:
            raise await self._failure(f"was not ready within {self._start_timeout_s:g} s") from None
        if not line:
            raise await self._failure(f"exited with status {status} before it was ready")
        try:
            return int(orjson.loads(line)["port"])
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            what = f"printed {line[:200]!r}, expected a JSON object with its port"
            raise await self._failure(what) from None

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin is not None:
            process.stdin.close()
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        try:
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _failure(self, what: str) -> LiveEvalError:
        text = await asyncio.to_thread(self._log.read_text, "utf-8", errors="replace")
        tail = text[-_TAIL_CHARACTERS:].strip() or "(nothing)"
        return LiveEvalError(f"the reference endpoint {what}; {self._log} ends with:\n{tail}")

    def _open_log(self) -> BinaryIO:
        try:
            private_folder(self._log.parent)
            return open(self._log, "wb" if self._port is None else "ab", opener=private_opener)
        except OSError as error:
            raise LiveEvalError(f"cannot write {self._log}: {error.strerror}") from None


@contextlib.asynccontextmanager
async def launch(data: Path, log_folder: Path) -> AsyncIterator[str]:
    """Run a reference endpoint that answers a data set's scripts, and yield its base URL.

    This is the launch hook in the client's specification. If the endpoint dies, it is restarted, and the run
    pauses meanwhile.
    """
    async with ReferenceProcess(data=data, log_folder=log_folder) as process:
        keeping = asyncio.create_task(process.keep_running())
        try:
            yield process.base_url
        finally:
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeping


def _lower_priority(pid: int) -> None:
    """Lower the priority of a process and its future threads."""
    if hasattr(os, "setpriority"):  # unavailable on Windows
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, pid, _NICENESS)
