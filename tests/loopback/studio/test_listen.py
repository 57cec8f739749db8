"""Listening tests over real requests: replies stay blind until the results are requested."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import soundfile
from aiohttp import web

from live_eval.studio import runs_api
from live_eval.studio.listen import routes
from live_eval.studio.listening.trial_desk import TrialDesk
from live_eval.studio.listening.votes import OWNER, VoteFile
from live_eval.testing.fake_clock import FakeClock
from tests.support.listening import write_listened_run
from tests.support.studio import LISTENERS, studio

CLOCK = FakeClock()


class Browser:
    """A browser that has opened the studio's link, as a listener's page uses it."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self.seen = ""

    async def get(self, path: str) -> Any:
        async with self._session.get(path) as answer:
            return await self._read(answer)

    async def post(self, path: str, body: Any) -> Any:
        headers = {"Origin": str(self._session._base_url).rstrip("/")}
        async with self._session.post(path, json=body, headers=headers) as answer:
            return await self._read(answer)

    async def _read(self, answer: aiohttp.ClientResponse) -> Any:
        if answer.content_type == "audio/wav":
            return await answer.read()
        text = await answer.text()
        self.seen += f"{answer.headers}{text}"
        return await answer.json() if answer.content_type == "application/json" else text

    @asynccontextmanager
    async def listener(self) -> AsyncIterator[Browser]:
        """Open the listeners' link in another browser."""
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(self._session._base_url, cookie_jar=jar) as session:
            async with session.get("/", params={"token": LISTENERS}, allow_redirects=False) as welcome:
                assert welcome.status == 303
            yield Browser(session)

    async def runs(self) -> list[str]:
        async with self._session.get("/api/runs") as answer:
            return [row["id"] for row in sorted(await answer.json(), key=lambda row: str(row["name"]))]

    async def hear(self, trial: dict[str, Any]) -> dict[str, list[tuple[float, float]]]:
        """Play everything; return the playback report."""
        played = {}
        for reply in trial["replies"]:
            info = soundfile.info(io.BytesIO(await self.get(reply["sound"])))
            played[reply["label"]] = [(0.0, info.duration)]
        CLOCK.advance(60_000_000_000)
        return played


@asynccontextmanager
async def listening(folder: Path) -> AsyncIterator[Browser]:
    def add(app: web.Application) -> None:
        routes(app, CLOCK)

    async with studio(folder, parts=[add, runs_api.add_routes]) as session:
        yield Browser(session)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    write_listened_run(folder / "amber", hz=220, cases=4)
    write_listened_run(folder / "birch", hz=330, cases=4)
    return folder


async def test_a_test_is_created_voted_on_resumed_and_exported(folder: Path) -> None:
    async with listening(folder) as browser:
        made = await browser.post("/api/listen", {"kind": "ab", "runs": await browser.runs()})
        test = f"/api/listen/{made['id']}"
        where = await browser.post(f"{test}/next", {"listener": " Ana  Lee "})
        assert (where["listener"], where["done"], where["total"]) == ("Ana Lee", 0, 4)
        trial = where["trial"]
        assert (trial["words"], trial["cue"]) == ("I missed the bus again.", "sigh sound")
        assert (await browser.get(trial["user"]))[:4] == b"RIFF"
        early = await browser.post("/api/listen/votes", {"trial": trial["id"], "choice": "A"})
        assert "A was not heard" in early["error"]["message"]
        for choice in ("A", "tie"):
            played = await browser.hear(trial)
            where = await browser.post(
                "/api/listen/votes", {"trial": trial["id"], "choice": choice, "played": played}
            )
            trial = where["trial"]
        assert where["done"] == 2
        where = await browser.post(f"{test}/undo", {"listener": "Ana Lee"})
        assert where["done"] == 1
    # After a restart the same listener continues at the same trial.
    async with listening(folder) as again:
        where = await again.post(f"{test}/next", {"listener": "Ana Lee"})
        assert where["done"] == 1
        assert (await again.get("/api/listen"))["tests"][0]["listeners"] == [{"name": "Ana Lee", "votes": 1}]
        gone = await again.post("/api/listen/votes", {"trial": trial["id"], "choice": "A"})
        assert gone["error"]["kind"] == "missing"
        for seen in (browser.seen, again.seen):
            assert "amber" not in seen
            assert "birch" not in seen
        shown = await again.get(f"{test}/results")
        assert (shown["runs"], shown["votes"]) == (["amber", "birch"], 1)
        assert (await again.get(f"{test}/votes.csv")).startswith("case_id,first,second,winner,rater")


async def test_x_is_heard_too_and_ratings_have_scales(folder: Path) -> None:
    async with listening(folder) as browser:
        runs = await browser.runs()
        made = await browser.post("/api/listen", {"kind": "abx", "runs": runs, "reference": "none"})
        where = await browser.post(f"/api/listen/{made['id']}/next", {"listener": "Bo"})
        trial = where["trial"]
        assert [reply["label"] for reply in trial["replies"]] == ["A", "B", "X"]
        assert (trial["words"], trial["user"]) == (None, None)
        sounds = [await browser.get(reply["sound"]) for reply in trial["replies"]]
        assert sounds[2] in sounds[:2]
        played = await browser.hear(trial)
        tie = await browser.post(
            "/api/listen/votes", {"trial": trial["id"], "choice": "tie", "played": played}
        )
        assert "expected one of A, B" in tie["error"]["message"]

        scales = [scale["score"] for scale in (await browser.get("/api/listen"))["scales"]][:2]
        made = await browser.post("/api/listen", {"kind": "rating", "runs": runs[:1], "scales": scales})
        where = await browser.post(f"/api/listen/{made['id']}/next", {"listener": "Bo"})
        trial = where["trial"]
        assert [scale["score"] for scale in trial["scales"]] == scales
        assert all(len(scale["anchors"]) == 5 for scale in trial["scales"])
        played = await browser.hear(trial)
        sent = {"trial": trial["id"], "played": played, "ratings": dict.fromkeys(scales, 6)}
        assert "from 1 to 5" in (await browser.post("/api/listen/votes", sent))["error"]["message"]
        sent["ratings"] = dict.fromkeys(scales, 4)
        both = await browser.post("/api/listen/votes", {**sent, "choice": "A"})
        assert both["error"]["message"].startswith("choice: expected none in a rating test")
        assert (await browser.post("/api/listen/votes", sent))["done"] == 1
        rows = (await browser.get(f"/api/listen/{made['id']}/votes.csv?run=amber")).splitlines()
        assert len(rows) == 3


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("/api/listen", {"kind": "ab", "runs": []}, "request"),
        ("/api/listen", {"kind": "ab", "runs": ["0"]}, "missing"),
        ("/api/listen", {"kind": "ac", "runs": []}, "request"),
        ("/api/listen", ["ab"], "request"),
        ("/api/listen/none/next", {"listener": "Ana"}, "missing"),
        ("/api/listen/none/next", {"listener": "  "}, "request"),
        ("/api/listen/none/next", {"listener": "x" * 61}, "request"),
        ("/api/listen/votes", {"trial": "none", "played": {"A": [[0]]}}, "request"),
        ("/api/listen/votes", {"trial": "none", "choice": "A"}, "missing"),
    ],
)
async def test_bad_requests_are_explained(folder: Path, path: str, body: Any, kind: str) -> None:
    async with listening(folder) as browser:
        answer = await browser.post(path, body)
        assert answer["error"]["kind"] == kind
        assert answer["error"]["message"]


async def test_a_damaged_test_is_listed_with_its_problem(folder: Path) -> None:
    def damage() -> Path:
        path = folder / "listening" / "ab-99.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("nonsense\n", "utf-8")
        return path

    path = await asyncio.to_thread(damage)
    async with listening(folder) as browser:
        tests = (await browser.get("/api/listen"))["tests"]
        assert "expected JSON" in next(test["problem"] for test in tests if test["name"] == "ab-99")
    await asyncio.to_thread(path.unlink)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"seed": -1}, "seed: "),
        ({"seed": 10**25}, "seed: "),
        ({"limit": -1}, "limit: "),
        ({"limit": 10**25}, "limit: "),
        ({"kind": "abc"}, "kind: "),
        ({"path": "/"}, "path: "),
    ],
)
async def test_an_invalid_test_is_refused_and_writes_nothing(
    folder: Path, change: dict[str, Any], error: str
) -> None:
    async with listening(folder) as browser:
        tests = (await browser.get("/api/listen"))["tests"]
        refused = await browser.post("/api/listen", {"kind": "ab", "runs": await browser.runs(), **change})
        assert refused["error"]["kind"] == "request"
        assert refused["error"]["message"].startswith(error)
        assert (await browser.get("/api/listen"))["tests"] == tests


async def test_an_invalid_vote_is_refused_and_the_test_continues(folder: Path) -> None:
    async with listening(folder) as browser:
        made = await browser.post("/api/listen", {"kind": "abx", "runs": await browser.runs()})
        where = await browser.post(f"/api/listen/{made['id']}/next", {"listener": "Bo"})
        played = await browser.hear(where["trial"])
        vote = {"trial": where["trial"]["id"], "choice": "A", "played": played}
        for change in (
            {"choice": 7},
            {"choice": "7"},
            {"x": None},
            {"choice": "tie"},
            {"played": {"A": [[0]]}},
            {"ratings": {"rubric.c4": 10**25}},
            {"ratings": {"rubric.c4": 3}},
        ):
            refused = await browser.post("/api/listen/votes", {**vote, **change})
            assert refused["error"]["kind"] == "request"
        after = await browser.post("/api/listen/votes", vote)
        assert after["done"] == 1
        assert (await browser.get(f"/api/listen/{made['id']}/results"))["votes"] == 1


async def test_a_listener_cannot_continue_or_undo_in_the_name_of_another(folder: Path) -> None:
    async with listening(folder) as owner, owner.listener() as ana, owner.listener() as eve:
        made = await owner.post("/api/listen", {"kind": "abx", "runs": await owner.runs()})
        test = f"/api/listen/{made['id']}"
        trial = (await ana.post(f"{test}/next", {"listener": "Ana"}))["trial"]
        voted = {"trial": trial["id"], "choice": "A", "played": await ana.hear(trial)}
        assert (await ana.post("/api/listen/votes", voted))["done"] == 1
        await owner.post(f"{test}/next", {"listener": "Max"})
        for name in ("Ana", "Max"):
            for action in ("undo", "next"):
                refused = await eve.post(f"{test}/{action}", {"listener": name})
                assert refused["error"]["kind"] == "request"
        assert "is already used in another browser" in refused["error"]["message"]
        assert (await owner.get(f"{test}/results"))["votes"] == 1
        assert (await eve.post(f"{test}/next", {"listener": "Eve"}))["done"] == 0
        assert (await ana.post(f"{test}/next", {"listener": "Ana"}))["done"] == 1
        assert (await ana.post(f"{test}/undo", {"listener": "Ana"}))["done"] == 0
        assert (await owner.post(f"{test}/next", {"listener": "Ana"}))["done"] == 0


async def test_the_trial_after_a_vote_belongs_to_the_same_browser(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = []
    ask = TrialDesk.next

    def asked(desk: TrialDesk, file: VoteFile, listener: str, key: str) -> Any:
        keys.append(key)
        return ask(desk, file, listener, key)

    monkeypatch.setattr(TrialDesk, "next", asked)
    async with listening(folder) as owner, owner.listener() as ana:
        made = await owner.post("/api/listen", {"kind": "ab", "runs": await owner.runs()})
        trial = (await ana.post(f"/api/listen/{made['id']}/next", {"listener": "Ana"}))["trial"]
        await ana.post(
            "/api/listen/votes", {"trial": trial["id"], "choice": "A", "played": await ana.hear(trial)}
        )
    assert len(keys) == 2
    assert keys[0] == keys[1] != OWNER


async def test_a_link_is_not_a_listening_test(tmp_path: Path) -> None:
    def write() -> None:
        write_listened_run(tmp_path / "runs" / "amber", hz=220)
        (tmp_path / "runs" / "listening").mkdir()
        (tmp_path / "diary.jsonl").write_text("dear diary\n", "utf-8")
        (tmp_path / "runs" / "listening" / "ab-1.jsonl").symlink_to(tmp_path / "diary.jsonl")

    await asyncio.to_thread(write)
    async with listening(tmp_path / "runs") as browser:
        assert (await browser.get("/api/listen"))["tests"] == []


async def test_a_folder_of_tests_that_is_a_link_is_neither_read_nor_written(tmp_path: Path) -> None:
    def write() -> None:
        write_listened_run(tmp_path / "runs" / "amber", hz=220)
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "diary.jsonl").write_text("dear diary\n", "utf-8")
        (tmp_path / "runs" / "listening").symlink_to(tmp_path / "mine")

    await asyncio.to_thread(write)
    async with listening(tmp_path / "runs") as browser:
        assert (await browser.get("/api/listen"))["tests"] == []
        new = {"kind": "rating", "runs": await browser.runs(), "scales": ["rubric.c4"]}
        assert "points outside" in (await browser.post("/api/listen", new))["error"]["message"]
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["diary.jsonl"]
