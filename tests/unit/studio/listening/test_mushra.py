"""MUSHRA tests: hidden reference, anchor, screening of listeners."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from live_eval.errors import StoreError, UsageError
from live_eval.studio.listening.clips import LOW_ANCHOR_HZ, MID_ANCHOR_HZ, anchor_clip, case_context
from live_eval.studio.listening.listening_results import results_json, votes_csv
from live_eval.studio.listening.listening_test import ANCHOR, HIDDEN_REFERENCE, MID_ANCHOR, ReferenceKind
from live_eval.studio.listening.setup import plan_test
from live_eval.studio.listening.trial_desk import GivenTrial, Opinion, TrialDesk
from live_eval.studio.listening.votes import FOLDER, VoteFile
from live_eval.testing.fake_clock import FakeClock
from tests.support.listening import played_in_full, write_listened_run
from tests.unit.studio.listening.listeners import MUSHRA, every_run

CASES = 4
SYSTEMS = {"one", "two", "three", HIDDEN_REFERENCE, ANCHOR, MID_ANCHOR}
RATE_HZ = 16_000


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a reference reply with two tones below and two above 3.5 kHz."""
    at_s = np.arange(RATE_HZ) / RATE_HZ
    sound = 0.1 * sum(np.sin(2 * np.pi * hz * at_s) for hz in (500, 3_450, 3_800, 6_900))
    folder = tmp_path / "data"
    folder.mkdir()
    soundfile.write(folder / "reference.wav", sound, RATE_HZ)
    return folder


@pytest.fixture
def runs(tmp_path: Path, data: Path) -> list[Path]:
    return [
        write_listened_run(tmp_path / name, hz=300, cases=CASES, reference=data / "reference.wav")
        for name in ("one", "two", "three")
    ]


@pytest.fixture
def file(runs: list[Path], data: Path) -> VoteFile:
    folder = runs[0].parent / FOLDER
    test = plan_test(MUSHRA, runs, folder, reference=ReferenceKind.REPLY, recordings=[data])
    return VoteFile.create(folder, test)


@pytest.fixture
def desk(clock: FakeClock, data: Path) -> TrialDesk:
    return TrialDesk(clock, every_run, recordings=[data])


def level_db(wav: bytes, hz: float) -> float:
    """Return the level of a clip at a frequency, relative to its level at 500 Hz."""
    samples, rate_hz = soundfile.read(io.BytesIO(wav))
    levels = np.abs(np.fft.rfft(samples))
    found = [levels[round(each * len(samples) / rate_hz)] for each in (hz, 500)]
    return float(20 * np.log10(found[0] / found[1] + 1e-12))


def rate_all(
    desk: TrialDesk, clock: FakeClock, file: VoteFile, listener: str, reference: int = 100, mid: int = 50
) -> list[GivenTrial]:
    trials = []
    while (given := desk.next(file, listener)[1]) is not None:
        clock.advance(60_000_000_000)
        wanted = {HIDDEN_REFERENCE: reference, ANCHOR: 20, MID_ANCHOR: mid, "one": 80, "two": 60, "three": 40}
        ratings = {label: wanted[system] for label, system in zip("ABCDEF", given.trial.runs, strict=True)}
        desk.vote(given, Opinion(trial=given.name, ratings=ratings, played=played_in_full(given)))
        trials.append(given)
    return trials


def test_a_trial_contains_every_system_in_random_order(
    desk: TrialDesk, clock: FakeClock, file: VoteFile
) -> None:
    trials = rate_all(desk, clock, file, "Ann")
    assert len(trials) == CASES
    assert all(set(given.trial.runs) == SYSTEMS for given in trials)
    assert len({given.trial.runs for given in trials}) > 1
    [given, *_] = trials
    assert list(given.replies) == list("ABCDEF")
    assert given.case.reference is not None
    by_system = dict(zip(given.trial.runs, given.replies.values(), strict=True))
    assert given.sounds[by_system[HIDDEN_REFERENCE]].wav == given.case.reference.wav


def test_the_anchors_are_the_reference_up_to_3500_and_7000_hz(runs: list[Path], data: Path) -> None:
    reference = case_context(runs[0], "id_0/target", ReferenceKind.REPLY, [data]).reference
    assert reference is not None
    low, mid = (
        anchor_clip(runs[0], "id_0/target", [data], band_hz) for band_hz in (LOW_ANCHOR_HZ, MID_ANCHOR_HZ)
    )
    for clip, highest in ((reference, 6_900), (low, 3_450), (mid, 6_900)):
        assert level_db(clip.wav, highest) == pytest.approx(0, abs=0.1)
    assert level_db(low.wav, 3_800) < -50
    with pytest.raises(StoreError, match="outside the run"):
        anchor_clip(runs[0], "id_0/target", [], LOW_ANCHOR_HZ)


def test_a_test_from_an_earlier_version_has_only_the_low_anchor(file: VoteFile) -> None:
    assert replace(file.read().test, listening=1).systems == ("one", "two", "three", HIDDEN_REFERENCE, ANCHOR)


def test_listeners_who_miss_the_hidden_reference_are_excluded(
    desk: TrialDesk, clock: FakeClock, file: VoteFile
) -> None:
    rate_all(desk, clock, file, "Ann")
    rate_all(desk, clock, file, "Bob", reference=10)
    found = results_json(file.read(), file.path.parent)
    assert [(each["listener"], each["excluded"]) for each in found["screening"]] == [
        ("Ann", False),
        ("Bob", True),
    ]
    means = {each["system"]: each["mean"]["value"] for each in found["means"]}
    assert means == {"one": 80, "two": 60, "three": 40, HIDDEN_REFERENCE: 100, ANCHOR: 20, MID_ANCHOR: 50}
    rows = list(csv.DictReader(io.StringIO(votes_csv(file.read()))))
    assert len(rows) == 2 * CASES * len(SYSTEMS)
    assert {row["rating"] for row in rows if row["system"] == ANCHOR} == {"20"}


def test_listeners_who_take_the_mid_range_anchor_for_the_reference_are_excluded(
    desk: TrialDesk, clock: FakeClock, file: VoteFile
) -> None:
    for listener, mid in (("Ann", 50), ("Bob", 95), ("Cyd", 90)):
        rate_all(desk, clock, file, listener, mid=mid)
    screening = results_json(file.read(), file.path.parent)["screening"]
    assert [(each["taken_anchor"], each["excluded"]) for each in screening] == [(None, False)] * 3, (
        "a third of them: not audibly degraded"
    )
    rate_all(desk, clock, file, "Dan")
    screening = results_json(file.read(), file.path.parent)["screening"]
    assert [each["excluded"] for each in screening] == [False, True, False, False], "not more than a quarter"
    rate_all(desk, clock, file, "Eve")
    screening = results_json(file.read(), file.path.parent)["screening"]
    assert [(each["taken_anchor"], each["excluded"]) for each in screening] == [
        (0, False),
        (1, True),
        (0, False),
        (0, False),
        (0, False),
    ]


@pytest.mark.parametrize(
    "ratings",
    [{}, {"A": 50}, dict.fromkeys("ABCDEF", 101), dict.fromkeys("ABCDEF", -1), dict.fromkeys("ABCDEG", 50)],
)
def test_incomplete_ratings_are_refused(
    desk: TrialDesk, clock: FakeClock, file: VoteFile, ratings: dict[str, int]
) -> None:
    given = desk.next(file, "Ann")[1]
    assert given is not None
    clock.advance(60_000_000_000)
    with pytest.raises(UsageError, match="from 0 to 100 for each of A, B, C, D, E, F"):
        desk.vote(given, Opinion(trial=given.name, ratings=ratings, played=played_in_full(given)))


def test_a_test_needs_reference_replies(runs: list[Path], data: Path, tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    with pytest.raises(UsageError, match="reference: a MUSHRA test requires 'reply'"):
        plan_test(MUSHRA, runs, folder)
    bare = write_listened_run(tmp_path / "bare", hz=300, cases=2)
    with pytest.raises(UsageError, match="no case has a reference reply"):
        plan_test(MUSHRA, [bare], folder, reference=ReferenceKind.REPLY)
    alone = plan_test(MUSHRA, runs[:1], folder, reference=ReferenceKind.REPLY, recordings=[data])
    assert (alone.trials, alone.systems) == (CASES, ("one", HIDDEN_REFERENCE, ANCHOR, MID_ANCHOR))
