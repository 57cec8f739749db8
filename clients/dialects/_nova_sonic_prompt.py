"""Create the events that a client sends to Amazon Nova Sonic: settings, conversation and audio.

Source: ``sonic-input-events``, ``sonic-turn-taking`` and ``sonic-chat-history`` in
https://docs.aws.amazon.com/nova/latest/nova2-userguide.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from live_eval.clients.toolkit import (
    given,
    http_url,
    merged,
    refuse_settings,
    said_before,
    send_audio,
    send_json,
)
from live_eval.dialect import Dial, EndpointSettings, Send
from live_eval.errors import UsageError

__all__ = ["OUTPUT_RATE_HZ", "NovaPrompt", "nova_dial"]

OUTPUT_RATE_HZ = 24_000

_PCM = {"mediaType": "audio/lpcm", "sampleSizeBits": 16, "channelCount": 1}
_AUDIO = {"encoding": "base64", "audioType": "SPEECH"}
_INPUT = {**_PCM, "sampleRateHertz": 16_000, **_AUDIO}
_OUTPUT = {**_PCM, "sampleRateHertz": OUTPUT_RATE_HZ, **_AUDIO}
_TEXT = {"mediaType": "text/plain"}
_NO_INSTRUCTIONS = "You are a friendly assistant."
_MODEL = "amazon.nova-2-sonic-v1:0"
_FIRST_GENERATION = "amazon.nova-sonic-v1"
_REGION = re.compile(r"bedrock-runtime(?:-fips)?\.([a-z]{2,3}(?:-[a-z]+)+-\d)\.")
_REGION_OF_OTHER_HOSTS = "us-east-1"
_HISTORY_BYTES = 40_000
_RECENT_FRAMES = 150  # three seconds
_TEXT_CHARACTERS = 250  # at most 1,000 bytes of UTF-8


def nova_dial(settings: EndpointSettings) -> Dial:
    """Return the parameters of a connection, with the credentials with which the SDK signs.

    Raises:
        UsageError: The region is not text, or the base URL is not a URL.
    """
    model = settings.model or _MODEL
    url = http_url(settings.base_url, f"model/{model}/invoke-with-bidirectional-stream", {})
    found = _REGION.search(url)
    region = settings.extra.get("region", found[1] if found else _REGION_OF_OTHER_HOSTS)
    if not isinstance(region, str) or not region:
        raise UsageError(f"endpoint.extra.region: expected a region such as us-west-2, got {region!r}")
    key, token = settings.key, settings.key_token
    sdk = given(
        model_id=model,
        region=region,
        aws_access_key_id=settings.key_id,
        aws_secret_access_key=key.reveal() if key is not None else None,
        aws_session_token=token.reveal() if token is not None else None,
    )
    return Dial(url, sdk=sdk)


class NovaPrompt:
    """The events that a client sends, and the conversation so far.

    Raises:
        UsageError: Nova Sonic does not support these settings.
    """

    def __init__(self, settings: EndpointSettings) -> None:
        self._instructions = settings.instructions or _NO_INSTRUCTIONS
        asked = merged(_asked(settings), _own_extra(settings.extra))
        self._session, self._start = asked["sessionStart"], asked["promptStart"]
        audio = self._start.get("audioOutputConfiguration")
        if not isinstance(audio, dict) or not _OUTPUT.items() <= audio.items():
            raise UsageError(
                f"endpoint.extra.promptStart.audioOutputConfiguration: expected {_OUTPUT} (the format in use)"
            )
        self._number = 0
        self._recent: deque[bytes] = deque(maxlen=_RECENT_FRAMES)
        self._waiting: list[bytes] = []
        self.holds = True
        """Whether audio waits for `begin_audio`."""
        self._said: list[tuple[str, str]] = []
        for role, text in said_before(settings, "USER", "ASSISTANT"):
            self.remember(role, text)

    def remember(self, role: str, text: str) -> None:
        """Add what the user (``USER``) or the model (``ASSISTANT``) said; roles alternate."""
        if self._said and self._said[-1][0] == role:
            text = f"{self._said.pop()[1]} {text}"
        self._said.append((role, text))

    def begin(self) -> list[Send]:
        """Return the events that open a session, with the conversation so far; `begin_audio` follows."""
        self._number += 1
        texts = [("SYSTEM", self._instructions), *self._history()]
        return [
            send_json({"event": {"sessionStart": self._session}}),
            self._event("promptStart", **self._start),
            *(event for number, text in enumerate(texts) for event in self._text(f"text_{number}", *text)),
        ]

    def begin_audio(self) -> list[Send]:
        """Return the events that begin the user's audio with the frames that wait."""
        audio = {"type": "AUDIO", "role": "USER", "interactive": True, "audioInputConfiguration": _INPUT}
        waiting, self._waiting, self.holds = self._waiting, [], False
        return [self._event("contentStart", contentName="audio", **audio), *map(self._frame, waiting)]

    def hold_audio(self) -> None:
        """Keep the user's audio for the next session, which begins with the last three seconds."""
        self.holds, self._waiting = True, list(self._recent)

    def answered(self) -> None:
        """Forget audio that the model has answered."""
        self._recent.clear()

    def frame(self, pcm: bytes) -> list[Send]:
        """Return the event for a frame of the user's audio, at 16 kHz; none if the frame waits."""
        self._recent.append(pcm)
        if self.holds:
            self._waiting.append(pcm)
            return []
        return [self._frame(pcm)]

    def _frame(self, pcm: bytes) -> Send:
        named = f'"promptName":"prompt_{self._number}","contentName":"audio"'
        return send_audio(f'{{"event":{{"audioInput":{{{named},"content":"', pcm, '"}}}')

    def end(self) -> list[Send]:
        """Return the events that end a session; without them the service keeps its resources."""
        content = self._event("contentEnd", contentName="audio")
        return [content, self._event("promptEnd"), send_json({"event": {"sessionEnd": {}}})]

    def _event(self, kind: str, /, **fields: object) -> Send:
        return send_json({"event": {kind: {"promptName": f"prompt_{self._number}", **fields}}})

    def _text(self, name: str, role: str, text: str) -> Iterator[Send]:
        start = {"type": "TEXT", "role": role, "interactive": False, "textInputConfiguration": _TEXT}
        yield self._event("contentStart", contentName=name, **start)
        size = len(text) if role == "SYSTEM" else _TEXT_CHARACTERS
        for begin in range(0, len(text), size):
            yield self._event("textInput", contentName=name, content=text[begin : begin + size])
        yield self._event("contentEnd", contentName=name)

    def _history(self) -> list[tuple[str, str]]:
        """Return the end of the conversation that the service accepts; it must begin with the user."""
        kept: list[tuple[str, str]] = []
        size = 0
        for role, text in reversed(self._said):
            size += len(text.encode(errors="replace"))
            if size > _HISTORY_BYTES:
                break
            kept.insert(0, (role, text))
        return kept[1:] if kept and kept[0][0] != "USER" else kept


def _own_extra(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the events in ``endpoint.extra``."""
    for name, value in extra.items():
        if name not in ("sessionStart", "promptStart", "region"):
            expected = "expected region, sessionStart or promptStart"
            raise UsageError(f"endpoint.extra.{name}: unknown option; {expected}")
        if name != "region" and not isinstance(value, Mapping):
            raise UsageError(f"endpoint.extra.{name}: expected an object, got {value!r}")
    return {name: value for name, value in extra.items() if name != "region"}


def _asked(settings: EndpointSettings) -> dict[str, Any]:
    """Return the events ``sessionStart`` and ``promptStart``, without the user's ``extra``."""
    refuse_settings(
        settings,
        modality="Nova Sonic always speaks; text output is not supported",
        turn_mode="Nova Sonic's detector ends turns; remove this setting",
        language="the voice sets the language; remove this setting",
    )
    detection = dict(settings.turn_detection) or None
    if detection and (settings.model or "").startswith(_FIRST_GENERATION):
        raise UsageError(f"endpoint.turn_detection: {settings.model} has no such settings; remove them")
    inference = {"maxTokens": settings.max_output_tokens or 1_024, "topP": 0.9, "temperature": 0.7}
    return {
        "sessionStart": given(inferenceConfiguration=inference, turnDetectionConfiguration=detection),
        "promptStart": {
            "textOutputConfiguration": _TEXT,
            "audioOutputConfiguration": given(**_OUTPUT, voiceId=settings.voice),
        },
    }
