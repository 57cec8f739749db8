"""Runs of several models."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.report.leaderboard.boards import written


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return {
        "basic": written(folder / "basic", prompt="basic", c4=3.0, ves=2.5),
        "enhance": written(folder / "enhance", prompt="enhance", c4=3.5, ves=2.0),
        "unjudged": written(folder / "unjudged", prompt="no", c4=None),
    }
