"""Talk of the studio over real requests and WebRTC; the page is a plain aiortc client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.audio import read_audio, resample
from live_eval.data import direction, load, sample_path
from live_eval.recording import RUN_FILE, RunReader, TurnRecord
from live_eval.reference.faults.fault_script import parse_faults
from tests.support.rtc_client import Json, Stranger
from tests.support.serving import reference
from tests.support.studio import studio

SPEECH = Path("live_eval/data/sample/data_human/audio/fast/le_101_fast_work_target.flac")
TONE = 5_000
"""A level that only the reply's tone exceeds."""


@pytest.fixture(scope="module")
def utterance() -> NDArray[np.int16]:
    return resample(read_audio(SPEECH).audio, 48_000).int16()[:48_000]


def at(folder: Path, address: str) -> AbstractAsyncContextManager[aiohttp.ClientSession]:
    """A studio whose reference endpoint is at an address."""
    return studio(folder, addresses={"reference": f"ws://{address}/v1"})


async def post(browser: aiohttp.ClientSession, body: Any) -> tuple[int, Json]:
    headers = {"Origin": str(browser._base_url).rstrip("/")}
    async with browser.post("/api/talk", json=body, headers=headers) as answer:
        return answer.status, await answer.json()


async def is_free(browser: aiohttp.ClientSession) -> None:
    """Wait until no conversation is in progress."""
    async with asyncio.timeout(10):
        while True:
            async with browser.get("/api/talk") as answer:
                if not (await answer.json())["taken"]:
                    return
            await asyncio.sleep(0.02)


@asynccontextmanager
async def page(browser: aiohttp.ClientSession, mode: str | None = None) -> AsyncIterator[Stranger]:
    """A page that talks to the reference endpoint."""
    client = Stranger("talk")
    try:
        body = {"offer": await client.offer(), "turns": {"mode": mode} if mode else {}}
        status, began = await post(browser, body)
        assert status == 200, began
        await client.accept(began["answer"])
        async with asyncio.timeout(20):
            await until(client, "state", state="talking")
            yield client
    finally:
        await client.close()


@asynccontextmanager
async def page_of_several(
    browser: aiohttp.ClientSession, *more: Json, blind: bool = False
) -> AsyncIterator[tuple[Stranger, Json]]:
    """A page that talks to the reference endpoint and others simultaneously, and the studio's answer."""
    client = Stranger("talk")
    try:
        body = {"offer": await client.offer(), "more_endpoints": list(more), "blind": blind}
        status, began = await post(browser, body)
        assert status == 200, began
        await client.accept(began["answer"])
        async with asyncio.timeout(20):
            await until(client, "state", state="talking")
            yield client, began
    finally:
        await client.close()


async def until(client: Stranger, kind: str, **fields: Any) -> list[Json]:
    """Return the updates up to the first of a kind with these fields, inclusive."""
    found: list[Json] = []
    while True:
        found += await client.event(kind)
        if fields.items() <= found[-1].items():
            return found


def stored(folder: Path) -> list[TurnRecord]:
    (run,) = folder.iterdir()
    with RunReader.open(run) as reader:
        assert reader.ended
        return list(reader.turns())


async def test_a_conversation_is_played_and_stored_as_a_run(
    tmp_path: Path, utterance: NDArray[np.int16]
) -> None:
    async with reference(reply_ms=600) as address, at(tmp_path, address) as browser:
        async with page(browser) as client:
            client.microphone.say(utterance)
            await client.hears(TONE)
            news = await until(client, "turn")
            client.send(type="end")
            news += await until(client, "stored")
        async with browser.get("/api/runs") as answer:
            (row,) = await answer.json()
    (turn,) = await asyncio.to_thread(stored, tmp_path)
    assert turn.failure is None
    assert (row["id"], row["turns"], row["finished"]) == (news[-1]["run"], 1, True)
    (figures,) = [each for each in news if each["type"] == "turn"]
    assert turn.timing.voice_to_voice.ns is not None
    assert figures["voice_to_voice_ms"] == pytest.approx(turn.timing.voice_to_voice.ns / 1e6, abs=0.06)
    assert figures["steps"][0]["name"] == "endpointing"
    levels = [each for each in news if each["type"] == "levels"]
    assert max(each["user"] for each in levels) > -30
    assert max(each["reply"] for each in levels) > -30
    assert [each["state"] for each in news if each["type"] == "state"] == ["ended"]


async def test_the_track_is_silent_after_a_barge_in(tmp_path: Path, utterance: NDArray[np.int16]) -> None:
    async with reference(reply_ms=6_000) as address, at(tmp_path, address) as browser:
        async with page(browser) as client:
            client.microphone.say(utterance)
            await client.hears(TONE)
            client.microphone.say(utterance)
            await until(client, "speech", barge_in=True)
            first = (await until(client, "turn"))[-1]
        await is_free(browser)
    assert first["barge_in_stop_ms"] is not None
    loud = sum(int(np.abs(pcm.astype(int)).max()) > TONE for pcm in client.heard)
    assert 0 < loud < 150, "of 300 packets"


async def test_a_manual_turn_is_committed_and_a_muted_microphone_is_silent(
    tmp_path: Path, utterance: NDArray[np.int16]
) -> None:
    async with reference(reply_ms=300) as address, at(tmp_path, address) as browser:
        async with page(browser, "manual") as client:
            client.send(type="mute", on=True)
            client.send(type="nonsense")
            await until(client, "levels", muted=True)
            client.microphone.say(np.pad(utterance[:24_000], (0, 24_000)))
            await client.microphone.said()
            client.send(type="mute", on=False)
            await until(client, "levels", muted=False)
            client.microphone.say(utterance)
            await until(client, "speech", speaking=True)
            await client.microphone.said()
            client.send(type="commit")
            await until(client, "turn")
        await is_free(browser)
    (turn,) = await asyncio.to_thread(stored, tmp_path)
    assert turn.failure is None


async def test_turns_are_kept_when_the_endpoint_fails_the_key_has_expired_and_the_tab_closes(
    tmp_path: Path, utterance: NDArray[np.int16]
) -> None:
    async with (
        reference(reply_ms=600, faults=parse_faults("close,status:401@every=2")) as address,
        at(tmp_path, address) as browser,
    ):
        async with page(browser) as client:
            client.microphone.say(utterance)
            news = await until(client, "state", state="disconnected")
            assert news[-1]["failure"]["kind"] == "closed"
            client.send(type="reconnect")
            news = await until(client, "state", state="disconnected")
            assert news[-1]["failure"]["kind"] == "authentication"
            assert "401" in news[-1]["failure"]["message"]
            client.send(type="reconnect")
            await until(client, "state", state="talking")
        await is_free(browser)
    (turn,) = await asyncio.to_thread(stored, tmp_path)
    assert turn.failure is not None


async def test_an_unreachable_endpoint_is_named(tmp_path: Path) -> None:
    async with at(tmp_path, "127.0.0.1:9") as browser:
        client = Stranger("talk")
        status, began = await post(browser, {"offer": await client.offer()})
        assert status == 200
        await client.accept(began["answer"])
        async with asyncio.timeout(10):
            news = await until(client, "state", state="disconnected")
        assert news[-1]["failure"]["kind"] == "connection_refused"
        await client.close()
        await is_free(browser)


async def test_a_second_tab_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    async with reference() as address, at(tmp_path, address) as browser:
        async with page(browser):
            status, refused = await post(browser, {"offer": "v=0"})
            assert (status, refused["error"]["kind"]) == (409, "busy")
        await is_free(browser)
        async with page(browser):
            pass
        await is_free(browser)


async def test_a_page_closed_while_connecting_blocks_no_other(tmp_path: Path) -> None:
    left = Stranger("talk")
    async with reference() as address, at(tmp_path, address) as browser:
        status, _ = await post(browser, {"offer": await left.offer()})
        assert status == 200
        await left.close()  # the page's browser cannot report it
        async with page(browser):
            pass
        await is_free(browser)
    assert await asyncio.to_thread(stored, tmp_path) == []


async def test_a_page_that_never_connected_leaves_no_run(tmp_path: Path) -> None:
    client = Stranger("talk")
    async with studio(tmp_path) as browser:
        status, _ = await post(browser, {"offer": await client.offer()})
        assert status == 200
    await client.close()
    assert not await asyncio.to_thread(lambda: list(tmp_path.iterdir()))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ([], "'offer'"),
        ({"offer": 1}, "'offer'"),
        ({"offer": "v=0", "endpoint": []}, "endpoint: expected"),
        ({"offer": "v=0", "endpoint": {"key_variable": "HOME"}}, "endpoint: expected"),
        ({"offer": "v=0", "endpoint": {"base_url": "wss://thief.example/v1"}}, "endpoint: expected"),
        ({"offer": "v=0", "endpoint": {"name": "nobody"}}, "nobody"),
        ({"offer": "v=0", "endpoint": {"name": ["openai"]}}, "endpoint.name: expected"),
        ({"offer": "v=0", "endpoint": {"name": "azure"}}, "--endpoint azure=URL"),
        ({"offer": "v=0", "endpoint": {"name": "openai"}}, "OPENAI_API_KEY"),
        ({"offer": "v=0", "turns": {"mode": "never"}}, "never"),
        ({"offer": "v=0", "more_endpoints": {}}, "more_endpoints: expected a list of at most 3"),
        ({"offer": "v=0", "more_endpoints": [{}] * 4}, "more_endpoints: expected a list of at most 3"),
        ({"offer": "v=0", "more_endpoints": [{"base_url": "ws://x"}]}, "more_endpoints: expected an object"),
        ({"offer": "v=0", "more_endpoints": [{}], "perform": {"data": "sample"}}, "a single endpoint"),
        ({"offer": "v=0"}, "m=audio"),
    ],
)
async def test_invalid_requests_are_refused_with_a_message(
    tmp_path: Path, body: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with studio(tmp_path) as browser:
        status, refused = await post(browser, body)
        assert (status, refused["error"]["kind"]) == (400, "request")
        assert words in refused["error"]["message"]
        assert "--key" not in refused["error"]["message"]
        await is_free(browser)
    assert not await asyncio.to_thread(lambda: list(tmp_path.iterdir()))


async def test_the_server_decides_addresses_and_says_which_host_receives_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-the-test")
    addresses, said = {"openai": "wss://me:hunter2@127.0.0.1:9/v1"}, list[str]()
    async with studio(tmp_path, addresses=addresses, said=said) as browser:
        async with browser.get("/api/talk") as answer:
            listed = {each["name"]: each for each in (await answer.json())["endpoints"]}
        assert listed["openai"]["base_url"] == "wss://127.0.0.1:9/v1"
        await post(browser, {"offer": "v=0", "endpoint": {"name": "openai"}})
        assert not said, "an offer that is refused sends no key"
        client = Stranger("talk")
        try:
            await post(browser, {"offer": await client.offer(), "endpoint": {"name": "openai"}})
        finally:
            await client.close()
    assert said == ["127.0.0.1:9 receives the key in OPENAI_API_KEY"]


async def test_endpoints_are_listed_without_their_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-the-test")
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    async with studio(tmp_path) as browser, browser.get("/api/talk") as answer:
        assert "a-key-of-the-test" not in await answer.text()
        listed = {each["name"]: each for each in (await answer.json())["endpoints"]}
    assert listed["openai"]["missing"] is None
    assert "GEMINI_API_KEY" in listed["gemini-live"]["missing"]
    assert "openai-chat-audio" not in listed  # one request for each turn


async def test_a_studio_of_single_runs_stores_no_conversation(tmp_path: Path) -> None:
    (tmp_path / RUN_FILE).touch()
    async with studio(tmp_path) as browser:
        status, refused = await post(browser, {"offer": "v=0"})
        assert status == 400
        assert "a folder of runs" in refused["error"]["message"]


async def test_several_endpoints_hear_one_microphone_and_are_voted_on(
    tmp_path: Path, utterance: NDArray[np.int16]
) -> None:
    async with reference(reply_ms=400) as quick, reference(reply_ms=400, delay_ms=1_100) as slow:
        addresses = {"reference": f"ws://{quick}/v1", "openai": f"ws://{slow}/v1"}
        addresses["openai-beta"] = "ws://127.0.0.1:9/v1"
        async with studio(tmp_path, addresses=addresses) as browser:
            more = [{"name": "openai"}, {"name": "openai-beta"}, {"name": "reference", "model": "m/1"}]
            async with page_of_several(browser, *more) as (client, began):
                names = ["reference", "openai", "openai-beta", "reference m-1"]
                assert began["endpoints"] == names
                client.send(type="hear", endpoint=1)
                client.send(type="hear", endpoint="all")
                client.send(type="vote", endpoint=-1)
                await until(client, "heard", endpoint=1)
                client.microphone.say(utterance)
                await client.hears(TONE)
                news: list[Json] = []
                kept = 0
                states: list[str] = []  # of the slow endpoint
                while kept < 3 or states[-2:] != ["speaking", "listening"]:
                    news.append(await client.events.get())
                    kept += news[-1]["type"] == "kept"
                    if news[-1]["type"] == "standing" and news[-1]["endpoint"] == 1:
                        states.append(news[-1]["state"])
                turns = {each["endpoint"]: each for each in news if each["type"] == "turn"}
                client.send(type="vote", endpoint=1)
                assert (await until(client, "vote"))[-1]["wins"] == [0, 1, 0, 0]
                client.send(type="end")
                (*_, end) = await until(client, "stored")
    assert sorted(turns) == [0, 1, 3]
    assert turns[1]["voice_to_voice_ms"] > turns[0]["voice_to_voice_ms"] + 300
    assert states[-3:] == ["thinking", "speaking", "listening"]
    missing = [run["endpoint"] for run in end["runs"] if run["failure"]]
    assert missing == ["openai-beta"]
    assert [run["turns"] for run in end["runs"]] == [1, 1, 0, 1]
    assert end["votes"].startswith("live-eval arena ")
    assert end["votes"].endswith("-votes.csv")

    def in_folder() -> list[str]:
        return [path.name[21:] for path in sorted(tmp_path.iterdir())]

    stored_names = [f"{name.replace(' ', '-')}-live" for name in names]
    assert sorted(await asyncio.to_thread(in_folder)) == sorted([*stored_names, "votes.csv"])


async def test_one_of_two_endpoints_dies_and_the_other_continues(
    tmp_path: Path, utterance: NDArray[np.int16]
) -> None:
    async with reference(reply_ms=300) as alive, AsyncExitStack() as life:
        mortal = await life.enter_async_context(reference(reply_ms=300))
        addresses = {"reference": f"ws://{alive}/v1", "openai": f"ws://{mortal}/v1"}
        async with (
            studio(tmp_path, addresses=addresses) as browser,
            page_of_several(browser, {"name": "openai"}) as (client, _),
        ):
            client.microphone.say(utterance)
            turns = [(await until(client, "turn"))[-1]["endpoint"] for _ in range(2)]
            await life.aclose()
            died = (await until(client, "standing", endpoint=1, state="disconnected"))[-1]
            client.microphone.say(utterance)
            turns.append((await until(client, "turn", number=2))[-1]["endpoint"])
            client.send(type="end")
            (*_, end) = await until(client, "stored")
    assert (sorted(turns[:2]), turns[2], died["endpoint"]) == ([0, 1], 0, 1)
    assert [run["turns"] for run in end["runs"]] == [2, 1]
    assert [run["failure"] is None for run in end["runs"]] == [True, False]


async def test_the_names_of_several_endpoints_are_hidden_until_the_end(tmp_path: Path) -> None:
    async with (
        reference() as address,
        at(tmp_path, address) as browser,
        page_of_several(browser, {"name": "reference"}, blind=True) as (client, began),
    ):
        assert began["endpoints"] == ["A", "B"]
        assert "reference" not in json.dumps({**began, "answer": ""})
        client.send(type="end")
        (*_, end) = await until(client, "stored")
    assert [run["label"] for run in end["runs"]] == ["A", "B"]
    assert {run["endpoint"] for run in end["runs"]} == {"reference", "reference 2"}
    assert end["votes"] is None


async def test_the_studio_stores_the_conversation_when_it_stops(tmp_path: Path) -> None:
    client = Stranger("talk")
    async with reference() as address, at(tmp_path, address) as browser:
        _, began = await post(browser, {"offer": await client.offer()})
        await client.accept(began["answer"])
        await until(client, "state", state="talking")
    assert await asyncio.to_thread(stored, tmp_path) == []
    await client.close()


async def asked(client: Stranger, said: dict[str, NDArray[np.int16]]) -> list[Json]:
    """Perform takes until the performance ends, and accept all of them; return the updates."""
    news: list[Json] = []
    while True:
        news.append(await client.events.get())
        match news[-1]:
            case {"type": "take", "direction": direction}:
                client.microphone.say(said[direction])
            case {"type": "checked", "usable": True}:
                client.send(type="take", choice="nonsense")
                client.send(type="take", choice="accept")
            case {"type": "stored"}:
                return news


@pytest.mark.slow  # recognises every take
async def test_scripts_are_performed_and_stored_with_consent(tmp_path: Path) -> None:
    def recorded() -> dict[str, NDArray[np.int16]]:
        cases = [case for case in load(sample_path()).cases if case.script_id == "le_101"]
        return {
            direction(case.cue) or "": resample(read_audio(case.audio_path).audio, 48_000).int16()
            for case in cases
            if case.source == "synthesis"
        }

    voice = await asyncio.to_thread(recorded)
    perform = {"data": "sample", "scripts": 1, "consent": " A. B. "}
    async with reference(reply_ms=300) as address, at(tmp_path, address) as browser:
        async with browser.get("/api/talk?perform=1") as answer:
            choices = await answer.json()
        assert choices["data"] == ["sample", "sample-dialogues"]
        client = Stranger("talk")
        try:
            for wrong, message in (
                ({"data": "/etc"}, "perform.data: expected one of sample"),
                ({"consent": " "}, "expected your consent"),
                ({"scripts": 0}, "perform.scripts: expected a number"),
                ({"scripts": True}, "perform.scripts: expected a number"),
                ({"path": "x"}, "perform: expected an object with some of the keys"),
            ):
                status, refused = await post(browser, {"offer": "", "perform": perform | wrong})
                assert status == 400
                assert message in refused["error"]["message"]
            assert not await asyncio.to_thread(lambda: list(tmp_path.iterdir()))
            status, began = await post(browser, {"offer": await client.offer(), "perform": perform})
            assert status == 200, began
            await client.accept(began["answer"])
            async with asyncio.timeout(90):
                news = await asked(client, voice)
        finally:
            await client.close()
        async with browser.get(f"/api/runs/{news[-1]['run']}/cues") as answer:
            assert "No conclusion" in (await answer.json())["cue_sensitivity"]["in_words"]
        async with browser.get("/api/runs") as answer:
            (row,) = await answer.json()
    assert (row["turns"], row["finished"]) == (6, True)
    assert [each["total"] for each in news if each["type"] == "take"] == [3] * 3
    run = tmp_path / row["name"]
    takes = run.with_name(f"{run.name}-takes")
    consent = json.loads(await asyncio.to_thread((takes / "consent.json").read_text))
    assert (consent["given_by"], consent["text"]) == ("A. B.", choices["consent"])
    assert " at 127.0.0.1" in consent["recipient"]
    found = await asyncio.to_thread(load, takes)
    assert len(found.cases) == 3

    def is_described() -> bool:
        with RunReader.open(run) as reader:
            return bool(reader.manifest["data"]["fingerprint"] == found.fingerprint)

    assert await asyncio.to_thread(is_described)
