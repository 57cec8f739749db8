"""A run is started, followed and opened in the studio, in a real Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.e2e.conftest import Serving
from tests.e2e.helpers import LIVE_EVAL

pytestmark = pytest.mark.timeout(180)


def test_a_run_is_started_from_the_page(browser: str, serving: Serving, tmp_path: Path) -> None:
    errors: list[str] = []
    command = [*LIVE_EVAL, "studio", tmp_path, "--port", "0", "--no-browser"]
    with serving(command, r"studio: (http\S+)") as link, sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        page.goto(link)
        page.get_by_role("link", name="New run").click()
        page.get_by_label("Cases").fill("1")
        page.get_by_text("Judges:").click()
        while (box := page.get_by_role("checkbox", checked=True).first).is_visible():
            box.uncheck()
        shown = page.locator(".start .command")
        expect(shown).to_contain_text("live-eval run reference --limit=1 --judges=none --out=")
        page.get_by_role("button", name="Start").click()
        expect(page.locator(".started h3")).to_be_visible()
        page.get_by_role("button", name="Start").click()
        expect(page.locator(".failure")).to_contain_text("another run is in progress")
        expect(page.locator(".started h3")).to_contain_text("finished", timeout=90_000)
        expect(page.locator(".started")).to_contain_text("1 of 1 turn")
        page.locator(".started h3 a").click()
        page.wait_for_url("**/#/runs/*")
        chromium.close()
    assert errors == []


@pytest.mark.slow
def test_a_run_that_has_all_turns_is_scoring(browser: str, serving: Serving, tmp_path: Path) -> None:
    row = {"id": "0", "name": "one", "command": "live-eval run reference", "stopping": False, "status": None}
    row |= {"run": {"turns": 2, "planned": 2, "failed": 0}, "lines": ["judges: 3 of 8"], "running": True}
    command = [*LIVE_EVAL, "studio", tmp_path, "--port", "0", "--no-browser"]
    with serving(command, r"studio: (http\S+)") as link, sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_page()
        page.route("**/api/started", lambda route: route.fulfill(json=[row]))
        page.goto(link)
        page.get_by_role("link", name="New run").click()
        expect(page.locator(".started h3")).to_contain_text("scoring")
        expect(page.locator(".started > .note")).to_have_text("judges: 3 of 8")
        chromium.close()
