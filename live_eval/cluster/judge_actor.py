"""Define the Ray actor that judges on a cluster node. It loads each judge on first use."""

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
    """An actor that judges batches. Arguments and results are encrypted, except those of `introduce`."""

    def __init__(self) -> None:
        self._keys = KeyPair()

    def introduce(self) -> tuple[Software, bytes]:
        """Return this node's software versions and public key."""
        return software(), self._keys.public

    def open(self, other: bytes, sealed: bytes) -> None:
        """Accept the driver's public key, and encrypted `JudgeOptions` and secrets."""
        self._seal = self._keys.seal_with(other)
        self._options: JudgeOptions
        self._options, secrets = self._seal.open(sealed)
        SECRETS.learn_all(secrets)
        self._judges = LoadedJudges(self._options)

    def missing(self, sealed: bytes) -> bytes:
        """Return the missing requirement of a judge, or None. The name and the result are encrypted."""
        spec = as_configured(registry.judge(self._seal.open(sealed)), self._options)
        return self._seal.close(missing_requirements(spec, self._options))

    def judge(self, sealed: bytes) -> bytes:
        """Return an encrypted `JudgedBatch`; `sealed` contains the judge's name, score version and turns."""
        name, version, turns = self._seal.open(sealed)
        return self._seal.close(self._judges.judge(name, version, turns))
