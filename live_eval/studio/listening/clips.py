"""The sound of a trial: as WAV of one rate and one level, so that neither says which run it is from."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from live_eval.audio import Audio, int16_to_float, read_audio, resample
from live_eval.audio.speech_level import speech_level
from live_eval.errors import AudioError, StoreError
from live_eval.recording import RunReader, TurnRecord
from live_eval.studio.listening.plan import ReferenceKind
from live_eval.text.wording import one_line

__all__ = ["CaseSounds", "ListenedSound", "case_sounds", "reply_clip"]

RATE_HZ = 48_000
LEVEL_DBFS = -26.0
"""The active speech level of everything that is heard, as in ITU-T P.800 tests."""

_HIGHEST_PEAK = 0.99
_AFTER_SPEECH_NS = 300_000_000


@dataclass(frozen=True, slots=True)
class ListenedSound:
    """A sound to play.

    Args:
        wav: A WAV file, int16 mono.
        seconds: Its length.
    """

    wav: bytes
    seconds: float


@dataclass(frozen=True, slots=True)
class CaseSounds:
    """What a listener gets of a case apart from the replies.

    Args:
        words: What the user said, or None.
        cue: How it was said, or None.
        user: The user's recording, or None.
        reference: The data's reference reply, or None.
    """

    words: str | None = None
    cue: str | None = None
    user: ListenedSound | None = None
    reference: ListenedSound | None = None


def reply_clip(run: Path, turn_id: str) -> ListenedSound:
    """Return the reply of a turn.

    Raises:
        StoreError: The run or the turn was deleted, or there is no sound of the reply.
    """
    with RunReader.open(run) as reader:
        reply = reader.reply(turn_id)
    if reply is None or not len(reply.samples):
        raise StoreError(f"{run}: turn {turn_id!r} has no reply to hear")
    return _clip(reply)


def case_sounds(run: Path, turn_id: str, reference: ReferenceKind) -> CaseSounds:
    """Return what a listener gets of a case, as one of the runs recorded it.

    Raises:
        StoreError: The run or the turn was deleted.
    """
    if reference is ReferenceKind.NONE:
        return CaseSounds()
    with RunReader.open(run) as reader:
        turn = reader.turn(turn_id)
        return CaseSounds(
            words=turn.case.text,
            cue=None if turn.case.cue is None else one_line(turn.case.cue.phrase),
            user=_user(reader, turn),
            reference=_reference(turn) if reference is ReferenceKind.REPLY else None,
        )


def _user(reader: RunReader, turn: TurnRecord) -> ListenedSound | None:
    """Return the user's side up to just past the end of speech: the rest is silence or an interruption."""
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


def _reference(turn: TurnRecord) -> ListenedSound | None:
    path = turn.case.reference_audio_path
    try:
        return None if path is None else _clip(read_audio(path).audio)
    except AudioError:
        return None


def _clip(audio: Audio) -> ListenedSound:
    sound = resample(audio, RATE_HZ)
    level = speech_level(sound).dbfs
    peak = float(np.abs(sound.samples).max())
    gain = 10 ** ((LEVEL_DBFS - level) / 20) if np.isfinite(level) else 1.0
    if peak > 0:
        gain = min(gain, _HIGHEST_PEAK / peak)
    made = io.BytesIO()
    soundfile.write(made, sound.samples * gain, RATE_HZ, format="WAV", subtype="PCM_16")
    return ListenedSound(made.getvalue(), len(sound.samples) / RATE_HZ)
