"""The scores of a run, keyed by judge and judge version."""

from __future__ import annotations

import math
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from live_eval.errors import SchemaVersionError, StoreError, StoreLockedError
from live_eval.judging import Failed, Scored, Unscored
from live_eval.recording import SCORES_FILE, JudgeProblem, ScoreReader, ScoreStore


def test_scores_are_read_as_written(tmp_path: Path) -> None:
    with ScoreStore.open(tmp_path) as store:
        store.put("bleu", "1", "a", Scored({"": 12.5}, {"words": 4}))
        store.put("bleu", "1", "b", Unscored("no reference text"))
        store.put("bleu", "1", "c", Failed("it broke", {"answer": "?"}))
        assert store.done("bleu", "1") == {"a", "b", "c"}
        assert store.done("bleu", "2") == set()
    with ScoreReader.open(tmp_path) as scores:
        a, b, c = scores.read()
    assert (a.status, a.values, a.reason, a.detail) == ("scored", {"": 12.5}, "", {"words": 4})
    assert (b.status, b.values, b.reason) == ("unscored", {}, "no reference text")
    assert (c.status, c.values, c.reason, c.detail) == ("failed", {}, "it broke", {"answer": "?"})
    assert [p.name for p in tmp_path.iterdir()] == [SCORES_FILE]


def test_a_new_score_replaces_only_that_of_the_same_version(tmp_path: Path) -> None:
    with ScoreStore.open(tmp_path) as store:
        store.put("bleu", "1", "a", Scored({"": 1.0}))
        store.put("bleu", "2", "a", Scored({"": 2.0}))
        store.put("wer", "1", "a", Scored({"": 3.0}))
        assert store.versions() == {"bleu": "2", "wer": "1"}
        store.put("bleu", "1", "a", Scored({"": 4.0}))
        assert store.versions() == {"bleu": "1", "wer": "1"}, "the one that judged last"
        assert {(row.judge, row.version, row.values[""]) for row in store.read(["bleu"])} == {
            ("bleu", "1", 4.0),
            ("bleu", "2", 2.0),
        }


def test_a_version_that_has_judged_fewer_turns_does_not_replace_a_complete_one(tmp_path: Path) -> None:
    with ScoreStore.open(tmp_path) as store:
        for turn in "abc":
            store.put("bleu", "1", turn, Scored({"": 1.0}))
        store.put("bleu", "2", "a", Scored({"": 2.0}))
        assert store.versions() == {"bleu": "1"}
        reason = "version 2 has judged only 1 of 3 turns; scores are from version 1"
        assert store.judged().unfinished == [JudgeProblem("bleu", "2", reason)]
        for turn in "bc":
            store.put("bleu", "2", turn, Scored({"": 2.0}))
        assert store.versions() == {"bleu": "2"}
        assert store.judged().unfinished == []


def test_outputs_are_found_in_all_scores(tmp_path: Path) -> None:
    with ScoreStore.open(tmp_path) as store:
        store.put_all("rubric", "1", {f"{turn:03}": Scored({"c1": 3.0, "c2": 4.0}) for turn in range(150)})
        store.put("rubric", "1", "999", Scored({"late": 1.0}))
        store.put("bleu", "1", "000", Unscored("no reference text"))
        versions = {"rubric": "1", "bleu": "1"}
        found = [("rubric", "c1"), ("rubric", "c2"), ("rubric", "late")]
        assert store.outputs(versions) == found
        assert store.outputs(versions, {"rubric": ["c1", "c2", "late", "never"], "bleu": [""]}) == found
        assert store.outputs(versions, {"rubric": ["c1"]}) == found, "another version's outputs"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.7e308])
def test_a_score_that_is_not_finite_is_a_failure_of_the_judge(tmp_path: Path, value: float) -> None:
    with ScoreStore.open(tmp_path) as store:
        store.put("dnsmos", "1", "a", Scored({"ovrl": value, "sig": 3.0}))
        [row] = store.read()
    assert row.status == "failed"
    assert row.reason == "the judge returned a non-finite or excessive value for ovrl"
    assert row.values == {}


def test_a_stored_score_that_statistics_could_not_average_is_damage(tmp_path: Path) -> None:
    with ScoreStore.open(tmp_path) as store:
        store.put("dnsmos", "1", "a", Scored({"ovrl": 3.0}))
    with closing(sqlite3.connect(tmp_path / SCORES_FILE)) as db, db:
        db.execute("""UPDATE scores SET "values" = '{"ovrl":1e308}'""")
    with (
        ScoreReader.open(tmp_path) as scores,
        pytest.raises(StoreError, match="finite numbers below"),
    ):
        list(scores.read())


def test_a_judge_that_cannot_run_is_listed_until_it_can(tmp_path: Path) -> None:
    with ScoreStore.open(tmp_path) as store:
        store.cannot_run("ves", "1", "needs the key GEMINI_API_KEY")
        store.cannot_run("nisqa", "1", "needs nisqa.tar")
        store.put("nisqa", "1", "a", Scored({"": 4.0}))
        assert store.problems() == [JudgeProblem("ves", "1", "needs the key GEMINI_API_KEY")]


def test_a_run_without_scores_reads_as_empty_and_stays_unchanged(tmp_path: Path) -> None:
    with ScoreReader.open(tmp_path) as scores:
        assert list(scores.read()) == []
        assert scores.versions() == {}
        assert scores.problems() == []
    assert not list(tmp_path.iterdir())


def test_several_scores_are_written_together_or_not_at_all(tmp_path: Path) -> None:
    with ScoreStore.open(tmp_path) as store:
        with pytest.raises(StoreError, match="cannot store scores of bleu"):
            store.put_all("bleu", "1", {"a": Scored({"": 1.0}), "\ud83d": Scored({"": 2.0})})
        assert store.done("bleu", "1") == set()
        store.put_all("bleu", "1", {"a": Scored({"": 1.0}), "b": Scored({"": 2.0})})
        assert store.done("bleu", "1") == {"a", "b"}


def test_scores_have_one_writer_and_many_readers(tmp_path: Path) -> None:
    with ScoreStore.open(tmp_path) as store:
        with pytest.raises(StoreLockedError):
            ScoreStore.open(tmp_path)
        store.put("bleu", "1", "a", Scored({"": 1.0}))
        with ScoreReader.open(tmp_path) as scores:
            assert [row.turn_id for row in scores.read()] == ["a"]


KILLED_WHILE_WRITING = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA cache_size = 1")
db.execute("BEGIN")
db.execute("UPDATE scores SET turn_id = 'never stored'")
db.execute("CREATE TABLE large AS SELECT randomblob(1000000)")
os._exit(9)
"""


def killed_while_writing(folder: Path) -> bytes:
    """Create a database with half a transaction in a folder; return its journal."""
    with ScoreStore.open(folder) as store:
        store.put("bleu", "1", "a", Scored({"": 1.0}))
    killed = subprocess.run([sys.executable, "-c", KILLED_WHILE_WRITING, folder / SCORES_FILE], check=False)
    assert killed.returncode == 9
    return (folder / f"{SCORES_FILE}-journal").read_bytes()


def test_readers_undo_half_a_transaction_in_a_copy(tmp_path: Path) -> None:
    assert killed_while_writing(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with ScoreReader.open(tmp_path) as scores:
        assert [row.turn_id for row in scores.read()] == ["a"]
        assert [row.turn_id for row in scores.read()] == ["a"], "though the copy's folder is gone"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_writer_undoes_half_a_transaction(tmp_path: Path) -> None:
    assert killed_while_writing(tmp_path)
    ScoreStore.open(tmp_path).close()
    assert [path.name for path in tmp_path.iterdir()] == [SCORES_FILE]
    with ScoreReader.open(tmp_path) as scores:
        assert [row.turn_id for row in scores.read()] == ["a"]


def naming(journal: bytes, victim: Path) -> bytes:
    """Return a journal that names a super-journal, as SQLite writes it (`writeSuperJournal` of its pager)."""
    name = os.fsencode(victim)
    lock_page = (2**30 // 4096 + 1).to_bytes(4)
    return b"".join(
        [
            journal,
            lock_page,
            name,
            len(name).to_bytes(4),
            sum(name).to_bytes(4),
            bytes.fromhex("d9d505f920a163d7"),
        ]
    )


def test_a_journal_that_names_another_file_is_refused(tmp_path: Path) -> None:
    victim = tmp_path / "thesis.txt"
    folder = tmp_path / "run"
    folder.mkdir()
    journal = folder / f"{SCORES_FILE}-journal"
    forged = naming(killed_while_writing(folder), victim)
    victim.write_text("years of work")
    journal.write_bytes(forged)
    shutil.copytree(folder, tmp_path / "opened by sqlite")
    with closing(sqlite3.connect(tmp_path / "opened by sqlite" / SCORES_FILE)) as db:
        db.execute("SELECT * FROM scores").fetchall()
    assert not victim.exists(), "what SQLite does"
    victim.write_text("years of work")
    for opened in (ScoreReader.open, ScoreStore.open):
        with pytest.raises(StoreError, match="refers to another file"):
            opened(folder)
    assert victim.read_text() == "years of work"
    assert journal.read_bytes() == forged


def test_another_schema_version_and_another_file_are_refused(tmp_path: Path) -> None:
    ScoreStore.open(tmp_path).close()
    with sqlite3.connect(tmp_path / SCORES_FILE) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(SchemaVersionError, match="got 99"):
        ScoreReader.open(tmp_path)
    with pytest.raises(SchemaVersionError, match="got 99"):
        ScoreStore.open(tmp_path)
    (tmp_path / SCORES_FILE).write_text("no database at all, but long enough to be read as one " * 20)
    with pytest.raises(StoreError, match="expected a database"):
        ScoreReader.open(tmp_path)
    with pytest.raises(StoreError, match="expected a run folder"):
        ScoreStore.open(tmp_path / "nowhere")
