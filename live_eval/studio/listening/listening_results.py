"""Compute the results of a listening test, and export votes as CSV."""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from live_eval.analysis.agreement import krippendorff
from live_eval.analysis.arena.ratings import Match, rate
from live_eval.analysis.audit.labels import Labels, LabelTargets, agreement_json
from live_eval.analysis.statistics.intervals import estimate_mean, estimate_share
from live_eval.analysis.summary.score_table import ScoreTable, run_scores
from live_eval.errors import StoreError
from live_eval.files import csv_line, read_regular
from live_eval.judging import JudgeSpec, score_name
from live_eval.recording import RunReader
from live_eval.registry import installed_judges
from live_eval.studio.listening.listening_test import HIDDEN_REFERENCE, MID_ANCHOR, ListeningKind
from live_eval.studio.listening.votes import Ballots, ListenerVote

__all__ = ["results_json", "votes_csv"]

_MOST_ARENA_BYTES = 1 << 26
_LIKE_REFERENCE = 90
_MOST_SHARE, _UNCLEAR_SHARE = 0.15, 0.25  # see `_mushra`


def results_json(ballots: Ballots, folder: Path) -> dict[str, Any]:
    """Return the results as JSON values for the page, including run names."""
    test = ballots.test
    shown: dict[str, Any] = {
        "kind": test.kind.value,
        "runs": [run.name for run in test.runs],
        "cases": len(test.cases),
        "votes": len(ballots.votes),
        "listeners": [
            {"name": name, "votes": len(ballots.of(name)), "trials": test.trials}
            for name in ballots.listeners
        ],
    }
    if test.kind is ListeningKind.IDENTITY:
        return shown | _identities(ballots)
    if test.kind is ListeningKind.MUSHRA:
        return shown | _mushra(ballots)
    tables, problems = _score_tables(ballots, folder)
    shown["problems"] = problems
    if test.kind is ListeningKind.RATING:
        return shown | _ratings(ballots, tables)
    shown["imports"] = [shlex.join(["live-eval", "arena", *shown["runs"], "--votes", "FILE", "--no-judge"])]
    return shown | _preferences(ballots, tables, folder)


def _score_tables(ballots: Ballots, folder: Path) -> tuple[dict[str, ScoreTable], list[str]]:
    """Return the score tables of readable runs, and the errors for unreadable ones."""
    tables: dict[str, ScoreTable] = {}
    problems: list[str] = []
    for run in ballots.test.runs:
        path = folder / run.path
        try:
            with RunReader.open(path) as reader:
                table = run_scores(reader)
        except StoreError as error:
            problems.append(str(error))
            continue
        if table.unread:
            problems.append(f"{run.name}: {table.unread}")
        else:
            tables[run.name] = table
    return tables, problems


def _identities(ballots: Ballots) -> dict[str, Any]:
    """Return the share of trials in which X was identified; chance is one half."""

    def correct(votes: Sequence[ListenerVote]) -> dict[str, Any]:
        right = [float(vote.choice == vote.x) for vote in votes]
        return estimate_share(right, [vote.script_id for vote in votes], whole=1.0).as_json(scripts=True)

    return {
        "correct": correct(ballots.votes),
        "by_listener": {name: correct(ballots.of(name)) for name in ballots.listeners},
    }


def _preferences(ballots: Ballots, tables: Mapping[str, ScoreTable], folder: Path) -> dict[str, Any]:
    names = [run.name for run in ballots.test.runs]
    given: dict[str, dict[str, float]] = {}
    for vote in ballots.votes:
        verdict = 0.0 if vote.choice is None else 1.0 if vote.runs[vote.choice] == names[0] else -1.0
        given.setdefault(vote.turn_id, {})[vote.listener] = verdict
    scripts = {case.turn_id: case.script_id for case in ballots.test.cases}
    means = {turn_id: float(np.mean(list(votes.values()))) for turn_id, votes in given.items()}
    matches = [Match(scripts[turn_id], names[0], names[1], mean) for turn_id, mean in means.items()]
    places = [0.0 if vote.choice is None else 1.0 - 2.0 * vote.choice for vote in ballots.votes]
    table = np.asarray(
        [[votes.get(listener, math.nan) for listener in ballots.listeners] for votes in given.values()]
    ).reshape(len(given), len(ballots.listeners))
    judged = [*_by_scores(tables, names, list(means)), *_by_arenas(folder.parent, names)]
    return {
        "ratings": rate(matches, names).as_json(),
        "position": estimate_mean(places, [vote.script_id for vote in ballots.votes]).as_json(scripts=True),
        "between_listeners": krippendorff(table, [scripts[turn_id] for turn_id in given]).as_json(),
        "judges": [
            {"judge": judge, "version": version, "agreement": _same_sign(means, verdicts, scripts)}
            for judge, version, verdicts in judged
        ],
    }


def _same_sign(
    people: Mapping[str, float], judge: Mapping[str, float], scripts: Mapping[str, str]
) -> dict[str, Any]:
    """Return how often people and a judge prefer the same run, over turns on which both have a preference."""
    both = [turn_id for turn_id, mean in people.items() if mean and judge.get(turn_id)]
    same = [float((people[turn_id] > 0) == (judge[turn_id] > 0)) for turn_id in both]
    return estimate_share(same, [scripts[turn_id] for turn_id in both], whole=1.0).as_json(scripts=True)


def _by_scores(
    tables: Mapping[str, ScoreTable], names: Sequence[str], turn_ids: Sequence[str]
) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Yield each directional score, its version, and the first run's advantage by turn."""
    if len(tables) < 2:
        return
    first, second = (tables[name] for name in names)
    for column in first.columns:
        other = second.column(column.name)
        if column.higher_is_better is None or other is None or other.version != column.version:
            continue
        sign = 1.0 if column.higher_is_better else -1.0
        verdicts: dict[str, float] = {}
        for turn_id in turn_ids:
            values = [
                row.values[column.output]
                for table in (first, second)
                if (row := table.rows.get(turn_id, {}).get(column.judge)) and column.output in row.values
            ]
            if len(values) == 2:
                verdicts[turn_id] = sign * (values[0] - values[1])
        if verdicts:
            yield column.name, column.version, verdicts


def _by_arenas(folder: Path, names: Sequence[str]) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Yield the verdicts on these runs from ``live-eval arena`` files next to them."""
    for path in sorted(folder.glob("arena-*.jsonl")):
        try:
            heading, *rows = [
                orjson.loads(line) for line in read_regular(path, _MOST_ARENA_BYTES).splitlines()
            ]
            if heading.get("judge") is None or not set(names) <= set(heading["runs"]):
                continue
            verdicts = {
                row["turn_id"]: row["verdict"] if row["first"] == names[0] else -row["verdict"]
                for row in rows
                if not row.get("vote") and {row["first"], row["second"]} == set(names)
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # not an arena file
        yield heading["judge"], str(heading.get("version", "")), verdicts


def _mushra(ballots: Ballots) -> dict[str, Any]:
    """Return each system's mean rating, excluding listeners who fail the screening of ITU-R BS.1534-3.

    Screening excludes listeners who rate the hidden reference below 90, or the mid-range anchor (7 kHz) above
    90, in more than 15 % of their trials. Public summaries of BS.1534-3 state both rules. The third rule is
    our reading of its section 4.1.2, which no source confirms that we could read: a case whose mid-range
    anchor more than a quarter of the listeners rate above 90 does not count for the second rule, since the
    anchor may not be audibly degraded.
    """
    has_mid_anchor = MID_ANCHOR in ballots.test.systems
    rated: defaultdict[str, list[bool]] = defaultdict(list)
    for vote in ballots.votes if has_mid_anchor else ():
        rated[vote.turn_id].append(_takes_anchor(vote))
    clear = {turn_id for turn_id, taken in rated.items() if np.mean(taken) <= _UNCLEAR_SHARE}
    missed: dict[str, float] = {}
    taken: dict[str, float | None] = {}
    for name in ballots.listeners:
        if votes := ballots.of(name):
            below = sum(vote.ratings[HIDDEN_REFERENCE] < _LIKE_REFERENCE for vote in votes)
            missed[name] = below / len(votes)
            counted = [vote for vote in votes if vote.turn_id in clear]
            taken[name] = sum(map(_takes_anchor, counted)) / len(votes) if counted else None
    excluded = {name for name in missed if max(missed[name], taken[name] or 0) > _MOST_SHARE}
    kept = [vote for vote in ballots.votes if vote.listener not in excluded]
    scripts = {case.turn_id: case.script_id for case in ballots.test.cases}
    means: list[dict[str, Any]] = []
    for system in ballots.test.systems:
        by_turn: dict[str, list[float]] = {}
        for vote in kept:
            by_turn.setdefault(vote.turn_id, []).append(float(vote.ratings[system]))
        values = [float(np.mean(ratings)) for ratings in by_turn.values()]
        mean = estimate_mean(values, [scripts[turn_id] for turn_id in by_turn])
        means.append({"system": system, "mean": mean.as_json(scripts=True)})
    return {
        "means": means,
        "screening": [
            {
                "listener": name,
                "missed_reference": share,
                "taken_anchor": taken[name],
                "excluded": name in excluded,
            }
            for name, share in missed.items()
        ],
    }


def _takes_anchor(vote: ListenerVote) -> bool:
    """Return whether the mid-range anchor is rated like the reference."""
    return vote.ratings[MID_ANCHOR] > _LIKE_REFERENCE


def _ratings(ballots: Ballots, tables: Mapping[str, ScoreTable]) -> dict[str, Any]:
    units = {
        _unit(run.name, case.turn_id): case.script_id
        for run in ballots.test.runs
        for case in ballots.test.cases
    }
    turns = LabelTargets(units, {})
    agreement: dict[str, Any] = {}
    means: list[dict[str, Any]] = []
    imports: list[str] = []
    for spec in installed_judges():
        labels = _labels(ballots, spec)
        if not labels.scores:
            continue
        values = {
            _unit(run, turn_id): row.values
            for run, table in tables.items()
            for turn_id, rows in table.rows.items()
            if (row := rows.get(spec.name)) is not None and row.status == "scored"
        }
        agreement |= agreement_json(labels, spec, values, turns)["outputs"]
        means += _means(ballots, labels, spec, units)
        imports += _imports(ballots, spec.name, values)
    return {"means": means, "agreement": agreement, "imports": imports}


def _imports(ballots: Ballots, judge: str, scored: Mapping[str, Any]) -> Iterator[str]:
    """Yield the commands that score each run with a judge, if necessary, and compare the scores."""
    for run in ballots.test.runs:
        if not any(unit.startswith(_unit(run.name, "")) for unit in scored):
            yield shlex.join(["live-eval", "score", run.name, "--judges", judge])
        yield shlex.join(["live-eval", "audit", judge, run.name, "--labels", "FILE"])


def _labels(ballots: Ballots, spec: JudgeSpec) -> Labels:
    """Return the listeners' ratings of a judge's scores as audit labels."""
    labels = Labels("votes")
    for vote in ballots.votes:
        for output in spec.outputs:
            rating = vote.ratings.get(score_name(spec.name, output.name))
            if rating is not None:
                labels.rows += 1
                by_unit = labels.scores.setdefault(output.name, {})
                by_unit.setdefault(_unit(vote.runs[0], vote.turn_id), {})[vote.listener] = float(rating)
    return labels


def _means(
    ballots: Ballots, labels: Labels, spec: JudgeSpec, units: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield each run's mean rating over turns on each scale."""
    for output, by_unit in labels.scores.items():
        for run in ballots.test.runs:
            rated = {unit: given for unit, given in by_unit.items() if unit.startswith(_unit(run.name, ""))}
            values = [float(np.mean(list(given.values()))) for given in rated.values()]
            mean = estimate_mean(values, [units[unit] for unit in rated])
            score = score_name(spec.name, output)
            yield {"score": score, "run": run.name, "mean": mean.as_json(scripts=True)}


def _unit(run: str, turn_id: str) -> str:
    return f"{run}/{turn_id}"


# -- CSV -------------------------------------------------------------------------------------------


def votes_csv(ballots: Ballots, run: str = "") -> str:
    """Return a test's votes as CSV for ``live-eval arena --votes`` and ``live-eval audit --labels``.

    Args:
        run: Run to export, for a test of ratings other than MUSHRA.
    """
    kind = ballots.test.kind
    rows: Iterable[Sequence[object]]
    if kind is ListeningKind.PREFERENCE:
        heading = ["case_id", "first", "second", "winner", "rater", "turn_id", "at"]
        rows = (_preference_row(vote) for vote in ballots.votes)
    elif kind is ListeningKind.IDENTITY:
        heading = ["case_id", "first", "second", "x", "chosen", "correct", "rater", "turn_id", "at"]
        rows = (_identity_row(vote) for vote in ballots.votes)
    elif kind is ListeningKind.MUSHRA:
        heading = ["turn_id", "case_id", "system", "rating", "rater", "at"]
        rows = _rating_rows(ballots.votes)
    else:
        heading = ["turn_id", "case_id", "output", "score", "rater", "at"]
        rows = _rating_rows(vote for vote in ballots.votes if vote.runs == (run,))
    return "".join(csv_line(row) for row in (heading, *rows))


def _preference_row(vote: ListenerVote) -> Sequence[object]:
    winner = "tie" if vote.choice is None else vote.runs[vote.choice]
    return [vote.case_id, *vote.runs, winner, vote.listener, vote.turn_id, vote.at]


def _identity_row(vote: ListenerVote) -> Sequence[object]:
    assert vote.x is not None
    assert vote.choice is not None
    named = [vote.runs[vote.x], vote.runs[vote.choice]]
    correct = int(vote.x == vote.choice)
    return [vote.case_id, *vote.runs, *named, correct, vote.listener, vote.turn_id, vote.at]


def _rating_rows(votes: Iterable[ListenerVote]) -> Iterator[Sequence[object]]:
    for vote in votes:
        for scale, rating in vote.ratings.items():
            yield [vote.turn_id, vote.case_id, scale, rating, vote.listener, vote.at]
