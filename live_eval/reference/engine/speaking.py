"""Send the active response, each piece when it is due. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from live_eval.reference.engine.conversation_items import Item, ItemStatus, Part, PartKind, Role
from live_eval.reference.engine.events import (
    AudioPiece,
    CloseConnection,
    Output,
    ResponseEnded,
    ServerResponse,
    Silence,
    TextPiece,
)
from live_eval.reference.engine.reply_plan import (
    AUDIO_TOKEN_MS,
    ReplyEnd,
    Step,
    WireChunk,
    WireReply,
    plan,
    text_tokens,
)
from live_eval.reference.faults.fault_script import Fault
from live_eval.reference.settings import ReferenceSettings
from live_eval.timing import ResponseStatus

__all__ = ["Speaking", "Streaming"]

# two Moshi frames (80 ms each) plus sender jitter
_INPUT_TIMEOUT_NS = 250_000_000


@dataclass(slots=True)
class _Playing:
    response: ServerResponse
    reply: WireReply
    steps: Iterator[Step]
    start_ns: int
    next: Step | None
    samples: int


class Speaking:
    """Send the active response; some faults continue to send after it has ended."""

    def __init__(self, settings: ReferenceSettings) -> None:
        self._settings = settings
        self._playing: _Playing | None = None
        self._earliest_ns = 0
        self.active: ServerResponse | None = None

    @property
    def wake_ns(self) -> int | None:
        """Time of the next call to `due`; None if nothing is scheduled."""
        playing = self._playing
        return None if playing is None or playing.next is None else playing.start_ns + playing.next.offset_ns

    def talk_over(self, at_ns: int) -> None:
        """Record that the user starts to speak, and mark the item if it was not fully heard."""
        playing = self._playing
        item = playing.response.item if playing is not None else None
        if playing is not None and item is not None:
            heard_until_ns = playing.start_ns + item.parts[0].audio_ms * 1_000_000
            item.talked_over = item.talked_over or at_ns < heard_until_ns

    def rest(self, at_ns: int) -> WireReply | None:
        """Return the part of the active response that the user has not heard by `at_ns`, or None."""
        playing = self._playing
        if self.active is None or playing is None:
            return None
        return playing.reply.rest(max(0, at_ns - playing.start_ns))

    def begin(self, response: ServerResponse, earliest_ns: int) -> None:
        """Start a response whose first chunk is sent no earlier than `earliest_ns`."""
        self.active, self._earliest_ns = response, earliest_ns

    def reply(self, reply: WireReply, at_ns: int) -> Item | None:
        """Schedule the active response's reply, or the first piece of it.

        Returns:
            The response's item, or None if the response ends without one.
        """
        response = self.active
        assert response is not None
        steps = plan(reply, self._settings.of_reply(response.number), response.max_output_tokens)
        first = next(steps, None)
        start_ns = self._settings.after_stall(max(at_ns, self._earliest_ns))
        self._playing = _Playing(response, reply, steps, start_ns, first, reply.samples)
        if first is not None and isinstance(first.does, ReplyEnd):
            return None
        kind = PartKind.AUDIO if response.wants_audio else PartKind.TEXT
        response.item = Item(response.item_id, Role.ASSISTANT, [Part(kind, "")], ItemStatus.IN_PROGRESS)
        return response.item

    def add(self, piece: WireReply) -> None:
        """Schedule the next piece of the active reply."""
        playing = self._playing
        assert playing is not None
        steps = plan(piece, self._settings, None, begin_samples=playing.samples)
        playing.reply, playing.steps = piece, chain(playing.steps, steps)
        playing.samples += piece.samples
        if playing.next is None:
            playing.next = next(playing.steps, None)

    def due(self, at_ns: int) -> list[Output]:
        """Return the outputs due by `at_ns`, including at most one audio chunk."""
        playing = self._playing
        out: list[Output] = []
        while playing is not None and playing.next is not None:
            step = playing.next
            if playing.start_ns + step.offset_ns > at_ns:
                break
            playing.next = next(playing.steps, None)
            out.append(self._do(step, playing))
            if isinstance(step.does, WireChunk):
                break
        return out

    def end(self, end: ReplyEnd) -> ResponseEnded:
        """End the active response."""
        response = self.active
        assert response is not None
        self.active = None
        if end.status in (ResponseStatus.CANCELLED, ResponseStatus.FAILED):
            self._playing = None
        response.status, response.reason = end.status, end.reason
        response.error_code, response.error_message = end.error_code, end.error_message
        if response.item is not None:
            whole = end.status is ResponseStatus.COMPLETED
            response.item.status = ItemStatus.COMPLETED if whole else ItemStatus.INCOMPLETE
        return ResponseEnded(response)

    def _do(self, step: Step, playing: _Playing) -> Output:
        response = playing.response
        match step.does:
            case Fault() | CloseConnection() as output:
                return output
            case str(text):
                return self._write(response, text)
            case WireChunk() as chunk:
                return self._sound(response, chunk, playing.reply)
            case ReplyEnd() as end:
                return self.end(end)

    def _write(self, response: ServerResponse, text: str) -> TextPiece:
        part = _spoken(response)
        part.text = (part.text or "") + text
        response.output_text_tokens = text_tokens(part.text)
        return TextPiece(response, text)

    def _sound(self, response: ServerResponse, chunk: WireChunk, reply: WireReply) -> AudioPiece:
        part = _spoken(response)
        response.output_audio_samples += chunk.samples
        part.audio_ms = response.output_audio_samples * 1000 // reply.rate_hz
        response.output_audio_tokens = -(-part.audio_ms // AUDIO_TOKEN_MS)
        return AudioPiece(
            response,
            chunk.payload,
            chunk.samples,
            reply.rate_hz,
            reply.onset_sample,
            reply.onset_by,
            reply.ends,
        )


def _spoken(response: ServerResponse) -> Part:
    assert response.item is not None
    return response.item.parts[0]


class Streaming:
    """Send a frame at every tick: part of the reply if one is due, else silence.

    As with models that run one step per input frame, the stream is active only while the user's audio
    arrives: it starts with the first audio and stops 250 ms after the last. Frames of missed ticks are sent
    immediately. The chunks in `speaking` must be frames of `frame_ms`.
    """

    def __init__(self, speaking: Speaking, frame_ms: int, rate_hz: int) -> None:
        self._speaking = speaking
        self._frame_ns = frame_ms * 1_000_000
        self._silence = Silence(frame_ms * rate_hz // 1000)
        self._tick_ns: int | None = None
        self._input_ends_ns = 0

    @property
    def wake_ns(self) -> int | None:
        """Time at which the next frame is due; None while no user audio arrives."""
        return None if self._tick_ns is None or self._tick_ns > self._input_ends_ns else self._tick_ns

    def fed(self, at_ns: int) -> None:
        """Record that user audio is arriving."""
        if self._tick_ns is None or self._input_ends_ns < self._tick_ns < at_ns:
            self._tick_ns = at_ns
        self._input_ends_ns = at_ns + _INPUT_TIMEOUT_NS

    def due(self, at_ns: int) -> list[Output]:
        """Return the outputs due by `at_ns`: at most one frame and its events."""
        tick_ns = self.wake_ns
        if tick_ns is None or tick_ns > at_ns:
            return []
        self._tick_ns = tick_ns + self._frame_ns
        out = self._speaking.due(at_ns)
        if not any(isinstance(output, AudioPiece) for output in out):
            out.append(self._silence)
        return out
