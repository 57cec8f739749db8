"""Run a campaign: ordered runs in one folder with one JSON document. It can be stopped and resumed.

On disk, ``recordings/<campaign>/`` contains the document, the generated recordings, and a folder per run. The
kinds of campaign (`latency`, `duplex`) determine the content of each run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from live_eval.campaigns.documents import CampaignDocument
from live_eval.errors import StoreError
from live_eval.files import private_folder
from live_eval.recording import RUN_FILE, RunReader, RunWriter, TurnRecord, own_folder
from live_eval.recording.contents import check_new
from live_eval.redaction import SECRETS
from live_eval.run.greetings import Greetings
from live_eval.run.plan import Job, Plan
from live_eval.run.runner import Observer, RunOutcome, run_plan, running_endpoint
from live_eval.run.stop_signals import StopSignals
from live_eval.text.mappings import flattened
from live_eval.text.wording import changed_in_words

__all__ = ["Campaign", "CampaignOutcome"]

_SHARED = ("endpoint", "data", "task", "turns", "impair")  # run-file tables that determine the turns


@dataclass(frozen=True, slots=True)
class CampaignOutcome:
    """The outcome of a campaign.

    Args:
        failed: Number of turns that were not captured (latency) or trials that failed (duplex).
        stopped: Reason for an early stop; empty if there was none.
    """

    failed: int
    interrupted: bool
    stopped: str


class Campaign(ABC):
    """A campaign of consecutive runs in one folder.

    The constructor performs all look-ups and generates all recordings, so call it off the event loop. It
    calls methods that subclasses define, so a subclass must first set the attributes that these methods use.

    Args:
        folder: Campaign folder, new or empty; created if missing.
        base: Plan of a run with the settings shared by all runs.
        order: Run names in order; a run may have several steps.
        asked: Settings that determine the runs, in addition to the shared settings.
        asserts: Assertions on the campaign, stored with it; if empty, a resumed campaign keeps its own.
        resume: Whether to resume the campaign in the folder: completed runs are kept.

    Raises:
        UsageError: The endpoint does not support the campaign.
        DataError: The data set cannot be used.
        StoreError: The folder is not empty, contains no campaign to resume or one with another plan, or
            cannot be written.
    """

    document: ClassVar[CampaignDocument]

    def __init__(
        self,
        folder: Path,
        base: Plan,
        order: Sequence[str],
        asked: Mapping[str, Any],
        *,
        asserts: Sequence[str],
        resume: bool,
    ) -> None:
        self.folder = folder
        self._base = base
        self._order = order
        self._base_url = ""
        self._reached = False
        self._ended: set[str] = set()
        self._writers: dict[str, RunWriter] = {}
        self._greetings = Greetings.of(base)
        self._launched = base
        manifest = base.manifest()
        self._asked = {
            **asked,
            "settings": {table: manifest["config"][table] for table in _SHARED},
            "data": manifest["data"]["fingerprint"],
            "prompt": manifest["prompt"]["sha256"],
            "timing_version": manifest["timing_version"],
        }
        self._earlier = self._resumed() if resume else {}
        self._asserts = list(asserts or self._earlier.get("asserts") or ())
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._created = self._earlier.get("created", now)
        if not resume:
            self._check_new()
        try:
            private_folder(folder)
            self._plans = self._make_plans()
        except OSError as error:
            raise StoreError(f"cannot use {folder} as a campaign folder: {error.strerror}") from None
        notes = list(self._notes_before())
        if resume:
            notes = [
                *(self._earlier.get("notes") or ()),
                *notes,
                f"resumed at {now}, after {self._progress()}",
            ]
        self._notes = list(dict.fromkeys(notes))

    @property
    def notes(self) -> Sequence[str]:
        """Notes on the campaign, one sentence each."""
        return tuple(self._notes)

    @property
    def key_recipient(self) -> str | None:
        """The recipient of the endpoint's key; see `Plan.key_recipient`."""
        return self._base.key_recipient

    async def run(self, observer: Observer, stop: StopSignals) -> CampaignOutcome:
        """Run the steps, and keep the document up to date.

        Turns recorded before a stop are kept, and the campaign can be resumed.
        """
        stopped = ""
        with stop.gently():
            await asyncio.to_thread(self._write)  # only a folder with a document can be resumed
            try:
                stopped = await self._run_steps(observer, stop)
            finally:
                self._notes += [stopped] * bool(stopped)
                await asyncio.to_thread(self._close)
            failed = await asyncio.to_thread(self._count_failed)
        return CampaignOutcome(failed, stop.requested and not self._complete, stopped)

    # -- Implemented by each kind of campaign ------------------------------------------------------------

    @abstractmethod
    def _make_plans(self) -> Mapping[str, Plan]:
        """Write the recordings and return the plan of each run, by its name."""

    @abstractmethod
    def _facts(self) -> dict[str, Any]:
        """Return the document fields specific to this kind of campaign."""

    @abstractmethod
    async def _run_step(self, step: int, observer: Observer, stop: StopSignals) -> str:
        """Run a step, and end the run after its last step; return the reason for an early stop, if any."""

    @abstractmethod
    def _recall(self, name: str, turns: Sequence[TurnRecord], *, ended: bool) -> None:
        """Load a run's turns that were recorded before the campaign was resumed."""

    @abstractmethod
    def _progress(self) -> str:
        """Describe the progress before the campaign was resumed."""

    @abstractmethod
    def _count_failed(self) -> int:
        """Return the number of failed turns or trials; see `CampaignOutcome`."""

    def _notes_before(self) -> Sequence[str]:
        return [note for plan in (self._base, *self._plans.values()) for note in plan.notes]

    # -- Preparation -------------------------------------------------------------------------------------

    def _check_new(self) -> None:
        name = self.document.file_name
        if (self.folder / name).exists():
            raise StoreError(
                f"{self.folder} already contains a campaign; choose another folder, or resume it with "
                "--resume"
            )
        check_new(self.folder, "a campaign", (f"{name}.part",), {self.document.made: self.document.forms})

    def _resumed(self) -> dict[str, Any]:
        """Load the turns of the campaign to resume, which must have the same plan; return its document."""
        facts = self.document.read(self.folder)
        _check_same_plan(self.folder, facts.get("plan"), self._asked)
        for name in filter(self._has_begun, dict.fromkeys(self._order)):
            with RunReader.open(own_folder(self.folder, self.folder / name)) as run:
                turns = list(run.turns())
                self._reached |= any(turn.captured for turn in turns)
                self._recall(name, turns, ended=run.ended)
                if run.ended:
                    self._ended.add(name)
        return facts

    def _inputs(self, *inside: str) -> Path:
        return self._own_folder(self.document.made, *inside)

    def _own_folder(self, *names: str) -> Path:
        """Return a folder in the campaign folder; reject links, whose targets could be anywhere."""
        path = self.folder
        for name in names:
            path /= name
            if os.path.lexists(path):
                own_folder(self.folder, path)
        return path

    # -- Execution ---------------------------------------------------------------------------------------

    async def _run_steps(self, observer: Observer, stop: StopSignals) -> str:
        async with contextlib.AsyncExitStack() as stack:
            with stop.cancelling():
                endpoint = running_endpoint(self._launched, self.folder)
                self._base_url = await stack.enter_async_context(endpoint)
            for step, name in enumerate(self._order):
                if stop.requested:
                    break
                if name not in self._ended and (stopped := await self._run_step(step, observer, stop)):
                    return stopped
        return ""

    async def _run_jobs(
        self, name: str, jobs: Sequence[Job], observer: Observer, stop: StopSignals, **options: Any
    ) -> RunOutcome:
        """Run those jobs of a run that are not recorded yet; pass `options` to `run_plan`."""
        writer = await asyncio.to_thread(self._begin, name)
        outcome = await run_plan(
            replace(self._plans[name], jobs=tuple(jobs)),
            writer,
            self.folder / name,
            observer,
            base_url=self._base_url,
            stop=stop,
            reached=self._reached,
            greetings=self._greetings,
            **options,
        )
        self._reached = outcome.reached
        return outcome

    # -- On disk ----------------------------------------------------------------------------------------

    @property
    def _complete(self) -> bool:
        return self._ended >= set(self._order)

    def _has_begun(self, name: str) -> bool:
        return (self.folder / name / RUN_FILE).exists()

    def _begin(self, name: str) -> RunWriter:
        """Return the store of a run; create it if necessary."""
        if name not in self._writers:
            path = self._own_folder(name)
            self._writers[name] = (
                RunWriter.resume(path)
                if self._has_begun(name)
                else RunWriter.create(path, self._plans[name].manifest())
            )
            self._write()
        return self._writers[name]

    async def _end(self, name: str) -> None:
        await asyncio.to_thread(self._writers.pop(name).end)
        self._ended.add(name)

    def _close(self) -> None:
        for writer in self._writers.values():
            writer.end(finished=False)
        self._write()

    def _write(self) -> None:
        facts = {
            "endpoint": self._base.spec.name,
            "created": self._created,
            "complete": self._complete,
            "notes": self._notes,
            "asserts": self._asserts,
            **self._facts(),
            "plan": self._asked,
        }
        self.document.write(self.folder, facts)


def _check_same_plan(folder: Path, before: object, now: Mapping[str, Any]) -> None:
    """Raise a `StoreError` with the first difference if the campaign to resume has another plan."""
    if not isinstance(before, dict):
        raise StoreError(f"cannot resume the campaign in {folder}: another version of live-eval started it")
    then, wanted = dict(flattened(before)), dict(flattened(json.loads(json.dumps(SECRETS.values(now)))))
    for name in dict.fromkeys((*then, *wanted)):
        if then.get(name) != wanted.get(name):
            raise StoreError(
                f"cannot resume the campaign in {folder}: its {name.partition('.')[2] or name} "
                f"{changed_in_words(then.get(name), wanted.get(name))}"
            )
