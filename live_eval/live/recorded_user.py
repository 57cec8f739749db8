"""Recordings of a data set that speak in the user's place, for demonstrations."""

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
    """The user of one session: the recordings of its turns, ready to be streamed.

    Args:
        pause_ns: From the end of a reply, as heard, to the next recording.
    """

    jobs: Sequence[Job]
    cases: Sequence[PlayableCase]
    pause_ns: int

    def speaker(self, greeting_ns: int = 0) -> Speaker:
        """Return the speaker.

        Args:
            greeting_ns: How long it waits for the endpoint's greeting to begin; 0 to speak at once.
        """
        utterances = [case.utterance for case in self.cases]
        speaker = Playback(utterances, self.pause_ns)
        if not greeting_ns:
            return speaker
        return AfterGreeting(speaker, bytes(len(utterances[0].frames[0])), greeting_ns)


async def load_recorded_users(plan: Plan, prepared: Callable[[int, int], None]) -> list[RecordedUser]:
    """Find the speech boundaries of a plan's recordings, and load them for its sessions.

    Args:
        prepared: Called with the number of recordings that are ready, and of all.

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
