"""Merging nested settings."""

from __future__ import annotations

from live_eval.text.mappings import merged


def test_settings_are_merged_without_changing_the_originals() -> None:
    base = {"turn_detection": {"type": "server_vad", "threshold": 0.5}, "tools": [1]}
    found = merged(base, {"turn_detection": {"threshold": 0.7}, "tools": [2], "voice": "v"})
    assert found == {"turn_detection": {"type": "server_vad", "threshold": 0.7}, "tools": [2], "voice": "v"}
    assert base["turn_detection"] == {"type": "server_vad", "threshold": 0.5}


def test_a_value_and_an_object_replace_each_other() -> None:
    assert merged({"a": {"b": 1}}, {"a": None}) == {"a": None}
    assert merged({"a": 1}, {"a": {"b": 2}}) == {"a": {"b": 2}}
