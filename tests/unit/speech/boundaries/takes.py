"""Create cases and audio with speech at known positions."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Audio, resample
from live_eval.types import Case, Variant

RATE = 24_000


def placed(speech: NDArray[np.float32], before_ms: int, after_ms: int, rate_hz: int = RATE) -> Audio:
    samples = np.concatenate((np.zeros(before_ms * RATE // 1000), speech, np.zeros(after_ms * RATE // 1000)))
    return resample(Audio(samples.astype(np.float32), RATE), rate_hz)


def case(path: Path, **changes: object) -> Case:
    base = Case(case_id="a", script_id="a", variant=Variant.TARGET, audio_path=path)
    return replace(base, **changes)  # type: ignore[arg-type]
