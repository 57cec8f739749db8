"""Measure how a judge's scores agree with human labels from a CSV file and with another judge's scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_eval.analysis.agreement import kendall, krippendorff, spearman
from live_eval.errors import DataError
from live_eval.files import read_rows
from live_eval.judging import JudgeSpec, score_name
from live_eval.recording import RunReader
from live_eval.registry import installed_judges

__all__ = ["LabelTargets", "Labels", "against_json", "agreement_json", "read_labels"]

_NEEDED = ("turn_id or case_id", "score")
_OPTIONAL = ("rater", "output")
_ONE_RATER = ""


@dataclass(frozen=True, slots=True)
class LabelTargets:
    """Look-up tables to assign labels to a run's turns: each turn's script, and each case's turns."""

    scripts: Mapping[str, str]
    cases: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, run: RunReader) -> LabelTargets:
        """Build the look-up tables for a run."""
        scripts: dict[str, str] = {}
        cases: dict[str, list[str]] = {}
        for turn in run.turns():
            scripts[turn.turn_id] = turn.case.script_id
            cases.setdefault(turn.case.case_id, []).append(turn.turn_id)
        return cls(scripts, cases)


@dataclass(slots=True)
class Labels:
    """Human labels of a run's turns, by judge output, turn and rater.

    `n_unknown` is the number of rows for unknown turns, `n_other` the number of rows for other scores.
    """

    file: str
    rows: int = 0
    n_unknown: int = 0
    n_other: int = 0
    scores: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)


def read_labels(path: Path, spec: JudgeSpec, turns: LabelTargets) -> Labels:
    """Read labels for a judge's scores from a UTF-8 CSV file with a header.

    Columns: ``score``; ``turn_id``, or ``case_id`` if the run has only one turn of the case; and optionally
    ``rater`` and ``output`` (an output of the judge or a score such as ``rubric.c4``; the judge's first
    output by default). Rows for other scores or other turns are ignored, but counted.

    Raises:
        DataError: The file cannot be read, or a row is invalid; the message contains the line.
    """
    labels = Labels(path.name)
    seen: dict[tuple[str, str, str], int] = {}
    for line, row in read_rows(path, _NEEDED, _OPTIONAL):
        where = f"{path}:{line}"
        labels.rows += 1
        score = _score(where, row["score"])
        output = _output(where, row.get("output"), spec)
        turn_id = _turn(where, row, turns)
        if output is None:
            labels.n_other += 1
            continue
        if turn_id is None:
            labels.n_unknown += 1
            continue
        rater = row.get("rater") or _ONE_RATER
        before = seen.setdefault((output, turn_id, rater), line)
        if before != line:
            whose = f" by {rater!r}" if rater else ""
            raise DataError(f"{where}: duplicate score{whose} of {turn_id!r}; the first is on line {before}")
        labels.scores.setdefault(output, {}).setdefault(turn_id, {})[rater] = score
    return labels


def _score(where: str, text: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise DataError(f"{where}: score {text!r}: expected a number")
    return score


def _output(where: str, name: str | None, spec: JudgeSpec) -> str | None:
    """Return the output that a row labels, or None if it belongs to another judge."""
    if not name:
        return spec.outputs[0].name
    for output in spec.outputs:
        if name in (output.name, score_name(spec.name, output.name)):
            return output.name
    others = {score_name(other.name, each.name) for other in installed_judges() for each in other.outputs}
    if name in others or ("." in name and not name.startswith(f"{spec.name}.")):
        return None
    known = ", ".join(score_name(spec.name, output.name) for output in spec.outputs)
    raise DataError(f"{where}: output {name!r}: expected one of {known}, or a score of another judge")


def _turn(where: str, row: Mapping[str, str], turns: LabelTargets) -> str | None:
    """Return the turn that a row labels, or None if the turn is not in the run."""
    turn_id, case_id = row.get("turn_id"), row.get("case_id")
    if turn_id:
        return turn_id if turn_id in turns.scripts else None
    if not case_id:
        raise DataError(f"{where}: expected a turn_id or a case_id")
    found = turns.cases.get(case_id, ())
    if len(found) > 1:
        raise DataError(
            f"{where}: case {case_id!r} has {len(found)} turns: expected a turn_id, for example {found[0]!r}"
        )
    return found[0] if found else None


def agreement_json(
    labels: Labels,
    spec: JudgeSpec,
    values: Mapping[str, Mapping[str, float]],
    turns: LabelTargets,
    *,
    seed: int = 0,
) -> dict[str, Any]:
    """Return the agreement of a judge's values by turn with the human raters, and that among the raters."""
    raters = {rater for by_turn in labels.scores.values() for given in by_turn.values() for rater in given}
    return {
        "file": labels.file,
        "rows": labels.rows,
        "n_unknown": labels.n_unknown,
        "n_other": labels.n_other,
        "raters": len(raters),
        "outputs": {
            score_name(spec.name, output.name): _output_json(
                labels.scores[output.name], output.name, values, turns.scripts, seed
            )
            for output in spec.outputs
            if output.name in labels.scores
        },
    }


def _output_json(
    given: Mapping[str, Mapping[str, float]],
    output: str,
    values: Mapping[str, Mapping[str, float]],
    scripts: Mapping[str, str],
    seed: int,
) -> dict[str, Any]:
    both = [turn_id for turn_id in given if output in values.get(turn_id, {})]
    judge = [values[turn_id][output] for turn_id in both]
    people = [float(np.mean(list(given[turn_id].values()))) for turn_id in both]
    of = [scripts[turn_id] for turn_id in both]
    raters = dict.fromkeys(rater for scores in given.values() for rater in scores)
    table = np.asarray([[scores.get(rater, math.nan) for rater in raters] for scores in given.values()])
    return {
        "n": len(both),
        "n_unscored": len(given) - len(both),
        **_correlations(judge, people, of, seed),
        **_alphas(np.asarray([judge, people], np.float64).T, of, seed),
        "between_raters": {
            "raters": len(raters),
            **_alphas(table, [scripts[turn_id] for turn_id in given], seed),
        },
    }


def against_json(
    first: JudgeSpec,
    second: JudgeSpec,
    values: Mapping[str, Mapping[str, float]],
    others: Mapping[str, Mapping[str, float]],
    scripts: Mapping[str, str],
    *,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Return the rank correlation of two judges' first outputs, and of their outputs with the same name.

    `values` and `others` are the outputs of the first and the second judge, by turn. Signs are not adjusted:
    a lower-is-better judge correlates negatively with a higher-is-better judge.
    """
    found: list[dict[str, Any]] = []
    for one, other in _shared_outputs(first, second):
        both = [turn_id for turn_id in values if one in values[turn_id] and other in others.get(turn_id, {})]
        mine = [values[turn_id][one] for turn_id in both]
        theirs = [others[turn_id][other] for turn_id in both]
        found.append(
            {
                "outputs": [score_name(first.name, one), score_name(second.name, other)],
                "n": len(both),
                **_correlations(mine, theirs, [scripts[turn_id] for turn_id in both], seed),
            }
        )
    return found


def _shared_outputs(first: JudgeSpec, second: JudgeSpec) -> Iterator[tuple[str, str]]:
    mains = (first.outputs[0].name, second.outputs[0].name)
    yield mains
    names = {output.name for output in second.outputs}
    for output in first.outputs:
        if output.name in names and (output.name, output.name) != mains:
            yield output.name, output.name


def _correlations(
    first: Sequence[float], second: Sequence[float], scripts: Sequence[str], seed: int
) -> dict[str, Any]:
    return {
        "spearman": spearman(first, second, scripts, seed=seed).as_json(scripts=True),
        "kendall": kendall(first, second, scripts, seed=seed).as_json(scripts=True),
    }


def _alphas(ratings: NDArray[np.float64], scripts: Sequence[str], seed: int) -> dict[str, Any]:
    return {
        "alpha_interval": krippendorff(ratings, scripts, "interval", seed=seed).as_json(scripts=True),
        "alpha_ordinal": krippendorff(ratings, scripts, "ordinal", seed=seed).as_json(scripts=True),
    }
