"""Assign reply audio to responses: from messages, a media track, or a continuous stream. Pure.

In `Messages`, each chunk has a response ID. On a `Track`, events mark the packets of a reply. In a `Stream`,
possibly on a track, replies are detected by energy.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Codec, CodecName, resample_int16
from live_eval.audio.codecs import Decoder, PartlyDecodedError, samples_in
from live_eval.audio.rtp import Placed, RtpPacket, RtpTrack
from live_eval.dialect import (
    Event,
    PlaybackStarted,
    PlaybackStopped,
    StreamAudio,
    StreamInterrupted,
    StreamText,
)
from live_eval.session.log import UserMarks
from live_eval.session.preroll import MARGIN_NS, Preroll
from live_eval.session.reply_detection import Chunk, EnergySegmenter, StreamStretch
from live_eval.session.responses import OpenResponse, Responses
from live_eval.timing import ResponseStatus

__all__ = ["Messages", "Stream", "Track"]

_STOPPED = "the endpoint stopped it"
_CONTINUES_NS = 500_000_000
"""Audio that is still audible this long after a stop was not in transit: the reply continues."""
# Events and packets travel separately, so a reply's last packets may arrive after the event that ends it.
_POSTROLL_NS = 200_000_000
_IDLE_NS = 100_000_000
# An event that is lost three times arrives within 7 s (RFC 9260, 6.3.1).
_KEPT_NS = 10_000_000_000
_KEPT_PACKETS = 1_000
# A response that is not audible this long after its end event will never be audible.
_SOUNDS_WITHIN_NS = 2_000_000_000


class Messages:
    """Audio in messages with a response ID. Base class of the other sources.

    Args:
        packets: Playout of a media track's packets; None without a track.
    """

    continuous = False
    """Whether replies are detected by energy."""

    def __init__(self, responses: Responses, user: UserMarks, packets: RtpTrack | None = None) -> None:
        self._responses = responses
        self._user = user
        self.packets = packets
        self.playing: OpenResponse | None = None
        """The response currently on the track."""

    def event(self, event: Event, at_ns: int) -> None:
        """Handle a playback event of a track, or an event of a stream.

        Raises:
            AudioError: See `packet`.
        """

    def packet(self, packet: RtpPacket) -> None:
        """Handle a packet of the track.

        Raises:
            AudioError: The stream's audio cannot be fully decoded; the decoded part is kept.
        """
        assert self.packets is not None
        placed = self.packets.push(packet, samples_in(packet.payload, packet.codec))
        if placed is not None:
            self._take(packet, placed)

    def _take(self, packet: RtpPacket, placed: Placed) -> None:
        """Handle a packet that will be played out."""

    def carries(self, at_ns: int) -> bool:
        """Return whether a packet at `at_ns` belongs to a response that is playing or has just stopped."""
        return self.playing is not None

    def is_open(self, response: OpenResponse, at_ns: int) -> bool:
        """Return whether a response may still continue."""
        return response.done_ns is None

    def tick(self, at_ns: int) -> None:
        """Advance the time, because silence may end a stream's reply."""

    def user_speaks_until(self, voice_end_ns: int | None) -> None:
        """Set the end of the user's speech, in this turn or over its reply; None while unknown."""

    def ended(self) -> None:
        """Assign pending text once the turn is over."""

    def unanswered(self, *, heard_speech: bool) -> str:
        """Describe, for the error message, what the endpoint did instead of answering."""
        return "heard speech" if heard_speech else "reported no speech"


class _Heard(NamedTuple):
    """A packet and whether the track was idle before it."""

    packet: RtpPacket
    placed: Placed
    after_idle: bool


class Track(Messages):
    """A media track whose replies are announced by events.

    Args:
        awaits_sound: Whether a completed response must become audible.
    """

    def __init__(
        self, responses: Responses, user: UserMarks, packets: RtpTrack, *, awaits_sound: bool
    ) -> None:
        super().__init__(responses, user, packets)
        self._awaits_sound = awaits_sound
        self._recent: deque[_Heard] = deque(maxlen=_KEPT_PACKETS)
        self._ended: OpenResponse | None = None
        self._ended_ns = 0
        self._last_ns: int | None = None
        self._last_payload = b""

    def event(self, event: Event, at_ns: int) -> None:
        """See `Messages.event`."""
        if isinstance(event, PlaybackStarted):
            self._started(event.response_id, at_ns)
        elif isinstance(event, PlaybackStopped):
            response = self._responses.touch(event.response_id, at_ns)
            response.playback_ns = response.playback_ns or at_ns
            if response is self.playing:
                self.playing, self._ended, self._ended_ns = None, response, at_ns

    def _started(self, response_id: str, at_ns: int) -> None:
        """Switch the track to a response.

        The first packets may have arrived before the event; they are identified later, by decoding.
        """
        response = self._responses.touch(response_id, at_ns)
        response.playback_ns = at_ns
        self.playing, self._ended = response, None
        recent = [heard for heard in self._recent if heard.packet.codec == self._recent[-1].packet.codec]
        if response.chunks:  # the response continues after a pause
            recent = [heard for heard in recent if at_ns - heard.packet.at_ns <= MARGIN_NS]
        elif recent:
            response.preroll = Preroll(len(recent), at_ns, recent[0].after_idle)
        for heard in recent:
            _hear(response, heard)
        self._recent.clear()

    def carries(self, at_ns: int) -> bool:
        """See `Messages.carries`."""
        if self._ended is None or self._last_ns is None:
            return self.playing is not None
        return at_ns - self._ended_ns <= _POSTROLL_NS and at_ns - self._last_ns <= _IDLE_NS

    def is_open(self, response: OpenResponse, at_ns: int) -> bool:
        """See `Messages.is_open`. Audio continues after a response's end event."""
        if response.done_ns is None or response is self.playing:
            return True
        to_sound = response.status is ResponseStatus.COMPLETED and response.playback_ns is None
        return self._awaits_sound and to_sound and at_ns - response.done_ns < _SOUNDS_WITHIN_NS

    def _take(self, packet: RtpPacket, placed: Placed) -> None:
        idle = self._last_ns is None or packet.at_ns - self._last_ns > _IDLE_NS
        self._last_ns = packet.at_ns
        # Endpoints fill a track with digital silence, which does not count as progress.
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


class Stream(Messages):
    """A continuous stream.

    Audio that ended before the user began to speak is a completed response: a greeting. A response that
    began before the user's speech, or ended before the speech did, was cut off.

    Args:
        silence_ns: Length of silence that ends a reply.
    """

    continuous = True

    def __init__(
        self, responses: Responses, user: UserMarks, packets: RtpTrack | None, silence_ns: int
    ) -> None:
        super().__init__(responses, user, packets)
        self._silence_ns = silence_ns
        self._decoders: dict[Codec, Decoder] = {}
        self._segmenter: EnergySegmenter | None = None
        self._pcm = Codec(CodecName.PCM16, 0)
        self._samples = 0
        self._settled = 0
        self._unsaid: list[tuple[int, StreamText]] = []
        self._spoken: OpenResponse | None = None  # the reply with the last text

    def event(self, event: Event, at_ns: int) -> None:
        """See `Messages.event`. Text belongs to the reply in progress, else to the next reply; final text
        belongs to the reply whose fragments it replaces.
        """
        if isinstance(event, StreamAudio):
            self._audio(event.data, event.codec, at_ns)
        elif isinstance(event, StreamText):
            self.tick(at_ns)
            if event.final and not self._unsaid and self._spoken is not None and self._spoken.pieces:
                self._spoken.say(event.text, final=True)
            else:
                self._unsaid.append((at_ns, event))
                self._say()
        elif isinstance(event, StreamInterrupted):
            self.tick(at_ns)
            response = self._responses.last
            if response is not None and response.chunks and response.done_ns is None:
                response.interrupted_ns = response.interrupted_ns or at_ns
                response.reason = _STOPPED
                # As on a track, the endpoint controls playout, so audio after an interruption is heard.
                response.first_audio_ns = response.first_audio_ns or response.arrivals[0]

    def unanswered(self, *, heard_speech: bool) -> str:
        """See `Messages.unanswered`."""
        sent_s = self._samples / self._pcm.rate_hz if self._samples else 0
        audio = f"{sent_s:.1f} s of audio without an audible reply" if sent_s else "no audio"
        stretches = self._segmenter.stretches if self._segmenter is not None else []
        if stretches:
            heard_s = sum(each.audible_ns - each.began_ns for each in stretches) / 1e9
            audio = f"{sent_s:.1f} s of audio, with a greeting of {heard_s:.1f} s and no reply"
        return f"sent {audio}, and {'some' if self._unsaid else 'no'} text"

    def user_speaks_until(self, voice_end_ns: int | None) -> None:
        """See `Messages.user_speaks_until`. Audio after an interruption is a new reply."""
        if self._segmenter is not None:
            self._segmenter.voice_end_ns = voice_end_ns

    def tick(self, at_ns: int) -> None:
        """See `Messages.tick`."""
        if self._segmenter is not None:
            self._segmenter.tick(at_ns)
            self._settle()

    def ended(self) -> None:
        """See `Messages.ended`. The text belongs to the last reply."""
        self._say(over=True)

    def _take(self, packet: RtpPacket, placed: Placed) -> None:
        self._audio(packet.payload, packet.codec, packet.at_ns, placed)

    def _audio(self, data: bytes, codec: Codec, at_ns: int, placed: Placed | None = None) -> None:
        """Handle a chunk. A stream keeps its initial sample rate."""
        if codec not in self._decoders:
            self._decoders[codec] = Decoder(codec)
        if self._segmenter is None:
            self._segmenter = EnergySegmenter(codec.rate_hz, self._silence_ns)
            self._segmenter.voice_end_ns = self._user.voice_end_ns
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

    def _settle(self) -> None:
        """Convert the audible stretches to responses."""
        assert self._segmenter is not None
        onset_ns = self._user.onset_ns
        for number, stretch in enumerate(self._segmenter.stretches[self._settled :], self._settled + 1):
            response = self._grow(number, stretch)
            if stretch.ended_ns is None:
                break
            self._settled = number
            if onset_ns is None or stretch.audible_ns < onset_ns:  # a greeting
                response.done_ns = min(stretch.ended_ns, onset_ns or stretch.ended_ns)
                response.status = ResponseStatus.COMPLETED
                continue
            response.done_ns = stretch.ended_ns
            response.reason = self._cut_off(stretch)
            cut = bool(response.reason)
            self._resume(response, stretch)
            if response.interrupted_ns is not None:
                response.reason = response.reason or _STOPPED
            response.status = ResponseStatus.CANCELLED if cut else ResponseStatus.COMPLETED
        self._say()

    def _grow(self, number: int, stretch: StreamStretch) -> OpenResponse:
        response = self._responses.touch(f"reply_{number}", stretch.audible_ns)
        if response.created_ns is None:
            response.created_ns = response.began_ns = stretch.began_ns
        for chunk in stretch.chunks[len(response.chunks) :]:
            response.hear(chunk.at_ns, chunk.pcm, self._pcm, len(chunk.pcm), fresh=chunk.fresh)
        return response

    def _resume(self, response: OpenResponse, stretch: StreamStretch) -> None:
        """Discard an interruption without user speech if the reply continued."""
        stopped_ns, interrupts = response.interrupted_ns, self._user.barge_in_ns is not None
        if stopped_ns is not None and not interrupts and stretch.audible_ns - stopped_ns > _CONTINUES_NS:
            response.interrupted_ns = None

    def _cut_off(self, stretch: StreamStretch) -> str:
        """Return the reason why a stretch does not answer the user; an empty string if it does."""
        onset_ns, voice_end_ns = self._user.onset_ns, self._user.voice_end_ns
        if onset_ns is not None and stretch.began_ns < onset_ns:
            return "it began before the user spoke"
        if voice_end_ns is not None and stretch.audible_ns < voice_end_ns:
            return "it ended before the user's speech did"
        return ""

    def _say(self, *, over: bool = False) -> None:
        response = self._responses.last
        if response is None or not (over or response.done_ns is None):
            return
        for at_ns, said in self._unsaid:
            response.first_text_ns = response.first_text_ns or at_ns
            response.say(said.text, final=said.final)
            self._spoken = response
        self._unsaid.clear()
