"""The studio's API for runs, over real requests."""

from __future__ import annotations

import asyncio
import base64
import csv
import io
import json
import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import numpy as np
import pytest
import soundfile
from aiohttp.web_urldispatcher import AbstractRoute

from live_eval.errors import FailureKind
from live_eval.judging import Scored
from live_eval.recording import RUN_FILE, SCORES_FILE, RunWriter, ScoreStore
from live_eval.studio.application import application
from live_eval.studio.security import Guard
from live_eval.types import Case, Failure, Secret, Variant
from tests.support.campaigns import point, turns_at, write_campaign
from tests.support.duplex_campaigns import pause, write_duplex_campaign
from tests.support.records import TurnPlan, spoken_turn, tone
from tests.support.studio import studio

FIRST = "id_1/target#2"


def a_case(name: str, **fields: Any) -> Case:
    return Case(
        case_id=name,
        script_id=name.partition("/")[0],
        variant=Variant.TARGET,
        audio_path=Path("a.wav"),
        **fields,
    )


def write_run(folder: Path) -> None:
    """A run of three turns, one failed, and scores of the others."""
    with RunWriter.create(folder, {"endpoint": {"name": "made up"}, "turns": 3}) as writer:
        first = a_case("id_1/target", text="Hello there.")
        writer.commit(spoken_turn(first, TurnPlan(first_byte_ms=900), user=tone(800, hz=1000), repeat=1))
        writer.commit(spoken_turn(a_case("id_2", text="Good evening."), TurnPlan(first_byte_ms=300)))
        failure = Failure(FailureKind.NO_RESPONSE, "no response came")
        writer.commit(spoken_turn(a_case("id_10"), TurnPlan(first_byte_ms=None, failure=failure)))
        writer.end()
    with ScoreStore.open(folder) as scores:
        scores.put("taste", "1", FIRST, Scored({"": 4.0}, {"reason": "It is kind."}))
        scores.put("taste", "1", "id_2", Scored({"": 2.0}, {"reason": "It is curt."}))


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, and a campaign of two."""
    folder = tmp_path_factory.mktemp("recordings")
    write_run(folder / "run")
    write_campaign(folder / "campaign", [(point("c1"), turns_at([400, 500])), (point("c2"), turns_at([600]))])
    return folder


async def get(browser: aiohttp.ClientSession, path: str, **query: str | int) -> Any:
    async with browser.get(path, params=query) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def error_of(browser: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with browser.get(path) as answer:
        return answer.status, (await answer.json())["error"]["kind"]


async def id_of(browser: aiohttp.ClientSession, name: str) -> str:
    return str(next(row["id"] for row in await get(browser, "/api/runs") if row["name"] == name))


async def test_runs_campaigns_and_their_runs_are_listed(recordings: Path) -> None:
    async with studio(recordings) as browser:
        rows = {row["name"]: row for row in await get(browser, "/api/runs")}
        assert {name: row["kind"] for name, row in rows.items()} == {
            "run": "run", "campaign": "campaign", "c1": "run", "c2": "run",
        }  # fmt: skip
        assert rows["c1"]["campaign"] == rows["campaign"]["id"]
        assert await get(browser, f"/api/runs/{rows['c1']['id']}/facts") == rows["c1"]
        figures = await get(browser, f"/api/runs/{rows['campaign']['id']}")
        assert [each["name"] for each in figures["runs"]] == ["c2", "c1"]
        assert len(figures["points"]) == 2
        run = await get(browser, f"/api/runs/{rows['run']['id']}")
        assert run["turns"] == {"total": 3, "captured": 2, "failed": 1, "planned": 3}
        assert run["scores"]["taste"]["mean"] == 3
        cues = await get(browser, f"/api/runs/{rows['run']['id']}/cues")
        without = await get(browser, f"/api/runs/{rows['run']['id']}", cues=0)
        assert cues.keys() == {"cue_sensitivity", "cue_maps"}
        assert {**without, **cues} == run


async def test_a_run_has_its_row_in_the_paper_and_its_score_against_latency(tmp_path: Path) -> None:
    def write() -> None:
        write_run(tmp_path / "run")
        with ScoreStore.open(tmp_path / "run") as scores:
            for turn_id, value in ((FIRST, 10.0), ("id_2", 30.0)):
                scores.put("bleu", "3", turn_id, Scored({"": value}))

    await asyncio.to_thread(write)
    async with studio(tmp_path) as browser:
        run_id = await id_of(browser, "run")
        paper = await get(browser, f"/api/runs/{run_id}/paper")
    [table] = paper["tables"]
    assert table["title"] == "Response: text"
    [ours] = [row for row in table["rows"] if not row["published"]]
    place = [column["title"] for column in table["columns"]].index("BLEU")
    assert ours["cells"][place]["value"] == "20.00"
    [plot] = paper["trade_offs"]
    assert plot["title"].startswith("BLEU ↑ against voice to voice")
    assert {dot["href"] for dot in plot["dots"] if dot["href"]} == {f"#/runs/{run_id}/turns/id_2"}


async def test_a_run_without_scores_has_no_row_in_the_paper(recordings: Path) -> None:
    async with studio(recordings) as browser:
        paper = await get(browser, f"/api/runs/{await id_of(browser, 'run')}/paper")
        terms = await get(browser, "/api/glossary")
    assert (paper["tables"], paper["trade_offs"]) == ([], [])
    assert terms["captured"].startswith("A turn that ended normally")


async def test_the_values_of_the_list_are_those_of_the_run(recordings: Path) -> None:
    async with studio(recordings) as browser:
        run = f"/api/runs/{await id_of(browser, 'run')}"
        key, values = await get(browser, f"{run}/key"), await get(browser, run)
        facts = await get(browser, f"{run}/facts")
    assert key["voice_to_voice"] == values["latency_ms"]["voice_to_voice"]
    assert facts["model"] == values["run"]["model"] == "made-up", "the model that the endpoint reported"
    assert (key["main_scores"], key["estimator"]) == (values["main_scores"], values["estimator"])


async def test_pages_show_the_turns_of_a_run_with_damaged_scores(tmp_path: Path) -> None:
    await asyncio.to_thread(write_run, tmp_path / "run")
    async with studio(tmp_path) as browser:
        run_id = await id_of(browser, "run")
        run = f"/api/runs/{run_id}"
        sound = await get(browser, run)
        (tmp_path / "run" / SCORES_FILE).write_bytes(b"no database" * 100)
        damaged, key = await get(browser, run), await get(browser, f"{run}/key")
        turn = await get(browser, f"{run}/turns/{quote(FIRST, safe='')}")
        async with browser.get(f"/pages/report.html?run={run_id}") as page:
            assert page.status == 200
            assert "live-eval score run" in await page.text()
    assert not sound["unread_scores"]
    assert damaged["latency_ms"] == sound["latency_ms"]
    assert (damaged["scores"], key["main_scores"], turn["scores"]) == ({}, [], [])
    for answer in (damaged, key, turn):
        assert "not a database" in answer["unread_scores"]
        assert str(tmp_path) not in answer["unread_scores"]


async def test_a_run_is_noted(tmp_path: Path) -> None:
    await asyncio.to_thread(write_run, tmp_path / "run")
    async with studio(tmp_path) as browser:
        run = f"/api/runs/{await id_of(browser, 'run')}"
        own = {"Origin": str(browser._base_url).rstrip("/")}
        async with browser.post(f"{run}/note", json={"note": "<b>Loud</b> room. "}, headers=own) as stored:
            assert (stored.status, (await stored.json())["note"]) == (200, "<b>Loud</b> room.")
        async with browser.post(f"{run}/note", json={"note": 1}, headers=own) as refused:
            assert refused.status == 400
        assert [row["note"] for row in await get(browser, "/api/runs")] == ["<b>Loud</b> room."]
        (tmp_path / "run" / "reviews.json").write_text("no JSON")
        assert [row["note"] for row in await get(browser, "/api/runs")] == [""]


async def test_turns_are_filtered_sorted_and_paged(recordings: Path) -> None:
    async with studio(recordings) as browser:
        turns = f"/api/runs/{await id_of(browser, 'run')}/turns"

        async def names(**query: str | int) -> list[str]:
            return [row["turn_id"] for row in (await get(browser, turns, **query))["rows"]]

        assert await names() == [FIRST, "id_2", "id_10"]
        assert await names(sort="turn") == [FIRST, "id_2", "id_10"]
        assert await names(sort="voice_to_voice") == ["id_2", FIRST, "id_10"]
        assert await names(sort="taste", descending=1) == [FIRST, "id_2", "id_10"]
        assert await names(filter="EVENING good") == ["id_2"]
        assert await names(where="voice_to_voice < 500 or failure == no_response") == ["id_2", "id_10"]
        assert await names(where="taste >= 2 and reply != none", sort="taste") == ["id_2", FIRST]
        assert await names(status="failed") == ["id_10"]
        assert await names(offset=1, limit=1) == ["id_2"]
        page = await get(browser, turns, offset=1, limit=1, status="captured")
        assert (page["total"], page["matching"]) == (3, 2)
        assert page["choices"]["status"] == ["captured", "failed"]


@pytest.mark.parametrize(
    "query",
    [
        "sort=taste.none",
        "limit=-1",
        "limit=2000",
        "offset=1.5",
        "flagged=maybe",
        "limit=nan",
    ],
)
async def test_an_invalid_query_is_reported(recordings: Path, query: str) -> None:
    async with studio(recordings) as browser:
        path = f"/api/runs/{await id_of(browser, 'run')}/turns?{query}"
        assert await error_of(browser, path) == (400, "request")


async def test_an_expression_that_is_being_typed_selects_nothing(recordings: Path) -> None:
    async with studio(recordings) as browser:
        page = await get(browser, f"/api/runs/{await id_of(browser, 'run')}/turns", where="tasty > 1")
    assert (page["total"], page["matching"], page["rows"]) == (3, 0, [])
    assert page["invalid"].startswith("where: unknown name 'tasty' (did you mean taste?) at 1")


async def test_the_turns_around_a_turn_follow_the_list(recordings: Path) -> None:
    async with studio(recordings) as browser:
        turns = f"/api/runs/{await id_of(browser, 'run')}/turns"
        around = await get(browser, f"{turns}/id_2/around")
        assert around == {"before": FIRST, "after": "id_10", "place": 2, "matching": 3}
        around = await get(browser, f"{turns}/id_2/around", sort="taste", descending=1, status="captured")
        assert around == {"before": FIRST, "after": None, "place": 2, "matching": 2}
        around = await get(browser, f"{turns}/id_2/around", where="flagged")
        assert around == {"before": None, "after": None, "place": None, "matching": 0}
        assert await error_of(browser, f"{turns}/id_2/around?where=x") == (400, "request")


async def test_a_turn_is_labelled_and_noted(tmp_path: Path) -> None:
    await asyncio.to_thread(write_run, tmp_path / "run")
    async with studio(tmp_path) as browser:
        run = f"/api/runs/{await id_of(browser, 'run')}"
        review = f"{run}/turns/{quote(FIRST, safe='')}/review"
        assert await get(browser, review) == {"labels": [], "note": "", "known": []}
        own = {"Origin": str(browser._base_url).rstrip("/")}
        given = {"labels": ["<b>cold</b>", "late"], "note": "A sigh is ignored."}
        change = {"add": given["labels"], "note": given["note"]}
        async with browser.post(review, json=change, headers=own) as stored:
            assert (stored.status, await stored.json()) == (200, {**given, "known": given["labels"]})
        async with browser.post(review, json={"add": [""]}, headers=own) as refused:
            assert refused.status == 400
        async with browser.post(f"{run}/turns/none/review", json=change, headers=own) as missing:
            assert missing.status == 404
        assert (await get(browser, f"{run}/turns/id_2/review"))["known"] == given["labels"]
        page = await get(browser, f"{run}/turns", where="label == late and note contains sigh")
        assert [(row["turn_id"], row["labels"], row["note"]) for row in page["rows"]] == [
            (FIRST, given["labels"], given["note"])
        ]
        (tmp_path / "run" / "reviews.json").write_text("no JSON")
        page = await get(browser, f"{run}/turns")
        assert (page["matching"], page["rows"][0]["labels"]) == (3, [])
        assert "invalid reviews" in page["problem"]
        assert await error_of(browser, review) == (422, "unreadable")


async def test_a_turn_has_marks_transcript_scores_and_messages(recordings: Path) -> None:
    async with studio(recordings) as browser:
        turn = await get(browser, f"/api/runs/{await id_of(browser, 'run')}/turns/{quote(FIRST, safe='')}")
    assert [mark["kind"] for mark in turn["marks"]] == ["end", "endpointing", "byte", "done", "audible"]
    user, reply = turn["transcript"]
    assert (user["side"], user["text"], user["sounds"]) == ("user", "Hello there.", [[0.0, 0.8]])
    [heard] = reply["sounds"]
    assert heard[0] == pytest.approx(0.8 + 0.9 + 0.08, abs=0.01)
    [score] = turn["scores"]
    assert (score["name"], score["value"]) == ("taste", 4.0)
    assert turn["judgements"][0]["detail"] == {"reason": "It is kind."}
    assert [event["type"] for event in turn["events"]["rows"]] == ["session.update", "session.updated"]


@pytest.fixture
def unscripted(tmp_path: Path) -> Path:
    """A folder with a run whose data has no script text."""
    case = Case(case_id="a", script_id="a", variant=Variant.TARGET, audio_path=Path("a.wav"))
    with RunWriter.create(tmp_path / "run", {}) as writer:
        writer.commit(replace(spoken_turn(case), heard_text="I am on the bus."))
        writer.end()
    return tmp_path


async def test_the_transcript_replaces_a_missing_script(unscripted: Path) -> None:
    async with studio(unscripted) as browser:
        turn = await get(browser, f"/api/runs/{await id_of(browser, 'run')}/turns/a")
    user, _ = turn["transcript"]
    assert (user["text"], user["transcribed"]) == ("I am on the bus.", True)


async def test_word_times_need_the_recogniser(recordings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("live_eval.studio.words_api.available", lambda: "faster_whisper is not installed")
    async with studio(recordings) as browser:
        words = f"/api/runs/{await id_of(browser, 'run')}/turns/{quote(FIRST, safe='')}/words"
        assert await error_of(browser, words) == (400, "request")


@pytest.fixture
def transcribed(tmp_path: Path) -> Path:
    """A folder with a run that also scores the user's audio."""
    write_run(tmp_path / "run")
    with ScoreStore.open(tmp_path / "run") as scores:
        scores.put("wer_heard", "1", FIRST, Scored({"normalized": 0.0}, {}))
    return tmp_path


async def test_a_score_names_the_side_that_its_judge_rates(transcribed: Path) -> None:
    async with studio(transcribed) as browser:
        turn = await get(browser, f"/api/runs/{await id_of(browser, 'run')}/turns/{quote(FIRST, safe='')}")
    sides = {score["name"]: score["side"] for score in turn["scores"]}
    assert sides == {"taste": "reply", "wer_heard.normalized": "user"}


async def test_audio_is_served_in_ranges(recordings: Path) -> None:
    async with studio(recordings) as browser:
        audio = f"/api/runs/{await id_of(browser, 'run')}/turns/{quote(FIRST, safe='')}/audio"
        sides: dict[str, bytes] = {}
        for side in ("both", "user", "reply"):
            async with browser.get(f"{audio}/{side}") as whole:
                sides[side] = await whole.read()
            async with browser.get(f"{audio}/{side}", headers={"Range": "bytes=10-19"}) as part:
                assert (part.status, await part.read()) == (206, sides[side][10:20])
                assert part.headers["Content-Range"] == f"bytes 10-19/{len(sides[side])}"
            async with browser.get(f"{audio}/{side}", headers={"Range": "bytes=-5"}) as end:
                assert await end.read() == sides[side][-5:]
            async with browser.get(f"{audio}/{side}", headers={"Range": "bytes=99999999-"}) as beyond:
                assert beyond.status == 416
        assert await error_of(browser, f"{audio}/neither") == (404, "missing")
    both, _ = soundfile.read(io.BytesIO(sides["both"]), dtype="int16")
    for channel, side in enumerate(("user", "reply")):
        alone, _ = soundfile.read(io.BytesIO(sides[side]), dtype="int16")
        assert np.array_equal(alone, both[:, channel])


async def test_an_interval_is_saved_as_wav(recordings: Path) -> None:
    async with studio(recordings) as browser:
        turn = f"/api/runs/{await id_of(browser, 'run')}/turns/{quote(FIRST, safe='')}"
        query = {"side": "user", "start_s": "0.2", "end_s": "0.5"}
        async with browser.get(f"{turn}/clip.wav", params=query) as clip:
            assert (clip.status, clip.content_type) == (200, "audio/wav")
            assert re.fullmatch(
                r'attachment; filename="id_1-target-2-[0-9a-f]{10}\.user\.wav"',
                clip.headers["Content-Disposition"],
            )
            pcm, rate_hz = soundfile.read(io.BytesIO(await clip.read()), dtype="int16")
        async with browser.get(f"{turn}/audio/both") as whole:
            both, _ = soundfile.read(io.BytesIO(await whole.read()), dtype="int16")
        assert np.array_equal(pcm, both[round(0.2 * rate_hz) : round(0.5 * rate_hz), 0])
        async with browser.get(f"{turn}/clip.wav") as clip:
            pcm, _ = soundfile.read(io.BytesIO(await clip.read()), dtype="int16")
        assert np.array_equal(pcm, both)
        assert await error_of(browser, f"{turn}/clip.wav?side=neither") == (400, "request")


async def test_the_turns_that_match_are_saved_as_csv(recordings: Path) -> None:
    async with studio(recordings) as browser:
        turns = f"/api/runs/{await id_of(browser, 'run')}/turns.csv"
        async with browser.get(turns, params={"sort": "taste", "where": "taste != none"}) as file:
            assert (file.status, file.content_type) == (200, "text/csv")
            assert file.headers["Content-Disposition"] == 'attachment; filename="run-turns.csv"'
            rows = list(csv.DictReader(io.StringIO(await file.text())))
        assert [(row["turn_id"], row["scores.taste"]) for row in rows] == [("id_2", "2.0"), (FIRST, "4.0")]
        assert {"latency_ms.voice_to_voice", "failure.kind", "labels", "note"} <= rows[0].keys()
        async with browser.get(turns, params={"where": "flagged"}) as file:
            assert await file.text() == "turn_id\n"
        assert await error_of(browser, f"{turns}?where=x") == (400, "request")


async def test_waveforms_are_drawn(recordings: Path) -> None:
    async with studio(recordings) as browser:
        turn = f"/api/runs/{await id_of(browser, 'run')}/turns/{quote(FIRST, safe='')}"
        waves = await get(browser, f"{turn}/waveform", bins=50)
        assert len(waves["user"]) == len(waves["reply"]) <= 50
        spoken = [place * waves["step_s"] for place, peak in enumerate(waves["user"]) if peak]
        assert spoken[-1] == pytest.approx(0.8, abs=waves["step_s"])
        part = await get(browser, f"{turn}/waveform", bins=50, start_s="0.79", end_s="0.81")
        assert part["step_s"] < 0.001
        drawn = await get(browser, f"{turn}/spectrogram", side="user", columns=40, end_s="0.8")
    levels = np.frombuffer(base64.b64decode(drawn["data"]), np.uint8).reshape(drawn["columns"], drawn["rows"])
    band_hz = drawn["high_hz"] / drawn["rows"]
    assert (levels[5].argmax() + 0.5) * band_hz == pytest.approx(1000, abs=band_hz)
    assert 20 * np.log10(0.3) == pytest.approx(-90 * (1 - levels[5].max() / 255), abs=1)


async def test_pages_of_other_commands_are_created_and_send_nothing(recordings: Path) -> None:
    async with studio(recordings) as browser:
        run, campaign = [await id_of(browser, name) for name in ("run", "campaign")]
        before = {file.name for file in (recordings / "run").iterdir()}
        for path in (
            f"/pages/report.html?run={run}",
            f"/pages/report.html?run={run}&short=1",
            f"/pages/leaderboard.html?run={run}",
            f"/pages/{campaign}/c1/report.html",
        ):
            async with browser.get(path) as page:
                assert page.status == 200, await page.text()
                assert "connect-src 'none'" in page.headers["Content-Security-Policy"]
                text = await page.text()
                assert text.startswith("<!DOCTYPE html>")
                assert ("data-mime" in text) == ("short" in path)  # embedded audio, in a page to pass on
                assert ('id="streams"' in text) == ("report" in path and "short" not in path)
        assert {file.name for file in (recordings / "run").iterdir()} == before
        for path in (
            "/pages/report.html",
            f"/pages/leaderboard.html?{'&'.join(f'run={n}' for n in range(21))}",
        ):
            async with browser.get(path) as refused:
                assert refused.status == 400
        # In a frame, the browser would show nothing and print the error to its console.
        async with browser.get("/pages/report.html?run=0<b>&framed=1") as page:
            assert (page.status, page.content_type) == (200, "text/html")
            text = await page.text()
            assert "data-problem" in text
            assert "0&lt;b&gt;" in text
            assert "<b>" not in text
        for path in (f"/pages/{campaign}/..%2Frun/report.html", f"/pages/{run}/latency.html"):
            async with browser.get(path) as missing:
                assert missing.status == 404


async def test_the_page_of_a_duplex_campaign_plays_its_audio(tmp_path: Path) -> None:
    trials = [("pause", "400 ms", pause("p-1", 400, waits=True))]
    await asyncio.to_thread(write_duplex_campaign, tmp_path / "duplex", {"clean": trials})
    async with studio(tmp_path) as browser:
        campaign = await id_of(browser, "duplex")
        assert (await get(browser, f"/api/runs/{campaign}"))["folder"]["kind"] == "duplex"
        async with browser.get(f"/pages/{campaign}/duplex.html") as page:
            assert page.status == 200, await page.text()
            names = set(re.findall(r"sounds/[^\"\\&]+\.flac", await page.text()))
        assert len(names) == 3
        for name in names:
            async with browser.get(f"/pages/{campaign}/{name}", headers={"Range": "bytes=0-3"}) as sound:
                assert (sound.status, await sound.read()) == (206, b"fLaC")
        async with browser.get(f"/pages/{campaign}/sounds/..%2Fduplex.json") as missing:
            assert missing.status == 404


def files_in(folder: Path) -> dict[Path, tuple[int, int]]:
    return {
        path: (path.lstat().st_mtime_ns, path.lstat().st_size)
        for path in folder.rglob("*")
        if path.is_file() or path.is_symlink()
    }


@pytest.mark.slow
async def test_no_get_request_writes_into_the_folders(tmp_path: Path) -> None:
    trials = [("pause", "400 ms", pause("p-1", 400, waits=True))]
    points = [(point("c1"), turns_at([400, 500]))]

    def write() -> None:
        write_duplex_campaign(tmp_path / "duplex", {"clean": trials})
        write_campaign(tmp_path / "campaign", points)
        write_run(tmp_path / "run")

    await asyncio.to_thread(write)
    before = await asyncio.to_thread(files_in, tmp_path)
    async with studio(tmp_path) as browser:
        rows = await get(browser, "/api/runs")
        routes = [
            route.resource.canonical
            for route in browser_routes(tmp_path)
            if route.method == "GET" and route.resource is not None
        ]
        asked = 0
        for row in rows:
            listed = await get(browser, f"/api/runs/{row['id']}/turns") if row["kind"] == "run" else None
            turn = quote(listed["rows"][0]["turn_id"], safe="") if listed else "none"
            for route in routes:
                if route.endswith("/progress"):
                    continue
                path = route.replace("{run}", row["id"]).replace("{folder}", row["id"])
                path = path.replace("{turn}", turn).replace("{side}", "both")
                query = [("run", row["id"]), ("run", rows[-1]["id"])]
                async with browser.get(path, params=query) as answer:
                    await answer.read()
                    asked += answer.status == 200
    assert asked > 20
    assert await asyncio.to_thread(files_in, tmp_path) == before


def browser_routes(folder: Path) -> list[AbstractRoute]:
    return list(application([folder], Guard(Secret("token"))).router.routes())


async def events_of(answer: aiohttp.ClientResponse) -> list[tuple[str, Any]]:
    found = []
    for event in (await answer.text()).strip().split("\n\n"):
        if event.startswith("event: "):
            name, _, data = event.removeprefix("event: ").partition("\ndata: ")
            found.append((name, json.loads(data)))
    return found


async def test_a_run_in_progress_is_followed_to_its_end(tmp_path: Path) -> None:
    writer = await asyncio.to_thread(RunWriter.create, tmp_path / "run", {"turns": 1})
    async with studio(tmp_path) as browser:
        run = await id_of(browser, "run")
        async with browser.get(f"/api/runs/{run}/progress") as stream:
            assert stream.content_type == "text/event-stream"
            assert await stream.content.readline() == b"event: progress\n"
            assert b'"state":"running"' in await stream.content.readline()
            await asyncio.to_thread(writer.commit, spoken_turn(a_case("id_1")))
            await asyncio.to_thread(writer.end)
            events = await events_of(stream)
        assert events[-1] == ("end", {})
        assert (events[-2][1]["state"], events[-2][1]["turns"]) == ("finished", 1)
        assert events[-2][1]["latest"][0]["turn_id"] == "id_1"
        assert (await get(browser, f"/api/runs/{run}/turns"))["total"] == 1


async def test_a_run_whose_writer_died_is_interrupted(tmp_path: Path) -> None:
    writer = await asyncio.to_thread(RunWriter.create, tmp_path / "run", {"turns": 1})
    await asyncio.to_thread(writer.close)
    async with studio(tmp_path) as browser:
        [row] = await get(browser, "/api/runs")
        assert (row["state"], row["finished"]) == ("interrupted", False)
        async with browser.get(f"/api/runs/{row['id']}/progress") as stream:
            assert [name for name, _ in await events_of(stream)] == ["progress", "end"]


async def test_a_run_deleted_while_it_is_followed_ends_with_the_problem(tmp_path: Path) -> None:
    writer = await asyncio.to_thread(RunWriter.create, tmp_path / "run", {"turns": 1})
    async with studio(tmp_path) as browser:
        run = await id_of(browser, "run")
        async with browser.get(f"/api/runs/{run}/progress") as stream:
            await stream.content.readline()
            await asyncio.to_thread(shutil.rmtree, tmp_path / "run")
            assert [name for name, _ in await events_of(stream)] == ["problem", "end"]
        for path in ("", "/turns", "/turns/id_1", "/progress"):
            assert await error_of(browser, f"/api/runs/{run}{path}") == (404, "missing")
        assert await get(browser, "/api/runs") == []
    await asyncio.to_thread(writer.close)


async def test_a_run_with_a_newer_schema_is_reported(recordings: Path, tmp_path: Path) -> None:
    shutil.copytree(recordings / "run", tmp_path / "run")
    with closing(sqlite3.connect(tmp_path / "run" / RUN_FILE)) as db:
        db.execute("PRAGMA user_version = 99")
    async with studio(tmp_path) as browser:
        [row] = await get(browser, "/api/runs")
        assert not row["schema_ok"]
        assert "99" in row["problem"]
        for path in ("", "/turns", "/turns/id_2", "/turns/id_2/waveform", "/progress"):
            assert await error_of(browser, f"/api/runs/{row['id']}{path}") == (409, "schema")


@pytest.mark.parametrize(
    ("statement", "path"),
    [
        ("UPDATE turns SET timing = '{}'", "/turns"),
        ("UPDATE turns SET trace = 'no'", "/turns/id_2"),
        ("UPDATE turns SET both_file = '../run.sqlite'", "/turns/id_2/audio/both"),
        ("UPDATE turns SET both_file = 'gone.flac'", "/turns/id_2/waveform"),
        ("DROP TABLE events", "/turns/id_2/events"),
    ],
)
async def test_damage_is_reported(recordings: Path, tmp_path: Path, statement: str, path: str) -> None:
    shutil.copytree(recordings / "run", tmp_path / "run")
    with closing(sqlite3.connect(tmp_path / "run" / RUN_FILE)) as db:
        db.execute(statement)
        db.commit()
    async with studio(tmp_path) as browser:
        run = await id_of(browser, "run")
        assert await error_of(browser, f"/api/runs/{run}{path}") == (422, "unreadable")


async def test_a_turn_with_missing_audio_is_marked(recordings: Path, tmp_path: Path) -> None:
    shutil.copytree(recordings / "run", tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "audio")
    async with studio(tmp_path) as browser:
        run = await id_of(browser, "run")
        turn = await get(browser, f"/api/runs/{run}/turns/id_2")
        assert not turn["audio"]["available"]
        assert "missing" in turn["audio"]["problem"]
        assert [line["side"] for line in turn["transcript"]] == ["user", "reply"]  # kept with the marks
        assert await error_of(browser, f"/api/runs/{run}/turns/id_2/audio/user") == (422, "unreadable")
