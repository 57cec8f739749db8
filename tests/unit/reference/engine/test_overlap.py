"""The script for overlapping speech, with the engine and without sockets."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from live_eval.audio import Codec, CodecName
from live_eval.reference.engine.engine import Engine, EngineConfig
from live_eval.reference.engine.events import (
    AudioPiece,
    DropUnplayed,
    FindReply,
    Output,
    Problem,
    Reaction,
    ResponseCreated,
    ResponseEnded,
    UserUtterance,
)
from live_eval.reference.engine.reply_plan import GeneratedReply, ReplyPacker, WireReply
from live_eval.reference.engine.signals import calibration_reply
from live_eval.reference.settings import AfterStop, Cadence, OnBackchannel, ReferenceSettings
from live_eval.timing import ResponseStatus
from tests.support.marked_utterances import marked_utterance

MS = 1_000_000
PCM_24K = Codec(CodecName.PCM16, 24_000)
REPLY_MS = 3_000


class At(NamedTuple):
    ms: int
    output: Output


class Host:
    """A host that sends 20 ms frames to an engine and performs due work."""

    def __init__(self, **settings: Any) -> None:
        self.engine = Engine(
            "sess_0123456789abcdef",
            ReferenceSettings(calibrate=True, delay_ms=200, **settings),
            EngineConfig(),
            waits_for_words=False,
        )
        self.said: list[At] = []
        self._frames: dict[int, bytes] = {}

    def speak(self, at_ms: int, *sounds_ms: int, pauses_ms: tuple[int, ...] = ()) -> None:
        """Plan an utterance whose first sample arrives at `at_ms`."""
        pcm = marked_utterance(sounds_ms, pauses_ms).audio.int16().astype("<i2")
        for number, begin in enumerate(range(0, len(pcm), 480)):
            self._frames[at_ms + 20 * number] = pcm[begin : begin + 480].tobytes()

    def run(self, until_ms: int) -> None:
        for now_ms in range(until_ms):
            if now_ms % 20 == 0:
                self._take(now_ms, self.engine.audio(self._frames.get(now_ms, bytes(960)), now_ms * MS))
            while is_due(self.engine.wake_ns, now_ms) or is_due(self.engine.reacts_ns, now_ms):
                self._take(now_ms, self.engine.due(now_ms * MS))
                self._take(now_ms, self.engine.react(now_ms * MS))

    def _take(self, at_ms: int, outputs: list[Output]) -> None:
        for output in outputs:
            self.said.append(At(at_ms, output))
            if isinstance(output, FindReply):
                self._take(at_ms, self.engine.reply(output.response_id, reply(), at_ms * MS))

    def times(self, kind: type) -> list[int]:
        return [at.ms for at in self.said if isinstance(at.output, kind)]

    def ended(self) -> list[tuple[int, ResponseStatus]]:
        return [
            (at.ms, at.output.response.status) for at in self.said if isinstance(at.output, ResponseEnded)
        ]

    def utterances(self) -> list[UserUtterance]:
        return [at.output for at in self.said if isinstance(at.output, UserUtterance)]

    def reactions(self) -> list[Reaction | None]:
        return [utterance.reaction for utterance in self.utterances()]


def is_due(at_ns: int | None, now_ms: int) -> bool:
    return at_ns is not None and at_ns <= now_ms * MS


def reply(duration_ms: int = REPLY_MS) -> WireReply:
    return ReplyPacker(codec=PCM_24K, lead_silence_ms=0, chunk_ms=100, encode=bytes).pack(
        GeneratedReply("One two three.", calibration_reply(duration_ms), 0)
    )


def talking(**settings: Any) -> Host:
    """Return a host whose first reply is audible from 1,200 to 4,200 ms."""
    host = Host(**settings)
    host.speak(400, 600)
    return host


@pytest.mark.parametrize("cadence", list(Cadence))
@pytest.mark.parametrize("stop_ms", [0, 7, 300, 1_500])
def test_a_reply_stops_at_the_configured_time(stop_ms: int, cadence: Cadence) -> None:
    host = talking(stop_ms=stop_ms, cadence=cadence)
    host.speak(2_000, 800)
    host.run(8_000)
    assert host.ended() == [
        (2_000 + stop_ms, ResponseStatus.CANCELLED),
        (max(2_800 + 200, 2_000 + stop_ms) + REPLY_MS, ResponseStatus.COMPLETED),
    ]
    assert host.times(DropUnplayed) == [2_000 + stop_ms]
    first, second = host.utterances()
    assert (first.over, first.reaction, first.onset_ns) == ("", None, 400 * MS)
    assert (second.reaction, second.onset_ns) == (Reaction.STOPPED, 2_000 * MS)
    assert second.end is not None
    assert (second.end.at_ns, second.end.by) == (2_800 * MS, "mark")
    assert not any(isinstance(at.output, Problem) for at in host.said)


def test_an_uninterruptible_reply_is_followed_by_the_answer() -> None:
    host = talking(stop_ms="never")
    host.speak(2_000, 800)
    host.run(9_000)
    assert host.ended() == [(4_200, ResponseStatus.COMPLETED), (7_200, ResponseStatus.COMPLETED)]
    assert host.reactions() == [None, Reaction.KEPT_TALKING]
    created = [at.output.response for at in host.said if isinstance(at.output, ResponseCreated)]
    assert [response.utterance for response in created] == [0, 1]


def test_a_reply_may_end_before_it_is_stopped() -> None:
    host = talking(stop_ms=1_000)
    host.speak(3_800, 600)
    host.run(8_000)
    assert host.ended()[0] == (4_200, ResponseStatus.COMPLETED)
    assert host.reactions() == [None, Reaction.ENDED]
    assert host.times(ResponseCreated)[1] == 4_400  # the user is answered after they have spoken
    assert host.times(DropUnplayed) == []


def test_without_a_script_a_reply_stops_at_once() -> None:
    host = talking(cadence=Cadence.REALTIME)
    host.speak(2_000, 800)
    host.run(3_000)
    assert host.ended() == [(2_000, ResponseStatus.CANCELLED)]
    assert host.reactions() == [None, Reaction.STOPPED]


@pytest.mark.parametrize("stop_ms", ["never", 1_000])
def test_a_backchannel_is_ignored(stop_ms: int | str) -> None:
    host = talking(stop_ms=stop_ms, on_backchannel=OnBackchannel.IGNORE)
    host.speak(2_000, 400)
    host.run(9_000)
    assert host.ended() == [(4_200, ResponseStatus.COMPLETED)]
    assert host.reactions() == [None, Reaction.IGNORED]
    assert len(host.times(ResponseCreated)) == 1


def test_longer_speech_is_not_a_backchannel() -> None:
    host = talking(stop_ms=1_500, on_backchannel=OnBackchannel.IGNORE)
    host.speak(2_000, 1_200)
    host.run(8_000)
    assert host.ended()[0] == (3_500, ResponseStatus.CANCELLED)
    assert host.times(ResponseCreated)[1] == 3_500
    assert host.reactions() == [None, Reaction.STOPPED]


def test_a_backchannel_stops_a_reply_by_default() -> None:
    host = talking(stop_ms=600)
    host.speak(2_000, 400)
    host.run(8_000)
    assert host.ended()[0] == (2_600, ResponseStatus.CANCELLED)


def test_a_backchannel_that_silence_ends_is_ignored() -> None:
    host = talking(stop_ms=500, backchannel_ms=500, on_backchannel=OnBackchannel.IGNORE, end_silence_ms=300)
    host.speak(2_000, 400)
    host.run(9_000)
    assert host.reactions() == [None, Reaction.IGNORED]
    assert host.ended() == [(1_000 + 300 + REPLY_MS, ResponseStatus.COMPLETED)]


def test_a_stopped_reply_resumes_after_the_user_has_spoken() -> None:
    host = talking(stop_ms=350, after_stop=AfterStop.RESUME)
    host.speak(2_000, 800)
    host.run(8_000)
    # It was stopped at 2,350 ms, 1,150 ms into the reply; the chunk that began at 1,100 ms is repeated.
    assert host.ended() == [
        (2_350, ResponseStatus.CANCELLED),
        (3_000 + REPLY_MS - 1_100, ResponseStatus.COMPLETED),
    ]
    first, second = [at.output.response for at in host.said if isinstance(at.output, ResponseCreated)]
    assert (second.resumes, second.utterance) == (first.response_id, 1)
    pieces = [at.output for at in host.said if isinstance(at.output, AudioPiece)]
    assert {piece.onset_sample for piece in pieces if piece.response is second} == {0}


@pytest.mark.parametrize(("pause_ms", "answered"), [(380, False), (480, True)])
def test_a_pause_longer_than_the_patience_is_answered(pause_ms: int, answered: bool) -> None:
    host = Host(end_silence_ms=400, stop_ms=100)
    host.speak(400, 600, 600, pauses_ms=(pause_ms,))
    host.run(8_000)
    ends = [utterance.end for utterance in host.utterances()]
    assert [end.by for end in ends if end is not None] == (["silence", "mark"] if answered else ["mark"])
    assert host.times(ResponseCreated)[0] == (1_000 + 400 if answered else 1_600 + pause_ms + 400)
    if answered:
        # The silence ends with the frame that contains the next sample, which stops the reply.
        assert host.ended()[0] == (1_000 + pause_ms + 100, ResponseStatus.CANCELLED)


def test_speaking_over_the_user_is_the_answer() -> None:
    host = Host(talk_over_ms=250)
    host.speak(400, 1_000)
    host.run(8_000)
    (created,) = [at for at in host.said if isinstance(at.output, ResponseCreated)]
    assert isinstance(created.output, ResponseCreated)
    assert created.ms == 650
    assert created.output.response.talks_over
    assert created.output.response.utterance == 0
    assert host.times(AudioPiece)[0] == 650
    assert host.reactions() == [None]


def test_it_does_not_speak_over_a_user_who_has_finished() -> None:
    host = Host(talk_over_ms=900)
    host.speak(400, 500)
    host.run(3_000)
    assert host.times(ResponseCreated) == [900]
    assert host.times(AudioPiece)[0] == 1_100


def test_an_unfinished_utterance_is_returned_at_the_end() -> None:
    host = talking(stop_ms="never")
    host.speak(2_000, 800)
    host.run(2_100)
    (left,) = host.engine.utterances_left()
    assert (left.number, left.end, left.reaction) == (1, None, None)
    assert host.engine.utterances_left() == []


@pytest.mark.parametrize(
    ("settings", "config", "said"),
    [
        ({"stop_ms": 5}, {"detection": None}, "turn detection"),
        ({"end_silence_ms": 500}, {"detection": None}, "turn detection"),
        ({"stop_ms": 5}, {"interrupt_response": False}, "stop_ms=5 requires"),
        ({"talk_over_ms": 5}, {"create_response": False}, "answered"),
        ({"stop_ms": "never"}, {"interrupt_response": False}, None),
        ({}, {"detection": None}, None),
    ],
)
def test_settings_that_rule_out_the_script_are_refused(
    settings: dict[str, Any], config: dict[str, Any], said: str | None
) -> None:
    found = Host(**settings).engine.refusal(EngineConfig(**config))
    assert found is None if said is None else said in (found or "")


def test_the_rest_of_a_reply_starts_at_a_chunk() -> None:
    whole = reply(1_000)
    assert whole.rest(1_000 * MS) is None
    rest = whole.rest(250 * MS)
    assert rest is not None
    assert (len(rest.chunks), rest.onset_sample, rest.text) == (8, 0, "One two three.")
    assert rest.ends is not None
    assert np.flatnonzero(rest.ends)[-1] == 19_200 - 1


def test_a_stop_applies_only_to_its_own_reply() -> None:
    host = talking(stop_ms=1_000)
    host.speak(2_000, 400)
    host.run(2_600)
    ended = [*host.engine.cancel(None), *host.engine.respond(2_600 * MS)]
    assert [output.reaction for output in ended if isinstance(output, UserUtterance)] == [Reaction.ENDED]
    assert host.engine.reacts_ns is None
