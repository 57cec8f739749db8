"""Prepare a run's recordings: find speech boundaries before timing starts, and cut frames."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

import pybase64

from live_eval.audio import Audio, frames_of, read_audio, resample
from live_eval.errors import FailureKind, TurnError, UsageError
from live_eval.impair import Impairment
from live_eval.impair.recording import impair_recording
from live_eval.registry import ClientSpec
from live_eval.run.run_file import RunConfig
from live_eval.session import Utterance
from live_eval.session.event_loop import describe
from live_eval.speech.boundaries import BoundaryCache, case_boundaries
from live_eval.speech.recognition import Recogniser, available
from live_eval.types import Case, Failure, SpeechBoundaries

__all__ = ["PlayableCase", "Recordings"]


@dataclass(frozen=True, slots=True, eq=False)
class PlayableCase:
    """A case whose recording is ready to stream."""

    audio: Audio  # audio at the endpoint's rate
    utterance: Utterance
    warnings: Sequence[Failure]  # defects of the file


class Recordings:
    """Read recordings in threads outside the event loop."""

    def __init__(self, config: RunConfig, spec: ClientSpec) -> None:
        self._config = config
        self._spec = spec
        self._max_s = config.data.max_recording
        self._recogniser: Recogniser | None = None
        self._loading: Future[Recogniser | None] | None = None
        self._cache = BoundaryCache()
        self._boundaries: dict[str, SpeechBoundaries | TurnError] = {}
        self._threads = ThreadPoolExecutor(2, "reader")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for reads in progress."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def begin_loading(self) -> None:
        """Load the recogniser in a thread, so that `prepare` does not need to."""
        self._loading = self._threads.submit(self._load_recogniser)

    async def prepare(self, cases: Iterable[Case], prepared: Callable[[int, int], None]) -> None:
        """Find each case's speech boundaries; call `prepared` with the numbers of finished and of all cases.

        Raises:
            UsageError: Speech boundaries cannot be found on this machine.
        """
        distinct = {case.case_id: case for case in cases}
        loop = asyncio.get_running_loop()
        if self._recogniser is None:
            loading = self._loading or self._threads.submit(self._load_recogniser)
            self._recogniser = await asyncio.wrap_future(loading)
        for number, case in enumerate(distinct.values(), 1):
            self._boundaries[case.case_id] = await loop.run_in_executor(self._threads, self._find, case)
            prepared(number, len(distinct))

    async def transcribe(self, audio: Audio) -> str | None:
        """Return a recording's transcript; None without a recogniser. Call `prepare` first.

        For the recording that was prepared last, it is the transcript from which its boundaries were found.
        """
        if self._recogniser is None:
            return None
        loop = asyncio.get_running_loop()
        return (await loop.run_in_executor(self._threads, self._recogniser.transcribe, audio)).text

    def find(self, cases: Iterable[Case]) -> Iterator[SpeechBoundaries | TurnError]:
        """Yield each case's speech boundaries, or the reason why it cannot be run.

        Call it outside the event loop, because it blocks while it reads a case.

        Raises:
            UsageError: Speech boundaries cannot be found on this machine.
        """
        self._recogniser = self._load_recogniser()
        yield from map(self._find, cases)

    async def load(self, case: Case, impairment: Impairment | None = None) -> PlayableCase:
        """Read a prepared case's recording, impair it with the turn's seed, and cut it into frames.

        Raises:
            TurnError: The recording cannot be used.
        """
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._load, case, impairment)

    async def base64(self, case: Case) -> str:
        """Return a recording as base64 PCM, int16 mono at the endpoint's rate.

        Raises:
            TurnError: The recording cannot be used.
        """

        def read() -> str:
            if case.problem is not None:
                raise TurnError(FailureKind.CASE_UNUSABLE, case.problem)
            audio = resample(read_audio(case.audio_path, max_s=self._max_s).audio, self._spec.input_rate_hz)
            return pybase64.b64encode_as_string(audio.int16().tobytes())

        return await asyncio.get_running_loop().run_in_executor(self._threads, read)

    def _load(self, case: Case, impairment: Impairment | None) -> PlayableCase:
        boundaries = self._boundaries[case.case_id]
        if isinstance(boundaries, TurnError):
            raise boundaries
        rate_hz, frame_ms = self._spec.input_rate_hz, self._spec.frame_ms
        file = read_audio(case.audio_path, max_s=self._max_s)
        audio = resample(file.audio, rate_hz)
        background: list[bytes] = []
        frame_samples = rate_hz * frame_ms // 1000
        if impairment is not None and impairment.on_audio:
            impaired = impair_recording(audio, boundaries, impairment)
            audio, boundaries = impaired.audio, impaired.boundaries
            if impaired.background is not None:
                background = frames_of(impaired.background.int16(), frame_samples)
        utterance = Utterance(
            frames=frames_of(audio.int16(), frame_samples),
            frame_ns=frame_ms * 1_000_000,
            boundaries=boundaries,
            background=background,
            speech=case.speech,
            anchor=case.anchor,
        )
        warnings = [Failure(FailureKind.AUDIO_ODD, f"{case.audio_path.name}: {note}") for note in file.notes]
        return PlayableCase(audio, utterance, warnings)

    def _load_recogniser(self) -> Recogniser | None:
        word_times = self._config.turns.word_times
        problem = available()
        if word_times == "on" and problem:
            raise UsageError(f"turns.word_times is on, but {problem}")
        return Recogniser() if word_times != "off" and not problem else None

    def _find(self, case: Case) -> SpeechBoundaries | TurnError:
        if case.problem is not None:
            kind = FailureKind.AUDIO_MISSING if case.lacks_recording else FailureKind.CASE_UNUSABLE
            return TurnError(kind, case.problem)
        try:
            audio = read_audio(case.audio_path, max_s=self._max_s).audio
            return case_boundaries(case, audio, recogniser=self._recogniser, cache=self._cache)
        except TurnError as error:
            return error
        except UsageError:
            raise  # no case can be prepared on this machine
        except Exception as error:  # a bug must fail only this case, not the whole run
            return TurnError(FailureKind.INTERNAL, f"speech boundaries: {describe(error)}")
