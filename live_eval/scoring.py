"""Score a run: judges over what the store holds, without the endpoint.

The run is read once. Each reply is decoded once for all judges, in batches with a bound on their audio; the
judgements go to the run's scores, keyed by judge and judge version. Scoring again leaves alone what a judge
has scored in this version, and looks anew at what it had not: a turn that lacked something, a judge that
could not run, a call that failed.

A judge that cannot run on this machine scores nothing: its turns are unscored with the reason, and the
summary says so. Nothing stands in for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeAlias

from live_eval import registry
from live_eval.audio import Audio, read_audio
from live_eval.clock import SystemClock
from live_eval.errors import AudioError, LiveEvalError, StoreError
from live_eval.judging import (
    Failed,
    JudgedTurn,
    JudgeKind,
    Judgement,
    JudgeSpec,
    LlmJudge,
    LocalJudge,
    Need,
    Scored,
    Unscored,
    check_judgement,
    missing,
)
from live_eval.llm import LlmDriver, LlmOptions, LlmSettings
from live_eval.store import RunReader, ScoreStore, StoredTurn

__all__ = [
    "JudgeSummary",
    "Progress",
    "ScoringSummary",
    "score_run",
    "scoring_version",
]

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with a judge's name, the turns it is through with, and all turns."""

# A batch is bounded by both; a longer reply is a batch of its own. 300 s are 29 MB at 24 kHz.
_BATCH_TURNS = 64
_BATCH_AUDIO_NS = 300_000_000_000

_AUDIO_NEEDS = (Need.REPLY_AUDIO, Need.REFERENCE_AUDIO)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSummary:
    """Where a run stands with one judge, and what this scoring took.

    Args:
        name: The judge.
        version: The version under which its scores are kept.
        n: Turns that are scored, by this scoring or an earlier one.
        n_unscored: Turns that lack what the judge needs, or that it could not be asked about.
        n_failed: Turns at which the judge failed.
        judged: Turns that were handed to the judge this time.
        seconds: Time that the judge took this time, its loading included.
        audio_seconds: Seconds of reply audio that it was handed.
        calls: Requests to a model, failed ones included.
        cost: What the calls cost, in dollars; None where it is not known.
        reason: Why the judge could not run; None where it could, or was not needed.
    """

    name: str
    version: str
    n: int
    n_unscored: int
    n_failed: int
    judged: int
    seconds: float
    audio_seconds: float
    calls: int
    cost: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class ScoringSummary:
    """What came of a scoring: the turns of the run, and a summary for each judge in the order asked for."""

    turns: int
    judges: tuple[JudgeSummary, ...]


class _Bench(Protocol):
    """A judge at work, of either kind."""

    @property
    def calls(self) -> int: ...

    def judge(self, turns: Sequence[JudgedTurn]) -> Sequence[Judgement]: ...


@dataclass(frozen=True, slots=True)
class _Item:
    """A turn of a batch; `broken` says which audio is kept but cannot be read, and why."""

    turn: JudgedTurn
    failure: str | None
    broken: Mapping[Need, str]


@dataclass(slots=True, eq=False)
class _Work:
    """One judge, what of the run it has to do, and how far it is."""

    spec: JudgeSpec
    version: str
    problem: str | None
    scored: set[str] = field(default_factory=set)
    before: dict[str, Judgement] = field(default_factory=dict)
    bench: _Bench | None = None
    through: int = 0
    n: int = 0
    n_unscored: int = 0
    n_failed: int = 0
    judged: int = 0
    spent_ns: int = 0
    audio_ns: int = 0

    def wants(self, turn_id: str) -> bool:
        return turn_id not in self.scored

    @property
    def reason(self) -> str | None:
        """Why the judge could not run, where it was wanted."""
        return self.problem if self.n_unscored else None

    def needs_audio(self, need: Need) -> bool:
        return self.problem is None and need in self.spec.needs


def score_run(
    path: Path,
    judges: Sequence[str],
    *,
    again: bool = False,
    progress: Progress | None = None,
    llm: LlmOptions | None = None,
) -> ScoringSummary:
    """Score the run in folder `path`.

    Args:
        path: The run's folder.
        judges: Names of judges; see ``live-eval judges``.
        again: Score anew what this version of a judge has scored already.
        progress: Told how far each judge is.
        llm: How to reach the models of LLM judges, where not as the judges say.

    Returns:
        For each judge what it scored, and why it could not run where it could not.

    Raises:
        PluginError: There is no judge of that name, or it is broken.
        StoreError: There is no run, its scores are being written by another process, or cannot be.
    """
    options = llm or LlmOptions()
    specs = [registry.judge(name) for name in dict.fromkeys(judges)]
    with RunReader.open(path) as run, ScoreStore.open(path) as store, ExitStack() as stack:
        works = [_begin(spec, store, options, again=again) for spec in specs]
        total = len(run)
        for batch, seen in _batches(run, works):
            for work in works:
                verdicts = _judge(work, batch, options, stack)
                _keep(store, work, verdicts)
                work.through += seen
                if progress is not None:
                    progress(work.spec.name, work.through, total)
        for work in works:
            if work.reason is not None:
                store.cannot_run(work.spec.name, work.version, work.reason)
        return ScoringSummary(total, tuple(_summary(work) for work in works))


def scoring_version(spec: JudgeSpec, options: LlmOptions) -> str:
    """Return the version under which a judge's scores are kept: another model is another judge.

    >>> from judges.specs import BLEU
    >>> scoring_version(BLEU, LlmOptions(model="mine"))
    '1'
    """
    if spec.kind is JudgeKind.LLM and options.model is not None:
        return f"{spec.version}+{options.model}"
    return spec.version


def _begin(spec: JudgeSpec, store: ScoreStore, options: LlmOptions, *, again: bool) -> _Work:
    key_variable = options.key_variable_of(spec) if spec.kind is JudgeKind.LLM else spec.key_variable
    lacking = registry.lacks(replace(spec, key_variable=key_variable))
    work = _Work(spec, scoring_version(spec, options), f"lacks {lacking}" if lacking else None)
    for row in store.read([spec.name]):
        if row.version != work.version:
            continue
        if row.status != "scored":
            made = Unscored if row.status == "unscored" else Failed
            work.before[row.turn_id] = made(row.reason)
        elif not again:
            work.scored.add(row.turn_id)
    return work


def _batches(run: RunReader, works: Sequence[_Work]) -> Iterator[tuple[list[_Item], int]]:
    """Yield batches of turns that some judge wants, and how many turns of the run each covers."""
    batch: list[_Item] = []
    seen = audio_ns = 0
    for turn in run.turns():
        seen += 1
        wanting = [work for work in works if work.wants(turn.turn_id)]
        for work in works:
            work.n += work not in wanting
        if wanting:
            item = _item(
                run, turn, {need for need in _AUDIO_NEEDS for work in wanting if work.needs_audio(need)}
            )
            batch.append(item)
            audio_ns += sum(audio.duration_ns for audio in (item.turn.reply, item.turn.reference) if audio)
        if len(batch) >= _BATCH_TURNS or audio_ns >= _BATCH_AUDIO_NS:
            yield batch, seen
            batch, seen, audio_ns = [], 0, 0
    yield batch, seen


def _item(run: RunReader, turn: StoredTurn, audio_needs: set[Need]) -> _Item:
    """Read what judges need of a turn; a failed turn is not judged, so nothing of it is."""
    audio: dict[Need, Audio | None] = {}
    broken: dict[Need, str] = {}
    for need in audio_needs if turn.failure is None else ():
        try:
            audio[need] = _read(run, turn, need)
        except (AudioError, StoreError) as error:
            broken[need] = str(error)
    return _Item(
        JudgedTurn(
            turn_id=turn.turn_id,
            case=turn.case,
            reply=audio.get(Need.REPLY_AUDIO),
            reply_text=turn.reply_text,
            heard_text=turn.heard_text,
            reference=audio.get(Need.REFERENCE_AUDIO),
        ),
        turn.failure.kind.value if turn.failure is not None else None,
        broken,
    )


def _read(run: RunReader, turn: StoredTurn, need: Need) -> Audio | None:
    if need is Need.REPLY_AUDIO:
        return run.reply(turn.turn_id) if turn.has_reply else None
    path = turn.case.reference_audio_path
    return read_audio(path).audio if path is not None else None


def _judge(
    work: _Work, batch: Sequence[_Item], options: LlmOptions, stack: ExitStack
) -> dict[str, Judgement]:
    """Return the judge's verdict on each turn of the batch that it wants."""
    verdicts: dict[str, Judgement] = {}
    askable: list[JudgedTurn] = []
    for item in batch:
        if not work.wants(item.turn.turn_id):
            continue
        verdict = _before_asking(work, item)
        if verdict is None:
            askable.append(item.turn)
        else:
            verdicts[item.turn.turn_id] = verdict
    if askable:
        clock = SystemClock()
        began_ns = clock.now_ns()
        if work.bench is None:
            work.problem = _load(work, options, stack)
        if work.bench is None:
            verdicts |= {turn.turn_id: Unscored(work.problem or "") for turn in askable}
        else:
            work.judged += len(askable)
            if Need.REPLY_AUDIO in work.spec.needs:
                work.audio_ns += sum(turn.reply.duration_ns for turn in askable if turn.reply is not None)
            given = work.bench.judge(askable)
            for turn, judgement in zip(askable, given, strict=True):
                verdicts[turn.turn_id] = check_judgement(work.spec, judgement)
        work.spent_ns += clock.now_ns() - began_ns
    return verdicts


def _before_asking(work: _Work, item: _Item) -> Judgement | None:
    """Return the verdict on a turn about which the judge cannot be asked, or None where it can."""
    if work.problem is not None:
        return Unscored(work.problem)
    if item.failure is not None:
        return Unscored(f"the turn failed: {item.failure}")
    for need, reason in item.broken.items():
        if need in work.spec.needs:
            return Failed(f"{need.value.replace('_', ' ')} cannot be read: {reason}")
    lacking = missing(item.turn, work.spec.needs)
    return Unscored(lacking) if lacking is not None else None


def _keep(store: ScoreStore, work: _Work, verdicts: Mapping[str, Judgement]) -> None:
    """Count the verdicts and store those that are news."""
    for verdict in verdicts.values():
        work.n += isinstance(verdict, Scored)
        work.n_unscored += isinstance(verdict, Unscored)
        work.n_failed += isinstance(verdict, Failed)
    news = {
        turn_id: verdict
        for turn_id, verdict in verdicts.items()
        if not (isinstance(verdict, Unscored) and work.before.get(turn_id) == verdict)
    }
    if news:
        store.put_all(work.spec.name, work.version, news)


def _load(work: _Work, options: LlmOptions, stack: ExitStack) -> str | None:
    """Load the judge; return why that could not be, or None."""
    try:
        judge = registry.load(work.spec.implementation)()
        work.bench = (
            _LlmBench(judge, options.settings_for(work.spec), stack)
            if work.spec.kind is JudgeKind.LLM
            else _LocalBench(judge)
        )
    except LiveEvalError as error:
        return str(error)
    except Exception as error:
        return f"cannot be loaded: {type(error).__name__}: {error}"
    return None


class _LocalBench:
    """A local judge; a batch at which it breaks is judged turn by turn."""

    calls = 0

    def __init__(self, judge: LocalJudge) -> None:
        self._judge = judge

    def judge(self, turns: Sequence[JudgedTurn]) -> Sequence[Judgement]:
        try:
            judgements = list(self._judge.score(turns))
        except Exception as error:
            problem = f"the judge broke: {type(error).__name__}: {error}"
        else:
            if len(judgements) == len(turns):
                return judgements
            problem = f"the judge gave {len(judgements)} judgements for {len(turns)} turns"
        if len(turns) == 1:
            return [Failed(problem)]
        return [judgement for turn in turns for judgement in self.judge([turn])]


class _LlmBench:
    """An LLM judge under its driver, with the event loop that both live in."""

    def __init__(self, judge: LlmJudge, settings: LlmSettings, stack: ExitStack) -> None:
        self._judge = judge
        self._driver = LlmDriver(settings)
        self._runner = stack.enter_context(asyncio.Runner())
        stack.callback(lambda: self._runner.run(self._driver.__aexit__(None, None, None)))

    @property
    def calls(self) -> int:
        return self._driver.usage.calls

    def judge(self, turns: Sequence[JudgedTurn]) -> Sequence[Judgement]:
        return self._runner.run(self._driver.judge(self._judge, turns))


def _summary(work: _Work) -> JudgeSummary:
    calls = work.bench.calls if work.bench is not None else 0
    return JudgeSummary(
        name=work.spec.name,
        version=work.version,
        n=work.n,
        n_unscored=work.n_unscored,
        n_failed=work.n_failed,
        judged=work.judged,
        seconds=work.spent_ns / 1e9,
        audio_seconds=work.audio_ns / 1e9,
        calls=calls,
        cost=None if calls else 0.0,
        reason=work.reason,
    )
