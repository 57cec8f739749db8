"""The judge interface: turns in, judgements out. Judges read the store, never the session.

A local judge is a pure function of a batch (`LocalJudge.score`). An LLM judge is a pair of pure functions
(`LlmJudge.request`, `LlmJudge.parse`); the driver calls the model, retries and counts. A pairwise judge is an
LLM judge that compares two replies to one case.

A judgement is `Scored`, `Unscored` (an input of the judge is missing) or `Failed` (the judge could not score
a turn that it should have scored). `Unscored` and `Failed` have a reason. A score is never NaN, and never 0
for "did not run".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, runtime_checkable

from live_eval.audio import Audio, resample
from live_eval.types import Case, Task
from live_eval.weights import WeightsSpec

__all__ = [
    "TURN_FAILED",
    "ChatRequest",
    "Failed",
    "JudgeKind",
    "JudgeRole",
    "JudgeSpec",
    "JudgedTurn",
    "Judgement",
    "LeaderboardColumn",
    "LeaderboardTable",
    "LlmJudge",
    "LocalJudge",
    "Need",
    "OptionSpec",
    "OutputSpec",
    "PairwiseJudge",
    "RatingScale",
    "Scored",
    "SelectiveJudge",
    "Unscored",
    "check_judgement",
    "judged_together",
    "missing",
    "score_name",
]

TURN_FAILED = "the turn failed"
"""The reason for the missing scores of failed turns."""


class JudgeKind(StrEnum):
    """The interface that a judge implements."""

    LOCAL = "local"
    LLM = "llm"
    PAIRWISE = "pairwise"
    """An LLM judge that compares two replies to one case; it cannot score a single run."""


class Need(StrEnum):
    """A part of a turn that a judge uses."""

    REPLY_AUDIO = "reply_audio"
    REPLY_TEXT = "reply_text"
    HEARD_TEXT = "heard_text"
    SCRIPT_TEXT = "script_text"
    REFERENCE_TEXT = "reference_text"
    REFERENCE_AUDIO = "reference_audio"
    SPEAKER_AUDIO = "speaker_audio"
    CUE = "cue"


class JudgeRole(StrEnum):
    """The role that summaries use to find a judge. It determines the judge's outputs and detail."""

    MULTIPLE_CHOICE = "multiple choice"
    """Outputs `accuracy`, `parsed` and `refused` in %; detail ``chosen``: the letter, or None."""
    TRANSCRIPTION = "transcription"
    """Outputs `normalized` and `raw`, word error rates in %, each with a detail of ``errors``, ``words``."""
    BENCHMARK = "benchmark"
    """Outputs `official`, `ours`, `official_parsed` and `parsed` in %, for items of other benchmarks. For
    verifiable instructions, details ``instructions``, ``strict``, ``loose``: their number, and how many are
    followed.
    """
    BENCHMARK_MODEL = "benchmark model"
    """Outputs `rating` (1 to 5), `correct` (in %), or `met` and `passed` (in %: criteria met, and whether all
    are, with their number as the detail ``criteria``), for items of other benchmarks that a model rates.
    """
    EMOTION = "emotion"
    """Detail ``reply``: a mapping whose ``probabilities`` contains each emotion's probability by name."""
    PROSODY = "prosody"
    """Outputs `pitch_hz`, `pitch_range`, `level`, `rate` and `pauses` of the reply."""
    SENTENCE_EMBEDDING = "sentence embedding"
    """The class has a method ``embed(texts)`` that returns a vector of unit length for each text."""


class LeaderboardTable(StrEnum):
    """Tables of the benchmark's paper."""

    UNDERSTANDING = "understanding"
    RESPONSE_WORDS = "response words"
    RESPONSE_SOUND = "response sound"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderboardColumn:
    """Leaderboard column for a score.

    Args:
        title: Column heading; published values with the same heading appear in the same column.
        place: Sort key of the column in its table, in ascending order.
        picks_prompt: Whether the table shows each model with the prompt that has the best score.
        heat_map: Whether the leaderboard also shows the score by attribute or question type.
        note: Explanation of the column, or empty.
    """

    table: LeaderboardTable
    title: str
    place: int = 1000
    task: Task = Task.CONVERSATION
    picks_prompt: bool = False
    heat_map: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class RatingScale:
    """Question for human raters, in the wording of the judge's prompt.

    Args:
        anchors: Meaning of each integer rating, from 1.
        note: Instruction for special cases, or empty.
    """

    question: str
    anchors: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec:
    """Numeric output of a judge.

    Args:
        name: Output name; empty for the only (or main) output of a judge, which uses the judge's name.
        title: Description for reports.
        low: Minimum, or None; a judgement below it fails.
        high: Maximum, or None; a judgement above it fails.
        scale: Bounds of the nominal scale, if values outside it are possible (a network with unclipped output
            may return 5.1 on a scale from 1 to 5).
        higher_is_better: Direction, or None if neither direction is better.
        optional: Whether a scored turn may omit the output (a whispered reply has no pitch).
        columns: Leaderboard columns for the output.
        fits_cue_from: Minimum value for a reply that fits the speaker's cue; None if the output does not
            measure the fit.
        by_people: Question for human ratings of the same quality on the same scale, or None.
    """

    name: str
    title: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    scale: tuple[float, float] | None = None
    higher_is_better: bool | None = True
    optional: bool = False
    columns: tuple[LeaderboardColumn, ...] = ()
    fits_cue_from: float | None = None
    by_people: RatingScale | None = None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Bounds of the output's scale, or None without a scale."""
        if self.scale is not None or self.low is None or self.high is None:
            return self.scale
        return self.low, self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSpec:
    """Option of a judge, passed to the judge's class as a keyword argument, always as text.

    Scores are stored under a version that includes the value or, for a file, its content.

    Args:
        in_conversation: Default in a conversation without scripts, whose turns have no cue and no reference;
            empty for the usual default.
        choices: Allowed values; empty if any value is allowed.
        weights: Weights that can be selected by name. Any other value is a path to custom weights.
        is_file: Whether the value is a file path (or empty).
        spares: For each value, the parts in `uses` that the judge then ignores; their audio is not decoded.
        packages: For each value, importable packages that the judge requires in addition to
            `JudgeSpec.packages`.
    """

    name: str
    help: str
    default: str = ""
    in_conversation: str = ""
    choices: tuple[str, ...] = ()
    weights: tuple[WeightsSpec, ...] = ()
    is_file: bool = False
    spares: Mapping[str, frozenset[Need]] = field(default_factory=dict, hash=False)
    packages: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSpec:
    """The specification of a judge, referenced by an entry point; reading it does not load the judge.

    Args:
        name: Judge name on the command line and in stored scores.
        version: Judge version; change it whenever the values may change. Scores are stored by version.
        title: Description for users.
        kind: Interface that the judge implements.
        implementation: ``"module:Class"``; constructed with the options as keyword arguments, and with
            ``device`` if `on_device`.
        outputs: Numeric outputs.
        classes: Titles of classes in the detail of a score, by key: objects with ``emotion`` and
            ``confidence``, which a conversation shows.
        needs: Required parts of a turn.
        role: Role in summaries, or None.
        default_place: Position among the default judges, or among the arena's judges (the arena uses the
            first); None for a judge that runs only by name.
        tasks: Tasks whose turns are judged; turns of other tasks are not counted.
        uses: Optional parts of a turn that the judge uses if they exist.
        options: Options of the judge.
        on_device: Whether the judge computes with torch, on the device specified by ``--device``.
        packages: Importable packages that the judge requires in addition to the base install.
        extra: The live-eval extra that installs the packages, or None.
        machine_check: ``"module:function"`` for a judge with requirements beyond packages, weights and keys
            (a model inside a package, a corpus). Called with the options as keyword arguments, it returns a
            description of the missing part and how to install it, or None. It must be fast.
        key_variable: Environment variable with the required API key, or None.
        base_url: OpenAI-compatible URL that an LLM judge was written for; None for OpenAI's URL.
        model: Model that an LLM judge was written for.
        licence: Licence of the weights, or empty.
        source: Paper or web page of the metric.
        effort: Approximate CPU seconds on one core for an 8 s reply, by which scoring orders judges; 0 for a
            judge that needs no separate process.
    """

    name: str
    version: str
    title: str
    kind: JudgeKind
    implementation: str
    outputs: tuple[OutputSpec, ...]
    needs: frozenset[Need]
    classes: Mapping[str, str] = field(default_factory=dict, hash=False)
    role: JudgeRole | None = None
    default_place: int | None = None
    tasks: frozenset[Task] = frozenset({Task.CONVERSATION})
    uses: frozenset[Need] = frozenset()
    options: tuple[OptionSpec, ...] = ()
    on_device: bool = False
    packages: tuple[str, ...] = ()
    extra: str | None = None
    machine_check: str | None = None
    key_variable: str | None = None
    base_url: str | None = None
    model: str | None = None
    licence: str = ""
    source: str = ""
    effort: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTurn:
    """A recorded turn for judges.

    Args:
        heard_text: The endpoint's transcript of the user, or None.
        reference: Audio of the reference reply, or None.
        speaker: Audio that was streamed as the user, or None.
        earlier: The user's words and the reply of each earlier turn of the dialogue, for items that are
            judged in their context.
    """

    turn_id: str
    case: Case
    reply: Audio | None = None
    reply_text: str | None = None
    heard_text: str | None = None
    reference: Audio | None = None
    speaker: Audio | None = None
    earlier: tuple[tuple[str, str], ...] = ()
    _resampled: dict[tuple[Need, int], Audio] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def reply_at(self, rate_hz: int) -> Audio:
        """Return the reply at `rate_hz`, resampled once per rate and shared by all judges.

        Raises:
            ValueError: The turn has no reply. A judge that calls this method must declare `Need.REPLY_AUDIO`.
        """
        return self._at(Need.REPLY_AUDIO, self.reply, rate_hz)

    def reference_at(self, rate_hz: int) -> Audio:
        """Return the reference reply at `rate_hz`, resampled once per rate.

        Raises:
            ValueError: The turn has no reference reply.
        """
        return self._at(Need.REFERENCE_AUDIO, self.reference, rate_hz)

    def speaker_at(self, rate_hz: int) -> Audio:
        """Return the user's audio at `rate_hz`, resampled once per rate.

        Raises:
            ValueError: The turn has no user audio.
        """
        return self._at(Need.SPEAKER_AUDIO, self.speaker, rate_hz)

    def _at(self, what: Need, audio: Audio | None, rate_hz: int) -> Audio:
        if audio is None:
            raise ValueError(f"turn {self.turn_id!r} has no {what.value.replace('_', ' ')}")
        if (what, rate_hz) not in self._resampled:
            self._resampled[what, rate_hz] = resample(audio, rate_hz)
        return self._resampled[what, rate_hz]


@dataclass(frozen=True, slots=True)
class Scored:
    """Values by output name, and details (JSON values only)."""

    values: Mapping[str, float]
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unscored:
    """An input that the judge needs is missing."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The judge could not score a turn that it should have scored."""

    reason: str
    detail: Mapping[str, Any] = field(default_factory=dict)


Judgement: TypeAlias = Scored | Unscored | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """Request to an OpenAI-compatible chat endpoint.

    Args:
        model: Model that the judge was written for; the user may choose a different model.
        expected_detail: Values that a score's detail must have, such as the number of criteria. An answer
            with other values is as unreadable as one that cannot be parsed.
    """

    messages: Sequence[Mapping[str, Any]]
    model: str
    json_object: bool = True
    temperature: float = 0.0
    expected_detail: Mapping[str, Any] = field(default_factory=dict)


class LocalJudge(Protocol):
    """A judge that computes locally. The constructor loads all requirements, or raises `JudgeError`.

    A local judge never downloads files. A turn's judgement does not depend on the rest of the batch.
    """

    def score(self, batch: Sequence[JudgedTurn]) -> Sequence[Judgement]:
        """Judge each turn of the batch, in order.

        Returns:
            One judgement per turn. Return a `Failed` for a turn that cannot be judged; do not raise.
        """
        ...


class LlmJudge(Protocol):
    """A judge that asks a model. Pure: the driver calls the model."""

    def request(self, turn: JudgedTurn) -> ChatRequest:
        """Return the request for a turn that has all of the specification's `needs`."""
        ...

    def parse(self, answer: str) -> Judgement:
        """Parse the judgement in an answer; return `Failed` if it contains none.

        The driver retries a `Failed` once, and includes its reason in the new request.
        """
        ...


class PairwiseJudge(Protocol):
    """A judge that asks a model which of two replies to a case is better. Pure."""

    def request(self, first: JudgedTurn, second: JudgedTurn) -> ChatRequest:
        """Return the request for two turns of one case, in this order."""
        ...

    def parse(self, answer: str) -> Judgement:
        """Return 1 if the first reply is better, −1 if the second is, 0 for a tie, or `Failed`."""
        ...


@runtime_checkable
class SelectiveJudge(Protocol):
    """An LLM or pairwise judge that can reject a turn without asking the model. Pure."""

    def unscorable(self, turn: JudgedTurn) -> Unscored | Failed | None:
        """Return the judgement of a turn without asking the model, or None to ask it."""
        ...


def score_name(judge: str, output: str) -> str:
    """Return the name of a score: ``judge`` or ``judge.output``.

    >>> score_name("dnsmos", "ovrl"), score_name("bleu", "")
    ('dnsmos.ovrl', 'bleu')
    """
    return f"{judge}.{output}" if output else judge


def missing(turn: JudgedTurn, needs: frozenset[Need]) -> str | None:
    """Describe which of `needs` are missing from the turn; return None if nothing is missing.

    Empty text and audio without samples count as missing, except an empty heard text, which means that the
    transcriber heard no words.
    """
    present: dict[Need, object] = {
        Need.REPLY_AUDIO: turn.reply is not None and len(turn.reply.samples) > 0,
        Need.REPLY_TEXT: (turn.reply_text or "").strip(),
        Need.HEARD_TEXT: turn.heard_text is not None,
        Need.SCRIPT_TEXT: (turn.case.text or "").strip(),
        Need.REFERENCE_TEXT: (turn.case.reference_text or "").strip(),
        Need.REFERENCE_AUDIO: turn.reference is not None and len(turn.reference.samples) > 0,
        Need.SPEAKER_AUDIO: turn.speaker is not None and len(turn.speaker.samples) > 0,
        Need.CUE: turn.case.cue,
    }
    absent = [need.value.replace("_", " ") for need in Need if need in needs and not present[need]]
    return f"no {', no '.join(absent)}" if absent else None


def judged_together(
    batch: Sequence[JudgedTurn],
    problem_of: Callable[[JudgedTurn], Unscored | Failed | None],
    judge: Callable[[Sequence[JudgedTurn]], Sequence[Judgement]],
) -> list[Judgement]:
    """Return one judgement per turn, in order: the turn's problem or, without one, the result of `judge`."""
    problems = [problem_of(turn) for turn in batch]
    judged = iter(judge([turn for turn, problem in zip(batch, problems, strict=True) if problem is None]))
    return [next(judged) if problem is None else problem for problem in problems]


def check_judgement(spec: JudgeSpec, judgement: Judgement) -> Judgement:
    """Return the judgement, or `Failed` if the judgement violates the specification.

    A score must contain every required output and no unknown output, each finite and within its bounds.
    """
    if isinstance(judgement, (Unscored, Failed)):
        return judgement
    if not isinstance(judgement, Scored):
        return Failed(f"expected a judgement, got {type(judgement).__name__}")
    allowed = {output.name for output in spec.outputs}
    required = {output.name for output in spec.outputs if not output.optional}
    given = set(judgement.values)
    if not given or not required <= given <= allowed:
        return Failed(f"expected the outputs {sorted(allowed)}, got {sorted(given)}", judgement.detail)
    for output in spec.outputs:
        if output.name not in given:
            continue
        value = judgement.values[output.name]
        low = output.low if output.low is not None else -math.inf
        high = output.high if output.high is not None else math.inf
        if not (math.isfinite(value) and low <= value <= high):
            where = f" for {output.name}" if output.name else ""
            problem = f"expected a finite number from {low:g} to {high:g}{where}, got {value}"
            return Failed(problem, judgement.detail)
    return judgement
