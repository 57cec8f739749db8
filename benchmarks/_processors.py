"""Measure the CPU time of this program and its descendants; shared by several benchmarks."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

__all__ = ["in_words", "processor_s", "read_stat"]

_KINDS = (
    ("--type=renderer", "page"),
    ("audio.mojom", "browser's audio"),
    ("--type=", "browser"),
    ("chrom", "browser"),
    (" studio ", "studio"),
    (" endpoint ", "endpoint"),
    ("multiprocessing", "judges"),
)


def read_stat(process_id: int) -> tuple[int, float]:
    """Return the parent of a process and its CPU time so far, in seconds."""
    fields = Path(f"/proc/{process_id}/stat").read_text("utf-8").rpartition(")")[2].split()
    return int(fields[1]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def processor_s() -> dict[str, float]:
    """Return the CPU time so far of this program and its descendants, by kind, in seconds."""
    found: dict[int, tuple[int, str, float]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent, seconds = read_stat(int(process.name))
            command = (process / "cmdline").read_text("utf-8", "replace").replace("\0", " ")
        except OSError:
            continue
        found[int(process.name)] = parent, command, seconds
    spent: defaultdict[str, float] = defaultdict(float)
    for number, (_, command, seconds) in found.items():
        above = number
        while above in found and above != os.getpid():
            above = found[above][0]
        if above == os.getpid():
            kind = next((kind for mark, kind in _KINDS if mark in command), "benchmark")
            spent["benchmark" if number == above else kind] += seconds
    return dict(spent)


def in_words(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> str:
    """Return the CPU use between two results of `processor_s`, in percent of one core."""
    shares = {kind: (spent - before.get(kind, 0)) / seconds for kind, spent in after.items()}
    return ", ".join(f"{kind} {100 * share:.0f} %" for kind, share in sorted(shares.items()))
