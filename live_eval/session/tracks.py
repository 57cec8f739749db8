"""Turn the packets of a media track, or a continuous stream, into the audio of responses. Pure.

On a `Track` the endpoint's events say when a reply begins and ends. In a `Stream` no event does: energy
decides. A track may carry a stream.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Codec, CodecName, resample_int16
from live_eval.audio.codecs import Decoder, PartlyDecodedError, samples_in
from live_eval.audio.rtp import Placed, RtpPacket
from live_eval.recording.preroll import MARGIN_NS, Preroll
from live_eval.session.reply_detection import Chunk, EnergySegmenter, StreamStretch
from live_eval.session.responses import OpenResponse, Responses
from live_eval.timing import ResponseStatus

__all__ = ["Stream", "Track"]

# Events and packets race: a reply's last packets may come after the event that ends it.
_POSTROLL_NS = 200_000_000
_IDLE_NS = 100_000_000
# Of an unbroken stream: an event that was lost three times comes within 7 s (RFC 9260, 6.3.1).
_KEPT_NS = 10_000_000_000
_KEPT_PACKETS = 1_000


class _Heard(NamedTuple):
    """A packet, and whether the track was idle before it."""

    packet: RtpPacket
    placed: Placed
    after_idle: bool


class Track:
    """A track whose replies are announced by events.

    Args:
        responses: The turn's responses.
    """

    def __init__(self, responses: Responses) -> None:
        self._responses = responses
        self._recent: deque[_Heard] = deque(maxlen=_KEPT_PACKETS)
        self._ended: OpenResponse | None = None
        self._ended_ns = 0
        self._last_ns: int | None = None
        self._last_payload = b""
        self.playing: OpenResponse | None = None
        """The response that the track carries now."""

    def started(self, response_id: str, at_ns: int) -> None:
        """Note that the track carries a response from now on.

        Its first packets may be among those that came before, however late the event is; which they are is
        known once they are decoded.
        """
        response = self._responses.touch(response_id, at_ns)
        response.playback_ns = at_ns
        self.playing, self._ended = response, None
        recent = [heard for heard in self._recent if heard.packet.codec == self._recent[-1].packet.codec]
        if response.chunks:  # it has begun before, and goes on
            recent = [heard for heard in recent if at_ns - heard.packet.at_ns <= MARGIN_NS]
        elif recent:
            response.preroll = Preroll(len(recent), at_ns, recent[0].after_idle)
        for heard in recent:
            _hear(response, heard)
        self._recent.clear()

    def stopped(self, response_id: str, at_ns: int) -> None:
        """Note that the track no longer carries a response."""
        response = self._responses.touch(response_id, at_ns)
        response.playback_ns = response.playback_ns or at_ns
        if response is self.playing:
            self.playing, self._ended, self._ended_ns = None, response, at_ns

    def carries(self, at_ns: int) -> bool:
        """Return whether a packet at `at_ns` is of the response that is playing, or just stopped."""
        if self._ended is None or self._last_ns is None:
            return self.playing is not None
        return at_ns - self._ended_ns <= _POSTROLL_NS and at_ns - self._last_ns <= _IDLE_NS

    def packet(self, packet: RtpPacket, placed: Placed) -> None:
        """Take a packet that is to be played."""
        idle = self._last_ns is None or packet.at_ns - self._last_ns > _IDLE_NS
        self._last_ns = packet.at_ns
        # Digital silence, with which an endpoint fills its track: a reply that has stalled goes on with it.
        repeats, self._last_payload = packet.payload == self._last_payload, packet.payload
        heard = _Heard(packet, placed, placed.fresh and idle)
        if self.playing is not None:
            if self.playing.first_audio_ns is None:
                self.playing.first_audio_ns = packet.at_ns
            if not repeats:
                self.playing.progress_ns = packet.at_ns
            _hear(self.playing, heard)
        elif (
            self._ended is not None and packet.at_ns - self._ended_ns <= _POSTROLL_NS and not heard.after_idle
        ):
            _hear(self._ended, heard)
        else:
            self._ended = None
            if heard.after_idle:
                self._recent.clear()
            self._recent.append(heard)
            while packet.at_ns - self._recent[0].packet.at_ns > _KEPT_NS:
                self._recent.popleft()


def _hear(response: OpenResponse, heard: _Heard) -> None:
    packet, placed, _ = heard
    response.hear(
        packet.at_ns,
        packet.payload,
        packet.codec,
        samples_in(packet.payload, packet.codec),
        concealed=placed.concealed_samples,
        fresh=placed.fresh,
    )


class Stream:
    """A stream in which energy decides what is a reply.

    Sound that had ended before the user began to speak is a response that ended before then: a greeting.
    What began before the user did, or ended before the user's speech did, is a response that was cut off.

    Args:
        responses: The turn's responses.
        silence_ns: A reply has ended once it was silent for so long.
    """

    def __init__(self, responses: Responses, silence_ns: int) -> None:
        self._responses = responses
        self._silence_ns = silence_ns
        self._decoders: dict[Codec, Decoder] = {}
        self._segmenter: EnergySegmenter | None = None
        self._pcm = Codec(CodecName.PCM16, 0)
        self._samples = 0
        self._settled = 0
        self._unsaid: list[tuple[int, str]] = []
        self._onset_ns: int | None = None
        self._voice_end_ns: int | None = None

    @property
    def unanswered(self) -> str:
        """What has come, in words, where no reply has begun."""
        sent_s = self._samples / self._pcm.rate_hz if self._samples else 0
        audio = f"{sent_s:.1f} s of audio, in which no reply is audible" if sent_s else "no audio"
        stretches = self._segmenter.stretches if self._segmenter is not None else []
        if stretches:
            heard_s = sum(each.audible_ns - each.began_ns for each in stretches) / 1e9
            audio = f"{sent_s:.1f} s of audio, with a greeting of {heard_s:.1f} s and no reply"
        return f"{audio}, and {'some' if self._unsaid else 'no'} text"

    def user_speaks(self, onset_ns: int, voice_end_ns: int | None) -> None:
        """Note when the user begins to speak, and when they end as far as that is known."""
        self._onset_ns, self._voice_end_ns = onset_ns, voice_end_ns
        if self._segmenter is not None:
            self._segmenter.voice_end_ns = voice_end_ns

    def spoken_over(self, voice_end_ns: int) -> None:
        """Note when the user ends an utterance that interrupts: what sounds after it is another reply."""
        if self._segmenter is not None:
            self._segmenter.voice_end_ns = voice_end_ns

    def audio(self, data: bytes, codec: Codec, at_ns: int, placed: Placed | None = None) -> None:
        """Take a chunk.

        Args:
            data: The chunk as on the wire.
            codec: How it is encoded. A stream keeps the rate with which it begins.
            at_ns: Its arrival.
            placed: Where it is played, where it is a packet of a track.

        Raises:
            AudioError: It cannot be decoded, or a part of it; the rest was taken.
        """
        if codec not in self._decoders:
            self._decoders[codec] = Decoder(codec)
        if self._segmenter is None:
            self._segmenter = EnergySegmenter(codec.rate_hz, self._silence_ns)
            self._segmenter.voice_end_ns = self._voice_end_ns
            self._pcm = Codec(CodecName.PCM16, codec.rate_hz)
        try:
            pcm = self._decoders[codec].decode(data)
        except PartlyDecodedError as error:
            self._push(error.pcm, codec.rate_hz, at_ns, placed)
            raise
        self._push(pcm, codec.rate_hz, at_ns, placed)

    def _push(self, pcm: NDArray[np.int16], rate_hz: int, at_ns: int, placed: Placed | None) -> None:
        assert self._segmenter is not None
        if placed is not None and placed.concealed_samples:
            pcm = np.concatenate((np.zeros(placed.concealed_samples, np.int16), pcm))
        pcm = resample_int16(pcm, rate_hz, self._pcm.rate_hz)
        if len(pcm):
            self._samples += len(pcm)
            self._segmenter.push(Chunk(at_ns, pcm, fresh=placed is not None and placed.fresh))
            self._settle()

    def text(self, text: str, at_ns: int) -> None:
        """Take text of the endpoint; it belongs to the reply that sounds now, or to the next one."""
        self.tick(at_ns)
        self._unsaid.append((at_ns, text))
        self._say()

    def tick(self, at_ns: int) -> None:
        """Let time pass: silence may end a reply."""
        if self._segmenter is not None:
            self._segmenter.tick(at_ns)
            self._settle()

    def ended(self) -> None:
        """Give text that no reply followed to the last reply, as the turn is over."""
        self._say(over=True)

    def _settle(self) -> None:
        """Turn the stretches of sound into responses."""
        assert self._segmenter is not None
        for number, stretch in enumerate(self._segmenter.stretches[self._settled :], self._settled + 1):
            response = self._grow(number, stretch)
            if stretch.ended_ns is None:
                break
            self._settled = number
            if self._onset_ns is None or stretch.audible_ns < self._onset_ns:  # a greeting
                response.done_ns = min(stretch.ended_ns, self._onset_ns or stretch.ended_ns)
                response.status = ResponseStatus.COMPLETED
                continue
            response.done_ns = stretch.ended_ns
            response.reason = self._cut_off(stretch)
            cut = bool(response.reason)
            response.status = ResponseStatus.CANCELLED if cut else ResponseStatus.COMPLETED
        self._say()

    def _grow(self, number: int, stretch: StreamStretch) -> OpenResponse:
        response = self._responses.touch(f"reply_{number}", stretch.audible_ns)
        if response.created_ns is None:
            response.created_ns = response.began_ns = stretch.began_ns
        for chunk in stretch.chunks[len(response.chunks) :]:
            response.hear(chunk.at_ns, chunk.pcm, self._pcm, len(chunk.pcm), fresh=chunk.fresh)
        return response

    def _cut_off(self, stretch: StreamStretch) -> str:
        """Return why a stretch does not answer the user; empty if it does."""
        if self._onset_ns is not None and stretch.began_ns < self._onset_ns:
            return "it began before the user spoke"
        if self._voice_end_ns is not None and stretch.audible_ns < self._voice_end_ns:
            return "it ended before the user's speech did"
        return ""

    def _say(self, *, over: bool = False) -> None:
        response = self._responses.last
        if response is None or not (over or response.done_ns is None):
            return
        for at_ns, text in self._unsaid:
            response.first_text_ns = response.first_text_ns or at_ns
            response.say(text)
        self._unsaid.clear()
