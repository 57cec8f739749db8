"""Find the run and campaign folders in the studio, including the runs of campaigns, and assign IDs."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from live_eval.campaigns.folders import FolderKind, FoundFolder, find_folders, kind_of
from live_eval.data import SAMPLE, SAMPLE_DIALOGUES
from live_eval.errors import UsageError
from live_eval.files import unique_names
from live_eval.studio.answers import NotFoundError

__all__ = ["LIBRARY", "Library", "ListedFolder"]


@dataclass(frozen=True, slots=True)
class ListedFolder:
    """A folder in the studio.

    Args:
        id: Identifier in requests.
        name: Unique name on pages.
        campaign: ID of the campaign that the run belongs to, or None.
    """

    id: str
    name: str
    path: Path
    kind: FolderKind
    campaign: str | None = None


class Library:
    """The runs and campaigns in the studio's folders. Call the methods in a thread, because they block.

    Requests refer to folders only by ID. For security, an ID is looked up among the folders found and never
    used as a path.

    Args:
        folders: Run and campaign folders, or folders that contain them.
        data: Data sets available to runs; their recordings may be played to listeners.
    """

    def __init__(self, folders: Sequence[Path], data: Sequence[Path] = ()) -> None:
        self._roots = tuple(folders)
        self.data = tuple(data)
        self._known: dict[str, ListedFolder] = {}

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folders given by the user."""
        return tuple(root.resolve() for root in self._roots)

    @property
    def data_choices(self) -> list[str]:
        """The data sets that a page may choose."""
        return [SAMPLE, SAMPLE_DIALOGUES, *map(str, self.data)]

    @property
    def recordings(self) -> tuple[Path, ...]:
        """The folders, besides a run's own, whose recordings may be played to listeners."""
        return tuple(path if path.is_dir() else path.parent for path in self.data)

    def folders(self) -> list[ListedFolder]:
        """Return the existing folders, sorted by name in descending order."""
        folders = list(find_folders(self._roots))
        names = unique_names([each.path for each in folders])
        found = [_listed(each, name) for each, name in zip(folders, names, strict=True)]
        self._known = {each.id: each for each in found}
        return found

    def contains(self, path: Path) -> bool:
        """Return whether a folder is one of the roots or inside one."""
        there = path.resolve()
        return any(there.is_relative_to(root) for root in self.roots)

    def find(self, folder_id: str, *kinds: FolderKind) -> ListedFolder:
        """Return the folder with this ID.

        Args:
            kinds: Accepted kinds; all if empty.

        Raises:
            NotFoundError: No folder has this ID, or the folder's kind is not accepted.
        """
        if folder_id not in self._known:
            self.folders()
        found = self._known.get(folder_id)
        if found is None or not found.path.is_dir():
            raise NotFoundError(
                f"no run or campaign has the ID {folder_id[:40]!r}: it may have been deleted or moved"
            )
        if kinds and found.kind not in kinds:
            raise NotFoundError(f"{found.path}: expected a {' or '.join(kinds)}, got a {found.kind}")
        return found

    def runs_of(self, campaign: ListedFolder) -> list[ListedFolder]:
        """Return the runs of a campaign."""
        return [each for each in self.folders() if each.campaign == campaign.id]

    def new_run(self, name: str) -> ListedFolder:
        """Return an unused folder for a new run, in the first root that is not itself a run or campaign.

        Raises:
            UsageError: Every root is a run or campaign.
        """
        for root in self._roots:
            if kind_of(root) is None:
                names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
                path = next(each for each in map(root.resolve().joinpath, names) if not each.exists())
                return ListedFolder(_id_of(path), path.name, path, "run")
        raise UsageError(
            "cannot record a run here: the studio was started with single runs; start it with a folder "
            "of runs"
        )


LIBRARY = web.AppKey("library", Library)


def _listed(found: FoundFolder, name: str) -> ListedFolder:
    campaign = None if found.campaign is None else _id_of(found.campaign)
    return ListedFolder(_id_of(found.path), name, found.path, found.kind, campaign)


def _id_of(folder: Path) -> str:
    return hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
