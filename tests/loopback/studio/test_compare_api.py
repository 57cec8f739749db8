"""The studio's API for comparisons, over real requests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from live_eval.data import cue_of
from live_eval.errors import FailureKind
from live_eval.judging import Scored
from live_eval.recording import RunWriter, ScoreStore
from live_eval.studio.compared_turns import ORDERS
from live_eval.types import Case, Cue, Failure, Variant
from tests.support.records import TurnPlan, spoken_turn
from tests.support.studio import studio

LATENCY_MS = {"a": (500, 600, 700, None), "b": (650, 400, 705, 300), "c": (500, 500, 500, 500)}


def write_run(folder: Path) -> None:
    """A run of four cases with the latencies for its name; a case without a latency failed."""
    manifest = {"endpoint": {"name": folder.name}, "turns": 4, "data": {"fingerprint": "f" * 64}}
    with RunWriter.create(folder, manifest) as writer:
        for number, first_byte_ms in enumerate(LATENCY_MS[folder.name]):
            case = Case(
                case_id=f"id_{number}",
                script_id=f"id_{number}",
                variant=Variant.TARGET,
                audio_path=Path("a.wav"),
                cue=Cue("sigh", "sigh") if number % 2 else None,
                text=f"Line {number}.",
            )
            failure = None if first_byte_ms else Failure(FailureKind.NO_RESPONSE, "no response came")
            writer.commit(spoken_turn(case, TurnPlan(first_byte_ms=first_byte_ms, failure=failure)))
        writer.end()
    with ScoreStore.open(folder) as scores:
        scores.put("taste", "1", "id_0", Scored({"": {"a": 2.0, "b": 5.0, "c": 1.0}[folder.name]}, {}))


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    for name in LATENCY_MS:
        write_run(folder / name)
    return folder


async def asked(browser: aiohttp.ClientSession, path: str, names: str, **query: str) -> Any:
    async with browser.get("/api/runs") as answer:
        ids = {row["name"]: row["id"] for row in await answer.json()}
    runs = [("run", ids.get(name, name)) for name in names]
    async with browser.get(path, params=[*runs, *query.items()]) as answer:
        found = await answer.json()
        assert (answer.status == 200) is ("error" not in found)
        return found


async def test_runs_are_compared_with_the_first(recordings: Path) -> None:
    async with studio(recordings) as browser:
        compared = await asked(browser, "/api/compare", "abc")
        assert compared["first"] == "a"
        assert [each["other"] for each in compared["comparisons"]] == ["b", "c"]
        assert [line.startswith("a lost 1 of 4 turns") for line in compared["headlines"]] == [True, True]
        for names in ("a", "aa", "abcdefg"):
            refused = await asked(browser, "/api/compare", names)
            assert "expected the IDs of 2 to 6 different runs" in refused["error"]["message"]
        assert (await asked(browser, "/api/compare", "a0"))["error"]["kind"] == "missing"


@pytest.fixture
def apart(tmp_path: Path) -> Path:
    """Two runs: one of four cases, and one of a single case among them."""
    write_run(tmp_path / "a")
    manifest = {
        "endpoint": {"name": "b"},
        "turns": 1,
        "data": {"fingerprint": "f" * 64, "licence": "Under L."},
    }
    with RunWriter.create(tmp_path / "b", manifest) as writer:
        case = Case(
            case_id="id_0",
            script_id="id_0",
            variant=Variant.TARGET,
            audio_path=Path("a.wav"),
            text="Line 0.",
        )
        writer.commit(spoken_turn(case, TurnPlan()))
        writer.end()
    return tmp_path


async def test_runs_of_different_cases_are_refused_without_an_error(apart: Path) -> None:
    async with studio(apart) as browser:
        answer = await asked(browser, "/api/compare", "ab")
        assert "cannot compare a and b: " in answer["refused"]
        assert answer["refused"].endswith('; "Compare common cases" compares the 1 common turn')
        assert [(each["other"], list(each["differs"])) for each in answer["comparisons"]] == [
            ("b", ["endpoint.name", "judges"])
        ]
        found = await asked(browser, "/api/compare", "ab", common="1")
        assert found.get("first") == "a", found
        assert answer["licences"] == found["licences"] == ["Under L"]
        async with browser.get("/api/runs") as listed:
            rows = {row["name"]: row for row in await listed.json()}
        assert {name: row["licence"] for name, row in rows.items()} == {"a": "", "b": "Under L"}
        async with browser.get(f"/api/runs/{rows['b']['id']}/turns/id_0") as turn:
            assert (await turn.json())["licence"] == "Under L"


async def test_cases_are_sorted_by_their_difference(recordings: Path) -> None:
    async with studio(recordings) as browser:

        async def rows(names: str = "ab", **query: str) -> list[tuple[str, float | None]]:
            found = await asked(browser, "/api/compare/turns", names, **query)
            return [(row["turn_id"], row["difference"]) for row in found["rows"]]

        assert await rows(metric="first_byte") == [
            ("id_1", -200), ("id_0", 150), ("id_2", 5), ("id_3", None),
        ]  # fmt: skip
        assert [name for name, _ in await rows(metric="first_byte", order="higher")][:2] == ["id_0", "id_2"]
        assert [name for name, _ in await rows(metric="first_byte", order="lower")][:2] == ["id_1", "id_2"]
        assert [name for name, _ in await rows(order="recorded")] == ["id_0", "id_1", "id_2", "id_3"]
        for order in ORDERS:
            assert len(await rows(order=order)) == 4
        assert await rows(metric="first_byte", where="cue == sigh") == [("id_1", -200), ("id_3", None)]
        assert await rows(metric="taste", limit="1") == [("id_0", 3)]
        assert (await rows("abc", metric="first_byte"))[0] == ("id_2", 205)

        page = await asked(browser, "/api/compare/turns", "ab", offset="1", limit="1", filter="line")
        assert (page["total"], page["matching"], page["offset"], len(page["rows"])) == (4, 4, 1, 1)
        assert [metric["name"] for metric in page["metrics"]][-1] == "taste"
        assert page["cues"] == ["sigh"]
        failed = (await asked(browser, "/api/compare/turns", "ab", filter="id_3"))["rows"][0]["turns"]
        assert [turn["status"] for turn in failed] == ["failed", "captured"]
        assert failed[0]["failure"]["kind"] == "no_response"


async def test_a_cue_has_the_means_of_each_run(recordings: Path) -> None:
    async with studio(recordings) as browser:
        page = await asked(browser, "/api/compare/turns", "ab", cue="sigh", metric="first_byte")
        assert page["failed"] == [1, 0]
        shown = {each["metric"]: each for each in page["means"]}
        assert list(shown) == ["first_byte", "voice_to_voice", "voice_to_voice_from_last_sound", "taste"]
        assert shown["first_byte"] == {  # the second case failed in one run
            "metric": "first_byte", "n": 1, "means": [600, 400], "difference": -200, "interval": None,
        }  # fmt: skip
        assert shown["taste"] == {
            "metric": "taste", "n": 0, "means": [None, None], "difference": None, "interval": None,
        }  # fmt: skip
        [cue] = (await asked(browser, "/api/compare/turns", "ab", metric="first_byte"))["means"]
        assert cue == {"cue": "sigh", **shown["first_byte"]}


@pytest.fixture
def sighs(tmp_path: Path) -> Path:
    """Two runs of two sighs, the second with an uncertain end of speech."""
    for folder in (tmp_path / "a", tmp_path / "b"):
        with RunWriter.create(folder, {"endpoint": {"name": folder.name}, "turns": 2}) as writer:
            for number, uncertain in enumerate((False, True)):
                case = Case(
                    case_id=f"id_{number}",
                    script_id=f"id_{number}",
                    variant=Variant.TARGET,
                    audio_path=Path("a.wav"),
                    cue=cue_of("sigh"),
                )
                ms = LATENCY_MS[folder.name][number]
                writer.commit(spoken_turn(case, TurnPlan(first_byte_ms=ms, uncertain=uncertain)))
            writer.end()
    return tmp_path


async def test_an_uncertain_end_of_speech_is_excluded_as_in_the_summaries(sighs: Path) -> None:
    async with studio(sighs) as browser:
        for metric, differences in {
            "voice_to_voice": [150, None],
            "lead_silence": [0, 0],
            "voice_to_voice_from_last_sound": [150, -200],
        }.items():
            page = await asked(browser, "/api/compare/turns", "ab", metric=metric, order="recorded")
            assert [row["difference"] for row in page["rows"]] == differences
            assert page["with_difference"] == sum(each is not None for each in differences)
            # The end of a sigh is often uncertain, so its mean is from the last sound, as in the heat map.
            used = "voice_to_voice_from_last_sound" if metric == "voice_to_voice" else metric
            [mean] = page["means"]
            assert (mean["cue"], mean["metric"], mean["n"]) == ("sigh", used, 2)
            chosen = await asked(browser, "/api/compare/turns", "ab", metric=metric, cue="sigh")
            assert (chosen["asked"], chosen["metric"]) == (metric, used)
            assert chosen["with_difference"] == 2
            assert metric in [each["name"] for each in page["metrics"]]
        # No turn has the end of its last word, so there is no such column.
        assert "voice_to_voice_from_last_word" not in page["names"]
        # The turn list selects and sorts what the tiles count: the second turn, 600 ms, has an uncertain end.
        [run_id] = [row["id"] for row in await asked(browser, "/api/runs", "") if row["name"] == "b"]
        turns = f"/api/runs/{run_id}/turns"
        page = await asked(browser, turns, "", where="voice_to_voice > 0")
        assert (page["matching"], page["rows"][0]["turn_id"]) == (1, "id_0")
        page = await asked(browser, turns, "", where="voice_to_voice == none", sort="voice_to_voice")
        assert [row["turn_id"] for row in page["rows"]] == ["id_1"]
        assert page["rows"][0]["latency_ms"]["voice_to_voice"] is not None
        assert "voice_to_voice" in page["certain_only"]
        assert "lead_silence" not in page["certain_only"]
        for order in ("0", "1"):
            page = await asked(browser, turns, "", sort="voice_to_voice", descending=order)
            assert [row["turn_id"] for row in page["rows"]] == ["id_0", "id_1"]
        where = "voice_to_voice_from_last_sound > 610"
        assert (await asked(browser, "/api/compare/turns", "ab", where=where))["matching"] == 2
        values = (await asked(browser, "/api/compare", "ab"))["comparisons"][0]["metrics"]
        assert values["voice_to_voice"]["n"] == 1
        assert values["voice_to_voice_from_last_sound"]["n"] == 2
        assert list(values)[-1] == "voice_to_voice_from_last_sound"


@pytest.mark.parametrize("query", [{"metric": "tast"}, {"order": "random"}, {"limit": "-1"}])
async def test_an_invalid_query_is_reported(recordings: Path, query: dict[str, str]) -> None:
    async with studio(recordings) as browser:
        refused = await asked(browser, "/api/compare/turns", "ab", **query)
        assert refused["error"]["kind"] == "request"
        assert next(iter(query)) in refused["error"]["message"]


async def test_an_expression_that_is_being_typed_selects_nothing(recordings: Path) -> None:
    async with studio(recordings) as browser:
        page = await asked(browser, "/api/compare/turns", "ab", where="(")
    assert (page["matching"], page["rows"]) == (0, [])
    assert page["invalid"] == "where: expected a name, but the expression ends"


async def test_a_case_that_only_one_run_has_is_listed(recordings: Path, tmp_path: Path) -> None:
    def write() -> None:
        write_run(tmp_path / "a")
        with RunWriter.create(tmp_path / "d", {"turns": 1}) as writer:
            writer.commit(
                spoken_turn(
                    Case(case_id="x", script_id="x", variant=Variant.TARGET, audio_path=Path("a.wav"))
                )
            )
            writer.end()

    await asyncio.to_thread(write)
    async with studio(tmp_path) as browser:
        page = await asked(browser, "/api/compare/turns", "ad")
        assert {row["turn_id"]: [turn is None for turn in row["turns"]] for row in page["rows"]}["x"] == [
            True,
            False,
        ]
