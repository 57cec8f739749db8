"""Shared arguments, options and output functions."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias

import click

from live_eval.cli._help import Option
from live_eval.cli._screen import raw
from live_eval.errors import StoreError, UsageError
from live_eval.files import atomic_text
from live_eval.text.durations import seconds_of
from live_eval.text.wording import counted

if TYPE_CHECKING:
    from live_eval.campaigns.folders import FolderKind, FoundFolder

RECORDINGS = Path("recordings")

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

_NUMBER = re.compile(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?", re.IGNORECASE)
_WITH_CAMPAIGNS: tuple[FolderKind, ...] = ("run", "campaign", "duplex")
_KINDS: dict[FolderKind, str] = {
    "run": "run",
    "campaign": "latency campaign",
    "duplex": "duplex campaign",
}
_NEWEST = re.compile(r"latest|@([1-9]\d*)")

STDOUT = Path("-")
"""Placeholder for standard output."""


def check_is_run(folder: Path) -> None:
    """Raise a `UsageError` that lists the campaign's runs if a folder is a campaign."""
    from live_eval.campaigns.documents import DUPLEX_CAMPAIGN, LATENCY_CAMPAIGN
    from live_eval.recording import RUN_FILE

    runs: Iterable[Path]
    if LATENCY_CAMPAIGN.is_in(folder):
        from live_eval.campaigns.latency.campaign_file import point_runs  # the import takes 0.4 s

        kind, runs = "latency", point_runs(folder)
    elif DUPLEX_CAMPAIGN.is_in(folder):
        kind, runs = "duplex", sorted(store.parent for store in folder.glob(f"*/{RUN_FILE}"))
    else:
        return
    names = " ".join(map(str, runs)) or "none"
    raise UsageError(
        f"{folder} is a {kind} campaign, not a run; its runs: {names}. For its results: "
        f"live-eval report {folder}"
    )


class RunFolder(click.Path):
    """Parameter type of a run folder.

    ``latest`` or ``@1`` selects the newest run in recordings/, ``@2`` the second newest, and so on.

    Args:
        damaged: Whether ``latest`` and ``@N`` can select unreadable runs.
    """

    def __init__(
        self, kinds: Sequence[FolderKind] = ("run",), *, files: bool = False, damaged: bool = False
    ) -> None:
        super().__init__(path_type=Path, exists=True, file_okay=files)
        self._kinds = kinds
        self._why_skipped = _never_skipped if damaged else _why_unreadable

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        number = _NEWEST.fullmatch(str(value))
        if number is not None and not Path(value).exists():
            return _newest(value, int(number[1] or 1), self._kinds, self._why_skipped)
        if str(value).startswith("@") and not Path(value).exists():
            self.fail(f"{value!r}: expected latest, @1 (the newest run), @2 or higher", param, ctx)
        folder = Path(str(super().convert(value, param, ctx)))
        if tuple(self._kinds) == ("run",):
            check_is_run(folder)
        if folder.is_dir():
            self._check_contents(folder, param, ctx)
        return folder

    def _check_contents(self, folder: Path, param: click.Parameter | None, ctx: click.Context | None) -> None:
        """Reject a folder of another kind or without a run; if runs are nested inside, name the newest."""
        from live_eval.campaigns.folders import find_folders, kind_of

        kind = kind_of(folder)
        expected = f"{str(folder)!r}: expected a {_in_words(self._kinds)} folder"
        if kind is not None:
            if kind not in self._kinds and "run" not in self._kinds:
                also = "; `live-eval compare` compares runs" if kind == "run" else ""
                self.fail(f"{expected}, got a {_KINDS[kind]}{also}", param, ctx)
            return
        inside = [
            found for found in find_folders([folder]) if found.campaign is None and found.kind in self._kinds
        ]
        if not inside:
            self.fail(f"{expected}; `live-eval runs list` lists runs", param, ctx)
        what = "run" if "run" in self._kinds else _in_words(self._kinds)
        first = folder / inside[0].path.relative_to(folder.resolve())
        self.fail(f"{expected}, got a folder with {counted(len(inside), what)}, such as {first}", param, ctx)


def _why_unreadable(found: FoundFolder) -> str:
    """Return the reason why a run or campaign cannot be read, or an empty string."""
    from live_eval.campaigns.documents import DUPLEX_CAMPAIGN, LATENCY_CAMPAIGN
    from live_eval.recording import RunReader

    try:
        if found.kind == "run":
            RunReader.open(found.path).close()
        else:
            (DUPLEX_CAMPAIGN if found.kind == "duplex" else LATENCY_CAMPAIGN).read(found.path)
    except StoreError as error:
        return str(error)
    return ""


def _never_skipped(_found: FoundFolder) -> str:
    return ""


def _newest(
    name: str,
    number: int,
    kinds: Collection[FolderKind],
    why_skipped: Callable[[FoundFolder], str] = _never_skipped,
) -> Path:
    """Print and return the run or campaign in recordings/ with this number, counting from the newest.

    Args:
        name: The user's text, such as ``@2``, for messages.
        why_skipped: Returns the reason for skipping a folder, or an empty string.
    """
    from live_eval.campaigns.folders import find_folders
    from live_eval.recording import RUN_FILE

    def written_ns(folder: Path) -> int:
        """Return the time at which the last turn was stored; later scoring does not change it."""
        stores = [folder / RUN_FILE, *folder.glob(f"*/{RUN_FILE}")]
        return max((store.lstat().st_mtime_ns for store in stores if store.exists()), default=0)

    found = [each for each in find_folders([RECORDINGS]) if each.campaign is None and each.kind in kinds]
    found.sort(key=lambda each: written_ns(each.path), reverse=True)
    runs: list[Path] = []
    for each in found:
        if reason := why_skipped(each):
            click.echo(f"note: {name}: skipped {RECORDINGS / each.path.name}: {reason}", err=True)
            continue
        runs.append(each.path)
        if len(runs) == number:
            chosen = RECORDINGS / each.path.relative_to(RECORDINGS.resolve())
            click.echo(f"note: {name} is {chosen}", err=True)
            return chosen
    raise UsageError(f"{name}: expected a {_in_words(kinds)} in {RECORDINGS}/, found {len(runs) or 'none'}")


def _in_words(kinds: Collection[FolderKind]) -> str:
    if len(kinds) == 1:
        return _KINDS[next(iter(kinds))]
    return "run or campaign" if "run" in kinds else "campaign"


RUN = RunFolder()
RUN_OR_CAMPAIGN = RunFolder(_WITH_CAMPAIGNS)
DAMAGED_RUN_OR_CAMPAIGN = RunFolder(_WITH_CAMPAIGNS, damaged=True)


def folder_to_resume(out: Path | str | None, kind: FolderKind = "run") -> Path | None:
    """Return the run or campaign folder to resume; ``latest`` and ``@N`` select one in recordings/."""
    number = _NEWEST.fullmatch(str(out))
    if out is None or number is None or Path(out).exists():
        return None if out is None else Path(out)
    return _newest(str(out), int(number[1] or 1), (kind,))


class DurationType(click.ParamType[float]):
    """Parameter type of a duration, such as ``15s`` or ``500ms``.

    Args:
        unit: Unit of the values passed to the command, and of numbers without a unit.
        low: Minimum, in this unit.
        high: Maximum, in this unit.
        words: Words accepted instead of a duration, and returned unchanged.
    """

    name = "duration"

    def __init__(
        self,
        unit: Literal["s", "ms"] = "s",
        low: float = 0,
        high: float = math.inf,
        words: Collection[str] = (),
    ) -> None:
        self._per_s = {"s": 1, "ms": 1000}[unit]
        self._unit, self._low, self._high, self._words = unit, low, high, words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the duration in the type's unit."""
        if not isinstance(value, str) or value in self._words:
            return value
        try:
            number = float(value) if _NUMBER.fullmatch(value.strip()) else seconds_of(value) * self._per_s
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)
        if not self._low <= number <= self._high:
            least, most = f"{self._low:g} {self._unit}", f"{self._high:g} {self._unit}"
            expected = f"{least} or more" if math.isinf(self._high) else f"{least} to {most}"
            self.fail(f"{value!r}: expected {expected}", param, ctx)
        return number

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return the metavar for the help."""
        return "|".join(["DURATION", *self._words])


def _different_runs(_: click.Context, __: click.Parameter, runs: tuple[Path, ...]) -> tuple[Path, ...]:
    seen: set[Path] = set()
    for run in runs:
        if run.resolve() in seen:
            raise UsageError(f"expected different runs, got {run} twice")
        seen.add(run.resolve())
    return runs


run_argument: Decorator = click.argument("run", type=RUN)
runs_argument: Decorator = click.argument("runs", nargs=-1, required=True, type=RUN, callback=_different_runs)
json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="Print JSON with stable keys.")
retime_option: Decorator = click.option(
    "--retime", is_flag=True, help="Recompute latencies with the current definitions."
)
common_option: Decorator = click.option(
    "--common", is_flag=True, help="Use only the cases that the runs share."
)
seed_option: Decorator = click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed."
)

_SUFFIXES = {
    "csv": (".csv",),
    "hf": (),
    "html": (".html", ".htm"),
    "inspect": (".eval",),
    "json": (".json",),
    "jsonl": (".jsonl", ".ndjson"),
    "latex": (".tex",),
    "md": (".md", ".markdown"),
    "parquet": (".parquet",),
}
"""Accepted file suffixes of each format."""


def new_folder(name: str) -> Path:
    """Return a new folder in recordings/, named after the current time and `name`."""
    return RECORDINGS / f"{datetime.now(UTC).strftime('%Y-%m-%dT%H-%M-%SZ')}-{name}"


def format_option(forms: Sequence[str], *aliases: str) -> Decorator:
    """Return the ``--format`` flag, passed as ``form``; the first format is the default."""
    return click.option(
        "--format",
        "form",
        cls=Option,
        aliases=aliases,
        type=click.Choice(forms),
        help=f"Output format. Default: from the output file's suffix, otherwise {forms[0]}.",
    )


def format_to_write(forms: Sequence[str], form: str | None, output: Path | None) -> str:
    """Return the requested format, the format implied by the file suffix, or the first format."""
    suffix = "" if output is None else output.suffix.lower()
    suffixed = [name for name in forms if suffix in _SUFFIXES[name]]
    if form is not None:
        if suffixed and form not in suffixed:
            raise UsageError(f"--format {form}: {output} has the suffix of the format {suffixed[0]}")
        return form
    if not suffix:
        return forms[0]
    if suffixed:
        return suffixed[0]
    expected = ", ".join(end for name in forms for end in _SUFFIXES[name])
    raise UsageError(f"{output}: unknown suffix {suffix}, expected one of {expected}; or pass --format")


def output_option(default: str, *, dir_okay: bool = False) -> Decorator:
    """Return the ``--out`` flag, whose value is a path, `STDOUT` or None; `default` is for the help text."""
    return click.option(
        "-o",
        "--out",
        "output",
        cls=Option,
        aliases=("--output",),
        type=click.Path(path_type=Path, dir_okay=dir_okay, allow_dash=True),
        help=f"Output file; - for standard output. Default: {default}.",
    )


@contextmanager
def open_output(output: Path) -> Iterator[IO[str]]:
    """Open a text file that is written atomically, or standard output without newline translation."""
    if output == STDOUT:
        yield sys.stdout if sys.stdout.isatty() else raw(sys.stdout)
        return
    try:
        with atomic_text(output, links=True) as file:
            yield file
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from None


def print_json(value: Any) -> None:
    """Print a value as indented JSON in ASCII, which every terminal can display."""
    click.echo(json.dumps(value, indent=2))
