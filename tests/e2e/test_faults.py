"""Each client's outcome under every fault of our endpoint and toxiproxy's seven, compared with the docs.

One run of one turn per cell, eight concurrently: about ten minutes on two cores.
"""

import asyncio
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest

from tests.support.fault_matrix import DIALECTS, TOXIC_DIALECTS, cells, documented, measured, toxic_cells

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.usefixtures("own_cache")]


def compare(
    chosen: Iterable[tuple[str, str]], page: str, folder: Path, of: Collection[str] = DIALECTS
) -> None:
    found = asyncio.run(measured(list(chosen), folder))
    outcomes = {(cell.fault, cell.dialect): str(cell) for cell in found}
    (dialect,) = {cell.dialect for cell in found}
    stated = {cell: outcome for cell, outcome in documented(page, of).items() if cell[1] == dialect}
    differ = [cell for cell in found if stated.get((cell.fault, cell.dialect)) != str(cell)]
    assert outcomes == stated, [f"{cell.fault}: {cell.message}" for cell in differ]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_fault_has_its_documented_outcome(dialect: str, tmp_path: Path) -> None:
    compare(cells([dialect]), "faults.md", tmp_path)


@pytest.mark.parametrize("dialect", TOXIC_DIALECTS)
def test_every_toxic_has_its_documented_outcome(dialect: str, tmp_path: Path) -> None:
    compare(toxic_cells([dialect]), "toxics.md", tmp_path, TOXIC_DIALECTS)
