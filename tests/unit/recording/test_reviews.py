"""Labels and notes of reviewers, in a file next to the run's databases."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from live_eval.errors import SchemaVersionError, StoreError, StoreLockedError, UsageError
from live_eval.recording import Review, ReviewChange, keep_review, read_reviews
from live_eval.recording._lock import WriterLock
from live_eval.recording.reviews import (
    REVIEWS_FILE,
    REVIEWS_LOCK_FILE,
    keep_note,
    noted,
    read_note,
    review_change,
)


def test_reviews_are_stored_replaced_and_removed(tmp_path: Path) -> None:
    assert read_reviews(tmp_path) == {}
    assert list(tmp_path.iterdir()) == []
    keep_review(tmp_path, "id_1/target", ReviewChange(["cold"], note="Sounds bored."))
    keep_review(tmp_path, "id_2", ReviewChange(["warm", "odd"]))
    keep_review(tmp_path, "id_1/target", ReviewChange(["warm"], ["cold"], note=""))
    assert read_reviews(tmp_path) == {"id_1/target": Review(["warm"]), "id_2": Review(["warm", "odd"])}
    keep_review(tmp_path, "id_2", ReviewChange(remove=["odd", "warm"]))
    assert list(read_reviews(tmp_path)) == ["id_1/target"]
    assert [path.name for path in tmp_path.iterdir()] == [REVIEWS_FILE]
    assert (tmp_path / REVIEWS_FILE).stat().st_mode & 0o077 == 0


def test_a_note_on_the_run_is_kept_with_the_reviews(tmp_path: Path) -> None:
    assert read_note(tmp_path) == ""
    keep_note(tmp_path, "Microphone was off.")
    keep_review(tmp_path, "id_1", ReviewChange(["cold"]))
    assert (read_note(tmp_path), read_reviews(tmp_path)) == (
        "Microphone was off.",
        {"id_1": Review(["cold"])},
    )
    assert noted(b'{"note": " Two\\nlines. "}') == "Two\nlines."
    for body in (b"", b"{}", b'{"note": 1}', json.dumps({"note": "a" * 4001}).encode()):
        with pytest.raises(UsageError, match="note: "):
            noted(body)


def test_reviews_of_several_threads_are_all_stored(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: keep_review(tmp_path, f"id_{n}", ReviewChange(["a"])), range(40)))
    assert len(read_reviews(tmp_path)) == 40


def test_a_request_changes_a_review() -> None:
    given = {"add": ["  out of   breath", "out of breath", "<b>"], "note": " Two\nlines. "}
    change = review_change(json.dumps(given).encode())
    assert change.of(Review(["cold"], "One line.")) == Review(["cold", "out of breath", "<b>"], "Two\nlines.")


def test_two_pages_change_different_parts_of_a_review(tmp_path: Path) -> None:
    keep_review(tmp_path, "id_1", ReviewChange(["from A"]))
    keep_review(tmp_path, "id_1", ReviewChange(note="from B"))
    assert read_reviews(tmp_path) == {"id_1": Review(["from A"], "from B")}
    with pytest.raises(UsageError, match="at most 20 labels, got 21"):
        keep_review(tmp_path, "id_1", ReviewChange([str(n) for n in range(20)]))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "review: "),
        (b"[]", "review: "),
        (b'{"add": "a"}', "review: add"),
        (b'{"add": [""]}', "expected a label of 1 to 40 characters"),
        (b'{"add": ["a\\u0000b"]}', "expected a label of 1 to 40 characters"),
        (json.dumps({"add": ["a" * 41]}).encode(), "expected a label of 1 to 40 characters"),
        (json.dumps({"add": [str(n) for n in range(21)]}).encode(), "review: add"),
        (json.dumps({"note": "a" * 4001}).encode(), "review: note"),
        (b'{"by": "me"}', "review: by"),
    ],
)
def test_another_request_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        review_change(body)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("no JSON", StoreError, "invalid reviews"),
        ('{"reviews": 1, "turns": {"a": {"labels": [3]}}}', StoreError, "turns.a.labels.0"),
        ('{"reviews": 2, "turns": {}}', SchemaVersionError, "version 1, got version 2"),
    ],
)
def test_another_file_is_reported_and_kept(
    tmp_path: Path, content: str, error: type[Exception], message: str
) -> None:
    (tmp_path / REVIEWS_FILE).write_text(content)
    with pytest.raises(error, match=message):
        read_reviews(tmp_path)
    with pytest.raises(error, match=message):
        keep_review(tmp_path, "a", ReviewChange(["b"]))
    assert (tmp_path / REVIEWS_FILE).read_text() == content


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
@pytest.mark.timeout(10)
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_link_or_a_pipe_is_not_opened(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (tmp_path / "diary").write_text("dear diary")
    if kind == "pipe":
        os.mkfifo(folder / REVIEWS_FILE)
    else:
        (folder / REVIEWS_FILE).symlink_to(tmp_path / "diary")
    with pytest.raises(StoreError, match=f"found a {kind}"):
        keep_review(folder, "a", ReviewChange(["b"]))
    assert (tmp_path / "diary").read_text() == "dear diary"


def test_another_writer_is_respected(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path / REVIEWS_LOCK_FILE)
    with pytest.raises(StoreLockedError, match="is being written by process"):
        keep_review(tmp_path, "a", ReviewChange(["b"]))
    lock.release()
    keep_review(tmp_path, "a", ReviewChange(["b"]))
