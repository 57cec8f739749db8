"""Judge batches in a process that is started by `live_eval.scoring.judge_processes`.

Standard input is one end of a socket pair. The process exits when the other end is closed, so it never
outlives its parent.
"""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection

from live_eval.redaction import SECRETS
from live_eval.run.stop_signals import end_with_parent
from live_eval.scoring.judge_processes import JudgingSettings
from live_eval.scoring.judge_runner import LoadedJudges

__all__ = ["main"]


def main() -> None:
    """Judge batches until the connection on standard input is closed."""
    end_with_parent()
    connection = Connection(sys.stdin.fileno())
    try:
        settings: JudgingSettings = connection.recv()
        SECRETS.learn_all(settings.secrets)
        judges = LoadedJudges(settings.options)
        while True:
            name, version, turns = connection.recv()
            connection.send(judges.judge(name, version, turns))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
