"""A recording of speech."""

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.audio import read_audio, resample
from live_eval.data import DataOptions, load, sample_path
from live_eval.types import Variant

RATE = 24_000


@pytest.fixture(scope="module")
def speech() -> NDArray[np.float32]:
    """A neutral take of the bundled sample, gated where it is loud on both sides."""
    cases = load(sample_path(), DataOptions()).cases
    neutral = next(case for case in cases if case.variant is Variant.NEUTRAL)
    samples = resample(read_audio(neutral.audio_path).audio, RATE).samples
    frame = RATE // 100
    level = np.sqrt((samples[: len(samples) // frame * frame].reshape(-1, frame) ** 2).mean(axis=1))
    loud = np.flatnonzero(level > level.max() / 4)
    return samples[loud[0] * frame : (loud[-1] + 1) * frame]
