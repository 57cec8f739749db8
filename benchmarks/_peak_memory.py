"""Run a command and measure the peak memory of its process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Measured", "measured", "peak_mb"]

_LOOK_S = 0.05
_MOST_MB = 3_000


@dataclass(frozen=True, slots=True)
class Measured:
    """The outcome of a command.

    Args:
        status: Exit status; None if the command was killed.
        seconds: Duration of the command.
        peak_mb: Peak resident memory.
        output: Combined output of both streams.
    """

    status: int | None
    seconds: float
    peak_mb: float
    output: str


def peak_mb(process_id: int) -> float:
    """Return the current peak resident memory of a process, in megabytes; 0 if the process has exited."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


async def measured(
    command: Sequence[str], *, within_s: float, environment: Mapping[str, str] | None = None
) -> Measured:
    """Run a command to completion.

    Args:
        command: The command.
        within_s: Time limit in seconds; the memory limit is 3 GB.
        environment: Additional environment variables.
    """
    began_s = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **(environment or {})},
    )
    assert process.stdout is not None
    output = asyncio.create_task(process.stdout.read())
    most_mb, killed = 0.0, False
    while process.returncode is None:
        most_mb = max(most_mb, peak_mb(process.pid))
        too_much = time.monotonic() - began_s > within_s or most_mb > _MOST_MB
        if too_much and not killed:
            killed = True
            process.kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_S):
                await process.wait()
    text = (await output).decode(errors="replace")
    status = None if killed else process.returncode
    return Measured(status, time.monotonic() - began_s, most_mb, text)
