"""Stream a data set's recordings in place of a live user, for demonstrations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from live_eval.run.plan import Job, Plan
from live_eval.run.recordings import PlayableCase, Recordings
from live_eval.run.runner import sessions_of
from live_eval.session import Playback
from live_eval.session.greeting import AfterGreeting
from live_eval.session.speaker import Speaker

__all__ = ["RecordedUser", "load_recorded_users"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedUser:
    """The simulated user of one session, with the recordings of its turns.

    Args:
        pause_ns: Pause between the end of a heard reply and the next recording.
    """

    jobs: Sequence[Job]
    cases: Sequence[PlayableCase]
    pause_ns: int

    def speaker(self, greeting_ns: int = 0) -> Speaker:
        """Return the speaker.

        Args:
            greeting_ns: Maximum wait for the start of the endpoint's greeting; 0 to speak immediately.
        """
        utterances = [case.utterance for case in self.cases]
        speaker = Playback(utterances, self.pause_ns)
        if not greeting_ns:
            return speaker
        return AfterGreeting(speaker, bytes(len(utterances[0].frames[0])), greeting_ns)


async def load_recorded_users(plan: Plan, prepared: Callable[[int, int], None]) -> list[RecordedUser]:
    """Load the recordings for a plan's sessions and find their speech boundaries.

    Args:
        prepared: Called with the number of prepared recordings and the total number.

    Raises:
        TurnError: A recording cannot be decoded.
        UsageError: Speech boundaries cannot be found on this machine.
    """
    recordings = Recordings(plan.config, plan.spec)
    try:
        await recordings.prepare((job.case for job in plan.jobs), prepared)
        return [
            RecordedUser(
                jobs=jobs,
                cases=[await recordings.load(job.case) for job in jobs],
                pause_ns=round(plan.config.turns.pause * 1e9),
            )
            for jobs in sessions_of(plan.jobs)
        ]
    finally:
        await asyncio.to_thread(recordings.close)
