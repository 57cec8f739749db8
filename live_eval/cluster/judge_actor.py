"""The actor that judges on a node of a cluster; each judge is loaded once, when it is needed."""

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
    """Judges batches on a node. Arguments and results are encrypted, except in `introduce`."""

    def __init__(self) -> None:
        self._keys = KeyPair()

    def introduce(self) -> tuple[Software, bytes]:
        """Return the software of this node and the public key."""
        return software(), self._keys.public

    def open(self, other: bytes, sealed: bytes) -> None:
        """Take the driver's public key, and the sealed `JudgeOptions` and secrets."""
        self._seal = self._keys.seal_with(other)
        self._options: JudgeOptions
        self._options, secrets = self._seal.open(sealed)
        SECRETS.learn_all(secrets)
        self._judges = LoadedJudges(self._options)

    def missing(self, sealed: bytes) -> bytes:
        """Return which requirement of the judge with this sealed name is missing here, or None."""
        spec = as_configured(registry.judge(self._seal.open(sealed)), self._options)
        return self._seal.close(missing_requirements(spec, self._options))

    def judge(self, sealed: bytes) -> bytes:
        """Return a `JudgedBatch`; `sealed` are a judge's name, the version of its scores, and turns."""
        name, version, turns = self._seal.open(sealed)
        return self._seal.close(self._judges.judge(name, version, turns))
