"""The page of a duplex campaign: links, audio, charts, and hostile text."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from live_eval.analysis.turn_taking.outcomes import DURATIONS, Outcome, Rule
from live_eval.campaigns.duplex.summary import compare_campaigns, duplex_summary, read_duplex
from live_eval.cli import cli
from live_eval.errors import FailureKind, StoreError, UsageError
from live_eval.report.duplex import write_comparison_page, write_duplex_page
from live_eval.report.duplex.glossary import MARK_TITLES, OUTCOME_WORDS, SPEECH_TITLES
from live_eval.report.duplex.trial_view import TELLING
from live_eval.types import Failure, SpeechKind
from tests.support.duplex_campaigns import RATE_HZ, barge_in, failed, pause, question, write_duplex_campaign
from tests.support.pages import Page

HOSTILE = "a&b</script><script>alert(1)</script><img src=x onerror=alert(2)>'\"#? +é"
FAILURE = Failure(FailureKind.CONNECT_FAILED, HOSTILE)


def trials(extra_ms: float = 0.0) -> list[Any]:
    """Interruptions with and without yielding, pauses, a failed session, and a drift check."""
    return [
        *(
            (
                "barge-in",
                "900 ms",
                barge_in(f"b-{at}", stop_ms=300 + 10 * at + extra_ms, text=HOSTILE),
            )
            for at in range(1, 5)
        ),
        ("barge-in", "900 ms", barge_in("b-5", stop_ms=None)),
        ("barge-in", "900 ms", failed("b-6", FAILURE)),
        *(("sentinel", part, question(f"sentinel-{part}-1")) for part in ("start", "end")),
        ("pause", "400 ms", pause("p-1", 400, waits=True)),
        ("pause", "1000 ms", pause("p-2", 1000, waits=False)),
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_duplex_campaign(
        tmp_path_factory.mktemp("page") / "a campaign",
        {"clean": trials(), "impaired": trials(100)},
        notes=[HOSTILE],
    )
    write_duplex_page(duplex_summary(read_duplex(folder)))
    return folder


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    return Page((folder / "duplex.html").read_text("utf-8"))


def rows(page: Page) -> dict[str, dict[str, str | None]]:
    return {str(row["id"]): row for row in page.rows()}


def row_of(page: Page, outcome: str, side: str = "0") -> tuple[str, dict[str, Any]]:
    """Return the key and the details of the first row with an outcome."""
    for row, details in zip(page.rows(), page.details(), strict=True):
        if (row["data-outcome"], row["data-side"]) == (outcome, side):
            return str(row["id"]), details
    raise AssertionError(outcome)


def is_a(found: dict[str, str | None], kind: str) -> bool:
    return kind in (found.get("class") or "")


def hrefs(page: Page) -> list[str]:
    return [str(found["href"]) for tag, found in page.elements if tag == "a" and "href" in found]


def test_every_link_has_a_target(folder: Path, page: Page) -> None:
    ids = {found["id"] for _, found in page.elements if "id" in found}
    turns = {
        f"{run}/report.html": {
            details["id"] for details in Page((folder / run / "report.html").read_text("utf-8")).details()
        }
        for run in ("clean", "impaired")
    }
    linked = hrefs(page) + [href for details in page.details() for _, href in details["turns"]]  # type: ignore[attr-defined]
    opened = set()
    for href in linked:
        path, fragment = unquote(urlsplit(href).path), urlsplit(href).fragment
        if path.endswith(".flac"):
            assert (folder / path).is_file()
        elif path:
            assert not fragment or parse_qs(fragment)["turn"][0] in turns[path]
        elif "=" not in fragment:
            assert fragment in ids
            opened.add(fragment)
        else:
            asked = parse_qs(fragment)
            assert any(
                all(row[f"data-{name}"] == value for name, (value,) in asked.items()) for row in page.rows()
            ), href
    for key in rows(page).keys() - opened:  # listed, but in no chart
        row = rows(page)[key]
        assert row["data-outcome"] == "failed" or row["data-probe"] == "sentinel", row


def test_damaged_audio_costs_one_trial_its_waveform(folder: Path, tmp_path: Path) -> None:
    campaign = Path(shutil.copytree(folder, tmp_path / "c"))
    damaged = min((campaign / "clean" / "audio").glob("*b-1*"))
    damaged.write_bytes(b"junk")
    write_duplex_page(duplex_summary(read_duplex(campaign)))
    details: Any = Page((campaign / "duplex.html").read_text("utf-8")).details()
    lost = [each for each in details if ["audio", "the stored audio is missing or damaged"] in each["facts"]]
    assert [each["envelope"] for each in lost] == [None]
    assert lost[0]["verdict"] == "pass"  # the judgement needs no audio


def test_the_page_runs_only_its_own_script_and_loads_nothing(page: Page) -> None:
    assert page.unbalanced == []
    code = next(text for attributes, text in page.scripts if not attributes)
    assert not re.search(r"https?:", code)
    assert not re.search(r"fetch\(|XMLHttpRequest|WebSocket|import\(|innerHTML|eval\(|document\.write", code)
    assert not re.search(r"@import|url\s*\(|https?:", page.styles)
    for tag, found in page.elements:
        assert not ({"src", "srcset", "data", "action", "poster"} & found.keys()), tag
        assert not urlsplit(found.get("href") or "").netloc
    policy = next(found["content"] for tag, found in page.elements if "http-equiv" in found)
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "media-src 'self' file:;" in policy
    assert len([text for attributes, text in page.scripts if "type" not in attributes]) == 1


def test_text_of_an_endpoint_is_never_markup(page: Page) -> None:
    assert not [tag for tag, _ in page.elements if tag in ("img", "iframe", "object", "embed", "audio")]
    assert not [name for _, found in page.elements for name in found if name.startswith("on")]
    _, details = row_of(page, "yielded")
    assert ["Endpoint, response 1", HOSTILE] in details["texts"]
    _, details = row_of(page, "failed")
    assert ["failure", f"connect_failed: {HOSTILE}"] in details["facts"]
    assert page.text.count(HOSTILE) >= 1  # the note


def test_a_trial_has_both_sides_and_the_marks_behind_its_outcome(page: Page) -> None:
    _, details = row_of(page, "yielded")
    marks = {name: at for name, _, at in details["marks"]}
    assert marks["reply-onset"] == pytest.approx(1.5, abs=0.001)
    assert marks["user-start"] == pytest.approx(2.4)
    assert marks["provider-stop"] == pytest.approx(2.71)
    assert marks["reply-silent"] == pytest.approx(2.71, abs=0.001)
    assert marks["new-reply"] == pytest.approx(4.0, abs=0.001)
    assert [name for name, _, _ in details["marks"]] == sorted(marks, key=lambda name: marks[name])
    overlap = next(shade for shade in details["shades"] if shade[1] == "overlap")
    assert overlap[2:] == pytest.approx([2.4, 2.71], abs=0.001)
    assert details["said"].startswith(
        "In seconds: the user speaks 0.00 to 1.00; the endpoint is heard 1.50 to"
    )
    assert ["audible stop", pytest.approx(310, abs=1)] in details["durations"]
    assert [title for title, _ in details["texts"]] == [
        "User",
        "Endpoint, response 1",
        "User",
        "Endpoint, response 2",
    ]


def test_the_audio_of_a_trial_is_aligned_with_its_timeline(folder: Path, page: Page) -> None:
    _, details = row_of(page, "yielded")
    sounds = {side: soundfile.read(folder / unquote(href)) for side, href in details["sounds"]}
    (both, rate_hz), (user, _), (endpoint, _) = (sounds[side] for side in ("both", "user", "endpoint"))
    assert rate_hz == RATE_HZ
    np.testing.assert_array_equal(both, np.stack([user, endpoint], axis=1))
    loud = np.flatnonzero(np.abs(user) > 0.01) / rate_hz
    assert loud[loud > 1.5][0] == pytest.approx(2.4, abs=0.002)
    heard = np.flatnonzero(np.abs(endpoint) > 0.01) / rate_hz
    assert heard[heard < 3][-1] == pytest.approx(2.71, abs=0.002)
    _, failed_details = row_of(page, "failed")
    assert failed_details["sounds"] == []
    assert failed_details["envelope"] is None


def test_a_probe_with_several_rules_shows_what_passes_for_each(tmp_path: Path) -> None:
    asked = [
        ("own", "interruption", barge_in("o-1", stop_ms=300)),
        ("own", "pause", pause("o-2", 400, waits=True)),
    ]
    folder = write_duplex_campaign(tmp_path / "c", {"clean": asked})
    text = Page(write_duplex_page(duplex_summary(read_duplex(folder))).read_text("utf-8")).text
    assert "interruption: yielded or fell silent; pause: waited" in " ".join(text.split())


def test_values_link_to_their_trials(page: Page) -> None:
    text = " ".join(page.text.split())
    for said in (
        "Passes with: yielded or fell silent.",
        "Impaired minus clean, paired by trial",
        "loss=5%",
        "Audible stop, ms: the user begins to speak → last audible sample of the reply",
        "tau2.R_Y",
        "corrected:",
        "waits through pauses up to",
    ):
        assert said in text, said
    dots = [str(found.get("aria-label")) for _, found in page.elements if is_a(found, "trial pass")]
    assert any(label.startswith("b-1: audible stop 310 ms") for label in dots)
    bars = [found.get("title") for _, found in page.elements if is_a(found, "o-yielded passed")]
    assert "yielded: 4 of 6" in bars


@pytest.mark.slow
def test_a_page_of_two_campaigns_links_into_both(folder: Path, tmp_path: Path) -> None:
    first = shutil.copytree(folder, tmp_path / "x" / "one")
    second = write_duplex_campaign(tmp_path / "two & more", {"clean": trials(50)}, endpoint="another")
    campaigns = [read_duplex(folder) for folder in (first, second)]
    where = write_comparison_page(tmp_path / "pair.html", compare_campaigns(*campaigns))
    page = Page(where.read_text("utf-8"))
    assert "Another minus made up" in " ".join(page.text.split())
    linked = {side: row_of(page, "yielded", side)[1] for side in "01"}
    for side, base in (("0", "x/one/"), ("1", "two%20%26%20more/")):
        for _, href in linked[side]["sounds"]:
            assert href.startswith(base)
            assert (tmp_path / unquote(href)).is_file()


@pytest.mark.slow
def test_report_writes_the_page_of_a_campaign_and_of_two(folder: Path, tmp_path: Path) -> None:
    one = shutil.copytree(folder, tmp_path / "one")
    two = shutil.copytree(folder, tmp_path / "two")
    (one / "duplex.html").unlink()
    done = CliRunner().invoke(cli, ["report", str(one)])
    assert done.exit_code == 0, done.output
    assert (one / "duplex.html").is_file()
    done = CliRunner().invoke(cli, ["report", str(one), str(two)])
    assert f"report: {tmp_path / 'duplex-one-two.html'}" in done.stderr
    assert "Two minus one" in (tmp_path / "duplex-one-two.html").read_text("utf-8")
    for more in (["--format", "csv"], ["--output", str(tmp_path / "other.html")]):
        refused = CliRunner().invoke(cli, ["report", str(one), *more])
        assert isinstance(refused.exception, UsageError)


def test_links_in_the_place_of_files_are_not_followed(folder: Path, tmp_path: Path) -> None:
    mine = shutil.copytree(folder, tmp_path / "mine")
    (tmp_path / "diary").write_text("dear diary", "utf-8")
    sound = next((mine / "sounds").iterdir())
    sound.unlink()
    sound.symlink_to(tmp_path / "diary")
    write_duplex_page(duplex_summary(read_duplex(mine)))
    assert not sound.is_symlink()
    shutil.rmtree(mine / "sounds")
    (tmp_path / "elsewhere").mkdir()
    (mine / "sounds").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="expected a folder, found a link"):
        write_duplex_page(duplex_summary(read_duplex(mine)))
    assert (tmp_path / "diary").read_text("utf-8") == "dear diary"
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_campaign_without_trials_has_a_page(tmp_path: Path) -> None:
    folder = write_duplex_campaign(tmp_path / "c", {"clean": []}, complete=False)
    page = Page(write_duplex_page(duplex_summary(read_duplex(folder))).read_text("utf-8"))
    assert page.unbalanced == []
    assert "The campaign is incomplete" in page.text
    assert "No trial was run." in page.text


def test_every_name_has_a_definition() -> None:
    assert set(OUTCOME_WORDS) == set(Outcome)
    assert set(SPEECH_TITLES) == set(SpeechKind)
    assert all(set(TELLING[rule]) <= set(DURATIONS) for rule in Rule)
    assert {"user_start", "user_end", "reply_onset", "reply_silent", "provider_stop"} <= set(MARK_TITLES)
