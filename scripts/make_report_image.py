"""Write the report screenshots for the README.

Usage: ``python scripts/make_report_image.py FOLDER``, the folder of a scored run or latency campaign.
Needs Chromium (Debian: ``apt-get install chromium``).
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from live_eval.campaigns.documents import LATENCY_CAMPAIGN
from live_eval.campaigns.latency.campaign_file import read_campaign
from live_eval.campaigns.latency.summary import campaign_summary
from live_eval.report import write_report
from live_eval.report.latency import write_campaign_page

IMAGES = Path(__file__).parents[1] / "docs/images"
MAX_BYTES = 200_000
SIZE = "1100,1080"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main() -> None:
    """Render a page in a headless browser and save a screenshot of its first screen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of a scored run, or of a latency campaign")
    folder = parser.parse_args().folder
    browser = find_browser()
    with tempfile.TemporaryDirectory() as temporary:
        if LATENCY_CAMPAIGN.is_in(folder):
            page, image = write_campaign_page(campaign_summary(read_campaign(folder))), IMAGES / "latency.png"
        else:
            page, image = Path(temporary) / "report.html", IMAGES / "report.png"
            write_report([folder], page, audio_mb=0)
        subprocess.run(
            [
                browser,
                "--headless",
                "--no-sandbox",  # the page is trusted
                "--hide-scrollbars",
                f"--window-size={SIZE}",
                f"--screenshot={image}",
                page.absolute().as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )
    report_size(image)


def find_browser() -> str:
    """Return the path of the first browser found; without one, exit."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"no browser found, expected one of {', '.join(BROWSERS)}")
    return browser


def report_size(image: Path) -> None:
    """Print the size of a new picture; if it is too large for the README, exit."""
    size = image.stat().st_size
    if size > MAX_BYTES:
        sys.exit(f"{image} has {size} bytes, expected at most {MAX_BYTES}")
    print(f"wrote {image}: {size} bytes")


if __name__ == "__main__":
    main()
