"""Prepare the audio of a trial: WAV files with the same rate and level, which do not reveal the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from live_eval.audio import Audio, encode_wav, int16_to_float, read_audio, resample
from live_eval.audio.speech_level import speech_level
from live_eval.data import may_leave
from live_eval.errors import AudioError, StoreError
from live_eval.recording import RunReader, TurnRecord
from live_eval.studio.listening.listening_test import ReferenceKind
from live_eval.text.wording import one_line

__all__ = [
    "LOW_ANCHOR_HZ",
    "MID_ANCHOR_HZ",
    "CaseContext",
    "ListeningClip",
    "anchor_clip",
    "case_context",
    "reply_clip",
]

RATE_HZ = 48_000
LEVEL_DBFS = -26.0
"""The active speech level of all clips, as in tests by ITU-T P.800."""

LOW_ANCHOR_HZ = 3_500
MID_ANCHOR_HZ = 7_000
"""The bandwidths of the anchors in ITU-R BS.1534-3."""

_HIGHEST_PEAK = 0.99
_AFTER_SPEECH_NS = 300_000_000


@dataclass(frozen=True, slots=True)
class ListeningClip:
    """A mono 16-bit WAV file and its length in seconds."""

    wav: bytes
    seconds: float


@dataclass(frozen=True, slots=True)
class CaseContext:
    """The context of a case for a listener; missing parts are None."""

    text: str | None = None
    cue: str | None = None
    user: ListeningClip | None = None
    reference: ListeningClip | None = None


def reply_clip(run: Path, turn_id: str) -> ListeningClip:
    """Return the reply of a turn as a clip.

    Raises:
        StoreError: The run or turn was deleted, or the turn has no reply audio.
    """
    with RunReader.open(run) as reader:
        reply = reader.reply(turn_id)
    if reply is None or not len(reply.samples):
        raise StoreError(f"{run}: turn {turn_id!r} has no reply audio")
    return _clip(reply)


def case_context(
    run: Path, turn_id: str, reference: ReferenceKind, recordings: Sequence[Path] = ()
) -> CaseContext:
    """Return the context of a case, as recorded in one of the runs.

    Args:
        recordings: Folders, besides the run's own, whose recordings may be played to listeners.

    Raises:
        StoreError: The run or turn was deleted, or the reference reply must not be played.
    """
    if reference is ReferenceKind.NONE:
        return CaseContext()
    with RunReader.open(run) as reader:
        turn = reader.turn(turn_id)
        return CaseContext(
            text=turn.case.text,
            cue=None if turn.case.cue is None else one_line(turn.case.cue.phrase),
            user=_user(reader, turn),
            reference=_reference(turn, run, recordings) if reference is ReferenceKind.REPLY else None,
        )


def anchor_clip(run: Path, turn_id: str, recordings: Sequence[Path], band_hz: int) -> ListeningClip:
    """Return an anchor of ITU-R BS.1534: the reference reply low-pass filtered at `band_hz`.

    The filter is flat within 0.1 dB up to `band_hz` and attenuates by more than 50 dB from 1.08 `band_hz`.

    Raises:
        StoreError: `case_context` failed, or the case has no reference reply.
    """
    with RunReader.open(run) as reader:
        reference = _reference_audio(reader.turn(turn_id), run, recordings)
    if reference is None:
        raise StoreError(f"turn {turn_id!r} has no reference reply")
    # The resampler begins to attenuate at about 0.92 of the highest frequency.
    return _clip(resample(reference, round(2.2 * band_hz)))


def _user(reader: RunReader, turn: TurnRecord) -> ListeningClip | None:
    """Return the user's side until shortly after the end of speech, without silence or interruptions."""
    try:
        both = reader.both_sides(turn.turn_id)
    except StoreError:
        return None
    if both is None:
        return None
    pcm, rate_hz = both
    trace = turn.trace
    if trace.voice_end_ns is not None and trace.t0_ns is not None:
        pcm = pcm[: round((trace.voice_end_ns - trace.t0_ns + _AFTER_SPEECH_NS) * rate_hz / 1e9)]
    return _clip(Audio(int16_to_float(np.ascontiguousarray(pcm[:, 0])), rate_hz)) if len(pcm) else None


def _reference(turn: TurnRecord, run: Path, recordings: Sequence[Path]) -> ListeningClip | None:
    audio = _reference_audio(turn, run, recordings)
    return None if audio is None else _clip(audio)


def _reference_audio(turn: TurnRecord, run: Path, recordings: Sequence[Path]) -> Audio | None:
    path = turn.case.reference_audio_path
    if path is None:
        return None
    if not may_leave(path, run, recordings):
        # no path, because listeners see this message
        raise StoreError(
            "the reference reply is outside the run: to play it, start the studio with --data FOLDER"
        )
    try:
        return read_audio(path).audio
    except AudioError:
        return None


def _clip(audio: Audio) -> ListeningClip:
    sound = resample(audio, RATE_HZ)
    level = speech_level(sound).dbfs
    peak = float(np.abs(sound.samples).max())
    gain = 10 ** ((LEVEL_DBFS - level) / 20) if np.isfinite(level) else 1.0
    if peak > 0:
        gain = min(gain, _HIGHEST_PEAK / peak)
    return ListeningClip(encode_wav(sound.samples * gain, RATE_HZ), len(sound.samples) / RATE_HZ)
