"""Create stimuli: the user's utterances in a probe, with sample-exact boundaries.

Speech comes from the bundled voice, trimmed to its audible part. The voice's own pauses are shortened to
`LONGEST_SILENCE_MS`, so that only a `Gap`, which is digital silence, is long enough to be mistaken for the
end of the turn. `write_stimuli` writes trials as a manifest with recordings, an ordinary data set that
``live-eval run`` also accepts.
"""

from __future__ import annotations

import json
import re
import shutil
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from live_eval.analysis.turn_taking.trial import Trial
from live_eval.audio import Audio, encode_wav, float_to_int16, read_audio, resample, write_flac
from live_eval.errors import TurnError, UsageError
from live_eval.files import atomic_text, atomic_write, private_folder
from live_eval.impair.noises import pink_noise
from live_eval.speech.boundaries import annotated_boundaries
from live_eval.speech.synthesis import MAX_SPEED, MIN_SPEED, Voice
from live_eval.timing import audible_stretches
from live_eval.types import Anchor, SpeechBoundaries, SpeechKind, SpokenPart

__all__ = [
    "LONGEST_SILENCE_MS",
    "RATE_HZ",
    "STIMULI_VERSION",
    "Composer",
    "Gap",
    "Line",
    "Noise",
    "NoiseKind",
    "Piece",
    "Recorded",
    "Say",
    "TrialScript",
    "write_stimuli",
]

STIMULI_VERSION: Final = 3
"""Version of the stimuli; results of different versions are not comparable."""
LONGEST_SILENCE_MS: Final = 80
"""Maximum length of the voice's own pauses; strict detectors extend them by up to 100 ms of faint audio."""
RATE_HZ = 24_000
_OTHER_VOICE = 0.8
"""Sample rate of the other voice relative to the bundled voice; a lower rate sounds like a larger speaker."""
_MANIFEST = "manifest.jsonl"
_LONGEST_NAME = 60  # in characters of up to 4 bytes; file names have at most 255 bytes


@dataclass(frozen=True, slots=True)
class Say:
    """Words spoken by the bundled voice.

    Args:
        speed: Speed factor; 1 for the voice's natural pace.
        other: Whether to use another speaker.
        gain_db: Gain relative to the voice's own level.
    """

    text: str
    speed: float = 1.0
    other: bool = False
    gain_db: float = 0.0


@dataclass(frozen=True, slots=True)
class Gap:
    """Digital silence, exact to the sample."""

    ms: int


class NoiseKind(StrEnum):
    """Synthetic non-speech sounds."""

    COUGH = "cough"
    """Two bursts of pink noise that decay within 120 ms."""
    BURST = "burst"
    """Pink noise that begins and ends abruptly."""


@dataclass(frozen=True, slots=True)
class Noise:
    """A non-speech sound.

    Args:
        dbfs: RMS level.
    """

    kind: NoiseKind
    ms: int
    dbfs: float
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Recorded:
    """A user's recording of a whole utterance.

    Args:
        boundaries: Speech boundaries; None to let the run detect them.
        excerpt: Whether the utterance is only the stretch between the boundaries.
    """

    path: Path
    text: str = ""
    boundaries: SpeechBoundaries | None = None
    parts: tuple[SpokenPart, ...] = ()
    excerpt: bool = False


Piece: TypeAlias = Say | Gap | Noise | Recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One utterance of a trial.

    Args:
        pieces: Pieces of the utterance, in order.
        speech: Expected treatment by the endpoint.
        anchor: Planned start; None to start the session, or to follow the reply after a natural pause.
        reply: Reply for a scripted endpoint; empty for none.
    """

    pieces: tuple[Piece, ...]
    speech: SpeechKind = SpeechKind.TURN
    anchor: Anchor | None = None
    reply: str = ""

    @property
    def text(self) -> str:
        """The utterance's text."""
        return " ".join(piece.text for piece in self.pieces if isinstance(piece, Say | Recorded))


@dataclass(frozen=True, slots=True)
class TrialScript:
    """A trial and its utterances in order."""

    trial: Trial
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """An utterance: int16 mono, shape (samples,), at 24_000 Hz, and its audible parts, in order."""

    pcm: NDArray[np.int16]
    parts: tuple[SpokenPart, ...]


class _Sound(NamedTuple):
    """The samples of a piece, and its audible segments as half-open sample ranges."""

    pcm: NDArray[np.int16]
    stretches: Sequence[tuple[int, int]]


class Composer:
    """Compose recordings from pieces; equal pieces produce equal samples.

    Raises:
        UsageError: The bundled voice is missing; the message contains the install command.
    """

    def __init__(self) -> None:
        self._voice = Voice()
        self._spoken: dict[Say, _Sound] = {}

    def compose(self, pieces: Sequence[Piece]) -> Recording:
        """Join pieces into one recording.

        Raises:
            UsageError: The recording is silent.
        """
        sounds: list[NDArray[np.int16]] = []
        parts: list[SpokenPart] = []
        at = 0
        for piece in pieces:
            pcm, stretches = self._sound(piece)
            # The assignment of words to parts is unknown.
            text = piece.text if isinstance(piece, Say) and len(stretches) == 1 else ""
            parts += [SpokenPart(_ns(at + begin), _ns(at + end), text) for begin, end in stretches]
            sounds.append(pcm)
            at += len(pcm)
        if not parts:
            raise UsageError(f"expected an audible utterance, got {pieces!r}")
        return Recording(np.concatenate(sounds), tuple(parts))

    def _sound(self, piece: Piece) -> _Sound:
        match piece:
            case Gap(ms):
                return _Sound(np.zeros(ms * RATE_HZ // 1000, np.int16), [])
            case Noise():
                noise = _noise(piece)
                return _Sound(noise, [(0, len(noise))])
            case Say():
                if piece not in self._spoken:
                    self._spoken[piece] = self._say(piece)
                return self._spoken[piece]
            case Recorded():
                raise UsageError(f"{piece.path}: a recording must be the only piece of its utterance")

    def _say(self, piece: Say) -> _Sound:
        speed = piece.speed / _OTHER_VOICE if piece.other else piece.speed
        audio = self._voice.speak(piece.text, speed=min(max(speed, MIN_SPEED), MAX_SPEED))
        if piece.other:
            audio = resample(Audio(audio.samples, round(audio.rate_hz * _OTHER_VOICE)), RATE_HZ)
        pcm = float_to_int16(audio.samples * np.float32(10 ** (piece.gain_db / 20)))
        if not (stretches := audible_stretches(pcm, RATE_HZ)):
            raise UsageError(f"expected words to speak, got {piece.text!r}, which is silent")
        return _without_long_silences(pcm, stretches)


def _without_long_silences(pcm: NDArray[np.int16], stretches: Sequence[tuple[int, int]]) -> _Sound:
    """Return speech from its first to its last audible segment, with long silences shortened."""
    most = LONGEST_SILENCE_MS * RATE_HZ // 1000
    kept: list[NDArray[np.int16]] = []
    placed: list[tuple[int, int]] = []
    at, before = 0, stretches[0][0]
    for begin, end in stretches:
        silence = min(begin - before, most)
        head = silence // 2
        kept += [pcm[before : before + head], pcm[begin - (silence - head) : end]]
        placed.append((at + silence, at + silence + end - begin))
        at, before = placed[-1][1], end
    return _Sound(np.concatenate(kept), placed)


def _noise(piece: Noise) -> NDArray[np.int16]:
    samples = piece.ms * RATE_HZ // 1000
    noise = pink_noise(samples, RATE_HZ, np.random.default_rng(piece.seed))
    if piece.kind is NoiseKind.COUGH:
        since_s = np.arange(samples) % -(-samples // 2) / RATE_HZ
        noise *= np.exp(-since_s / 0.03)
    noise /= np.sqrt(np.mean(noise**2))
    return float_to_int16((noise * 10 ** (piece.dbfs / 20)).astype(np.float32))


def write_stimuli(scripts: Iterable[TrialScript], folder: Path) -> Path:
    """Write trials as a dialogue manifest with recordings, and return the manifest.

    Raises:
        UsageError: The bundled voice is missing.
    """
    private_folder(folder)
    composer: Composer | None = None
    written: dict[tuple[Piece, ...], dict[str, Any]] = {}
    rows = []
    for script in scripts:
        turns = []
        for line in script.lines:
            if line.pieces not in written:
                match line.pieces:
                    case (Recorded() as recorded,):
                        written[line.pieces] = _copy(recorded, folder)
                    case _:
                        composer = composer or Composer()
                        written[line.pieces] = _write(composer.compose(line.pieces), line, folder)
            turns.append({**written[line.pieces], **_columns(line)})
        rows.append({"id": script.trial.trial_id, "topic": script.trial.probe, "turns": turns})
    path = folder / _MANIFEST
    with atomic_text(path) as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def _write(recording: Recording, line: Line, folder: Path) -> dict[str, Any]:
    words = "-".join(re.findall("[a-z]+", line.text.lower())[:4])
    name = f"{words or 'sound'}-{zlib.crc32(repr((STIMULI_VERSION, line.pieces)).encode()):08x}.flac"
    write_flac(folder / name, recording.pcm, RATE_HZ)
    first, last = recording.parts[0], recording.parts[-1]
    return {"audio": name, **_boundary_columns(first.onset_ns, last.end_ns, recording.parts)}


def _copy(recorded: Recorded, folder: Path) -> dict[str, Any]:
    """Copy a recording unchanged, or cut an excerpt from it, and return its manifest columns.

    A recording that is missing, unreadable or shorter than its boundaries fails its turn.
    """
    if recorded.excerpt and recorded.boundaries is not None:
        cut = _cut(recorded.path, recorded.boundaries, folder)
        if cut is not None:
            return cut
    name = _file_name(str(recorded.path), recorded.path.name)
    if recorded.path.is_file():
        with atomic_write(folder / name) as part:
            shutil.copyfile(recorded.path, part)
    found, parts = recorded.boundaries, recorded.parts
    if found is not None:
        return {"audio": name, **_boundary_columns(found.onset_ns, found.voice_end_ns, parts)}
    columns = _boundary_columns(parts[0].onset_ns, parts[-1].end_ns, parts) if parts else {}
    return {"audio": name, **columns}


def _cut(path: Path, bounds: SpeechBoundaries, folder: Path) -> dict[str, Any] | None:
    """Write the audible stretch within an excerpt's boundaries; return None if it cannot be read.

    Of a silent excerpt, a file without samples is written, so its turn fails (``audio_empty``).
    """
    try:
        audio = read_audio(path).audio
        bounds = annotated_boundaries(bounds, audio.duration_ns)
    except TurnError:
        return None
    audio = resample(audio, RATE_HZ)
    begin, end = (round(at * RATE_HZ / 1e9) for at in (bounds.onset_ns, bounds.voice_end_ns))
    pcm = float_to_int16(audio.samples[begin:end])
    key = repr((str(path), begin, end))
    if not (stretches := audible_stretches(pcm, RATE_HZ)):
        name = _file_name(key, f"{path.stem}-silent.wav")
        with atomic_write(folder / name) as part:
            part.write_bytes(encode_wav(pcm[:0], RATE_HZ))
        return {"audio": name}
    pcm = pcm[stretches[0][0] : stretches[-1][1]]
    name = _file_name(key, f"{path.stem}.flac")
    write_flac(folder / name, pcm, RATE_HZ)
    return {"audio": name, **_boundary_columns(0, _ns(len(pcm)), ())}


def _file_name(key: str, name: str) -> str:
    return f"own-{zlib.crc32(key.encode()):08x}-{name[-_LONGEST_NAME:]}"


def _boundary_columns(onset_ns: int, end_ns: int, parts: Sequence[SpokenPart]) -> dict[str, Any]:
    listed = [
        {"onset_ms": part.onset_ns / 1e6, "end_ms": part.end_ns / 1e6, "text": part.text} for part in parts
    ]
    return {
        "onset_ms": onset_ns / 1e6,
        "voice_end_ms": end_ns / 1e6,
        **({"parts": listed} if len(parts) > 1 else {}),
    }


def _columns(line: Line) -> dict[str, Any]:
    columns = {
        "text": line.text,
        "reference_text": line.reply,
        "speech": line.speech.value,
        "anchor": str(line.anchor) if line.anchor is not None else "",
    }
    return {name: value for name, value in columns.items() if value}


def _ns(sample: int) -> int:
    return sample * 1_000_000_000 // RATE_HZ
