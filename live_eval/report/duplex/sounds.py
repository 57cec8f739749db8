"""Write the audio files of trials next to the page: both sides in stereo, and each side alone."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import numpy as np
import soundfile
from numpy.typing import NDArray

from live_eval.errors import StoreError, UsageError
from live_eval.files import atomic_write, private_folder
from live_eval.report.file_names import SOUNDS

__all__ = ["write_sounds"]

_LONGEST_SLUG = 60


def write_sounds(folder: Path, name: str, both: NDArray[np.int16], rate_hz: int) -> list[tuple[str, str]]:
    """Write a trial's audio as FLAC: both sides in stereo, and each side alone.

    Args:
        name: Base name of the files, unique in the campaign.
        both: Audio, int16, shape (samples, 2), with the user on the left and the endpoint as heard on the
            right.

    Returns:
        The side of each file, and the link from the page to the file.

    Raises:
        StoreError: The folder `SOUNDS` is a link.
        UsageError: A file cannot be written.
    """
    sounds = folder / SOUNDS
    if sounds.is_symlink():
        raise StoreError(f"{sounds}: expected a folder, found a link")
    stem = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")[:_LONGEST_SLUG]
    sides = {"both": both, "user": both[:, 0], "endpoint": both[:, 1]}
    links = []
    for side, pcm in sides.items():
        file = f"{stem}.{side}.flac"
        try:
            private_folder(sounds)
            with atomic_write(sounds / file) as place:
                soundfile.write(place, pcm, rate_hz, format="FLAC", subtype="PCM_16")
        except (OSError, soundfile.LibsndfileError) as error:
            raise UsageError(f"cannot write {sounds / file}: {error}") from None
        links.append((side, f"{SOUNDS}/{quote(file)}"))
    return links
