"""Select scripts for a person to perform, and write their takes in the layout of EchoMind-Human.

The folder of takes contains ``consent.json`` and ``data_human`` with ``script_info_human.json`` and
``audio``. The script_info file is rewritten after each accepted take, so the folder is always a valid data
set.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import read_audio, write_flac
from live_eval.data.dataset import DataKind, DataOptions, DataSet
from live_eval.data.echomind import CONSENT, PERFORMED, TAKE_PROBLEMS, load_echomind
from live_eval.errors import AudioError, DataError
from live_eval.files import atomic_text, private_folder
from live_eval.recording import file_stem
from live_eval.text.wording import counted
from live_eval.types import Case, CoarseDimension, Cue, Task, Variant

__all__ = ["Consent", "PerformedSet", "consent_question", "direction", "performable"]

_PART = "human"
_NEUTRAL = "in your normal voice"
_DIRECTIONS: Mapping[str, str] = {
    "neutral": _NEUTRAL,
    "hoarse voice": "with a hoarse voice",
    "vocal fatigue": "with a tired voice",
    "breathless": "as if out of breath",
    "sobbing": "while sobbing",
    "happy": "as if you were happy",
    "sad": "as if you were sad",
    "surprise": "as if you were surprised",
    "angry": "as if you were angry",
    "fear": "as if you were afraid",
    "disgust": "as if you were disgusted",
    "shout": "shouting",
    "whisper": "in a whisper",
    "fast pace": "very fast",
    "slow pace": "very slowly",
    "cough": "with a cough",
    "sigh": "with a sigh",
    "laughter": "with a laugh",
    "yawn": "with a yawn",
    "moan": "with a moan",
}


def direction(cue: Cue | None) -> str | None:
    """Return the direction for a cue, as in "Say this …", or None if a person cannot perform it.

    A person cannot perform background sounds, another age or another gender.

    >>> direction(Cue("gasping sound", "breathless"))
    'as if out of breath'
    """
    if cue is None:
        return None
    if cue.coarse in (CoarseDimension.ENVIRONMENT, CoarseDimension.SPEAKER):
        return None
    return _DIRECTIONS.get(cue.attribute or "") or f"with this cue: {cue.phrase}"


@dataclass(frozen=True, slots=True)
class Consent:
    """A person's consent to the recording and use of their voice.

    Args:
        text: The question that the person answered.
        given_by: Name or initials of the person.
        given_at: Time of the answer in UTC, in ISO format.
        recipient: Endpoint that receives the takes.
    """

    text: str
    given_by: str
    given_at: str
    recipient: str = ""


def consent_question(folder: Path, recipient: str) -> str:
    """Return the question that asks a person for consent.

    Args:
        folder: Folder of the takes.
        recipient: Endpoint that receives the takes.
    """
    return (
        f"Your voice will be recorded, stored in {folder} and sent to {recipient}. "
        "Anyone who has the folder can send the recordings to other models and judges."
    )


def performable(cases: Iterable[Case]) -> tuple[list[Case], list[str]]:
    """Return the cases that a person can perform, one per script and variant, and notes on the others."""
    chosen: dict[str, Case] = {}
    omitted: dict[str, set[str]] = {}
    targets: dict[str, bool] = {}
    cases = [case for case in cases if case.task is Task.CONVERSATION and case.dialogue_id is None]
    for case in cases:
        if case.variant is Variant.TARGET:
            targets.setdefault(case.script_id, direction(case.cue) is not None)
    for case in cases:
        name = f"{case.script_id}/{case.variant}"
        if not case.text:
            omitted.setdefault("no text", set()).add(name)
        elif direction(case.cue) is None or not targets.get(case.script_id, True):
            omitted.setdefault("a cue that no voice can perform", set()).add(name)
        else:
            chosen.setdefault(name, replace(case, case_id=name))
    notes = [f"{counted(len(names), 'take')} omitted: {why}" for why, names in omitted.items()]
    return list(chosen.values()), notes


class PerformedSet:
    """Record a data set. Nothing is written before `begin`.

    Args:
        folder: The data set's folder, new or empty.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        """The data set's folder."""
        self._part = folder / f"data_{_PART}"
        self._entries: dict[str, dict[str, Any]] = {}
        self._references: dict[Path, Path] = {}  # original reference replies by copy

    def begin(self, consent: Consent) -> None:
        """Create the folder and store the person's consent.

        Raises:
            DataError: The folder is not empty, or cannot be written.
        """
        folder = self.folder
        try:
            if os.path.lexists(folder) and (folder.is_symlink() or any(folder.iterdir())):
                raise DataError(f"{folder}: expected a new or empty folder for the takes")
            private_folder(self._part / "audio")
            with atomic_text(folder / CONSENT) as file:
                json.dump(asdict(consent), file, indent=2)
        except OSError as error:
            raise DataError(f"cannot write {folder}: {error.strerror}") from None

    def take_of(self, case: Case) -> Case:
        """Return the case for a person's take, whose recording may not exist yet."""
        path = self._part / "audio" / f"{file_stem(case.case_id, 1)}.flac"
        reference: Path | None = None
        if case.reference_audio_path is not None and os.path.isfile(case.reference_audio_path):
            reference = path.with_name(f"{path.stem}_response.flac")
            self._references[reference] = case.reference_audio_path
        return replace(
            case,
            audio_path=path,
            reference_audio_path=reference,
            clean_audio_path=None,
            boundaries=None,
            parts=(),
            source=_PART,
            problem=None,
            lacks_recording=False,
        )

    def record(self, take: Case, pcm: NDArray[np.int16], rate_hz: int) -> None:
        """Write the recording of a take; the take joins the data set when it is accepted.

        Args:
            pcm: int16 mono, shape (samples,), at `rate_hz`.

        Raises:
            DataError: The file cannot be written.
        """
        try:
            write_flac(take.audio_path, pcm, rate_hz)
        except OSError as error:
            raise DataError(f"cannot write {take.audio_path}: {error.strerror}") from None

    def discard(self, take: Case) -> None:
        """Delete the recording of a take that was not accepted."""
        with contextlib.suppress(OSError):
            take.audio_path.unlink(missing_ok=True)

    def accept(self, take: Case, problems: Sequence[str] = ()) -> None:
        """Add a recorded take to the data set, with the spoken reference reply of its script.

        Args:
            problems: Problems found in the take, which the person accepted nevertheless.

        Raises:
            DataError: A file cannot be written.
        """
        reference = self._copied(take)
        entry = self._entries.setdefault(
            take.script_id,
            _stated(
                case_id=take.script_id,
                script=take.text,
                spoken_info=take.script_cue.phrase if take.script_cue is not None else None,
                topic=take.topic,
                language=take.language,
            ),
        )
        variant = take.variant.value
        entry[f"{variant}_audio_info"] = _stated(
            **{
                f"{variant}_input_audio_file": take.audio_path.name,
                f"{variant}_response_text": take.reference_text,
                f"{variant}_response_audio_file": reference.name if reference is not None else None,
                f"{variant}_spoken_info": take.cue.phrase if take.cue is not None else None,
                f"{variant}_{TAKE_PROBLEMS}": list(problems) or None,
            }
        )
        path = self._part / f"script_info_{_PART}.json"
        try:
            with atomic_text(path) as file:
                json.dump(list(self._entries.values()), file, indent=2)
        except OSError as error:
            raise DataError(f"cannot write {path}: {error.strerror}") from None

    def _copied(self, take: Case) -> Path | None:
        """Copy the reference reply of a take; return None if it is missing or unreadable."""
        copy = take.reference_audio_path
        if copy is None:
            return None
        try:
            audio = read_audio(self._references[copy]).audio
        except AudioError:
            return None
        try:
            write_flac(copy, audio.int16(), audio.rate_hz)
        except OSError as error:
            raise DataError(f"cannot write {copy}: {error.strerror}") from None
        return copy

    def load(self) -> DataSet | None:
        """Return the data set of the accepted takes, or None if there are none."""
        return load_echomind(self.folder, DataOptions()) if self._entries else None

    def planned(self, takes: Iterable[Case], *, root: Path) -> DataSet:
        """Return the data set that would result from accepting all of these takes.

        Args:
            root: The data set of the scripts, since the takes do not exist yet when an endpoint is launched.
        """
        name = self.folder.resolve().name
        kind = DataKind.ECHOMIND
        return DataSet(name=name, root=root, kind=kind, cases=tuple(takes), licence=PERFORMED)


def _stated(**values: object) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
