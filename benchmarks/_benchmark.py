"""Run a benchmark as a command: its help, and errors on one line.

Importing it lets a benchmark import from `tests`, and changes how errors are printed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from types import TracebackType

from live_eval.errors import LiveEvalError
from live_eval.session.event_loop import innermost

__all__ = ["ROOT", "parser"]

ROOT = Path(__file__).resolve().parents[1]


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help is the benchmark's docstring."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def _print_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print errors that the user can fix on one line, and all others with a traceback."""
    cause = innermost(error)
    match cause:
        case ModuleNotFoundError():
            print(f"error: {cause}: `make .venv/bench` installs what the benchmarks need", file=sys.stderr)
        case LiveEvalError():
            print(f"error: {cause}", file=sys.stderr)
        case _:
            sys.__excepthook__(kind, error, trace)


sys.path.insert(1, str(ROOT))  # Python adds only the script's folder
sys.excepthook = _print_error
