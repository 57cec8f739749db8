"""Progress bars for downloads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from live_eval.cli._screen import console
from live_eval.weights.fetching import FetchProgress

__all__ = ["transfer_bars"]


@contextmanager
def transfer_bars() -> Iterator[FetchProgress]:
    """Show a bar for each file being transferred; yield the callback for received data."""
    from rich.markup import escape
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(name: str, here: int, total: int | None) -> None:
            if name not in tasks:
                for done in tasks.values():
                    bars.update(done, visible=False)
                tasks[name] = bars.add_task(escape(name), total=total)
            bars.update(tasks[name], completed=here, total=total)

        yield show
