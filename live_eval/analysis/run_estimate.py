"""Estimate a run before it starts: turns, duration, audio, and the tokens and cost of endpoint and judges.

Recordings, turns and requests are known from the plan; reply lengths, latency and tokens per second are
`Assumptions`. Retries, the endpoint's transcription of the input, and model loading are not included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from live_eval.analysis.latency.cost import unpriced
from live_eval.audio import Audio, recording_s
from live_eval.errors import LiveEvalError, TurnError
from live_eval.judging import JudgedTurn, JudgeKind, JudgeSpec, missing
from live_eval.registry import ClientSpec
from live_eval.run.plan import Job, Plan
from live_eval.scoring.judge_runner import JudgeOptions, as_configured, llm_options, load_judge
from live_eval.scoring.llm.budget import Price, Tokens
from live_eval.scoring.llm.chat_questions import estimated_tokens
from live_eval.scoring.llm.metering import OUTPUT_TOKENS
from live_eval.types import Case, Modality, Task

__all__ = ["Assumptions", "JudgeEstimate", "RunEstimate", "estimate_run", "total"]

_RATE_HZ = 16_000
_MEASURED = 50  # sampled requests per judge
_REPLY_OF_EFFORT_S = 8.0  # `JudgeSpec.effort` refers to a reply of this length


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """The assumptions of an estimate; None means that the endpoint's specification provides the value.

    Args:
        reply: Seconds of a reply in a conversation. A transcription is assumed to be as long as its
            recording.
        answer: Seconds of an answer to a multiple-choice question.
        latency: Seconds from the end of a recording to the reply, including the time to connect.
        speed: Seconds of reply audio received per second; 1 if the endpoint does not specify it. A turn ends
            when its reply has been received or, in a dialogue, heard by the user.
        boundaries: Seconds to find the speech boundaries of a recording; later runs reuse them.
        words: Words per second of speech.
        input_tokens: Tokens per second of the user's audio.
        output_tokens: Tokens per second of the reply's audio.
        judge_tokens: Output tokens of a judge's model per request.
    """

    reply: float = 8.0
    answer: float = 3.0
    latency: float = 1.5
    speed: float | None = None
    boundaries: float = 1.0
    words: float = 2.5
    input_tokens: float | None = None
    output_tokens: float | None = None
    judge_tokens: float = float(OUTPUT_TOKENS)

    def of_endpoint(self, spec: ClientSpec) -> Assumptions:
        """Return the assumptions, with missing values taken from the endpoint's specification."""
        into, out = self.input_tokens, self.output_tokens
        return replace(
            self,
            speed=self.speed or spec.reply_speed or 1.0,
            input_tokens=spec.input_audio_tokens_per_s if into is None else into,
            output_tokens=spec.output_audio_tokens_per_s if out is None else out,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeEstimate:
    """The estimate for a judge.

    Args:
        turns: Turns with all inputs of the judge.
        calls: Model calls; 0 for a local judge.
        tokens: Upper estimate of the tokens of all calls; None if unknown or for a local judge.
        usd: Cost of all calls in US dollars; None if unknown or for a local judge.
        reason: Reason why `tokens` or `usd` is unknown; empty otherwise.
        core_minutes: Minutes on one core; None for a judge that calls a language model.
    """

    name: str
    turns: int
    calls: int = 0
    model: str | None = None
    tokens: Tokens | None = None
    usd: float | None = None
    reason: str = ""
    core_minutes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEstimate:
    """The estimate of a run.

    Args:
        unusable: Turns with an unusable recording, which fail immediately.
        preparation_minutes: Minutes before the first turn if no speech boundaries are cached.
        minutes: Minutes from the start of the first turn to the end of the last.
        input_minutes: Minutes of streamed audio; `output_minutes` are the minutes of reply audio.
        tokens: Tokens of the endpoint; None if its tokens per second of audio are unknown.
        usd: Cost of the endpoint in US dollars; None if unknown.
        reason: Reason why `usd` is unknown; empty otherwise.
    """

    turns: int
    unusable: int
    concurrency: int
    preparation_minutes: float
    minutes: float
    input_minutes: float
    output_minutes: float
    tokens: Tokens | None
    usd: float | None
    reason: str
    judges: tuple[JudgeEstimate, ...]
    assumptions: Assumptions

    def as_json(self) -> dict[str, Any]:
        """Return the estimate as JSON values."""
        return asdict(self)


def estimate_run(
    plan: Plan,
    jobs: Sequence[Job],
    judges: Sequence[JudgeSpec],
    options: JudgeOptions,
    *,
    price: Price | None = None,
    assumptions: Assumptions | None = None,
) -> RunEstimate:
    """Estimate a run without calling an endpoint or a model.

    Args:
        jobs: Turns of the plan that remain to be run.
        price: The endpoint's price, or None if unknown.
    """
    assumed = (assumptions or Assumptions()).of_endpoint(plan.spec)
    speaks = plan.config.endpoint.modality is not Modality.TEXT
    length_of = cache(lambda path: _length_s(path, plan.config.data.max_recording))
    lengths = {
        job.case.case_id: length_of(job.case.audio_path) if job.case.problem is None else None for job in jobs
    }
    turns = [
        _Turn(job, length, _reply_s(job.case, length, assumed) if speaks else 0.0)
        for job in jobs
        if (length := lengths[job.case.case_id]) is not None
    ]
    sessions = list(_sessions(turns))
    busy_s = [_busy_s(session, assumed, plan.config.turns.pause) for session in sessions]
    recordings = {turn.job.case.audio_path for turn in turns}
    at_once = max(1, min(plan.config.turns.concurrency, len(sessions)))
    tokens = _tokens(sessions, assumed, speaks=speaks)
    reason = (
        "the endpoint's input_tokens and output_tokens per second of audio are unknown"
        if tokens is None
        else unpriced([tokens], price)
        if any(asdict(tokens).values())
        else ""
    )
    return RunEstimate(
        turns=len(jobs),
        unusable=len(jobs) - len(turns),
        concurrency=plan.config.turns.concurrency,
        preparation_minutes=assumed.boundaries * len(recordings) / 60,
        minutes=max(sum(busy_s) / at_once, max(busy_s, default=0.0)) / 60,
        input_minutes=sum(turn.input_s for turn in turns) / 60,
        output_minutes=sum(turn.reply_s for turn in turns) / 60,
        tokens=tokens,
        usd=None if tokens is None or reason else price.cost(tokens) if price is not None else 0.0,
        reason=reason,
        judges=tuple(_judge(spec, options, turns, assumed) for spec in judges),
        assumptions=assumed,
    )


def total(estimates: Sequence[RunEstimate], *, simultaneous: bool = False) -> RunEstimate:
    """Add up the estimates of consecutive or simultaneous runs with the same recordings."""
    first = estimates[0]
    minutes = [each.minutes for each in estimates]
    judges: dict[str, list[JudgeEstimate]] = defaultdict(list)
    for judge in (judge for each in estimates for judge in each.judges):
        judges[judge.name].append(judge)
    return replace(
        first,
        turns=sum(each.turns for each in estimates),
        unusable=sum(each.unusable for each in estimates),
        preparation_minutes=max(each.preparation_minutes for each in estimates),
        minutes=max(minutes) if simultaneous else sum(minutes),
        input_minutes=sum(each.input_minutes for each in estimates),
        output_minutes=sum(each.output_minutes for each in estimates),
        tokens=_all_tokens([each.tokens for each in estimates]),
        usd=_known_sum([each.usd for each in estimates]),
        reason=next((each.reason for each in estimates if each.reason), ""),
        judges=tuple(map(_total_of_judge, judges.values())),
    )


def _total_of_judge(estimates: Sequence[JudgeEstimate]) -> JudgeEstimate:
    return replace(
        estimates[0],
        turns=sum(each.turns for each in estimates),
        calls=sum(each.calls for each in estimates),
        tokens=_all_tokens([each.tokens for each in estimates]),
        usd=_known_sum([each.usd for each in estimates]),
        reason=next((each.reason for each in estimates if each.reason), ""),
        core_minutes=_known_sum([each.core_minutes for each in estimates]),
    )


def _known_sum(values: Sequence[float | None]) -> float | None:
    """Return the sum, or None if a value is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _all_tokens(tokens: Sequence[Tokens | None]) -> Tokens | None:
    known = [asdict(each) for each in tokens if each is not None]
    if len(known) < len(tokens):
        return None
    return Tokens(**{name: sum(each[name] for each in known) for name in known[0]})


@dataclass(frozen=True, slots=True)
class _Turn:
    job: Job
    input_s: float
    reply_s: float


def _length_s(path: Path, max_s: float) -> float | None:
    try:
        return recording_s(path, max_s=max_s)
    except TurnError:
        return None


def _reply_s(case: Case, input_s: float, assumed: Assumptions) -> float:
    if case.task is Task.TRANSCRIPTION:
        return input_s
    return assumed.answer if case.task.asks else assumed.reply


def _sessions(turns: Iterable[_Turn]) -> Iterable[list[_Turn]]:
    """Group the turns by session: a dialogue or a single turn."""
    sessions: dict[tuple[object, ...], list[_Turn]] = defaultdict(list)
    for turn in turns:
        job = turn.job
        key = (job.turn_id,) if job.case.dialogue_id is None else (job.case.dialogue_id, job.repeat)
        sessions[key].append(turn)
    return sessions.values()


def _busy_s(session: Sequence[_Turn], assumed: Assumptions, pause_s: float) -> float:
    *heard, last = session
    return (
        sum(turn.input_s + assumed.latency for turn in session)
        + sum(turn.reply_s + pause_s for turn in heard)
        + last.reply_s / (assumed.speed or 1.0)
    )


def _tokens(sessions: Iterable[Sequence[_Turn]], assumed: Assumptions, *, speaks: bool) -> Tokens | None:
    """Return the endpoint's tokens, or None if unknown; a dialogue's turns count earlier turns as input."""
    if assumed.input_tokens is None or (assumed.output_tokens is None and speaks):
        return None
    if not assumed.input_tokens and not assumed.output_tokens:
        return Tokens()
    total = dict.fromkeys(("input", "output", "audio_input", "audio_output"), 0.0)
    for session in sessions:
        text = float(_text_tokens(session[0].job.case.instructions))
        audio = 0.0
        for turn in session:
            audio += turn.input_s * assumed.input_tokens
            total["input"] += text + audio
            total["audio_input"] += audio
            spoken = turn.reply_s * (assumed.output_tokens or 0.0)
            said = _text_tokens(_reply_text(turn, assumed))
            total["output"] += spoken + said
            total["audio_output"] += spoken
            text, audio = text + said, audio + spoken
    return Tokens(**{name: round(number) for name, number in total.items()})


def _text_tokens(text: str) -> int:
    return estimated_tokens([{"content": text}]).input if text else 0


def _reply_text(turn: _Turn, assumed: Assumptions) -> str:
    seconds = turn.reply_s or _reply_s(turn.job.case, turn.input_s, assumed)  # reply_s is 0 without audio
    return " ".join(["words"] * max(1, round(seconds * assumed.words)))


def _judge(
    spec: JudgeSpec, options: JudgeOptions, turns: Sequence[_Turn], assumed: Assumptions
) -> JudgeEstimate:
    spec = as_configured(spec, options)
    judged = [
        turn
        for turn in turns
        if turn.job.case.task in spec.tasks and missing(_judged(turn, assumed), spec.needs) is None
    ]
    if spec.kind is JudgeKind.LOCAL:
        seconds = sum(spec.effort * turn.reply_s / _REPLY_OF_EFFORT_S for turn in judged)
        return JudgeEstimate(name=spec.name, turns=len(judged), core_minutes=seconds / 60)
    llm = llm_options(spec, options)
    model, calls = llm.model_of(spec), len(judged) * llm.samples
    try:
        sizes = _sizes(spec, options, judged, assumed)
    except LiveEvalError as error:
        return JudgeEstimate(name=spec.name, turns=len(judged), calls=calls, model=model, reason=str(error))
    each = calls / max(1, len(sizes))
    tokens = Tokens(
        input=round(sum(size.input for size in sizes) * each),
        output=round(assumed.judge_tokens * calls),
        audio_input=round(sum(size.audio_input for size in sizes) * each),
    )
    price = llm.prices.get(model) if model is not None else None
    return JudgeEstimate(
        name=spec.name,
        turns=len(judged),
        calls=calls,
        model=model,
        tokens=tokens,
        usd=price.cost(tokens) if price is not None else None,
        reason="" if price is not None else f"the price of {model or 'its model'} is unknown",
    )


def _sizes(
    spec: JudgeSpec, options: JudgeOptions, judged: Sequence[_Turn], assumed: Assumptions
) -> list[Tokens]:
    """Measure a sample of a judge's requests, spread evenly over its turns.

    Raises:
        LiveEvalError: The judge cannot be loaded.
    """
    if not judged:
        return []
    judge = load_judge(spec, options)
    number = min(_MEASURED, len(judged))
    some = [judged[place * len(judged) // number] for place in range(number)]
    return [estimated_tokens(judge.request(_judged(turn, assumed)).messages) for turn in some]


def _judged(turn: _Turn, assumed: Assumptions) -> JudgedTurn:
    """Return a turn with silent audio and a reply of the assumed length."""
    case = turn.job.case
    return JudgedTurn(
        turn_id=turn.job.turn_id,
        case=case,
        reply=_silence(turn.reply_s),
        reply_text=_reply_text(turn, assumed),
        heard_text=case.text,
        reference=_silence(turn.reply_s) if case.reference_audio_path is not None else None,
        speaker=_silence(turn.input_s),
    )


def _silence(seconds: float) -> Audio:
    return Audio(np.broadcast_to(np.float32(0), round(seconds * _RATE_HZ)), _RATE_HZ)
