"""Define the user's options for judge models, and derive the settings for each judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from live_eval.errors import UsageError
from live_eval.http.hosts import is_url
from live_eval.judging import JudgeSpec, Need
from live_eval.redaction import SECRETS, find_key, host_of, public_url
from live_eval.scoring.llm.budget import Budget, Price
from live_eval.text.suggestions import did_you_mean
from live_eval.types import Secret

__all__ = ["AUDIO_NEEDS", "OPENAI_BASE_URL", "PRESETS", "LlmOptions", "LlmSettings", "Preset"]

OPENAI_BASE_URL = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A named service, with the environment variable for its API key and its default models."""

    base_url: str
    key_variable: str
    model: str
    audio_model: str


PRESETS: Mapping[str, Preset] = {
    "openai": Preset(
        base_url=OPENAI_BASE_URL, key_variable="OPENAI_API_KEY", model="gpt-4o", audio_model="gpt-audio"
    ),
    # https://ai.google.dev/gemini-api/docs/openai; audio is accepted as `input_audio`, as with OpenAI.
    "gemini": Preset(
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        key_variable="GEMINI_API_KEY",
        model="gemini-2.5-pro",
        audio_model="gemini-2.5-pro",
    ),
}
"""The services that ``--llm`` accepts."""

AUDIO_NEEDS = frozenset({Need.REPLY_AUDIO, Need.REFERENCE_AUDIO, Need.SPEAKER_AUDIO})
"""The kinds of audio that a judge may need, which are decoded only if necessary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSettings:
    """The settings for a judge's model; see `LlmOptions`."""

    base_url: str = OPENAI_BASE_URL
    key: Secret | None = None
    model: str | None = None
    judge: JudgeSpec | None = None  # its name and version are part of the cache key; its outputs are checked
    price: Price | None = None  # price of the model, if known
    samples: int = 1
    temperature: float | None = None
    concurrency: int = 8
    timeout_s: float = 60.0
    attempts: int = 5
    longest_wait_s: float = 120.0  # maximum delay requested by the endpoint; beyond it, give up
    seed: int = 0  # seed of the jitter in delays between attempts


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmOptions:
    """The user's options for judge models; None stands for the judge's default.

    Limits apply to all judges together. A cost limit requires each model's price.

    Raises:
        UsageError: The preset is unknown or conflicts with a base URL, or a number is out of range.
    """

    preset: str | None = None  # a service in PRESETS, which sets the key and model
    base_url: str | None = None  # OpenAI-compatible; no key is sent unless key_variable is set
    model: str | None = None
    key_variable: str | None = None  # source of the API key, as for `find_key`: an environment variable, …
    samples: int = 1  # responses per request; the score is their mean
    temperature: float | None = None
    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None  # US$
    prices: Mapping[str, Price] = field(default_factory=dict)  # prices by model
    concurrency: int = 8  # simultaneous turns
    timeout_s: float = 60.0  # timeout of a call
    attempts: int = 5  # maximum number of calls per request

    def __post_init__(self) -> None:
        if self.base_url is not None:
            SECRETS.learn_url(self.base_url)
            if not is_url(self.base_url, ("http", "https")):
                raise UsageError(
                    f"--llm-base-url {public_url(self.base_url)!r}: expected a URL such as http://HOST:PORT/v1"
                )
        if self.preset is not None:
            if self.preset not in PRESETS:
                raise UsageError(
                    f"unknown LLM service {self.preset!r}{did_you_mean(self.preset, PRESETS)}; "
                    f"expected one of {', '.join(PRESETS)}"
                )
            if self.base_url is not None:
                raise UsageError(
                    f"judges.llm {self.preset} and judges.llm_base_url: expected only one of them"
                )
        if self.samples < 1:
            raise UsageError(f"samples = {self.samples}: expected at least 1")
        for name in ("max_calls", "max_tokens", "max_cost"):
            bound = getattr(self, name)
            if bound is not None and not bound >= 0:
                raise UsageError(f"{name} = {bound}: expected 0 or more")

    def key_variable_of(self, spec: JudgeSpec) -> str | None:
        """Return the source of the API key for `spec`, as for `find_key`, or None."""
        if self.key_variable is not None or self.base_url is not None:
            return self.key_variable
        return PRESETS[self.preset].key_variable if self.preset is not None else spec.key_variable

    def model_of(self, spec: JudgeSpec) -> str | None:
        """Return the model for `spec`, or None if only the judge's requests specify it."""
        if self.model is not None:
            return self.model
        if self.preset is not None:
            preset = PRESETS[self.preset]
            return preset.audio_model if AUDIO_NEEDS & spec.needs else preset.model
        return spec.model

    def version_parts(self, spec: JudgeSpec) -> list[str]:
        """Return the suffixes that these options add to `spec`'s version.

        >>> from live_eval.judges.specs import RUBRIC
        >>> LlmOptions(model="mine", samples=3).version_parts(RUBRIC)
        ['mine', 'samples=3']
        """
        model = self.model_of(spec)
        parts = [model] if model is not None and model != spec.model else []
        # private servers may use the same name for different models
        usual_url = (spec.base_url or OPENAI_BASE_URL).rstrip("/")
        url, where = (self.base_url or "").rstrip("/"), host_of(self.base_url or "")
        if self.preset is not None:
            url, where = PRESETS[self.preset].base_url, self.preset
        if url and url != usual_url:
            parts = [f"{''.join(parts)}@{where}"]
        if self.samples > 1:
            parts.append(f"samples={self.samples}")
        if self.temperature is not None:
            parts.append(f"temperature={self.temperature:g}")
        return parts

    def budget(self) -> Budget:
        """Return a new budget, which all judges of a scoring run share."""
        return Budget(max_calls=self.max_calls, max_tokens=self.max_tokens, max_cost=self.max_cost)

    def settings_for(self, spec: JudgeSpec) -> LlmSettings:
        """Return the settings for the model of `spec`.

        Raises:
            UsageError: The cost is limited, but the model's price is unknown.
        """
        model = self.model_of(spec)
        price = self.prices.get(model) if model is not None else None
        if self.max_cost is not None and price is None:
            raise UsageError(
                f"a cost limit requires a price for the model {model!r}, which judge {spec.name!r} uses: "
                f"--prices {model}=IN,OUT"
            )
        preset = PRESETS[self.preset].base_url if self.preset is not None else None
        variable = self.key_variable_of(spec)
        return LlmSettings(
            base_url=self.base_url or preset or spec.base_url or OPENAI_BASE_URL,
            key=find_key(variable) if variable else None,
            model=model,
            judge=spec,
            price=price,
            samples=self.samples,
            temperature=self.temperature,
            concurrency=self.concurrency,
            timeout_s=self.timeout_s,
            attempts=self.attempts,
        )
