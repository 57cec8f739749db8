"""Reports of runs, as pages and as text."""

from __future__ import annotations

import base64
from pathlib import Path

from click.testing import CliRunner

from live_eval.analysis.summary.run_summary import RunSummary, summarise
from live_eval.cli import cli
from live_eval.recording import RunReader, RunWriter
from live_eval.report import write_report
from live_eval.types import Case, Variant
from tests.support.pages import Page
from tests.support.records import TurnPlan, spoken_turn


def page_of(*runs: Path, audio_mb: float = 40.0, retime: bool = False) -> Page:
    text = write_report(runs, audio_mb=audio_mb, retime=retime)
    assert text is not None
    return Page(text)


def summary_of(path: Path) -> RunSummary:
    with RunReader.open(path) as run:
        return summarise(run)


def sounds_of(page: Page) -> list[tuple[str, bytes]]:
    return [
        (attributes["data-mime"] or "", base64.b64decode(text))
        for attributes, text in page.scripts
        if attributes.get("type") == "text/plain"
    ]


def small_run(path: Path, *, mode: str = "server_vad", data: str = "x") -> Path:
    with RunWriter.create(path, {"endpoint": {"turn_mode": mode}, "data": {"kind": data}, "turns": 3}) as run:
        for number in (10, 9):
            case = Case(
                case_id=f"c{number}", script_id=f"c{number}", variant=Variant.TARGET, audio_path=Path("a.wav")
            )
            run.commit(spoken_turn(case, TurnPlan(reply_ms=200)))
    return path


def report(*arguments: str) -> str:
    done = CliRunner().invoke(cli, ["report", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout
