import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_eval.audio import Audio, Codec, CodecName, decode
from live_eval.audio.codecs import Decoder
from live_eval.reference.engine.reply_plan import (
    GeneratedReply,
    ReplyEnd,
    ReplyPacker,
    Step,
    WireChunk,
    WireReply,
    plan,
)
from live_eval.reference.engine.signals import calibration_reply
from live_eval.reference.faults.catalogue import FaultName
from live_eval.reference.faults.fault_script import Fault, parse_faults
from live_eval.reference.settings import Cadence, ReferenceSettings
from live_eval.timing import ResponseStatus, audible_end, audible_onset

PCM = Codec(CodecName.PCM16, 24_000)
SAMPLED = [CodecName.PCM16, CodecName.PCMU, CodecName.PCMA]
TEXT = "one two three four five six seven"
REPLY = WireReply(TEXT, tuple(WireChunk(bytes([k]), 2_400) for k in range(10)), 24_000, 0, "constructed")


def steps(reply: WireReply = REPLY, limit: int | None = None, **settings: object) -> list[Step]:
    return list(plan(reply, ReferenceSettings(**settings), limit))  # type: ignore[arg-type]


def chunks(found: list[Step]) -> list[WireChunk]:
    return [step.does for step in found if isinstance(step.does, WireChunk)]


def offsets(found: list[Step]) -> list[int]:
    """Return when each chunk is due."""
    return [step.offset_ns for step in found if isinstance(step.does, WireChunk)]


def words(found: list[Step]) -> str:
    return "".join(step.does for step in found if type(step.does) is str)


def test_a_reply_is_sent_completely_and_then_completed() -> None:
    found = steps()
    assert words(found) == TEXT
    assert chunks(found) == list(REPLY.chunks)
    assert found[-1].does == ReplyEnd(ResponseStatus.COMPLETED)


def test_text_precedes_the_voice() -> None:
    found = steps()
    last_word = max(index for index, step in enumerate(found) if type(step.does) is str)
    assert type(found[0].does) is str
    assert len(chunks(found[:last_word])) <= 5


def test_a_burst_pauses_only_once() -> None:
    assert offsets(steps()) == [0] + [2_000_000] * 9


def test_realtime_chunks_are_due_when_their_audio_starts() -> None:
    assert offsets(steps(cadence=Cadence.REALTIME)) == [k * 100_000_000 for k in range(10)]


def test_a_token_limit_ends_the_reply_as_incomplete() -> None:
    found = steps(limit=10)  # a chunk of 100 ms is 2 tokens, a piece of the text about 4
    assert 0 < len(chunks(found)) < 10
    assert found[-1].does == ReplyEnd(ResponseStatus.INCOMPLETE, "max_output_tokens")
    assert len(chunks(steps(limit=100))) == 10


@pytest.mark.parametrize("fault", ["close:1011", "stall", "incomplete_response"])
def test_some_faults_end_the_reply_halfway(fault: str) -> None:
    found = steps(faults=parse_faults(fault))
    assert chunks(found) == list(REPLY.chunks[:5])
    kinds = {"close:1011": Fault, "stall": WireChunk}
    assert isinstance(found[-1].does, kinds.get(fault, ReplyEnd))


@pytest.mark.parametrize("fault", ["malformed", "unknown_event", "error_event"])
def test_some_faults_strike_in_mid_reply_which_continues(fault: str) -> None:
    found = steps(faults=parse_faults(fault))
    at = next(index for index, step in enumerate(found) if isinstance(step.does, Fault))
    assert len(chunks(found[:at])) == 5
    assert len(chunks(found)) == 10
    assert isinstance(found[-1].does, ReplyEnd)


def test_audio_can_follow_the_end() -> None:
    found = steps(faults=parse_faults("audio_after_done"))
    assert isinstance(found[-2].does, ReplyEnd)
    assert isinstance(found[-1].does, WireChunk)


@pytest.mark.parametrize("fault", ["empty_reply", "failed_response"])
def test_some_faults_leave_only_the_end(fault: str) -> None:
    (end,) = steps(faults=parse_faults(fault))
    assert isinstance(end.does, ReplyEnd)
    assert end.does.status is (ResponseStatus.COMPLETED if fault == "empty_reply" else ResponseStatus.FAILED)


def test_an_endless_reply_continues_at_the_pace_of_speech() -> None:
    steps_of = plan(REPLY, ReferenceSettings(faults=parse_faults("endless")), None)
    assert [next(steps_of).offset_ns for _ in range(25)] == [k * 100_000_000 for k in range(25)]


def test_a_stall_can_end() -> None:
    assert offsets(steps(faults=parse_faults("stall:1s"))) == [0, *[2_000_000] * 4, *[1_002_000_000] * 5]


def test_a_transcript_can_be_sent_without_audio() -> None:
    found = steps(faults=parse_faults("transcript_only"))
    assert chunks(found) == []
    assert any(isinstance(step.does, str) for step in found)
    assert isinstance(found[-1].does, ReplyEnd)


def test_a_response_can_be_cancelled_or_never_end() -> None:
    cancelled = steps(faults=parse_faults("cancelled_response"))[-1].does
    assert isinstance(cancelled, ReplyEnd)
    assert cancelled.status is ResponseStatus.CANCELLED
    unended = steps(faults=parse_faults("no_done"))
    assert len(chunks(unended)) == 10
    assert isinstance(unended[-1].does, WireChunk)


@pytest.mark.parametrize("fault", list(FaultName))
def test_every_fault_accepts_a_reply_without_audio_or_text(fault: str) -> None:
    empty = WireReply("", (), 24_000, None, "none")
    found = steps(empty, faults=parse_faults(fault))
    assert chunks(found) == []


@given(st.integers(1, 3_000), st.integers(0, 100), st.integers(1, 300), st.sampled_from(SAMPLED))
def test_packing_loses_no_sample(samples: int, lead_ms: int, chunk_ms: int, name: CodecName) -> None:
    codec = PCM if name is CodecName.PCM16 else Codec(name, 8_000)
    audio = Audio(np.full(samples, 0.25, np.float32), codec.rate_hz)
    packed = ReplyPacker(codec=codec, lead_silence_ms=lead_ms, chunk_ms=chunk_ms, encode=bytes).pack(
        GeneratedReply("x", audio)
    )
    pcm = decode(b"".join(chunk.payload for chunk in packed.chunks), codec)
    lead = lead_ms * codec.rate_hz // 1000
    assert len(pcm) == lead + samples == sum(chunk.samples for chunk in packed.chunks)
    assert np.abs(pcm[:lead].astype(int)).max(initial=0) <= 8  # A-law has no zero
    assert np.allclose(pcm[lead:], 8_192, rtol=0.04)
    assert packed.onset_sample == audible_onset(pcm, codec.rate_hz)


@pytest.mark.parametrize("lead_ms", [0, 7, 20, 150])
@pytest.mark.parametrize("known", [True, False])
def test_decoded_packets_contain_the_reply_at_its_onset(lead_ms: int, known: bool) -> None:
    delay, codec = 312, Codec(CodecName.OPUS, 48_000)
    tone = calibration_reply(200)
    packed = ReplyPacker(
        codec=codec, lead_silence_ms=lead_ms, chunk_ms=100, encode=bytes, decoder_delay_samples=delay
    ).pack(GeneratedReply("", tone, 0 if known else None))
    decoder = Decoder(codec)
    heard = np.concatenate([decoder.decode(chunk.payload) for chunk in packed.chunks])
    assert [chunk.samples for chunk in packed.chunks] == [960] * (len(heard) // 960)
    begins, ends = lead_ms * 48 + delay, (lead_ms + 200) * 48 + delay
    assert ends <= len(heard) < ends + 960
    assert packed.onset_sample is not None
    assert (packed.onset_by, abs(packed.onset_sample - begins) < 5 * 48) == (
        "constructed" if known else "detector",
        True,
    )
    # The codec's smearing makes the tone audible up to 5 ms early.
    assert -5 * 48 < (audible_onset(heard, 48_000) or 0) - begins < 48
    assert abs((audible_end(heard, 48_000) or 0) - ends) < 3 * 48


@pytest.mark.parametrize("codec", [PCM, Codec(CodecName.PCMU, 8_000)])
def test_a_known_onset_shifts_with_lead_silence_and_rate(codec: Codec) -> None:
    packed = ReplyPacker(codec=codec, lead_silence_ms=40, chunk_ms=20, encode=bytes).pack(
        GeneratedReply("", calibration_reply(300), 0, "constructed")
    )
    assert packed.onset_sample == 40 * codec.rate_hz // 1000
    assert packed.onset_by == "constructed"


@given(
    st.lists(st.integers(0, 4_000), min_size=1, max_size=4),
    st.integers(0, 100),
    st.sampled_from([*SAMPLED, CodecName.OPUS]),
    st.booleans(),
)
def test_pieces_equal_the_reply_packed_whole(
    lengths: list[int], lead_ms: int, name: CodecName, padded: bool
) -> None:
    rate_hz = {CodecName.PCM16: 24_000, CodecName.OPUS: 48_000}.get(name, 8_000)
    tone = np.sin(np.arange(sum(lengths)) / 9).astype(np.float32)

    def packer() -> ReplyPacker:
        return ReplyPacker(
            codec=Codec(name, rate_hz),
            lead_silence_ms=lead_ms,
            chunk_ms=30,
            encode=bytes,
            decoder_delay_samples=312,
            whole=padded,
        )

    in_pieces, cuts = packer(), np.cumsum(lengths)[:-1]
    packed = [
        in_pieces.pack(GeneratedReply("", Audio(part, rate_hz), last=number == len(cuts)))
        for number, part in enumerate(np.split(tone, cuts))
    ]
    whole, last = packer().pack(GeneratedReply("", Audio(tone, rate_hz))), packed[-1]
    assert tuple(chunk for piece in packed for chunk in piece.chunks) == whole.chunks
    assert (last.last, last.onset_sample) == (True, whole.onset_sample)
    assert np.array_equal(last.ends, whole.ends)  # type: ignore[arg-type]
    assert np.array_equal(last.begins, whole.begins)  # type: ignore[arg-type]


def test_pieces_continue_at_the_pace_of_speech() -> None:
    first = WireReply("a b", REPLY.chunks[:4], 24_000, 0, "", last=False)
    second = WireReply(" c", REPLY.chunks[4:], 24_000, 0, "")
    settings = ReferenceSettings(cadence=Cadence.REALTIME)
    found = [*plan(first, settings, None), *plan(second, settings, None, begin_samples=first.samples)]
    assert offsets(found) == [k * 100_000_000 for k in range(10)]
    assert words(found) == "a b c"
    assert [step.does for step in found if isinstance(step.does, ReplyEnd)] == [found[-1].does]


def test_a_text_reply_has_no_audio() -> None:
    packed = ReplyPacker(codec=PCM, lead_silence_ms=10, chunk_ms=20, encode=bytes).pack(
        GeneratedReply("hello", None)
    )
    assert packed.chunks == ()
    assert packed.onset_sample is None
    assert words(steps(packed)) == "hello"
