"""Track the replies of Amazon Nova Sonic: planned and spoken texts, audio and tokens.

Source: ``sonic-output-events`` in https://docs.aws.amazon.com/nova/latest/nova2-userguide, and pipecat
(``services/aws/nova_sonic``); see `live_eval.clients.dialects.nova_sonic`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import orjson

from live_eval.audio import Codec, CodecName
from live_eval.clients.dialects._nova_sonic_prompt import OUTPUT_RATE_HZ
from live_eval.clients.toolkit import Fields, MalformedError, ResponseTracker
from live_eval.dialect import (
    Output,
    ReplyAudioDone,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    SetTimer,
)
from live_eval.timing import ResponseStatus
from live_eval.types import Usage

__all__ = ["NovaReplies", "generation_stage"]

_SPOKEN_NS = 1_000_000_000
_CODEC = Codec(CodecName.PCM16, OUTPUT_RATE_HZ)
_TOKENS = tuple((side, f"{kind}Tokens") for side in ("input", "output") for kind in ("speech", "text"))


class NovaReplies:
    """The replies of a session, of which one is active.

    Args:
        remember: Called with the text of each reply that was spoken.
    """

    TIMER = "complete the reply"

    def __init__(self, remember: Callable[[str], None]) -> None:
        self._remember = remember
        self._replies = ResponseTracker()
        self._planned: list[str] = []  # the texts of the last reply
        self._spoken: list[str] = []
        self._ending = False  # whether the audio of the active reply has ended
        self._tokens = dict.fromkeys(_TOKENS, 0)
        self.drops = False
        """Whether content belongs to a reply that was interrupted."""

    @property
    def unfinished(self) -> bool:
        """Whether the active reply, if there is one, still sends audio."""
        return self._replies.active is not None and not self._ending

    def begin(self) -> ResponseStarted:
        """Begin a reply, after `complete`."""
        self.drops, self._planned, self._spoken = False, [], []
        return ResponseStarted(self._replies.begin().response_id)

    def planned(self, text: str) -> list[Output]:
        """Add a sentence that the active reply plans to speak."""
        reply = self._replies.active
        if reply is None or self.drops:
            return []
        self._planned.append(text)
        return [ReplyText(reply.response_id, f"{text} ")]

    def spoken(self, text: str) -> None:
        """Add a sentence that was spoken."""
        self._spoken.append(text)

    def hear(self, pcm: bytes, at_ns: int) -> list[Output]:
        """Add audio to the active reply."""
        return self._replies.hear(pcm, _CODEC, at_ns) if pcm and not self.drops else []

    def audio_ended(self, at_ns: int) -> list[Output]:
        """Record the end of the active reply's audio; wait for its last text while it is played."""
        reply = self._replies.active
        if reply is None:
            return []
        self._ending = True
        due_ns = max(at_ns, reply.plays_until_ns) + _SPOKEN_NS
        return [ReplyAudioDone(reply.response_id), SetTimer(self.TIMER, due_ns)]

    @property
    def all_spoken(self) -> bool:
        """Whether the audio of the active reply has ended, and everything planned was spoken."""
        return self._ending and len(self._spoken) >= len(self._planned)

    def complete(self) -> list[Output]:
        """End the active reply, if there is one, as complete."""
        reply = self._replies.active
        if reply is None:
            return []
        self._ending = False
        self._replies.end(reply)
        whole = 0 < len(self._planned) <= len(self._spoken)
        text = " ".join(self._spoken if whole else self._planned)
        if text:
            self._remember(text)
        done = ResponseDone(reply.response_id, ResponseStatus.COMPLETED, usage=self._usage())
        spoken = [ReplyText(reply.response_id, text, final=True)] if whole else []
        return [*spoken, done, SetTimer(self.TIMER, None)]

    def interrupt(self, at_ns: int) -> list[Output]:
        """Stop the reply that is audible, and drop its late content."""
        self.drops, self._ending = True, False
        reply = self._replies.audible(at_ns)
        if reply is None:
            return []
        outputs: list[Output] = [SetTimer(self.TIMER, None)]
        text = " ".join(self._spoken)
        if text:
            outputs.append(ReplyText(reply.response_id, text, final=True))
            if not reply.done:
                self._remember(text)
        for output in self._replies.interrupt(at_ns, "INTERRUPTED"):
            if isinstance(output, ResponseDone):
                output = replace(output, usage=self._usage())
            outputs.append(output)
        return outputs

    def cut_off(self, reason: str) -> list[Output]:
        """End a reply that is still arriving, because its session ends."""
        self._ending = self.drops = False
        reply = self._replies.active
        if reply is None:
            return [SetTimer(self.TIMER, None)]
        self._replies.end(reply)
        done = ResponseDone(reply.response_id, ResponseStatus.CANCELLED, reason)
        return [done, SetTimer(self.TIMER, None)]

    def count(self, delta: Fields) -> None:
        """Add the tokens of a usage event."""
        for each in self._tokens:
            self._tokens[each] += delta.child(each[0]).integer(each[1]) or 0

    def _usage(self) -> Usage | None:
        """Return the tokens counted since the last reply, or None if there are none."""
        heard, read, spoken, written = self._tokens.values()
        self._tokens = dict.fromkeys(_TOKENS, 0)
        counted = heard or read or spoken or written
        return Usage(heard + read, spoken + written, heard, spoken) if counted else None


def generation_stage(fields: str | None) -> str:
    """Return the generation stage in JSON; an empty string if there is none."""
    try:
        value = orjson.loads(fields or "{}")
    except orjson.JSONDecodeError:
        raise MalformedError("contentStart: expected JSON in 'additionalModelFields'") from None
    stage = value.get("generationStage") if isinstance(value, dict) else None
    return stage if isinstance(stage, str) else ""
