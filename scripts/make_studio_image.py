"""Write the screenshot of the studio for the README.

Usage: ``python scripts/make_studio_image.py FOLDER TURN``, the folder of a run and the ID of a turn.
Needs Chromium (Debian: ``apt-get install chromium``).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from make_report_image import IMAGES, find_browser, report_size
from playwright.sync_api import sync_playwright

IMAGE = IMAGES / "studio.png"
WIDTH, HEIGHT = 1_100, 730


def main() -> None:
    """Open a turn in the studio and save a screenshot of its first screen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of a scored run")
    parser.add_argument("turn", help="ID of a turn, such as le_101/target")
    given = parser.parse_args()
    command = [sys.executable, "-m", "live_eval", "studio", given.folder, "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as studio, sync_playwright() as driver:
        assert studio.stdout is not None
        link = re.search(r"studio: (http\S+)", studio.stdout.readline())
        if link is None:
            sys.exit("the studio did not start")
        chromium = driver.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(link[1])
        page.get_by_role("link", name=given.folder.name, exact=True).click()
        page.get_by_role("link", name=given.turn, exact=True).click()
        page.wait_for_function("() => document.title.includes('·') && !document.querySelector('[aria-busy]')")
        page.screenshot(path=IMAGE)
        chromium.close()
        studio.terminate()
    report_size(IMAGE)


if __name__ == "__main__":
    main()
