"""Encode a reply for the wire and schedule its pieces, including injected faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Audio, Codec, CodecName, decode, encode, frames_of, resample
from live_eval.audio.codecs import Decoder, OpusEncoder
from live_eval.reference.engine.conversation_items import sample_bytes
from live_eval.reference.engine.events import CloseConnection
from live_eval.reference.faults.catalogue import FaultName, Moment
from live_eval.reference.faults.fault_script import Fault, FaultScript
from live_eval.reference.settings import Cadence, ReferenceSettings
from live_eval.timing import ResponseStatus, audible_begins

__all__ = [
    "AUDIO_TOKEN_MS",
    "GeneratedReply",
    "ReplyEnd",
    "ReplyPacker",
    "Step",
    "WireChunk",
    "WireReply",
    "plan",
    "text_tokens",
]

AUDIO_TOKEN_MS = 50
"""Reply audio per token, as counted by OpenAI."""

_CHARACTERS_PER_TOKEN = 4
_TEXT_PIECE_WORDS = 3
_OPUS_PACKET_MS = 20
_OPUS_BITS_PER_S = 96_000
# Pause after the first chunk of a burst. Otherwise, a receiver on the same CPU core would receive it only
# after the last chunk was sent.
_BURST_GAP_NS = 2_000_000
_CLOSE_NORMAL = 1000


@dataclass(frozen=True, slots=True)
class GeneratedReply:
    """A responder's reply, or a piece of it.

    Args:
        text: Text of the piece; all but the first piece begin with a space.
        audio: Speech without lead silence; None for a text reply.
        onset_sample: Index of the first audible sample in `audio`; None if unknown.
        onset_by: How the onset is known: ``constructed`` or ``given``.
        last: Whether this is the last piece.
    """

    text: str
    audio: Audio | None
    onset_sample: int | None = None
    onset_by: str = "constructed"
    last: bool = True


@dataclass(frozen=True, slots=True)
class WireChunk:
    """A chunk of reply audio, encoded by the protocol."""

    payload: bytes = field(repr=False)
    samples: int


@dataclass(frozen=True, slots=True)
class WireReply:
    """An encoded reply, or a piece of one. Sample indices count from the start of the reply.

    Args:
        text: Text of the reply or piece.
        chunks: Audio chunks; empty for a text reply.
        onset_sample: Index of the first audible sample, including lead silence; None for silence.
        onset_by: Source of the onset: ``constructed``, ``given`` or ``detector``.
        begins: For each sample of the reply so far, whether audible output could start with it.
        ends: For each sample of the reply so far, whether audible output could end with it.
        last: Whether this is the last piece.
    """

    text: str
    chunks: tuple[WireChunk, ...]
    rate_hz: int
    onset_sample: int | None
    onset_by: str
    begins: NDArray[np.bool_] | None = field(default=None, repr=False, compare=False)
    ends: NDArray[np.bool_] | None = field(default=None, repr=False, compare=False)
    last: bool = True

    @property
    def samples(self) -> int:
        """Number of samples in all chunks."""
        return sum(chunk.samples for chunk in self.chunks)

    def rest(self, played_ns: int) -> WireReply | None:
        """Return the part of a whole reply from the chunk played at `played_ns`; None after its end."""
        samples = played_ns * self.rate_hz // 1_000_000_000
        first = begin = 0
        while first < len(self.chunks) and begin + self.chunks[first].samples <= samples:
            begin += self.chunks[first].samples
            first += 1
        if first == len(self.chunks):
            return None
        tokens = self.text.split(" ")
        text = " ".join(tokens[len(tokens) * first // len(self.chunks) :])
        begins = self.begins[begin:] if self.begins is not None else None
        onset = int(np.argmax(begins)) if begins is not None and begins.any() else None
        ends = self.ends[begin:] if self.ends is not None else None
        return WireReply(text, self.chunks[first:], self.rate_hz, onset, self.onset_by, begins, ends)


class ReplyPacker:
    """Encode a reply for the wire, whole or in pieces. This is CPU-heavy: use it outside the event loop.

    Samples that do not fill a chunk are carried over to the next piece.

    Args:
        codec: Encoding of the samples.
        lead_silence_ms: Duration of digital silence before the reply.
        chunk_ms: Chunk duration; the last chunk may be shorter. Opus packets are always 20 ms long.
        encode: Encodes a chunk's bytes for the protocol (base64 or unchanged).
        decoder_delay_samples: Decoder delay on the listener's side.
        whole: Whether to pad the last chunk with silence.
        muted: Whether to encode digital silence instead of the audio.
    """

    def __init__(
        self,
        *,
        codec: Codec,
        lead_silence_ms: int,
        chunk_ms: int,
        encode: Callable[[bytes], bytes],
        decoder_delay_samples: int = 0,
        whole: bool = False,
        muted: bool = False,
    ) -> None:
        self._codec = codec
        self._muted = muted
        self._encode = encode
        self._lead = lead_silence_ms * codec.rate_hz // 1000
        self._delay = decoder_delay_samples
        self._whole = whole
        self._opus: _OpusCoder | None = None
        heard = decoder_delay_samples
        if codec.name is CodecName.OPUS:
            self._opus, chunk_ms, heard = _OpusCoder(codec), _OPUS_PACKET_MS, 0
        self._chunk = max(1, chunk_ms * codec.rate_hz // 1000)
        self._waiting = np.zeros(self._lead, np.int16)
        self._heard = np.zeros(heard, np.int16)

    def pack(self, reply: GeneratedReply) -> WireReply:
        """Encode the reply or its next piece."""
        rate_hz = self._codec.rate_hz
        if reply.audio is None:
            return WireReply(reply.text, (), rate_hz, None, "none", last=reply.last)
        pcm = resample(reply.audio, rate_hz).int16()
        chunks = self._chunks(np.zeros_like(pcm) if self._muted else pcm, last=reply.last)
        heard = self._heard
        begins, ends = audible_begins(heard, rate_hz), audible_begins(heard[::-1], rate_hz)[::-1]
        onset = int(np.argmax(begins)) if begins.any() else None
        onset_by = "detector"
        if reply.onset_sample is not None and not self._muted:
            onset = self._lead + reply.onset_sample * rate_hz // reply.audio.rate_hz + self._delay
            onset_by = reply.onset_by
        return WireReply(reply.text, chunks, rate_hz, onset, onset_by, begins, ends, reply.last)

    def _chunks(self, pcm: NDArray[np.int16], *, last: bool) -> tuple[WireChunk, ...]:
        pcm = np.concatenate((self._waiting, pcm))
        if not last:
            complete = len(pcm) - len(pcm) % self._chunk
            pcm, self._waiting = pcm[:complete], pcm[complete:]
        if self._opus is not None:
            packets, heard = self._opus.packets(np.pad(pcm, (0, self._delay if last else 0)), self._chunk)
            pieces = [(packet, self._chunk) for packet in packets]
        else:
            data = encode(np.pad(pcm, (0, -len(pcm) % self._chunk)) if self._whole else pcm, self._codec)
            heard, width = decode(data, self._codec), sample_bytes(self._codec)
            cut = (data[at : at + self._chunk * width] for at in range(0, len(data), self._chunk * width))
            pieces = [(piece, len(piece) // width) for piece in cut]
        self._heard = np.concatenate((self._heard, heard))
        return tuple(WireChunk(self._encode(piece), samples) for piece, samples in pieces)


class _OpusCoder:
    """Encode and decode one Opus stream."""

    def __init__(self, codec: Codec) -> None:
        self._encoder = OpusEncoder(codec.rate_hz, _OPUS_BITS_PER_S)
        self._decoder = Decoder(codec)

    def packets(self, pcm: NDArray[np.int16], samples: int) -> tuple[list[bytes], NDArray[np.int16]]:
        """Return audio as packets, the last padded with silence, and the audio decoded from them."""
        packets = [packet for frame in frames_of(pcm, samples) for packet in self._encoder.encode(frame)]
        heard = [np.zeros(0, np.int16), *(self._decoder.decode(packet) for packet in packets)]
        return packets, np.concatenate(heard)


def text_tokens(text: str) -> int:
    """Estimate the number of tokens in a text."""
    return -(-len(text) // _CHARACTERS_PER_TOKEN)


# -- The plan ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReplyEnd:
    """The end of a response."""

    status: ResponseStatus
    reason: str = ""
    error_code: str = ""
    error_message: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a reply, due `offset_ns` after its start: text, audio, a fault or an end."""

    offset_ns: int
    does: str | WireChunk | Fault | ReplyEnd | CloseConnection


def plan(
    reply: WireReply, settings: ReferenceSettings, max_output_tokens: int | None, *, begin_samples: int = 0
) -> Iterator[Step]:
    """Return a reply's timed steps, including its faults.

    Only the last piece of a reply has an end. The piece starts after `begin_samples`. The reply must be whole
    if there are faults, a token limit or scripted overlaps. A reply longer than `max_output_tokens` ends as
    incomplete. If replies can be stopped during playback (`ReferenceSettings.stop_ms`), the response ends
    when playback does.
    """
    faults = settings.faults
    if faults.has(FaultName.EMPTY_REPLY):
        return iter([Step(0, ReplyEnd(ResponseStatus.COMPLETED))])
    if faults.has(FaultName.FAILED_RESPONSE):
        failure = ReplyEnd(ResponseStatus.FAILED, "", "server_error", "this endpoint fails on purpose")
        return iter([Step(0, failure)])
    if faults.has(FaultName.ENDLESS) and reply.chunks:
        return _endless(reply)
    steps = _content(reply, settings.cadence, begin_samples)
    if not reply.last:
        return iter(steps)
    cut_off = ReplyEnd(ResponseStatus.INCOMPLETE, "max_output_tokens")
    cut = max_output_tokens is not None and _cut(steps, max_output_tokens, reply)
    last_ns = steps[-1].offset_ns if steps else 0
    if settings.stop_ms is not None:
        samples = sum(step.does.samples for step in steps if isinstance(step.does, WireChunk))
        last_ns = max(last_ns, samples * 1_000_000_000 // reply.rate_hz)
    end = [Step(last_ns, cut_off if cut else ReplyEnd(ResponseStatus.COMPLETED))]
    return iter(_faulty(steps, end, reply, faults) if faults else [*steps, *end])


def _faulty(steps: list[Step], end: list[Step], reply: WireReply, faults: FaultScript) -> list[Step]:
    """Apply the faults that change a reply's steps or its ending."""
    half = _middle(steps)
    first, second = steps[:half], steps[half:]
    at_ns = first[-1].offset_ns if first else 0
    stall = faults.get(FaultName.STALL)
    if stall is not None and stall.value is not None:
        late_ns = stall.number * 1_000_000
        second, end = (
            [replace(step, offset_ns=step.offset_ns + late_ns) for step in part] for part in (second, end)
        )
    elif stall is not None:
        second, end = [], []
    if faults.has(FaultName.INCOMPLETE_RESPONSE):
        second, end = [], [Step(at_ns, ReplyEnd(ResponseStatus.INCOMPLETE, "max_output_tokens"))]
    if faults.has(FaultName.CANCELLED_RESPONSE):
        second, end = [], [Step(at_ns, ReplyEnd(ResponseStatus.CANCELLED, "content_filter"))]
    if faults.has(FaultName.NO_DONE):
        end = []
    if faults.has(FaultName.AUDIO_AFTER_DONE) and reply.chunks and end:
        end = [*end, Step(end[-1].offset_ns, reply.chunks[-1])]
    strikes = faults.at(Moment.REPLY)
    if any(fault.name in (FaultName.CLOSE, FaultName.RESET) for fault in strikes):
        second, end = [], []
    whole = [*first, *(Step(at_ns, fault) for fault in strikes), *second, *end]
    if faults.has(FaultName.CLOSE_CHANNEL):
        whole.insert(half, Step(at_ns, CloseConnection(_CLOSE_NORMAL, "this endpoint closes on purpose")))
    if faults.has(FaultName.TRANSCRIPT_ONLY):
        whole = [step for step in whole if not isinstance(step.does, WireChunk)]
    return whole


def _content(reply: WireReply, cadence: Cadence, begin_samples: int) -> list[Step]:
    """Return interleaved text and audio steps; text is sent before the audio of the same words."""
    tokens = reply.text.split(" ") if reply.text else []
    pieces = [
        " ".join(tokens[at : at + _TEXT_PIECE_WORDS]) for at in range(0, len(tokens), _TEXT_PIECE_WORDS)
    ]
    texts = [piece if index == 0 else " " + piece for index, piece in enumerate(pieces)]
    if not reply.chunks:
        return [Step(0, text) for text in texts]
    steps: list[Step] = []
    written, samples = 0, begin_samples
    for index, chunk in enumerate(reply.chunks):
        if cadence is Cadence.REALTIME:
            offset_ns = samples * 1_000_000_000 // reply.rate_hz
        else:
            offset_ns = _BURST_GAP_NS if index else 0
        # As with a language model, text precedes speech: all text is sent by the middle of the reply.
        due = min(len(texts), -(-2 * (index + 1) * len(texts) // len(reply.chunks)))
        steps.extend(Step(offset_ns, text) for text in texts[written:due])
        written = due
        steps.append(Step(offset_ns, chunk))
        samples += chunk.samples
    return steps


def _endless(reply: WireReply) -> Iterator[Step]:
    samples = 0
    for index in count():
        chunk = reply.chunks[index % len(reply.chunks)]
        yield Step(samples * 1_000_000_000 // reply.rate_hz, chunk)
        samples += chunk.samples


def _cut(steps: list[Step], max_output_tokens: int, reply: WireReply) -> bool:
    """Truncate `steps` in place at the token limit; return whether they exceeded it."""
    spent = 0.0
    for index, step in enumerate(steps):
        if isinstance(step.does, WireChunk):
            spent += step.does.samples * 1000 / reply.rate_hz / AUDIO_TOKEN_MS
        elif isinstance(step.does, str):
            spent += text_tokens(step.does)
        if spent > max_output_tokens:
            del steps[index:]
            return True
    return False


def _middle(steps: Sequence[Step]) -> int:
    """Return an index (at least 1) that splits the audio, or the text if there is no audio, in half."""
    audio = [index for index, step in enumerate(steps) if isinstance(step.does, WireChunk)]
    if audio:
        return audio[(len(audio) - 1) // 2] + 1
    return (len(steps) + 1) // 2
