"""Run spoken conversations with realtime speech language models, measure latencies, and score the replies."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from live_eval.export import RecordedRun

__all__ = ["__version__", "open_run"]

try:
    __version__ = version("live-eval")
except PackageNotFoundError:  # a source tree without an installation
    __version__ = "0+unknown"

# onnxruntime reports usage and a device identifier to Microsoft unless this is set before it is loaded
# (its Privacy.md, "Disabling Telemetry").
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def open_run(path: str | os.PathLike[str]) -> RecordedRun:
    """Open a recorded run for reading in Python.

    >>> turns = live_eval.open_run("recordings/demo").turns  # doctest: +SKIP
    >>> turns["latency_ms.voice_to_voice"].median()  # doctest: +SKIP

    Args:
        path: The run folder.

    Raises:
        StoreError: The folder is not a run.
        SchemaVersionError: Another version of live-eval wrote the run.
    """
    from pathlib import Path  # imported here to keep `import live_eval` fast

    from live_eval.export import RecordedRun
    from live_eval.recording import RunReader

    RunReader.open(Path(path)).close()
    return RecordedRun(Path(path))
