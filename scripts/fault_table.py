"""Measure the tables of docs/faults.md and docs/impair.md.

Run ``PYTHONPATH=. .venv/bin/python scripts/fault_table.py`` in the root of the repository: a run of one
turn for each fault and dialect, four at a time, about ten minutes on two cores. Prints the cells that differ
from what the catalogue expects.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from live_eval.reference.faults.catalogue import FAULTS
from live_eval.reference.faults.script import parse_faults
from live_eval.session.event_loop import run
from tests.support.fault_matrix import (
    DIALECTS,
    TOXIC_DIALECTS,
    Cell,
    cells,
    measured,
    table,
    toxic_cells,
)

BEGIN, END = "<!-- measured -->\n", "<!-- /measured -->\n"


def main() -> None:
    """Measure all cells, and write them to the pages."""
    found: list[Cell] = []
    toxic: list[Cell] = []
    with TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        for dialect in DIALECTS:
            chosen = list(cells([dialect]))
            found += run(measured(chosen, Path(folder) / dialect, at_a_time=4))
            print(f"{dialect}: {len(chosen)} cells", file=sys.stderr)
        toxic = run(measured(list(toxic_cells()), Path(folder) / "toxic", at_a_time=4))
    order = {cell: place for place, cell in enumerate(cells())}
    found.sort(key=lambda cell: order[cell.fault, cell.dialect])
    write(Path("docs/faults.md"), table(found))
    write(Path("docs/impair.md"), table(toxic, TOXIC_DIALECTS))
    for cell in found:
        (fault,) = parse_faults(cell.fault)
        if str(fault) == str(parse_faults(fault.name.value)):
            expected = FAULTS[fault.name].expected(cell.dialect)
            if cell.kind is not expected:
                print(f"{cell.dialect} {cell.fault}: expected {expected}, but {cell.kind}: {cell.message}")


def write(page: Path, rows: str) -> None:
    """Replace the table of a page."""
    head, _, rest = page.read_text("utf-8").partition(BEGIN)
    page.write_text(f"{head}{BEGIN}{rows}\n{rest[rest.index(END) :]}", "utf-8")


if __name__ == "__main__":
    main()
