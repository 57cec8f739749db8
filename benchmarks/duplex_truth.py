"""Measurements of overlapping speech compared with the true times of the reference endpoint.

The endpoint is scripted: it stops a given number of milliseconds after the user's first sample, never, or on
backchannels, replies in a pause, talks over the user, resumes, pauses between two sentences, and ends the
turn after 300, 500 or 900 ms of silence. Its truth log contains the arrival times of the user's audio and the
end of playback of each reply. Trials run as ordinary runs, with 1 and 20 concurrent sessions, and are judged
like in `live-eval duplex`: over WebSocket and WebRTC with events, and over continuous media without events
(Moshi, one session at a time; GPT-Live; a pipecat bot).

Continuous media do not signal the stop or end of a reply: a true stop or end within 2 s is `fell_silent`
there, and the first sign of a response is its first audible sample.

The output contains, for each duration, the error (measured minus true) next to the lateness of a bare timer
loop during the same time, and the outcomes, true and measured. Two trials run per scenario and session;
``python benchmarks/duplex_truth.py openai --sessions 20 --trials 100`` runs 100 on one transport.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import parse_qsl

import _benchmark
import numpy as np
from numpy.typing import NDArray

from live_eval.analysis.turn_taking.from_turns import conversation_of
from live_eval.analysis.turn_taking.outcomes import (
    YIELD_WITHIN_NS,
    Judgement,
    Outcome,
    Rule,
    judge,
    rule_of,
    unspoken,
)
from live_eval.analysis.turn_taking.segmentation import LEAST_REPLIES, as_replies
from live_eval.analysis.turn_taking.speech import Conversation, Stretch, overlaps
from live_eval.analysis.turn_taking.trial import Trial
from live_eval.audio import write_flac
from live_eval.calibrate import timer_lateness
from live_eval.campaigns.duplex.stimuli import Line, Recorded, TrialScript, write_stimuli
from live_eval.clock import SystemClock
from live_eval.recording import RunReader, RunWriter, TurnRecord
from live_eval.reference.emulation import address, emulation_of
from live_eval.reference.engine.events import Reaction
from live_eval.reference.server.process import ReferenceProcess
from live_eval.reference.truth import TrueReply, TrueUtterance, read_truth
from live_eval.registry import client
from live_eval.run.plan import make_plan
from live_eval.run.run_file import validate
from live_eval.run.runner import Observer, run_plan
from live_eval.session.event_loop import run, undisturbed
from live_eval.session.limits import SessionLimits
from live_eval.types import Anchor, AnchorKind, SpeechKind, SpokenPart, TurnMode
from tests.support.marked_utterances import marked_utterance

AIMS_MS = {"openai": 1.0, "openai-webrtc": 5.0, "moshi": 5.0, "openai-live": 5.0, "pipecat-webrtc": 5.0}
"""The maximum excess of each client's p99 over the timer's."""

MS = 1_000_000
FAR_NS = 5 * MS


class PlayedScenario(NamedTuple):
    """A measured trial.

    Args:
        name: Name of the trial.
        turns: Turns, in order.
        rule: Expected behaviour of the endpoint.
        conversation: Conversation; None if the user did not speak.
        judgement: Measured outcome.
    """

    name: str
    turns: Sequence[TurnRecord]
    rule: Rule
    conversation: Conversation | None
    judgement: Judgement


class Scenario(NamedTuple):
    """The user's and the endpoint's behaviour in a trial.

    Args:
        name: Name of the scenario.
        query: The endpoint's settings.
        sounds_ms: Minimum and maximum duration of the last utterance.
        pause_ms: Pause within the last utterance; 0 for none.
        anchor_ms: Earliest and latest start after the reply is audible; None for a single utterance.
        speech: Kind of speech.
    """

    name: str
    query: str
    sounds_ms: tuple[int, int] = (700, 1_200)
    pause_ms: int = 0
    anchor_ms: tuple[int, int] | None = None
    speech: SpeechKind = SpeechKind.TURN

    @property
    def pause_ns(self) -> tuple[int, int]:
        """Start and end of the pause in a reply, relative to its first audible sample."""
        query = dict(parse_qsl(self.query))
        begin_ns = int(query.get("reply_ms", 1_000)) * MS // 2
        return begin_ns, begin_ns + int(query.get("reply_pause_ms", 0)) * MS


OVER = (300, 1_600)
OWN = "own"
"""Trials without interruptions, from which the endpoint's own pauses are learned."""
SCENARIOS = (
    Scenario("answers", "delay_ms=350&reply_ms=500&lead_silence_ms=130"),
    Scenario("stays silent", "fault=silent"),
    Scenario("waits in a pause", "delay_ms=650&end_silence_ms=600&reply_ms=500", pause_ms=400),
    Scenario(
        "answers in a pause", "delay_ms=150&end_silence_ms=600&stop_ms=200&reply_ms=900", pause_ms=1_200
    ),
    Scenario("talks over", "talk_over_ms=280&reply_ms=900"),
    Scenario("stops after 80 ms", "stop_ms=80&reply_ms=4000", anchor_ms=OVER),
    Scenario("stops after 430 ms", "stop_ms=430&reply_ms=4000&cadence=realtime", anchor_ms=OVER),
    Scenario("stops after 1,300 ms", "stop_ms=1300&reply_ms=4000&delay_ms=1500", anchor_ms=OVER),
    Scenario("stops too late", "stop_ms=2300&reply_ms=5000", anchor_ms=OVER),
    Scenario("never stops", "stop_ms=never&reply_ms=4500", anchor_ms=OVER),
    Scenario("ends by itself", "stop_ms=1500&reply_ms=1500", anchor_ms=(700, 1_100)),
    Scenario("has ended", "stop_ms=300&reply_ms=600", anchor_ms=(750, 900)),
    Scenario(
        "pauses and never stops",
        "stop_ms=never&reply_ms=5000&reply_pause_ms=800",
        (1_800, 2_400),
        anchor_ms=(1_700, 2_300),
    ),
    Scenario("pauses and stops", "stop_ms=300&reply_ms=5000&reply_pause_ms=800&delay_ms=900", anchor_ms=OVER),
    Scenario("is in its own pause", "stop_ms=300&reply_ms=3000&reply_pause_ms=800", anchor_ms=(1_650, 2_100)),
    *(
        Scenario(
            f"stops, detector of {ms} ms",
            f"stop_ms=300&end_silence_ms={ms}&reply_ms=4000",
            pause_ms=160,
            anchor_ms=OVER,
        )
        for ms in (300, 500, 900)
    ),
    Scenario("resumes", "stop_ms=300&after_stop=resume&reply_ms=2500", anchor_ms=OVER),
    Scenario(
        "ignores a backchannel",
        "stop_ms=1000&on_backchannel=ignore&reply_ms=4000",
        (250, 600),
        anchor_ms=(300, 1_000),
        speech=SpeechKind.BACKCHANNEL,
    ),
    Scenario(
        "stops for a backchannel",
        "stop_ms=250&reply_ms=3000&delay_ms=700",
        (250, 600),
        anchor_ms=OVER,
        speech=SpeechKind.BACKCHANNEL,
    ),
    Scenario("is triggered", "delay_ms=200&reply_ms=400", (250, 600), speech=SpeechKind.NON_DIRECTED),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueTrial:
    """The true values of a trial.

    Args:
        outcome: True outcome.
        durations_ns: True durations.
    """

    outcome: Outcome
    durations_ns: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Errors:
    """The comparison result.

    Args:
        durations_ns: Measured minus true value, by duration.
        outcomes: Counts of (true, measured) outcome pairs.
        floor_ns: Lateness of a bare timer loop.
        failed: Trials that cannot be compared, with reasons.
        wrong: Trials with a wrong outcome, or with a duration on one side only.
        far: Durations with an error of more than `FAR_NS`.
        lag_ns: Lateness of the harness in each trial.
    """

    durations_ns: dict[str, list[int]] = field(default_factory=dict)
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    floor_ns: list[int] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    far: list[str] = field(default_factory=list)
    lag_ns: list[int] = field(default_factory=list)


# -- Running -------------------------------------------------------------------------------------------


def stimuli(scenario: Scenario, endpoint: str, trials: int, seed: int, folder: Path) -> Path:
    """Write the trials of a scenario as a data set; return the manifest."""
    pick = random.Random(f"{seed}/{scenario.name}")
    opener = [Line(pieces=(recording(endpoint, folder / "opener.flac", 600),))] if scenario.anchor_ms else []
    written = []
    if scenario.anchor_ms and TurnMode.FULL_DUPLEX in client(endpoint).turn_modes:
        own = [TrialScript(Trial(trial_id=f"own-{n}", probe=OWN), opener) for n in range(LEAST_REPLIES)]
        written += own
    for number in range(trials):
        sound_ms, after_ms = pick.randint(*scenario.sounds_ms), pick.randint(300, 700)
        said = recording(endpoint, folder / f"{number}.flac", sound_ms, scenario.pause_ms, after_ms)
        anchor: Anchor | None = None
        if scenario.anchor_ms is not None:
            anchor = Anchor(AnchorKind.REPLY_AUDIBLE, pick.randint(*scenario.anchor_ms) * MS)
        last = Line(pieces=(said,), speech=scenario.speech, anchor=anchor)
        written.append(TrialScript(Trial(trial_id=f"trial-{number}", probe=scenario.name), [*opener, last]))
    return write_stimuli(written, folder / "data")


def recording(endpoint: str, path: Path, sound_ms: int, pause_ms: int = 0, after_ms: int = 0) -> Recorded:
    """Write an utterance with known boundaries; `after_ms` of audio follow the pause, if any."""
    spec = client(endpoint)
    rate_hz = spec.input_rate_hz
    sounds, pauses = ((sound_ms, after_ms), (pause_ms,)) if pause_ms else ((sound_ms,), ())
    utterance = marked_utterance(
        sounds, pauses, rate_hz, spec.frame_ms, lossy=emulation_of(endpoint).lossy_input
    )
    write_flac(path, utterance.audio.int16(), rate_hz)
    parts = tuple(
        SpokenPart(stretch.onset_sample * 10**9 // rate_hz, stretch.end_sample * 10**9 // rate_hz)
        for stretch in utterance.stretches
    )
    return Recorded(path, parts=parts)


async def hold(
    scenario: Scenario, endpoint: str, sessions: int, trials: int, seed: int, errors: Errors
) -> None:
    """Run the trials of a scenario and compare them."""
    with TemporaryDirectory(prefix="live-eval-duplex-") as name:
        folder = Path(name)
        manifest = stimuli(scenario, endpoint, trials, seed, folder)
        truth = folder / "truth.jsonl"
        async with ReferenceProcess(calibrate=True, truth=truth, log_folder=folder) as process:
            port = int(process.origin.rpartition(":")[2])
            plan = make_plan(
                validate(
                    {
                        "endpoint": {
                            "name": endpoint,
                            "base_url": f"{address(endpoint, '127.0.0.1', port)}?{scenario.query}",
                        },
                        "data": {"path": str(manifest)},
                        "turns": {"concurrency": sessions, "retries": 0, "reply_timeout": 4},
                    }
                )
            )
            writer = RunWriter.create(folder / "run", plan.manifest())
            clock = SystemClock()
            with undisturbed():
                errors.floor_ns += (await timer_lateness(clock)).tolist()
            await run_plan(plan, writer, folder, Observer())
            with undisturbed():
                errors.floor_ns += (await timer_lateness(clock)).tolist()
            writer.end(finished=True)
        known = read_truth(truth)
        for trial in played(folder / "run"):
            if trial.name.startswith(OWN):
                continue
            lossy = emulation_of(endpoint).lossy_input
            compare(trial, scenario, known.replies, known.utterances, errors, lossy=lossy)


def played(folder: Path) -> Iterator[PlayedScenario]:
    """Yield the measured trials of a run."""
    with RunReader.open(folder) as run:
        by_trial: dict[str, list[TurnRecord]] = {}
        for turn in run.turns():
            by_trial.setdefault(turn.case.dialogue_id or "", []).append(turn)
        for turns in by_trial.values():
            turns.sort(key=lambda turn: turn.case.turn_index)
        spoken = [[turn for turn in turns if turn.trace.onset_ns is not None] for turns in by_trial.values()]
        heard = [conversation_of(run, turns) for turns in spoken if turns]
        replies = iter(as_replies(heard, round(1e9 * SessionLimits().silence_s)))
        for (name, turns), said in zip(by_trial.items(), spoken, strict=True):
            rule = rule_of([turn.case for turn in turns])
            conversation = next(replies) if said else None
            if conversation is None or len(said) < len(turns):
                judgement = unspoken(conversation)
            else:
                judgement = judge(conversation, rule)
            yield PlayedScenario(name, turns, rule, conversation, judgement)


# -- Comparing -----------------------------------------------------------------------------------------


def compare(
    trial: PlayedScenario,
    scenario: Scenario,
    turns: Sequence[TrueReply],
    utterances: Sequence[TrueUtterance],
    errors: Errors,
    *,
    lossy: bool,
) -> None:
    """Compare a trial with the endpoint's truth for its session."""
    where = f"{scenario.name}, {trial.name}"
    measured = trial.judgement.outcome
    session_id = session_of(trial, utterances)
    mine = [turn for turn in turns if turn.session_id == session_id]
    heard = [utterance for utterance in utterances if utterance.session_id == session_id]
    if trial.conversation is None or len(heard) < len(trial.turns):
        failure = next((turn.failure for turn in trial.turns if turn.failure), None)
        errors.failed.append(f"{where}: {failure or 'no truth'}")
        return
    errors.lag_ns.append(trial.conversation.lag_ns)
    true = true_outcome(trial, scenario, mine, heard)
    errors.outcomes[true.outcome, measured] += 1
    if true.outcome is not measured:
        errors.wrong.append(f"{where}: {measured} instead of {true.outcome}: {trial.judgement.reason}")
        return
    resumed = any(turn.resumes for turn in mine)
    for name, true_ns in true.durations_ns.items():
        if name == "new_reply" and resumed and lossy:
            continue  # a decoder fades in audio encoded in mid-stream
        measured_ns = trial.judgement.durations_ns.get(name)
        if measured_ns is None:
            errors.wrong.append(f"{where}: {name} was not measured")
        else:
            errors.durations_ns.setdefault(name, []).append(measured_ns - true_ns)
            if abs(measured_ns - true_ns) > FAR_NS:
                errors.far.append(
                    f"{where}: {name} {measured_ns / 1e6:.1f} ms, true {true_ns / 1e6:.1f}, "
                    f"lag {trial.conversation.lag_ns / 1e6:.1f}"
                )


def session_of(trial: PlayedScenario, utterances: Sequence[TrueUtterance]) -> str | None:
    """Return a trial's session: by the client's ID, or by the times at which the user started to speak."""
    session_id = next((turn.session_id for turn in trial.turns if turn.session_id), None)
    if session_id is not None or trial.conversation is None:
        return session_id
    onsets_ns: dict[str, list[int]] = {}
    for heard in utterances:
        onsets_ns.setdefault(heard.session_id, []).append(heard.onset_ns)
    starts_ns = [said.start_ns for said in trial.conversation.user]

    def apart(heard_ns: list[int]) -> int:
        return sum(min(abs(onset_ns - start_ns) for onset_ns in heard_ns) for start_ns in starts_ns)

    return min(onsets_ns, key=lambda each: apart(onsets_ns[each]), default=None)


def true_outcome(
    trial: PlayedScenario, scenario: Scenario, turns: Sequence[TrueReply], heard: Sequence[TrueUtterance]
) -> TrueTrial:
    """Return the outcome and durations of a trial from the endpoint's timestamps.

    The times of the user's audio are known by construction, and are delayed by the lateness of their frame's
    arrival.
    """
    assert trial.conversation is not None
    user = trial.conversation.user[-1]
    parts = heard[len(trial.turns) - 1 :]  # earlier utterances have no pauses
    due_ns = np.concatenate([turn.trace.frame_deadline_ns for turn in trial.turns])
    start_ns = user.start_ns + lateness_ns(parts[0].onset_ns, due_ns)
    end_ns = user.end_ns + lateness_ns(parts[-1].end_ns, due_ns)
    answers = [turn for turn in turns if (turn.utterance or 0) >= parts[0].utterance]
    created_ns = min((turn.created_ns or 0 for turn in answers), default=None)
    audible_ns = min((turn.heard_from_ns for turn in answers if turn.heard_from_ns is not None), default=None)
    continuous = any(turn.trace.continuous for turn in trial.turns)
    if continuous:
        created_ns = audible_ns
    match trial.rule:
        case Rule.ANSWER | Rule.PAUSE:
            if created_ns is None or audible_ns is None:
                return TrueTrial(outcome=Outcome.NO_REPLY)
            durations = {"response_latency": audible_ns - end_ns}
            pauses = len(user.sounds) > 1
            if created_ns >= end_ns:
                return TrueTrial(
                    outcome=Outcome.WAITED if pauses else Outcome.ANSWERED, durations_ns=durations
                )
            if pauses:
                paused_ns = user.sounds[0].end_ns + lateness_ns(parts[0].end_ns, due_ns)
                durations["pause_endpointing"] = created_ns - paused_ns
            return TrueTrial(outcome=Outcome.PREMATURE, durations_ns=durations)
        case Rule.FALSE_TRIGGER:
            if created_ns is None:
                return TrueTrial(outcome=Outcome.IGNORED)
            return TrueTrial(outcome=Outcome.TRIGGERED, durations_ns={"trigger": created_ns - start_ns})
        case _:
            reply = next((turn for turn in turns if turn.response_id == parts[0].over), None)
            heard_ns = sounding(reply, scenario) if reply is not None else []
            if reply is None or not any(begin <= start_ns < end for begin, end in heard_ns):
                return TrueTrial(outcome=Outcome.NOT_OVERLAPPING)
            stopped = parts[0].reaction == Reaction.STOPPED
            if continuous:
                stopped = heard_ns[-1].end_ns - start_ns < YIELD_WITHIN_NS
            true = true_overlap(trial.rule, reply, start_ns, end_ns, audible_ns, stopped=stopped)
            said = [Stretch(*each) for each in user.sounds]
            said[0], said[-1] = said[0]._replace(start_ns=start_ns), said[-1]._replace(end_ns=end_ns)
            both = overlaps(said, [each for turn in turns for each in sounding(turn, scenario)])
            durations = {**true.durations_ns, "overlap": sum(each.end_ns - each.start_ns for each in both)}
            if "discarded" in durations:  # the reply's pause is not audible
                paused_ns, resumed_ns = ((reply.heard_from_ns or 0) + at_ns for at_ns in scenario.pause_ns)
                durations["discarded"] -= max(0, resumed_ns - max(paused_ns, heard_ns[-1].end_ns))
            if not continuous:
                return replace(true, durations_ns=durations)
            if true.outcome is Outcome.YIELDED:
                return TrueTrial(outcome=Outcome.FELL_SILENT, durations_ns=durations)
            durations.pop("new_reply", None)  # follows without a gap, so it is not separable from the reply
            return replace(true, durations_ns=durations)


def sounding(turn: TrueReply, scenario: Scenario) -> list[Stretch]:
    """Return the playback intervals of a reply, without its pause."""
    if turn.heard_from_ns is None or turn.heard_until_ns is None:
        return []
    paused_ns, resumed_ns = (turn.heard_from_ns + at_ns for at_ns in scenario.pause_ns)
    stretches = (
        Stretch(turn.heard_from_ns, min(paused_ns, turn.heard_until_ns)),
        Stretch(max(resumed_ns, turn.heard_from_ns), turn.heard_until_ns),
    )
    return [each for each in stretches if each.start_ns < each.end_ns]


def true_overlap(
    rule: Rule, reply: TrueReply, start_ns: int, end_ns: int, next_ns: int | None, *, stopped: bool
) -> TrueTrial:
    """Return the true values for a user who speaks over a reply from `start_ns` to `end_ns`.

    `next_ns` is the time at which the next reply is audible.
    """
    assert reply.heard_from_ns is not None
    silent_ns = reply.heard_until_ns or 0
    durations = {"anchor": start_ns - reply.heard_from_ns}
    if next_ns is not None:
        durations["new_reply"] = next_ns - end_ns
    if stopped:
        durations["audible_stop"] = silent_ns - start_ns
        samples = sum(reply.chunk_samples) - (reply.onset_sample or 0)
        unheard_ns = samples * 10**9 // (reply.rate_hz or 1) - (silent_ns - reply.heard_from_ns)
        if unheard_ns > 40 * MS:  # a shorter reply may not be audible
            durations["discarded"] = unheard_ns
        if reply.stopped_ns is not None:
            durations["provider_stop"] = reply.stopped_ns - start_ns
    if rule is Rule.INTERRUPTION:
        ended = Outcome.YIELDED if stopped else Outcome.NATURAL_END
        outcome = Outcome.KEPT_TALKING if silent_ns - start_ns >= YIELD_WITHIN_NS else ended
    elif stopped:
        outcome = Outcome.YIELDED
    elif silent_ns < end_ns:
        outcome = Outcome.NATURAL_END
    else:
        outcome = Outcome.TRIGGERED if next_ns is not None else Outcome.KEPT_TALKING
    if outcome is not Outcome.YIELDED:
        durations.pop("audible_stop", None)
    return TrueTrial(outcome=outcome, durations_ns=durations)


def lateness_ns(arrived_ns: int | None, due_ns: NDArray[np.int64]) -> int:
    """Return the arrival time of a frame minus the due time of the nearest frame."""
    if arrived_ns is None:
        return 0
    late_ns: NDArray[np.int64] = arrived_ns - due_ns
    return int(late_ns[np.argmin(np.abs(late_ns))])


# -- Printing ------------------------------------------------------------------------------------------


def figures(values_ns: Sequence[int]) -> str:
    """Return the bias, p50, p99 and maximum of durations, in ms."""
    ms = np.asarray(values_ns) / 1e6
    size = np.abs(ms)
    return (
        f"{len(ms):6} {ms.mean():+8.3f} {np.percentile(size, 50):8.3f} "
        f"{np.percentile(size, 99):8.3f} {size.max():8.3f}"
    )


def show(errors: Errors, endpoint: str, sessions: int) -> bool:
    """Print the results; return whether the targets are met."""
    print(f"\n{endpoint}, {sessions} at a time; ms         n     bias      p50      p99      max")
    print(f"{'bare timer, lateness':30} {figures(errors.floor_ns)}")
    print(f"{'our own lag':30} {figures(errors.lag_ns)}")
    for name, values_ns in errors.durations_ns.items():
        print(f"{name:30} {figures(values_ns)}")
    print("\ntrue outcome -> measured")
    for (true, measured), times in sorted(errors.outcomes.items()):
        print(f"  {true:16} -> {measured:16} {times}")
    for line in (*errors.failed, *errors.wrong, *errors.far):
        print(f"  {line}")
    bound_ms = np.percentile(errors.floor_ns, 99) / 1e6 + AIMS_MS[endpoint]
    worst_ms = max(np.percentile(np.abs(each), 99) for each in errors.durations_ns.values()) / 1e6
    trials = sum(errors.outcomes.values())
    met = worst_ms <= bound_ms and not errors.wrong
    print(
        f"{endpoint}, {sessions} at a time: worst p99 {worst_ms:.3f} ms (aim: {bound_ms:.3f}), "
        f"{len(errors.wrong)} wrong of {trials} (aim: 0), {len(errors.failed)} failed"
    )
    return met


async def measure(endpoint: str, sessions: int, trials: int, seed: int, names: Sequence[str]) -> Errors:
    """Run and compare every scenario."""
    errors = Errors()
    for scenario in SCENARIOS:
        if not names or any(name in scenario.name for name in names):
            await hold(scenario, endpoint, sessions, trials, seed, errors)
    return errors


def main() -> int:
    parser = _benchmark.parser(__doc__)
    parser.add_argument("endpoints", nargs="*", default=list(AIMS_MS), help="clients to measure")
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 20], help="sessions at a time")
    parser.add_argument("--trials", type=int, help="trials of each scenario; default: 2 for each session")
    parser.add_argument("--scenarios", nargs="+", default=(), help="only scenarios with one of these names")
    parser.add_argument("--seed", type=int, default=0, help="seed of what differs between trials")
    asked = parser.parse_args()
    met = True
    for endpoint in asked.endpoints:
        for sessions in [1] if emulation_of(endpoint).exclusive else asked.sessions:
            trials = asked.trials or 2 * sessions
            errors = run(measure(endpoint, sessions, trials, asked.seed, asked.scenarios))
            met = show(errors, endpoint, sessions) and met
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
