"""Trials from runs over continuous media, where only silence separates replies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from live_eval.analysis.turn_taking.from_turns import conversation_of
from live_eval.analysis.turn_taking.outcomes import Judgement, Outcome, Rule
from live_eval.analysis.turn_taking.speech import Conversation
from live_eval.analysis.turn_taking.trial import Trial, TrialResult
from live_eval.analysis.turn_taking.trial_metrics import published_metrics
from live_eval.campaigns.duplex import trial_results
from live_eval.campaigns.duplex.summary import read_duplex
from live_eval.campaigns.duplex.trial_results import TrialReader, read_trials, to_repeat
from live_eval.errors import StoreError
from live_eval.recording import RunReader, RunWriter, TurnRecord
from live_eval.types import SpeechKind
from tests.support import duplex_campaigns as written

Sounds = Sequence[tuple[float, float]]
ASKED, OVER = (0, 1000), (2400, 3900)
"""A question, and an interruption of its answer."""
PAUSES = [(1500, 3100), (3870, 6000), (6770, 9000)]
"""An answer whose sentences are 770 ms apart."""


def played(
    folder: Path,
    replies_ms: Sequence[Sounds],
    own_ms: Sounds = PAUSES,
    *,
    own: int = 3,
    settings: Mapping[str, Any] | None = None,
) -> TrialResult:
    """Return an interruption with these responses, in a run with `own` uninterrupted answers."""
    questions = [
        ("response-latency", "", written.streamed(f"q-{number}", [ASKED], [own_ms])) for number in range(own)
    ]
    trial = ("barge-in", "900 ms", written.streamed("t", [ASKED, OVER], replies_ms))
    runs = {"clean": [*questions, trial]}
    campaign = read_duplex(written.write_duplex_campaign(folder / "c", runs, settings=settings))
    return campaign.trials["clean"][-1]


def stop_ms(trial: TrialResult) -> float | None:
    stop_ns = trial.judgement.durations_ns["audible_stop"]
    return None if stop_ns is None else round(stop_ns / 1e6)


@pytest.mark.parametrize(
    "replies_ms",
    [
        [PAUSES],
        [[(1500, 3100), (3870, 6000)]],  # until the end of the recording
        [[(1500, 3500)], [(4270, 9000)]],  # the session split it at the end of the user's speech
    ],
)
def test_a_bot_that_never_stops_has_kept_talking_through_its_own_pause(
    tmp_path: Path, replies_ms: Sequence[Sounds]
) -> None:
    trial = played(tmp_path, replies_ms)
    assert (trial.outcome, trial.passed) == (Outcome.KEPT_TALKING, False)
    assert stop_ms(trial) is None
    found = published_metrics([trial])
    assert (found["tau2.R_Y"].as_defined, found["tau2.R_Y"].corrected) == (0.0, 0.0)
    assert found["tau2.L_Y"].corrected is None


@pytest.mark.parametrize(
    ("stops_ms", "own_ms"),
    [(2500, [(1500, 9000)]), (2500, PAUSES), (3200, [(1500, 9000)]), (3200, PAUSES)],
)
def test_a_bot_that_stops_has_yielded_regardless_of_its_next_reply(
    tmp_path: Path, stops_ms: float, own_ms: Sounds
) -> None:
    """The reply stops at or 800 ms after the user's onset; the next begins 500 ms after the user's end."""
    one: list[Sounds] = [[(1500, stops_ms), (4400, 7000)]]
    two: list[Sounds] = [[(1500, stops_ms)], [(4400, 7000)]]
    for number, replies_ms in enumerate((one, two)):
        trial = played(tmp_path / str(number), replies_ms, own_ms)
        assert trial.outcome is Outcome.FELL_SILENT
        assert stop_ms(trial) == stops_ms - 2400
        assert round((trial.judgement.durations_ns["new_reply"] or 0) / 1e6) == 500
        found = published_metrics([trial])
        assert (found["tau2.R_Y"].corrected, found["tau2.R_Y"].n_corrected) == (1.0, 1)


def test_a_bot_that_does_not_resume_after_its_pause_has_yielded(tmp_path: Path) -> None:
    trial = played(tmp_path, [[(1500, 3100)], [(5000, 7000)]])
    assert (trial.outcome, stop_ms(trial)) == (Outcome.FELL_SILENT, 700)


@pytest.mark.parametrize(
    ("replies_ms", "n"),
    [
        ([[(1500, 2304)], [(4400, 7000)]], 0),  # it was −96 ms
        ([[(1500, 2300), (3070, 9000)]], 0),
        ([[(1500, 2500)], [(4400, 7000)]], 1),
        ([[(1500, 2411)]], 0),  # silent 11 ms after the user began: too soon for a reaction
        ([[(1500, 2411), (3180, 6000)]], 0),
        ([[(1500, 2460)]], 1),
    ],
)
def test_an_interruption_that_begins_in_a_pause_of_the_reply_is_void(
    tmp_path: Path, replies_ms: Sequence[Sounds], n: int
) -> None:
    trial = played(tmp_path, replies_ms)
    assert (trial.outcome is Outcome.NOT_OVERLAPPING, trial.passed is None) == (not n, not n)
    found = published_metrics([trial])
    assert (found["tau2.R_Y"].n, found["tau2.R_Y"].n_corrected) == (n, n)
    stop = trial.judgement.durations_ns["audible_stop"]
    assert stop is None or stop > 0


@pytest.mark.parametrize(
    ("own", "until_ms", "next_ms", "outcome"),
    [
        (1, 2500, 4400, Outcome.FELL_SILENT),  # silence of 1.9 s ends any reply
        (1, 2500, 3950, Outcome.UNKNOWN),
        (1, 3100, 3950, Outcome.UNKNOWN),
        (3, 2500, 3950, Outcome.FELL_SILENT),  # longer than any pause of its own
        (3, 3100, 3950, Outcome.KEPT_TALKING),  # too soon after the user for an answer
        (1, 3100, 3850, Outcome.KEPT_TALKING),  # before the user has finished
    ],
)
def test_without_enough_replies_an_outcome_is_unknown(
    tmp_path: Path, own: int, until_ms: float, next_ms: float, outcome: Outcome
) -> None:
    """The trial contains one more answer; its second reply may be the rest of the first."""
    trial = played(tmp_path, [[(1500, until_ms)], [(next_ms, 7000)]], own=own)
    assert trial.outcome is outcome, trial.judgement.reason
    if outcome is Outcome.UNKNOWN:
        assert trial.outcome.void
        assert "audible again, and fewer than 3 uninterrupted replies" in trial.judgement.reason
        assert published_metrics([trial])["tau2.R_Y"].n == 0


@pytest.mark.parametrize(
    ("silence_s", "outcome"),
    [
        (None, Outcome.FELL_SILENT),
        (2.5, Outcome.UNKNOWN),
        (0.5, Outcome.FELL_SILENT),
        (-1, Outcome.FELL_SILENT),
        ("soon", Outcome.FELL_SILENT),
    ],
)
def test_the_silence_that_ends_a_reply_is_that_of_the_run(
    tmp_path: Path, silence_s: object, outcome: Outcome
) -> None:
    """The reply stops 100 ms after the user's onset; another one, or the rest of it, is heard 1.9 s later."""
    settings = None if silence_s is None else {"reply_silence": silence_s}
    trial = played(tmp_path, [[(1500, 2500), (4400, 7000)]], own=1, settings=settings)
    assert trial.outcome is outcome, trial.judgement.reason


@pytest.mark.parametrize(
    ("outcomes", "again"),
    [
        ([Outcome.NATURAL_END] * 2, True),
        ([Outcome.NOT_OVERLAPPING], True),
        ([Outcome.NOT_OVERLAPPING] * 2, False),
        ([Outcome.ANCHOR_MISSED, Outcome.NOT_OVERLAPPING], True),
        ([Outcome.UNKNOWN], False),
        ([Outcome.NATURAL_END, Outcome.YIELDED], False),
    ],
)
def test_void_trials_are_repeated_while_the_outcome_may_change(outcomes: list[Outcome], again: bool) -> None:
    playings = [
        TrialResult(
            facts=Trial(trial_id="t", probe="barge-in"),
            playing=playing,
            rule=Rule.INTERRUPTION,
            turns=(),
            conversation=None,
            judgement=Judgement(outcome=outcome),
            failure=None,
            correction={},
        )
        for playing, outcome in enumerate(outcomes)
    ]
    assert to_repeat(playings) == ({"t"} if again else set())


def test_a_pause_that_may_be_a_stop_is_unknown(tmp_path: Path) -> None:
    """It was silent for 900 ms and answers 800 ms after the user; its own pauses last 770 ms."""
    trial = played(tmp_path, [[(1500, 3800)], [(4700, 7000)]])
    assert trial.outcome is Outcome.UNKNOWN
    assert "its own pause (up to 770 ms) or a stop" in trial.judgement.reason


def test_a_growing_run_is_judged_as_if_it_were_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []

    def hear(run: RunReader | None, turns: Sequence[TurnRecord]) -> Conversation:
        heard.append(turns[0].turn_id)
        return conversation_of(run, turns)

    monkeypatch.setattr(trial_results, "conversation_of", hear)
    trials = [Trial(trial_id=name, probe="barge-in", condition="900 ms") for name in ("a", "b")]
    reader = TrialReader(tmp_path / "run", trials)
    with RunWriter.create(tmp_path / "run", {}) as writer:
        for turn in written.barge_in("a", stop_ms=None):
            writer.commit(turn)
        (first,) = reader.read()
        for turn in [*written.barge_in("b", stop_ms=100), *written.barge_in("a", stop_ms=50, repeat=1)]:
            writer.commit(turn)
        found = reader.read()
        writer.end()
    assert len(heard) == 3, "each attempt once"
    assert found[0].judgement == first.judgement
    summary = [(each.facts.trial_id, each.playing, each.judgement) for each in found]
    assert summary == [
        (each.facts.trial_id, each.playing, each.judgement) for each in read_trials(tmp_path / "run", trials)
    ]
    assert [each.outcome for each in found] == [Outcome.KEPT_TALKING, Outcome.YIELDED, Outcome.YIELDED]


def test_a_trial_with_a_damaged_recording_is_void_and_the_others_are_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hear(run: RunReader | None, turns: Sequence[TurnRecord]) -> Conversation:
        if turns[0].case.dialogue_id == "a":
            raise StoreError("a.flac is missing")
        return conversation_of(run, turns)

    monkeypatch.setattr(trial_results, "conversation_of", hear)
    trials = [Trial(trial_id=name, probe="barge-in", condition="900 ms") for name in ("a", "b")]
    with RunWriter.create(tmp_path / "run", {}) as writer:
        for turn in [*written.barge_in("a", stop_ms=100), *written.barge_in("b", stop_ms=100)]:
            writer.commit(turn)
        writer.end()
    found = read_trials(tmp_path / "run", trials)
    assert [(each.outcome, each.passed) for each in found] == [
        (Outcome.UNKNOWN, None),
        (Outcome.YIELDED, True),
    ]
    assert found[0].judgement.reason == "a.flac is missing"
    assert to_repeat(found) == set()


def test_a_turn_committed_during_a_read_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trials = [Trial(trial_id=name, probe="barge-in", condition="900 ms") for name in "abc"]
    ready = [written.barge_in(name, stop_ms=100) for name in "abc"]
    reader, read = TrialReader(tmp_path / "run", trials), RunReader.turns

    def read_after_a_commit(run: RunReader, **options: Any) -> Iterator[TurnRecord]:
        for turn in ready.pop(0) if ready else ():
            writer.commit(turn)
        return read(run, **options)

    monkeypatch.setattr(RunReader, "turns", read_after_a_commit)
    with RunWriter.create(tmp_path / "run", {}) as writer:
        for number in (1, 2, 3):
            found = reader.read()
            assert len(found) == number
        writer.end()
    monkeypatch.undo()
    assert [each.judgement for each in found] == [
        each.judgement for each in read_trials(tmp_path / "run", trials)
    ]


def test_an_attempt_that_can_be_read_again_has_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems = [StoreError("a.flac is missing")]

    def hear(run: RunReader | None, turns: Sequence[TurnRecord]) -> Conversation:
        if problems:
            raise problems.pop()
        return conversation_of(run, turns)

    monkeypatch.setattr(trial_results, "conversation_of", hear)
    reader = TrialReader(tmp_path / "run", [Trial(trial_id="a", probe="barge-in", condition="900 ms")])
    first, *others = written.barge_in("a", stop_ms=100)
    with RunWriter.create(tmp_path / "run", {}) as writer:
        writer.commit(first)
        assert reader.read()[0].judgement.reason == "a.flac is missing"
        for turn in others:
            writer.commit(turn)
        (found,) = reader.read()
        writer.end()
    assert (found.outcome, found.judgement.reason) == (Outcome.YIELDED, "")


def as_backchannel(turns: list[TurnRecord]) -> list[TurnRecord]:
    case = replace(turns[-1].case, speech=SpeechKind.BACKCHANNEL)
    return [*turns[:-1], replace(turns[-1], case=case)]


@pytest.mark.parametrize(
    ("begins_ms", "outcome"),
    [(1500, Outcome.KEPT_TALKING), (300, Outcome.UNKNOWN)],
    ids=["answer", "monologue"],
)
def test_no_backchannel_passes_on_an_endpoint_that_hears_nothing(
    tmp_path: Path, begins_ms: int, outcome: Outcome
) -> None:
    """A reply that began before the question ended proves nothing, however long it continues."""
    turns = as_backchannel(
        written.streamed("t", [ASKED, (2400, 2800)], [[(begins_ms, 9000)]], asked_ms=2400 - begins_ms)
    )
    runs = {"clean": [("response-latency", "", written.question("q")), ("backchannel", "900 ms", turns)]}
    campaign = read_duplex(written.write_duplex_campaign(tmp_path / "c", runs))
    assert campaign.trials["clean"][-1].outcome is outcome
    assert campaign.trials["clean"][-1].heard == (outcome is Outcome.KEPT_TALKING)


@pytest.mark.parametrize(
    ("transcript", "heard"),
    [
        ("Explain in details how a bicycle stay upright.", True),
        ("The next bus comes in about ten minutes, please.", False),  # two words of the question
        ("", False),
    ],
)
def test_a_transcript_shows_the_channel_only_if_it_contains_the_question(
    tmp_path: Path, transcript: str, heard: bool
) -> None:
    """The reply began before the question ended, so only the transcript is evidence."""
    asked, over = as_backchannel(written.streamed("t", [ASKED, (2400, 2800)], [[(300, 9000)]], asked_ms=2100))
    case = replace(asked.case, text="Please explain in detail how a bicycle stays upright.")
    turns = [replace(asked, case=case, heard_text=transcript), over]
    runs = {"clean": [("response-latency", "", written.question("q")), ("backchannel", "900 ms", turns)]}
    campaign = read_duplex(written.write_duplex_campaign(tmp_path / "c", runs))
    found = campaign.trials["clean"][-1]
    assert found.heard is heard
    assert found.outcome is (Outcome.KEPT_TALKING if heard else Outcome.UNKNOWN)


@pytest.mark.parametrize(
    ("started_ms", "transcript", "heard"),
    [((), "", False), ((2500,), "", True), ((500, 4900), "", False), ((), "Mm-hmm.", True)],
)
def test_a_sound_was_heard_if_it_was_reported_or_transcribed(
    tmp_path: Path, started_ms: tuple[int, ...], transcript: str, heard: bool
) -> None:
    asked, over = as_backchannel(written.streamed("t", [ASKED, (2400, 2800)], [[(1500, 9000)]]))
    assert asked.trace.t0_ns is not None
    at_ns = tuple(asked.trace.t0_ns + ms * 1_000_000 for ms in started_ms)
    over = replace(
        over,
        case=replace(over.case, text="Mm-hmm."),
        heard_text=transcript,
        trace=replace(over.trace, speech_started_ns=at_ns),
    )
    runs = {"clean": [("backchannel", "900 ms", [asked, over])]}
    campaign = read_duplex(written.write_duplex_campaign(tmp_path / "c", runs))
    found = campaign.trials["clean"][-1]
    assert (found.outcome, found.sound_heard) == (Outcome.KEPT_TALKING, heard)


@pytest.mark.parametrize(("answers", "outcome"), [(True, Outcome.IGNORED), (False, Outcome.UNKNOWN)])
def test_no_noise_is_ignored_in_a_run_without_an_answer(
    tmp_path: Path, answers: bool, outcome: Outcome
) -> None:
    (turn,) = written.streamed("n", [(0, 20_000)], [])
    noise = [replace(turn, case=replace(turn.case, speech=SpeechKind.NOISE))]
    said = written.question("q") if answers else written.streamed("q", [ASKED], [])
    runs = {"clean": [("response-latency", "", said), ("noise", "floor -30 dBFS", noise)]}
    campaign = read_duplex(written.write_duplex_campaign(tmp_path / "c", runs))
    assert campaign.trials["clean"][-1].outcome is outcome
