"""What runs on the nodes of a cluster for a scoring: judges, each loaded once by a worker that needs it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from live_eval import registry
from live_eval.clock import SystemClock
from live_eval.cluster.nodes import Software, software
from live_eval.cluster.sealing import KeyPair
from live_eval.errors import LiveEvalError
from live_eval.judging import JudgedTurn
from live_eval.redaction import SECRETS
from live_eval.scoring.judge_pool import JudgedBatch
from live_eval.scoring.judge_runner import (
    JudgeOptions,
    JudgeRunner,
    as_configured,
    load_judge_runner,
    missing_requirements,
    scoring_version,
)

__all__ = ["JudgeActor"]


class JudgeActor:
    """Judges batches on a node. Arguments and results are sealed but for `introduce`."""

    def __init__(self) -> None:
        self._keys = KeyPair()
        self._runners: dict[str, JudgeRunner] = {}

    def introduce(self) -> tuple[Software, bytes]:
        """Return the software here, and the public half of the keys."""
        return software(), self._keys.public

    def open(self, other: bytes, sealed: bytes) -> None:
        """Take the options of the judges.

        Args:
            other: The public half of the driver's keys.
            sealed: `JudgeOptions`, and what the driver knows of secrets.
        """
        self._seal = self._keys.seal_with(other)
        self._options: JudgeOptions
        self._options, secrets = self._seal.open(sealed)
        SECRETS.learn_all(secrets)

    def missing(self, sealed: bytes) -> bytes:
        """Return what a judge needs and this node does not have, or None; `sealed` is its name."""
        spec = as_configured(registry.judge(self._seal.open(sealed)), self._options)
        return self._seal.close(missing_requirements(spec, self._options))

    def judge(self, sealed: bytes) -> bytes:
        """Return a `JudgedBatch`.

        Args:
            sealed: The judge's name, the version under which its scores are stored, and turns.
        """
        name, version, turns = self._seal.open(sealed)
        return self._seal.close(self._judged(name, version, turns))

    def _judged(self, name: str, version: str, turns: Sequence[JudgedTurn]) -> JudgedBatch:
        clock = SystemClock()
        began_ns = clock.now_ns()
        judgements: Any = ()
        problem = None
        try:
            if name not in self._runners:
                self._runners[name] = self._loaded(name, version)
            judgements = self._runners[name].judge(turns)
        except LiveEvalError as error:
            problem = str(error)
        return JudgedBatch(judgements, problem, (clock.now_ns() - began_ns) / 1e9)

    def _loaded(self, name: str, version: str) -> JudgeRunner:
        spec = as_configured(registry.judge(name), self._options)
        here = scoring_version(spec, self._options)
        if here != version:
            raise LiveEvalError(
                f"the judge is {here!r} on a node, and {version!r} where the scores are stored: "
                "install the same weights on both"
            )
        return load_judge_runner(spec, self._options, ExitStack())
