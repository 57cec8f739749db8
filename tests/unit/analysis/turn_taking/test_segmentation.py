"""Grouping of audio into replies, in hand-written conversations."""

from dataclasses import replace

import pytest

from live_eval.analysis.turn_taking.segmentation import OwnReplies, own_replies, segmented
from live_eval.analysis.turn_taking.speech import AgentSpeech, Conversation, UserSpeech
from live_eval.types import SpeechKind
from tests.unit.analysis.turn_taking.test_outcomes import ASKED, MS, START, STOP, replies, says, talk

SILENCE = 1500 * MS
OWN = OwnReplies(SILENCE, lengths_ns=(9_000 * MS,) * 3, longest_pause_ns=800 * MS, answers_ns=(500 * MS,) * 3)
HUM = says((3000, 3400), kind=SpeechKind.BACKCHANNEL)


def stream(user: list[UserSpeech], *agent: AgentSpeech) -> Conversation:
    return replace(talk(user, list(agent)), continuous=True)


def sounds(conversation: Conversation) -> list[list[tuple[int, int]]]:
    return [
        [((start - START) // MS, (end - START) // MS) for start, end in each.sounds]
        for each in conversation.agent
    ]


@pytest.mark.parametrize(
    ("user", "heard", "found"),
    [
        (HUM, [[(2000, 3200), (3600, 9000)]], [[(2000, 3200), (3600, 9000)]]),
        (HUM, [[(2000, 3200), (3780, 9000)]], [[(2000, 3200), (3780, 9000)]]),  # sooner than an answer
        (HUM, [[(2000, 3200), (4300, 9000)]], [[(2000, 3200)], [(4300, 9000)]]),
        (STOP, [[(2000, 3200), (4300, 9000)]], [[(2000, 3200)], [(4300, 9000)]]),
        (STOP, [[(2000, 3200)], [(3900, 9000)]], [[(2000, 3200), (3900, 9000)]]),
        (STOP, [[(2000, 3200)], [(4900, 9000)]], [[(2000, 3200)], [(4900, 9000)]]),
        (STOP, [[(2000, 2500), (4100, 9000)]], [[(2000, 2500)], [(4100, 9000)]]),
        (STOP, [[(2000, 2500), (3200, 9000)]], [[(2000, 2500), (3200, 9000)]]),
        (STOP, [[(2000, 5000)], [(5800, 9000)]], [[(2000, 5000), (5800, 9000)]]),  # it outlasts the user
        (STOP, [[(2000, 5100), (6400, 9000)]], [[(2000, 5100), (6400, 9000)]]),
        (STOP, [[(2000, 5100)], [(6600, 9000)]], [[(2000, 5100)], [(6600, 9000)]]),
        # It began while the user spoke: "mm-hm", then the answer.
        (STOP, [[(3300, 3600)], [(4200, 9000)]], [[(3300, 3600)], [(4200, 9000)]]),
        (STOP, [[(3300, 3600), (4200, 9000)]], [[(3300, 3600)], [(4200, 9000)]]),
        # The user did not speak over it.
        (ASKED, [[(1500, 3200), (4600, 9000)]], [[(1500, 3200), (4600, 9000)]]),
        (ASKED, [[(1500, 3200)], [(4600, 9000)]], [[(1500, 3200)], [(4600, 9000)]]),
    ],
)
def test_a_reply_lasts_until_something_other_than_its_own_pause_ends_it(
    user: UserSpeech, heard: list[list[tuple[int, int]]], found: list[list[tuple[int, int]]]
) -> None:
    conversation = stream([ASKED, user], *(replies(*each) for each in heard))
    assert sounds(segmented(conversation, OWN)) == found


def test_a_reply_that_the_session_divided_keeps_its_words_and_marks() -> None:
    first, second = replies((2000, 3200), text="Well,"), replies((3900, 9000), (9200, 9500), text="so.")
    again = replies((12_000, 13_000), text="Hello?")
    one, other = segmented(stream([ASKED, STOP], first, second, again), OWN).agent
    assert (one.text, other.text) == ("Well, so.", "Hello?")
    assert sounds(stream([], one)) == [[(2000, 3200), (3900, 9000), (9200, 9500)]]


@pytest.mark.parametrize("user", [HUM, STOP])
def test_a_reported_stop_ends_the_reply_before_it(user: UserSpeech) -> None:
    """A phone agent's `clear`, 60 ms after the user's onset, and another reply within one response."""
    reply = replace(replies((2000, 3100), (4200, 9000), text="Yes."), discarded_ns=400 * MS)
    stopped = replace(reply, cancelled_ns=START + 3060 * MS)
    first, second = segmented(stream([ASKED, user], stopped), OWN).agent
    assert sounds(stream([], first, second)) == [[(2000, 3100)], [(4200, 9000)]]
    assert (first.cancelled_ns, first.discarded_ns, first.unsure) == (START + 3060 * MS, 400 * MS, "")
    assert (second.cancelled_ns, second.discarded_ns) == (None, 0)


def test_a_stop_that_is_reported_later_belongs_to_the_later_reply() -> None:
    reply = replace(replies((2000, 2500), (4300, 9000)), cancelled_ns=START + 9000 * MS)
    first, second = segmented(stream([ASKED, STOP], reply), OWN).agent
    assert (first.cancelled_ns, second.cancelled_ns) == (None, START + 9000 * MS)


def test_an_endpoint_that_separates_its_replies_is_trusted() -> None:
    conversation = talk([ASKED, STOP], [replies((2000, 3200)), replies((3900, 9000))])
    assert segmented(conversation, OWN) is conversation


def test_only_uninterrupted_replies_show_the_endpoints_own_pauses() -> None:
    alone = stream([ASKED], replies((1500, 3000), (3700, 5000)))
    over = stream([ASKED, STOP], replies((1600, 3200), (4500, 9000)), replies((12_000, 13_000)))
    own = own_replies([alone, over], SILENCE)
    assert own == OwnReplies(SILENCE, (3500 * MS, 1000 * MS), 700 * MS, (500 * MS, 600 * MS))
    assert own.pause_limit_ns == 875 * MS
    assert not own.knows_pauses(0)


def test_a_network_stall_in_one_reply_is_not_an_own_pause() -> None:
    stalled = replace(OWN, longest_pause_ns=2400 * MS)
    conversation = stream([ASKED, STOP], replies((2000, 3200)), replies((4800, 9000)))
    assert len(segmented(conversation, stalled).agent) == 2
    assert segmented(conversation, stalled).agent[0].unsure == ""


def test_pauses_are_known_for_as_long_as_three_replies_lasted() -> None:
    own = OwnReplies(SILENCE, lengths_ns=(1000 * MS, 2000 * MS, 3000 * MS, 4000 * MS))
    assert own.knows_pauses(1999 * MS)
    assert not own.knows_pauses(2000 * MS)
    assert own.pause_limit_ns == 250 * MS


@pytest.mark.parametrize(
    ("resumes_ms", "found"),
    [(3440, [[(2000, 3200), (3440, 9000)]]), (3650, [[(2000, 3200)], [(3650, 9000)]])],
)
def test_an_endpoint_that_never_pauses_ends_its_reply_with_a_short_silence(
    resumes_ms: int, found: list[list[tuple[int, int]]]
) -> None:
    own = OwnReplies(
        SILENCE, lengths_ns=(9_000 * MS,) * 3, longest_pause_ns=120 * MS, answers_ns=(200 * MS,) * 3
    )
    conversation = stream([ASKED, HUM], replies((2000, 3200), (resumes_ms, 9000)))
    assert sounds(segmented(conversation, own)) == found


def test_a_stall_in_one_reply_of_ten_is_not_an_own_pause() -> None:
    plain = stream([ASKED], replies((1500, 3000), (3300, 5000)))
    stalled = stream([ASKED], replies((1500, 3000), (4200, 5000)))
    assert own_replies([stalled, *[plain] * 8], SILENCE).longest_pause_ns == 1200 * MS
    assert own_replies([stalled, *[plain] * 9], SILENCE).longest_pause_ns == 300 * MS


def test_the_rest_of_a_reply_that_was_spoken_over_shows_no_pauses() -> None:
    halves = stream([ASKED, HUM], replies((2000, 3600)), replies((4400, 9000)))
    assert own_replies([halves], SILENCE).lengths_ns == ()
    later = stream([ASKED, HUM], replies((2000, 3600)), replies((5200, 9000)))
    assert own_replies([later], SILENCE).lengths_ns == (3800 * MS,)
