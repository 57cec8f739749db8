"""What runs on the nodes of a cluster for a scoring: judges, each loaded once by a worker that needs it."""

from __future__ import annotations

from live_eval import registry
from live_eval.cluster.nodes import Software, software
from live_eval.cluster.sealing import KeyPair
from live_eval.redaction import SECRETS
from live_eval.scoring.judge_runner import (
    JudgeOptions,
    LoadedJudges,
    as_configured,
    missing_requirements,
)

__all__ = ["JudgeActor"]


class JudgeActor:
    """Judges batches on a node. Arguments and results are sealed but for `introduce`."""

    def __init__(self) -> None:
        self._keys = KeyPair()

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
        self._judges = LoadedJudges(self._options)

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
        return self._seal.close(self._judges.judge(name, version, turns))
