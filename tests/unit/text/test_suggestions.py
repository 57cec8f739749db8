from __future__ import annotations

import pytest

from live_eval.text.suggestions import did_you_mean


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("lattency", ["live", "latency", "data"], "latency"),
        ("opnai", ["openai-beta", "openai", "xai"], "openai"),
        ("bargein", ["backchannel", "barge_in"], "barge_in"),
        ("BARGE_IN", ["barge-in"], "barge-in"),
        ("cup", ["cpu", "cuda"], "cpu"),
        ("Happy", ["happy", "unhappy"], "happy"),
    ],
)
def test_the_closest_name_is_suggested(name: str, known: list[str], meant: str) -> None:
    assert did_you_mean(name, known) == f" (did you mean {meant}?)"


def test_nothing_is_suggested_without_a_close_name() -> None:
    assert did_you_mean("zebra", ["barge-in"]) == did_you_mean("zebra", []) == ""
    assert did_you_mean("laugter", ["age"]) == did_you_mean("--device", ["--voice", "--out"]) == ""
