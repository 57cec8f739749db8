"""Presets: the user's values take precedence."""

from __future__ import annotations

import pytest

from live_eval.analysis.leaderboard_columns import leaderboard_columns
from live_eval.errors import UsageError
from live_eval.registry import judge
from live_eval.run.presets import PRESETS, read_preset
from live_eval.run.run_file import validate
from live_eval.scoring.judge_runner import check_options, judge_options


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_every_judge_of_the_papers_tables(name: str) -> None:
    config = validate(read_preset(name))
    judged = {score.partition(".")[0] for column in leaderboard_columns() for score in column.scores}
    assert set(config.judges.names) == judged
    check_options([judge(each) for each in config.judges.names], judge_options(config.judges))
    assert config.task.name == "all"


def test_an_unknown_preset_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match=r"did you mean echomind\?"):
        read_preset("ecomind")
