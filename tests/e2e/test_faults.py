"""Every fault of our endpoint and toxiproxy's seven, met by each client: as the documentation says.

About ten minutes on two cores: a run of one turn for each, four at a time.
"""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.fault_matrix import DIALECTS, TOXIC_DIALECTS, Cell, cells, measured, toxic_cells

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\| `([^`]+)` \| ([\w, -]+) \| (.+) \|$", re.MULTILINE)


def documented(page: str, dialect: str) -> dict[str, str]:
    table = (
        (DOCS / page).read_text("utf-8").partition("<!-- measured -->")[2].partition("<!-- /measured -->")[0]
    )
    return {
        injected: result
        for injected, dialects, result in ROW.findall(table)
        if dialects == "all" or dialect in dialects.split(", ")
    }


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def results(chosen: Sequence[tuple[str, str]], folder: Path) -> dict[str, str]:
    found: list[Cell] = asyncio.run(measured(chosen, folder, at_a_time=4))
    return {cell.fault: str(cell) for cell in found}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_fault_has_the_outcome_that_is_documented(dialect: str, tmp_path: Path) -> None:
    assert results(list(cells([dialect])), tmp_path) == documented("faults.md", dialect)


@pytest.mark.parametrize("dialect", TOXIC_DIALECTS)
def test_every_toxic_has_the_outcome_that_is_documented(dialect: str, tmp_path: Path) -> None:
    assert results(list(toxic_cells([dialect])), tmp_path) == documented("impair.md", dialect)
