"""The reply while it comes."""

import numpy as np
import pytest

from live_eval.audio import Codec, CodecName
from live_eval.dialect import Interrupted, PlaybackStarted, PlaybackStopped, ReplyAudio, ResponseDone
from live_eval.live.reply import HeardAudio, IncomingReply
from live_eval.live.said import SaidAudio
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
    assert reply.sounds(1_000 * MS)
    assert reply.ended(1_099 * MS) is None
    assert reply.ended(1_105 * MS) == 1_100 * MS
    assert reply.ended(1_200 * MS) is None, "it is reported once"
    assert sum(samples for _, samples in loudspeaker.played) == RATE


def test_a_reply_on_a_track_ends_when_its_playback_does() -> None:
    reply = IncomingReply(Loudspeaker())
    reply.event(PlaybackStarted("r"), 0)
    reply.event(ResponseDone("r", ResponseStatus.COMPLETED), 100 * MS)
    assert reply.ended(1_000 * MS) is None
    reply.event(PlaybackStopped("r"), 2_000 * MS)
    assert reply.ended(2_010 * MS) == 2_000 * MS


def test_what_comes_after_an_interruption_is_not_played() -> None:
    loudspeaker = Loudspeaker()
    reply = IncomingReply(loudspeaker)
    reply.event(audio("r", 5_000), 0)
    reply.event(Interrupted("r"), 700 * MS)
    reply.event(audio("r", 500), 710 * MS)
    assert loudspeaker.drops == 1
    assert len(loudspeaker.played) == 1
    assert not reply.sounds(720 * MS)
    assert reply.ended(720 * MS) == 700 * MS


def test_a_user_who_speaks_stops_the_reply() -> None:
    loudspeaker = Loudspeaker()
    reply = IncomingReply(loudspeaker)
    reply.event(audio("r", 5_000), 0)
    reply.stop(400 * MS)
    reply.event(audio("r", 500), 410 * MS)
    assert loudspeaker.drops == 1
    assert len(loudspeaker.played) == 1
    assert reply.heard.until_ns == 400 * MS


def test_what_is_heard_is_placed_in_time() -> None:
    heard = HeardAudio()
    heard.push(np.full(1_000, 500, np.int16), 1_000, 2_000 * MS)
    heard.push(np.full(1_000, 900, np.int16), 1_000, 2_100 * MS)
    assert heard.until_ns == 4_000 * MS
    levels = heard.between(1_500 * MS, 4_500 * MS, 1_000)
    assert [levels[at] for at in (499, 500, 1_499, 1_500, 2_499, 2_500)] == [0, 500, 500, 900, 900, 0]
    heard.drop(2_500 * MS)
    assert not heard.between(2_500 * MS, 4_500 * MS, 1_000).any()


def test_what_was_said_is_kept_with_its_times() -> None:
    said = SaidAudio(1_000)
    for start_ms in range(0, 1_000, 20):
        said.append(start_ms * MS, np.full(20, start_ms, "<i2").tobytes())
    kept = said.between(490 * MS, 530 * MS)
    assert kept.tolist() == [480] * 10 + [500] * 20 + [520] * 10
    assert said.between(-50 * MS, 0).tolist() == [0] * 50
    said.forget(500 * MS)
    assert said.between(480 * MS, 500 * MS).tolist() == [0] * 20


@pytest.mark.parametrize("hours", [2])
def test_what_was_said_is_bounded(hours: int) -> None:
    said = SaidAudio(100)
    for start_ms in range(0, hours * 3_600_000, 1_000):
        said.append(start_ms * MS, bytes(200))
    assert not said.between(0, 3_600_000 * MS).any()
    assert len(said._frames) <= 601
