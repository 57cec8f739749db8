"""Duplex campaigns over real sockets, against the reference endpoint in its own process, without models."""

import asyncio
import json
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from click.testing import CliRunner

from live_eval.campaigns.campaign import CampaignOutcome
from live_eval.campaigns.duplex.campaign import DuplexCampaign, DuplexPlan
from live_eval.campaigns.duplex.stimuli import STIMULI_VERSION
from live_eval.campaigns.duplex.summary import compare_campaigns, duplex_summary, read_duplex
from live_eval.cli.duplex import command
from live_eval.errors import StoreError, UsageError
from live_eval.recording import RunReader, TurnRecord
from live_eval.reference.server.process import ReferenceProcess
from live_eval.run.run_file import validate
from live_eval.run.runner import Observer, RunOutcome, run_plan
from live_eval.run.stop_signals import StopSignals
from tests.support.marked_cases import marked_turn, write_manifest


class Silent(Observer):
    """An observer that counts repeated void trials."""

    def __init__(self) -> None:
        self.again: list[int] = []

    def note(self, text: str) -> None:
        if found := re.search(r"repeating (\d+) void trials?", text):
            self.again.append(int(found[1]))


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def endpoint(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    async with ReferenceProcess(calibrate=True, log_folder=tmp_path_factory.mktemp("endpoint")) as process:
        yield process.base_url


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """A dialogue whose second utterance interrupts the reply 150 ms into it, in marked speech of 0.2 s."""
    turn = marked_turn(tmp_path, "speech")
    return write_manifest(tmp_path, [{"id": "d", "turns": [turn, {**turn, "anchor": "reply_audible+150ms"}]}])


async def held(
    base_url: str,
    manifest: Path,
    folder: Path,
    *impairments: str,
    observer: Silent | None = None,
    resume: bool = False,
    repeat: int = 1,
    **turns: Any,
) -> CampaignOutcome:
    def campaign() -> DuplexCampaign:
        config = validate(
            {
                "endpoint": {"name": "reference", "base_url": base_url},
                "data": {"path": str(manifest)},
                "turns": {"word_times": "off", "reply_timeout": 0.5} | turns,
                "impair": {"specs": list(impairments)},
            }
        )
        plan = DuplexPlan(config=config, probes=("own",), repeat=repeat, sentinel_turns=0)
        return DuplexCampaign(plan, folder, resume=resume)

    played = await asyncio.to_thread(campaign)
    with StopSignals() as stop:
        return await played.run(observer or Silent(), stop)


async def outcomes(folder: Path) -> dict[str, list[dict[str, int]]]:
    """Return the outcomes of each run of a campaign, condition by condition."""
    summary = await asyncio.to_thread(lambda: duplex_summary(read_duplex(folder)).as_json())
    assert summary["complete"]
    found: dict[str, list[dict[str, int]]] = {}
    for entry in summary["probes"]:
        assert (entry["probe"], entry["condition"]) == ("own", "interruption, reply_audible+150ms")
        found.setdefault(entry["run"], []).append(entry["outcomes"])
    return found


def attempts_in(folder: Path) -> set[int]:
    with RunReader.open(folder) as run:
        return {turn.attempt for turn in run.turns()}


@pytest.mark.asyncio(loop_scope="module")
async def test_outcomes_match_the_endpoints_script(endpoint: str, manifest: Path, tmp_path: Path) -> None:
    behaviours = {
        "yielded": "stop_ms=100&reply_ms=2000",
        "kept_talking": "stop_ms=never&reply_ms=2600",
        "no_reply": "fault=silent",
        "natural_end": "stop_ms=never&reply_ms=400",
    }
    observers = {name: Silent() for name in behaviours}
    await asyncio.gather(
        *(
            held(f"{endpoint}?{query}", manifest, tmp_path / name, observer=observers[name])
            for name, query in behaviours.items()
        )
    )
    for name in behaviours:
        assert await outcomes(tmp_path / name) == {"clean": [{name: 1}]}
    assert observers["natural_end"].again == [1, 1], "a void trial is repeated twice"
    assert not observers["kept_talking"].again
    summary = await asyncio.to_thread(lambda: duplex_summary(read_duplex(tmp_path / "yielded")).as_json())
    (trial,) = summary["probes"][0]["trials"]
    assert trial["durations_ms"]["audible_stop"] > 0
    assert trial["durations_ms"]["discarded"] > 0
    assert trial["marks"]["reply_onset"] < trial["marks"]["user_start"] < trial["marks"]["reply_silent"]
    (silent,) = (
        await asyncio.to_thread(lambda: duplex_summary(read_duplex(tmp_path / "no_reply")).as_json())
    )["probes"]
    assert "no response within" in silent["trials"][0]["reason"], "why nothing was heard"
    assert await asyncio.to_thread(attempts_in, tmp_path / "no_reply" / "clean") == {1}, "not retried"
    (void,) = (
        await asyncio.to_thread(lambda: duplex_summary(read_duplex(tmp_path / "natural_end")).as_json())
    )["probes"]
    assert (len(void["trials"]), void["void"], void["passed"]["n"]) == (3, 3, 0)
    compared = await asyncio.to_thread(
        lambda: compare_campaigns(
            read_duplex(tmp_path / "yielded"), read_duplex(tmp_path / "kept_talking")
        ).as_json()
    )
    (row,) = compared["paired"]
    assert row["outcomes"] == {"yielded → kept_talking": 1}
    assert row["passed"]["value"] == -100


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_the_endpoint_does_not_interrupt_because_of_the_stimuli(tmp_path: Path) -> None:
    async def interrupts(base_url: str, silence_ms: int) -> float:
        """Interrupt an endpoint with this detector silence, and return tau2's I_A."""
        folder = tmp_path / str(silence_ms)
        detection = {"type": "server_vad", "silence_duration_ms": silence_ms}

        def campaign() -> DuplexCampaign:
            config = validate(
                {
                    "endpoint": {"name": "reference", "base_url": base_url, "turn_detection": detection},
                    "turns": {"word_times": "off", "concurrency": 4},
                }
            )
            plan = DuplexPlan(config=config, probes=("simultaneous",), repeat=4, sentinel_turns=0)
            return DuplexCampaign(plan, folder)

        await (await asyncio.to_thread(campaign)).run(Silent(), StopSignals())
        summary = await asyncio.to_thread(lambda: duplex_summary(read_duplex(folder)).as_json())
        assert summary["stimuli"] == STIMULI_VERSION
        figure = summary["metrics"]["clean"]["tau2.I_A"]
        assert figure["n_corrected"] == 8
        return float(figure["corrected"])

    async with ReferenceProcess(log_folder=tmp_path) as process:
        found = {silence_ms: await interrupts(process.base_url, silence_ms) for silence_ms in (500, 900)}
    assert found == {500: 0.0, 900: 0.0}


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_the_same_trials_are_repeated_with_an_impairment(
    endpoint: str, manifest: Path, tmp_path: Path
) -> None:
    url = f"{endpoint}?stop_ms=100&reply_ms=2000"
    await held(url, manifest, tmp_path / "c", "delay=30ms")
    assert await outcomes(tmp_path / "c") == {"clean": [{"yielded": 1}], "impaired": [{"yielded": 1}]}
    summary = await asyncio.to_thread(lambda: duplex_summary(read_duplex(tmp_path / "c")).as_json())
    assert (summary["impairment"], summary["runs"]["impaired"]) == ("delay=30ms", "impaired")
    (pair,) = summary["paired"]
    assert pair["pairs"] == 1
    with pytest.raises(StoreError, match="already contains a campaign"):
        await held(url, manifest, tmp_path / "c")


class Impatient(Silent):
    """An observer that asks the campaign to stop once a turn of the impaired run has been stored."""

    def __init__(self) -> None:
        super().__init__()
        self._runs = 0

    def note(self, text: str) -> None:
        self._runs += text.endswith(" min")
        super().note(text)

    def turn(self, record: TurnRecord) -> None:
        if self._runs == 2 and record.case.turn_index == 1:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_a_campaign_that_was_stopped_resumes_without_losing_or_repeating_a_trial(
    endpoint: str, manifest: Path, tmp_path: Path
) -> None:
    url, folder = f"{endpoint}?stop_ms=100&reply_ms=2000", tmp_path / "c"
    plan: dict[str, Any] = {"repeat": 2, "observer": Impatient()}
    outcome = await held(url, manifest, folder, "delay=30ms", **plan)
    assert outcome == CampaignOutcome(failed=0, interrupted=True, stopped="")
    first = json.loads((folder / "duplex.json").read_text())
    assert not first["complete"]
    with pytest.raises(StoreError, match=r"its repeat was 2, but is now 3"):
        await held(url, manifest, folder, "delay=30ms", repeat=3, resume=True)
    with pytest.raises(StoreError, match=r"its impair\.specs was \['delay=30ms'\], but is now not set"):
        await held(url, manifest, folder, repeat=2, resume=True)
    assert await held(url, manifest, folder, "delay=30ms", repeat=2, resume=True) == CampaignOutcome(
        failed=0, interrupted=False, stopped=""
    )
    assert await outcomes(folder) == {"clean": [{"yielded": 2}], "impaired": [{"yielded": 2}]}
    whole = json.loads((folder / "duplex.json").read_text())
    assert (whole["complete"], whole["created"]) == (True, first["created"])
    assert re.search(r"resumed at .*, after 3 of 4 trials", whole["notes"][-1])
    summary = await asyncio.to_thread(lambda: duplex_summary(read_duplex(folder)).as_json())
    assert [each["playing"] for entry in summary["probes"] for each in entry["trials"]] == [0] * 4


@pytest.mark.asyncio(loop_scope="module")
async def test_a_campaign_stops_if_no_session_can_be_opened(manifest: Path, tmp_path: Path) -> None:
    ended = await held("ws://127.0.0.1:9/v1", manifest, tmp_path / "c", "delay=30ms", retries=0)
    assert "no session succeeded (connection_refused" in ended.stopped
    summary = await asyncio.to_thread(lambda: duplex_summary(read_duplex(tmp_path / "c")).as_json())
    assert not summary["complete"]
    assert [entry["outcomes"] for entry in summary["probes"]] == [{"failed": 1}], (
        "and not once more, impaired"
    )


def test_unused_recordings_are_noted(manifest: Path, tmp_path: Path) -> None:
    shutil.copy(tmp_path / "speech.wav", tmp_path / "plain.wav")
    with manifest.open("a", encoding="utf-8") as rows:
        rows.write("\n" + json.dumps({"id": "plain", "audio": "plain.wav"}))
    config = validate({"endpoint": {"name": "reference"}, "data": {"path": str(manifest)}})
    plan = DuplexPlan(config=config, probes=("own",), repeat=1, sentinel_turns=0)
    campaign = DuplexCampaign(plan, tmp_path / "c")
    assert any("1 of 3 recordings not used" in note for note in campaign.notes)


def test_endpoints_without_barge_in_are_refused_before_writing(tmp_path: Path) -> None:
    def played(*arguments: str) -> Any:
        return CliRunner().invoke(command, [*arguments, "--out", str(tmp_path / "c")])

    for arguments, message in (
        (("reference", "--turn-mode", "manual"), "the user's speech only when a turn is committed"),
        (("openai-chat-audio", "--base-url", "http://127.0.0.1:9/v1"), "one request per turn"),
        (("reference", "--probe", "hum"), "unknown probe 'hum'"),
        (("reference", "--probe", "own"), "requires --data"),
        (("reference", "--impair", "loss=5%"), "loss"),
    ):
        result = played(*arguments)
        assert isinstance(result.exception, UsageError), arguments
        assert message in str(result.exception)
    assert not (tmp_path / "c").exists()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_campaign_killed_before_its_first_turn_starts_again(
    endpoint: str, manifest: Path, tmp_path: Path
) -> None:
    config = validate({"endpoint": {"name": "reference"}, "data": {"path": str(manifest)}})
    plan = DuplexPlan(config=config, repeat=1)
    await asyncio.to_thread(DuplexCampaign, plan, tmp_path / "c")
    assert len(list((tmp_path / "c" / "stimuli").iterdir())) > 3
    await held(f"{endpoint}?stop_ms=100&reply_ms=2000", manifest, tmp_path / "c")
    assert await outcomes(tmp_path / "c") == {"clean": [{"yielded": 1}]}


@pytest.mark.asyncio(loop_scope="module")
async def test_a_run_with_missing_turns_is_not_finished(
    endpoint: str, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forgetful(*args: Any, **kwargs: Any) -> RunOutcome:
        return replace(await run_plan(*args, **kwargs), missing=1)

    monkeypatch.setattr("live_eval.campaigns.campaign.run_plan", forgetful)
    ended = await held(f"{endpoint}?stop_ms=100&reply_ms=2000", manifest, tmp_path / "c")
    assert ended.stopped == "1 turn not recorded"
    summary = await asyncio.to_thread(lambda: duplex_summary(read_duplex(tmp_path / "c")).as_json())
    assert not summary["complete"]
