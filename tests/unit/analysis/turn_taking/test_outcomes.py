"""Outcomes and durations of trials, in hand-written conversations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from live_eval.analysis.turn_taking import tau2
from live_eval.analysis.turn_taking.outcomes import DURATIONS, Outcome, Rule, judge, rule_of, unspoken
from live_eval.analysis.turn_taking.speech import AgentSpeech, Conversation, Stretch, UserSpeech
from live_eval.types import Anchor, AnchorKind, Case, SpeechKind, SpokenPart, Variant

MS = 1_000_000
START = 7_000 * MS  # the axis is absolute


def stretch(start_ms: int, end_ms: int) -> Stretch:
    return Stretch(START + start_ms * MS, START + end_ms * MS)


def says(*sounds: tuple[int, int], kind: SpeechKind = SpeechKind.TURN) -> UserSpeech:
    return UserSpeech(kind=kind, sounds=tuple(stretch(*sound) for sound in sounds))


def replies(*sounds: tuple[int, int], **rest: Any) -> AgentSpeech:
    for name in ("created_ns", "cancelled_ns"):
        if name in rest:
            rest[name] = START + rest[name] * MS
    return AgentSpeech(response_id="r", sounds=tuple(stretch(*sound) for sound in sounds), **rest)


def talk(user: list[UserSpeech], agent: list[AgentSpeech], stopped: tuple[int, ...] = ()) -> Conversation:
    return Conversation(
        start_ns=START,
        end_ns=START + 20_000 * MS,
        user=tuple(user),
        agent=tuple(agent),
        speech_stopped_ns=tuple(START + at * MS for at in stopped),
    )


def ms(durations: Any, name: str) -> float | None:
    value = durations[name]
    return None if value is None else value / MS


ASKED = says((0, 1000))
STOP = says((3000, 4000))  # 1 s over a reply that began at 2 s
OVER = SpeechKind.BACKCHANNEL


# -- Answers and pauses --------------------------------------------------------------------------------


def test_an_answer_is_timed_from_the_last_sample_of_the_user() -> None:
    found = judge(talk([ASKED], [replies((1600, 3000), created_ns=1500)], (1450,)), Rule.ANSWER)
    assert found.outcome is Outcome.ANSWERED
    assert ms(found.durations_ns, "response_latency") == 600
    assert found.marks_ns["reply_onset"] == START + 1600 * MS
    assert found.talk_ratio == pytest.approx(1.4)


def test_a_greeting_is_not_an_answer() -> None:
    user = [says((2000, 3000))]
    assert judge(talk(user, [replies((0, 1500), created_ns=0)]), Rule.ANSWER).outcome is Outcome.NO_REPLY


def test_silence_is_not_a_reply() -> None:
    assert judge(talk([ASKED], []), Rule.ANSWER).outcome is Outcome.NO_REPLY
    found = judge(talk([ASKED], [replies(created_ns=1500)]), Rule.ANSWER)
    assert found.outcome is Outcome.NO_REPLY, "a response without sound"


PAUSING = says((0, 1000), (2000, 3000))


def test_an_endpoint_that_is_silent_through_the_pause_has_waited() -> None:
    found = judge(talk([PAUSING], [replies((3700, 5000), created_ns=3600)], (3500,)), Rule.PAUSE)
    assert found.outcome is Outcome.WAITED
    assert ms(found.durations_ns, "response_latency") == 700
    assert found.durations_ns["pause_endpointing"] is None


@pytest.mark.parametrize(
    ("agent", "stopped", "waited_ms"),
    [
        # It ends the turn in the gap and answers late; other benchmarks would pass it.
        ([replies((3900, 5000), created_ns=3800)], (1380,), 380),
        ([replies((3900, 5000), created_ns=1500)], (), 500),
        ([replies((1900, 2500))], (), 900),
        ([replies((2500, 4000), created_ns=2500)], (), 1500),
    ],
    ids=["turn ended", "response created", "heard", "heard while part 2 is spoken"],
)
def test_an_endpoint_that_takes_a_pause_for_the_end_is_premature(
    agent: list[AgentSpeech], stopped: tuple[int, ...], waited_ms: int
) -> None:
    found = judge(talk([PAUSING], agent, stopped), Rule.PAUSE)
    assert found.outcome is Outcome.PREMATURE
    assert ms(found.durations_ns, "pause_endpointing") == waited_ms
    assert found.reason


# -- Interruptions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("silent_ms", "reported_ms", "stop_ms"),
    [
        (3015, 3015, 15),  # pipecat's bot, which detects speech by its energy
        (3001, 3021, 1),
        (3046, 3046, 46),
        (3049, None, None),  # its own pause or end
        (3015, 3036, None),  # it was silent before it was stopped
        (3015, 2990, None),  # stopped before the user spoke
        (3000, 3000, None),
        (3050, None, 50),
    ],
)
def test_a_stop_within_50_ms_counts_if_the_endpoint_reports_it(
    silent_ms: int, reported_ms: int | None, stop_ms: int | None
) -> None:
    reported = {} if reported_ms is None else {"cancelled_ns": reported_ms}
    agent = [replies((2000, silent_ms), completed=False, **reported)]
    found = judge(talk([ASKED, STOP], agent), Rule.INTERRUPTION)
    assert (found.outcome is Outcome.NOT_OVERLAPPING) == (stop_ms is None)
    assert ms(found.durations_ns, "audible_stop") == stop_ms
    if stop_ms is not None:
        assert found.outcome is (Outcome.FELL_SILENT if reported_ms is None else Outcome.YIELDED)


def test_a_reply_that_is_stopped_in_time_has_yielded() -> None:
    stopped = replies((2000, 3400), cancelled_ns=3300, completed=False, discarded_ns=5000 * MS)
    found = judge(talk([ASKED, STOP], [stopped, replies((4800, 6000), created_ns=4700)]), Rule.INTERRUPTION)
    assert found.outcome is Outcome.YIELDED
    expected = {
        "anchor": 1000,
        "audible_stop": 400,
        "provider_stop": 300,
        "heard_after_word": 100,
        "discarded": 5000,
        "new_reply": 800,
        "overlap": 400,
    }
    assert {name: ms(found.durations_ns, name) for name in expected} == expected


def test_a_reply_that_is_stopped_late_has_kept_talking() -> None:
    stopped = replies((2000, 5100), cancelled_ns=5100, completed=False)
    found = judge(talk([ASKED, STOP], [stopped]), Rule.INTERRUPTION)
    assert found.outcome is Outcome.KEPT_TALKING
    assert ms(found.durations_ns, "audible_stop") == 2100
    assert found.durations_ns["new_reply"] is None


def test_a_reply_that_never_stops_has_no_stop_duration() -> None:
    found = judge(talk([ASKED, STOP], [replies((2000, 9000))]), Rule.INTERRUPTION)
    assert found.outcome is Outcome.KEPT_TALKING
    assert found.durations_ns["audible_stop"] is None
    assert ms(found.durations_ns, "overlap") == 1000


def test_an_interruption_of_a_reply_that_had_ended_is_void() -> None:
    found = judge(talk([ASKED, STOP], [replies((2000, 3500))]), Rule.INTERRUPTION)
    assert (found.outcome, found.outcome.void) == (Outcome.NATURAL_END, True)
    before = judge(talk([ASKED, STOP], [replies((2000, 2900))]), Rule.INTERRUPTION)
    assert (before.outcome, before.outcome.void) == (Outcome.NOT_OVERLAPPING, True)


def test_without_an_event_a_silent_reply_may_have_stopped_or_ended() -> None:
    found = judge(talk([ASKED, STOP], [replies((2000, 3500), completed=False)]), Rule.INTERRUPTION)
    assert (found.outcome, found.outcome.void) == (Outcome.FELL_SILENT, False)
    assert ms(found.durations_ns, "audible_stop") == 500


def test_what_may_be_the_rest_of_a_reply_is_no_new_reply() -> None:
    unsure = replies((2000, 5100), unsure="it may be its own pause")
    found = judge(talk([ASKED, STOP], [unsure, replies((5900, 9000))]), Rule.INTERRUPTION)
    assert found.outcome is Outcome.KEPT_TALKING
    assert found.durations_ns["new_reply"] is None
    assert "new_reply" not in found.marks_ns


@pytest.mark.parametrize("rule", [Rule.INTERRUPTION, Rule.BACKCHANNEL])
@pytest.mark.parametrize(
    ("sounds", "cancelled_ms", "n", "why"),
    [
        (((2000, 2900),), 3200, 0, "paused"),
        (((2000, 2668),), 3200, 0, "paused"),
        (((2000, 2990), (3110, 9000)), 3200, 0, "paused"),  # in one of tau2's ticks
        (((2000, 2900), (3200, 9000)), None, 0, "paused"),
        (((2000, 2900),), None, 0, "had ended"),
        (((2000, 3100),), 3200, 1, ""),
        (((2000, 3100), (3900, 9000)), None, 1, ""),
    ],
)
def test_an_utterance_over_a_pause_of_the_reply_is_void_and_no_event_of_published_metrics(
    rule: Rule, sounds: tuple[tuple[int, int], ...], cancelled_ms: int | None, n: int, why: str
) -> None:
    marks = {} if cancelled_ms is None else {"cancelled_ns": cancelled_ms}
    interrupts = rule is Rule.INTERRUPTION
    user = [ASKED, STOP if interrupts else says((3000, 4000), kind=OVER)]
    spoken = talk(user, [replies(*sounds, completed=False, **marks)])
    found = judge(spoken, rule)
    assert (found.outcome is Outcome.NOT_OVERLAPPING) == (not n)
    assert why in found.reason
    assert (ms(found.durations_ns, "audible_stop") or 1) > 0
    assert ms(found.durations_ns, "provider_stop") == (200 if cancelled_ms else None)
    metric = tau2.metrics([spoken])["R_Y" if interrupts else "S_BC"]
    assert (metric.n, metric.n_corrected) == (n, n)


def test_pauses_within_the_reply_do_not_overlap() -> None:
    found = judge(talk([ASKED, STOP], [replies((2000, 3200), (3500, 9000))]), Rule.INTERRUPTION)
    assert ms(found.durations_ns, "overlap") == 700


def test_at_a_simultaneous_start_the_reply_may_begin_a_little_later() -> None:
    both = [ASKED, says((1990, 3000))]
    found = judge(talk(both, [replies((2000, 2500), cancelled_ns=2500, completed=False)]), Rule.INTERRUPTION)
    assert found.outcome is Outcome.YIELDED
    assert ms(found.durations_ns, "anchor") == -10


# -- Reactions -----------------------------------------------------------------------------------------

HUM = says((3000, 3400), kind=SpeechKind.BACKCHANNEL)


def test_a_reply_continues_over_a_backchannel() -> None:
    found = judge(talk([ASKED, HUM], [replies((2000, 9000))]), Rule.BACKCHANNEL)
    assert found.outcome is Outcome.KEPT_TALKING


def test_an_endpoint_silenced_by_a_backchannel_has_failed() -> None:
    stopped = replies((2000, 3200), cancelled_ns=3200, completed=False, discarded_ns=MS)
    found = judge(talk([ASKED, HUM], [stopped]), Rule.BACKCHANNEL)
    assert (found.outcome, found.outcome.void) == (Outcome.YIELDED, False)
    assert found.outcome not in Rule.BACKCHANNEL.passes


def test_a_backchannel_that_is_answered_has_triggered() -> None:
    agent = [replies((2000, 5000)), replies((6000, 7000), created_ns=5900)]
    assert judge(talk([ASKED, HUM], agent), Rule.BACKCHANNEL).outcome is Outcome.TRIGGERED


def test_only_a_natural_end_makes_a_backchannel_void() -> None:
    assert judge(talk([ASKED, HUM], [replies((2000, 3300))]), Rule.BACKCHANNEL).outcome.void
    outlasts = judge(talk([ASKED, HUM], [replies((2000, 3600))]), Rule.BACKCHANNEL)
    assert outlasts.outcome is Outcome.KEPT_TALKING
    silent = judge(talk([ASKED, HUM], [replies((2000, 3600), completed=False)]), Rule.BACKCHANNEL)
    assert silent.outcome is Outcome.FELL_SILENT


def test_the_answer_to_the_turn_before_is_not_triggered() -> None:
    aside = says((1200, 1600), kind=SpeechKind.NON_DIRECTED)
    answer, more = replies((2200, 4000), created_ns=2100), replies((5000, 6000), created_ns=4900)
    found = judge(talk([ASKED, aside], [answer]), Rule.FALSE_TRIGGER)
    assert (found.outcome, found.triggers) == (Outcome.IGNORED, 0)
    found = judge(talk([ASKED, aside], [answer, more]), Rule.FALSE_TRIGGER)
    assert (found.outcome, found.triggers) == (Outcome.TRIGGERED, 1)
    at_once = replies((1150, 4000), created_ns=1100)
    assert judge(talk([ASKED, aside], [at_once, more]), Rule.FALSE_TRIGGER).outcome is Outcome.TRIGGERED


def test_utterances_that_need_no_response_are_ignored_or_trigger_one() -> None:
    noise = says((0, 20_000), kind=SpeechKind.NOISE)
    ignored = judge(talk([noise], []), Rule.FALSE_TRIGGER)
    assert (ignored.outcome, ignored.triggers) == (Outcome.IGNORED, 0)
    agent = [replies((4000, 5000), created_ns=3500), replies((9000, 9500))]
    triggered = judge(talk([noise], agent), Rule.FALSE_TRIGGER)
    assert (triggered.outcome, triggered.triggers) == (Outcome.TRIGGERED, 2)
    assert ms(triggered.durations_ns, "trigger") == 3500


CLICK = says((1200, 1400), kind=SpeechKind.NOISE)


@pytest.mark.parametrize(
    ("agent", "outcome", "latency_ms"),
    [
        ([replies((1800, 3000))], Outcome.ANSWERED, 800),
        ([replies(cancelled_ns=1300, created_ns=1100), replies((2600, 3000))], Outcome.ANSWERED, 1600),
        ([], Outcome.NO_REPLY, None),
        ([replies((1800, 3000)), replies((4500, 5000))], Outcome.TRIGGERED, 800),
        ([replies((900, 3000))], Outcome.PREMATURE, -100),
        ([replies((1100, 3000))], Outcome.ANCHOR_MISSED, 100),
        ([replies((-900, -300))], Outcome.NO_REPLY, None),
    ],
    ids=["answered", "begun again", "swallowed", "answered twice", "premature", "too fast", "greeting"],
)
def test_a_sound_between_a_question_and_its_reply(
    agent: list[AgentSpeech], outcome: Outcome, latency_ms: float | None
) -> None:
    found = judge(talk([ASKED, CLICK], agent), Rule.BEFORE_REPLY)
    assert found.outcome is outcome
    latency_ns = found.durations_ns.get("response_latency")
    assert latency_ns == (None if latency_ms is None else latency_ms * MS)


def test_a_reply_that_a_backchannel_silenced_may_resume() -> None:
    stopped = replies((2000, 3300), cancelled_ns=3300, completed=False)
    again = judge(talk([ASKED, HUM], [stopped, replies((4500, 9000), created_ns=4400)]), Rule.BACKCHANNEL)
    assert (again.outcome, ms(again.durations_ns, "resume")) == (Outcome.YIELDED, 1200)
    never = judge(talk([ASKED, HUM], [stopped]), Rule.BACKCHANNEL)
    assert (never.outcome, never.durations_ns["resume"]) == (Outcome.YIELDED, None)
    kept = judge(talk([ASKED, HUM], [replies((2000, 9000))]), Rule.BACKCHANNEL)
    assert kept.durations_ns["resume"] is None


def test_a_sound_right_after_a_question_is_before_the_reply() -> None:
    at_once = Anchor(AnchorKind.UTTERANCE_ENDED, 200 * MS)
    asked = Case(case_id="a", script_id="a", variant=Variant.TARGET, audio_path=Path("a.wav"))
    sound = replace(asked, speech=SpeechKind.NOISE, anchor=at_once)
    assert rule_of([asked, sound]) is Rule.BEFORE_REPLY
    assert rule_of([sound]) is Rule.FALSE_TRIGGER
    assert rule_of([asked, sound, sound]) is Rule.FALSE_TRIGGER


# -- Rules ---------------------------------------------------------------------------------------------

_OVER_REPLY = Anchor(AnchorKind.REPLY_AUDIBLE, 900 * MS)
_AFTER_REPLY = Anchor(AnchorKind.REPLY_ENDED, 600 * MS)
_TWO_PARTS = (SpokenPart(0, 300 * MS), SpokenPart(500 * MS, 900 * MS))
_FLUENT = (SpokenPart(0, 300 * MS), SpokenPart(380 * MS, 900 * MS))


@pytest.mark.parametrize(
    ("speech", "anchor", "parts", "rule"),
    [
        (SpeechKind.TURN, None, (), Rule.ANSWER),
        (SpeechKind.TURN, _AFTER_REPLY, (), Rule.ANSWER),
        (SpeechKind.TURN, None, _TWO_PARTS, Rule.PAUSE),
        (SpeechKind.TURN, None, _FLUENT, Rule.ANSWER),
        (SpeechKind.TURN, _OVER_REPLY, _TWO_PARTS, Rule.INTERRUPTION),
        (SpeechKind.VOCAL_TIC, _OVER_REPLY, (), Rule.BACKCHANNEL),
        (SpeechKind.NON_DIRECTED, _AFTER_REPLY, (), Rule.FALSE_TRIGGER),
        (SpeechKind.NOISE, None, (), Rule.FALSE_TRIGGER),
    ],
)
def test_the_rule_follows_from_the_utterances(
    speech: SpeechKind, anchor: Anchor | None, parts: tuple[SpokenPart, ...], rule: Rule
) -> None:
    case = Case(
        case_id="a",
        script_id="a",
        variant=Variant.TARGET,
        audio_path=Path("a.wav"),
        speech=speech,
        anchor=anchor,
        parts=parts,
    )
    assert rule_of([case]) is rule


def test_a_trial_whose_last_utterance_was_never_due() -> None:
    assert unspoken(None).outcome is Outcome.NO_REPLY
    assert unspoken(talk([ASKED], [])).outcome is Outcome.NO_REPLY
    assert unspoken(talk([ASKED], [replies((2000, 90_000))])).outcome is Outcome.NOT_OVERLAPPING


def test_every_duration_that_a_rule_yields_is_defined() -> None:
    for rule in Rule:
        found = judge(talk([ASKED, STOP], [replies((2000, 3400))]), rule)
        assert set(found.durations_ns) <= set(DURATIONS)
