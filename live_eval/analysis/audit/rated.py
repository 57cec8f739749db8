"""Compare a judge with human ratings of published replies, without a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from live_eval import registry
from live_eval.analysis.agreement import spearman
from live_eval.analysis.audit.asking import Asker
from live_eval.analysis.audit.labels import Labels, LabelTargets, agreement_json
from live_eval.audio import read_audio
from live_eval.data.benchmarks.vstyle import RatedReply
from live_eval.errors import AudioError, UsageError
from live_eval.judging import Failed, JudgedTurn, JudgeKind, Need, Scored, missing
from live_eval.recording import ScoreStore
from live_eval.scoring.judge_runner import JudgeOptions, as_configured, scoring_version

__all__ = ["audit_ratings", "published_agreement", "sampled"]

_CHUNK = 16


def sampled(replies: Sequence[RatedReply], limit: int, seed: int) -> list[RatedReply]:
    """Return at most `limit` replies, in random order; all for 0."""
    order = np.random.default_rng(seed).permutation(len(replies))
    return [replies[place] for place in order[: limit or None]]


def audit_ratings(
    judge: str,
    replies: Sequence[RatedReply],
    folder: Path,
    *,
    options: JudgeOptions | None = None,
    limit: int = 0,
    seed: int = 0,
) -> dict[str, Any]:
    """Return how well a judge, and the publisher's judge, agree with human ratings.

    Replies that lack an input of the judge, such as the user's emotion, are skipped and counted; failed
    judgements are counted apart.

    Args:
        folder: Folder in which a language model's answers are kept.

    Raises:
        PluginError: No judge has this name.
        UsageError: The judge compares replies, or no reply has its inputs.
        JudgeError: The judge cannot run here.
    """
    options = options or JudgeOptions()
    spec = as_configured(registry.judge(judge), options)
    if spec.kind is JudgeKind.PAIRWISE:
        raise UsageError(f"judge {spec.name!r} compares replies and does not score single turns")
    values: dict[str, Mapping[str, float]] = {}
    skipped: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    with ExitStack() as stack:
        store = stack.enter_context(ScoreStore.open(folder))
        asker = Asker(spec, options, stack, store, again=False, seed=seed)
        fit = [each for each in replies if _fits(each, spec.needs, skipped)]
        chosen = sampled(fit, limit, seed)
        for at in range(0, len(chosen), _CHUNK):
            turns = [turn for each in chosen[at : at + _CHUNK] if (turn := _turn(each, skipped)) is not None]
            for turn, judgement in zip(turns, asker.judge(turns), strict=True):
                if isinstance(judgement, Scored):
                    values[turn.turn_id] = judgement.values
                else:
                    (failed if isinstance(judgement, Failed) else skipped)[judgement.reason] += 1
    if not chosen:
        raise UsageError(f"no rated reply has the inputs of {judge}: {next(iter(skipped), 'none is rated')}")
    output = spec.outputs[0].name
    labels = Labels("human ratings", rows=sum(len(each.ratings) for each in chosen))
    labels.scores[output] = {each.case.case_id: dict(each.ratings) for each in chosen}
    targets = LabelTargets({each.case.case_id: each.case.script_id for each in chosen}, {})
    return {
        "judge": spec.name,
        "version": scoring_version(spec, options),
        "kind": spec.kind.value,
        "agreement": agreement_json(labels, spec, values, targets, seed=seed),
        "published_judge": published_agreement(chosen, seed=seed),
        "replies": len(replies),
        "asked": len(chosen),
        "skipped": dict(skipped.most_common()),
        "n_failed": failed.total(),
        "reasons": dict(failed.most_common()),
    }


def published_agreement(replies: Sequence[RatedReply], *, seed: int = 0) -> dict[str, Any]:
    """Return how well the publisher's judge agrees with the means of human ratings; calls no judge."""
    theirs = [each for each in replies if each.published is not None]
    found = spearman(
        [each.published or 0.0 for each in theirs],
        [float(np.mean(list(each.ratings.values()))) for each in theirs],
        [each.case.script_id for each in theirs],
        seed=seed,
    )
    return {"n": len(theirs), "spearman": found.as_json(scripts=True)}


def _fits(reply: RatedReply, needs: frozenset[Need], skipped: Counter[str]) -> bool:
    """Return whether a reply has the judge's inputs, as far as is known before its audio is read."""
    turn = JudgedTurn(turn_id="", case=reply.case, reply_text=reply.text)
    absent = missing(turn, needs - {Need.REPLY_AUDIO})
    if absent is not None:
        skipped[absent] += 1
    return absent is None


def _turn(reply: RatedReply, skipped: Counter[str]) -> JudgedTurn | None:
    if reply.audio is None:
        skipped["the reply's file is missing or outside the folder"] += 1
        return None
    try:
        audio = read_audio(reply.audio).audio
    except AudioError as error:
        skipped[error.kind.value] += 1
        return None
    return JudgedTurn(turn_id=reply.case.case_id, case=reply.case, reply=audio, reply_text=reply.text)
