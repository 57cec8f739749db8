"""Answers without secrets."""

import os
from pathlib import Path

import orjson

from live_eval.redaction import SECRETS
from live_eval.studio.answers import json_text


def test_answers_contain_no_secrets() -> None:
    SECRETS.learn("sk-very-secret-key-1234567890")
    text = json_text({"body": ["a key: sk-very-secret-key-1234567890"]})
    assert "very-secret" not in text
    assert orjson.loads(text)["body"][0].startswith("a key: ")


def test_non_finite_numbers_become_null() -> None:
    assert json_text([float("nan"), float("inf"), 1.5]) == "[null,null,1.5]"


def test_a_file_name_that_is_not_unicode_is_shown() -> None:
    name = os.fsdecode(b"bad\xff")
    assert orjson.loads(json_text({"runs": [{"name": name, "path": Path(name)}]})) == {
        "runs": [{"name": "bad?", "path": "bad?"}]
    }
