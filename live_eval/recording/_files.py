"""Access the files in a run folder, which may be untrusted.

A database may contain any path, and a folder may contain symbolic links, pipes and devices. `own_file`
therefore checks that a path is a regular file in the run folder, and `own_name` checks names from the
database.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal

import soundfile
from numpy.typing import NDArray

from live_eval.errors import StoreError
from live_eval.files import kind_of_file, open_regular, read_regular

_MAX_NAME_BYTES = 255  # on Linux, macOS and Windows
_PLAIN_NAME = re.compile(rf"\w[\w.-]{{0,{_MAX_NAME_BYTES - 1}}}", re.ASCII)
_MAX_SAMPLES = 1 << 28
"""Maximum total length of a turn's audio over all channels: 1.5 hours of both sides."""
_MAX_AUDIO_BYTES = 2 * _MAX_SAMPLES
"""Maximum file size, since FLAC cannot compress noise below its 16-bit samples."""


def own_file(folder: Path, path: Path) -> Path:
    """Check that a path is a regular file in a run folder, and return the path.

    Raises:
        StoreError: The file is missing, is outside the folder (through ``..`` or a symbolic link), or is not
            regular, since opening a pipe would block.
    """
    mode = _own(folder, path).st_mode
    if not stat.S_ISREG(mode):
        raise StoreError(f"{path}: expected a file, found {kind_of_file(mode)}")
    return path


def is_own_file(folder: Path, path: Path) -> bool:
    """Return whether `own_file` accepts the path."""
    try:
        own_file(folder, path)
    except StoreError:
        return False
    return True


def own_folder(folder: Path, path: Path) -> Path:
    """Check that a path is a folder in a run folder, and return the path.

    Raises:
        StoreError: The path is missing, outside the run folder, or not a folder.
    """
    mode = _own(folder, path).st_mode
    if not stat.S_ISDIR(mode):
        raise StoreError(f"{path}: expected a folder, found {kind_of_file(mode)}")
    return path


def own_name(name: str) -> str:
    """Check that a file name from a run's database contains no folder, and return it.

    Raises:
        ValueError: The value is a path, or not a file name.
    """
    if _PLAIN_NAME.fullmatch(name):  # fast path for nearly all names, since `Path` is ten times slower
        return name
    plain = PurePosixPath(name).name == name == PureWindowsPath(name).name
    if not plain or name in ("", "..") or "\0" in name or len(os.fsencode(name)) > _MAX_NAME_BYTES:
        raise ValueError(f"expected a plain file name, got {name[:80]!r}")
    return name


def read_sound(path: Path, dtype: Literal["int16", "float32"]) -> tuple[NDArray[Any], int]:
    """Decode a turn's audio.

    Args:
        path: Audio file, as returned by `own_file`.

    Returns:
        The samples, shape (samples,) or (samples, channels), and the sample rate.

    Raises:
        StoreError: The file is not audio or exceeds the maximum length of a turn.
    """
    try:
        with open_regular(path) as raw, soundfile.SoundFile(raw.fileno(), closefd=False) as file:
            if file.frames * file.channels > _MAX_SAMPLES:
                raise ValueError(f"its header states {file.frames} samples, more than a turn can have")
            return file.read(dtype=dtype), int(file.samplerate)
    except (soundfile.LibsndfileError, OSError, RuntimeError, ValueError) as error:
        raise StoreError(f"cannot read the audio {path}: {error}") from None


def own_bytes(folder: Path, path: Path) -> bytes | None:
    """Return the contents of an audio file in a run folder; None if it is missing or too large."""
    try:
        return read_regular(own_file(folder, path), _MAX_AUDIO_BYTES)
    except (OSError, StoreError):
        return None


def lost_audio(folder: Path, audio: Path, kept: Iterable[Sequence[str]]) -> dict[str, str]:
    """Return the turns with missing audio, with reasons.

    Args:
        kept: Pairs of turn ID and audio file name.
    """
    try:
        own_folder(folder, audio)
        with os.scandir(audio) as entries:
            there = {
                entry.name
                for entry in entries
                if entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_size
            }
    except (OSError, StoreError):
        there = set()
    lost: dict[str, str] = {}
    for turn_id, name in kept:
        if name not in there and turn_id not in lost:
            try:
                why = why_lost(folder, audio / own_name(name))
            except ValueError as error:
                why = str(error)
            if why:
                lost[turn_id] = why
    return lost


def why_lost(folder: Path, file: Path) -> str:
    """Return the reason why a run's file is unusable, with its path; empty if it is usable."""
    try:
        if not own_file(folder, file).stat().st_size:
            raise StoreError(f"{file} is empty")
    except (OSError, StoreError) as error:
        return str(error).removeprefix(f"{folder}{os.sep}")
    return ""


def _own(folder: Path, path: Path) -> os.stat_result:
    try:
        real = path.resolve(strict=True)
        inside = real.is_relative_to(folder.resolve())
        found = real.stat()
    except FileNotFoundError:
        raise StoreError(f"{path} is missing") from None
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: a link loop before Python 3.13
        reason = error.strerror if isinstance(error, OSError) else "invalid path"
        raise StoreError(f"cannot open {path}: {reason}") from None
    if not inside:
        raise StoreError(f"{path} points outside the run folder")
    return found
