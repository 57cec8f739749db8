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
        expect(page.locator(".started h3")).to_contain_text("finished", timeout=90_000)
        expect(page.locator(".started")).to_contain_text("1 of 1 turn")
        page.locator(".started h3 a").click()
        page.wait_for_url("**/#/runs/*")
        chromium.close()
    assert errors == []
