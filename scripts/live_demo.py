"""Run the built-in assistant and the studio until Ctrl-C.

Arguments are those of ``live-eval studio``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from live_eval.reference.server.process import URL_VARIABLE, ReferenceProcess


async def serve(log_folder: Path) -> int:
    """Return the exit status of the studio."""
    print("starting the assistant …", flush=True)
    async with ReferenceProcess(log_folder=log_folder) as assistant:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        studio = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "live_eval", "studio", *sys.argv[1:]),
            env={**os.environ, URL_VARIABLE: assistant.base_url},
        )
        waits = [asyncio.ensure_future(studio.wait()), asyncio.ensure_future(stopped.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        waits[1].cancel()
        if studio.returncode is None:
            studio.terminate()
        return await studio.wait()


def main() -> int:
    """Return the exit status."""
    with TemporaryDirectory() as folder:
        try:
            return asyncio.run(serve(Path(folder)))
        except KeyboardInterrupt:
            return 128 + signal.SIGINT


if __name__ == "__main__":
    raise SystemExit(main())
