"""Represent model requests: the hash that identifies a response, the size, and a record without payloads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pybase64

from live_eval.judging import ChatRequest, JudgeSpec
from live_eval.scoring.llm.budget import Tokens

__all__ = ["AnswerCache", "ChatQuestion", "estimated_tokens", "question_key", "without_payloads"]


class AnswerCache(Protocol):
    """A store of model responses, called from other threads, one call at a time."""

    def answer(self, question: str) -> Mapping[str, Any] | None:
        """Return the stored response to a request, or None."""
        ...

    def keep_answer(self, question: str, answer: Mapping[str, Any]) -> None:
        """Store a response (JSON values only), replacing any earlier response."""
        ...


@dataclass(frozen=True, slots=True)
class ChatQuestion:
    """A request to a model."""

    request: ChatRequest
    model: str
    shown: Any  # messages as stored, without payloads

    @classmethod
    def of(cls, request: ChatRequest, model: str) -> ChatQuestion:
        """Create a question from a request, with payloads replaced by hashes."""
        return cls(request, model, without_payloads(request.messages))


def question_key(question: ChatQuestion, judge: JudgeSpec | None, base_url: str, sample: int) -> str:
    """Return the hash that identifies a response.

    The hash covers the judge and its version, the URL, the model, all messages (payloads by hash), the
    temperature, whether JSON was requested, and the sample number.
    """
    request = question.request
    asked = {
        "judge": judge.name if judge is not None else None,
        "version": judge.version if judge is not None else None,
        "base_url": base_url.rstrip("/"),
        "model": question.model,
        "messages": question.shown,
        "temperature": request.temperature,
        "json_object": request.json_object,
        "sample": sample,
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


# English has about four bytes per token; other scripts have up to three UTF-8 bytes per character.
_BYTES_OF_TEXT = 3
# Gemini uses 32 tokens per second of audio, OpenAI 10; the WAV files have 32 000 bytes per second.
_BYTES_OF_SOUND = 1_000
_TOKENS_OF_MESSAGE = 8


def estimated_tokens(messages: Any) -> Tokens:
    """Estimate the number of tokens in messages, with a tendency to overestimate.

    >>> estimated_tokens([{"role": "user", "content": "How kind is this reply?"}])
    Tokens(input=17, output=0, audio_input=0, cached_input=0)
    """
    text_bytes = audio = 0
    parts = [messages]
    while parts:
        part = parts.pop()
        if isinstance(part, Mapping):
            if isinstance(sound := part.get("data"), str):
                audio += len(sound) * 3 // 4 // _BYTES_OF_SOUND + 1
                continue
            parts += part.values()
        elif isinstance(part, (list, tuple)):
            parts += part
        elif isinstance(part, str):
            text_bytes += len(part.encode(errors="replace"))
    text = -(-text_bytes // _BYTES_OF_TEXT) + _TOKENS_OF_MESSAGE * len(messages)
    return Tokens(input=text + audio, audio_input=audio)


def without_payloads(value: Any) -> Any:
    """Replace audio and image payloads in messages with their hashes and sizes.

    >>> without_payloads({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}})
    {'type': 'input_audio', 'input_audio': {'data': 'sha256:709e80c88487a2411e1ee4dfb9f22a861492d20c4765150c0c794abd70f8147c, 3 bytes', 'format': 'wav'}}
    """  # noqa: E501 - an example's output cannot be broken
    if isinstance(value, Mapping):
        return {
            key: _digest(inner) if _is_payload(key, inner) else without_payloads(inner)
            for key, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [without_payloads(inner) for inner in value]
    return value


def _is_payload(key: str, value: object) -> bool:
    return isinstance(value, str) and (key == "data" or (key == "url" and value.startswith("data:")))


def _digest(payload: str) -> str:
    encoded = payload.partition(",")[2] if payload.startswith("data:") else payload
    try:
        content = pybase64.b64decode(encoded, validate=True)
    except ValueError:
        content = payload.encode()
    return f"sha256:{hashlib.sha256(content).hexdigest()}, {len(content)} bytes"
