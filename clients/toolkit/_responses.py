"""Track a session's responses: their start, received audio and playback time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from live_eval.audio import Codec
from live_eval.dialect import (
    EndpointProblem,
    Interrupted,
    Output,
    ReplyAudio,
    ReplyAudioDone,
    ResponseDone,
    ResponseStarted,
)
from live_eval.errors import FailureKind
from live_eval.timing import ResponseStatus


@dataclass(frozen=True, slots=True)
class Truncation:
    """The position at which to truncate a conversation item."""

    item_id: str
    content_index: int
    audio_end_ms: int


@dataclass(slots=True)
class _ItemAudio:
    content_index: int
    samples: int = 0


@dataclass(slots=True)
class TrackedResponse:
    """The state of one response.

    Args:
        response_id: The endpoint's ID of the response, or one we assigned.
        done: Whether the response ended.
        interrupted: Whether the user interrupted the response.
        has_whole_text: Whether the full text was reported.
        plays_until_ns: End of playback of all audio that has arrived.
    """

    response_id: str
    done: bool = False
    interrupted: bool = False
    has_whole_text: bool = False
    plays_until_ns: int = 0
    _items: dict[str, _ItemAudio] = field(default_factory=dict)
    _ended_parts: set[tuple[str | None, int]] = field(default_factory=set)
    _late_audio_reported: bool = False

    def received(
        self, item_id: str | None, content_index: int, samples: int, rate_hz: int, at_ns: int
    ) -> list[Output]:
        """Count received audio; return a problem for the first audio after its part or response ended."""
        self.plays_until_ns = max(self.plays_until_ns, at_ns) + samples * 1_000_000_000 // rate_hz
        if item_id is not None:
            item = self._items.get(item_id)
            if item is None:
                item = self._items[item_id] = _ItemAudio(content_index)
            item.samples += samples
        late = self.done or (item_id, content_index) in self._ended_parts
        if not late or self._late_audio_reported:
            return []
        self._late_audio_reported = True
        text = f"audio of {self.response_id} arrived after its reported end; it is kept"
        return [EndpointProblem(FailureKind.AUDIO_AFTER_DONE, text, fatal=False)]

    def end_part(self, item_id: str | None, content_index: int) -> None:
        """Record that the audio of a part is complete."""
        self._ended_parts.add((item_id, content_index))

    def truncations(self, heard_ms: int, rate_hz: int) -> Iterator[Truncation]:
        """Yield the positions at which to truncate the items so that they contain only played audio.

        A position never exceeds the audio that has arrived, because endpoints reject such positions. An item
        that was played in full is not truncated if the response is done.
        """
        left_ms = max(0, heard_ms)
        for item_id, item in self._items.items():
            came_ms = item.samples * 1_000 // rate_hz
            if left_ms < came_ms or not self.done:
                yield Truncation(item_id, item.content_index, min(left_ms, came_ms))
            left_ms = max(0, left_ms - came_ms)

    def holds(self, item_id: str) -> bool:
        """Return whether audio of this item arrived with this response."""
        return item_id in self._items


class ResponseTracker:
    """The responses of a session, in start order.

    Attributes:
        active: The response in progress, or None.
    """

    def __init__(self) -> None:
        self._responses: dict[str, TrackedResponse] = {}
        self.active: TrackedResponse | None = None

    def get(self, response_id: str) -> TrackedResponse | None:
        """Return the response with this ID, or None if it has not started."""
        return self._responses.get(response_id)

    def begin(self, response_id: str | None = None) -> TrackedResponse:
        """Start a response; a response without an ID is named ``reply_1``, ``reply_2``, …"""
        name = response_id or f"reply_{len(self._responses) + 1}"
        response = self._responses[name] = self.active = TrackedResponse(name)
        return response

    def current(self, outputs: list[Output]) -> TrackedResponse:
        """Return the active response; if there is none, start a response and add its start to `outputs`."""
        if self.active is not None:
            return self.active
        response = self.begin()
        outputs.append(ResponseStarted(response.response_id))
        return response

    def hear(self, pcm: bytes, codec: Codec, at_ns: int) -> list[Output]:
        """Return the outputs for 16-bit samples of the active response, which starts if there is none."""
        outputs: list[Output] = []
        response = self.current(outputs)
        outputs += response.received(None, 0, len(pcm) // 2, codec.rate_hz, at_ns)
        return [*outputs, ReplyAudio(response.response_id, pcm, codec)]

    def end(self, response: TrackedResponse) -> None:
        """Record that a response ended."""
        response.done = True
        if self.active is response:
            self.active = None

    def complete(self) -> list[Output]:
        """End the active response as complete, if there is one."""
        response = self.active
        if response is None:
            return []
        self.end(response)
        done = ResponseDone(response.response_id, ResponseStatus.COMPLETED)
        return [ReplyAudioDone(response.response_id), done]

    def interrupt(self, at_ns: int, reason: str) -> list[Output]:
        """Stop the response that is audible, if any; if it is active, it ends as cancelled for `reason`."""
        response = self.audible(at_ns)
        if response is None:
            return []
        response.interrupted = True
        outputs: list[Output] = [Interrupted(response.response_id)]
        if not response.done:
            self.end(response)
            outputs.append(ResponseDone(response.response_id, ResponseStatus.CANCELLED, reason))
        return outputs

    def last(self) -> TrackedResponse | None:
        """Return the response that started last, or None."""
        return next(reversed(self._responses.values()), None)

    def audible(self, at_ns: int) -> TrackedResponse | None:
        """Return the response that an interruption would stop (the active or still playing one), or None."""
        response = self.active or self.last()
        if response is None or response.interrupted:
            return None
        return None if response.done and at_ns >= response.plays_until_ns else response

    def holding(self, item_id: str) -> TrackedResponse | None:
        """Return the response that contained an item's audio, or None."""
        return next((response for response in self._responses.values() if response.holds(item_id)), None)
