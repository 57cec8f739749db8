"""Score a recorded run with judges, without the endpoint.

The run is read once, from the shortest reply to the longest, in batches of limited length. Each recording is
decoded once for all judges, and resampled once per sample rate. Judgements are stored in the run's scores by
judge and judge version. Scoring again skips turns that the same judge version has scored, and retries the
others.

If a judge cannot run on this machine, its turns are unscored with a reason.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

from pydantic import ValidationError

from live_eval import registry
from live_eval.audio import MAX_RECORDING_S, Audio, read_audio
from live_eval.data import may_leave
from live_eval.errors import AudioError, StoreError, UsageError
from live_eval.judging import (
    TURN_FAILED,
    Failed,
    JudgedTurn,
    JudgeKind,
    Judgement,
    JudgeSpec,
    Need,
    Scored,
    Unscored,
    missing,
)
from live_eval.recording import PendingScores, RunReader, ScoreStore, TurnRecord, part_of
from live_eval.run.run_file import DataTable
from live_eval.scoring.judge_pool import JudgedBatch, JudgePool
from live_eval.scoring.judge_runner import (
    JudgeOptions,
    JudgeRunner,
    as_configured,
    check_options,
    judge_batch,
    load_judge_runner,
    missing_requirements,
    scoring_version,
)
from live_eval.scoring.llm import Budget
from live_eval.scoring.llm.options import AUDIO_NEEDS
from live_eval.types import Case, ScoringRule

__all__ = [
    "AUDIO_NEEDS",
    "JudgeInput",
    "JudgeSummary",
    "Progress",
    "ScoringSummary",
    "before_asking",
    "read_turn",
    "score_run",
]

Progress: TypeAlias = Callable[[str, int, int], None]
"""A callback with a judge's name, the number of turns that it has finished, and the total number."""

_Store: TypeAlias = ScoreStore | PendingScores

# Both values limit a batch; a longer reply is a batch by itself. 300 s are 29 MB at 24 kHz.
_BATCH_TURNS = 64
_BATCH_AUDIO_NS = 300_000_000_000
# With a pool: short enough for workers to finish at about the same time, and long enough to fill a batch of a
# model.
_POOLED_BATCH_TURNS = 16
_POOLED_BATCH_AUDIO_NS = 30_000_000_000
# Queue enough batches per judge, so that workers rarely need to load another judge.
_BATCHES_AHEAD = 8


@dataclass(slots=True, kw_only=True)
class JudgeSummary:
    """The summary of a judge's scores for a run, with the time and cost of this scoring run."""

    name: str
    version: str  # version under which the scores are stored
    n: int = 0  # scored turns of the judge's tasks, including those scored earlier
    n_unscored: int = 0  # turns that the judge could not judge
    n_failed: int = 0  # turns on which the judge failed
    reasons: Mapping[str, int] = field(default_factory=dict)  # turns without a score, by reason
    judged: int = 0  # turns judged in this scoring run
    seconds: float = 0.0  # time for these turns, including loading
    audio_seconds: float = 0.0  # total length of these turns' replies
    calls: int = 0  # model calls, including failed ones
    cached: int = 0  # stored responses that were reused
    cost: float | None = 0.0  # US$; None if unknown
    reason: str | None = None  # reason why the judge could not run, if it had turns to judge


@dataclass(frozen=True, slots=True)
class ScoringSummary:
    """The number of turns in the run, and a summary for each judge, in the requested order."""

    turns: int
    judges: tuple[JudgeSummary, ...]


@dataclass(frozen=True, slots=True)
class JudgeInput:
    """A turn for judges, with reasons why it cannot be judged."""

    turn: JudgedTurn
    failure: str | None = None  # failure of the turn
    broken: Mapping[Need, str] = field(default_factory=dict)  # reasons for unreadable audio
    withheld: Mapping[Need, str] = field(default_factory=dict)  # reasons for audio that must not be sent


@dataclass(slots=True, eq=False)
class _Work:
    """The state and progress of a judge in a scoring run."""

    spec: JudgeSpec
    problem: str | None
    again: bool
    summary: JudgeSummary
    scored: set[str] = field(default_factory=set)
    before: dict[str, Judgement] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    runner: JudgeRunner | None = None
    through: int = 0

    def wants(self, turn_id: str) -> bool:
        return self.again or turn_id not in self.scored

    def runner_of(self, load: Callable[[JudgeSpec], JudgeRunner]) -> JudgeRunner:
        self.runner = self.runner or load(self.spec)
        return self.runner

    @property
    def used(self) -> frozenset[Need]:
        return frozenset() if self.problem is not None else self.spec.needs | self.spec.uses


@dataclass(slots=True, eq=False)
class _Asked:
    """A batch submitted to a judge, and verdicts on the turns that the judge cannot judge."""

    work: _Work
    seen: int
    verdicts: dict[str, Judgement] = field(default_factory=dict)
    turn_ids: list[str] = field(default_factory=list)
    audio_ns: int = 0
    answer: Future[JudgedBatch] | None = None


def score_run(
    path: Path,
    judges: Sequence[str],
    *,
    options: JudgeOptions | None = None,
    again: bool = False,
    progress: Progress | None = None,
    pool: JudgePool | None = None,
    turn_ids: Collection[str] | None = None,
    budget: Budget | None = None,
    into: PendingScores | None = None,
) -> ScoringSummary:
    """Score the run in folder `path`.

    Args:
        again: Whether to judge turns again that this judge version has scored; if that fails, the old score
            is kept.
        progress: Progress callback for each judge whose tasks have turns in the run.
        pool: Pool that runs some of the judges; the others run in this process.
        turn_ids: Turns to score; None for all.
        budget: Budget of the LLM judges, to share it among several calls; None for a new one.
        into: Receives the scores; None to write them to the run, which is locked meanwhile.

    Raises:
        PluginError: A judge is unknown or broken.
        UsageError: A judge compares runs, or an option is invalid.
        StoreError: The folder contains no run, or the scores cannot be written (another process may be
            writing them).
    """
    options = options or JudgeOptions()
    specs = [registry.judge(name) for name in dict.fromkeys(judges)]
    for spec in specs:
        if spec.kind is JudgeKind.PAIRWISE:
            raise UsageError(f"judge {spec.name!r} compares two replies to a case and cannot score one run")
    check_options(specs, options)
    with RunReader.open(path) as run, ExitStack() as stack:
        store: _Store = into or stack.enter_context(ScoreStore.open(path))
        works = [_begin(as_configured(spec, options), store, options, pool, again=again) for spec in specs]
        load = partial(
            load_judge_runner,
            options=options,
            stack=stack,
            answers=store,
            budget=budget or options.llm.budget(),
        )
        total = len(run)
        tasks = set(run.tasks_by_reply_length().values())
        asked: deque[_Asked] = deque()

        def collect(most: int) -> None:
            while len(asked) > most:
                one = asked.popleft()
                _store(store, one.work, _verdicts(one))
                one.work.through += one.seen
                if progress is not None and tasks & one.work.spec.tasks:
                    progress(one.work.spec.name, one.work.through, total)

        ahead = max(pool.ahead, _BATCHES_AHEAD * len(works)) if pool is not None else 0
        for batch, seen in _batches(run, works, options.recordings, turn_ids, pooled=pool is not None):
            for work in works:
                asked.append(_ask(work, batch, seen, load, pool))
                collect(ahead)
        collect(0)
        return ScoringSummary(total, tuple(_finish(store, work) for work in works))


def _begin(
    spec: JudgeSpec, store: _Store, options: JudgeOptions, pool: JudgePool | None, *, again: bool
) -> _Work:
    if pool is not None and pool.takes(spec):
        absent = pool.missing(spec)
    else:
        absent = missing_requirements(spec, options)
    summary = JudgeSummary(name=spec.name, version=scoring_version(spec, options))
    work = _Work(spec, f"missing {absent}" if absent else None, again, summary)
    for row in store.read([spec.name]):
        if row.version != summary.version:
            continue
        if row.status == "scored":
            work.scored.add(row.turn_id)
        else:
            made = Unscored if row.status == "unscored" else Failed
            work.before[row.turn_id] = made(row.reason)
    return work


def _batches(
    run: RunReader,
    works: Sequence[_Work],
    sendable: Sequence[Path],
    turn_ids: Collection[str] | None,
    *,
    pooled: bool,
) -> Iterator[tuple[list[JudgeInput], int]]:
    """Yield batches of turns that any judge needs, and the number of the run's turns that each covers."""
    most_turns = _POOLED_BATCH_TURNS if pooled else _BATCH_TURNS
    most_audio_ns = _POOLED_BATCH_AUDIO_NS if pooled else _BATCH_AUDIO_NS
    batch: list[JudgeInput] = []
    seen = audio_ns = 0
    # sort by length, so that batches need little padding
    for turn_id, task in run.tasks_by_reply_length().items():
        seen += 1
        if turn_ids is not None and turn_id not in turn_ids:
            continue
        concerned = [work for work in works if task in work.spec.tasks]
        wanting = [work for work in concerned if work.wants(turn_id)]
        for work in concerned:
            work.summary.n += work not in wanting
        if wanting:
            wanted = frozenset[Need]().union(*(work.used for work in wanting))
            item = read_turn(run, run.turn(turn_id), wanted, sendable)
            batch.append(item)
            recordings = (item.turn.reply, item.turn.reference, item.turn.speaker)
            audio_ns += sum(audio.duration_ns for audio in recordings if audio)
        if len(batch) >= most_turns or audio_ns >= most_audio_ns:
            yield batch, seen
            batch, seen, audio_ns = [], 0, 0
    yield batch, seen


def read_turn(
    run: RunReader, turn: TurnRecord, wanted: frozenset[Need], sendable: Sequence[Path] = ()
) -> JudgeInput:
    """Read a turn with the audio in `wanted` for the judges; `sendable` is `JudgeOptions.recordings`.

    A failed turn is not judged, so its audio is not read.
    """
    audio: dict[Need, Audio | None] = {}
    broken: dict[Need, str] = {}
    withheld: dict[Need, str] = {}
    for need in AUDIO_NEEDS & wanted if turn.failure is None else ():
        try:
            audio[need] = _read(run, turn, need)
        except (AudioError, StoreError) as error:
            broken[need] = str(error)
        else:
            path = _recording(turn.case, need)
            if path is not None and (why := _why_withheld(run, path, sendable)) is not None:
                withheld[need] = why
    return JudgeInput(
        JudgedTurn(
            turn_id=turn.turn_id,
            case=turn.case,
            reply=audio.get(Need.REPLY_AUDIO),
            reply_text=turn.reply_text,
            heard_text=turn.heard_text,
            reference=audio.get(Need.REFERENCE_AUDIO),
            speaker=audio.get(Need.SPEAKER_AUDIO),
            earlier=tuple(run.earlier_texts(turn)) if _needs_context(turn.case) else (),
        ),
        turn.failure.kind.value if turn.failure is not None else None,
        broken,
        withheld,
    )


def _needs_context(case: Case) -> bool:
    return case.item is not None and case.item.rule is ScoringRule.RUBRICS


def _read(run: RunReader, turn: TurnRecord, need: Need) -> Audio | None:
    if need is Need.REPLY_AUDIO:
        return run.reply(turn) if turn.has_reply else None
    path = _recording(turn.case, need)
    return read_audio(path, max_s=_longest_s(run)).audio if path is not None else None


def _recording(case: Case, need: Need) -> Path | None:
    """Return the path of the recording that a judge needs; in an untrusted run, it may be any path."""
    paths = {Need.SPEAKER_AUDIO: case.audio_path, Need.REFERENCE_AUDIO: case.reference_audio_path}
    return paths.get(need)


def _longest_s(run: RunReader) -> float:
    """Return the maximum length of the run's recordings in seconds, from its manifest.

    Raises:
        StoreError: The value in the manifest is invalid.
    """
    stated = part_of(part_of(run.manifest, "config"), "data").get("max_recording", MAX_RECORDING_S)
    try:
        return DataTable(max_recording=stated).max_recording
    except ValidationError as error:
        raise StoreError(
            f"{run.path}: data.max_recording of the manifest: {error.errors()[0]['msg']}, "
            f"got {str(stated)[:40]!r}"
        ) from None


def _why_withheld(run: RunReader, path: Path, sendable: Sequence[Path]) -> str | None:
    """Return why a recording must not be sent to a model, or None if it may be sent."""
    if may_leave(path, run.path, sendable):
        return None
    return (
        f"recordings in {path.resolve().parent} are not sent to a model, because only the run refers to "
        "them; to send them, pass the folder with --recordings"
    )


def before_asking(
    spec: JudgeSpec, item: JudgeInput, also: frozenset[Need] = frozenset()
) -> Unscored | Failed | None:
    """Return the verdict on a turn that the judge cannot judge, or None if it can.

    `also` contains needs in addition to those that the judge declares.
    """
    if item.failure is not None:
        return Unscored(f"{TURN_FAILED}: {item.failure}")
    for need, reason in item.withheld.items():
        if spec.kind is not JudgeKind.LOCAL and need in spec.needs | spec.uses | also:
            return Unscored(reason)
    for need, reason in item.broken.items():
        if need in spec.needs:
            return Failed(f"{need.value.replace('_', ' ')} cannot be read: {reason}")
    absent = missing(item.turn, spec.needs)
    return Unscored(absent) if absent is not None else None


def _ask(
    work: _Work,
    batch: Sequence[JudgeInput],
    seen: int,
    load: Callable[[JudgeSpec], JudgeRunner],
    pool: JudgePool | None,
) -> _Asked:
    """Submit those turns of the batch that the judge has not judged yet."""
    asked = _Asked(work, seen)
    for item in batch:
        if item.turn.case.task not in work.spec.tasks or not work.wants(item.turn.turn_id):
            continue
        verdict = Unscored(work.problem) if work.problem is not None else before_asking(work.spec, item)
        if verdict is None:
            asked.turn_ids.append(item.turn.turn_id)
            asked.audio_ns += item.turn.reply.duration_ns if item.turn.reply is not None else 0
        else:
            asked.verdicts[item.turn.turn_id] = verdict
    if asked.turn_ids:
        turns = [item.turn for item in batch if item.turn.turn_id in set(asked.turn_ids)]
        if pool is not None and pool.takes(work.spec):
            asked.answer = pool.submit(work.spec, turns)
        else:
            asked.answer = Future()
            asked.answer.set_result(judge_batch(partial(work.runner_of, load), turns))
    return asked


def _verdicts(asked: _Asked) -> dict[str, Judgement]:
    """Wait for the judge, and return a verdict on each turn."""
    if asked.answer is None:
        return asked.verdicts
    answer, work = asked.answer.result(), asked.work
    work.summary.seconds += answer.seconds
    if answer.problem is not None:
        work.problem = answer.problem
        return asked.verdicts | {turn_id: Unscored(answer.problem) for turn_id in asked.turn_ids}
    work.summary.judged += len(asked.turn_ids)
    if Need.REPLY_AUDIO in work.spec.needs:
        work.summary.audio_seconds += asked.audio_ns / 1e9
    return asked.verdicts | dict(zip(asked.turn_ids, answer.judgements, strict=True))


def _store(store: _Store, work: _Work, verdicts: Mapping[str, Judgement]) -> None:
    """Count the verdicts, and store new ones."""
    summary = work.summary
    new: dict[str, Judgement] = {}
    for turn_id, verdict in verdicts.items():
        if isinstance(verdict, Scored):
            summary.n += 1
            new[turn_id] = verdict
            continue
        summary.n_unscored += isinstance(verdict, Unscored)
        summary.n_failed += isinstance(verdict, Failed)
        work.reasons[verdict.reason] += 1
        known = isinstance(verdict, Unscored) and work.before.get(turn_id) == verdict
        if not known and turn_id not in work.scored:
            new[turn_id] = verdict
    if new:
        store.put_all(summary.name, summary.version, new)


def _finish(store: _Store, work: _Work) -> JudgeSummary:
    """Complete the judge's summary; if the judge had turns to judge but could not run, store the reason."""
    summary = work.summary
    summary.reasons = dict(work.reasons.most_common())
    if work.problem is not None and summary.n_unscored:
        summary.reason = work.problem
        store.cannot_run(summary.name, summary.version, work.problem)
    if work.runner is not None:
        usage = work.runner.usage
        summary.calls, summary.cached = usage.calls, usage.cached
        summary.cost = usage.cost if usage.calls else 0.0
    return summary
