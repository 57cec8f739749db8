"""Several endpoints' replies in one room."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Codec, CodecName
from live_eval.dialect import Interrupted, ReplyAudio, ResponseDone
from live_eval.live.reply import IncomingReply
from live_eval.live.room import EndpointSink, Room
from live_eval.live.updates import AudioSide
from live_eval.timing import ResponseStatus

MS = 1_000_000
RATE = 24_000
CODEC = Codec(CodecName.PCM16, RATE)


class Speaker:
    """An output device that keeps what it plays, by the value of the samples."""

    def __init__(self) -> None:
        self.played: list[tuple[int, int]] = []
        self.drops = 0

    def play(self, side: AudioSide, pcm: NDArray[np.int16], rate_hz: int, *, paced: bool = False) -> None:
        assert side is AudioSide.REPLY
        self.played.append((int(pcm[0]), round(1000 * len(pcm) / rate_hz)))

    def drop(self) -> None:
        self.drops += 1


class Endpoints:
    """Endpoints whose replies have samples of 1,000 (the first endpoint), 2,000, and so on."""

    def __init__(self, number: int) -> None:
        self.now_ns = 0
        self.speaker = Speaker()
        self.room = Room(self.speaker, lambda: self.replies, lambda: self.now_ns)
        self.replies: Sequence[IncomingReply] = [
            IncomingReply(EndpointSink(self.room, place)) for place in range(number)
        ]

    def say(self, place: int, ms: int, *, done: bool = True) -> None:
        pcm = np.full(RATE * ms // 1000, 1_000 * (place + 1), "<i2")
        self.replies[place].event(ReplyAudio("r", pcm.tobytes(), CODEC), self.now_ns)
        if done:
            self.replies[place].event(ResponseDone("r", ResponseStatus.COMPLETED), self.now_ns)

    def at(self, ms: int) -> None:
        self.now_ns = ms * MS
        self.room.advance(self.now_ns)


def test_the_room_hears_the_chosen_endpoint_and_switches_in_the_middle_of_replies() -> None:
    here = Endpoints(2)
    here.say(0, 500)
    here.say(1, 800)
    assert here.speaker.played == [(1_000, 500)]
    assert here.room.plays(400 * MS)
    here.at(200)
    here.room.choose(1)
    assert here.speaker.drops == 1
    assert here.speaker.played[1:] == [(2_000, 600)]
    here.room.choose(1)  # no change
    assert len(here.speaker.played) == 2
    assert here.room.plays(790 * MS)
    assert not here.room.plays(900 * MS)


def test_a_reply_of_an_unheard_endpoint_drops_nothing() -> None:
    here = Endpoints(2)
    here.say(0, 500)
    here.say(1, 500, done=False)
    here.replies[1].event(Interrupted("r"), 100 * MS)
    assert here.speaker.drops == 0
    here.replies[0].event(Interrupted("r"), 100 * MS)


def test_all_replies_are_played_in_the_order_of_arrival() -> None:
    here = Endpoints(3)
    here.room.choose(None)
    here.at(10)
    here.say(1, 300, done=False)
    here.at(50)
    here.say(0, 200)
    here.say(1, 300)
    here.say(2, 100)
    assert here.speaker.played == [(2_000, 300), (2_000, 300)]
    here.at(400)
    assert len(here.speaker.played) == 2
    here.at(620)
    assert here.speaker.played[2:] == [(1_000, 200)]
    assert here.room.current == 0, "although its reply, if played on arrival, would have ended at 250 ms"
    assert here.room.audio.between(700 * MS, 710 * MS, RATE).max() == 1_000
    here.at(820)
    assert here.speaker.played[3:] == [(3_000, 100)]
    here.at(900)
    assert here.room.current == 2
    assert here.room.plays(900 * MS)
    here.at(920)
    assert here.room.current is None
    assert not here.room.plays(920 * MS)


def test_silence_of_a_track_is_no_reply_and_speech_over_replies_drops_all() -> None:
    here = Endpoints(2)
    here.room.choose(None)
    here.room.play(1, np.zeros(480, np.int16), RATE, paced=True)
    here.say(0, 300)
    here.say(1, 300)
    assert here.speaker.played == [(1_000, 300)]
    before = here.speaker.drops
    here.room.silence()
    here.at(500)
    assert here.speaker.drops == before + 1
    assert here.speaker.played == [(1_000, 300)]
    assert not here.room.plays(500 * MS)


def test_the_current_endpoint_is_the_chosen_one_or_the_one_that_plays() -> None:
    here = Endpoints(2)
    assert here.room.current == 0
    here.room.choose(None)
    assert here.room.current is None
    here.say(1, 500)
    here.say(0, 500)
    assert here.room.current == 1


def test_silence_at_the_end_of_a_reply_is_played_but_not_speech() -> None:
    here = Endpoints(1)
    speech = np.concatenate((np.full(RATE // 2, 1_000), np.zeros(RATE // 2))).astype("<i2")
    here.replies[0].event(ReplyAudio("r", speech.tobytes(), CODEC), 0)
    here.replies[0].event(ResponseDone("r", ResponseStatus.COMPLETED), 0)
    assert here.room.speaks(499 * MS)
    assert here.room.plays(900 * MS)
    assert not here.room.speaks(501 * MS)
