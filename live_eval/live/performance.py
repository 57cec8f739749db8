"""Ask a person to perform scripts, check each take, and stream the accepted takes to the endpoint.

Each take is recorded and checked before it is streamed, so the endpoint receives exactly the recording in the
data set, as in a later `run` of the set. After the last take, all takes are streamed again, because cue
sensitivity compares replies to different styles with replies to the same recording.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from live_eval.analysis.cue_sensitivity.effects import FEWEST_SCRIPTS
from live_eval.audio import Audio, int16_to_float
from live_eval.data import PerformedSet, direction, performable
from live_eval.errors import TurnError, UsageError
from live_eval.live.recorded_user import RecordedUser
from live_eval.live.take import TakeRecorder, check_take
from live_eval.live.updates import (
    SpeechDetected,
    State,
    StateChanged,
    TakeAsked,
    TakeChecked,
    TakeRepeated,
    TakeUnheard,
    Update,
)
from live_eval.run.plan import Job, Plan, make_plan
from live_eval.run.recordings import PlayableCase, Recordings
from live_eval.run.run_file import RunConfig
from live_eval.speech.recognition import available
from live_eval.text.wording import counted
from live_eval.types import Case

__all__ = ["Performance", "TakeChoice", "plan_performance", "usual_choice"]

_REPEATS = 2
_REMIND_S = 10.0
_ATTEMPTS = 3  # attempts at a take if nobody can accept it


class TakeChoice(StrEnum):
    """A person's decision on a checked take."""

    ACCEPT = "accept"
    REPEAT = "repeat"
    SKIP = "skip"


def usual_choice(take: TakeChecked) -> TakeChoice:
    """Return the decision that Enter stands for: a take with problems is accepted only explicitly."""
    return TakeChoice.REPEAT if take.problems else TakeChoice.ACCEPT


def plan_performance(
    config: RunConfig, takes: PerformedSet, *, scripts: int | None = None, has_flags: bool = True
) -> Plan:
    """Plan a performance of a data set's scripts, whose recordings need not exist.

    Each take is run twice. The limit of cases counts only those that a person can perform.

    Args:
        scripts: Maximum number of scripts; the first ones are used.
        has_flags: Whether the error for a missing key may suggest command-line flags.

    Raises:
        UsageError: No script can be performed by a person, or the settings are invalid.
        DataError: The data set cannot be read.
    """
    # `performable` omits all variants of a script about the speaker's sex or age.
    whole = config.model_copy(
        update={"data": config.data.model_copy(update={"limit": None, "neutral_rule": False})}
    )
    written = make_plan(whole, needs_recordings=False, has_flags=has_flags)
    chosen, notes = performable(job.case for job in written.jobs)
    chosen = chosen[: config.data.limit]
    wanted = list(dict.fromkeys(case.script_id for case in chosen))[:scripts]
    chosen = [case for case in chosen if case.script_id in wanted]
    if not chosen:
        reasons = "; ".join(notes) or "it has no conversations"
        raise UsageError(f"{written.data.root}: expected scripts that a person can perform: {reasons}")
    styled = sum(styles > 1 for styles in Counter(case.script_id for case in chosen).values())
    if styled < FEWEST_SCRIPTS:
        scripts_in_styles = f"{counted(styled, 'script')} in several styles"
        notes.append(f"{scripts_in_styles}: cue sensitivity requires at least {FEWEST_SCRIPTS}")
    cases = [takes.take_of(case) for case in chosen]
    data = config.data.model_copy(update={"path": str(takes.folder)})
    turns = config.turns.model_copy(update={"repeat": _REPEATS})
    return replace(
        written,
        config=written.config.model_copy(update={"data": data, "turns": turns}),
        data=takes.planned(cases, root=written.data.root),
        notes=(*written.notes, *notes),
        jobs=tuple(Job(case, repeat) for repeat in range(_REPEATS) for case in cases),
    )


class Performance:
    """Record and stream a performance, run by `LiveConversation`. Call all methods on the event loop.

    Args:
        plan: Plan made by `plan_performance`.
        takes: The data set to which accepted takes are added.
        device_hz: Sample rate of the blocks passed to `push`.
    """

    def __init__(self, plan: Plan, takes: PerformedSet, *, device_hz: int) -> None:
        self.unattended = False
        """Whether to decide automatically: accept takes without problems, repeat others twice, then skip."""
        self._plan = plan
        self._set = takes
        self._device_hz = device_hz
        self._take: TakeRecorder | None = None  # set while the microphone records
        self._candidate: Case | None = None  # the stored take, not accepted yet
        self._choice: TakeChoice | None = None
        self._reminded = False  # that nothing is heard in this take
        self._offered: TakeChecked | None = None  # set while the person decides
        self._stopped = False
        self._changed = asyncio.Event()
        self._tell: Callable[[Update], None] = lambda _update: None

    def push(self, pcm: NDArray[np.int16]) -> None:
        """Accept a microphone block: int16 mono, shape (samples,)."""
        take = self._take
        if take is None or take.complete:
            return
        if take.push(pcm):
            self._tell(SpeechDetected(speaking=True))
        if not self._reminded and take.unheard_s >= _REMIND_S:
            self._reminded = True
            self._tell(TakeUnheard(take.peak_dbfs))
        if take.complete:
            self.end_take()

    def end_take(self) -> None:
        """End the take in progress now, if any."""
        if self._take is not None:
            self._take.end()
            self._changed.set()

    def enter(self) -> None:
        """End the take in progress, or decide on the checked take by `usual_choice`."""
        if self._offered is not None:
            self.choose(usual_choice(self._offered))
        self.end_take()

    def choose(self, choice: TakeChoice) -> None:
        """Accept, repeat or skip the checked take. A take in progress can only be skipped."""
        if self._offered is not None or (choice is TakeChoice.SKIP and self._take is not None):
            self._choice = choice
            self._changed.set()

    def stop(self) -> None:
        """End the performance; accepted takes are kept."""
        self._stopped = True
        self._changed.set()

    async def users(self, tell: Callable[[Update], None]) -> AsyncGenerator[RecordedUser]:
        """Yield a simulated user for each accepted take and, after the last take, for all of them again.

        Raises:
            DataError: A take cannot be written.
            UsageError: Speech boundaries cannot be found on this machine.
        """
        self._tell = tell
        jobs = [job for job in self._plan.jobs if job.repeat == 0]
        accepted: dict[str, PlayableCase] = {}
        recordings = Recordings(self._plan.config, self._plan.spec)
        recordings.begin_loading()  # during the first take, so that its check does not wait
        try:
            for number, job in enumerate(jobs, 1):
                asked = TakeAsked(
                    number, len(jobs), job.case.text or "", direction(job.case.cue) or "", attempt=1
                )
                playable = await self._performed(job.case, asked, recordings)
                if self._stopped:
                    return
                if playable is not None:
                    accepted[job.case.case_id] = playable
                    yield self._user(job, playable)
            again = [job for job in self._plan.jobs if job.repeat and job.case.case_id in accepted]
            for number, job in enumerate(again, 1):
                if not self._stopped:
                    tell(TakeRepeated(number, len(again)))
                    yield self._user(job, accepted[job.case.case_id])
        finally:
            if self._candidate is not None:
                await asyncio.to_thread(self._set.discard, self._candidate)
            await asyncio.to_thread(recordings.close)

    def _user(self, job: Job, playable: PlayableCase) -> RecordedUser:
        pause_ns = round(self._plan.config.turns.pause * 1e9)
        return RecordedUser(jobs=[job], cases=[playable], pause_ns=pause_ns)

    async def _performed(self, case: Case, asked: TakeAsked, recordings: Recordings) -> PlayableCase | None:
        """Record takes of a case until one is accepted; return None if it is skipped."""
        while True:
            pcm = await self._recorded(asked)
            if pcm is None:
                return None
            self._tell(StateChanged(State.CHECKING))
            playable, checked = await self._checked(case, pcm, recordings)
            self._tell(StateChanged(State.CHECKED))
            self._tell(checked)
            choice = await self._chosen(checked, asked.attempt)
            if choice is TakeChoice.ACCEPT and checked.usable and playable is not None:
                await asyncio.to_thread(self._set.accept, case, checked.problems)
                self._candidate = None
                return playable
            await asyncio.to_thread(self._set.discard, case)
            self._candidate = None
            if choice is TakeChoice.SKIP or self._stopped:
                return None
            asked = replace(asked, attempt=asked.attempt + 1)

    async def _recorded(self, asked: TakeAsked) -> NDArray[np.int16] | None:
        """Record a take; return None if it is skipped."""
        self._choice, self._take, self._reminded = None, TakeRecorder(self._device_hz), False
        take = self._take
        self._tell(StateChanged(State.RECORDING))
        self._tell(asked)
        await self._until(lambda: take.complete or self._choice is TakeChoice.SKIP)
        self._take = None
        if self._stopped or self._choice is TakeChoice.SKIP:
            return None
        self._tell(SpeechDetected(speaking=False))
        return take.audio()

    async def _checked(
        self, case: Case, pcm: NDArray[np.int16], recordings: Recordings
    ) -> tuple[PlayableCase | None, TakeChecked]:
        """Store a take as a candidate, and check the stored recording."""
        if not len(pcm):
            return None, TakeChecked(None, -90.0, 0.0, ("no speech was heard",), usable=False)
        audio = Audio(int16_to_float(pcm), self._device_hz)
        self._candidate = case
        await asyncio.to_thread(self._set.record, case, pcm, self._device_hz)
        try:
            await recordings.prepare([case], lambda _done, _total: None)
            playable = await recordings.load(case)
        except TurnError as error:
            return None, TakeChecked(None, -90.0, 0.0, (error.message,), usable=False)
        heard, unheard = None, f"the language is {case.language}"
        if case.language == "en":
            heard = await recordings.transcribe(audio)
            unheard = await asyncio.to_thread(lambda: available() or "turns.word_times is off")
        checked = await asyncio.to_thread(
            check_take,
            audio,
            playable.utterance.boundaries,
            text=case.text or "",
            heard=heard,
            unheard=unheard,
        )
        return playable, checked

    async def _chosen(self, checked: TakeChecked, attempt: int) -> TakeChoice:
        """Return the decision on a checked take."""
        if not self.unattended:
            self._offered = checked
            await self._until(
                lambda: self._choice is not None and (checked.usable or self._choice is not TakeChoice.ACCEPT)
            )
            self._offered = None
            return self._choice or TakeChoice.SKIP
        choice = usual_choice(checked)
        return TakeChoice.SKIP if choice is TakeChoice.REPEAT and attempt >= _ATTEMPTS else choice

    async def _until(self, happened: Callable[[], bool]) -> None:
        """Wait until the event is set or the performance is stopped."""
        while not (happened() or self._stopped):
            self._changed.clear()
            await self._changed.wait()
