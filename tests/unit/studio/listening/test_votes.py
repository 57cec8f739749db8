"""Vote files: their content, and damaged files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from live_eval.errors import SchemaVersionError, StoreError, UsageError
from live_eval.studio.listening.listening_test import (
    ListeningKind,
    ListeningTest,
    ListeningTrial,
    rating_scales,
    trials_for,
)
from live_eval.studio.listening.trial_desk import why_not_heard
from live_eval.studio.listening.votes import OWNER, VoteFile
from tests.unit.studio.listening.listeners import a_test

AB, ABX, RATING = ListeningKind.PREFERENCE, ListeningKind.IDENTITY, ListeningKind.RATING


SCALES = tuple(rating_scales())


ONE = {"name": "one", "path": "../one"}
OTHERS = [{"name": name, "path": f"../{name}"} for name in ("two", "three", "four", "five", "six", "seven")]


CASE = {"case_id": "id_0/target", "turn_id": "id_0/target", "script_id": "id_0"}


def header(**changed: object) -> bytes:
    return json.dumps({"listening": 1, "cases": [CASE], **changed}).encode() + b"\n"


def test_a_vote_requires_every_reply_to_be_heard() -> None:
    lengths = {"A": 2.0, "B": 4.0}
    whole = {"A": [(0.0, 2.0)], "B": [(0.0, 4.0)]}
    assert why_not_heard(lengths, whole, 6.0) == ""
    assert why_not_heard(lengths, {**whole, "B": [(2.0, 4.0), (0.0, 2.1)]}, 7.0) == ""
    assert "B was not heard" in why_not_heard(lengths, {**whole, "B": [(0.0, 2.0), (3.0, 4.0)]}, 9.0)
    assert "B was not heard" in why_not_heard(lengths, {**whole, "B": [(0.0, 1.0)] * 9}, 9.0)
    assert "A was not heard" in why_not_heard(lengths, {"B": [(0.0, 4.0)]}, 9.0)
    assert "after 3.0 s" in why_not_heard(lengths, whole, 3.0)
    assert "A was not heard" in why_not_heard({"A": 2.0}, {"A": [(float("nan"), float("nan"))]}, 9.0)


def a_trial(test: ListeningTest, number: int = 0) -> ListeningTrial:
    return trials_for(test, 0)[number]


def test_votes_are_stored_and_the_last_one_can_be_undone(tmp_path: Path) -> None:
    test = a_test()
    file = VoteFile.create(tmp_path, test)
    file.join("Ana", "now")
    file.join("Ana", "later")
    for number in range(3):
        file.vote("Ana", a_trial(test, number), "now", choice=number % 2)
    with pytest.raises(UsageError, match="already voted on this trial"):
        file.vote("Ana", a_trial(test, 0), "now", choice=1)
    assert file.undo("Ana", "now").votes[-1].vote == 2
    ballots = VoteFile(file.path).read()
    assert ballots.test == test
    assert ballots.listeners == ("Ana",)
    assert ballots.open_trials("Ana")[0] == a_trial(test, 2)
    assert file.vote("Ana", a_trial(test, 2), "now", choice=None).votes[-1].vote == 4
    file.undo("Ana", "now")
    file.undo("Ana", "now")
    file.undo("Ana", "now")
    with pytest.raises(UsageError, match="no vote of Ana"):
        file.undo("Ana", "now")
    assert len(file.path.read_bytes().splitlines()) == 10  # lines are never removed


def test_an_incomplete_line_is_replaced_by_the_next_vote(tmp_path: Path) -> None:
    test = a_test()
    file = VoteFile.create(tmp_path, test)
    file.join("Ana", "now")
    file.vote("Ana", a_trial(test, 0), "now", choice=0)
    whole = file.path.read_bytes()
    file.vote("Ana", a_trial(test, 1), "now", choice=0)
    after = file.path.read_bytes()
    for cut in (len(whole), len(whole) + 1, len(after) - 1):
        file.path.write_bytes(after[:cut])
        assert len(file.read().votes) == 1
        assert len(file.vote("Ana", a_trial(test, 1), "now", choice=0).votes) == 2
        assert file.path.read_bytes() == after


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "empty"),
        (b"[]\n", "expected a JSON object"),
        (b"nonsense\n", "expected JSON"),
        (b'{"listening": 1, "kind": "abc"}\n', "kind"),
        (b'{"listening": 3}\n', "version 1 or 2, got version 3"),
        (header(kind="abx", runs=[ONE]), "expected 2 runs, got 1"),
        (header(kind="rating", runs=[]), "expected 1 or 2 runs, got 0"),
        (header(kind="ab", runs=[ONE, ONE]), "several runs are named 'one'"),
        (header(kind="mushra", reference="reply", runs=[*OTHERS, ONE, ONE]), "several runs are named 'one'"),
        (header(kind="ab", runs=[ONE, {"name": "two", "path": "a\0b"}]), "NUL character"),
        (header(kind="rating", runs=[ONE], scales=["rubric.c4"] * 2), "each once"),
    ],
)
def test_a_damaged_file_is_reported_with_its_line(tmp_path: Path, content: bytes, error: str) -> None:
    path = tmp_path / "ab-1.jsonl"
    path.write_bytes(content)
    with pytest.raises((StoreError, SchemaVersionError), match=error):
        VoteFile(path).read()


def test_a_vote_by_an_unknown_listener_is_damage(tmp_path: Path) -> None:
    file = VoteFile.create(tmp_path, a_test())
    with file.path.open("ab") as raw:
        raw.write(json.dumps({"vote": 1, "listener": "Bo", **CASE, "runs": ["one", "two"]}).encode() + b"\n")
    with pytest.raises(StoreError, match="who did not join"):
        file.read()


@pytest.mark.parametrize(
    ("kind", "changes", "error"),
    [
        (AB, {"choice": 7}, "choice: expected one of None, 0, 1, got 7"),
        (AB, {"x": 0}, "x: expected none, got 0"),
        (AB, {"turn_id": "b"}, "no case 'id_0/target'"),
        (AB, {"runs": ["one", "one"]}, "runs: expected both of one, two"),
        (AB, {"runs": ["one", "three"]}, "runs: expected both of one, two"),
        (AB, {"ratings": {"rubric.c4": 3}}, "ratings: expected 1 to 5 for each of no scale"),
        (ABX, {"choice": 0, "x": None}, "x: expected 0 or 1, got None"),
        (ABX, {"choice": 0, "x": -1}, "x: expected 0 or 1, got -1"),
        (ABX, {"x": 0}, "choice: expected one of 0, 1, got None"),
        (RATING, {"runs": ["one"], "ratings": {"rubric.c4": 6}}, "ratings: expected 1 to 5"),
        (RATING, {"runs": ["one", "two"]}, "runs: expected one of one, two"),
    ],
)
def test_a_vote_that_does_not_match_the_test_is_damage(
    tmp_path: Path, kind: ListeningKind, changes: dict[str, Any], error: str
) -> None:
    file = VoteFile.create(tmp_path, a_test(kind))
    file.join("Bo", "")
    vote = {"vote": 1, "listener": "Bo", **CASE, "runs": ["one", "two"], **changes}
    with file.path.open("ab") as raw:
        raw.write(json.dumps(vote).encode() + b"\n")
    with pytest.raises(StoreError, match=error):
        file.read()


def test_a_test_that_cannot_be_written_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        VoteFile.create(tmp_path, replace(a_test(), seed=10**25))
    assert not list(tmp_path.iterdir())


def test_a_file_above_the_size_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ab-1.jsonl"
    with path.open("wb") as file:
        file.truncate(1 << 33)
    with pytest.raises(StoreError, match="larger than the limit"):
        VoteFile(path).read()


def test_the_number_of_listeners_is_limited(tmp_path: Path) -> None:
    file = VoteFile(VoteFile.create(tmp_path, a_test()).path, most_listeners=2)
    for name in ("Ana", "Bo", "Ana"):
        file.join(name, "now")
    with pytest.raises(UsageError, match="limit of 2"):
        file.join("Cy", "now")
    assert file.read().listeners == ("Ana", "Bo")


def test_one_browser_cannot_take_all_places(tmp_path: Path) -> None:
    file = VoteFile(VoteFile.create(tmp_path, a_test()).path, most_of_a_browser=2)
    for name in ("Eve", "Eve 2", "Eve"):
        file.join(name, "now", "key of Eve")
    with pytest.raises(UsageError, match="this browser has reached its limit of 2"):
        file.join("Eve 3", "now", "key of Eve")
    file.join("Ana", "now", "key of Ana")
    for name in ("Bo", "Cy", "Di"):
        file.join(name, "now", OWNER)
    assert file.read().listeners == ("Eve", "Eve 2", "Ana", "Bo", "Cy", "Di")


def test_only_the_key_that_joined_and_the_owner_act_for_a_listener(tmp_path: Path) -> None:
    test = a_test()
    file = VoteFile.create(tmp_path, test)
    file.join("Ana", "now", "key of Ana")
    file.join("Max", "now", OWNER)
    file.vote("Ana", a_trial(test), "now", choice=1)
    for name in ("Ana", "Max"):
        with pytest.raises(UsageError, match="is already used in another browser"):
            file.join(name, "now", "key of Eve")
    with pytest.raises(UsageError, match="is already used in another browser"):
        file.undo("Ana", "now", "key of Eve")
    assert len(file.read().votes) == 1
    file.join("Ana", "now", OWNER)
    assert not file.undo("Ana", "now", "key of Ana").votes


def test_a_full_file_stays_readable(tmp_path: Path) -> None:
    test = a_test()
    path = VoteFile.create(tmp_path, test).path
    file = VoteFile(path, most_bytes=path.stat().st_size + 100)
    file.join("Ana", "now")
    with pytest.raises(UsageError, match="this test is full"):
        file.vote("Ana", a_trial(test), "now", choice=1)
    assert file.read().listeners == ("Ana",)
