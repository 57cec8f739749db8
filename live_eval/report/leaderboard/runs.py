"""The table of runs: endpoint, data, turns, and whether each run has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from live_eval.analysis.comparison import NOT_RECORDED
from live_eval.analysis.summary import RunSummary
from live_eval.data import SAMPLE, SAMPLE_DIALOGUES
from live_eval.recording import part_of
from live_eval.redaction import host_of
from live_eval.text.wording import counted

__all__ = ["RUN_COLUMNS", "BoardRun", "base_url_of", "describe_run"]

RUN_COLUMNS = ("run", "folder", "endpoint", "prompt", "data", "turns")
"""The headings of the table of runs."""

_BUNDLED = {SAMPLE: "the bundled sample", SAMPLE_DIALOGUES: "the bundled dialogues"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRun:
    """A run.

    Args:
        number: Its number on the board, from 1.
        folder: Its folder, unique on the board.
        endpoint: Its endpoint with the address, model, voice and turn mode, as far as recorded.
        cases: Number of cases.
        source: Where they come from (``synthesis``, ``human``, ``manifest`` or ``folder``; several by comma).
        put: Its turns, failed ones included.
        captured: How many of them were captured.
        unfinished: A note that it has not ended; empty if it has.
    """

    number: int
    folder: str
    endpoint: str
    prompt: str
    data: str
    cases: int
    source: str
    put: int
    captured: int
    unfinished: str

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells under `RUN_COLUMNS`."""
        turns = f"{self.captured} of {self.put} captured"
        return (
            str(self.number),
            self.folder,
            self.endpoint,
            self.prompt,
            f"{self.data}: {', '.join(filter(None, (counted(self.cases, 'case'), self.source)))}",
            f"{turns}; {self.unfinished}" if self.unfinished else turns,
        )


def base_url_of(manifest: Mapping[str, Any]) -> str:
    """Return the address that the user gave for the endpoint; empty if none."""
    url = part_of(part_of(manifest, "config"), "endpoint").get("base_url")
    return url if isinstance(url, str) else ""


def describe_run(
    summary: RunSummary, manifest: Mapping[str, Any], *, number: int, folder: str, prompt: str
) -> BoardRun:
    """Return a run's row in the table of runs.

    Args:
        number: Its number on the board, from 1.
        folder: Its folder, unique on the board.
    """
    facts, address = summary.facts, host_of(base_url_of(manifest))
    endpoint = f"{facts.endpoint or NOT_RECORDED}{f' @ {address}' if address else ''}"
    return BoardRun(
        number=number,
        folder=folder,
        endpoint=", ".join([endpoint, *filter(None, (facts.model, facts.voice, facts.turn_mode))]),
        prompt=prompt,
        data=_data_name(manifest),
        cases=len({turn.case_id for turn in summary.turns}),
        source=", ".join(sorted({turn.source for turn in summary.turns})),
        put=summary.total,
        captured=summary.captured,
        unfinished=facts.unfinished,
    )


def _data_name(manifest: Mapping[str, Any]) -> str:
    path = part_of(part_of(manifest, "config"), "data").get("path")
    bundled = _BUNDLED.get(path) if isinstance(path, str) else None
    return bundled or str(part_of(manifest, "data").get("name") or NOT_RECORDED)
