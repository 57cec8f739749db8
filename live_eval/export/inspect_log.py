"""Write a run as a log for inspect_ai and its viewer.

A turn becomes a sample, a repetition an epoch, and a score a scorer. Values without a field in inspect_ai's
schema (latencies, the case, the manifest) become metadata. Audio is WAV, inspect_ai's only lossless format.
"""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from live_eval import __version__
from live_eval.analysis.summary.run_summary import RunSummary, summarise
from live_eval.analysis.summary.score_table import ScoreSummary
from live_eval.analysis.turn_view import TurnView
from live_eval.audio import encode_wav
from live_eval.export.arrow import needed
from live_eval.export.table import ExportTable
from live_eval.files import atomic_write
from live_eval.recording import RunReader, TurnRecord, is_own_file, read_sound, text_of
from live_eval.redaction import SECRETS

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample, EvalScore
    from inspect_ai.model import ChatMessage, ContentAudio, ModelUsage
    from inspect_ai.scorer import Score

__all__ = ["write_inspect_log"]

_STATES: Mapping[str, Any] = {"finished": "success", "interrupted": "cancelled", "running": "started"}
_MEAN_METADATA = ("interval", "version", "reasons", "n_unscored", "n_failed")
_METADATA = (
    *("turn_id", "case", "latency_ms", "latency_reason", "lag_ms", "flagged", "uncertain"),
    *("warnings", "attempt", "heard_text", "session_id", "responses"),
)


def write_inspect_log(run: RunReader, path: Path, *, retime: bool = False) -> int:
    """Write a sample for each turn, including failed turns, and return the number of samples.

    Args:
        path: Output file, whose suffix ``.eval`` or ``.json`` determines the format.
        retime: Whether to recompute the latencies with the current definitions.

    Raises:
        UsageError: inspect_ai is not installed.
        OSError: The file cannot be written.
    """
    log = needed("inspect_ai.log", "inspect")
    summary = summarise(run, retime=retime)
    samples = _samples(ExportTable(run, retime=retime), _model(summary))
    with atomic_write(path, links=True) as part:
        log.write_eval_log(_log(run, summary, samples), part, format=path.suffix.removeprefix("."))
    return len(samples)


def _log(run: RunReader, summary: RunSummary, samples: list[EvalSample]) -> EvalLog:
    from inspect_ai import log

    facts = summary.facts
    manifest = SECRETS.values(dict(run.manifest))
    model = _model(summary)
    used = [usage for sample in samples for usage in sample.model_usage.values()]
    return log.EvalLog(
        status=_STATES[run.state],
        eval=log.EvalSpec(
            eval_id=_identity("eval", summary),
            run_id=_identity("run", summary),
            task_id=_identity("task", summary),
            created=facts.started_at,
            task=facts.data or facts.name,
            dataset=log.EvalDataset(
                name=facts.data,
                samples=len({sample.id for sample in samples}),
                sample_ids=list(dict.fromkeys(str(sample.id) for sample in samples)),
            ),
            model=model,
            config=log.EvalConfig(epochs=max((sample.epoch for sample in samples), default=1)),
            packages={"live-eval": text_of(manifest, "live_eval") or __version__},
            metadata={"run": facts.name, "manifest": manifest},
        ),
        results=log.EvalResults(
            total_samples=len(samples),
            completed_samples=summary.captured,
            scores=[_mean(score) for score in summary.scores.values()],
        ),
        stats=log.EvalStats(
            started_at=facts.started_at,
            completed_at=facts.ended_at or "",
            model_usage={model: sum(used[1:], used[0])} if used else {},
        ),
        samples=samples,
    )


def _samples(table: ExportTable, model: str) -> list[EvalSample]:
    from inspect_ai.log import EvalRetryError, condense_sample

    retried: dict[str, list[EvalRetryError]] = defaultdict(list)
    for attempt in table.run.failures():
        if attempt.retried:
            message = SECRETS.text(f"{attempt.failure.kind.value}: {attempt.failure.message}")
            retried[attempt.turn_id].append(EvalRetryError(message=message, traceback="", traceback_ansi=""))
    samples: list[EvalSample] = []
    for view, row in table.turns():
        sample = _sample(table, view, row, model)
        sample.error_retries = retried.get(view.turn_id)
        samples.append(condense_sample(sample))  # store the audio once, as an attachment
    return samples


def _sample(table: ExportTable, view: TurnView, row: Mapping[str, Any], model: str) -> EvalSample:
    from inspect_ai.log import EvalError, EvalSample
    from inspect_ai.model import ChatCompletionChoice, ChatMessageAssistant, ModelOutput

    turn = view.record
    user, reply = _audio(table.run, turn)
    said = _messages(turn, row, user)
    case = row["case"]
    answer = ChatMessageAssistant(content=_content(row["reply_text"], reply), model=model, source="generate")
    usage = _tokens(row)
    error = row["failure"]
    stopped: Any = "stop" if turn.captured else "unknown"
    seconds, heard_ms = _seconds(turn), row["latency_ms"]["voice_to_voice"]
    return EvalSample(
        id=case["case_id"],
        epoch=turn.repeat + 1,
        input=said,
        choices=[text for _, text in turn.case.question.options] if turn.case.question else None,
        target=case["question"]["answer"] or case["reference_text"] or "",
        messages=[*said, answer] if turn.has_reply or row["reply_text"] else said,
        output=ModelOutput(
            model=model,
            choices=[ChatCompletionChoice(message=answer, stop_reason=stopped)],
            usage=usage,
            time=None if heard_ms is None else heard_ms / 1000,
        ),
        scores=_scores(view, row),
        metadata={name: row[name] for name in _METADATA},
        model_usage={model: usage} if usage is not None else {},
        started_at=row["started_at"].isoformat(),
        completed_at=(row["started_at"] + timedelta(seconds=seconds)).isoformat(),
        total_time=seconds,
        working_time=seconds,
        uuid=hashlib.sha256(f"{table.run.path.name}\0{turn.turn_id}".encode()).hexdigest()[:22],
        error=EvalError(message=f"{error['kind']}: {error['message']}", traceback="", traceback_ansi="")
        if error["kind"] is not None
        else None,
    )


def _messages(turn: TurnRecord, row: Mapping[str, Any], user: ContentAudio | None) -> list[ChatMessage]:
    from inspect_ai.model import ChatMessageSystem, ChatMessageUser

    messages: list[ChatMessage] = []
    if turn.case.instructions:
        messages.append(ChatMessageSystem(content=SECRETS.text(turn.case.instructions)))
    messages.append(ChatMessageUser(content=_content(row["case"]["text"], user), source="input"))
    return messages


def _content(text: str | None, audio: ContentAudio | None) -> Any:
    from inspect_ai.model import ContentText

    if audio is None:
        return text or ""
    return [*([ContentText(text=text)] if text else []), audio]


def _audio(run: RunReader, turn: TurnRecord) -> tuple[ContentAudio | None, ContentAudio | None]:
    """Return the user's side without trailing silence, and the reply as received."""
    sides: list[ContentAudio | None] = [None, None]
    for index, file in enumerate((turn.both_file, turn.reply_file)):
        if file is not None and is_own_file(run.path, file):
            pcm, rate_hz = read_sound(file, "int16")
            sides[index] = _wav(pcm if pcm.ndim == 1 else np.trim_zeros(pcm[:, 0], "b"), rate_hz)
    return sides[0], sides[1]


def _wav(pcm: NDArray[np.int16], rate_hz: int) -> ContentAudio | None:
    from inspect_ai.model import ContentAudio

    if not len(pcm):
        return None
    data = base64.b64encode(encode_wav(pcm, rate_hz)).decode()
    return ContentAudio(audio=f"data:audio/wav;base64,{data}", format="wav")


def _scores(view: TurnView, row: Mapping[str, Any]) -> dict[str, Score]:
    """Return the scores that apply to a turn; a missing score has a reason."""
    from inspect_ai.scorer import Score

    details = {judgement["judge"]: judgement["detail"] for judgement in row["judgements"]}
    answer = row["chosen"] or row["reply_text"]
    cells = view.scores
    scores: dict[str, Score] = {}
    for column in view.table.columns:
        if view.record.case.task not in column.tasks:
            continue
        value, why = row["scores"][column.name], row["score_reason"][column.name]
        metadata = {"judge": column.judge, "version": column.version, "detail": details.get(column.judge)}
        if value is not None:
            scores[column.name] = Score(value=value, answer=answer, metadata=metadata)
        else:
            reason = "scoring_failed" if cells[column.name].status == "failed" else "unscored"
            scores[column.name] = Score.unscored(reason=reason, explanation=why, metadata=metadata)
    return scores


def _mean(score: ScoreSummary) -> EvalScore:
    from inspect_ai.log import EvalMetric, EvalScore

    values = score.as_json()
    means = {} if score.mean.value is None else {"mean": EvalMetric(name="mean", value=score.mean.value)}
    return EvalScore(
        name=score.column.name,
        scorer=score.column.judge,
        scored_samples=score.n,
        unscored_samples=score.n_unscored + score.n_failed,
        metrics=means,
        metadata={name: values[name] for name in _MEAN_METADATA},
    )


def _tokens(row: Mapping[str, Any]) -> ModelUsage | None:
    from inspect_ai.model import ModelUsage

    given, made = row["usage"]["input_tokens"], row["usage"]["output_tokens"]
    if given is None and made is None:
        return None
    return ModelUsage(
        input_tokens=given or 0, output_tokens=made or 0, total_tokens=(given or 0) + (made or 0)
    )


def _model(summary: RunSummary) -> str:
    return "/".join(name for name in (summary.facts.endpoint, summary.facts.model) if name) or "unknown"


def _identity(what: str, summary: RunSummary) -> str:
    """Return an ID that is the same in every export of the run."""
    digest = hashlib.sha256(f"{what}\0{summary.facts.name}\0{summary.facts.started_at}".encode())
    return digest.hexdigest()[:22]


def _seconds(turn: TurnRecord) -> float:
    """Return the time from dialling to the last event of the turn, in seconds."""
    trace = turn.trace
    marks = [trace.ready_ns, trace.voice_end_ns, *trace.frame_sent_ns[-1:].tolist()]
    for response in trace.responses:
        marks += [response.done_ns, *response.chunk_arrival_ns[-1:].tolist()]
    return (max((mark for mark in marks if mark is not None), default=trace.dial_ns) - trace.dial_ns) / 1e9
