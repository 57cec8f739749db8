"""``--price``."""

from __future__ import annotations

import pytest

from live_eval.cli._prices import price_of
from live_eval.errors import UsageError
from live_eval.scoring.llm.budget import Price


def test_a_price_has_its_parts() -> None:
    assert price_of("input=4, output=16,audio_input=32") == Price(input=4, output=16, audio_input=32)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", "expected input=USD,output=USD, plus"),
        ("input=4", "--price 'input=4': missing output; expected input=USD"),
        ("input=4,output=-1", "output: expected US dollars per million tokens, 0 or more, got -1"),
        ("input=4,output=cheap", "got 'cheap'"),
        ("input=4,output=16,sound=1", "got 'sound'"),
    ],
)
def test_another_price_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match="--price '") as caught:
        price_of(text)
    assert message in str(caught.value)
