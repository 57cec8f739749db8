"""Stream recordings and duplex probes to an endpoint from tests, with the pytest fixture `live_eval`.

Each call records an ordinary run or duplex campaign, which ``live-eval report`` accepts.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from live_eval.campaigns.duplex.campaign import DuplexCampaign, DuplexPlan
from live_eval.errors import ConnectError, DataError, FailureKind, LiveEvalError, TurnError, UsageError
from live_eval.files import private_folder
from live_eval.pytest_plugin.results import Result, Results, read_turns
from live_eval.pytest_plugin.trials import ProbeTrials, read_probe
from live_eval.recording import RunWriter
from live_eval.run.plan import make_plan
from live_eval.run.run_file import RunConfig, validate
from live_eval.run.runner import Observer, run_plan
from live_eval.run.stop_signals import StopSignals
from live_eval.session.event_loop import run as run_loop
from live_eval.text.wording import counted

__all__ = ["EndpointTester"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointTester:
    """Stream recordings and probes to one endpoint, without retries, and return the turns.

    Args:
        endpoint: Name of an endpoint, as listed by ``live-eval endpoints``.
        base_url: Base URL; None to use the endpoint's default or to launch the endpoint.
        name: Name of the first run, which is written to ``folder/name``; the second run to ``folder/name-2``.
        base_folder: Base of relative recording and data paths.
        settings: Tables of a run file: model, turn detection, time limits and so on.
    """

    endpoint: str
    base_url: str | None
    folder: Path
    name: str
    base_folder: Path
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def play(self, recording: Path | str, *, text: str | None = None) -> Result:
        """Stream a recording in real time and return the turn.

        Args:
            recording: An audio file.
            text: Transcript, used by the reference endpoint and by text judges.

        Raises:
            DataError: The recording does not exist.
            TurnError: The turn failed. The exception contains the kind of failure.
            UsageError: The endpoint or a setting does not exist, or an event loop is running in this thread.
        """
        file = self.base_folder / recording
        run = self._new_run()
        if not file.is_file():
            raise DataError(f"{file} does not exist")
        row = {"audio": file.name, "id": file.stem, "text": text}
        manifest = run.with_name(f"{run.name}.jsonl")
        manifest.write_text(json.dumps({name: value for name, value in row.items() if value}) + "\n", "utf-8")
        self._record(run, {"path": str(manifest), "audio_root": file.parent}, {"concurrency": 1, "repeat": 1})
        (turn,) = read_turns(run)
        failure = turn.record.failure
        if failure is not None:
            raise TurnError(
                failure.kind, f"{file.name} failed with {failure.kind}: {failure.message} ({run})"
            )
        return turn

    def play_all(
        self,
        data: Path | str,
        *,
        repeat: int = 1,
        concurrency: int = 1,
        limit: int | None = None,
    ) -> Results:
        """Stream a data set and return its turns, including failed ones.

        Args:
            data: A folder of recordings, a manifest, an EchoMind folder, ``sample`` or ``sample-dialogues``.
            limit: Maximum number of recordings; None for all.

        Raises:
            DataError: The data cannot be used.
            UsageError: The endpoint or a setting does not exist, or an event loop is running in this thread.
        """
        path = self.base_folder / data
        run = self._new_run()
        table = {
            **self.settings.get("data", {}),
            "path": str(path) if path.exists() else str(data),
            **({} if limit is None else {"limit": limit}),
        }
        self._record(run, table, {"concurrency": concurrency, "repeat": repeat})
        return read_turns(run)

    def play_probe(
        self, probe: str, *, conditions: Sequence[str] = (), repeat: int = 1, concurrency: int = 1
    ) -> ProbeTrials:
        """Run the trials of a duplex probe and return their results, including failed sessions.

        Args:
            probe: Name of a probe from ``live-eval duplex --list``.
            conditions: Names of the probe's conditions; empty for all.

        Raises:
            LiveEvalError: No session succeeded.
            UsageError: The endpoint, a setting, the probe or a condition does not exist, the endpoint cannot
                be interrupted, or an event loop is running in this thread.
        """
        folder = self._new_run()
        plan = DuplexPlan(
            config=self._config(self.settings.get("data", {}), {"concurrency": concurrency}),
            probes=(probe,),
            conditions=conditions,
            repeat=repeat,
            sentinel_turns=0,
        )
        campaign = DuplexCampaign(plan, folder)
        with StopSignals(for_command=False) as stop:
            outcome = run_loop(campaign.run(Observer(), stop))
        if outcome.interrupted:
            raise KeyboardInterrupt
        if outcome.stopped:
            raise LiveEvalError(f"{folder}: {outcome.stopped}")
        return read_probe(folder, probe)

    def _new_run(self) -> Path:
        _check_no_loop()
        private_folder(self.folder)
        names = itertools.chain([self.name], (f"{self.name}-{number}" for number in itertools.count(2)))
        return next(path for name in names if not (path := self.folder / name).exists())

    def _record(self, run: Path, data: Mapping[str, Any], turns: Mapping[str, Any]) -> None:
        plan = make_plan(self._config(data, turns))
        with RunWriter.create(run, plan.manifest()) as writer:
            outcome = run_loop(run_plan(plan, writer, run, Observer(), counts_refusals=True))
            writer.end(finished=outcome.complete)
        if outcome.interrupted:
            raise KeyboardInterrupt
        if outcome.unreachable:
            raise ConnectError(FailureKind.CONNECT_FAILED, outcome.unreachable)
        if not outcome.complete:
            raise LiveEvalError(
                f"{run}: {counted(outcome.missing, 'turn')} not recorded: this is a bug in live-eval"
            )

    def _config(self, data: Mapping[str, Any], turns: Mapping[str, Any]) -> RunConfig:
        endpoint = {"name": self.endpoint, **({} if self.base_url is None else {"base_url": self.base_url})}
        return validate(
            {
                **{table: dict(keys) for table, keys in self.settings.items()},
                "endpoint": {**self.settings.get("endpoint", {}), **endpoint},
                "data": dict(data),
                # retries would hide failures from the test
                "turns": {**self.settings.get("turns", {}), **turns, "retries": 0},
                "judges": {"names": ()},
            }
        )


def _check_no_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(
        "an event loop is already running in this thread: call this from a synchronous test function, or "
        "with `await asyncio.to_thread(…)`"
    )
