"""An oversized message needs no more memory than its size, and no secret is stored."""

import json
import tracemalloc

import pytest

from live_eval.redaction import Concealer
from live_eval.text.message_limits import MOST_VALUES, has_too_many_values
from live_eval.types import Secret

KEY = "sk-proj-4711aabbccdd"


@pytest.mark.parametrize("piece", ['{"a":1},', "0,", "[],", '{"a":'])
def test_values_are_counted_by_their_separators(piece: str) -> None:
    message = piece * (MOST_VALUES + 1)
    assert has_too_many_values(message)
    assert has_too_many_values(message.encode())
    assert not has_too_many_values(message[: MOST_VALUES // 2])


@pytest.mark.slow
def test_an_oversized_message_is_kept_without_secrets_and_values() -> None:
    escaped = KEY.replace("p", "\\u0070")
    fields = f'"plain":"{KEY}","escaped":"{escaped}","api\\u005fkey":"hush-hush-hush","half":"sk-ab***cd",'
    text = f'{{"type":"x",{fields}"of":[' + ",".join(['{"a":1}'] * 200_000) + "]}"
    concealer = Concealer(Secret(KEY))
    tracemalloc.start()
    try:
        kept = concealer.text(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40 * len(text)
    read = json.loads(kept)
    assert [read[name] for name in ("plain", "escaped", "api_key", "half")] == ["***"] * 4
    assert len(read["of"]) == 200_000
