"""Track replies of endpoints that do not report when a reply ends."""

from __future__ import annotations

from live_eval.audio import Codec
from live_eval.audio.codecs import samples_in
from live_eval.clients.toolkit._responses import ResponseTracker
from live_eval.dialect import (
    Output,
    ReplyAudio,
    ReplyText,
    SetTimer,
)

_OVER_NS = 1_500_000_000
_NO_AUDIO_NS = 5_000_000_000


class UnmarkedReplies:
    """Track the replies of a session; each ends 1.5 s after all audio received so far has been played.

    Text without audio for 5 s becomes a separate reply, which is then reported as having no audio.

    A dialect returns the outputs of these methods, and calls `over` when the timer `TIMER` fires.

    Args:
        between: Separator between the texts of a reply.
    """

    TIMER = "reply over"

    def __init__(self, between: str = "") -> None:
        self._between = between
        self._replies = ResponseTracker()
        self._unsaid: list[str] = []  # text that arrived before its audio
        self._said: dict[str, list[str]] = {}  # the texts of each reply, since its last correction

    def audio(self, data: bytes, codec: Codec, at_ns: int) -> list[Output]:
        """Add audio to the current reply, or start a reply."""
        outputs: list[Output] = []
        reply = self._replies.current(outputs)
        reply.received(None, 0, samples_in(data, codec), codec.rate_hz, at_ns)
        outputs.append(ReplyAudio(reply.response_id, data, codec))
        outputs += [self._say(reply.response_id, text) for text in self._unsaid]
        self._unsaid.clear()
        return [*outputs, SetTimer(self.TIMER, reply.plays_until_ns + _OVER_NS)]

    def text(self, text: str, at_ns: int) -> list[Output]:
        """Add text to the current reply or, if there is none, to the next one."""
        reply = self._replies.active
        if not text:
            return []
        if reply is None:
            self._unsaid.append(text)
            return [SetTimer(self.TIMER, at_ns + _NO_AUDIO_NS)]
        return [self._say(reply.response_id, text)]

    def correct(self, original: str, text: str) -> list[Output]:
        """Replace the latest occurrence of a text with the part that was spoken; ignore an unknown text."""
        for response_id, said in reversed(self._said.items()):
            if original in said:
                said[said.index(original)] = text
                del self._said[response_id]
                return [ReplyText(response_id, self._between.join(filter(None, said)), final=True)]
        return []

    def interrupted(self, at_ns: int, reason: str) -> list[Output]:
        """Stop the reply that is audible, even if it has ended; if fully played, it counts as complete."""
        reply = self._replies.active
        self._unsaid.clear()
        if reply is not None and at_ns >= reply.plays_until_ns:
            return self.over()
        outputs = self._replies.interrupt(at_ns, reason)
        return [SetTimer(self.TIMER, None), *outputs] if reply is not None else outputs

    def over(self) -> list[Output]:
        """End the current reply as complete; text without audio is a reply."""
        outputs: list[Output] = []
        if self._unsaid:
            reply = self._replies.current(outputs)
            outputs += [self._say(reply.response_id, text) for text in self._unsaid]
            self._unsaid.clear()
        outputs += self._replies.complete()
        return [SetTimer(self.TIMER, None), *outputs] if outputs else []

    def _say(self, response_id: str, text: str) -> ReplyText:
        said = self._said.setdefault(response_id, [])
        said.append(text)
        return ReplyText(response_id, text if len(said) == 1 else f"{self._between}{text}")
