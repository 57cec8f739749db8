"""Call a chat endpoint once: send a request, and read the response or classify the failure."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from live_eval.clock import Clock
from live_eval.http.dates import seconds_until
from live_eval.redaction import SECRETS, public_url
from live_eval.scoring.llm.budget import Tokens
from live_eval.scoring.llm.options import LlmSettings

if TYPE_CHECKING:
    import openai

__all__ = ["HOPELESS", "PASSING", "CallFailure", "CallProblem", "ChatAnswer", "ChatEndpoint"]


class CallProblem(StrEnum):
    """The reason why an LLM judge got no usable response, with which the reason of the `Failed` begins."""

    AUTHENTICATION = "authentication"
    """The key was refused; no further calls are made."""
    NOT_FOUND = "not_found"
    """The model or the URL does not exist or has moved; no further calls are made."""
    QUOTA = "quota"
    """The account's quota is exhausted; no further calls are made."""
    RATE_LIMITED = "rate_limited"
    """The last attempt also exceeded the rate limit, or the requested wait is too long."""
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    SERVER_ERROR = "server_error"
    REJECTED = "rejected"
    """The endpoint does not accept the request."""
    UNREADABLE = "unreadable"
    """The response is not a chat completion."""
    EMPTY = "empty"
    """The answer has no text."""
    REFUSAL = "refusal"
    """The model refused to answer."""
    FILTERED = "filtered"
    """A content filter removed the answer."""
    TRUNCATED = "truncated"
    """The answer was cut off at the length limit."""
    MALFORMED = "malformed"
    """Neither the answer nor the repaired answer contains a judgement."""
    JUDGE = "judge"
    """The judge raised an exception while building the request or parsing the response."""


HOPELESS = frozenset({CallProblem.AUTHENTICATION, CallProblem.NOT_FOUND, CallProblem.QUOTA})
"""Problems that would recur with every call."""

PASSING = frozenset(
    {
        CallProblem.RATE_LIMITED,
        CallProblem.TIMEOUT,
        CallProblem.CONNECTION,
        CallProblem.SERVER_ERROR,
        CallProblem.UNREADABLE,
    }
)
"""Problems that a retry may solve."""

_MESSAGE_LENGTH = 300
_MODEL_NAME_LENGTH = 200
_MOST_TOKENS = 1_000_000_000

# Optional parameters that some models and servers reject, with words from the error messages (for OpenAI's
# reasoning models, "Unsupported value: 'temperature' does not support 0 with this model").
_OPTIONAL = {
    "temperature": ("temperature",),
    "response_format": ("response_format", "response format", "json_object", "json mode"),
}


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """The response of a model."""

    text: str
    model: str | None  # as reported by the endpoint
    tokens: Tokens | None  # as reported by the endpoint, if at all


@dataclass(frozen=True, slots=True)
class CallFailure:
    """A call without a usable response."""

    kind: CallProblem
    message: str
    retry_after_s: float | None = None  # as requested by the endpoint
    answer: ChatAnswer | None = None  # the unusable response
    billed: bool = False  # whether the endpoint may charge for the call
    refused: frozenset[str] = frozenset()  # parameters that the endpoint does not accept

    @property
    def tokens(self) -> Tokens | None:
        """The tokens of the call, if known."""
        return self.answer.tokens if self.answer is not None else None


def _joined(content: Any) -> Any:
    """Join the text parts of a response, whose content may be a list of parts."""
    if not isinstance(content, list):
        return content
    texts = [part.get("text") if isinstance(part, dict) else part for part in content]
    return "".join(text for text in texts if isinstance(text, str))


class _Message(BaseModel):
    content: Annotated[str | None, BeforeValidator(_joined)] = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _PromptDetails(BaseModel):
    audio_tokens: int | None = Field(None, le=_MOST_TOKENS)
    cached_tokens: int | None = Field(None, le=_MOST_TOKENS)


class _Usage(BaseModel):
    prompt_tokens: int = Field(0, ge=0, le=_MOST_TOKENS)
    completion_tokens: int = Field(0, ge=0, le=_MOST_TOKENS)
    prompt_tokens_details: _PromptDetails | None = None


class _Completion(BaseModel):
    """The fields of a chat completion that are used, because the SDK's own type does not validate them."""

    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None
    model: str | None = None


class ChatEndpoint:
    """An OpenAI-compatible endpoint.

    A call sends its request only to `LlmSettings.base_url`, takes at most `LlmSettings.timeout_s`, and limits
    the size of the response.
    """

    def __init__(self, settings: LlmSettings, clock: Clock) -> None:
        from openai import AsyncOpenAI

        from live_eval.scoring.llm._bounded_http import BoundedClient

        self._settings = settings
        self._clock = clock
        self._client = AsyncOpenAI(
            api_key=settings.key.reveal() if settings.key else "none",
            base_url=settings.base_url,
            timeout=settings.timeout_s,
            max_retries=0,  # the caller retries and counts attempts
            http_client=BoundedClient(),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def call(
        self, model: str, messages: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any]
    ) -> ChatAnswer | CallFailure:
        """Send a request once; messages and parameters are in the format of the API.

        Every error becomes a `CallFailure`.
        """
        import openai

        try:
            async with asyncio.timeout(self._settings.timeout_s):
                response = await self._client.chat.completions.with_raw_response.create(
                    model=model,
                    messages=list(messages),  # type: ignore[arg-type]  # in the API's format
                    **parameters,
                )
            completion = _Completion.model_validate_json(response.content)
        except openai.APIStatusError as error:
            return _refused(error, parameters, self._clock.wall_ns(), self._clean(error.response.text))
        except (openai.APITimeoutError, TimeoutError):
            message = f"no answer within {self._settings.timeout_s:g} s"
            return CallFailure(CallProblem.TIMEOUT, message, billed=True)
        except openai.APIConnectionError as error:
            message = f"{public_url(self._settings.base_url)}: {error.__cause__ or error}"
            return CallFailure(CallProblem.CONNECTION, self._clean(message)[:_MESSAGE_LENGTH])
        except ValidationError as error:
            # Omit the response, because a truncated key in it could not be redacted.
            first = error.errors(include_input=False, include_url=False, include_context=False)[0]
            where = ".".join(map(str, first["loc"]))
            message = f"expected a chat completion: {where + ': ' if where else ''}{first['msg']}"
            return CallFailure(CallProblem.UNREADABLE, self._clean(message)[:_MESSAGE_LENGTH], billed=True)
        except (openai.OpenAIError, ValueError) as error:
            message = self._clean(f"expected a chat completion: {error}")[:_MESSAGE_LENGTH]
            return CallFailure(CallProblem.UNREADABLE, message, billed=True)
        return _read(self._without_key(completion))

    def _clean(self, text: str) -> str:
        """Redact secrets; call this before truncating the text."""
        key = self._settings.key
        return SECRETS.text(key.redact(text) if key is not None else text)

    def _without_key(self, completion: _Completion) -> _Completion:
        message = completion.choices[0].message
        message.content = self._clean(message.content) if message.content is not None else None
        message.refusal = self._clean(message.refusal) if message.refusal is not None else None
        if completion.model is not None:
            completion.model = self._clean(completion.model)[:_MODEL_NAME_LENGTH]
        return completion


def _read(completion: _Completion) -> ChatAnswer | CallFailure:
    usage = completion.usage
    tokens = None
    if usage is not None:
        details = usage.prompt_tokens_details or _PromptDetails()
        tokens = Tokens(
            input=usage.prompt_tokens,
            output=usage.completion_tokens,
            audio_input=max(0, details.audio_tokens or 0),
            cached_input=max(0, details.cached_tokens or 0),
        )
    choice = completion.choices[0]
    text, refusal = choice.message.content, choice.message.refusal
    answer = ChatAnswer(text if text is not None else refusal or "", completion.model, tokens)
    problem = None
    if refusal:
        problem = (CallProblem.REFUSAL, refusal[:_MESSAGE_LENGTH])
    elif choice.finish_reason == "content_filter":
        problem = (CallProblem.FILTERED, "the endpoint's content filter removed the answer")
    elif choice.finish_reason == "length":
        problem = (CallProblem.TRUNCATED, "the answer was cut off at its length limit")
    elif not answer.text.strip():
        problem = (CallProblem.EMPTY, "the answer has no text")
    if problem is None:
        return answer
    return CallFailure(*problem, answer=answer, billed=True)


def _refused(
    error: openai.APIStatusError, parameters: Mapping[str, Any], wall_ns: int, body: str
) -> CallFailure:
    """Classify an HTTP error, and redact the key in `body`."""
    status = error.status_code
    stated = _error_in(body)
    message = f"{status} {stated.get('message') or body.strip() or 'no reason given'}"[:_MESSAGE_LENGTH]
    # Gemini responds to an invalid key with 400
    if status in (401, 403) or (status == 400 and "api key not valid" in body.lower()):
        return CallFailure(CallProblem.AUTHENTICATION, message)
    if status == 404:
        return CallFailure(CallProblem.NOT_FOUND, message)
    if 300 <= status < 400:
        return CallFailure(CallProblem.NOT_FOUND, _moved(error))
    if status == 402 or (status == 429 and stated.get("code") == "insufficient_quota"):
        return CallFailure(CallProblem.QUOTA, message)
    if status == 429:
        return CallFailure(CallProblem.RATE_LIMITED, message, _retry_after_s(error, wall_ns))
    if status in (408, 409) or status >= 500:
        return CallFailure(CallProblem.SERVER_ERROR, message, _retry_after_s(error, wall_ns))
    said = body.lower() if status in (400, 422) else ""
    refused = {name for name in parameters if any(word in said for word in _OPTIONAL.get(name, ()))}
    return CallFailure(CallProblem.REJECTED, message, refused=frozenset(refused))


def _moved(error: openai.APIStatusError) -> str:
    """Describe a redirect, without secrets in its URL."""
    place = public_url(error.response.headers.get("location", "")) or "elsewhere"
    message = f"{error.status_code} redirects to {place}; redirects are not followed: correct the base URL"
    return message[:_MESSAGE_LENGTH]


def _error_in(body: str) -> Mapping[str, Any]:
    """Return the error object in a body: ``{"error": {...}}`` or, from Gemini, a list with this object."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    if isinstance(value, list) and value:
        value = value[0]
    error = value.get("error", value) if isinstance(value, dict) else {}
    return error if isinstance(error, dict) else {"message": error}


def _retry_after_s(error: openai.APIStatusError, wall_ns: int) -> float | None:
    """Return the delay that the endpoint requests, in seconds, or None."""
    value = error.response.headers.get("retry-after")
    if value is None:
        delay = re.search(r"\"retryDelay\"\s*:\s*\"(\d+(?:\.\d+)?)s\"", error.response.text)
        return float(delay[1]) if delay else None
    try:
        seconds: float | None = float(value)
    except ValueError:
        seconds = seconds_until(value, wall_ns, error.response.headers.get("date"))
    return None if seconds is None or math.isnan(seconds) else max(0.0, seconds)
