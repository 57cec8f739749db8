"""The reply during its arrival."""

import numpy as np

from live_eval.audio import Codec, CodecName
from live_eval.dialect import Interrupted, PlaybackStarted, PlaybackStopped, ReplyAudio, ResponseDone
from live_eval.live.reply import HeardAudio, IncomingReply
from live_eval.timing import ResponseStatus
from tests.support.live_user import Loudspeaker

MS = 1_000_000
RATE = 24_000
CODEC = Codec(CodecName.PCM16, RATE)


def audio(response: str, ms: int) -> ReplyAudio:
    return ReplyAudio(response, bytes(2 * RATE * ms // 1000), CODEC)


def test_a_reply_has_ended_once_it_has_been_heard() -> None:
    loudspeaker = Loudspeaker()
    reply = IncomingReply(loudspeaker)
    reply.event(audio("r", 500), 100 * MS)
    reply.event(audio("r", 500), 110 * MS)
    assert reply.ended(2_000 * MS) is None, "more may come"
    reply.event(ResponseDone("r", ResponseStatus.COMPLETED), 120 * MS)
    assert reply.is_playing(1_000 * MS)
    assert reply.ended(1_099 * MS) is None
    assert reply.ended(1_105 * MS) == 1_100 * MS
    assert reply.ended(1_200 * MS) is None, "it is reported once"
    assert sum(samples for _, samples in loudspeaker.played) == RATE


def test_silence_at_the_end_of_a_reply_is_not_speech() -> None:
    reply = IncomingReply(Loudspeaker())
    speech = np.concatenate((np.full(RATE // 2, 900), np.zeros(RATE // 2))).astype("<i2")
    reply.event(ReplyAudio("r", speech.tobytes(), CODEC), 100 * MS)
    assert reply.is_speaking(900 * MS), "more may come"
    reply.event(ResponseDone("r", ResponseStatus.COMPLETED), 110 * MS)
    assert reply.is_speaking(599 * MS)
    assert not reply.is_speaking(600 * MS)
    assert reply.is_playing(1_000 * MS)
    reply.heard.push(np.full(RATE, 900, np.int16), RATE, 2_000 * MS)
    reply.heard.drop(2_100 * MS)
    assert not reply.is_speaking(2_200 * MS)


def test_a_reply_is_heard_from_its_first_audible_sample() -> None:
    reply = IncomingReply(Loudspeaker())
    speech = np.concatenate((np.zeros(RATE // 5), np.full(RATE // 2, 900))).astype("<i2")
    for at_ms in (100, 5_000):
        reply.event(ReplyAudio(f"r{at_ms}", speech.tobytes(), CODEC), at_ms * MS)
        reply.event(ResponseDone(f"r{at_ms}", ResponseStatus.COMPLETED), (at_ms + 10) * MS)
        assert reply.is_speaking((at_ms + 190) * MS)
        assert not reply.is_heard((at_ms + 190) * MS), "it begins with silence"
        assert reply.is_heard((at_ms + 200) * MS)
        assert reply.is_heard((at_ms + 699) * MS)
        assert not reply.is_heard((at_ms + 701) * MS)


def test_a_reply_on_a_track_ends_when_its_playback_does() -> None:
    reply = IncomingReply(Loudspeaker())
    reply.event(PlaybackStarted("r"), 0)
    reply.event(ResponseDone("r", ResponseStatus.COMPLETED), 100 * MS)
    assert reply.ended(1_000 * MS) is None
    reply.event(PlaybackStopped("r"), 2_000 * MS)
    assert reply.ended(2_010 * MS) == 2_000 * MS


def test_audio_that_arrives_after_an_interruption_is_not_played() -> None:
    loudspeaker = Loudspeaker()
    reply = IncomingReply(loudspeaker)
    reply.event(audio("r", 5_000), 0)
    reply.event(Interrupted("r"), 700 * MS)
    reply.event(audio("r", 500), 710 * MS)
    assert loudspeaker.drops == 1
    assert len(loudspeaker.played) == 1
    assert not reply.is_playing(720 * MS)
    assert reply.ended(720 * MS) == 700 * MS


def test_stopping_a_reply_drops_the_rest() -> None:
    loudspeaker = Loudspeaker()
    reply = IncomingReply(loudspeaker)
    reply.event(audio("r", 5_000), 0)
    reply.stop(400 * MS)
    reply.event(audio("r", 500), 410 * MS)
    assert loudspeaker.drops == 1
    assert len(loudspeaker.played) == 1
    assert reply.heard.until_ns == 400 * MS


def test_heard_audio_is_placed_in_time() -> None:
    heard = HeardAudio()
    heard.push(np.full(1_000, 500, np.int16), 1_000, 2_000 * MS)
    heard.push(np.full(1_000, 900, np.int16), 1_000, 2_100 * MS)
    assert heard.until_ns == 4_000 * MS
    levels = heard.between(1_500 * MS, 4_500 * MS, 1_000)
    assert [levels[at] for at in (499, 500, 1_499, 1_500, 2_499, 2_500)] == [0, 500, 500, 900, 900, 0]
    heard.drop(2_500 * MS)
    assert not heard.between(2_500 * MS, 4_500 * MS, 1_000).any()
