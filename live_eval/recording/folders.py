"""Find the folders of runs, and of campaigns with their runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from live_eval.recording.campaign_documents import DUPLEX_CAMPAIGN, LATENCY_CAMPAIGN
from live_eval.recording.contents import begun_campaign, holds_recordings

__all__ = ["FolderKind", "FoundFolder", "find_folders", "kind_of"]

FolderKind: TypeAlias = Literal["run", "campaign", "duplex"]
_BEGUN: dict[str, FolderKind] = {"inputs": "campaign", "stimuli": "duplex"}


@dataclass(frozen=True, slots=True)
class FoundFolder:
    """The folder of a run or of a campaign.

    Args:
        path: Where it is, resolved.
        kind: What it holds. The remains of a damaged run count as a run, and those of a campaign that was
            killed before it wrote its document as a campaign, so that they can be deleted.
        campaign: The folder of the campaign whose run it is; None for others.
    """

    path: Path
    kind: FolderKind
    campaign: Path | None = None


def find_folders(roots: Iterable[Path]) -> list[FoundFolder]:
    """Return the runs and campaigns in folders, each once, the last folder by name first.

    Links inside these folders are not followed: a folder from somebody else may link to any other.

    Args:
        roots: Folders of runs and campaigns, or such folders with others in them; they may be links.
    """
    return list({found.path: found for root in roots for found in _search(root.resolve())}.values())


def kind_of(folder: Path) -> FolderKind | None:
    """Return what a folder holds; None if it is neither a run nor a campaign."""
    try:
        if LATENCY_CAMPAIGN.is_in(folder):
            return "campaign"
        if DUPLEX_CAMPAIGN.is_in(folder):
            return "duplex"
        if holds_recordings(folder):
            return "run"
        return _BEGUN[begun] if (begun := begun_campaign(folder)) is not None else None
    except OSError:  # it may not be searched: reading the run says so
        return "run"


def _search(root: Path) -> Iterator[FoundFolder]:
    """Yield the runs and campaigns in a folder, or the folder itself."""
    found = list(_in(root))
    yield from found or (each for folder in _folders_in(root) for each in _in(folder))


def _in(folder: Path) -> Iterator[FoundFolder]:
    """Yield the run in a folder, or the campaign with its runs; nothing where there is none."""
    kind = kind_of(folder)
    if kind is None:
        return
    yield FoundFolder(folder, kind)
    if kind != "run":
        for run in _folders_in(folder):
            if kind_of(run) == "run":
                yield FoundFolder(run, "run", folder)


def _folders_in(folder: Path) -> list[Path]:
    try:
        inside = (each for each in folder.iterdir() if each.is_dir() and not each.is_symlink())
        return sorted(inside, reverse=True)
    except OSError:
        return []
