"""Two recorded runs, a clock and a desk of trials."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from live_eval.studio.listening.trial_desk import TrialDesk
from live_eval.testing.fake_clock import FakeClock
from tests.support.listening import write_listened_run
from tests.unit.studio.listening.listeners import every_run


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("recordings")
    return write_listened_run(folder / "one", hz=220), write_listened_run(folder / "two", hz=330)


@pytest.fixture
def runs(recorded: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    one, two = (Path(shutil.copytree(run, tmp_path / run.name)) for run in recorded)
    return one, two


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def desk(clock: FakeClock) -> TrialDesk:
    return TrialDesk(clock, every_run)
