import pytest

from live_eval.data.benchmarks import BENCHMARKS
from live_eval.data.benchmarks.published import OVERALL, published_tables
from live_eval.types import ScoringRule

INCONSISTENT = ("URO-Bench, basic, Chinese", "GLM-4-Voice")
"""The row's published mean is 66.90, but the mean of its values is 69.60."""


def test_every_published_column_is_a_part_and_every_mean_is_the_published_one() -> None:
    for name, spec in BENCHMARKS.items():
        for table in published_tables(name):
            assert set(table.columns) <= {*spec.parts, OVERALL}
            for model, values in table.rows.items():
                assert len(values) == len(table.columns), model
                parts = zip(table.columns, values, strict=True)
                known = [
                    value * (20 if spec.parts[part].rule is ScoringRule.RATING and not table.percent else 1)
                    for part, value in parts
                    if part != OVERALL and value is not None
                ]
                if known and (table.title, model) != INCONSISTENT:
                    assert sum(known) / len(known) == pytest.approx(values[-1], abs=0.02), model


def test_audio_multichallenges_published_value_is_overall() -> None:
    [table] = published_tables("audio-multichallenge")
    assert list(table.columns) == [*BENCHMARKS["audio-multichallenge"].parts, OVERALL]
    assert table.rows["Gemini 3 Pro Preview (thinking)"][-1] == 54.65
    assert "o4-mini" in table.judge
