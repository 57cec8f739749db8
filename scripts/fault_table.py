"""Measure the tables in tests/support/outcomes/.

Run ``PYTHONPATH=. .venv/bin/python scripts/fault_table.py`` in the repository root: a run of one turn for
each fault and dialect, eight at a time, five to ten minutes on two cores. Prints the duration, the load, and
the cells that differ from the catalogue; if there are any, the exit status is 1.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from live_eval.reference.faults.catalogue import FAULTS
from live_eval.reference.faults.fault_script import parse_faults
from live_eval.session.event_loop import run
from tests.support.fault_matrix import BEGIN, END, TOXIC_DIALECTS, Cell, cells, measured, table, toxic_cells

OUTCOMES = Path("tests/support/outcomes")


def main() -> int:
    """Measure all cells, write them to the pages, and return the number of unexpected cells."""
    began_s = time.monotonic()
    with TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        found = run(measured(list(cells()), Path(folder) / "faults"))
        toxic = run(measured(list(toxic_cells()), Path(folder) / "toxics"))
    write(OUTCOMES / "faults.md", table(found))
    write(OUTCOMES / "toxics.md", table(toxic, TOXIC_DIALECTS))
    unexpected = [cell for cell in found if is_unexpected(cell)]
    for cell in unexpected:
        print(f"{cell.dialect} {cell.fault}: {cell}: {cell.message}")
    minutes, load = (time.monotonic() - began_s) / 60, os.getloadavg()[2]
    print(f"{len(found)} faults and {len(toxic)} toxics in {minutes:.0f} minutes at a load of {load:.0f}")
    return len(unexpected)


def is_unexpected(cell: Cell) -> bool:
    """Return whether the failure of a fault with its default argument differs from the catalogue."""
    (fault,) = parse_faults(cell.fault)
    by_default = str(fault) == str(parse_faults(fault.name.value))
    return by_default and cell.kind is not FAULTS[fault.name].expected(cell.dialect)


def write(page: Path, rows: str) -> None:
    """Replace the table of a page."""
    head, _, rest = page.read_text("utf-8").partition(BEGIN)
    page.write_text(f"{head}{BEGIN}{rows}\n{rest[rest.index(END) :]}", "utf-8")


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
