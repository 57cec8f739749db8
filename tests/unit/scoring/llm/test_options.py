"""The user's model options, and the resulting settings of each judge."""

from dataclasses import replace
from typing import Any

import pytest

from live_eval.errors import UsageError
from live_eval.judges.specs.models import RUBRIC, VES
from live_eval.scoring.llm import OPENAI_BASE_URL, PRESETS, LlmOptions, Price

GEMINI = "https://generativelanguage.googleapis.com/v1beta/openai"
LOCAL = "http://127.0.0.1:8000/v1"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    monkeypatch.setenv("GEMINI_API_KEY", "gemini-key")
    monkeypatch.setenv("MY_KEY", "mine")


@pytest.mark.parametrize(
    ("options", "spec", "base_url", "model", "key"),
    [
        ({}, RUBRIC, OPENAI_BASE_URL, "gpt-4o", "sk-openai"),
        ({}, VES, GEMINI, "gemini-2.5-pro", "gemini-key"),
        ({"preset": "gemini"}, RUBRIC, GEMINI, "gemini-2.5-pro", "gemini-key"),
        ({"preset": "openai"}, VES, OPENAI_BASE_URL, "gpt-audio", "sk-openai"),
        ({"preset": "gemini", "model": "gemini-x"}, VES, GEMINI, "gemini-x", "gemini-key"),
        ({"preset": "gemini", "key_variable": "MY_KEY"}, VES, GEMINI, "gemini-2.5-pro", "mine"),
        ({"base_url": LOCAL, "model": "qwen"}, RUBRIC, LOCAL, "qwen", None),
        ({"base_url": LOCAL, "key_variable": "MY_KEY"}, RUBRIC, LOCAL, "gpt-4o", "mine"),
    ],
)
def test_the_model_and_endpoint_of_a_judge(
    options: dict[str, Any], spec: Any, base_url: str, model: str, key: str
) -> None:
    settings = LlmOptions(**options).settings_for(spec)
    assert (settings.base_url, settings.model, settings.judge) == (base_url, model, spec)
    assert (settings.key.reveal() if settings.key else None) == key
    assert "sk-" not in repr(settings)


def test_another_base_url_gets_a_key_only_if_named() -> None:
    assert LlmOptions(base_url=LOCAL).key_variable_of(RUBRIC) is None


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"preset": "claude"}, "unknown LLM service 'claude'; expected one of openai, gemini"),
        ({"preset": "openai", "base_url": LOCAL}, "expected only one of them"),
        ({"base_url": "127.0.0.1:8000"}, "--llm-base-url.*expected a URL such as http://HOST:PORT/v1"),
        ({"samples": 0}, "samples = 0: expected at least 1"),
        ({"max_calls": -1}, "max_calls = -1: expected 0 or more"),
        ({"max_cost": float("nan")}, "max_cost = nan: expected 0 or more"),
    ],
)
def test_invalid_values_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        LlmOptions(**options)


def test_a_cost_limit_needs_the_price_of_every_model_asked() -> None:
    prices = {"gpt-4o": Price(input=2.5, output=10.0)}
    options = LlmOptions(max_cost=1.0, prices=prices)
    assert options.settings_for(RUBRIC).price == prices["gpt-4o"]
    with pytest.raises(
        UsageError, match=r"requires a price for the model 'gemini-2\.5-pro', which judge 'ves' uses"
    ):
        options.settings_for(VES)
    with pytest.raises(UsageError, match="requires a price for the model 'other'"):
        replace(options, model="other").settings_for(RUBRIC)
    assert LlmOptions(prices=prices).settings_for(VES).price is None, "without a bound nothing needs one"


def test_version_parts() -> None:
    assert LlmOptions().version_parts(RUBRIC) == []
    assert LlmOptions(preset="openai", base_url=None).version_parts(RUBRIC) == []
    assert LlmOptions(base_url=LOCAL, key_variable="MY_KEY").version_parts(RUBRIC) == ["@127.0.0.1:8000"]
    assert LlmOptions(base_url="https://me:pw@host/v1").version_parts(RUBRIC) == ["@host"]
    assert LlmOptions(base_url="https://api.openai.com/v1/").version_parts(RUBRIC) == []
    assert LlmOptions(preset="gemini").version_parts(RUBRIC) == ["gemini-2.5-pro@gemini"]
    parts = LlmOptions(model="mine", samples=5, temperature=0.7).version_parts(VES)
    assert parts == ["mine", "samples=5", "temperature=0.7"]


def test_every_preset_is_complete() -> None:
    for preset in PRESETS.values():
        assert preset.base_url.startswith("https://")
        assert preset.key_variable.endswith("_API_KEY")
        assert preset.model
        assert preset.audio_model
