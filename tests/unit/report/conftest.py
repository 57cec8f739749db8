"""The page of one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pages import Page
from tests.unit.report.pages import page_of


@pytest.fixture(scope="module")
def page(run_folder: Path) -> Page:
    return page_of(run_folder)
