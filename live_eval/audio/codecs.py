"""Decode and encode wire audio with codecs that keep state across chunks."""

from __future__ import annotations

import io
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np
import soundfile
from numpy.typing import NDArray

from live_eval.audio import Codec, CodecName, decode
from live_eval.audio.ogg import OggReader, OggWriter
from live_eval.errors import AudioError, FailureKind

if TYPE_CHECKING:
    from av import AudioCodecContext

__all__ = ["OPUS_RATE_HZ", "Decoder", "OggOpusEncoder", "OpusEncoder", "PartlyDecodedError", "samples_in"]

OPUS_RATE_HZ = 48_000
"""The clock and decoding rate of Opus, regardless of the encoder's input rate (RFC 7845, 4)."""

_OPUS_HEADERS = (b"OpusHead", b"OpusTags")
# RFC 6716, 3.1: frame length in units of 2.5 ms, by the configuration in the first byte.
_SILK_MS = (10, 20, 40, 60)
_HYBRID_MS = (10, 20)
_CELT_MS = (2.5, 5, 10, 20)
_RIFF_HEADER_BYTES = 44
_LONGEST_OPUS_MS = 120


def samples_in(data: bytes, codec: Codec) -> int:
    """Return the number of samples in a chunk without decoding it; for WAV and Ogg, an estimate."""
    match codec.name:
        case CodecName.PCM16:
            return len(data) // 2
        case CodecName.PCMU | CodecName.PCMA:
            return len(data)
        case CodecName.WAV:
            bits = int.from_bytes(data[34:36], "little") or 16
            return max(0, len(data) - _RIFF_HEADER_BYTES) // max(1, bits // 8)
        case CodecName.OPUS:
            return round(_opus_ms(data) * codec.rate_hz / 1000)
        case CodecName.OGG_OPUS:
            try:
                packets = [packet for packet in OggReader().push(data) if packet[:8] not in _OPUS_HEADERS]
            except AudioError:
                return 0
            return round(sum(map(_opus_ms, packets)) * codec.rate_hz / 1000)


def _opus_ms(packet: bytes) -> float:
    if not packet:
        return 0.0
    config, count = packet[0] >> 3, packet[0] & 3
    if config < 12:
        length = float(_SILK_MS[config % 4])
    elif config < 16:
        length = float(_HYBRID_MS[config % 2])
    else:
        length = float(_CELT_MS[config % 4])
    frames = (1, 2, 2, packet[1] & 0x3F if len(packet) > 1 else 0)[count]
    # A packet without frames, or a longer one, is invalid (RFC 6716, 3.2.5, R5). It counts as one frame, so
    # that it is decoded and the error reported.
    return length * frames if 0 < length * frames <= _LONGEST_OPUS_MS else length


class PartlyDecodedError(AudioError):
    """Part of a chunk could not be decoded.

    Args:
        cause: First error.
        pcm: Samples of the other parts, int16 mono, shape (samples,).
    """

    def __init__(self, cause: AudioError, pcm: NDArray[np.int16]) -> None:
        super().__init__(cause.kind, cause.message)
        self.pcm = pcm


class Decoder:
    """Decodes one stream, whose chunks must be passed in order.

    Args:
        codec: Encoding of the chunks; Opus requires a rate of 48 kHz.

    ::

        decoder = Decoder(Codec(CodecName.OPUS, 48_000))
        pcm = decoder.decode(packet)
    """

    def __init__(self, codec: Codec) -> None:
        if codec.name in (CodecName.OPUS, CodecName.OGG_OPUS) and codec.rate_hz != OPUS_RATE_HZ:
            raise ValueError(f"expected {OPUS_RATE_HZ} Hz for Opus, got {codec.rate_hz} Hz")
        self._codec = codec
        self._ogg = OggReader()
        self._opus: AudioCodecContext | None = None
        self._skip = 0

    def decode(self, data: bytes) -> NDArray[np.int16]:
        """Decode a chunk to int16 mono, shape (samples,), at ``codec.rate_hz``.

        The pre-skip samples of an Ogg stream are dropped.

        Raises:
            AudioError: The chunk is invalid for the codec. If a page of an Ogg stream is broken or out of
                order, it is a `PartlyDecodedError`.
        """
        match self._codec.name:
            case CodecName.OPUS:
                return self._opus_packet(data)
            case CodecName.OGG_OPUS:
                return self._ogg_pages(data)
            case CodecName.WAV:
                return self._wav(data)
            case _:
                return decode(data, self._codec)

    def _ogg_pages(self, data: bytes) -> NDArray[np.int16]:
        pieces, first_error = [np.empty(0, np.int16)], None
        while True:
            try:
                for packet in self._ogg.push(data):
                    pieces.append(self._ogg_packet(packet))
                break
            except AudioError as error:  # the reader can continue after a broken page
                first_error, data = first_error or error, b""
        pcm = np.concatenate(pieces)
        if first_error is not None:
            raise PartlyDecodedError(first_error, pcm)
        return pcm

    def _ogg_packet(self, packet: bytes) -> NDArray[np.int16]:
        if packet.startswith(b"OpusHead"):
            self._opus = None
            self._skip = int.from_bytes(packet[10:12], "little")
        if packet[:8] in _OPUS_HEADERS:
            return np.empty(0, np.int16)
        pcm = self._opus_packet(packet)
        skipped = min(self._skip, len(pcm))
        self._skip -= skipped
        return pcm[skipped:]

    def _opus_packet(self, packet: bytes) -> NDArray[np.int16]:
        import av

        if self._opus is None:
            self._opus = _opus_context("r", OPUS_RATE_HZ)
        try:
            frames = self._opus.decode(av.Packet(packet))
        except av.FFmpegError as error:
            raise AudioError(
                FailureKind.MALFORMED_AUDIO,
                f"expected an Opus packet, got {len(packet)} invalid bytes: {error.strerror}",
            ) from None
        if not frames:
            return np.empty(0, np.int16)
        return np.concatenate([frame.to_ndarray()[0] for frame in frames]).astype(np.int16, copy=False)

    def _wav(self, data: bytes) -> NDArray[np.int16]:
        try:
            with soundfile.SoundFile(io.BytesIO(data)) as file:
                rate_hz, floats = file.samplerate, file.subtype in ("FLOAT", "DOUBLE")
                # libsndfile does not scale floats that are read as integers
                samples = file.read(dtype="float32" if floats else "int16", always_2d=True)
        except (soundfile.LibsndfileError, RuntimeError) as error:
            raise AudioError(
                FailureKind.MALFORMED_AUDIO, f"expected a WAV file, got {len(data)} bytes: {error}"
            ) from None
        if rate_hz != self._codec.rate_hz:
            raise AudioError(
                FailureKind.WRONG_RATE,
                f"expected a WAV file at {self._codec.rate_hz} Hz, got {rate_hz} Hz",
            )
        if floats:
            whole = np.round(np.clip(np.nan_to_num(samples), -1, 1) * 32_768)
            samples = np.minimum(whole, 32_767)
        return np.ascontiguousarray(samples[:, 0], dtype=np.int16)


class OpusEncoder:
    """Encodes the audio of one stream as Opus packets.

    Args:
        rate_hz: Sample rate: 8, 12, 16, 24 or 48 kHz.
        bit_rate: Bits per second.
    """

    def __init__(self, rate_hz: int, bit_rate: int = 48_000) -> None:
        self._rate_hz = rate_hz
        self._context = _opus_context("w", rate_hz, bit_rate)
        self._at = 0

    def encode(self, pcm: bytes) -> list[bytes]:
        """Add samples, and return the packets that they complete.

        Args:
            pcm: int16 little-endian mono; every 20 ms produce one packet.
        """
        from av import AudioFrame

        samples = np.frombuffer(pcm, "<i2").reshape(1, -1)
        frame = AudioFrame.from_ndarray(samples, format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = self._rate_hz, self._at, Fraction(1, self._rate_hz)
        self._at += samples.shape[1]
        return [bytes(packet) for packet in self._context.encode(frame)]


class OggOpusEncoder:
    """Encodes the audio of one stream as Ogg-Opus, with one packet per page.

    Args:
        rate_hz: Sample rate: 8, 12, 16, 24 or 48 kHz.
        bit_rate: Bits per second.
    """

    PRE_SKIP = 312

    def __init__(self, rate_hz: int, bit_rate: int = 48_000) -> None:
        self._opus = OpusEncoder(rate_hz, bit_rate)
        self._ogg = OggWriter()
        self._rate_hz = rate_hz
        self._granule = 0

    def headers(self) -> bytes:
        """Return the first two pages of the stream (RFC 7845, 5)."""
        skip, rate = self.PRE_SKIP.to_bytes(2, "little"), self._rate_hz.to_bytes(4, "little")
        vendor = b"live-eval"
        head = b"OpusHead\x01\x01" + skip + rate + b"\x00\x00\x00"
        tags = b"OpusTags" + len(vendor).to_bytes(4, "little") + vendor + bytes(4)
        return self._ogg.page(head, 0) + self._ogg.page(tags, 0)

    def encode(self, pcm: bytes) -> bytes:
        """Add samples, and return the pages that they complete; see `OpusEncoder.encode`."""
        pages = b""
        for packet in self._opus.encode(pcm):
            self._granule += round(_opus_ms(packet) * OPUS_RATE_HZ / 1000)
            pages += self._ogg.page(packet, self._granule)
        return pages


def _opus_context(mode: Literal["r", "w"], rate_hz: int, bit_rate: int | None = None) -> AudioCodecContext:
    from av import AudioCodecContext

    context = AudioCodecContext.create("libopus", mode)
    context.format, context.layout, context.sample_rate = "s16", "mono", rate_hz
    if bit_rate is not None:
        context.bit_rate = bit_rate
        context.time_base = Fraction(1, rate_hz)
        context.options = {"application": "audio"}  # `voip` would alter the voice under test
    return context
