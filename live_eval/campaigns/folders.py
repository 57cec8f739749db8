"""Find runs and campaigns with their runs, and delete campaigns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from live_eval.campaigns.documents import DUPLEX_CAMPAIGN, LATENCY_CAMPAIGN
from live_eval.errors import StoreError
from live_eval.recording.contents import FolderForms, files_in, holds_recordings
from live_eval.recording.housekeeping import delete_run, remove_files, remove_if_empty

__all__ = ["FolderKind", "FoundFolder", "delete_campaign", "find_folders", "kind_of"]

FolderKind: TypeAlias = Literal["run", "campaign", "duplex"]
_CAMPAIGNS = (LATENCY_CAMPAIGN, DUPLEX_CAMPAIGN)


@dataclass(frozen=True, slots=True)
class FoundFolder:
    """The folder of a run or of a campaign.

    Args:
        kind: Kind of content. So that they can be deleted, a damaged run counts as a run, and a campaign
            killed before it wrote its document counts as a campaign.
        campaign: Campaign folder, for a run of a campaign; None otherwise.
    """

    path: Path
    kind: FolderKind
    campaign: Path | None = None


def find_folders(roots: Iterable[Path]) -> list[FoundFolder]:
    """Return the runs and campaigns in folders, without duplicates, in reverse order of their folder names.

    Links inside these folders are not followed, since an untrusted folder may link to any other folder.

    Args:
        roots: Runs, campaigns, or folders that contain them; may be links.
    """
    return list({found.path: found for root in roots for found in _search(root.resolve())}.values())


def kind_of(folder: Path) -> FolderKind | None:
    """Return the kind of a folder's content; None if the folder is neither a run nor a campaign."""
    try:
        for campaign in _CAMPAIGNS:
            if campaign.is_in(folder):
                return campaign.kind
        if holds_recordings(folder):
            return "run"
        return next((campaign.kind for campaign in _CAMPAIGNS if campaign.was_begun_in(folder)), None)
    except OSError:  # no search permission: the error is reported when the run is read
        return "run"


def _search(root: Path) -> Iterator[FoundFolder]:
    """Yield the runs and campaigns in a folder, or the folder itself."""
    found = list(_in(root))
    yield from found or (each for folder in _folders_in(root) for each in _in(folder))


def _in(folder: Path) -> Iterator[FoundFolder]:
    """Yield the run or the campaign with its runs in a folder, if any."""
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


def delete_campaign(
    folder: Path, others: Collection[str] = (), forms: Mapping[str, FolderForms] | None = None
) -> list[Path]:
    """Delete everything that live-eval has written to a campaign folder: its runs, recordings and document.

    Args:
        others: Names of files that other parts of live-eval write to campaign and run folders.
        forms: Folders that these parts create in a campaign folder, with the patterns of the paths inside.

    Returns:
        The remaining files, which live-eval did not write; an empty list if the folder was removed.

    Raises:
        StoreLockedError: A process is writing a run or its scores; the runs before it have been deleted.
        StoreError: A file cannot be deleted.
    """
    made = {campaign.made: campaign.forms for campaign in _CAMPAIGNS} | dict(forms or {})
    names = {*others, *(name for each in _CAMPAIGNS for name in (each.file_name, *each.others))}
    try:
        for inside in sorted(folder.iterdir()):
            if inside.is_symlink() or not inside.is_dir():
                continue
            if holds_recordings(inside):
                delete_run(inside, others)
            elif inside.name in made:
                remove_files(inside, made[inside.name])
        for path in files_in(folder):
            if path.name.removesuffix(".part") in names:
                path.unlink()
        return remove_if_empty(folder)
    except OSError as error:
        raise StoreError(f"cannot delete {folder}: {error.strerror}") from None
