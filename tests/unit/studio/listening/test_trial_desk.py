"""Trials given to listeners."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from live_eval.errors import StoreError, UsageError
from live_eval.recording import RunReader
from live_eval.studio.library import Library
from live_eval.studio.listening.listening_results import results_json
from live_eval.studio.listening.listening_test import (
    ListeningKind,
    rating_scales,
)
from live_eval.studio.listening.trial_desk import Opinion, TrialDesk
from live_eval.testing.fake_clock import FakeClock
from tests.support.listening import played_in_full
from tests.unit.studio.listening.listeners import every_run, new_file

AB, ABX, RATING = ListeningKind.PREFERENCE, ListeningKind.IDENTITY, ListeningKind.RATING


SCALES = tuple(rating_scales())


def test_a_foreign_test_cannot_play_runs_outside_the_studio(
    runs: tuple[Path, Path], clock: FakeClock, tmp_path: Path
) -> None:
    file = new_file(runs)
    (tmp_path / "apart").mkdir()
    library = Library([tmp_path / "apart"])
    with pytest.raises(StoreError, match="is not in one of the studio's folders"):
        TrialDesk(clock, library.contains).next(file, "Ana")
    assert TrialDesk(clock, Library([tmp_path]).contains).next(file, "Ana")[1] is not None


def test_one_listener_cannot_close_the_trials_of_others(runs: tuple[Path, Path], clock: FakeClock) -> None:
    desk, file = TrialDesk(clock, every_run, most_open=4), new_file(runs)
    _, ana = desk.next(file, "Ana", "key of Ana")
    eves = [desk.next(file, f"Eve {n}", "key of Eve")[1] for n in range(6)]
    _, bo = desk.next(file, "Bo", "key of Bo")
    assert ana is not None
    assert bo is not None
    assert desk.given(ana.name) is ana
    assert desk.given(bo.name) is bo
    assert [eve for eve in eves if eve is not None and desk.given(eve.name)] == eves[-2:]


def test_names_and_clips_do_not_reveal_the_run(runs: tuple[Path, Path], desk: TrialDesk) -> None:
    file = new_file(runs)
    _, given = desk.next(file, "Ana")
    assert given is not None
    assert desk.next(file, "Ana")[1] is given  # a reload shows the same trial
    names = [given.name, *given.sounds]
    assert len(set(names)) == len(names)
    assert all(len(name) == 32 for name in names)
    for clip in given.sounds.values():
        assert not any(word in clip.wav for word in (b"one", b"two", b"id_"))


def test_a_vote_before_the_end_is_refused(runs: tuple[Path, Path], desk: TrialDesk, clock: FakeClock) -> None:
    file = new_file(runs)
    _, given = desk.next(file, "Ana")
    assert given is not None
    opinion = Opinion(trial=given.name, choice="A", ratings={}, played=played_in_full(given))
    with pytest.raises(UsageError, match="the vote came after 0"):
        desk.vote(given, opinion)
    clock.advance(10_000_000_000)
    with pytest.raises(UsageError, match="B was not heard"):
        desk.vote(given, replace(opinion, played={"A": [(0.0, 1.0)]}))
    for choice in ("", "C", "one"):
        with pytest.raises(UsageError, match="expected one of A, B, tie"):
            desk.vote(given, replace(opinion, choice=choice))
    assert file.read().votes == ()
    assert len(desk.vote(given, opinion).votes) == 1
    assert desk.given(given.name) is None
    with pytest.raises(UsageError, match="already voted on this trial"):
        desk.vote(given, opinion)


def test_deleted_runs_and_lost_audio_are_reported_and_votes_are_kept(
    runs: tuple[Path, Path], desk: TrialDesk, clock: FakeClock
) -> None:
    file = new_file(runs)
    _, given = desk.next(file, "Ana")
    assert given is not None
    clock.advance(10_000_000_000)
    desk.vote(given, Opinion(trial=given.name, choice="B", ratings={}, played=played_in_full(given)))
    lost = file.read().open_trials("Ana")[0]
    with RunReader.open(runs[0]) as reader:
        sound = reader.turn(lost.case.turn_id).reply_file
    assert sound is not None
    sound.unlink()
    passed_over = TrialDesk(clock, every_run).next(file, "Ana")[1]
    assert passed_over is not None
    assert passed_over.trial.case != lost.case
    shutil.rmtree(runs[1])
    with pytest.raises(StoreError, match="9 trials cannot be played; existing votes are kept"):
        TrialDesk(clock, every_run).next(file, "Ana")
    shown = results_json(file.read(), file.path.parent)
    assert shown["votes"] == 1
    assert "two" in shown["problems"][0]
