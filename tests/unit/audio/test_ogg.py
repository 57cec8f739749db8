import io

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from live_eval.audio.ogg import OggPages, OggReader, OggWriter
from live_eval.errors import AudioError, FailureKind


def pages(packets: list[bytes]) -> bytes:
    writer = OggWriter(serial=7)
    return b"".join(writer.page(packet, 960 * number) for number, packet in enumerate(packets))


def reading(reader: OggReader, data: bytes) -> list[bytes]:
    return list(reader.push(data))


@given(st.lists(st.binary(max_size=1200), max_size=8), st.integers(1, 700))
def test_a_stream_may_arrive_in_pieces_of_any_size(packets: list[bytes], step: int) -> None:
    data, reader = pages(packets), OggReader()
    pieces = [data[at : at + step] for at in range(0, len(data), step)]
    assert [packet for piece in pieces for packet in reader.push(piece)] == packets


@given(st.lists(st.binary(max_size=1200), max_size=8), st.integers(1, 700))
def test_every_part_that_is_cut_at_pages_has_whole_packets(packets: list[bytes], step: int) -> None:
    data, cut = pages(packets), OggPages()
    parts = [cut.push(data[at : at + step]) for at in range(0, len(data), step)]
    assert b"".join(parts) == data
    assert [packet for part in parts for packet in reading(OggReader(), part)] == packets


def test_bytes_outside_pages_are_passed_on_at_once() -> None:
    cut, page = OggPages(), pages([b"opus"])
    assert cut.push(page + b"noise") == page + b"noise"
    assert cut.push(page[:2]) == b""
    assert cut.push(page[2:]) == page


def test_packets_with_one_or_more_lacing_values() -> None:
    packets = [bytes(255), bytes(254), b"", bytes(65_024)]
    assert reading(OggReader(), pages(packets)) == packets
    with pytest.raises(ValueError, match="65024"):
        OggWriter().page(bytes(65_025), 0)


def test_a_file_written_by_libsndfile_is_read() -> None:
    file = io.BytesIO()
    tone = (0.2 * np.sin(np.arange(48_000) / 20)).astype(np.float32)
    soundfile.write(file, tone, 48_000, format="OGG", subtype="OPUS")
    packets = reading(OggReader(), file.getvalue())
    assert packets[0].startswith(b"OpusHead")
    assert packets[1].startswith(b"OpusTags")
    assert len(packets) > 40


def broken(data: bytes, reader: OggReader | None = None) -> str:
    with pytest.raises(AudioError) as caught:
        reading(reader or OggReader(), data)
    assert caught.value.kind is FailureKind.MALFORMED_AUDIO
    return caught.value.message


def test_a_wrong_checksum_is_reported_and_the_next_page_is_read() -> None:
    writer, reader = OggWriter(), OggReader()
    first, second, third = (writer.page(name, 0) for name in (b"one", b"two", b"three"))
    assert reading(reader, first) == [b"one"]
    assert "checksum" in broken(second[:-1] + b"?", reader)
    with pytest.raises(AudioError, match="expected page 1, got page 2"):
        reading(reader, third)


def test_bytes_outside_pages_are_reported_and_skipped() -> None:
    reader = OggReader()
    assert "OggS" in broken(b"RIFF0000" + pages([b"one"]), reader)
    assert reading(reader, b"") == [b"one"]


def test_a_missing_page_is_reported() -> None:
    writer, reader = OggWriter(), OggReader()
    first, _, third = (writer.page(name, 0) for name in (b"one", b"two", b"three"))
    assert reading(reader, first) == [b"one"]
    assert "expected page 1, got page 2" in broken(third, reader)


def test_a_restarted_stream_is_read() -> None:
    reader = OggReader()
    assert reading(reader, pages([b"one", b"two"]) + pages([b"three"])) == [b"one", b"two", b"three"]


@given(st.binary(max_size=300))
def test_any_bytes_give_packets_or_a_documented_error(data: bytes) -> None:
    reader = OggReader()
    for piece in (pages([b"one"]), data, pages([b"two"])):
        try:
            reading(reader, piece)
        except AudioError as error:
            assert error.kind is FailureKind.MALFORMED_AUDIO  # noqa: PT017 (it may also not be raised)
