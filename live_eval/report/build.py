"""Build a report: summarise runs, and write a page or tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from live_eval.analysis.comparison.series import ComparedRun, compared_run
from live_eval.analysis.statistics.intervals import ALL_TURNS
from live_eval.analysis.summary.latencies import LATENCY_TITLES
from live_eval.analysis.summary.observations import Observation
from live_eval.analysis.summary.run_summary import summarise
from live_eval.analysis.summary.score_table import ScoreTable
from live_eval.analysis.summary.vocal_sounds import VOCAL_SOUND_TITLES
from live_eval.analysis.task_levels import relate_levels
from live_eval.analysis.trade_offs import TradeOff, main_trade_offs
from live_eval.analysis.turn_view import TurnView
from live_eval.errors import UsageError
from live_eval.files import unique_names
from live_eval.recording import RunReader, TurnRecord, is_own_file
from live_eval.report.bars import waterfall
from live_eval.report.cells import Cell, number
from live_eval.report.clip_choice import turns_to_hear
from live_eval.report.compare import compare, prompts_in_words
from live_eval.report.embedded_audio import STREAMED_STEPS, Clip, clips, drawn_envelope
from live_eval.report.glossary import DEFINITIONS, LAG_NOTE, licence_note
from live_eval.report.leaderboard.board import PUBLISHED_NOTE, tables_with_runs
from live_eval.report.leaderboard.render import board_helpers
from live_eval.report.pages import inline_script, page_template, script_json, write_page
from live_eval.report.plots import Plot, curve_plot, level_plots
from live_eval.report.tables import (
    RunView,
    audit_table,
    cue_tables,
    failure_table,
    judges_in_words,
    latency_table,
    score_columns,
    score_table,
)
from live_eval.report.tasks import task_tables
from live_eval.report.text_formats import as_csv, as_json, as_markdown
from live_eval.report.trade_off_plots import trade_off_plot
from live_eval.report.turns import TurnRow, turn_order, turn_row
from live_eval.scoring.scoring_run import Progress
from live_eval.session.event_loop import uncollected
from live_eval.text.mappings import flattened

__all__ = ["ReportFormat", "open_runs", "write_report"]

ReportFormat: TypeAlias = Literal["html", "md", "csv", "json"]

AUDIO_MB = 4.0
_MOST_KEPT = 4_000  # turns, at about 20 kB
_NO_TIMES: Mapping[str, Any] = dict.fromkeys(
    ("frame_deadline_ns", "frame_sent_ns", "probe_at_ns", "probe_lag_ns"), np.empty(0, np.int64)
)


@dataclass(frozen=True, slots=True, eq=False)
class OpenRun:
    """A run in a report.

    Args:
        sounds: Audio file of both sides, by turn ID, without missing ones.
        retime: Whether the latencies are recomputed.
        kept: Turns by ID, so that they are read only once; empty if they would take too much memory.
    """

    reader: RunReader
    view: RunView
    compared: ComparedRun
    sounds: Mapping[str, Path]
    retime: bool
    kept: Mapping[str, TurnRecord]

    def turns_of(self, turn_ids: Sequence[str]) -> Iterator[TurnRecord]:
        """Yield the turns with these IDs; paths to the data are unresolved."""
        if self.kept:
            return map(self.kept.__getitem__, turn_ids)
        return self.reader.turns_of(turn_ids, retime=self.retime, finds_data=False)


@contextmanager
def open_runs(paths: Sequence[Path], *, retime: bool = False) -> Iterator[list[OpenRun]]:
    """Open and summarise runs, and compare each with the first one.

    Args:
        retime: Recompute the latencies with the current definitions.

    Raises:
        UsageError: No run is given, or a run is repeated.
        StoreError: A folder contains no run.
    """
    if not paths:
        raise UsageError("expected at least one run")
    resolved = [path.resolve() for path in paths]
    for path, where in zip(paths, resolved, strict=True):
        if resolved.count(where) > 1:
            raise UsageError(f"{path} is given twice")
    labels = unique_names(resolved)
    with ExitStack() as stack:
        opened: list[OpenRun] = []
        room = _MOST_KEPT
        for path, label in zip(paths, labels, strict=True):
            reader = stack.enter_context(RunReader.open(path))
            kept: dict[str, TurnRecord] = {}
            seen = _keeping(kept) if len(reader) <= room else None
            summary = summarise(reader, retime=retime, seen=seen)
            room -= len(kept)
            run = compared_run(reader, label, summary.turns, summary.table)
            differences = None
            if opened:
                first = opened[0]
                differences = compare((first.compared, run), (first.view.summary, summary))
            sounds = {
                turn_id: file
                for turn_id, file in reader.both_files().items()
                if turn_id not in summary.lost_audio
            }
            view = RunView(len(opened), label, summary, differences)
            opened.append(OpenRun(reader, view, run, sounds, retime, kept))
        yield opened


def _keeping(kept: dict[str, TurnRecord]) -> Callable[[TurnRecord, ScoreTable], None]:
    """Return a function that keeps turns without the times of single frames, which a page does not show."""

    def keep(turn: TurnRecord, _table: ScoreTable) -> None:
        kept[turn.turn_id] = replace(turn, trace=replace(turn.trace, **_NO_TIMES))

    return keep


@uncollected()
def write_report(
    runs: Sequence[Path],
    output: Path | None = None,
    *,
    form: ReportFormat = "html",
    audio_mb: float = AUDIO_MB,
    retime: bool = False,
    links: bool = False,
    short: bool = False,
    streams: Sequence[str] = (),
    progress: Progress | None = None,
    warn: Callable[[str], None] | None = None,
) -> str | None:
    """Write a report on one run or on several side by side.

    Args:
        runs: Run folders; the first is the baseline for comparisons.
        output: Output file; None to return the report as text.
        form: Format: ``html`` (one offline page), ``md``, ``csv`` or ``json``.
        audio_mb: Maximum amount of audio in the page, in megabytes; 0 for none.
        retime: Recompute the latencies with the current definitions.
        links: Whether the user chose `output`; see `atomic_write`.
        short: Whether the page contains only the headline, the row in the paper's tables, and the turns.
        streams: Address of each run in a studio; the page then embeds no audio, but streams it from there.
        progress: Called after each turn of the page with the page's name, the turns written and all turns.
        warn: Called with a warning for each run whose scores, and each turn whose audio, cannot be read.

    Returns:
        The report if `output` is None.

    Raises:
        UsageError: No run is given, or the output cannot be written.
        StoreError: A folder contains no run, or a turn is damaged.
    """
    with open_runs(runs, retime=retime) as opened:
        views = [run.view for run in opened]
        for view in views:
            if view.summary.table.unread and warn is not None:
                warn(f"{view.label}: {view.summary.table.unread}")
        prompts = prompts_in_words([run.compared for run in opened])
        pieces: Iterator[str]
        match form:
            case "html":
                pieces = _page(
                    opened, audio_mb, prompts, short=short, streams=streams, progress=progress, warn=warn
                )
            case "md":
                pieces = iter([as_markdown(views, prompts)])
            case "csv":
                pieces = iter([as_csv(views)])
            case "json":
                pieces = iter([as_json(views, _trade_offs(opened))])
        if output is None:
            return "".join(pieces)
        write_page(output, pieces, links=links)
    return None


def _page(
    opened: Sequence[OpenRun],
    audio_mb: float,
    prompts: Sequence[str],
    *,
    short: bool,
    streams: Sequence[str],
    progress: Progress | None,
    warn: Callable[[str], None] | None,
) -> Iterator[str]:
    runs = [run.view for run in opened]
    # Place turns of different runs with the same case next to each other.
    ordered = sorted(
        ((run, turn) for run in opened for turn in run.view.summary.turns),
        key=lambda pair: (turn_order(pair[1]), pair[0].view.index),
    )
    keys = {(run.view.index, turn.turn_id): f"t{place}" for place, (run, turn) in enumerate(ordered)}
    shown = _scores_shown(runs)
    recorded = sum(turn.turn_id in run.sounds for run, turn in ordered)
    for_guest = short and all(turn.source == "live" for _, turn in ordered)  # of free speech, not scripts
    with ThreadPoolExecutor(1) as pool:
        # encode while the rest of the page is written, which takes as long
        budget_bytes = 0 if streams else int(audio_mb * 1_000_000)
        audio = pool.submit(list, clips(_audio_files(opened, keys, shown), budget_bytes, warn))
        levels = [relate_levels(view.summary) for view in runs]
        cues = {turn.cue.name for _, turn in ordered if turn.cue is not None}
        yield from page_template("report.html", number=number).generate(
            title=" and ".join(view.label for view in runs),
            runs=runs,
            short=short,
            script=inline_script("report.js"),
            latencies=latency_table(runs),
            scores=score_table(runs),
            score_notes=[*judges_in_words(runs), *prompts],
            audits=audit_table(runs),
            tasks=task_tables(runs, levels),
            level_plots=level_plots(
                [(Cell(view.label, run=view.index), found) for view, found in zip(runs, levels, strict=True)]
            ),
            cues=cue_tables(runs),
            failures=failure_table(runs),
            trade_offs=[
                trade_off_plot(found, runs, lambda run, turn_id: f"#{keys[run, turn_id]}")
                for found in _trade_offs(opened)
            ],
            curves=_curves(runs),
            waterfalls=[(view, waterfall(view.summary, _keys_of(keys, view.index))) for view in runs],
            lag_note=LAG_NOTE,
            definitions=_definitions(runs) if short else DEFINITIONS,
            licences=list(dict.fromkeys(licence_note(run.reader.manifest) for run in opened)),
            settings=_settings(opened),
            shown=shown,
            rows=_rows(ordered, keys, shown, STREAMED_STEPS if streams else None, progress),
            columns=score_columns(runs),
            all_turns=ALL_TURNS,
            sound_titles=VOCAL_SOUND_TITLES,
            for_guest=for_guest,
            paper=[]
            if for_guest
            else tables_with_runs(
                [(run.reader.path, run.view.summary, run.reader.manifest) for run in opened]
            ),
            published_note=PUBLISHED_NOTE,
            **board_helpers(),
            score_columns=script_json(
                [[column.as_json() for column in view.summary.table.columns] for view in runs]
            ),
            cue_maps=[_cue_maps(view, runs) for view in runs],
            total=len(ordered),
            cue_names=sorted(cues),
            task_names=list(dict.fromkeys(turn.task.value for _, turn in ordered)),
            variants=list(dict.fromkeys(turn.variant.value for _, turn in ordered if turn.source != "live")),
            clips_of=lambda: list(_with_envelopes(opened, keys, audio.result())),
            streams=script_json(streams) if streams else None,
            recorded=recorded,
        )


def _definitions(runs: Sequence[RunView]) -> list[tuple[str, str]]:
    """Return the definitions of the terms on a short page."""
    used = {"end of speech", "turn", "captured", "voice to voice", "first byte", "lag", "scores", "intervals"}
    for view in runs:
        sounds = view.summary.vocal_sounds.items()
        used |= {VOCAL_SOUND_TITLES[name] for name, latency in sounds if latency.n}
        if view.summary.cue_sensitivity is not None or view.summary.cue_maps:
            used |= {"cue sensitivity", "by cue"}
    return [(name, text) for name, text in DEFINITIONS if name in used]


def _cue_maps(view: RunView, runs: Sequence[RunView]) -> str:
    """Return a run's heat maps as JSON for the page's script."""
    maps = [each.as_json() for each in view.summary.cue_maps]
    return script_json({"maps": maps, "run": str(view.index), "label": view.label if len(runs) > 1 else ""})


def _keys_of(keys: Mapping[tuple[int, str], str], index: int) -> dict[str, str]:
    return {turn_id: key for (run, turn_id), key in keys.items() if run == index}


def _scores_shown(runs: Sequence[RunView]) -> list[str]:
    """Return the scores in the turn table: the main score or else the first output of each judge."""
    main = {each.column.name for view in runs for each in view.summary.main_scores}
    shown: dict[str, str] = {}
    for view in runs:
        for name, score in view.summary.scores.items():
            judge = score.column.judge
            if score.n and (judge not in shown or (name in main and shown[judge] not in main)):
                shown[judge] = name
    return list(shown.values())


def _curves(runs: Sequence[RunView]) -> list[Plot]:
    def series(view: RunView, name: str, label: str, colour: int) -> tuple[Cell, Sequence[float], int]:
        measured = view.summary.latencies[name].measured
        return Cell(label, run=colour), measured.values, measured.n + measured.n_missing

    if len(runs) == 1:
        names = ("endpointing", "first_byte", "voice_to_voice")
        lines = [series(runs[0], name, LATENCY_TITLES[name], place) for place, name in enumerate(names)]
        plots = [curve_plot("Distribution of latencies, ms", lines)]
    else:
        plots = [
            curve_plot(
                f"Distribution of {LATENCY_TITLES[name]}, ms",
                [series(view, name, view.label, view.index) for view in runs],
            )
            for name in ("voice_to_voice", "first_byte")
        ]
    return [plot for plot in plots if plot is not None]


def _trade_offs(opened: Sequence[OpenRun]) -> list[TradeOff]:
    return main_trade_offs([(run.compared, run.view.summary) for run in opened])


def _rows(
    ordered: Sequence[tuple[OpenRun, Observation]],
    keys: Mapping[tuple[int, str], str],
    shown: Sequence[str],
    steps: int | None,
    progress: Progress | None,
) -> Iterator[TurnRow]:
    by_run: dict[int, list[str]] = {}
    for run, turn in ordered:
        by_run.setdefault(run.view.index, []).append(turn.turn_id)
    runs = {run.view.index: run for run, _ in ordered}
    records = {index: runs[index].turns_of(turn_ids) for index, turn_ids in by_run.items()}
    for place, (run, turn) in enumerate(ordered, 1):
        summary, record = run.view.summary, next(records[run.view.index])
        view = TurnView(record, summary.table, run.reader.path, summary.lost_audio.get(turn.turn_id, ""))
        key = keys[run.view.index, turn.turn_id]
        yield turn_row(view, run.view, key, shown, steps=steps if turn.turn_id in run.sounds else None)
        if progress is not None:
            progress("report", place, len(ordered))


def _with_envelopes(
    opened: Sequence[OpenRun], keys: Mapping[tuple[int, str], str], found: Sequence[Clip]
) -> Iterator[tuple[Clip, Mapping[str, Any]]]:
    """Yield each clip with the detailed envelope of its turn."""
    turns = {key: turn for turn, key in keys.items()}
    of_clips = [turns[clip.key] for clip in found]
    records = [
        run.turns_of([turn_id for index, turn_id in of_clips if index == run.view.index]) for run in opened
    ]
    for clip, (index, _) in zip(found, of_clips, strict=True):
        envelope = next(records[index]).envelope
        yield clip, {} if envelope is None else drawn_envelope(envelope)


def _audio_files(
    opened: Sequence[OpenRun], keys: Mapping[tuple[int, str], str], scores: Sequence[str]
) -> Iterator[tuple[str, Path]]:
    """Yield each turn's key and audio file, the most useful turns first."""
    by_key = [{turn.key: turn.turn_id for turn in run.view.summary.turns} for run in opened]
    for turn_key in turns_to_hear([run.view for run in opened], scores):
        for run, turn_ids in zip(opened, by_key, strict=True):
            turn_id = turn_ids.get(turn_key)
            file = run.sounds.get(turn_id) if turn_id is not None else None
            # The folder may be untrusted, so embed only files inside it: neither the data set's recordings
            # nor link targets.
            if turn_id is not None and file is not None and is_own_file(run.reader.path, file):
                yield keys[run.view.index, turn_id], file


def _settings(opened: Sequence[OpenRun]) -> list[tuple[str, list[str], bool]]:
    """Return each setting's name, its value in each run, and whether the values differ."""
    flat = [
        {
            name: _setting(value)
            for name, value in flattened(run.reader.manifest)
            if value not in (None, "", [])
        }
        for run in opened
    ]
    names = list(dict.fromkeys(name for settings in flat for name in settings))
    rows = [
        ("started", [run.view.summary.facts.started_at for run in opened], False),
        ("ended", [run.view.summary.facts.ended_at or "–" for run in opened], False),
    ]
    for name in names:
        values = [settings.get(name, "–") for settings in flat]
        rows.append((name, values, len(set(values)) > 1))
    return rows


def _setting(value: Any) -> str:
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)
