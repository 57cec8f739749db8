"""The contract of judges: turns in, judgements out. Judges read the store, never the network session.

A local judge is a pure function of a batch (`LocalJudge.score`). An LLM judge is a pair of pure functions
(`LlmJudge.request`, `LlmJudge.parse`) under one driver, which does the calling, retrying and counting.

A judgement is scored, unscored (the turn lacks what the judge needs) or failed (the judge should have been
able to and was not), the latter two with a reason: never NaN, never 0 for "did not run".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from live_eval.audio import Audio, resample
from live_eval.types import Case

__all__ = [
    "ChatRequest",
    "Failed",
    "JudgeKind",
    "JudgeSpec",
    "JudgedTurn",
    "Judgement",
    "LlmJudge",
    "LocalJudge",
    "Need",
    "OutputSpec",
    "Scored",
    "Unscored",
    "check_judgement",
    "missing",
    "score_name",
]


class JudgeKind(StrEnum):
    """Which of the two contracts a judge follows."""

    LOCAL = "local"
    LLM = "llm"


class Need(StrEnum):
    """What of a turn a judge cannot do without."""

    REPLY_AUDIO = "reply_audio"
    REPLY_TEXT = "reply_text"
    HEARD_TEXT = "heard_text"
    SCRIPT_TEXT = "script_text"
    REFERENCE_TEXT = "reference_text"
    REFERENCE_AUDIO = "reference_audio"
    CUE = "cue"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec:
    """One number that a judge gives.

    Args:
        name: Its name; empty for the only (or main) output of a judge, which goes by the judge's name.
        title: In words, for the report.
        unit: Its unit ("MOS", "%", "").
        low: Smallest possible value, or None.
        high: Largest possible value, or None.
        higher_is_better: The direction, or None where neither is.
    """

    name: str
    title: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    higher_is_better: bool | None = True


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSpec:
    """What a judge plugin says of itself without being loaded. An entry point names one of these.

    Args:
        name: Its name on the command line and in the store.
        version: Changes whenever its numbers may; scores are kept by it.
        title: In words.
        kind: Which contract it follows.
        implementation: ``"module:Class"``; constructed without arguments.
        outputs: The numbers it gives.
        needs: What of a turn it cannot do without.
        packages: Importable packages it needs beside the base install.
        extra: The extra that installs them, or None.
        key_variable: Environment variable of the key that it needs, or None.
        base_url: For LLM judges, the OpenAI-compatible address that it was made for; None for OpenAI's.
        licence: Licence of its weights, or empty.
        source: Paper or page of the metric.
    """

    name: str
    version: str
    title: str
    kind: JudgeKind
    implementation: str
    outputs: tuple[OutputSpec, ...]
    needs: frozenset[Need]
    packages: tuple[str, ...] = ()
    extra: str | None = None
    key_variable: str | None = None
    base_url: str | None = None
    licence: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTurn:
    """A captured turn, as judges see it.

    Args:
        turn_id: The turn in its run.
        case: The case that was played.
        reply: The reply alone, or None where there is none.
        reply_text: What the endpoint says it said, or None.
        heard_text: What the endpoint's transcriber heard, or None.
        reference: The reference reply's audio, or None.
    """

    turn_id: str
    case: Case
    reply: Audio | None = None
    reply_text: str | None = None
    heard_text: str | None = None
    reference: Audio | None = None
    _resampled: dict[int, Audio] = field(default_factory=dict, init=False, repr=False, compare=False)

    def reply_at(self, rate_hz: int) -> Audio:
        """Return the reply at `rate_hz`; it is resampled once for each rate, for all judges together.

        Raises:
            ValueError: There is no reply; a judge that calls this names `Need.REPLY_AUDIO`.
        """
        if self.reply is None:
            raise ValueError(f"turn {self.turn_id!r} has no reply audio")
        if rate_hz not in self._resampled:
            self._resampled[rate_hz] = resample(self.reply, rate_hz)
        return self._resampled[rate_hz]


@dataclass(frozen=True, slots=True)
class Scored:
    """The judge's numbers, by output name, and what they rest on (JSON values only)."""

    values: Mapping[str, float]
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unscored:
    """The turn lacks what the judge needs."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The judge should have been able to score the turn, and was not."""

    reason: str
    detail: Mapping[str, Any] = field(default_factory=dict)


Judgement: TypeAlias = Scored | Unscored | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """What to ask an OpenAI-compatible chat endpoint.

    Args:
        messages: As the API takes them (content parts with audio included).
        model: The model that the judge was made for; the driver may be told another.
        json_object: Whether to ask for a JSON object.
        temperature: Sampling temperature.
    """

    messages: Sequence[Mapping[str, Any]]
    model: str
    json_object: bool = True
    temperature: float = 0.0


class LocalJudge(Protocol):
    """A judge that computes; its constructor loads what it needs, or raises `JudgeError`."""

    def score(self, batch: Sequence[JudgedTurn]) -> Sequence[Judgement]:
        """Judge each turn of the batch, in order.

        Args:
            batch: Turns that have everything the specification needs.

        Returns:
            One judgement for each. A turn that cannot be judged is a `Failed`; nothing is raised for it.
        """
        ...


class LlmJudge(Protocol):
    """A judge that asks a model. Pure: the driver does the calling."""

    def request(self, turn: JudgedTurn) -> ChatRequest:
        """Return what to ask about a turn that has everything the specification needs."""
        ...

    def parse(self, answer: str) -> Judgement:
        """Return the judgement that an answer holds; `Failed` where it holds none."""
        ...


def score_name(judge: str, output: str) -> str:
    """Return the name of a score: ``judge`` or ``judge.output``.

    >>> score_name("dnsmos", "ovrl"), score_name("bleu", "")
    ('dnsmos.ovrl', 'bleu')
    """
    return f"{judge}.{output}" if output else judge


def missing(turn: JudgedTurn, needs: frozenset[Need]) -> str | None:
    """Return in words what the turn lacks of `needs`, or None where it lacks nothing.

    Empty text and audio without samples count as absent. An empty heard text does not: that the
    transcriber heard nothing is an answer.
    """
    there: dict[Need, object] = {
        Need.REPLY_AUDIO: turn.reply is not None and len(turn.reply.samples) > 0,
        Need.REPLY_TEXT: (turn.reply_text or "").strip(),
        Need.HEARD_TEXT: turn.heard_text is not None,
        Need.SCRIPT_TEXT: (turn.case.text or "").strip(),
        Need.REFERENCE_TEXT: (turn.case.reference_text or "").strip(),
        Need.REFERENCE_AUDIO: turn.reference is not None and len(turn.reference.samples) > 0,
        Need.CUE: turn.case.cue,
    }
    lacking = [need.value.replace("_", " ") for need in Need if need in needs and not there[need]]
    return f"no {', no '.join(lacking)}" if lacking else None


def check_judgement(spec: JudgeSpec, judgement: Judgement) -> Judgement:
    """Return the judgement, or a `Failed` where it is not what the specification promises.

    A score has exactly the outputs that the specification names, each finite and within its bounds.
    """
    if isinstance(judgement, (Unscored, Failed)):
        return judgement
    if not isinstance(judgement, Scored):
        return Failed(f"the judge gave a {type(judgement).__name__}, expected a judgement")
    promised = {output.name for output in spec.outputs}
    if set(judgement.values) != promised:
        return Failed(
            f"the judge gave the outputs {sorted(judgement.values)}, expected {sorted(promised)}",
            judgement.detail,
        )
    for output in spec.outputs:
        value = judgement.values[output.name]
        low = output.low if output.low is not None else -math.inf
        high = output.high if output.high is not None else math.inf
        if not (math.isfinite(value) and low <= value <= high):
            where = f" for {output.name}" if output.name else ""
            problem = f"the judge gave {value}{where}, expected a finite number from {low:g} to {high:g}"
            return Failed(problem, judgement.detail)
    return judgement
