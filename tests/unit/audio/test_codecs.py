import io

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from live_eval.audio import Codec, CodecName
from live_eval.audio.codecs import (
    OPUS_RATE_HZ,
    Decoder,
    OggOpusEncoder,
    OpusEncoder,
    PartlyDecodedError,
    samples_in,
)
from live_eval.errors import AudioError, FailureKind

OPUS = Codec(CodecName.OPUS, OPUS_RATE_HZ)
OGG_OPUS = Codec(CodecName.OGG_OPUS, OPUS_RATE_HZ)


def tone(rate_hz: int, seconds: float = 1.0) -> NDArray[np.int16]:
    time_s = np.arange(round(rate_hz * seconds)) / rate_hz
    return (8_000 * np.sin(2 * np.pi * 440 * time_s)).astype(np.int16)


def frames(pcm: NDArray[np.int16], samples: int) -> list[bytes]:
    return [pcm[at : at + samples].tobytes() for at in range(0, len(pcm), samples)]


def test_opus_packets_decode_to_the_sound_that_was_encoded() -> None:
    encoder, decoder, sound = OpusEncoder(48_000), Decoder(OPUS), tone(48_000)
    packets = [packet for frame in frames(sound, 960) for packet in encoder.encode(frame)]
    assert [samples_in(packet, OPUS) for packet in packets] == [960] * 50
    heard = np.concatenate([decoder.decode(packet) for packet in packets])
    assert len(heard) == 48_000
    lookahead = 312
    expected, came = sound[9_600:38_400].astype(float), heard[9_600 + lookahead : 38_400 + lookahead]
    assert np.corrcoef(expected, came)[0, 1] > 0.99


@pytest.mark.parametrize("frame_ms", [20, 80])
def test_libsndfile_reads_our_ogg_opus(frame_ms: int) -> None:
    encoder, decoder = OggOpusEncoder(24_000), Decoder(OGG_OPUS)
    data = [encoder.headers(), *map(encoder.encode, frames(tone(24_000), 24 * frame_ms))]
    heard = np.concatenate([decoder.decode(page) for page in data])
    theirs, rate_hz = soundfile.read(io.BytesIO(b"".join(data)), dtype="int16")
    assert rate_hz == 24_000
    assert len(heard) == 48_000 - OggOpusEncoder.PRE_SKIP
    assert abs(len(theirs) * 2 - len(heard)) <= 2 * OggOpusEncoder.PRE_SKIP
    assert np.corrcoef(heard[4_000:40_000:2], theirs[2_000:20_000])[0, 1] > 0.99
    assert sum(samples_in(page, OGG_OPUS) for page in data) == 48_000


def test_an_ogg_stream_may_restart() -> None:
    decoder = Decoder(OGG_OPUS)
    for _ in range(2):
        encoder = OggOpusEncoder(24_000)
        data = encoder.headers() + encoder.encode(bytes(2 * 480))
        assert len(decoder.decode(data)) == 960 - OggOpusEncoder.PRE_SKIP


def test_opus_is_decoded_at_48_khz_only() -> None:
    with pytest.raises(ValueError, match="48000"):
        Decoder(Codec(CodecName.OPUS, 24_000))


def wav(rate_hz: int, subtype: str = "PCM_16") -> bytes:
    file = io.BytesIO()
    samples = tone(rate_hz, 0.1)
    scaled = samples / 32_768 if subtype in ("FLOAT", "DOUBLE") else samples
    soundfile.write(file, scaled, rate_hz, format="WAV", subtype=subtype)
    return file.getvalue()


def test_wav_chunks_are_decoded_at_their_rate() -> None:
    codec = Codec(CodecName.WAV, 48_000)
    assert np.array_equal(Decoder(codec).decode(wav(48_000)), tone(48_000, 0.1))
    assert samples_in(wav(48_000), codec) == 4_800
    with pytest.raises(AudioError, match="48000 Hz, got 24000 Hz") as caught:
        Decoder(codec).decode(wav(24_000))
    assert caught.value.kind is FailureKind.WRONG_RATE


@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE", "PCM_24", "PCM_32"])
def test_wav_chunks_of_other_samples_have_the_same_level(subtype: str) -> None:
    codec, data = Codec(CodecName.WAV, 22_050), wav(22_050, subtype)
    assert np.abs(Decoder(codec).decode(data) - tone(22_050, 0.1).astype(int)).max() <= 1
    assert abs(samples_in(data, codec) - 2_205) < 20


def test_wav_chunks_of_other_samples_are_clipped() -> None:
    file, codec = io.BytesIO(), Codec(CodecName.WAV, 22_050)
    samples = np.array([np.inf, -np.inf, np.nan, 1e38, -1e38, 0.5])
    soundfile.write(file, samples, 22_050, format="WAV", subtype="FLOAT")
    assert Decoder(codec).decode(file.getvalue()).tolist() == [32_767, -32_768, 0, 32_767, -32_768, 16_384]


@pytest.mark.parametrize(
    ("codec", "data"),
    [(OPUS, b"\xff\x00no opus"), (OGG_OPUS, b"no ogg"), (Codec(CodecName.WAV, 48_000), b"RIFF")],
)
def test_undecodable_bytes_are_reported(codec: Codec, data: bytes) -> None:
    with pytest.raises(AudioError, match="expected") as caught:
        Decoder(codec).decode(data)
    assert caught.value.kind is FailureKind.MALFORMED_AUDIO


@pytest.mark.parametrize("name", list(CodecName))
@given(data=st.binary(max_size=200))
def test_any_bytes_decode_or_give_a_documented_error(name: CodecName, data: bytes) -> None:
    codec = Codec(name, OPUS_RATE_HZ)
    assert samples_in(data, codec) >= 0
    try:
        pcm = Decoder(codec).decode(data)
    except AudioError:
        return
    assert pcm.dtype == np.int16
    assert pcm.ndim == 1


def test_the_length_of_a_packet_follows_from_its_first_bytes() -> None:
    # RFC 6716, 3.1: configuration 1 is SILK at 20 ms, 13 hybrid at 20 ms, 16 CELT at 2.5 ms.
    assert samples_in(bytes([1 << 3]), OPUS) == 960
    assert samples_in(bytes([13 << 3 | 1]), OPUS) == 1_920
    assert samples_in(bytes([16 << 3 | 3, 4]), OPUS) == 480
    assert samples_in(bytes([16 << 3 | 3, 48]), OPUS) == 5_760
    assert samples_in(b"", OPUS) == 0


@pytest.mark.parametrize(
    "packet", [bytes([3 << 3 | 3, 63]) + bytes(63), bytes([3 << 3 | 3, 0]), bytes([3 << 3 | 3])]
)
def test_an_invalid_packet_has_the_samples_of_a_frame(packet: bytes) -> None:
    """63 frames of 60 ms, no frame, or an unknown number: a packet with no samples would not be decoded."""
    assert samples_in(packet, OPUS) == 2_880
    with pytest.raises(AudioError, match="expected an Opus packet"):
        Decoder(OPUS).decode(packet)


@pytest.mark.parametrize("order", [(0, 1, 3, 2), (0, 1, 1, 2), (0, 2)], ids=["reordered", "doubled", "lost"])
def test_pages_out_of_order_are_reported_and_decoded(order: tuple[int, ...]) -> None:
    encoder, decoder = OggOpusEncoder(24_000), Decoder(OGG_OPUS)
    pages = [encoder.encode(frame) for frame in frames(tone(24_000, 0.4), 24 * 80)]
    samples, errors = len(decoder.decode(encoder.headers())), 0
    for at in order:
        try:
            samples += len(decoder.decode(pages[at]))
        except PartlyDecodedError as error:
            assert error.kind is FailureKind.MALFORMED_AUDIO  # noqa: PT017 (it may also not be raised)
            samples, errors = samples + len(error.pcm), errors + 1
    assert samples == len(order) * 48 * 80 - OggOpusEncoder.PRE_SKIP
    assert errors


def test_packets_before_a_broken_page_are_decoded() -> None:
    encoder, decoder = OggOpusEncoder(24_000), Decoder(OGG_OPUS)
    sound = encoder.headers() + encoder.encode(tone(24_000, 0.08).tobytes())
    with pytest.raises(PartlyDecodedError, match="expected a page that begins with 'OggS'") as caught:
        decoder.decode(sound + b"not a page")
    assert len(caught.value.pcm) == 48 * 80 - OggOpusEncoder.PRE_SKIP
